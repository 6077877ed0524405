//! Counts of steps as JSON lines, one per count or row.

use std::io::{self, Write};

use unspool_model::TimeUnit;
use unspool_model::json::Object;

use super::{Report, Tally};

impl Report {
    /// Groups of instructions by name, the most instructions first.
    pub fn groups(&self) -> [(&'static str, Vec<(String, Tally)>); 4] {
        let unknown = || "unknown".to_string();
        let level = |level: Option<u8>| level.map_or_else(unknown, |level| self.level_name(level));
        let security = |name: Option<&str>| name.map_or_else(unknown, str::to_string);
        let process = |(is_rest, process): (bool, Option<u64>)| match process {
            _ if is_rest => "(others)".to_string(),
            process => process.map_or_else(unknown, |process| format!("{process:#x}")),
        };
        [
            ("core", rows(self.by_core(), |core| core.to_string())),
            ("level", rows(self.by_level(), level)),
            ("security", rows(self.by_security(), security)),
            ("process", rows(self.by_process(), process)),
        ]
    }

    /// Name of a level; RISC-V has modes.
    fn level_name(&self, level: u8) -> String {
        let is_riscv = self.mix.by_isa().first().is_some_and(|(name, _)| name.starts_with("rv"));
        match (is_riscv, level) {
            (false, level) => format!("EL{level}"),
            (true, 0) => "user".to_string(),
            (true, 1) => "supervisor".to_string(),
            (true, 2) => "hypervisor".to_string(),
            (true, 3) => "machine".to_string(),
            (true, level) => format!("mode {level}"),
        }
    }

    /// Writes all counts as JSON lines, of the tables that `shows` accepts. Sources of a capture have an id and a name.
    pub fn write_json(
        &self,
        file: &str,
        unit: TimeUnit,
        source: Option<(Option<u8>, &str)>,
        shows: &dyn Fn(&str) -> bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let (report, all) = (self, self.all());
        let mut rows = Rows::new(file, source.map(|(id, _)| id), all.instructions, out);
        rows.object("steps", |object| {
            if let Some((_, name)) = source {
                object.string("source_name", name);
            }
            object.plain("contexts", report.contexts).plain("states", report.states).plain("notes", report.notes);
            object.plain("without_opcode", report.mix.unknown).plain("instructions", all.instructions);
            for (name, count) in fields(&all) {
                object.plain(name, count);
            }
            object.nullable("first_time", report.times.map(|(first, _)| first));
            object.nullable("last_time", report.times.map(|(_, last)| last));
            object.string("time_unit", unit_name(unit)).flag("processes_left_out", report.is_full);
        })?;
        rows.object("footprint", |object| {
            let (code, data) = (&report.code, &report.data);
            object.plain("code_bytes", code.bytes).plain("code_pages", code.pages);
            object.flag("code_at_least", code.is_lower_bound).plain("data_lines", data.lines);
            object.plain("data_pages", data.pages).flag("data_at_least", data.is_lower_bound);
        })?;
        for (kind, counts) in [("exception", &report.exceptions), ("gap", &report.gaps)] {
            for (name, count) in counts.iter().filter(|_| shows("exception")) {
                rows.object(kind, |object| {
                    object.string("name", name).plain("count", count);
                })?;
            }
        }
        self.write_tables(shows, &mut rows)
    }

    fn write_tables(&self, shows: &dyn Fn(&str) -> bool, rows: &mut Rows<'_>) -> io::Result<()> {
        let Report { branches, mix, .. } = self;
        for (name, outcomes) in [("all", branches.all())].into_iter().chain(branches.kinds()) {
            if shows("branch") {
                rows.object("branch", |object| {
                    object.string("name", name).plain("taken", outcomes.taken);
                    object.plain("not_taken", outcomes.not_taken).plain("unknown", outcomes.unknown);
                })?;
            }
        }
        for (kind, groups) in self.groups().iter().filter(|(kind, _)| shows(kind)) {
            for (name, tally) in groups {
                rows.put_with(kind, name, tally.instructions, |object| {
                    for (name, count) in fields(tally) {
                        object.plain(name, count);
                    }
                })?;
            }
        }
        let tables = [("isa", mix.by_isa()), ("class", mix.by_class()), ("mnemonic", mix.by_mnemonic())];
        for (kind, table) in tables.iter().filter(|(kind, _)| shows(kind)) {
            table.iter().try_for_each(|(name, count)| rows.put(kind, name, *count))?;
            if *kind == "class" && mix.unclassified > 0 {
                rows.put("class", "none", mix.unclassified)?;
            }
        }
        Ok(())
    }
}

/// Every count of a group but instructions, by its key in JSON.
fn fields(tally: &Tally) -> [(&'static str, u64); 11] {
    [
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
    ]
}

fn rows<K>(rows: impl IntoIterator<Item = (K, Tally)>, name: impl Fn(K) -> String) -> Vec<(String, Tally)> {
    let mut rows: Vec<_> = rows.into_iter().map(|(key, tally)| (name(key), tally)).collect();
    rows.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.instructions));
    rows
}

/// Name of a unit of time.
pub fn unit_name(unit: TimeUnit) -> &'static str {
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

/// Part of a total.
pub fn share(count: u64, total: u64) -> f64 {
    count as f64 / total.max(1) as f64
}

/// Rows of tables as JSON lines.
pub struct Rows<'o> {
    file: &'o str,
    source: Option<Option<u8>>,
    total: u64,
    line: String,
    out: &'o mut dyn Write,
}

impl<'o> Rows<'o> {
    /// Rows of a file, or of a source of a capture; shares are parts of `total`.
    pub fn new(file: &'o str, source: Option<Option<u8>>, total: u64, out: &'o mut dyn Write) -> Self {
        Self { file, source, total, line: String::new(), out }
    }

    /// Writes a row.
    pub fn put(&mut self, kind: &str, name: &str, count: u64) -> io::Result<()> {
        self.put_with(kind, name, count, |_| {})
    }

    /// Writes a row with more fields.
    pub fn put_with(
        &mut self,
        kind: &str,
        name: &str,
        count: u64,
        more: impl FnOnce(&mut Object<'_>),
    ) -> io::Result<()> {
        let total = self.total;
        self.object(kind, |object| {
            object.string("name", name).plain("count", count);
            object.plain("share", format_args!("{:.6}", share(count, total)));
            more(object);
        })
    }

    /// Writes a line of another kind.
    pub fn object(&mut self, kind: &str, fields: impl FnOnce(&mut Object<'_>)) -> io::Result<()> {
        let mut object = Object::new(&mut self.line);
        object.string("file", self.file);
        if let Some(id) = self.source {
            object.nullable("source", id);
        }
        object.string("kind", kind);
        fields(&mut object);
        object.write_line(self.out)
    }
}
