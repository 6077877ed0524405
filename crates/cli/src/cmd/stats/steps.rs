//! What steps come to, in text and in JSON.

use std::io::{self, Write};
use std::ops::ControlFlow;

use anyhow::bail;
use unspool::analyze::stats::{Report, Stats, Tally};
use unspool::isa::{self, Disassembler, Xlen, riscv_mnemonic};
use unspool::model::{Isa, SourceError, StepSource, TimeUnit};

use super::super::{grouped, many};
use super::{Args, By, Rows, row, share, table};
use crate::Verdict;
use crate::args::tell;
use crate::output::Output;
use crate::progress::{Meter, Progress};

/// Rows of a table that nobody asked for.
const FEW: usize = 10;

/// Steps between two looks at the progress bar.
const STRIDE: u64 = 1 << 16;

/// Whose steps.
pub(super) struct Source {
    pub(super) name: String,
    /// The trace id, if it is a source of a capture.
    pub(super) id: Option<Option<u8>>,
}

impl Source {
    /// A file.
    pub(super) fn named(name: &str) -> Self {
        Self { name: name.to_string(), id: None }
    }
}

/// What was counted.
pub(super) struct Counted {
    report: Report,
    unit: TimeUnit,
    ended: Result<(), SourceError>,
}

/// Counts all steps.
pub(super) fn count(source: &mut dyn StepSource, meter: &Meter, progress: &mut Progress) -> Counted {
    let mut arm = None;
    let mut stats = Stats::new(move |isa, opcode| mnemonic(arm.get_or_insert_with(Disassembler::new), isa, opcode));
    let mut until_look = STRIDE;
    let ended = source.each(&mut |step| {
        stats.step(step);
        until_look -= 1;
        if until_look == 0 {
            until_look = STRIDE;
            meter.show(progress);
        }
        ControlFlow::Continue(())
    });
    Counted { report: stats.finish(), unit: source.time_unit(), ended }
}

fn mnemonic(arm: &mut Disassembler, isa: Isa, opcode: u32) -> String {
    const UNKNOWN: &str = "unknown";
    let set = match isa {
        Isa::A64 => isa::Isa::A64,
        Isa::A32 => isa::Isa::A32,
        Isa::T32 => isa::Isa::T32,
        Isa::Rv32 => return riscv_mnemonic(Xlen::Rv32, opcode).unwrap_or(UNKNOWN).to_string(),
        Isa::Rv64 => return riscv_mnemonic(Xlen::Rv64, opcode).unwrap_or(UNKNOWN).to_string(),
    };
    let text = arm.text(set, 0, opcode);
    let name = text.split_ascii_whitespace().next().filter(|name| !name.starts_with(".inst"));
    name.unwrap_or(UNKNOWN).to_string()
}

/// Prints what was counted, but for the tables that the format has itself.
pub(super) fn print(
    args: &Args,
    source: &Source,
    counted: &Counted,
    native: &[By],
    output: &mut Output,
) -> anyhow::Result<Verdict> {
    let page = Page { args, source, counted, native, all: counted.report.all() };
    output.write(|out| if args.output.json { page.json(out) } else { page.text(out) });
    match &counted.ended {
        Ok(()) => Ok(Verdict::Clean),
        // A format that has counted by itself has met the same damage, and told it.
        Err(error) if error.is_damage && !native.is_empty() => Ok(Verdict::Problems),
        Err(error) if error.is_damage => {
            tell(format_args!("{}: {error}", source.name));
            Ok(Verdict::Problems)
        }
        Err(error) => bail!("{}: {error}", source.name),
    }
}

/// Counts by name.
type Named = Vec<(String, Tally)>;

struct Page<'p> {
    args: &'p Args,
    source: &'p Source,
    counted: &'p Counted,
    native: &'p [By],
    all: Tally,
}

impl Page<'_> {
    fn shows(&self, by: By) -> bool {
        self.args.shows(by) && !self.native.contains(&by)
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        self.head(out)?;
        if self.shows(By::Branch) {
            self.branches(out)?;
        }
        for (by, name, mut rows) in self.groups() {
            rows.retain(|(_, tally)| tally.instructions > 0);
            // One row says nothing that the first lines do not say.
            if self.args.by == Some(by) || self.shows(by) && rows.len() > 1 {
                self.group(name, &rows, out)?;
            }
        }
        if self.args.by == Some(By::Exception) {
            writeln!(out, "\n{:<16} {:>15}", "exception", "count")?;
            for (name, count) in &self.counted.report.exceptions {
                writeln!(out, "{name:<16} {:>15}", grouped(*count))?;
            }
        }
        self.mix(out)
    }

    fn mix(&self, out: &mut dyn Write) -> io::Result<()> {
        let mix = &self.counted.report.mix;
        if self.args.by == Some(By::Isa) || self.shows(By::Isa) && mix.by_isa().len() > 1 {
            table(out, "isa", &mix.by_isa(), mix.total)?;
        }
        if self.shows(By::Class) {
            table(out, "class", &mix.by_class(), mix.total)?;
            if mix.unclassified > 0 {
                row(out, "(none)", mix.unclassified, mix.total)?;
            }
        }
        if self.shows(By::Mnemonic) {
            table(out, "mnemonic", &mix.by_mnemonic(), mix.total)?;
            if mix.unknown > 0 {
                row(out, "(no opcode)", mix.unknown, mix.total)?;
            }
        }
        Ok(())
    }

    /// What comes to one line each. A format that counts by itself has told the first ones.
    fn head(&self, out: &mut dyn Write) -> io::Result<()> {
        let (Report { contexts, times, code, data, .. }, all) = (&self.counted.report, &self.all);
        if self.native.is_empty() {
            let skipped = if all.skipped > 0 { format!(", {} skipped", grouped(all.skipped)) } else { String::new() };
            writeln!(out, "{}: {}{skipped}", self.source.name, many(all.instructions, "instruction"))?;
        }
        for (name, count) in [("registers", all.registers), ("contexts", *contexts)] {
            if count > 0 && self.native.is_empty() {
                writeln!(out, "  {name:<12} {}", grouped(count))?;
            }
        }
        if let Some((first, last)) = times {
            writeln!(out, "  time         {first} to {last} {}", unit_name(self.counted.unit))?;
        }
        self.events(out)?;
        let [reads, writes] = [many(all.reads, "read"), many(all.writes, "write")];
        if all.reads + all.writes > 0 {
            let [read, written] = [all.read_bytes, all.written_bytes].map(|bytes| many(bytes, "byte"));
            writeln!(out, "  data         {reads} of {read}, {writes} of {written}")?;
        }
        let least = |is: bool| if is { "at least " } else { "" };
        let [pages, data_pages] = [code.pages, data.pages].map(|pages| many(pages, "page"));
        writeln!(out, "  code touched {}{} in {pages}", least(code.is_lower_bound), many(code.bytes, "byte"))?;
        if data.pages > 0 {
            let lines = many(data.lines, "line");
            writeln!(out, "  data touched {}{lines} of 64 bytes in {data_pages}", least(data.is_lower_bound))?;
        }
        Ok(())
    }

    fn events(&self, out: &mut dyn Write) -> io::Result<()> {
        let (report, all) = (&self.counted.report, &self.all);
        if all.exceptions + all.exception_returns > 0 {
            let (kinds, returns) = (listed(&report.exceptions), many(all.exception_returns, "return"));
            let kinds = if kinds.is_empty() { kinds } else { format!(" ({kinds})") };
            writeln!(out, "  raised       {}{kinds}, {returns}", many(all.exceptions, "exception"))?;
        }
        if all.gaps > 0 {
            writeln!(out, "  gaps         {} ({})", grouped(all.gaps), listed(&report.gaps))?;
        }
        Ok(())
    }

    fn branches(&self, out: &mut dyn Write) -> io::Result<()> {
        let branches = &self.counted.report.branches;
        if branches.all().total() == 0 && self.args.by.is_none() {
            return Ok(());
        }
        writeln!(out, "\n{:<18} {:>15} {:>15} {:>15}", "branches", "taken", "not taken", "unknown")?;
        for (name, outcomes) in [("all", branches.all())].into_iter().chain(branches.kinds()) {
            if outcomes.total() > 0 || name == "all" {
                let [taken, not, unknown] = [outcomes.taken, outcomes.not_taken, outcomes.unknown].map(grouped);
                writeln!(out, "{name:<18} {taken:>15} {not:>15} {unknown:>15}")?;
            }
        }
        Ok(())
    }

    fn group(&self, name: &str, rows: &[(String, Tally)], out: &mut dyn Write) -> io::Result<()> {
        let [reads, writes, taken] = ["reads", "writes", "taken"];
        writeln!(out, "\n{name:<16} {:>15} {:>8} {taken:>13} {reads:>13} {writes:>13}", "instructions", "share")?;
        let shown = if self.args.by.is_some() { rows.len() } else { FEW };
        for (name, tally) in rows.iter().take(shown) {
            let share = share(tally.instructions, self.all.instructions) * 100.0;
            let count = grouped(tally.instructions);
            let [taken, reads, writes] = [tally.taken, tally.reads, tally.writes].map(grouped);
            writeln!(out, "{name:<16} {count:>15} {share:>7.2}% {taken:>13} {reads:>13} {writes:>13}")?;
        }
        if rows.len() > shown {
            writeln!(out, "({} more; see --by {name})", grouped((rows.len() - shown) as u64))?;
        }
        Ok(())
    }

    /// Groups of instructions by name, the most instructions first.
    fn groups(&self) -> [(By, &'static str, Named); 4] {
        let report = &self.counted.report;
        let unknown = || "unknown".to_string();
        let level = |level: Option<u8>| level.map_or_else(unknown, |level| self.level_name(level));
        let security = |name: Option<&str>| name.map_or_else(unknown, str::to_string);
        let process = |(is_rest, process): (bool, Option<u64>)| match process {
            _ if is_rest => "(others)".to_string(),
            process => process.map_or_else(unknown, |process| format!("{process:#x}")),
        };
        [
            (By::Core, "core", rows(report.by_core(), |core| core.to_string())),
            (By::Level, "level", rows(report.by_level(), level)),
            (By::Security, "security", rows(report.by_security(), security)),
            (By::Process, "process", rows(report.by_process(), process)),
        ]
    }

    /// What a level is called; RISC-V has modes.
    fn level_name(&self, level: u8) -> String {
        let is_riscv = self.counted.report.mix.by_isa().first().is_some_and(|(name, _)| name.starts_with("rv"));
        match (is_riscv, level) {
            (false, level) => format!("EL{level}"),
            (true, 0) => "user".to_string(),
            (true, 1) => "supervisor".to_string(),
            (true, 2) => "hypervisor".to_string(),
            (true, 3) => "machine".to_string(),
            (true, level) => format!("mode {level}"),
        }
    }

    fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let (report, all) = (&self.counted.report, &self.all);
        let mut rows = Rows::new(self.source.id, all.instructions, out);
        rows.object("steps", |object| {
            if self.source.id.is_some() {
                object.string("source_name", &self.source.name);
            }
            object.plain("contexts", report.contexts).plain("states", report.states).plain("notes", report.notes);
            object.plain("without_opcode", report.mix.unknown).plain("instructions", all.instructions);
            fields(all, |name, count| {
                object.plain(name, count);
            });
            object.nullable("first_time", report.times.map(|(first, _)| first));
            object.nullable("last_time", report.times.map(|(_, last)| last));
            object.string("time_unit", unit_name(self.counted.unit)).flag("processes_left_out", report.is_full);
        })?;
        rows.object("footprint", |object| {
            let (code, data) = (&report.code, &report.data);
            object.plain("code_bytes", code.bytes).plain("code_pages", code.pages);
            object.flag("code_at_least", code.is_lower_bound).plain("data_lines", data.lines);
            object.plain("data_pages", data.pages).flag("data_at_least", data.is_lower_bound);
        })?;
        let named = [("exception", By::Exception, &report.exceptions), ("gap", By::Exception, &report.gaps)];
        for (kind, by, counts) in named {
            for (name, count) in counts.iter().filter(|_| self.shows(by)) {
                rows.object(kind, |object| {
                    object.string("name", name).plain("count", count);
                })?;
            }
        }
        self.json_tables(&mut rows)
    }

    fn json_tables(&self, rows: &mut Rows<'_>) -> io::Result<()> {
        let Report { branches, mix, .. } = &self.counted.report;
        for (name, outcomes) in [("all", branches.all())].into_iter().chain(branches.kinds()) {
            if self.shows(By::Branch) {
                rows.object("branch", |object| {
                    object.string("name", name).plain("taken", outcomes.taken);
                    object.plain("not_taken", outcomes.not_taken).plain("unknown", outcomes.unknown);
                })?;
            }
        }
        for (_, kind, groups) in self.groups().iter().filter(|(by, ..)| self.shows(*by)) {
            for (name, tally) in groups {
                rows.put_with(kind, name, tally.instructions, |object| {
                    fields(tally, |name, count| {
                        object.plain(name, count);
                    });
                })?;
            }
        }
        let tables = [
            (By::Isa, "isa", mix.by_isa()),
            (By::Class, "class", mix.by_class()),
            (By::Mnemonic, "mnemonic", mix.by_mnemonic()),
        ];
        for (_, kind, table) in tables.iter().filter(|(by, ..)| self.shows(*by)) {
            table.iter().try_for_each(|(name, count)| rows.put(kind, name, *count))?;
            if *kind == "class" && mix.unclassified > 0 {
                rows.put("class", "none", mix.unclassified)?;
            }
        }
        Ok(())
    }
}

/// Every count of a group but instructions, by its name in JSON.
fn fields(tally: &Tally, mut take: impl FnMut(&'static str, u64)) {
    let all = [
        ("skipped", tally.skipped),
        ("taken", tally.taken),
        ("exceptions", tally.exceptions),
        ("exception_returns", tally.exception_returns),
        ("gaps", tally.gaps),
        ("registers", tally.registers),
        ("reads", tally.reads),
        ("read_bytes", tally.read_bytes),
        ("writes", tally.writes),
        ("written_bytes", tally.written_bytes),
        ("other_accesses", tally.neither),
    ];
    all.into_iter().for_each(|(name, count)| take(name, count));
}

fn rows<K>(rows: impl IntoIterator<Item = (K, Tally)>, name: impl Fn(K) -> String) -> Named {
    let mut rows: Vec<_> = rows.into_iter().map(|(key, tally)| (name(key), tally)).collect();
    rows.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.instructions));
    rows
}

fn listed(counts: &[(&str, u64)]) -> String {
    let words: Vec<String> = counts.iter().map(|(name, count)| format!("{} {name}", grouped(*count))).collect();
    words.join(", ")
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Cycles => "cycles",
        TimeUnit::Seconds(0) => "seconds",
        TimeUnit::Seconds(-3) => "milliseconds",
        TimeUnit::Seconds(-6) => "microseconds",
        TimeUnit::Seconds(-9) => "nanoseconds",
        TimeUnit::Seconds(-12) => "picoseconds",
        TimeUnit::Seconds(_) => "parts of a second",
        TimeUnit::Unknown => "ticks",
    }
}
