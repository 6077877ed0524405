//! Register values for a plan of what to trace.

use alloc::borrow::Cow;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::ops::RangeInclusive;

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
    /// Leave out targets that a return stack predicts.
    pub return_stack: bool,
    /// Trace timestamps.
    pub timestamps: bool,
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
    #[error("{0} address comparators are needed, but a trace unit has at most 16")]
    Comparators(usize),
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
            return_stack: true,
            timestamps: true,
            context_ids: true,
            cycle_threshold: None,
            branch_broadcast: false,
            sync_bytes: 4096,
            buffer: None,
        }
    }

    /// The registers and their values, in the order of writing.
    pub fn values(&self) -> Result<Vec<Value>, Unprogrammable> {
        self.validate()?;
        let mut values = self.buffer.map_or_else(Vec::new, Buffer::values);
        let mut set = |register: &'static str, value| values.push(self.value(register.into(), value));
        set("TRCCONFIGR", self.configuration());
        set("TRCEVENTCTL0R", 0);
        set("TRCEVENTCTL1R", 0);
        set("TRCSTALLCTLR", 0);
        set("TRCTSCTLR", 0);
        set("TRCSYNCPR", if self.sync_bytes == 0 { 0 } else { u64::from(self.sync_bytes.trailing_zeros()) });
        if let Some(threshold) = self.cycle_threshold {
            set("TRCCCCTLR", u64::from(threshold));
        }
        if self.branch_broadcast {
            set("TRCBBCTLR", 0);
        }
        set("TRCTRACEIDR", u64::from(self.trace_id));
        set("TRCVICTLR", self.view());
        let ranges = self.include.len() + self.exclude.len();
        set("TRCVIIECTLR", ones(0, self.include.len()) | ones(self.include.len(), self.exclude.len()) << 16);
        // Single comparators come after the pairs.
        let (first, starts) = (2 * ranges, self.start.len());
        set("TRCVISSCTLR", ones(first, starts) | ones(first + starts, self.stop.len()) << 16);
        for (number, address) in self.comparators().into_iter().enumerate() {
            values.push(self.value(format!("TRCACATR{number}").into(), 0));
            values.push(self.value(format!("TRCACVR{number}").into(), address));
        }
        Ok(values)
    }

    fn validate(&self) -> Result<(), Unprogrammable> {
        if matches!(self.trace_id, 0 | 0x70..) {
            return Err(Unprogrammable::TraceId(self.trace_id));
        }
        let mut ranges = self.include.iter().chain(&self.exclude);
        if let Some(range) = ranges.find(|range| range.is_empty()) {
            return Err(Unprogrammable::Range(*range.start(), *range.end()));
        }
        let comparators = self.comparators().len();
        if comparators > 16 {
            return Err(Unprogrammable::Comparators(comparators));
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

    /// TRCVICTLR: always on, started unless there are start points, other levels excluded.
    fn view(&self) -> u64 {
        let Levels { secure, non_secure, realm } = self.levels;
        let excluded = |levels: u8, all: u8| u64::from(!levels & all);
        let is_started = u64::from(self.start.is_empty());
        let non_secure = excluded(non_secure, 7);
        // The bit of a Realm level inverts that of the Non-secure one.
        let realm = if self.protocol == Protocol::Ete { excluded(realm, 7) ^ non_secure } else { 0 };
        1 | is_started << 9 | excluded(secure, 0xf) << 16 | non_secure << 20 | realm << 24
    }

    /// Addresses of the comparators: pairs for ranges, then single ones.
    fn comparators(&self) -> Vec<u64> {
        let ranges = self.include.iter().chain(&self.exclude);
        let pairs = ranges.flat_map(|range| [*range.start(), *range.end()]);
        pairs.chain(self.start.iter().copied()).chain(self.stop.iter().copied()).collect()
    }
}

/// `count` ones from a bit on.
fn ones(from: usize, count: usize) -> u64 {
    ((1 << count) - 1) << from
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
