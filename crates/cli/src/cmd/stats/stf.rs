//! What an STF file comes to: its records, modes, and the instruction mix as tools around STF count it.

use std::io::{self, Write};

use unspool::stf::stats::{Counts, Stats, Table};

use super::super::{grouped, many};
use super::{Args, By, Native, Rows, row, table};
use crate::Verdict;
use crate::astf::End;
use crate::json::Object;
use crate::progress::Progress;
use crate::stf::{Header, Stf, verdict};

/// Counts. The file is done with.
pub(super) fn run(mut file: Stf, mut progress: Progress) -> anyhow::Result<(Option<Box<dyn Native>>, Verdict)> {
    let header = match file.header()? {
        Ok(header) => header,
        Err(end) => return Ok((None, verdict(&mut file, &end))),
    };
    let (Stats { counts, mix }, end) = count(&mut file, &header, &mut progress)?;
    let has_instructions = !header.has_transactions();
    let page = Page { name: file.name().to_string(), counts, table: mix.finish(), has_instructions };
    Ok((Some(Box::new(page)), verdict(&mut file, &end)))
}

fn count(file: &mut Stf, header: &Header, progress: &mut Progress) -> anyhow::Result<(Stats, End)> {
    let mut stats = Stats::default();
    header.isa_records().iter().for_each(|record| stats.mix.follow(record));
    if !header.has_transactions() {
        let end;
        (stats, end) = file.gather(&mut header.follower(), progress, stats)?;
        if end != End::Whole {
            return Ok((stats, end));
        }
    }
    let end = file.each(progress, |_, record| {
        stats.counts.add_trailing(record);
        true
    })?;
    Ok((stats, end))
}

struct Page {
    name: String,
    counts: Counts,
    table: Table,
    has_instructions: bool,
}

impl Native for Page {
    fn tables(&self) -> &'static [By] {
        &[By::Class, By::Mnemonic]
    }

    fn has_steps(&self) -> bool {
        self.has_instructions
    }

    fn head(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { counts, .. } = self;
        let [instructions, records] = [many(counts.instructions, "instruction"), many(counts.records, "record")];
        let faults = if counts.faults > 0 { format!(", {} faulted", grouped(counts.faults)) } else { String::new() };
        writeln!(out, "{}: {instructions}{faults}, {records} behind the header", self.name)?;
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

    fn text(&self, args: &Args, out: &mut dyn Write) -> io::Result<()> {
        if args.shows(By::Class) {
            let rows: Vec<_> = self.table.by_class().into_iter().map(|(class, count)| (class.name(), count)).collect();
            table(out, "class", &rows, self.table.total)?;
            if self.table.unclassified > 0 {
                row(out, "(none)", self.table.unclassified, self.table.total)?;
            }
        }
        if args.shows(By::Mnemonic) {
            table(out, "mnemonic", &self.table.by_mnemonic(), self.table.total)?;
        }
        Ok(())
    }

    fn json_head(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut line = String::new();
        let mut object = Object::new(&mut line);
        object.string("kind", "counts");
        each_count(&self.counts, |name, count| {
            object.plain(name, count);
        });
        object.finish(out)
    }

    fn json(&self, args: &Args, out: &mut dyn Write) -> io::Result<()> {
        let mut rows = Rows::new(None, self.table.total, out);
        if args.shows(By::Class) {
            self.table.by_class().iter().try_for_each(|(class, count)| rows.put("class", class.name(), *count))?;
            if self.table.unclassified > 0 {
                rows.put("class", "none", self.table.unclassified)?;
            }
        }
        if args.shows(By::Mnemonic) {
            self.table.by_mnemonic().iter().try_for_each(|(name, count)| rows.put("mnemonic", name, *count))?;
        }
        Ok(())
    }
}

/// Every count and its name in JSON.
pub(in super::super) fn each_count(counts: &Counts, mut take: impl FnMut(&'static str, u64)) {
    let [user, supervisor, hypervisor, machine] = counts.modes;
    let all = [
        ("records", counts.records),
        ("opcodes", counts.opcodes),
        ("instructions", counts.instructions),
        ("faults", counts.faults),
        ("user", counts.user),
        ("non_user", counts.non_user),
        ("in_user_mode", user),
        ("in_supervisor_mode", supervisor),
        ("in_hypervisor_mode", hypervisor),
        ("in_machine_mode", machine),
        ("targets", counts.targets),
        ("forced", counts.forced),
        ("accesses", counts.accesses),
        ("reads", counts.reads),
        ("writes", counts.writes),
        ("memory_records", counts.memory_records),
        ("registers", counts.registers),
        ("events", counts.events),
        ("walks", counts.walks),
        ("bus_accesses", counts.bus_accesses),
        ("microops", counts.microops),
        ("comments", counts.comments),
    ];
    all.into_iter().for_each(|(name, count)| take(name, count));
}
