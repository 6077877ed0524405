//! Packets as text: one short line each, as `unspool packets` prints it after the offset.

use core::fmt;

use super::element::{DataValue, OwnElement, Transfer};
use super::packet::{
    Branch, BranchException, DataAddress, ExceptionInformation, InstructionSync, PHeader, Packet, SyncReason,
};

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::AlignmentSync => f.write_str("alignment sync"),
            Packet::CycleCount { cycles } => write!(f, "cycle count {cycles}"),
            Packet::InstructionSync(sync) => sync.fmt(f),
            Packet::Trigger => f.write_str("trigger"),
            Packet::Vmid(vmid) => write!(f, "vmid {vmid:#x}"),
            Packet::StoreFailed => f.write_str("store failed"),
            Packet::Timestamp { value, bits, frequency_changed } => {
                write!(f, "timestamp {value:#x} ({bits} bits)")?;
                f.write_str(if *frequency_changed { ", clock frequency changed" } else { "" })
            }
            Packet::DataSuppressed => f.write_str("data suppressed"),
            Packet::Ignore => f.write_str("ignore"),
            Packet::ContextId(id) => write!(f, "context id {id:#x}"),
            Packet::ExceptionExit => f.write_str("exception exit"),
            Packet::ExceptionEntry => f.write_str("exception entry"),
            Packet::PHeader(header) => header.fmt(f),
            Packet::Branch(branch) => write!(f, "branch {branch}"),
            Packet::Data { first, address, value } => {
                f.write_str(transfer_name("data", *first))?;
                optional_address(f, *address)?;
                value.map_or(Ok(()), |value| write!(f, " value {value:#x}"))
            }
            Packet::Placeholder { tag, first, address } => {
                f.write_str(transfer_name("placeholder", *first))?;
                optional_address(f, *address)?;
                write!(f, " tag {tag}")
            }
            Packet::OutOfOrderData { tag, value } => {
                write!(f, "out-of-order data tag {tag}")?;
                value.map_or(Ok(()), |value| write!(f, " value {value:#x}"))
            }
            Packet::ValueNotTraced { first, address } => {
                f.write_str(transfer_name("value not traced", *first))?;
                optional_address(f, *address)
            }
        }
    }
}

fn transfer_name(kind: &str, first: bool) -> &str {
    match (kind, first) {
        ("data", true) => "first data",
        ("placeholder", true) => "first placeholder",
        ("value not traced", true) => "first value not traced",
        (kind, _) => kind,
    }
}

fn optional_address(f: &mut fmt::Formatter<'_>, address: Option<DataAddress>) -> fmt::Result {
    let Some(DataAddress { value, bits, big_endian }) = address else { return Ok(()) };
    let dots = if bits < 32 { ".." } else { "0x" };
    write!(f, " address {dots}{value:0width$x}", width = usize::from(bits).div_ceil(4))?;
    f.write_str(if big_endian == Some(true) { " big-endian" } else { "" })
}

impl fmt::Display for InstructionSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "instruction sync, {}", self.reason)?;
        self.cycles.map_or(Ok(()), |cycles| write!(f, ", {cycles} cycles"))?;
        self.target.map_or(Ok(()), |target| write!(f, ", {:#010x} {}", target.address, target.isa.name()))?;
        f.write_str(if self.non_secure { ", nonsecure" } else { "" })?;
        f.write_str(if self.hyp { ", Hyp" } else { "" })?;
        self.context_id.map_or(Ok(()), |id| write!(f, ", contextid {id:#x}"))?;
        self.next.map_or(Ok(()), |next| write!(f, ", load or store in progress, next {next}"))
    }
}

impl fmt::Display for SyncReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl SyncReason {
    /// The words of listings and JSON.
    pub fn name(self) -> &'static str {
        match self {
            SyncReason::Periodic => "periodic",
            SyncReason::Enabled => "tracing enabled",
            SyncReason::Overflow => "overflow",
            SyncReason::DebugExit => "debug exit",
        }
    }
}

impl fmt::Display for PHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PHeader::Format3 { cycles, executed } => {
                write!(f, "cycles {cycles}{}", if *executed { ", atoms E" } else { "" })
            }
            PHeader::Format4 { .. } => write!(f, "atoms {} in the same cycle", self.atoms()),
            _ => write!(f, "atoms {}", self.atoms()),
        }
    }
}

impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, bits, isa, exception } = self;
        match isa {
            Some(isa) => write!(f, "{:#010x} {}", value << isa.shift(), isa.name())?,
            None => write!(f, "..{value:#x} ({bits} bits)")?,
        }
        exception.map_or(Ok(()), |exception| write!(f, ", {exception}"))
    }
}

impl fmt::Display for BranchException {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BranchException::Information(information) => information.fmt(f),
            BranchException::Deprecated { code, canceled } => {
                write!(f, "deprecated exception {code}{}", if *canceled { ", canceled" } else { "" })
            }
        }
    }
}

impl fmt::Display for ExceptionInformation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exception {}", self.number)?;
        f.write_str(if self.canceled { ", canceled" } else { "" })?;
        f.write_str(if self.non_secure { ", nonsecure" } else { ", secure" })?;
        f.write_str(if self.alternative_isa { ", alternative instruction set" } else { "" })?;
        f.write_str(if self.hyp == Some(true) { ", Hyp" } else { "" })?;
        self.resume.map_or(Ok(()), |resume| write!(f, ", resume {resume}"))
    }
}

impl fmt::Display for OwnElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnElement::DebugExit => f.write_str("debug exit"),
            OwnElement::GapCycles(Some(cycles)) => write!(f, "gap of {cycles} cycles"),
            OwnElement::GapCycles(None) => f.write_str("gap of unknown cycles"),
            OwnElement::NewAddress => f.write_str("new address"),
            OwnElement::ExceptionEntry => f.write_str("exception entry"),
            OwnElement::Transfer(transfer) => transfer.fmt(f),
            OwnElement::LateValue { tag, value } => {
                write!(f, "late value tag {tag}")?;
                value.map_or(Ok(()), |value| write!(f, " {value:#x}"))
            }
            OwnElement::StoreFailed => f.write_str("store failed"),
            OwnElement::DataSuppressed => f.write_str("data suppressed"),
            OwnElement::ClockChange => f.write_str("clock frequency changed"),
        }
    }
}

impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.first { "first transfer" } else { "transfer" })?;
        self.address.map_or(Ok(()), |address| write!(f, " address {address:#010x}"))?;
        f.write_str(if self.big_endian { " big-endian" } else { "" })?;
        match self.value {
            DataValue::Traced(value) => write!(f, " value {value:#x}"),
            DataValue::Late { tag } => write!(f, " value follows with tag {tag}"),
            DataValue::NotTraced => f.write_str(" value not traced"),
        }
    }
}
