//! `export callgrind`: cost per function and source line, with calls, for callgrind_annotate and KCachegrind.

use std::path::PathBuf;
use std::sync::Arc;

use unspool::Program;
use unspool::analyze::call_costs::CallCounter;
use unspool::analyze::step_selection::StepSelection;
use unspool::export::callgrind::{Header, Line, Named, Names, Profile};
use unspool::lines::{Lines, Position};
use unspool::model::{Facet, TimeUnit};
use unspool::number::many;

use super::call_file::CallSelectionArgs;
use super::whole_file::write_file;
use super::{FileArgs, warn_if_nothing};
use crate::diagnostic;
use crate::file::each_file;
use crate::selection_args::SelectionArgs;
use crate::source_lines::{report_lines, source_lines};
use crate::symbols::symbol_text;
use crate::traces::{EachOptions, OpenTrace, ReadArgs};
use crate::verdict::Verdict;

/// Write a profile with source lines and calls for callgrind_annotate and KCachegrind
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Captures, ASTF files, STF files or Tarmac logs ('-': standard input, except for captures)
    #[arg(value_name = "TRACE", required = true)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    selection: CallSelectionArgs,
    #[command(flatten)]
    file: FileArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool export callgrind trace.astf --image program.elf -o callgrind.out
  unspool export callgrind snapshot/ -o callgrind.out && callgrind_annotate --inclusive=yes callgrind.out
  unspool export callgrind trace.astf --image program.elf --time 1ms..2ms -o callgrind.out

Costs are instructions (Ir), and time (Time) if the trace has times; where many instructions have the same time, it is that of the \
first one after the time changed. Source lines need debug information (DWARF) in the images. The costs of all traces, cores, processes and threads \
are added up. Calls of a function from within itself are those of a function of its own, name'2, as callgrind has them. See \
'unspool calls' for what is a call.";

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    args.file.force.check(&args.file.output)?;
    let lines = source_lines(&args.read.processes.load()?, &args.read.images);
    let mut export = Export { args, lines: &lines, profile: Profile::new(), header: Header::default() };
    let verdict =
        each_file(&args.files, |_, file| args.read.each(file, EachOptions::default(), &mut |trace| export.add(trace)))?;
    report_lines(Some(&lines));
    let Export { profile, header, .. } = export;
    write_file(&args.file.output, |out| profile.write(&header, out))?;
    let (functions, total) = (many(profile.functions() as u64, "function"), profile.total().instructions);
    diagnostic::note(format_args!("{}, {functions}", many(total, "instruction")));
    if header.gaps > 0 {
        diagnostic::note(format_args!("part of the execution is missing ({})", many(header.gaps, "gap")));
    }
    Ok(verdict)
}

struct Export<'a> {
    args: &'a Args,
    lines: &'a Lines,
    profile: Profile,
    header: Header,
}

impl Export<'_> {
    fn add(&mut self, trace: &mut OpenTrace) -> anyhow::Result<Verdict> {
        let (coverage, unit) = trace.coverage()?;
        let CallSelectionArgs { process, time, instructions, .. } = &self.args.selection;
        let selected = trace.select(&SelectionArgs::of(process, time.as_ref()))?;
        let selection = StepSelection { instructions: instructions.instructions.clone(), ..selected };
        let program = Arc::clone(trace.program());
        let functions = self.args.selection.functions(|name| program.functions(name).collect())?;
        // Other processes are left out later: their calls must not look like gaps.
        let (processes, is_all) = (selection.processes.clone(), selection.is_all() && functions.is_empty());
        let selection = StepSelection { processes: Vec::new(), ..selection };
        let mut counter = CallCounter::of_functions(functions);
        let verdict = trace.follow(&selection, &mut counter)?;
        let costs = counter.finish(&processes);
        warn_if_nothing(&trace.name(), costs.total.instructions, is_all);
        if costs.not_followed > 0 {
            let instructions = many(costs.not_followed, "instruction");
            diagnostic::warning(format_args!("{}: too many threads: {instructions} not followed", trace.name()));
        }
        if costs.not_listed > 0 {
            let calls = many(costs.not_listed, "call");
            diagnostic::warning(format_args!("{}: too many different calls: {calls} left out", trace.name()));
        }
        self.describe(trace, coverage.has(Facet::Times).then_some(unit), costs.gaps);
        self.profile.add(&costs, &mut ProgramNames { program: trace.program(), lines: self.lines });
        Ok(verdict.or(Verdict::of(costs.not_followed > 0 || costs.not_listed > 0)))
    }

    fn describe(&mut self, trace: &OpenTrace, unit: Option<TimeUnit>, gaps: u64) {
        let Header { time, traces, gaps: all } = &mut self.header;
        if !traces.is_empty() {
            traces.push_str(", ");
        }
        traces.push_str(&trace.name());
        *all += gaps;
        if let Some(unit) = unit {
            *time = Some(unit_name(unit));
        }
    }
}

fn unit_name(unit: TimeUnit) -> String {
    match unit {
        TimeUnit::Unknown => String::new(),
        TimeUnit::Cycles => "cycles".to_string(),
        TimeUnit::Seconds(power) => match power {
            0 => "s".to_string(),
            -3 => "ms".to_string(),
            -6 => "us".to_string(),
            -9 => "ns".to_string(),
            -12 => "ps".to_string(),
            power => format!("10^{power} s"),
        },
    }
}

/// Names and lines of a program.
struct ProgramNames<'a> {
    program: &'a Program,
    lines: &'a Lines,
}

impl Names for ProgramNames<'_> {
    fn function(&mut self, process: Option<u64>, address: u64) -> Named {
        let symbol = self.program.symbol_of(process, address);
        let name = symbol.map_or_else(|| format!("{address:#x}"), |(name, _)| symbol_text((name, 0)));
        let object = self.program.images_of_process(process, address).next().map_or("???", |code| code.name.as_str());
        let start = symbol.map_or(address, |(_, offset)| address.wrapping_sub(offset));
        let frames = self.lines.find_of_process(self.program, process, start);
        // The outermost one is the function itself.
        let line = frames.last().and_then(|frame| {
            let position = frame.position.as_ref()?;
            Some(Line { file: Arc::clone(&position.file), number: frame.declared.unwrap_or(position.line) })
        });
        Named { object: object.into(), name: name.into(), line: line.unwrap_or_default() }
    }

    fn line(&mut self, process: Option<u64>, address: u64) -> Option<Line> {
        let frames = self.lines.find_of_process(self.program, process, address);
        let Position { file, line } = frames.first()?.position.clone()?;
        Some(Line { file, number: line })
    }
}
