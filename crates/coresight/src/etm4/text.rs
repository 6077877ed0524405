//! Packets as text: one short line each, as `unspool packets` prints it after the offset.

use core::fmt;

use super::element::{ConditionOutcome, OwnElement};
use super::packet::{
    Address, ConditionalInstruction, ConditionalResult, CycleCount, ExceptionAddress, Packet, TraceInfo,
};
use crate::Atoms;
use crate::element::Events;

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

impl fmt::Display for OwnElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnElement::NumberedDataSync(number) => write!(f, "data sync marker {number}"),
            OwnElement::UnnumberedDataSync(value) => {
                f.write_str("unnumbered data sync marker")?;
                value.map_or(Ok(()), |value| write!(f, " {value}"))
            }
            OwnElement::ConditionalInstruction { key, .. } => write!(f, "conditional instruction, key {}", Key(*key)),
            OwnElement::ConditionalFlush => f.write_str("conditional flush"),
            OwnElement::ConditionalResult { key, outcome } => {
                write!(f, "conditional result, key {}: {outcome}", Key(*key))
            }
            OwnElement::Suppression => f.write_str("suppression"),
            OwnElement::Undecoded { bytes } => write!(f, "{bytes} undecoded bytes"),
        }
    }
}

/// A condition key.
struct Key(Option<u32>);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => key.fmt(f),
            None => f.write_str("unknown"),
        }
    }
}

impl fmt::Display for ConditionOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConditionOutcome::Failed => f.write_str("failed"),
            ConditionOutcome::Passed => f.write_str("passed"),
            ConditionOutcome::Unknown => f.write_str("unknown"),
            ConditionOutcome::Flags(0) => f.write_str("no flags"),
            ConditionOutcome::Flags(flags) => {
                f.write_str("flags")?;
                let set =
                    [(3, " N"), (2, " Z"), (1, " C"), (0, " V")].into_iter().filter(|(bit, _)| flags >> bit & 1 == 1);
                set.map(|(_, name)| name).try_for_each(|name| f.write_str(name))
            }
        }
    }
}
