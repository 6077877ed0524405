//! The process and the thread on whose behalf code is executed, the kernel's included.

use std::collections::{BTreeSet, HashSet};

use unspool_capture::{Call, ContextFormat, ContextWidth, KERNEL, Pid};
use unspool_coresight::{Context, Security};

use super::{AddressSpaces, ContextIds, Map};
use crate::order::Owner;
use crate::program::moment::{Moment, Window};

/// A context without identifiers.
const UNKNOWN: Context = Context { el: 0, aarch64: true, security: Security::NonSecure, vmid: None, context_id: None };

impl AddressSpaces {
    /// The owner of what is executed in a context, at any Exception level. Without a context, what the stream or switches
    /// of its core show.
    pub(in crate::program) fn owner_of(&self, moment: &Moment<'_>, context: Option<&Context>) -> Owner {
        let process = match self.process(moment, context.unwrap_or(&UNKNOWN)) {
            Map::Process { pid, .. } => Some(pid),
            Map::Any(_) | Map::Unnamed => None,
        };
        let number = context.and_then(|context| moment.context_registers.number(context));
        let thread = moment.thread.or_else(|| match (self.context_ids.get(), number) {
            (Some(ContextIds::Format(format)), Some((value, width))) => thread_in(*format, value, width),
            _ => self.thread_on(moment.window, moment.core?),
        });
        Owner { process, thread }
    }

    /// The thread that a core executes in all of a window.
    fn thread_on(&self, window: Window, core: u32) -> Option<Pid> {
        let first = self.timeline.thread_on(core, window.before)?;
        let events = self.timeline.events().get(window.before..window.after)?;
        let is_other = |call: &Call| matches!(call, Call::Switch { core: on, tid } if *on == core && *tid != first);
        (!events.iter().any(|event| is_other(&event.call))).then_some(first)
    }

    /// The processes whose program has this file name, or this path. The program of a process is the file that an event
    /// names as such, or the first file in its memory; a copy of a process has the same one.
    pub(in crate::program) fn processes_named(&self, name: &str) -> Vec<Pid> {
        let is_named = |image: &str| image == name || image.rsplit(['/', '\\']).next() == Some(name);
        let mut found: BTreeSet<Pid> = BTreeSet::new();
        let mut has_program: HashSet<Pid> = HashSet::new();
        for event in self.timeline.events() {
            match &event.call {
                Call::Process { pid, mapping, .. } => {
                    has_program.insert(*pid);
                    found.extend(is_named(&mapping.image).then_some(*pid));
                }
                Call::Library { pid, mapping, .. } if *pid != KERNEL && has_program.insert(*pid) => {
                    found.extend(is_named(&mapping.image).then_some(*pid));
                }
                Call::Exec { pid } => {
                    has_program.remove(pid);
                }
                Call::Fork { parent, child } => {
                    found.extend(found.contains(parent).then_some(*child));
                    has_program.extend(has_program.contains(parent).then_some(*child));
                }
                _ => {}
            }
        }
        found.into_iter().collect()
    }
}

/// The thread of a context identifier. One that was traced in part may be that of several threads.
fn thread_in(format: ContextFormat, value: u32, width: ContextWidth) -> Option<Pid> {
    match format {
        _ if width != ContextWidth::Bits32 => None,
        ContextFormat::Tid => Some(value),
        ContextFormat::AsidTid => Some(value >> 8),
        _ => None,
    }
}
