//! State of the PE: what the source reports, what follows from instructions, and what the user assumes.

use unspool_model::{Context, Modes, Security};

use super::super::builder::{Process, State};
use super::opcode_info;

/// Whether a context has to be written before the next instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Due {
    #[default]
    No,
    /// If it differs from the last one.
    IfNew,
    Yes,
}

/// Known state of the PE.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Last report of the source.
    reported: Context,
    assumed: Context,
    /// Which stack pointer is used, reported or derived.
    handler: Option<bool>,
    /// Reported, derived or assumed.
    modes: Modes,
    /// The source reports stack pointers and modes, so nothing is derived.
    reports_handler: bool,
    reports_modes: bool,
    /// A context is to be written.
    pub(super) due: Due,
    /// Execution was redirected after the last context and the last instruction.
    pub(super) is_redirected: bool,
    /// The pending context is complete.
    is_whole: bool,
    /// The pending context does not state whether it is AArch64.
    is_vague: bool,
}

impl Known {
    pub(super) fn new(assumed: Context) -> Self {
        Self { assumed, modes: assumed.modes.unwrap_or_default(), due: Due::Yes, ..Self::default() }
    }

    /// The source reports a context.
    pub(super) fn learn(&mut self, context: &Context, is_basic: bool) {
        let before = self.reported;
        self.reported = context.over(&before);
        let is_whole = is_whole(context);
        if is_whole {
            // A context that is otherwise complete has no process if it names none.
            (self.reported.process, self.reported.thread) = (context.process, context.thread);
        }
        (self.is_whole, self.is_vague) = (is_whole, is_whole && context.is_aarch64.is_none());
        let is_derived = self.is_redirected && !self.reports_handler;
        if let Some(handler) = context.is_handler {
            (self.handler, self.reports_handler) = (Some(handler), true);
        } else if (self.reported.level != before.level || self.is_redirected) && !is_derived
            || context.is_aarch64 == Some(false)
        {
            // AArch32 has no such choice; a source that reports it elsewhere is silent here.
            self.handler = None;
        }
        if let Some(modes) = context.modes {
            (self.modes, self.reports_modes) = (modes, true);
        }
        let must = is_basic || self.is_redirected;
        self.due = self.due.max(if must { Due::Yes } else { Due::IfNew });
    }

    /// A complete context is pending: it can be written before what follows.
    pub(super) fn waits(&self) -> bool {
        self.due != Due::No && self.is_whole
    }

    /// The pending context does not state whether it is AArch64.
    pub(super) fn is_vague(&self) -> bool {
        self.waits() && self.is_vague
    }

    /// An instruction of AArch64 or AArch32 is executed.
    #[inline]
    pub(super) fn execute(&mut self, is_aarch64: bool) {
        let before = self.reported.is_aarch64.replace(is_aarch64);
        if before == Some(!is_aarch64) {
            self.due = Due::Yes;
        }
    }

    pub(super) fn is_aarch64(&self) -> bool {
        self.reported.is_aarch64 == Some(true)
    }

    pub(super) fn is_aarch32(&self) -> bool {
        self.reported.is_aarch64 == Some(false)
    }

    /// An exception was taken, which selects the stack pointer of the Exception level; or it returned.
    pub(super) fn redirect(&mut self, is_exception: bool) {
        self.is_redirected = true;
        if !self.reports_handler {
            self.handler = is_exception.then_some(true);
        }
    }

    /// An instruction may have set something that the source does not report.
    pub(super) fn set(&mut self, opcode: u32) {
        let (mut handler, mut modes) = (self.handler, self.modes);
        opcode_info::set(opcode, &mut handler, &mut modes);
        if !self.reports_handler && handler != self.handler {
            (self.handler, self.due) = (handler, self.due.max(Due::IfNew));
        }
        if !self.reports_modes && modes != self.modes {
            (self.modes, self.due) = (modes, self.due.max(Due::IfNew));
        }
    }

    /// The vector length is known.
    pub(super) fn has_modes(&self) -> bool {
        self.reports_modes || self.assumed.modes.is_some()
    }

    /// A thread is known, and its process is not.
    pub(super) fn is_thread_alone(&self) -> bool {
        self.reported.thread.is_some() && self.reported.process.or(self.assumed.process).is_none()
    }

    pub(super) fn level(&self) -> Option<u8> {
        self.reported.level.or(self.assumed.level)
    }

    /// Whether the stack pointer is that of the current Exception level `el`.
    fn handler(&self, el: u8) -> Option<bool> {
        self.handler.or((el == 0).then_some(false)).or(self.assumed.is_handler)
    }

    /// The Exception level whose stack pointer is in use.
    pub(super) fn stack(&self) -> Option<u8> {
        let el = self.level()?;
        self.handler(el).map(|handler| if handler { el } else { 0 })
    }

    /// The state as the format has it, or why it is incomplete.
    pub(super) fn state(&self) -> Result<State, &'static str> {
        let el = self.level().ok_or("the Exception level is unknown: assume one (--assume el=0..3)")?;
        let secure = match self.reported.security.or(self.assumed.security) {
            Some(Security::Secure) => true,
            Some(Security::NonSecure) => false,
            Some(Security::Root | Security::Realm) => {
                return Err("ASTF has no Root and no Realm state: leave such instructions out");
            }
            None => return Err("the Security state is unknown: assume one (--assume security=secure|nonsecure)"),
        };
        let handler = self.handler(el).ok_or("the stack pointer in use is unknown: assume one (--assume sp=0|x)")?;
        Ok(State { el, secure, handler, ..self.rest() })
    }

    /// The known state in a mode that the format does not support.
    pub(super) fn unsupported(&self) -> State {
        let secure = self.reported.security.or(self.assumed.security) == Some(Security::Secure);
        let (el, handler) = (self.level().unwrap_or(0), self.handler.unwrap_or(false));
        State { el, secure, handler, unsupported: true, ..self.rest() }
    }

    fn rest(&self) -> State {
        let Modes { streaming, dit, ssbs, vector_length, tag_check_fault } = self.modes;
        let process = self.reported.process.or(self.assumed.process);
        let tid = self.reported.thread.or(self.assumed.thread);
        let process = process.map(|pid| Process { pid, tid });
        State { evl: vector_length, streaming, dit, ssbs, tag_check_fault, process, ..State::default() }
    }

    /// The context was written.
    pub(super) fn written(&mut self) {
        (self.due, self.is_whole, self.is_vague, self.is_redirected) = (Due::No, false, false, false);
    }
}

/// Whether a context has all that the format needs.
pub(super) fn is_whole(context: &Context) -> bool {
    context.level.is_some() && context.security.is_some()
}
