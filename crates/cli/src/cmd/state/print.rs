//! How a state reads.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::ops::RangeInclusive;

use unspool::tarmac::index::{CoreState, State};
use unspool::tarmac::record::Time;
use unspool::tarmac::state::LastWrite;

use super::parse::{Place, Wanted};
use unspool::model::json::Object;
use unspool::number::{grouped, many};

/// What is to be shown of a state.
pub(super) struct Shown<'a> {
    pub(super) state: &'a State,
    pub(super) core: Option<&'a str>,
    pub(super) memory: &'a [Place],
    pub(super) registers: &'a [String],
    pub(super) last_writes: &'a [Wanted],
}

/// A register that is shown.
struct Row {
    name: String,
    /// Digits, `x` where nobody knows.
    value: String,
    line: u64,
}

/// Bytes that one line wrote last.
struct Stretch {
    range: RangeInclusive<u64>,
    /// `None`: nothing is known of them.
    write: Option<LastWrite>,
}

impl Shown<'_> {
    fn cores(&self) -> impl Iterator<Item = &CoreState> {
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

    /// All registers, or those that are asked for.
    fn rows(&self, core: &CoreState) -> Vec<Row> {
        let mut rows = Vec::new();
        if self.registers.is_empty() && self.last_writes.is_empty() {
            core.registers.each(|_, name, contents| {
                if contents.is_any_known() {
                    rows.push(Row { name: name.to_string(), value: contents.text(), line: contents.line });
                }
            });
        }
        rows.extend(self.registers.iter().filter_map(|name| row(core, name)));
        rows
    }

    pub(super) fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "line {}", grouped(self.state.line))?;
        if let Some(time) = self.state.time {
            write!(out, ", {}", time_text(time))?;
        }
        writeln!(out)?;
        for core in self.cores() {
            self.core_text(core, out)?;
        }
        self.memory.iter().try_for_each(|place| self.dump(place, out))?;
        self.last_writes.iter().try_for_each(|wanted| self.last_write_text(wanted, out))
    }

    fn core_text(&self, core: &CoreState, out: &mut dyn Write) -> io::Result<()> {
        let name = if core.name.is_empty() { "core".into() } else { String::from_utf8_lossy(&core.name) };
        write!(out, "\n{name}: {}, {}", many(core.instructions, "instruction"), many(core.depth, "call"))?;
        writeln!(out, " deep{}", core.pc.map_or_else(String::new, |pc| format!(", last at {pc:#x}{}", mode(core))))?;
        let rows = self.rows(core);
        let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        for row in &rows {
            writeln!(out, "  {:<width$}  {}  line {}", row.name, row.value, row.line)?;
        }
        self.unknown(core).try_for_each(|name| writeln!(out, "  {name}  nobody knows"))
    }

    /// Those that are asked for, but were never written.
    fn unknown(&self, core: &CoreState) -> impl Iterator<Item = &String> {
        self.registers.iter().filter(move |name| row(core, name).is_none())
    }

    /// Sixteen bytes a row; rows of which nothing is known are left out.
    fn dump(&self, place: &Place, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out)?;
        for (start, bytes) in self.lines_of(place) {
            let hex = |byte: &Option<u8>| byte.map_or_else(|| "..".to_string(), |byte| format!("{byte:02x}"));
            let letter = |byte: &Option<u8>| match byte {
                None => ' ',
                Some(byte) if byte.is_ascii_graphic() || *byte == b' ' => char::from(*byte),
                Some(_) => '.',
            };
            let cells: Vec<String> = bytes.iter().map(hex).collect();
            let letters: String = bytes.iter().map(letter).collect();
            let (low, high) = cells.split_at(8);
            writeln!(out, "  {start:016x}  {}  {}  {}", low.join(" "), high.join(" "), letters.trim_end())?;
        }
        Ok(())
    }

    /// Rows of sixteen bytes of which something is known, each with its address. Of a range, all of its rows.
    fn lines_of(&self, place: &Place) -> Vec<(u64, Vec<Option<u8>>)> {
        let mut starts = BTreeSet::new();
        match place {
            Place::All => {
                let cores = self.cores().flat_map(|core| core.memory.addresses());
                starts.extend(cores.map(|address| address & !15));
            }
            Place::Range(range) => starts.extend((range.start() / 16..=range.end() / 16).map(|row| row * 16)),
        }
        let range = place.range();
        let byte =
            |address: u64| self.last_write(address).filter(|_| range.contains(&address)).and_then(|write| write.value);
        starts.into_iter().map(|start| (start, (0..16).map(|at| byte(start + at)).collect())).collect()
    }

    fn last_write_text(&self, wanted: &Wanted, out: &mut dyn Write) -> io::Result<()> {
        match wanted {
            Wanted::Register(name) => self.cores().try_for_each(|core| {
                let core_name = String::from_utf8_lossy(&core.name);
                let line =
                    row(core, name).map_or_else(|| "never written".to_string(), |row| format!("line {}", row.line));
                writeln!(out, "\n{core_name}{}{name}: {line}", if core.name.is_empty() { "" } else { " " })
            }),
            Wanted::Memory(range) => {
                writeln!(out)?;
                self.stretches(range).iter().try_for_each(|stretch| {
                    let (start, end) = (stretch.range.start(), stretch.range.end());
                    writeln!(out, "{start:#x}..={end:#x}: {}", written(stretch.write))
                })
            }
        }
    }

    /// Bytes with the same last write, together.
    fn stretches(&self, range: &RangeInclusive<u64>) -> Vec<Stretch> {
        let mut stretches: Vec<Stretch> = Vec::new();
        let tells = |write: Option<LastWrite>| write.map(|write| (write.line, write.is_seen, write.value.is_some()));
        for address in range.clone() {
            let write = self.last_write(address);
            match stretches.last_mut() {
                Some(last) if tells(last.write) == tells(write) => last.range = *last.range.start()..=address,
                _ => stretches.push(Stretch { range: address..=address, write }),
            }
        }
        stretches
    }

    pub(super) fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut line = String::new();
        let mut object = Object::new(&mut line);
        object.string("kind", "state").plain("line", self.state.line);
        if let Some(time) = self.state.time {
            object.string("time", time_text(time));
        }
        object.finish(out)?;
        for core in self.cores() {
            self.core_json(core, &mut line, out)?;
        }
        for place in self.memory {
            for (start, bytes) in self.lines_of(place) {
                let digits =
                    bytes.iter().map(|byte| byte.map_or_else(|| "..".to_string(), |byte| format!("{byte:02x}")));
                let mut object = Object::new(&mut line);
                object.string("kind", "memory").hex("address", start).string("bytes", digits.collect::<String>());
                object.finish(out)?;
            }
        }
        self.last_writes.iter().try_for_each(|wanted| self.last_write_json(wanted, &mut line, out))
    }

    fn core_json(&self, core: &CoreState, line: &mut String, out: &mut dyn Write) -> io::Result<()> {
        let mut object = Object::new(line);
        object.string("kind", "core").string("core", String::from_utf8_lossy(&core.name));
        object.nullable_hex("pc", core.pc).string("mode", core.registers.mode().level.name());
        object.nullable("security", core.registers.mode().security.map(|security| format!("\"{}\"", security.name())));
        object.plain("instructions", core.instructions).plain("depth", core.depth);
        let known = self.rows(core).into_iter().map(|row| (row.name, Some(row.value), Some(row.line)));
        let unknown = self.unknown(core).map(|name| (name.clone(), None, None));
        object.list("registers", known.chain(unknown), |text, (name, value, line)| {
            let mut object = Object::within(text);
            object.string("name", &name);
            object.nullable("value", value.map(|value| format!("\"{value}\""))).nullable("line", line);
            object.close();
        });
        object.finish(out)
    }

    fn last_write_json(&self, wanted: &Wanted, line: &mut String, out: &mut dyn Write) -> io::Result<()> {
        match wanted {
            Wanted::Register(name) => self.cores().try_for_each(|core| {
                let mut object = Object::new(line);
                object.string("kind", "last_write").string("core", String::from_utf8_lossy(&core.name));
                object.string("register", name).nullable("line", row(core, name).map(|row| row.line));
                object.finish(out)
            }),
            Wanted::Memory(range) => self.stretches(range).iter().try_for_each(|stretch| {
                let mut object = Object::new(line);
                let write = stretch.write.filter(|write| write.line > 0);
                object.string("kind", "last_write").hex("address", *stretch.range.start());
                object.plain("length", stretch.range.end() - stretch.range.start() + 1);
                object.nullable("line", write.map(|write| write.line));
                object.flag("known", stretch.write.is_some_and(|write| write.value.is_some()));
                object.flag("seen", write.is_some_and(|write| write.is_seen));
                object.finish(out)
            }),
        }
    }
}

/// A register by any of its names: the part of it that is meant.
fn row(core: &CoreState, name: &str) -> Option<Row> {
    let (slot, low, bits) = core.registers.find(name)?;
    let contents = core.registers.get(slot)?;
    let digits =
        bits.map_or(contents.digits().saturating_sub(usize::from(low / 4)), |bits| usize::from(bits).div_ceil(4));
    let first = usize::from(low / 4);
    let digit = |at| match contents.digit(at) {
        (value, 15) => char::from_digit(value.into(), 16).unwrap_or('x'),
        _ => 'x',
    };
    let value = (first..first + digits).rev().map(digit).collect();
    let line = bits.map_or(contents.line, |bits| contents.line_of(low, bits));
    // Another part of it was written.
    (line > 0).then(|| Row { name: name.to_string(), value, line })
}

fn written(write: Option<LastWrite>) -> String {
    match write {
        None => "nothing is known".to_string(),
        Some(LastWrite { line: 0, .. }) => "never written, but read".to_string(),
        Some(LastWrite { line, is_seen: true, .. }) => {
            format!("read as something new on line {line}; nobody here wrote it")
        }
        Some(LastWrite { line, value: None, .. }) => format!("line {line}, value unknown"),
        Some(LastWrite { line, .. }) => format!("line {line}"),
    }
}

fn mode(core: &CoreState) -> String {
    let mode = core.registers.mode();
    match (mode.level.name(), mode.security) {
        ("", None) => String::new(),
        (level, None) => format!(" in {level}"),
        (level, Some(security)) => format!(" in {level}, {}", security.name()),
    }
}

/// A time as it was written.
fn time_text(time: Time) -> String {
    let digits = format!("{:0>width$}", time.value, width = usize::from(time.decimals) + 1);
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(time.decimals));
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{whole}{point}{fraction} {}", time.unit.name()).trim_end().to_string()
}
