//! Native counts of STF and Tarmac, as text and as JSON lines.

use std::io::{self, Write};

use unspool::analyze::stats::json::Rows;
use unspool::model::json::Object;
use unspool::number::{grouped, many};
use unspool::stf::stats::{Counts, Table};
use unspool::tarmac;

use super::by::By;
use super::text::{row, table};
use crate::listing::counted;

pub(super) trait Native {
    fn tables(&self) -> &'static [By];

    fn has_steps(&self) -> bool {
        true
    }

    fn head(&self, out: &mut dyn Write) -> io::Result<()>;

    fn text(&self, by: Option<By>, out: &mut dyn Write) -> io::Result<()>;

    fn json_head(&self, out: &mut dyn Write) -> io::Result<()>;

    fn json(&self, by: Option<By>, out: &mut dyn Write) -> io::Result<()>;
}

pub(super) struct StfPage {
    pub(super) name: String,
    pub(super) counts: Counts,
    pub(super) table: Table,
    pub(super) has_instructions: bool,
}

impl Native for StfPage {
    fn tables(&self) -> &'static [By] {
        &[By::Class, By::Mnemonic]
    }

    fn has_steps(&self) -> bool {
        self.has_instructions
    }

    fn head(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { counts, .. } = self;
        let [instructions, records] = [many(counts.opcodes, "instruction"), many(counts.records, "record")];
        let [executed, faulted] = [counts.instructions, counts.faults].map(grouped);
        let split =
            if counts.faults > 0 { format!(" ({executed} executed, {faulted} faulted)") } else { String::new() };
        writeln!(out, "{}: {instructions}{split}, {records} after the header", self.name)?;
        let [user, others] = [counts.user, counts.non_user].map(grouped);
        writeln!(out, "  user mode    {user}, others {others}")?;
        let [reads, writes] = [many(counts.reads, "read"), many(counts.writes, "write")];
        writeln!(out, "  accesses     {}: {reads}, {writes}", grouped(counts.accesses))?;
        for (name, count) in [("events", counts.events), ("walks", counts.walks), ("micro-ops", counts.microops)] {
            if count > 0 {
                writeln!(out, "  {name:<12} {}", grouped(count))?;
            }
        }
        Ok(())
    }

    fn text(&self, by: Option<By>, out: &mut dyn Write) -> io::Result<()> {
        if shows(by, By::Class) {
            let rows: Vec<_> = self.table.by_class().into_iter().map(|(class, count)| (class.name(), count)).collect();
            table(out, "class", &rows, self.table.total)?;
            if self.table.unclassified > 0 {
                row(out, "(none)", self.table.unclassified, self.table.total)?;
            }
        }
        if shows(by, By::Mnemonic) {
            table(out, "mnemonic", &self.table.by_mnemonic(), self.table.total)?;
        }
        Ok(())
    }

    fn json_head(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut line = String::new();
        let mut object = Object::new(&mut line);
        object.string("file", &self.name).string("kind", "counts");
        for (name, count) in self.counts.fields() {
            object.plain(name, count);
        }
        object.write_line(out)
    }

    fn json(&self, by: Option<By>, out: &mut dyn Write) -> io::Result<()> {
        let mut rows = Rows::new(&self.name, None, self.table.total, out);
        if shows(by, By::Class) {
            self.table.by_class().iter().try_for_each(|(class, count)| rows.put("class", class.name(), *count))?;
            if self.table.unclassified > 0 {
                rows.put("class", "none", self.table.unclassified)?;
            }
        }
        if shows(by, By::Mnemonic) {
            self.table.by_mnemonic().iter().try_for_each(|(name, count)| rows.put("mnemonic", name, *count))?;
        }
        Ok(())
    }
}

pub(super) struct TarmacPage {
    pub(super) name: String,
    pub(super) counts: tarmac::stats::Counts,
}

impl Native for TarmacPage {
    fn tables(&self) -> &'static [By] {
        &[By::Mnemonic, By::Isa]
    }

    fn head(&self, out: &mut dyn Write) -> io::Result<()> {
        let [instructions, lines] = [many(self.counts.instructions, "instruction"), many(self.counts.lines, "line")];
        let skipped = self.counts.skipped;
        let skipped = if skipped > 0 { format!(", {} skipped", grouped(skipped)) } else { String::new() };
        writeln!(out, "{}: {instructions}{skipped}, {lines}", self.name)?;
        let sets = self.counts.sets.iter().map(|(set, count)| (set, *count));
        writeln!(out, "  sets         {}", counted(sets))?;
        let modes = self.counts.modes.rows();
        let modes = modes.iter().map(|(mode, count)| (format!("in {mode}"), *count));
        writeln!(out, "  modes        {}", counted(modes))?;
        let [reads, writes] = [many(self.counts.reads, "read"), many(self.counts.writes, "write")];
        writeln!(out, "  memory       {reads}, {writes}")?;
        for (name, count) in [
            ("registers", self.counts.registers),
            ("exceptions", self.counts.exceptions),
            ("BR lines", self.counts.branches),
        ] {
            if count > 0 {
                writeln!(out, "  {name:<12} {}", grouped(count))?;
            }
        }
        Ok(())
    }

    fn text(&self, by: Option<By>, out: &mut dyn Write) -> io::Result<()> {
        if !shows(by, By::Mnemonic) {
            return Ok(());
        }
        let total = self.counts.instructions;
        table(out, "mnemonic", &[], total)?;
        self.counts.mnemonics.rows().iter().try_for_each(|(name, count)| row(out, name, *count, total))
    }

    fn json_head(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut line = String::new();
        let mut object = Object::new(&mut line);
        let counts = &self.counts;
        object
            .string("file", &self.name)
            .string("kind", "counts")
            .plain("lines", counts.lines)
            .plain("instructions", counts.instructions);
        object.plain("skipped", counts.skipped).plain("reads", counts.reads).plain("writes", counts.writes);
        object.plain("registers", counts.registers).plain("exceptions", counts.exceptions);
        object.plain("branches", counts.branches).write_line(out)
    }

    fn json(&self, by: Option<By>, out: &mut dyn Write) -> io::Result<()> {
        let mut rows = Rows::new(&self.name, None, self.counts.instructions, out);
        self.counts.sets.iter().try_for_each(|(name, count)| rows.put("isa", name, *count))?;
        self.counts.modes.rows().iter().try_for_each(|(name, count)| rows.put("mode", name, *count))?;
        if !shows(by, By::Mnemonic) {
            return Ok(());
        }
        self.counts.mnemonics.rows().iter().try_for_each(|(name, count)| rows.put("mnemonic", name, *count))
    }
}

fn shows(by: Option<By>, table: By) -> bool {
    by.is_none_or(|by| by == table)
}
