//! `export bolt`: branches of a program for `perf2bolt -pa`.

use std::collections::{BTreeMap, HashMap};

use anyhow::bail;
use unspool::Program;
use unspool::analyze::branch_flow::{BranchCounter, BranchFlow, Pair};
use unspool::export::bolt::{self, Counted};
use unspool::number::many;

use super::whole_file::write_file;
use super::{FileArgs, InstructionArgs};
use crate::diagnostic;
use crate::traces::{OpenTrace, TraceArgs};
use crate::verdict::Verdict;

/// Write the branches of a program for perf2bolt -pa
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    instructions: InstructionArgs,
    #[command(flatten)]
    file: FileArgs,

    /// The program or library to optimize: its name, or its path [default: the one with the most branches]
    #[arg(long, value_name = "NAME")]
    binary: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  unspool export bolt trace.astf --image program -o program.preagg
  perf2bolt -pa -p program.preagg -o program.fdata program
  llvm-bolt program -o program.bolt -data program.fdata -reorder-blocks=ext-tsp -reorder-functions=hfsort

Pre-aggregated branches: every taken branch with its source, target and count, and the code between taken branches. Addresses are \
those of the program file, wherever it was loaded. Branches of one program are written; those to or from other images have the address 0 \
there. Mispredictions are not in a trace, so their number is 0. The program needs relocations: link it with -Wl,--emit-relocs.";

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    args.file.force.check(&args.file.output)?;
    let mut images = Images::default();
    let verdict = args.trace.each(|trace| add(args, trace, &mut images))?;
    let Some((name, counts)) = images.select(args.binary.as_deref())? else {
        bail!("no image of the trace was executed: give the program with --image FILE");
    };
    let [branches, ranges] = [&counts.branches, &counts.ranges].map(rows);
    write_file(&args.file.output, |out| bolt::write(&branches, &ranges, out))?;
    let [branches, ranges] =
        [("branch", &branches), ("range", &ranges)].map(|(name, rows)| many(rows.len() as u64, name));
    diagnostic::note(format_args!("{name}: {branches}, {ranges}"));
    images.report();
    Ok(verdict)
}

fn add(args: &Args, trace: &mut OpenTrace, images: &mut Images) -> anyhow::Result<Verdict> {
    let selection = args.instructions.select(trace, &args.trace)?;
    let mut counter = BranchCounter::default();
    let verdict = trace.follow(&selection, &mut counter)?;
    images.add(&counter.finish(), trace.program());
    Ok(verdict)
}

/// Branches and ranges at link addresses.
#[derive(Debug, Default)]
struct Counts {
    branches: HashMap<(u64, u64), u64>,
    ranges: HashMap<(u64, u64), u64>,
}

/// Counts by the name of the image.
#[derive(Debug, Default)]
struct Images {
    images: BTreeMap<String, Counts>,
    not_listed: u64,
    unknown: u64,
    gaps: u64,
}

impl Images {
    fn add(&mut self, flow: &BranchFlow, program: &Program) {
        for (Pair { process, from, to }, count) in &flow.branches {
            let (from, to) = (place(program, *process, *from), place(program, *process, *to));
            match (from, to) {
                (Some((name, from)), Some((other, to))) if name == other => self.add_branch(name, (from, to), *count),
                (from, to) => {
                    from.into_iter().for_each(|(name, from)| self.add_branch(name, (from, 0), *count));
                    to.into_iter().for_each(|(name, to)| self.add_branch(name, (0, to), *count));
                }
            }
        }
        for (Pair { process, from, to }, count) in &flow.ranges {
            let (from, to) = (place(program, *process, *from), place(program, *process, *to));
            if let (Some((name, from)), Some((other, to))) = (from, to)
                && name == other
            {
                *self.counts(name).ranges.entry((from, to)).or_default() += count;
            }
        }
        self.not_listed += flow.not_listed;
        self.unknown += flow.unknown;
        self.gaps += flow.gaps;
    }

    fn counts(&mut self, name: &str) -> &mut Counts {
        self.images.entry(name.to_string()).or_default()
    }

    fn add_branch(&mut self, name: &str, branch: (u64, u64), count: u64) {
        *self.counts(name).branches.entry(branch).or_default() += count;
    }

    /// The image of this name; by default, the one with the most executed branches.
    fn select(&self, name: Option<&str>) -> anyhow::Result<Option<(&str, &Counts)>> {
        let images = self.images.iter().map(|(name, counts)| (name.as_str(), counts));
        let Some(wanted) = name else {
            return Ok(images.max_by_key(|(_, counts)| counts.branches.values().sum::<u64>()));
        };
        let is_wanted = |name: &str| name == wanted || name.rsplit(['/', '\\']).next() == Some(wanted);
        match images.clone().find(|(name, _)| is_wanted(name)) {
            Some(found) => Ok(Some(found)),
            None => {
                let names = images.map(|(name, _)| name).collect::<Vec<_>>().join(", ");
                bail!("--binary: '{wanted}' was not executed; executed: {names}")
            }
        }
    }

    fn report(&self) {
        let rows = [
            (self.not_listed, "different branch", "too many, and left out"),
            (self.unknown, "branch", "whose target is unknown"),
            (self.gaps, "gap", "in the execution"),
        ];
        for (count, noun, about) in rows.into_iter().filter(|(count, ..)| *count > 0) {
            diagnostic::note(format_args!("{} {about}", many(count, noun)));
        }
    }
}

/// The image that has an address of a process, and the address in its file.
fn place(program: &Program, process: Option<u64>, address: u64) -> Option<(&str, u64)> {
    let code = program.images_of_process(process, address).find(|code| !code.regions.is_empty())?;
    Some((code.name.as_str(), address.wrapping_sub(code.bias)))
}

fn rows(table: &HashMap<(u64, u64), u64>) -> Vec<Counted> {
    let mut rows: Vec<Counted> =
        table.iter().map(|((from, to), count)| Counted { from: *from, to: *to, count: *count }).collect();
    rows.sort_unstable();
    rows
}
