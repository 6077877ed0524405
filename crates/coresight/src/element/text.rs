//! Elements as text: one short line each, in the specification's words.

use core::fmt;

use super::Element;

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
                match (number.name(), number.interrupt()) {
                    (Some(name), Some(interrupt)) => write!(f, " ({name} {interrupt})")?,
                    (Some(name), None) => write!(f, " ({name})")?,
                    (None, _) => {}
                }
                match address {
                    _ if number.is_tail_chained(*address) => f.write_str(", tail-chained"),
                    Some(address) => write!(f, ", return {address:#018x}"),
                    None => f.write_str(", return unknown"),
                }
            }
            Element::ExceptionReturn => f.write_str("exception return"),
            Element::FunctionReturn => f.write_str("function return"),
            Element::SourceAddress(target) => write!(f, "source address {target}"),
            Element::TargetAddress(target) => write!(f, "target address {target}"),
            Element::WaypointUpdate(target) => write!(f, "waypoint update {target}"),
            Element::OtherCode { address, isa } => write!(f, "other code {address:#018x} {}", isa.name()),
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
            Element::Trigger => f.write_str("trigger"),
            Element::Instrumentation { el, value } => write!(f, "instrumentation EL{el} {value:#x}"),
            Element::Software(software) => software.fmt(f),
            Element::Etm4(own) => own.fmt(f),
            Element::Etm3(own) => own.fmt(f),
            Element::Itm(own) => own.fmt(f),
            Element::Stm(own) => own.fmt(f),
        }
    }
}

/// Events, one bit each.
pub(crate) struct Events(pub(crate) u8);

impl fmt::Display for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("event")?;
        (0..4).filter(|bit| self.0 >> bit & 1 == 1).try_for_each(|bit| write!(f, " {bit}"))
    }
}
