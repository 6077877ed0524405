//! Packets as text: one short line each, as `unspool packets` prints it after the offset.

use core::fmt;

use super::packet::{Address, AddressIsa, Branch, BranchInfo, InstructionSync, Packet, SyncReason};
use crate::exception::ExceptionNumber;

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::AlignmentSync => f.write_str("alignment sync"),
            Packet::InstructionSync(sync) => sync.fmt(f),
            Packet::Branch(branch) => branch.fmt(f),
            Packet::Atoms { atoms, cycles } => write!(f, "atoms {atoms}{}", After(*cycles)),
            Packet::WaypointUpdate { address, alternative } => {
                write!(f, "waypoint update {address}")?;
                f.write_str(if *alternative == Some(true) { " AltIS" } else { "" })
            }
            Packet::Trigger => f.write_str("trigger"),
            Packet::ContextId(id) => write!(f, "contextid {id:#x}"),
            Packet::Vmid(id) => write!(f, "vmid {id:#x}"),
            Packet::Timestamp { value, bits, clock_changed, cycles } => {
                write!(f, "timestamp {value:#x} ({bits} bits){}", After(*cycles))?;
                f.write_str(if *clock_changed { ", clock changed" } else { "" })
            }
            Packet::ExceptionReturn => f.write_str("exception return"),
            Packet::Ignore => f.write_str("ignore"),
        }
    }
}

/// A cycle count at the end of a line.
struct After(Option<u32>);

impl fmt::Display for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |cycles| write!(f, " after {cycles} cycles"))
    }
}

impl fmt::Display for InstructionSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let isa = if self.thumb { AddressIsa::Thumb } else { AddressIsa::Arm };
        let reason = match self.reason {
            SyncReason::Periodic => "periodic",
            SyncReason::TraceEnabled => "trace enabled",
            SyncReason::AfterOverflow => "after overflow",
            SyncReason::DebugExit => "debug exit",
        };
        write!(f, "instruction sync, {reason}, {:#010x} {}", self.address, isa.name())?;
        write!(f, "{}", State { nonsecure: self.nonsecure, alternative: self.alternative, hyp: Some(self.hyp) })?;
        self.context_id.map_or(Ok(()), |id| write!(f, " contextid {id:#x}"))?;
        After(self.cycles).fmt(f)
    }
}

impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "branch {}", self.address)?;
        if let Some(BranchInfo { exception, nonsecure, alternative, hyp }) = self.info {
            write!(f, "{}", State { nonsecure, alternative, hyp })?;
            if exception > 0 {
                write!(f, ", exception {exception}")?;
                ExceptionNumber::armv7(exception).name().map_or(Ok(()), |name| write!(f, " ({name})"))?;
            }
        }
        After(self.cycles).fmt(f)
    }
}

/// The bits of a context.
struct State {
    nonsecure: bool,
    alternative: bool,
    hyp: Option<bool>,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.nonsecure { " nonsecure" } else { " secure" })?;
        f.write_str(if self.hyp == Some(true) { " Hyp" } else { "" })?;
        f.write_str(if self.alternative { " AltIS" } else { "" })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.isa {
            Some(isa) => write!(f, "{:#010x} {}", self.steps << isa.shift(), isa.name()),
            None => write!(f, "..{:#x} ({} bits)", self.steps, self.bits()),
        }
    }
}
