//! The context of execution and the targets of branches, shared by all protocols.

use core::fmt;

use crate::fields::{Fields, Value};

/// The context that the PE executes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Context {
    /// The Exception level, 0 to 3, or [`UNKNOWN_EL`](Self::UNKNOWN_EL). The M profile has none:
    /// [`THREAD`](Self::THREAD) or [`HANDLER`](Self::HANDLER).
    pub el: u8,
    /// AArch64 rather than AArch32.
    pub aarch64: bool,
    /// The Security state.
    pub security: Security,
    /// The virtual context identifier: when traced or, in a packet, when the packet carries one.
    pub vmid: Option<u32>,
    /// The context identifier, likewise.
    pub context_id: Option<u32>,
}

impl Context {
    /// The Exception level of a trace that does not contain it.
    pub const UNKNOWN_EL: u8 = 0xff;
    /// Thread mode of the M profile.
    pub const THREAD: u8 = 0xfd;
    /// Handler mode of the M profile.
    pub const HANDLER: u8 = 0xfe;

    /// The Exception level, if there are levels and the trace contains it.
    pub fn level(&self) -> Option<u8> {
        (!matches!(self.el, Self::UNKNOWN_EL | Self::THREAD | Self::HANDLER)).then_some(self.el)
    }

    /// The mode of the M profile.
    pub fn mode(&self) -> Option<ProcessorMode> {
        ProcessorMode::of(self.el)
    }

    /// Lists the fields.
    pub fn fields(&self, out: &mut impl Fields) {
        out.nullable("el", self.level());
        if let Some(mode) = self.mode() {
            out.field("mode", Value::Text(&mode.name()));
        }
        out.field("security", Value::Text(&self.security.name()));
        out.field("aarch64", Value::Flag(self.aarch64));
        out.optional("contextid", self.context_id);
        out.optional("vmid", self.vmid);
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = if self.aarch64 { "AArch64" } else { "AArch32" };
        match (self.mode(), self.level()) {
            (Some(mode), _) => write!(f, "{mode} {} {width}", self.security.name())?,
            (None, Some(level)) => write!(f, "EL{level} {} {width}", self.security.name())?,
            (None, None) => write!(f, "EL? {} {width}", self.security.name())?,
        }
        self.vmid.map_or(Ok(()), |vmid| write!(f, " vmid {vmid:#x}"))?;
        self.context_id.map_or(Ok(()), |id| write!(f, " contextid {id:#x}"))
    }
}

/// A mode of the M profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProcessorMode {
    /// Thread mode, privileged or not.
    Thread,
    /// Handler mode: an exception is being handled.
    Handler,
}

impl ProcessorMode {
    /// The mode that [`Context::el`] stands for.
    pub fn of(el: u8) -> Option<Self> {
        match el {
            Context::THREAD => Some(ProcessorMode::Thread),
            Context::HANDLER => Some(ProcessorMode::Handler),
            _ => None,
        }
    }

    /// The word that JSON uses.
    pub fn name(self) -> &'static str {
        match self {
            ProcessorMode::Thread => "thread",
            ProcessorMode::Handler => "handler",
        }
    }
}

impl fmt::Display for ProcessorMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProcessorMode::Thread => "Thread",
            ProcessorMode::Handler => "Handler",
        })
    }
}

/// A Security state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Security {
    /// Secure.
    Secure,
    /// Non-secure.
    NonSecure,
    /// Root (FEAT_RME).
    Root,
    /// Realm (FEAT_RME).
    Realm,
}

impl Security {
    /// The word that the command line and JSON use.
    pub fn name(self) -> &'static str {
        match self {
            Security::Secure => "secure",
            Security::NonSecure => "nonsecure",
            Security::Root => "root",
            Security::Realm => "realm",
        }
    }
}

/// The instruction set of an address, as far as a trace distinguishes instruction sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SubIsa {
    /// A64 or A32: four-byte instructions.
    #[default]
    Is0,
    /// T32: two-byte steps.
    Is1,
}

impl SubIsa {
    /// Number of low address bits that are always zero.
    pub const fn shift(self) -> u8 {
        match self {
            SubIsa::Is0 => 2,
            SubIsa::Is1 => 1,
        }
    }
}

impl fmt::Display for SubIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SubIsa::Is0 => "IS0",
            SubIsa::Is1 => "IS1",
        })
    }
}

/// An instruction set whose code cannot be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OtherIsa {
    /// Java byte code.
    Jazelle,
    /// T32 with other meanings of some instructions.
    ThumbEe,
}

impl OtherIsa {
    /// The word that the command line and JSON use.
    pub fn name(self) -> &'static str {
        match self {
            OtherIsa::Jazelle => "jazelle",
            OtherIsa::ThumbEe => "t32ee",
        }
    }
}

/// A complete address and its instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Target {
    /// The address.
    pub address: u64,
    /// The instruction set.
    pub isa: SubIsa,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x} {}", self.address, self.isa)
    }
}
