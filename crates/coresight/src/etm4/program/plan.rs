//! Register values for a plan of what to trace.
//!
//! Takes a [`Plan`]; produces values in the order of writing, or the reason why there are none. Does not know which of the
//! optional comparators and selectors a trace unit has: `audit` compares the values with its identification registers.

mod resources;

use alloc::borrow::Cow;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::ops::RangeInclusive;

use self::resources::{Comparators, Resources, mask};
use super::Value;
use crate::Protocol;
use crate::etm4::explain;
use crate::trace_buffer::FillMode;

/// What to trace, and how.
///
/// ```
/// use unspool_coresight::Protocol;
/// use unspool_coresight::etm4::program::Plan;
///
/// let mut plan = Plan::new(Protocol::Ete);
/// plan.include = vec![0x40_0000..=0x40_0fff];
/// let values = plan.values().unwrap();
/// let of = |name: &str| values.iter().find(|value| value.register == name).map(|value| value.value);
/// assert_eq!(of("TRCVIIECTLR"), Some(1));
/// assert_eq!(of("TRCACVR1"), Some(0x40_0fff));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// ETE or ETMv4.
    pub protocol: Protocol,
    /// The trace id of the stream.
    pub trace_id: u8,
    /// Exception levels that are traced.
    pub levels: Levels,
    /// The only address ranges that are traced; none: everywhere.
    pub include: Vec<RangeInclusive<u64>>,
    /// Address ranges that are not traced.
    pub exclude: Vec<RangeInclusive<u64>>,
    /// Addresses where tracing starts; none: it has started.
    pub start: Vec<u64>,
    /// Addresses where tracing stops.
    pub stop: Vec<u64>,
    /// The only context identifiers that are traced; none: all.
    pub only_context_ids: Vec<u32>,
    /// The only virtual context identifiers that are traced; none: all.
    pub only_vmids: Vec<u32>,
    /// Causes of the events 0 to 3, which are traced.
    pub events: [Option<Event>; 4],
    /// Leave out targets that a return stack predicts.
    pub return_stack: bool,
    /// Trace timestamps.
    pub timestamps: bool,
    /// Address ranges that request timestamps; none: timestamps are traced only with synchronizations.
    pub timestamps_in: Vec<RangeInclusive<u64>>,
    /// Trace context identifiers and virtual context identifiers.
    pub context_ids: bool,
    /// Count cycles, with this threshold.
    pub cycle_threshold: Option<u16>,
    /// Trace targets of all taken branches.
    pub branch_broadcast: bool,
    /// Bytes between synchronizations, a power of two; 0: none.
    pub sync_bytes: u32,
    /// The trace buffer of the PE (ETE).
    pub buffer: Option<Buffer>,
}

/// Cause of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The code that causes it.
    pub at: At,
    /// Only the first time (a single-shot comparator).
    pub once: bool,
}

/// An instruction, or the instructions of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// The address of the instruction.
    Address(u64),
    /// Both ends included. The event occurs when execution enters the range.
    Range(RangeInclusive<u64>),
}

/// Exception levels, one bit each: bit 0 is EL0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Levels {
    /// Secure EL0 to EL2, and EL3.
    pub secure: u8,
    /// Non-secure EL0 to EL2.
    pub non_secure: u8,
    /// Realm EL0 to EL2 (ETE).
    pub realm: u8,
}

impl Levels {
    /// Non-secure EL0, and Realm EL0 where there is one.
    pub const USER: Self = Self { secure: 0, non_secure: 1, realm: 1 };
    /// All of them.
    pub const ALL: Self = Self { secure: 0xf, non_secure: 7, realm: 7 };
}

/// The trace buffer of a PE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// Its first byte, page-aligned (4 KiB).
    pub base: u64,
    /// Its end, page-aligned (4 KiB).
    pub limit: u64,
    /// The behavior at its end.
    pub mode: FillMode,
    /// Number of collected bytes that raises an interrupt; collection continues.
    pub watermark: Option<u64>,
}

/// Reason why a plan has no register values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unprogrammable {
    /// Trace ids have seven bits; 0 and the last sixteen are reserved.
    #[error("trace id {0:#x} is reserved: choose one from 0x01 to 0x6f")]
    TraceId(u8),
    /// A range that ends before it starts.
    #[error("the range {0:#x}..{1:#x} ends before it starts")]
    Range(u64, u64),
    /// There are sixteen address comparators, and a range takes two of them.
    #[error(
        "{0} address comparators are needed, but a trace unit has at most 16: a range takes two, and with several \
         processes an address takes one for each of them; use fewer or join adjacent ranges"
    )]
    Comparators(usize),
    /// There are eight comparators of each kind of identifiers.
    #[error(
        "{0} comparators of context identifiers are needed, but a trace unit has at most 8: context ids and VMIDs given \
         together take one for each combination; use fewer"
    )]
    Identifiers(usize),
    /// Timestamps of a range are requested, but none are traced.
    #[error("timestamps are off: a range can only request them if they are traced")]
    TimestampsOff,
    /// A period that no register value encodes.
    #[error("invalid period of {0} bytes: choose a power of two from 256 to 1048576, or 0")]
    SyncBytes(u32),
    /// Cycle thresholds have twelve bits, and 0 is reserved.
    #[error("invalid threshold of {0} cycles: choose one from 1 to 4095")]
    CycleThreshold(u16),
    /// A trace buffer that is empty or not page-aligned.
    #[error("invalid trace buffer {0:#x}..{1:#x}: both ends must be on 4 KiB pages, and the end after the start")]
    Buffer(u64, u64),
    /// A watermark beyond the size of the buffer.
    #[error("a watermark of {0} bytes is not within the trace buffer")]
    Watermark(u64),
    /// Only ETE has a trace buffer and a Realm.
    #[error("an ETMv4 has no {0}")]
    NotInEtm4(&'static str),
}

impl Plan {
    /// The minimal programming of the specification: everything at Non-secure EL0, with return stack, timestamps and
    /// context identifiers. Protocols other than ETE are treated as ETMv4.
    pub fn new(protocol: Protocol) -> Self {
        let realm = if protocol == Protocol::Ete { Levels::USER.realm } else { 0 };
        Self {
            protocol,
            trace_id: 0x10,
            levels: Levels { realm, ..Levels::USER },
            include: Vec::new(),
            exclude: Vec::new(),
            start: Vec::new(),
            stop: Vec::new(),
            only_context_ids: Vec::new(),
            only_vmids: Vec::new(),
            events: [const { None }; 4],
            return_stack: true,
            timestamps: true,
            timestamps_in: Vec::new(),
            context_ids: true,
            cycle_threshold: None,
            branch_broadcast: false,
            sync_bytes: 4096,
            buffer: None,
        }
    }

    /// The registers and their values, in the order of writing.
    pub fn values(&self) -> Result<Vec<Value>, Unprogrammable> {
        let identifiers = resources::identifiers(self);
        if identifiers > 8 {
            return Err(Unprogrammable::Identifiers(identifiers));
        }
        let comparators = Comparators::new(self);
        self.validate(comparators.addresses.len())?;
        let resources = Resources::new(self, &comparators);
        let mut values = self.buffer.map_or_else(Vec::new, Buffer::values);
        let mut set = |register: &'static str, value| values.push(self.value(register.into(), value));
        set("TRCCONFIGR", self.configuration());
        set("TRCEVENTCTL0R", resources.events);
        set("TRCEVENTCTL1R", resources.traced_events);
        if self.protocol == Protocol::Ete {
            // Its value is unknown after a reset, and decides whether a first exception is traced.
            set("TRCRSR", 0);
        }
        set("TRCSTALLCTLR", 0);
        set("TRCTSCTLR", resources.timestamps);
        set("TRCSYNCPR", if self.sync_bytes == 0 { 0 } else { u64::from(self.sync_bytes.trailing_zeros()) });
        if let Some(threshold) = self.cycle_threshold {
            set("TRCCCCTLR", u64::from(threshold));
        }
        if self.branch_broadcast {
            set("TRCBBCTLR", 0);
        }
        set("TRCTRACEIDR", u64::from(self.trace_id));
        set("TRCVICTLR", self.view(resources.view));
        set("TRCVIIECTLR", mask(&comparators.include) | mask(&comparators.exclude) << 16);
        set("TRCVISSCTLR", mask(&comparators.start) | mask(&comparators.stop) << 16);
        self.set_resources(&resources, &mut values);
        self.set_comparators(&comparators, &mut values);
        Ok(values)
    }

    fn set_resources(&self, resources: &Resources, values: &mut Vec<Value>) {
        let mut set = |name: &str, number: usize, value| {
            values.push(self.value(format!("{name}{number}").into(), value));
        };
        // The first two are constants.
        for (number, selector) in resources.selectors.iter().enumerate() {
            set("TRCRSCTLR", number + 2, *selector);
        }
        for (number, control) in resources.single_shots.iter().enumerate() {
            set("TRCSSCCR", number, *control);
            // It has not matched yet.
            set("TRCSSCSR", number, 0);
        }
    }

    fn set_comparators(&self, comparators: &Comparators, values: &mut Vec<Value>) {
        let mut set = |name: &str, number: usize, value| {
            values.push(self.value(format!("{name}{number}").into(), value));
        };
        for (number, one) in comparators.addresses.iter().enumerate() {
            set("TRCACATR", number, one.attributes);
            set("TRCACVR", number, one.address);
        }
        for (number, (context_id, vmid)) in comparators.identifiers.iter().enumerate() {
            let of_kinds = [("TRCCIDCVR", "TRCCIDCCTLR", context_id), ("TRCVMIDCVR", "TRCVMIDCCTLR", vmid)];
            for (value, control, id) in of_kinds {
                let Some(id) = id else { continue };
                // All bytes are compared; a register is for four comparators.
                if number.is_multiple_of(4) {
                    set(control, number / 4, 0);
                }
                set(value, number, u64::from(*id));
            }
        }
    }

    fn validate(&self, comparators: usize) -> Result<(), Unprogrammable> {
        if matches!(self.trace_id, 0 | 0x70..) {
            return Err(Unprogrammable::TraceId(self.trace_id));
        }
        let of_events = self.events.iter().flatten().filter_map(|event| match &event.at {
            At::Range(range) => Some(range),
            At::Address(_) => None,
        });
        let mut ranges = self.include.iter().chain(&self.exclude).chain(&self.timestamps_in).chain(of_events);
        if let Some(range) = ranges.find(|range| range.is_empty()) {
            return Err(Unprogrammable::Range(*range.start(), *range.end()));
        }
        if comparators > 16 {
            return Err(Unprogrammable::Comparators(comparators));
        }
        if !self.timestamps && !self.timestamps_in.is_empty() {
            return Err(Unprogrammable::TimestampsOff);
        }
        let is_period = self.sync_bytes.is_power_of_two() && (1 << 8..=1 << 20).contains(&self.sync_bytes);
        if self.sync_bytes != 0 && !is_period {
            return Err(Unprogrammable::SyncBytes(self.sync_bytes));
        }
        if let Some(threshold) = self.cycle_threshold.filter(|threshold| !(1..=0xfff).contains(threshold)) {
            return Err(Unprogrammable::CycleThreshold(threshold));
        }
        if self.protocol != Protocol::Ete && self.levels.realm != 0 {
            return Err(Unprogrammable::NotInEtm4("Realm"));
        }
        match &self.buffer {
            Some(_) if self.protocol != Protocol::Ete => Err(Unprogrammable::NotInEtm4("trace buffer")),
            Some(buffer) => buffer.validate(),
            None => Ok(()),
        }
    }

    fn value(&self, register: Cow<'static, str>, value: u64) -> Value {
        let why = explain(&register, value, self.protocol).map_or_else(String::new, |explained| explained.summary());
        Value { register, value, why }
    }

    fn configuration(&self) -> u64 {
        let flags = [
            (true, 0),
            (self.branch_broadcast, 3),
            (self.cycle_threshold.is_some(), 4),
            (self.context_ids, 6),
            (self.context_ids, 7),
            (self.timestamps, 11),
            (self.return_stack, 12),
        ];
        flags.iter().filter(|(is_set, _)| *is_set).fold(0, |value, (_, bit)| value | 1 << bit)
    }

    /// TRCVICTLR: on while the event holds, started unless there are start points, other levels excluded.
    fn view(&self, event: u64) -> u64 {
        let Levels { secure, non_secure, realm } = self.levels;
        let excluded = |levels: u8, all: u8| u64::from(!levels & all);
        let is_started = u64::from(self.start.is_empty());
        let non_secure = excluded(non_secure, 7);
        // The bit of a Realm level inverts that of the Non-secure one.
        let realm = if self.protocol == Protocol::Ete { excluded(realm, 7) ^ non_secure } else { 0 };
        event | is_started << 9 | excluded(secure, 0xf) << 16 | non_secure << 20 | realm << 24
    }
}

impl Buffer {
    fn validate(&self) -> Result<(), Unprogrammable> {
        let Self { base, limit, .. } = *self;
        if (base | limit) & 0xfff != 0 || base >= limit {
            return Err(Unprogrammable::Buffer(base, limit));
        }
        match self.watermark.filter(|watermark| !(1..=limit - base).contains(watermark)) {
            Some(watermark) => Err(Unprogrammable::Watermark(watermark)),
            None => Ok(()),
        }
    }

    /// For a watermark, the write pointer of a buffer that wraps starts that far before its end; other buffers count from
    /// the first byte, as if after a trigger.
    fn values(self) -> Vec<Value> {
        let Self { base, limit, mode, watermark } = self;
        let fill_mode = match mode {
            FillMode::Fill => 0,
            FillMode::Wrap => 1,
            FillMode::Circular => 3,
        };
        let trigger = watermark.filter(|_| mode != FillMode::Wrap);
        let trigger_mode = if trigger.is_some() { 1 } else { 3 };
        let pointer = match watermark {
            Some(watermark) if mode == FillMode::Wrap => limit - watermark,
            _ => base,
        };
        let value = |register: &'static str, value| {
            let explained = explain(register, value, Protocol::Ete);
            let why = explained.map_or_else(|| "nothing".to_string(), |explained| explained.summary());
            Value { register: register.into(), value, why }
        };
        vec![
            value("TRBBASER_EL1", base),
            value("TRBPTR_EL1", pointer),
            value("TRBTRG_EL1", trigger.unwrap_or(0)),
            value("TRBSR_EL1", if trigger.is_some() { 1 << 21 } else { 0 }),
            value("TRBLIMITR_EL1", limit | trigger_mode << 3 | fill_mode << 1 | 1),
        ]
    }
}

#[cfg(test)]
mod tests;
