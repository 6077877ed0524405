//! `export html`: a page about a trace that needs nothing but a browser.

mod coverage;
mod findings;
mod software;

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use unspool::analyze::calls::{Call, Cost};
use unspool::analyze::marks::{Mark, MarkKind};
use unspool::analyze::tree::{TreeEvent, TreeSelection};
use unspool::export::flamegraph::FlameOptions;
use unspool::export::html::{FunctionRow, Page, Table, Timeline, write_page};
use unspool::export::stacks::{Side, StackTree};
use unspool::number::{grouped, many};
use unspool::{CallMarks, FileKind, call_marks};

use self::software::SoftwareTracks;
use super::call_file::{CallFileArgs, ToOutput};
use super::channel_names;
use crate::cmd::follow::{CallArgs, NamedStack, Part, Times};
use crate::cmd::stacks::{Names, Weight, root_of};
use crate::traces::EachOptions;
use crate::verdict::Verdict;

/// Write a page with summary, timeline, flame graph, hot functions, coverage and findings
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    calls: CallFileArgs,

    /// What is counted, and the axis of the timeline [default: the time of a Tarmac log with times, otherwise instructions]
    #[arg(long, value_name = "WHAT", value_enum)]
    weight: Option<Weight>,

    /// Names of the masters and channels of software trace (ITM, STM), one per line: 'channel 0x40:0..16 log'
    #[arg(long, value_name = "FILE")]
    channels: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  unspool export html run.tarmac --image program.elf -o run.html
  unspool export html snapshot/ --function main -o run.html

One file, which opens without a network. Coverage and the findings of 'unspool check' are those of the whole trace, which is read \
again for them. Software trace (ITM, STM) has a row of points for each channel if the axis is time. What is too narrow to be seen is left out, so that the page does not grow with the trace; \
'unspool export perfetto' has every call.";

/// Number of functions in the table.
const FUNCTIONS: usize = 50;

/// Number of causes of gaps that are listed by themselves.
const CAUSES: usize = 100;

const FAILED: &str = "cannot write the page";
const NO_TREE: &str = "cannot use the temporary file of the call tree";

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut output = args.calls.open_output(&[])?;
    let (mut report, names) = (Report::new(args), channel_names(args.channels.as_deref())?);
    let take = |part: &Part<'_>, marks, selection: TreeSelection| match &part.software {
        Some(software) => report.software.add(args, part, software, &names),
        None => report.add(part, marks, &selection),
    };
    let verdict = args.calls.each_with_software(output.on_terminal, call_marks, take)?;
    report.place_software();
    report.tables = args.tables();
    report.write(&mut ToOutput(&mut output))?;
    output.finish()?;
    Ok(verdict)
}

impl Args {
    /// Coverage of the traces, and the findings of their check.
    fn tables(&self) -> Vec<Table> {
        let CallArgs { files, read, core, .. } = self.calls.traces();
        let options = EachOptions { core: core.as_ref(), ..EachOptions::default() };
        let mut tables = coverage::tables(files, read, options, self.calls.is_all());
        tables.push(findings::table(files, read));
        tables
    }
}

struct Report<'a> {
    args: &'a Args,
    timeline: Timeline,
    stacks: StackTree,
    calls: HashMap<Arc<str>, u64>,
    /// Number of gaps by cause.
    gaps: BTreeMap<String, u64>,
    exceptions: u64,
    tracks: u64,
    /// What is counted, with the times of the first trace.
    axis: Option<(Weight, Times)>,
    kinds: Vec<&'static str>,
    software: SoftwareTracks,
    /// Coverage and findings.
    tables: Vec<Table>,
}

impl<'a> Report<'a> {
    fn new(args: &'a Args) -> Self {
        Self {
            args,
            timeline: Timeline::default(),
            stacks: StackTree::new(),
            calls: HashMap::new(),
            gaps: BTreeMap::new(),
            exceptions: 0,
            tracks: 0,
            axis: None,
            kinds: Vec::new(),
            software: SoftwareTracks::default(),
            tables: Vec::new(),
        }
    }

    fn add(&mut self, part: &Part<'_>, mut marks: CallMarks, selection: &TreeSelection) -> anyhow::Result<()> {
        let weight = self.args.weight.unwrap_or_else(|| Weight::default_of(part.times));
        let (first, times) = *self.axis.get_or_insert((weight, part.times));
        let is_other = (part.times.unit, part.times.decimals) != (times.unit, times.decimals);
        if weight != first || weight == Weight::Time && is_other {
            bail!("the traces have different units of time: use --weight instructions");
        }
        let kind = match part.kind {
            FileKind::Capture => "capture",
            FileKind::Tarmac => "Tarmac log",
            FileKind::Astf => "ASTF file",
            FileKind::Stf => "STF file",
            _ => "trace",
        };
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
        let window = self.args.calls.window(part)?;
        let take = |mark: &Mark| {
            if window.has(&mark.at) {
                self.mark(mark, weight);
            }
            Ok(())
        };
        marks.each(take).context(NO_TREE)?;
        let mut names = Names::new(part);
        for stack in &part.stacks {
            self.track(part, stack, weight, &mut marks, selection, &mut names)?;
        }
        self.args.calls.folding(part, selection).each_stack(part, &mut marks.calls, &mut |names, own| {
            self.stacks.add(Side::Shown, names, own);
            Ok(())
        })
    }

    fn mark(&mut self, mark: &Mark, weight: Weight) {
        match mark.kind {
            MarkKind::Gap => {
                let at = if weight == Weight::Time { mark.at.time } else { mark.at.number };
                self.timeline.mark(at, &mark.text);
                let is_listed = self.gaps.len() < CAUSES || self.gaps.contains_key(&mark.text);
                let cause = if is_listed { &mark.text } else { "other causes" };
                *self.gaps.entry(cause.to_string()).or_default() += 1;
            }
            MarkKind::Exception => self.exceptions += 1,
            MarkKind::ExceptionReturn | MarkKind::Switch | MarkKind::Note => {}
        }
    }

    fn track(
        &mut self,
        part: &Part<'_>,
        stack: &NamedStack,
        weight: Weight,
        marks: &mut CallMarks,
        selection: &TreeSelection,
        names: &mut Names<'_>,
    ) -> anyhow::Result<()> {
        let (mut length, selection) = (0, stack.selection(selection));
        let measure = |_: usize, call: &Call| {
            let call = &selection.cut(call);
            length = weight.end(call).saturating_sub(weight.begin(call));
            Ok(())
        };
        marks.calls.each(stack.number, Call::is_root, measure).context(NO_TREE)?;
        let root = root_of(part, stack);
        let words = [part.heading.clone(), Some(root).filter(|root| !root.is_empty())];
        let name = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
        self.timeline.track(if name.is_empty() { "calls" } else { &name }, length);
        self.tracks += 1;
        let CallMarks { calls, numbers, .. } = marks;
        let event = |event: TreeEvent<'_>| {
            match event {
                TreeEvent::Begin(_, call) => {
                    let name = names.of(stack.process, call.function);
                    *self.calls.entry(Arc::clone(name)).or_default() += 1;
                    let on_core = || numbers.of(stack.number, call.entry.number).saturating_sub(1);
                    self.timeline.begin(if weight == Weight::Time { call.entry.time } else { on_core() }, name);
                }
                TreeEvent::End(call) => {
                    let on_core = || numbers.of(stack.number, call.exit.number);
                    self.timeline.end(if weight == Weight::Time { call.exit.time } else { on_core() });
                }
            }
            Ok(())
        };
        calls.each_event(stack.number, &selection, event).context(NO_TREE)
    }

    /// Adds tracks of software trace, if the axis has their times.
    fn place_software(&mut self) {
        if self.software.is_empty() {
            return;
        }
        if !self.kinds.contains(&"capture") {
            self.kinds.push("capture");
        }
        let (times, has_calls) = (Times { are_known: true, ..Times::default() }, self.axis.is_some());
        let (weight, of_calls) = *self.axis.get_or_insert((Weight::Time, times));
        if weight == Weight::Time && (of_calls.unit, of_calls.decimals) == (times.unit, times.decimals) {
            self.software.draw(has_calls, &mut self.timeline);
        }
    }

    fn write(&self, out: &mut ToOutput<'_>) -> anyhow::Result<()> {
        let (weight, times) = self.axis.unwrap_or((Weight::Instructions, Times::default()));
        let text = |value: u64| match weight {
            Weight::Time => format!("{} {}", times.text(value), times.unit).trim_end().to_string(),
            Weight::Instructions => many(value, "instruction"),
        };
        let of = |cost: Cost| weight.of(cost);
        let (title, mut functions) = (self.args.calls.title(), self.stacks.functions(&of));
        let total = functions.iter().fold(0_u64, |sum, (_, own, _)| sum.saturating_add(*own));
        // Cores and threads are frames too, but no functions.
        functions.retain(|(name, ..)| self.calls.contains_key(*name));
        let distinct = functions.len() as u64;
        functions.truncate(FUNCTIONS);
        let rows: Vec<FunctionRow> = functions
            .iter()
            .map(|(name, own, total)| {
                let calls = self.calls.get(*name).copied().unwrap_or(0);
                FunctionRow { name: name.to_string(), calls, own: text(*own), total: text(*total) }
            })
            .collect();
        let facts = [
            ("Format", self.kinds.join(", ")),
            ("Total", text(total)),
            ("Calls", grouped(self.calls.values().sum())),
            ("Functions", grouped(distinct)),
            ("Exceptions", grouped(self.exceptions)),
            ("Stacks (cores, processes, threads)", grouped(self.tracks)),
            ("Calls too narrow for the timeline", grouped(self.timeline.left_out())),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into_iter()
        .chain(self.software.facts())
        .collect::<Vec<_>>();
        let gaps: Vec<String> =
            self.gaps.iter().map(|(cause, count)| format!("{cause} ({})", many(*count, "time"))).collect();
        let axis = match weight {
            Weight::Time if times.unit.is_empty() => "time in ticks".to_string(),
            Weight::Time => format!("time in {}", times.unit),
            Weight::Instructions => "instructions".to_string(),
        };
        let flame = FlameOptions { title: &title, weight: &of, text: &text, is_comparison: false };
        let page = Page {
            title: &title,
            facts: &facts,
            gaps: &gaps,
            timeline: &self.timeline,
            axis: &axis,
            stacks: &self.stacks,
            flame: &flame,
            functions: &rows,
            tables: &self.tables,
        };
        write_page(out, &page).context(FAILED)?;
        out.flush().context(FAILED)
    }
}
