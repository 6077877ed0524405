//! State of a log at one point, as registers, rows of memory and last writes; also as JSON lines.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::ops::RangeInclusive;

use unspool_model::json::Object;

use super::{CoreState, State};
use crate::state::LastWrite;

/// Memory that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryQuery {
    /// All that is known.
    All,
    /// These addresses.
    Range(RangeInclusive<u64>),
}

impl MemoryQuery {
    /// Its addresses.
    pub fn range(&self) -> RangeInclusive<u64> {
        match self {
            Self::All => 0..=u64::MAX,
            Self::Range(range) => range.clone(),
        }
    }
}

/// Register or memory whose last write is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteQuery {
    /// A register by any of its names.
    Register(String),
    /// These addresses.
    Memory(RangeInclusive<u64>),
}

/// State of a log, as far as it is asked for.
#[derive(Debug, Clone, Copy)]
pub struct StateView<'a> {
    /// The state.
    pub state: &'a State,
    /// Only this core.
    pub core: Option<&'a str>,
    /// Memory.
    pub memory: &'a [MemoryQuery],
    /// Only these registers.
    pub registers: &'a [String],
    /// Last writes.
    pub last_writes: &'a [WriteQuery],
    /// What the lines of the state count: `line`, or `instruction` if it comes from steps.
    pub unit: &'static str,
}

/// Value of a register.
#[derive(Debug, Clone)]
pub struct RegisterValue {
    /// Its name.
    pub name: String,
    /// Hexadecimal digits, `x` where unknown.
    pub value: String,
    /// The line that wrote it last.
    pub line: u64,
}

/// Bytes with the same last write.
#[derive(Debug, Clone)]
pub struct WrittenRange {
    /// Their addresses.
    pub range: RangeInclusive<u64>,
    /// The write; `None`: nothing is known of them.
    pub write: Option<LastWrite>,
}

impl StateView<'_> {
    /// The cores that are asked for.
    pub fn cores(&self) -> impl Iterator<Item = &CoreState> {
        let core = self.core.map(str::as_bytes);
        self.state.cores.iter().filter(move |other| core.is_none_or(|core| core == other.name))
    }

    /// The last write to a byte, as the core that is shown sees it, or as all do.
    fn last_write(&self, address: u64) -> Option<LastWrite> {
        match self.core.and_then(|core| self.state.core(core.as_bytes())) {
            Some(core) => core.memory.last_write(address),
            None => self.state.last_write(address),
        }
    }

    /// Registers of a core: all, or those that are asked for.
    pub fn registers_of(&self, core: &CoreState) -> Vec<RegisterValue> {
        let mut rows = Vec::new();
        if self.registers.is_empty() && self.last_writes.is_empty() {
            core.registers.each(|_, name, contents| {
                if contents.is_any_known() {
                    rows.push(RegisterValue { name: name.to_string(), value: contents.text(), line: contents.line });
                }
            });
        }
        rows.extend(self.registers.iter().filter_map(|name| register(core, name)));
        rows
    }

    /// Registers that are asked for but were never written.
    pub fn unknown(&self, core: &CoreState) -> impl Iterator<Item = &String> {
        self.registers.iter().filter(move |name| register(core, name).is_none())
    }

    /// Rows of sixteen bytes, each with its address: those of which something is known, or all of a range.
    pub fn memory_rows(&self, query: &MemoryQuery) -> Vec<(u64, Vec<Option<u8>>)> {
        let mut starts = BTreeSet::new();
        match query {
            MemoryQuery::All => {
                let cores = self.cores().flat_map(|core| core.memory.addresses());
                starts.extend(cores.map(|address| address & !15));
            }
            MemoryQuery::Range(range) => starts.extend((range.start() / 16..=range.end() / 16).map(|row| row * 16)),
        }
        let range = query.range();
        let byte =
            |address: u64| self.last_write(address).filter(|_| range.contains(&address)).and_then(|write| write.value);
        starts.into_iter().map(|start| (start, (0..16).map(|at| byte(start + at)).collect())).collect()
    }

    /// Addresses, grouped by their last write.
    pub fn written_ranges(&self, range: &RangeInclusive<u64>) -> Vec<WrittenRange> {
        let mut ranges: Vec<WrittenRange> = Vec::new();
        let same_as = |write: Option<LastWrite>| write.map(|write| (write.line, write.is_seen, write.value.is_some()));
        for address in range.clone() {
            let write = self.last_write(address);
            match ranges.last_mut() {
                Some(last) if same_as(last.write) == same_as(write) => last.range = *last.range.start()..=address,
                _ => ranges.push(WrittenRange { range: address..=address, write }),
            }
        }
        ranges
    }

    /// Writes it as JSON lines.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut line = String::new();
        let mut object = Object::new(&mut line);
        object.string("kind", "state").plain(self.unit, self.state.line);
        if let Some(time) = self.state.time {
            object.string("time", time);
        }
        object.write_line(out)?;
        for core in self.cores() {
            self.core_json(core, &mut line, out)?;
        }
        for position in self.memory {
            for (start, bytes) in self.memory_rows(position) {
                let digits =
                    bytes.iter().map(|byte| byte.map_or_else(|| "..".to_string(), |byte| format!("{byte:02x}")));
                let mut object = Object::new(&mut line);
                object.string("kind", "memory").hex("address", start).string("bytes", digits.collect::<String>());
                object.write_line(out)?;
            }
        }
        self.last_writes.iter().try_for_each(|wanted| self.last_write_json(wanted, &mut line, out))
    }

    fn core_json(&self, core: &CoreState, line: &mut String, out: &mut dyn Write) -> io::Result<()> {
        let mut object = Object::new(line);
        object.string("kind", "core").string("core", String::from_utf8_lossy(&core.name));
        object.nullable_hex("address", core.pc).string("mode", core.registers.mode().level.name());
        object.nullable_string("security", core.registers.mode().security_name());
        object.plain("instructions", core.instructions).plain("depth", core.depth);
        let known = self.registers_of(core).into_iter().map(|row| (row.name, Some(row.value), Some(row.line)));
        let unknown = self.unknown(core).map(|name| (name.clone(), None, None));
        object.list("registers", known.chain(unknown), |text, (name, value, line)| {
            let mut object = Object::nested(text);
            object.string("name", &name);
            object.nullable_string("value", value).nullable(self.unit, line);
            object.close_nested();
        });
        object.write_line(out)
    }

    fn last_write_json(&self, wanted: &WriteQuery, line: &mut String, out: &mut dyn Write) -> io::Result<()> {
        match wanted {
            WriteQuery::Register(name) => self.cores().try_for_each(|core| {
                let mut object = Object::new(line);
                object.string("kind", "last_write").string("core", String::from_utf8_lossy(&core.name));
                object.string("register", name).nullable(self.unit, register(core, name).map(|row| row.line));
                object.write_line(out)
            }),
            WriteQuery::Memory(range) => self.written_ranges(range).iter().try_for_each(|written| {
                let mut object = Object::new(line);
                let write = written.write.filter(|write| write.line > 0);
                object.string("kind", "last_write").hex("address", *written.range.start());
                object.plain("length", written.range.end() - written.range.start() + 1);
                object.nullable(self.unit, write.map(|write| write.line));
                object.flag("known", written.write.is_some_and(|write| write.value.is_some()));
                object.flag("seen", write.is_some_and(|write| write.is_seen));
                object.write_line(out)
            }),
        }
    }
}

/// Value of a register by any of its names.
pub fn register(core: &CoreState, name: &str) -> Option<RegisterValue> {
    let (slot, low, bits) = core.registers.find(name)?;
    let contents = core.registers.get(slot)?;
    let digits =
        bits.map_or(contents.digits().saturating_sub(usize::from(low / 4)), |bits| usize::from(bits).div_ceil(4));
    let first = usize::from(low / 4);
    let value = contents.digit_text(first..first + digits);
    let line = bits.map_or(contents.line, |bits| contents.line_of(low, bits));
    // Another part of it was written.
    (line > 0).then(|| RegisterValue { name: name.to_string(), value, line })
}
