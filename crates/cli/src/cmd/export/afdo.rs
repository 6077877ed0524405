//! `export afdo`: a sample profile for `clang -fprofile-sample-use`.
//!
//! counts by image, taken branches + debug information ─▶ samples by function, line and inlined call

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use unspool::Program;
use unspool::analyze::address_counts::AddressCounter;
use unspool::analyze::branch_flow::{BranchCounter, BranchFlow, Pair};
use unspool::coverage::{ExecutedImages, ImageCounts};
use unspool::export::afdo::{Frame, Location, SampleProfile, copies};
use unspool::lines::{self, Lines};
use unspool::model::{BlockSink, BlockTrace, Step};
use unspool::number::many;

use super::whole_file::write_file;
use super::{FileArgs, InstructionArgs, warn_if_nothing};
use crate::diagnostic;
use crate::source_lines::{report_lines, source_lines};
use crate::traces::{OpenTrace, TraceArgs};
use crate::verdict::Verdict;

/// Write a sample profile (AutoFDO) for clang -fprofile-sample-use
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    instructions: InstructionArgs,
    #[command(flatten)]
    file: FileArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool export afdo trace.astf --image program -o program.afdo
  unspool export afdo run1.astf run2.astf --image program -o program.afdo
  llvm-profdata show --sample program.afdo
  clang -O2 -g -fdebug-info-for-profiling -fprofile-sample-use=program.afdo program.c

The text form of LLVM's sample profiles: executions by function, line and inlined call, with the targets of calls; of functions that were \
executed, instructions that were not have 0 samples. The program needs debug information: build it with -g -fdebug-info-for-profiling, which \
keeps apart blocks of the same line. The counts are those of the trace, not of samples. All traces are added up.";

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    args.file.force.check(&args.file.output)?;
    let lines = source_lines(&args.trace.read.processes.load()?, &args.trace.read.images);
    let mut export = Export::new(args, &lines);
    let verdict = args.trace.each(|trace| export.add(trace))?;
    export.add_executed();
    report_lines(Some(&lines));
    export.report();
    export.profile.retain_executed();
    if export.profile.functions() == 0 {
        diagnostic::warning(
            "no function with debug information was executed: give the program with --image FILE, built with -g",
        );
    }
    write_file(&args.file.output, |out| export.profile.write(out))?;
    diagnostic::note(many(export.profile.functions() as u64, "function"));
    Ok(verdict)
}

/// Instructions and branches of one source.
#[derive(Default)]
struct Counter {
    addresses: AddressCounter,
    branches: BranchCounter,
}

impl BlockSink for Counter {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.branches.step(step)?;
        self.addresses.step(step)
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        self.branches.blocks(trace)?;
        self.addresses.blocks(trace)
    }
}

struct Export<'a> {
    args: &'a Args,
    names: Names<'a>,
    executed: ExecutedImages,
    profile: SampleProfile,
    /// Executed instructions without a function or a line in the debug information.
    without: u64,
}

impl<'a> Export<'a> {
    fn new(args: &'a Args, lines: &'a Lines) -> Self {
        let names = Names { lines, functions: HashMap::new() };
        Self { args, names, executed: ExecutedImages::default(), profile: SampleProfile::new(), without: 0 }
    }

    fn add(&mut self, trace: &mut OpenTrace) -> anyhow::Result<Verdict> {
        let selection = self.args.instructions.select(trace, &self.args.trace)?;
        let mut counter = Counter::default();
        let verdict = trace.follow(&selection, &mut counter)?;
        let program = Arc::clone(trace.program());
        let counts = counter.addresses.finish();
        warn_if_nothing(&trace.name(), counts.instructions, selection.is_all());
        self.executed.add(&counts, &program);
        self.add_calls(&counter.branches.finish(), &program);
        Ok(verdict)
    }

    /// Adds what calls and enters functions: a branch to the start of one.
    fn add_calls(&mut self, flow: &BranchFlow, program: &Program) {
        for (Pair { process, from, to }, count) in &flow.branches {
            let Some((symbol, 0)) = program.symbol_of(*process, *to) else { continue };
            let called = self.names.lines.find_of_process(program, *process, *to);
            let target =
                self.names.function(called.last().and_then(|frame| frame.function.as_deref()).unwrap_or(symbol));
            if !called.is_empty() {
                self.profile.add_entries(&target, *count);
            }
            let frames = self.names.lines.find_of_process(program, *process, *from);
            if let Some(frames) = self.names.frames(&frames) {
                self.profile.add_calls(&frames, &target, *count);
            }
        }
    }

    /// Adds all instructions of the functions of which any was executed.
    fn add_executed(&mut self) {
        for image in &std::mem::take(&mut self.executed.images) {
            self.without += image.counts.values().map(|count| count.executed).sum::<u64>();
            let symbols = image.code.symbols.iter().filter(|symbol| symbol.size > 0);
            let mut ranges: Vec<(u64, u64)> =
                symbols.map(|symbol| (symbol.address, symbol.address.saturating_add(symbol.size))).collect();
            ranges.sort_unstable();
            ranges.dedup();
            let mut end = 0;
            for (start, next) in ranges {
                // Symbols may overlap.
                self.add_range(image, start.max(end)..next);
                end = end.max(next);
            }
        }
    }

    fn add_range(&mut self, image: &ImageCounts, range: std::ops::Range<u64>) {
        if range.is_empty() || image.counts.range(range.clone()).next().is_none() {
            return;
        }
        for (instruction, count) in image.instructions(range) {
            let frames = self.names.lines.find_in(&image.code, instruction.address);
            let copies = frames.first().map_or(1, |frame| copies(frame.discriminator));
            let Some(frames) = self.names.frames(&frames) else { continue };
            if self.profile.add(&frames, count.executed.saturating_mul(copies)) {
                self.without -= count.executed.min(self.without);
            }
        }
    }

    fn report(&self) {
        let ExecutedImages { instructions, not_counted, gaps, .. } = self.executed;
        let without = self.without + self.executed.outside + not_counted;
        diagnostic::note(format_args!(
            "{}, {without} without a source line",
            many(instructions + not_counted, "instruction")
        ));
        if gaps > 0 {
            diagnostic::note(format_args!("part of the execution is missing ({})", many(gaps, "gap")));
        }
    }
}

/// Names of functions, each once.
struct Names<'a> {
    lines: &'a Lines,
    functions: HashMap<String, Arc<str>>,
}

impl Names<'_> {
    /// The name by which the compiler looks a function up: without what it adds to copies of it.
    fn function(&mut self, name: &str) -> Arc<str> {
        let name = [".llvm.", ".part.", ".__uniq."].iter().fold(name, |name, added| match name.find(added) {
            Some(end) if end > 0 => name.get(..end).unwrap_or(name),
            _ => name,
        });
        match self.functions.get(name) {
            Some(known) => Arc::clone(known),
            None => {
                let made: Arc<str> = name.into();
                self.functions.insert(name.to_string(), Arc::clone(&made));
                made
            }
        }
    }

    /// The functions that contain an instruction, outermost first. `None`: something about them is unknown.
    fn frames(&mut self, frames: &[lines::Frame]) -> Option<Vec<Frame>> {
        let frame = |frame: &lines::Frame| {
            let location = Location::new(frame.position.as_ref()?.line, frame.declared?, frame.discriminator);
            Some(Frame { function: self.function(frame.function.as_deref()?), location })
        };
        let frames: Option<Vec<Frame>> = frames.iter().rev().map(frame).collect();
        frames.filter(|frames| !frames.is_empty())
    }
}
