//! `export speedscope`: calls in the order of execution, for the profile viewer speedscope.

use anyhow::Context;
use unspool::analyze::calls::Call;
use unspool::analyze::tree::{TreeEvent, TreeSelection};
use unspool::export::speedscope::{SpeedscopeWriter, ValueUnit};
use unspool::{CallForest, cost_forest};

use super::call_file::{CallFileArgs, ToOutput, warn_if_large};
use crate::cmd::follow::{NamedStack, Part, Times};
use crate::cmd::stacks::{Names, Weight, root_of};
use crate::verdict::Verdict;

/// Write calls for the profile viewer speedscope
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    calls: CallFileArgs,

    /// Omit calls that are nested more than N deep
    #[arg(long, value_name = "N")]
    depth: Option<usize>,

    /// The axis of the calls [default: the time of a Tarmac log with times, otherwise instructions]
    #[arg(long, value_name = "WHAT", value_enum)]
    weight: Option<Weight>,
}

const EXAMPLES: &str = "\
Examples:
  unspool export speedscope run.tarmac --image program.elf -o run.speedscope.json
  unspool export speedscope snapshot/ --depth 20 -o run.speedscope.json

Open the file at speedscope.app, or with the program 'speedscope'. Every call is an event, in the order of execution; each core, \
process or thread is a profile of its own. The viewer reads files of some hundred megabytes: --depth, --function, --time and --instructions make them smaller.";

/// Number of calls that the viewer opens: it reads the file as one string, whose length is limited.
const VIEWER_LIMIT: u64 = 5_000_000;

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut output = args.calls.open_output(&[])?;
    let on_terminal = output.on_terminal;
    let mut writer = SpeedscopeWriter::new(ToOutput(&mut output), &args.calls.title()).context(FAILED)?;
    let verdict = args.calls.each(on_terminal, cost_forest, |part, mut forest, selection| {
        let selection = TreeSelection { depth: args.depth, ..selection };
        warn_if_large(part, &mut forest, &selection, VIEWER_LIMIT, "speedscope")?;
        let weight = args.weight.unwrap_or_else(|| Weight::default_of(part.times));
        let mut names = Names::new(part);
        part.stacks.iter().try_for_each(|stack| {
            let profile = Profile { part, stack, weight, selection: &stack.selection(&selection) };
            profile.write(&mut forest, &mut names, &mut writer)
        })
    })?;
    writer.finish().context(FAILED)?;
    output.finish()?;
    Ok(verdict)
}

const FAILED: &str = "cannot write the calls";

struct Profile<'p> {
    part: &'p Part<'p>,
    stack: &'p NamedStack,
    weight: Weight,
    selection: &'p TreeSelection,
}

impl Profile<'_> {
    fn write(
        &self,
        forest: &mut CallForest,
        names: &mut Names<'_>,
        writer: &mut SpeedscopeWriter<ToOutput<'_>>,
    ) -> anyhow::Result<()> {
        let Self { part, stack, weight, selection } = self;
        let (unit, decimals) = match weight {
            Weight::Time => (ValueUnit::of_symbol(part.times.unit), part.times.decimals),
            Weight::Instructions => (ValueUnit::None, 0),
        };
        let mut start = None;
        let find = |_: usize, call: &Call| {
            start = start.or(Some(weight.begin(&selection.cut(call))));
            Ok(())
        };
        forest.each(stack.number, Call::is_root, find).context(FAILED)?;
        let mut profile = writer.profile(&self.name(), unit, decimals, start.unwrap_or(0)).context(FAILED)?;
        let event = |event: TreeEvent<'_>| match event {
            TreeEvent::Begin(_, call) => profile.begin(names.of(stack.process, call.function), weight.begin(call)),
            TreeEvent::End(call) => profile.end(weight.end(call)),
        };
        forest.each_event(stack.number, selection, event).context(FAILED)?;
        profile.finish().context(FAILED)
    }

    fn name(&self) -> String {
        let Self { part, stack, .. } = self;
        let Times { unit, .. } = part.times;
        let axis = match self.weight {
            Weight::Time if ValueUnit::of_symbol(unit) == ValueUnit::None => unit,
            Weight::Time => "time",
            Weight::Instructions => "instructions",
        };
        let names = [part.heading.clone(), Some(root_of(part, stack)).filter(|name| !name.is_empty())];
        let name = names.into_iter().flatten().collect::<Vec<_>>().join(" ");
        if name.is_empty() { axis.to_string() } else { format!("{name} ({axis})") }
    }
}
