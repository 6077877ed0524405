//! `export perfetto`: calls, exceptions, gaps and counters on tracks of cores, processes and threads, for the viewer Perfetto.

mod cycles;
mod software;
mod tracks;

use std::path::PathBuf;

use anyhow::{Context, bail};
use unspool::analyze::calls::{Call, Moment, Window};
use unspool::analyze::marks::{Mark, MarkKind};
use unspool::analyze::tree::{TreeEvent, TreeSelection};
use unspool::export::perfetto::{PerfettoWriter, Track};
use unspool::{CallMarks, call_marks};

use self::tracks::{Rate, Tracks};
use super::call_file::{CallFileArgs, ToOutput, warn_if_large};
use super::channel_names;
use crate::cmd::follow::{NamedStack, Part};
use crate::cmd::stacks::Names;
use crate::diagnostic;
use crate::verdict::Verdict;

/// Write a timeline for the trace viewer Perfetto
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    calls: CallFileArgs,

    /// Omit calls that are nested more than N deep
    #[arg(long, value_name = "N")]
    depth: Option<usize>,

    /// The time axis [default: time, if the trace has times]
    #[arg(long, value_name = "WHAT", value_enum)]
    clock: Option<Clock>,

    /// Names of the masters and channels of software trace (ITM, STM), one per line: 'channel 0x40:0..16 log'
    #[arg(long, value_name = "FILE")]
    channels: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Clock {
    /// The times of the trace; cycles and other ticks are shown as nanoseconds
    Time,
    /// The number of instructions that the core has executed, shown as nanoseconds
    Instructions,
}

const EXAMPLES: &str = "\
Examples:
  unspool export perfetto snapshot/ -o run.pftrace
  unspool export perfetto run.tarmac --image program.elf --depth 20 -o run.pftrace
  unspool export perfetto trace.astf --image program.elf --clock instructions -o run.pftrace
  unspool export perfetto snapshot/ --time 1.5s..2s -o part.pftrace

Open the file at ui.perfetto.dev, or query it with trace_processor. Each thread has a track of nested calls: as many slices of the \
category 'call' as 'unspool calls' has lines. Without threads a process of a core has it, or the core. Exceptions, gaps, changes of \
the thread and notes of the trace (events, markers) are instants on a track of their core. Software trace (ITM, STM) has a track \
for each channel, below its source and its master: text, or values with their size, at their times. Calls that a gap \
interrupts end at its last instruction before the gap, or last over it if execution returned to them. With times there is a counter: instructions per \
second, or per cycle if the times are cycles; with cycle counts beside timestamps there is IPC, too. Instructions between two timestamps of a capture have the time of the first: --clock instructions \
shows them apart.";

/// Number of slices that the user interface opens.
const VIEWER_LIMIT: u64 = 20_000_000;

const FAILED: &str = "cannot write the timeline";
const NO_TREE: &str = "cannot use the temporary file of the call tree";

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut output = args.calls.open_output(&[])?;
    let (on_terminal, mut has_ticks) = (output.on_terminal, false);
    let names = channel_names(args.channels.as_deref())?;
    let mut writer = PerfettoWriter::new(ToOutput(&mut output));
    let verdict = args.calls.each_with_software(on_terminal, call_marks, |part, marks, selection| {
        if let Some(found) = &part.software {
            has_ticks |= software::write(args, part, found, &names, &mut writer)?;
            return Ok(());
        }
        let timeline = Timeline::new(args, part, selection)?;
        has_ticks |= timeline.clock == Clock::Time && part.times.exponent().is_none();
        timeline.write(marks, &mut writer)
    })?;
    writer.finish().context(FAILED)?;
    if has_ticks {
        diagnostic::note("the unit of times is not one of seconds: a tick is shown as a nanosecond");
    }
    output.finish()?;
    Ok(verdict)
}

type Writer<'o> = PerfettoWriter<ToOutput<'o>>;

/// The timeline of a trace.
struct Timeline<'p> {
    part: &'p Part<'p>,
    selection: TreeSelection,
    clock: Clock,
    window: Window,
}

impl<'p> Timeline<'p> {
    fn new(args: &Args, part: &'p Part<'p>, selection: TreeSelection) -> anyhow::Result<Self> {
        let times = part.times;
        let default = if times.are_known { Clock::Time } else { Clock::Instructions };
        let clock = args.clock.unwrap_or(default);
        if !times.are_known && clock == Clock::Time {
            bail!("the trace has no times: use --clock instructions");
        }
        let window = args.calls.window(part)?;
        Ok(Self { part, selection: TreeSelection { depth: args.depth, ..selection }, clock, window })
    }

    fn write(&self, mut marks: CallMarks, writer: &mut Writer<'_>) -> anyhow::Result<()> {
        warn_if_large(self.part, &mut marks.calls, &self.selection, VIEWER_LIMIT, "Perfetto")?;
        let mut tracks = Tracks::new(self.part);
        self.marks(&mut marks, &mut tracks, writer)?;
        self.cycles(&mut marks, &mut tracks, writer)?;
        let mut names = Names::new(self.part);
        for stack in &self.part.stacks {
            let track = tracks.of_stack(stack, writer).context(FAILED)?;
            self.calls(&mut marks, stack, track, &mut names, writer)?;
        }
        Ok(())
    }

    fn marks(&self, marks: &mut CallMarks, tracks: &mut Tracks<'_>, writer: &mut Writer<'_>) -> anyhow::Result<()> {
        let is_selected = |mark: &Mark| {
            self.window.has(&mark.at) && self.part.stacks.iter().any(|stack| stack.core_number == mark.at.core)
        };
        marks
            .each(|mark| {
                if !is_selected(mark) {
                    return Ok(());
                }
                let track = tracks.of_core(mark.at.core, writer)?;
                writer.instant(track, self.at(&mark.at), (&self.words(mark), mark.kind.name()), None)
            })
            .context(NO_TREE)
    }

    /// The counter of instructions per cycle, if the trace has cycle counts beside its times.
    fn cycles(&self, marks: &mut CallMarks, tracks: &mut Tracks<'_>, writer: &mut Writer<'_>) -> anyhow::Result<()> {
        let (Some(steps), Some(first)) = (self.part.cycles, self.part.stacks.first()) else { return Ok(()) };
        if self.clock != Clock::Time {
            return Ok(());
        }
        let (mut start, mut end) = (u64::MAX, 0);
        for stack in &self.part.stacks {
            let selection = stack.selection(&self.selection);
            let find = |_: usize, call: &Call| {
                let call = selection.cut(call);
                (start, end) = (start.min(call.entry.time), end.max(call.exit.time.saturating_add(1)));
                Ok(())
            };
            marks.calls.each(stack.number, Call::is_root, find).context(NO_TREE)?;
        }
        cycles::write(steps, &(start..end), first.core_number, tracks, writer)
    }

    /// A mark in words.
    fn words(&self, mark: &Mark) -> String {
        let stack = mark.stack.and_then(|number| self.part.stacks.iter().find(|stack| stack.number == number));
        match (mark.kind, stack) {
            (MarkKind::Switch, Some(stack)) => stack.numbers().unwrap_or_else(|| "start".to_string()),
            (MarkKind::Switch, None) => "not selected".to_string(),
            (MarkKind::Note, _) => mark.text.clone(),
            (kind, _) if mark.text.is_empty() => kind.name().to_string(),
            (kind, _) => format!("{}: {}", kind.name(), mark.text),
        }
    }

    fn at(&self, moment: &Moment) -> u64 {
        match self.clock {
            Clock::Time => self.part.times.nanoseconds(moment.time),
            Clock::Instructions => moment.number,
        }
    }

    fn calls(
        &self,
        marks: &mut CallMarks,
        stack: &NamedStack,
        track: Track,
        names: &mut Names<'_>,
        writer: &mut Writer<'_>,
    ) -> anyhow::Result<()> {
        let mut rate = self.rate(marks, stack, track, writer)?;
        let CallMarks { calls, numbers, .. } = marks;
        let on_core = |number: u64| numbers.of(stack.number, number);
        let selection = stack.selection(&self.selection);
        let mut slices = writer.slices(track);
        let event = |event: TreeEvent<'_>| {
            let (call, site) = match event {
                TreeEvent::Begin(_, call) => (call, &call.entry),
                TreeEvent::End(call) => (call, &call.exit),
            };
            let is_end = matches!(event, TreeEvent::End(_));
            let at = match self.clock {
                Clock::Time => self.part.times.nanoseconds(site.time),
                Clock::Instructions => on_core(site.number).saturating_sub(u64::from(!is_end)),
            };
            // What is cut off by a selection of times has the number of another time.
            let is_cut =
                self.window.times.as_ref().is_some_and(|times| site.time <= times.start || site.time >= times.end);
            let sample = rate.as_mut().filter(|_| !is_cut).and_then(|rate| rate.sample(site));
            if let Some((counter, at, value)) = sample {
                slices.value(counter, self.part.times.nanoseconds(at), value)?;
            }
            if is_end {
                slices.end(at, tracks::end_of(call).map(|end| ("ended", end)))
            } else {
                let name = names.of(stack.process, call.function);
                slices.begin(at, name, "call", tracks::beginning_of(call).map(|began| ("began", began)))
            }
        };
        calls.each_event(stack.number, &selection, event).context(FAILED)?;
        slices.finish().context(FAILED)
    }

    /// The counter of a stack, if it has times.
    fn rate(
        &self,
        marks: &mut CallMarks,
        stack: &NamedStack,
        track: Track,
        writer: &mut Writer<'_>,
    ) -> anyhow::Result<Option<Rate>> {
        let mut root = None;
        let find = |_: usize, call: &Call| {
            root = Some(*call);
            Ok(())
        };
        marks.calls.each(stack.number, Call::is_root, find).context(NO_TREE)?;
        match root.filter(|_| self.clock == Clock::Time) {
            Some(root) => Rate::new(self.part.times, &root, track, writer).context(FAILED),
            None => Ok(None),
        }
    }
}
