//! Packets and elements as text for people: one short line each, in the specification's words.
//!
//! Comes in: a packet or an element. Goes out: what `unspool packets` and `unspool elements` print behind the offset.

use core::fmt;

use super::Atoms;
use super::element::{self, Element, Target, exception_name};
use super::packet::{
    Address, ConditionalInstruction, ConditionalResult, Context, CycleCount, ExceptionAddress, Packet, SubIsa,
    TraceInfo,
};

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::AlignmentSync => f.write_str("alignment sync"),
            Packet::Discard => f.write_str("discard"),
            Packet::Overflow => f.write_str("overflow"),
            Packet::TraceInfo(info) => info.fmt(f),
            Packet::Timestamp { value, bits, cycles } => {
                write!(f, "timestamp {value:#x} ({bits} bits)")?;
                cycles.map_or(Ok(()), |cycles| write!(f, " after {cycles} cycles"))
            }
            Packet::TraceOn => f.write_str("trace on"),
            Packet::FunctionReturn => f.write_str("function return"),
            Packet::Exception { number, address, fault_pending } => {
                write!(f, "exception {number}")?;
                f.write_str(match address {
                    ExceptionAddress::Return => ", return address follows",
                    ExceptionAddress::TargetAndReturn => ", target and return address follows",
                })?;
                f.write_str(if *fault_pending == Some(true) { ", fault pending" } else { "" })
            }
            Packet::ExceptionReturn => f.write_str("exception return"),
            Packet::Instrumentation { el, value } => write!(f, "instrumentation EL{el} {value:#x}"),
            Packet::TransactionStart => f.write_str("transaction start"),
            Packet::TransactionCommit => f.write_str("transaction commit"),
            Packet::CycleCount(count) => count.fmt(f),
            Packet::NumberedDataSync(number) => write!(f, "data sync marker {number}"),
            Packet::UnnumberedDataSync(value) => write!(f, "unnumbered data sync marker {value}"),
            Packet::Commit { count } => write!(f, "commit {count}"),
            Packet::CancelFormat1 { count, mispredict } => {
                write!(f, "cancel {count}{}", if *mispredict { ", mispredict" } else { "" })
            }
            Packet::CancelFormat2(atoms) => write!(f, "{}cancel 1, mispredict", Leading(atoms.atoms())),
            Packet::CancelFormat3 { count, atom } => {
                write!(f, "{}cancel {count}, mispredict", Leading(Atoms::new(1, u8::from(*atom))))
            }
            Packet::Mispredict(atoms) => write!(f, "{}mispredict", Leading(atoms.atoms())),
            Packet::ConditionalInstruction(instruction) => instruction.fmt(f),
            Packet::ConditionalFlush => f.write_str("conditional flush"),
            Packet::ConditionalResult(result) => result.fmt(f),
            Packet::Ignore => f.write_str("ignore"),
            Packet::Event { mask } => Events(*mask).fmt(f),
            Packet::Context(None) => f.write_str("context as before"),
            Packet::Context(Some(context)) => write!(f, "context {context}"),
            Packet::AddressContext { address, context } => write!(f, "address {address}, context {context}"),
            Packet::TimestampMarker => f.write_str("timestamp marker"),
            Packet::Address(address) => write!(f, "address {address}"),
            Packet::Q { count, address } => {
                f.write_str("q")?;
                count.map_or(Ok(()), |count| write!(f, " {count} instructions"))?;
                address.map_or(Ok(()), |address| write!(f, ", address {address}"))
            }
            Packet::SourceAddress(address) => write!(f, "source address {address}"),
            Packet::Atoms(atoms) => write!(f, "atoms {atoms}"),
        }
    }
}

/// Atoms that come before the rest of a packet's text.
struct Leading(Atoms);

impl fmt::Display for Leading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "atoms {}, ", self.0) }
    }
}

impl fmt::Display for TraceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("trace info")?;
        self.info.map_or(Ok(()), |info| write!(f, " info {info:#x}"))?;
        self.key.map_or(Ok(()), |key| write!(f, " key {key}"))?;
        self.speculation.map_or(Ok(()), |depth| write!(f, " speculation {depth}"))?;
        self.cycle_threshold.map_or(Ok(()), |threshold| write!(f, " cycle threshold {threshold}"))
    }
}

impl fmt::Display for CycleCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CycleCount::Format1 { commit, cycles } => {
                f.write_str("cycle count")?;
                match cycles {
                    Some(cycles) => write!(f, " +{cycles}")?,
                    None => f.write_str(" unknown")?,
                }
                commit.map_or(Ok(()), |commit| write!(f, ", commit {commit}"))
            }
            CycleCount::Format2 { near_maximum, commit, cycles } => {
                write!(f, "cycle count +{cycles}, commit field {commit}")?;
                f.write_str(if *near_maximum { " below the maximum" } else { "" })
            }
            CycleCount::Format3 { commit, cycles } => write!(f, "cycle count +{cycles}, commit field {commit}"),
        }
    }
}

impl fmt::Display for ConditionalInstruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConditionalInstruction::Format1 { key } => write!(f, "conditional instruction, key {key}"),
            ConditionalInstruction::Format2 { step } => write!(f, "conditional instruction, key step {step}"),
            ConditionalInstruction::Format3 { count, last } => {
                write!(f, "conditional instructions {count}{}", if *last { " and one more" } else { "" })
            }
        }
    }
}

impl fmt::Display for ConditionalResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConditionalResult::Format1 { first, second } => {
                write!(f, "conditional result key {} is {:#x}", first.key, first.result)?;
                second.map_or(Ok(()), |second| write!(f, ", key {} is {:#x}", second.key, second.result))
            }
            ConditionalResult::Format2 { skip, token } => {
                write!(f, "conditional result {token}{}", if *skip { ", one key skipped" } else { "" })
            }
            ConditionalResult::Format3 { tokens } => write!(f, "conditional results {tokens:#05x}"),
            ConditionalResult::Format4 { token } => write!(f, "conditional result {token} for the last key"),
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

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, bits, entry, isa } = self;
        match bits {
            0 => write!(f, "as {entry} before"),
            64 => write!(f, "{value:#018x} {isa}"),
            _ => write!(f, "..{value:0width$x} {isa}", width = usize::from(*bits).div_ceil(4)),
        }
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Context { el, aarch64, security, vmid, context_id } = *self;
        // Complete or not, a context reads the same.
        element::Context { el, aarch64, security, vmid, context_id }.fmt(f)
    }
}

impl fmt::Display for element::Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = if self.aarch64 { "AArch64" } else { "AArch32" };
        write!(f, "EL{} {} {width}", self.el, self.security.name())?;
        self.vmid.map_or(Ok(()), |vmid| write!(f, " vmid {vmid:#x}"))?;
        self.context_id.map_or(Ok(()), |id| write!(f, " contextid {id:#x}"))
    }
}

/// Events, one bit each.
struct Events(u8);

impl fmt::Display for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("event")?;
        (0..4).filter(|bit| self.0 >> bit & 1 == 1).try_for_each(|bit| write!(f, " {bit}"))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x} {}", self.address, self.isa)
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::TraceInfo { cycle_counting, cycle_threshold, speculation, in_transaction } => {
                f.write_str("trace info")?;
                if *cycle_counting {
                    write!(f, ", cycle threshold {cycle_threshold}")?;
                }
                if *speculation > 0 {
                    write!(f, ", speculation depth {speculation}")?;
                }
                f.write_str(if *in_transaction { ", in a transaction" } else { "" })
            }
            Element::TraceOn => f.write_str("trace on"),
            Element::Discard => f.write_str("discard"),
            Element::Overflow => f.write_str("overflow"),
            Element::Commit(count) => write!(f, "commit {count}"),
            Element::Cancel(count) => write!(f, "cancel {count}"),
            Element::Mispredict => f.write_str("mispredict"),
            Element::Atoms(atoms) => write!(f, "atoms {atoms}"),
            Element::Q { count: Some(count) } => write!(f, "q {count} instructions"),
            Element::Q { count: None } => f.write_str("q"),
            Element::Exception { number, address } => {
                write!(f, "exception {number}")?;
                exception_name(*number).map_or(Ok(()), |name| write!(f, " ({name})"))?;
                match address {
                    Some(address) => write!(f, ", return {address:#018x}"),
                    None => f.write_str(", return unknown"),
                }
            }
            Element::ExceptionReturn => f.write_str("exception return"),
            Element::FunctionReturn => f.write_str("function return"),
            Element::SourceAddress(target) => write!(f, "source address {target}"),
            Element::TargetAddress(target) => write!(f, "target address {target}"),
            Element::Context(context) => write!(f, "context {context}"),
            Element::TransactionStart => f.write_str("transaction start"),
            Element::TransactionCommit => f.write_str("transaction commit"),
            Element::TransactionFailure => f.write_str("transaction failure"),
            Element::Timestamp { value, cycles } => {
                write!(f, "timestamp {value:#x}")?;
                cycles.map_or(Ok(()), |cycles| write!(f, " after {cycles} cycles"))
            }
            Element::CycleCount(Some(cycles)) => write!(f, "cycle count {cycles}"),
            Element::CycleCount(None) => f.write_str("cycle count unknown"),
            Element::Event { mask } => Events(*mask).fmt(f),
            Element::TimestampMarker => f.write_str("timestamp marker"),
            Element::Instrumentation { el, value } => write!(f, "instrumentation EL{el} {value:#x}"),
            Element::NumberedDataSync(number) => write!(f, "data sync marker {number}"),
            Element::UnnumberedDataSync(value) => write!(f, "unnumbered data sync marker {value}"),
            Element::ConditionalInstruction(instruction) => instruction.fmt(f),
            Element::ConditionalFlush => f.write_str("conditional flush"),
            Element::ConditionalResult(result) => result.fmt(f),
        }
    }
}
