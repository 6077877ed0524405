//! Events as lines of a system event log.
//!
//! [`SystemEvent`]s ─▶ **write** ─▶ text that [`SystemLog::read`] reads back

use std::fmt;
use std::io;

use super::SystemLog;
use crate::event::{Call, Mapping, PatchCode, Placement, State, SystemEvent};

impl SystemLog {
    /// Writes events, one line each. Problems are not written.
    ///
    /// # Errors
    ///
    /// If the output reports an error.
    pub fn write(events: &[SystemEvent], mut output: impl io::Write) -> io::Result<()> {
        events.iter().try_for_each(|event| writeln!(output, "{event}"))
    }
}

impl fmt::Display for SystemLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events.iter().try_for_each(|event| writeln!(f, "{event}"))
    }
}

/// The line of a log.
impl fmt::Display for SystemEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.time {
            Some(time) => write!(f, "{time} {}", self.call),
            None => write!(f, "- {}", self.call),
        }
    }
}

impl Call {
    /// The name of the call in a log.
    pub fn name(&self) -> &'static str {
        match self {
            Call::Process { .. } => "declare_process",
            Call::Library { .. } => "declare_library",
            Call::Thread { .. } => "declare_thread",
            Call::Patch { .. } => "patch_code",
            Call::Asid { .. } => "declare_asid",
            Call::Trace { .. } => "define_trace",
            Call::Fork { .. } => "fork_process",
            Call::Exec { .. } => "exec_process",
            Call::Switch { .. } => "declare_running",
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name())?;
        match self {
            Call::Process { state, pid, mapping } | Call::Library { state, pid, mapping } => {
                write!(f, "{state}, {pid}, ")?;
                write_mapping(f, mapping)?;
            }
            Call::Thread { state, tid, pid } => write!(f, "{state}, {tid}, {pid}")?,
            Call::Patch { pid, address, length, code, name } => {
                write!(f, "{pid}, {address:#x}, {}, ", code.length(*length))?;
                write_code(f, *length, code)?;
                if !name.is_empty() {
                    write!(f, ", {}", Quoted(name))?;
                }
            }
            Call::Asid { state, asid, pid } => write!(f, "{state}, {asid}, {pid}")?,
            Call::Trace { state, id, source, registers } => {
                write!(f, "{state}, {id:#x}, {}", Quoted(source))?;
                registers.iter().try_for_each(|(name, value)| write!(f, ", {}={value:#x}", Name(name)))?;
            }
            Call::Fork { parent, child } => write!(f, "{parent}, {child}")?,
            Call::Exec { pid } => write!(f, "{pid}")?,
            Call::Switch { core, tid } => write!(f, "{}, {core}, {tid}", State::Current)?,
        }
        f.write_str(")")
    }
}

impl PatchCode {
    /// Number of bytes of a patch with this length: no more than it has code.
    pub(crate) fn length(&self, length: u64) -> u64 {
        match self {
            PatchCode::Bytes(bytes) => length.min(bytes.len() as u64),
            PatchCode::Id(_) | PatchCode::Absent => length,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Start => "START",
            State::End => "END",
            State::Current => "CURRENT",
        })
    }
}

fn write_mapping(f: &mut fmt::Formatter<'_>, mapping: &Mapping) -> fmt::Result {
    let names = (Quoted(&mapping.image), Quoted(&mapping.build_id));
    match mapping.placement {
        Placement::Base(address) => write!(f, "{address:#x}, {}, {}", names.0, names.1),
        Placement::Part { address, length, offset } => {
            write!(f, "{address:#x}, {}, {}, {offset:#x}, {length:#x}", names.0, names.1)
        }
    }
}

fn write_code(f: &mut fmt::Formatter<'_>, length: u64, code: &PatchCode) -> fmt::Result {
    match code {
        PatchCode::Absent => f.write_str("None"),
        PatchCode::Id(name) => write!(f, "{}", Quoted(name)),
        PatchCode::Bytes(bytes) => {
            let count = usize::try_from(length).unwrap_or(usize::MAX);
            f.write_str("hex\"")?;
            bytes.iter().take(count).try_for_each(|byte| write!(f, "{byte:02x}"))?;
            f.write_str("\"")
        }
    }
}

/// A string in quotes. Characters that would end the line or the string are escaped.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                character if character.is_control() => write!(f, "\\u{{{:x}}}", u32::from(character))?,
                character => write!(f, "{character}")?,
            }
        }
        f.write_str("\"")
    }
}

/// A name, in quotes only where it needs them.
struct Name<'a>(&'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = !self.0.is_empty() && self.0.chars().all(super::parse::is_word);
        if is_plain { f.write_str(self.0) } else { Quoted(self.0).fmt(f) }
    }
}
