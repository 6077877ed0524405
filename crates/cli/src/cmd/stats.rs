//! `stats`: what a trace comes to, and the instruction mix.

mod tarmac;

use std::io::{self, Write};

use anyhow::bail;
use unspool::formats::stf::stats::{Counts, Stats, Table};

use super::{grouped, many};
use crate::Verdict;
use crate::args::OutputArgs;
use crate::astf::End;
use crate::file::{FileArgs, Opened};
use crate::json::Object;
use crate::output::Output;
use crate::progress::Progress;
use crate::stf::{Header, Stf, verdict};

/// Count the instructions of an STF file or a Tarmac log: by class, by mnemonic, by mode
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    file: FileArgs,

    /// Only this table (both, if not said)
    #[arg(long, value_name = "WHAT", value_enum)]
    by: Option<By>,

    /// Threads (all cores, if not said)
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    #[command(flatten)]
    output: OutputArgs,
}

/// What the mix is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// What instructions do; one may be in several classes (STF only)
    Class,
    /// What instructions are called, as they were encoded
    Mnemonic,
}

const EXAMPLES: &str = "\
Examples:
  unspool stats trace.zstf
  unspool stats trace.zstf --by mnemonic
  unspool stats run.tarmac
  unspool stats trace.zstf --json | jq -r 'select(.kind == \"class\") | [.name, .count] | @tsv'

Instructions that faulted are not in the mix. Until an event says that user mode is entered, instructions are executed
outside it.";

/// Counts.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut file = match args.file.open(args.jobs.map(usize::from))? {
        None => return Ok(Verdict::Problems),
        Some(Opened::Astf(file)) => bail!("{}: ASTF has no statistics, not yet; see 'unspool info'", file.name()),
        Some(Opened::Tarmac(file)) => return tarmac::run(args, file),
        Some(Opened::Stf(file)) => file,
    };
    let mut output = Output::open_for(&args.output, &args.file.file)?;
    let header = match file.header()? {
        Ok(header) => header,
        Err(end) => return Ok(verdict(&mut file, &end)),
    };
    let (Stats { counts, mix }, end) = count(&mut file, &header, &mut Progress::new(output.on_terminal))?;
    let table = mix.finish();
    output.write(|out| {
        if args.output.json { json(args, &counts, &table, out) } else { text(args, &file, &counts, &table, out) }
    });
    output.finish()?;
    Ok(verdict(&mut file, &end))
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

fn text(args: &Args, file: &Stf, counts: &Counts, table: &Table, out: &mut dyn Write) -> io::Result<()> {
    let [instructions, records] = [many(counts.instructions, "instruction"), many(counts.records, "record")];
    let faults = if counts.faults > 0 { format!(", {} faulted", grouped(counts.faults)) } else { String::new() };
    writeln!(out, "{}: {instructions}{faults}, {records} behind the header", file.name())?;
    let [user, others] = [counts.user, counts.non_user].map(grouped);
    writeln!(out, "  user mode    {user}, others {others}")?;
    let [reads, writes] = [many(counts.reads, "read"), many(counts.writes, "write")];
    writeln!(out, "  accesses     {}: {reads}, {writes}", grouped(counts.accesses))?;
    for (name, count) in [("events", counts.events), ("walks", counts.walks), ("micro-ops", counts.microops)] {
        if count > 0 {
            writeln!(out, "  {name:<12} {}", grouped(count))?;
        }
    }
    if args.by != Some(By::Mnemonic) {
        let rows: Vec<_> = table.by_class().into_iter().map(|(class, count)| (class.name(), count)).collect();
        self::table(out, "class", &rows, table.total)?;
        if table.unclassified > 0 {
            row(out, "(none)", table.unclassified, table.total)?;
        }
    }
    if args.by != Some(By::Class) {
        self::table(out, "mnemonic", &table.by_mnemonic(), table.total)?;
    }
    Ok(())
}

fn table(out: &mut dyn Write, name: &str, rows: &[(&str, u64)], total: u64) -> io::Result<()> {
    writeln!(out, "\n{name:<16} {:>15} {:>8}", "instructions", "share")?;
    rows.iter().try_for_each(|(name, count)| row(out, name, *count, total))
}

fn row(out: &mut dyn Write, name: &str, count: u64, total: u64) -> io::Result<()> {
    writeln!(out, "{name:<16} {:>15} {:>7.2}%", grouped(count), share(count, total) * 100.0)
}

fn share(count: u64, total: u64) -> f64 {
    count as f64 / total.max(1) as f64
}

fn json(args: &Args, counts: &Counts, table: &Table, out: &mut dyn Write) -> io::Result<()> {
    let mut line = String::new();
    let mut object = Object::new(&mut line);
    object.string("kind", "counts");
    each_count(counts, |name, count| {
        object.plain(name, count);
    });
    object.finish(out)?;
    let mut rows = |kind: &str, name: &str, count: u64| {
        let mut object = Object::new(&mut line);
        object.string("kind", kind).string("name", name).plain("count", count);
        object.plain("share", format_args!("{:.6}", share(count, table.total)));
        object.finish(out)
    };
    if args.by != Some(By::Mnemonic) {
        table.by_class().iter().try_for_each(|(class, count)| rows("class", class.name(), *count))?;
        if table.unclassified > 0 {
            rows("class", "none", table.unclassified)?;
        }
    }
    if args.by != Some(By::Class) {
        table.by_mnemonic().iter().try_for_each(|(name, count)| rows("mnemonic", name, *count))?;
    }
    Ok(())
}

/// Every count and its name in JSON.
pub(super) fn each_count(counts: &Counts, mut take: impl FnMut(&'static str, u64)) {
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
