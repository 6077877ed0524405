//! Arguments of the kinds that are made of calls: traces, which calls, and the file to write.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Context, bail};
use unspool::CallForest;
use unspool::analyze::calls::{CallSink, Window};
use unspool::analyze::tree::{TreeEvent, TreeSelection};
use unspool::number::{grouped, many};

use super::{FileArgs, InstructionArgs, warn_if_nothing};
use crate::args::OutputArgs;
use crate::cmd::follow::{CallArgs, Part, Wanted};
use crate::cmd::stacks::Folding;
use crate::diagnostic;
use crate::output::Output;
use crate::selection_args::{TimeRange, parse_place};
use crate::verdict::Verdict;

#[derive(Debug, clap::Args)]
pub(super) struct CallFileArgs {
    #[command(flatten)]
    calls: CallArgs,
    #[command(flatten)]
    selection: CallSelectionArgs,
    #[command(flatten)]
    file: FileArgs,
}

/// Which calls are exported.
#[derive(Debug, clap::Args)]
pub(super) struct CallSelectionArgs {
    /// Only this process: its number, or the file name of its program. Can be repeated
    #[arg(long, value_name = "PID|NAME")]
    pub(super) process: Vec<String>,

    /// Only calls of this function, with what they call. Can be repeated
    #[arg(long, value_name = "NAME")]
    function: Vec<String>,

    /// Only calls of functions at this address, or from address A up to, but not including, address B, with what they call. Can be
    /// repeated
    #[arg(long, value_name = "A[..B]", value_parser = parse_place)]
    address: Vec<Range<u64>>,

    /// Only what happens from time A up to, but not including, time B: in the unit of the trace, or with a unit of seconds
    /// (1.5s..2s). A or B may be left out
    #[arg(long, value_name = "A..B")]
    pub(super) time: Option<TimeRange>,

    #[command(flatten)]
    pub(super) instructions: InstructionArgs,
}

impl CallSelectionArgs {
    /// Addresses of the functions of which only the calls are exported. Empty: all.
    pub(super) fn functions(&self, of_name: impl Fn(&str) -> Vec<Range<u64>>) -> anyhow::Result<Vec<Range<u64>>> {
        let mut functions = self.address.clone();
        for name in &self.function {
            let found = of_name(name);
            if found.is_empty() {
                bail!(
                    "no function '{name}' with a known size in the symbols of the trace; add its program with --image"
                );
            }
            functions.extend(found);
        }
        Ok(functions)
    }

    /// Whether only the time selects something: software trace has no instructions.
    fn is_any_code(&self) -> bool {
        let has_names = !self.process.is_empty() || !self.function.is_empty();
        !has_names && self.address.is_empty() && self.instructions.instructions.is_none()
    }
}

impl CallFileArgs {
    /// Opens the file, which must not be one of the inputs or of these.
    pub(super) fn open_output(&self, others: &[PathBuf]) -> anyhow::Result<Output> {
        let FileArgs { output, force } = &self.file;
        let output = OutputArgs { json: false, output: Some(output.clone()), force: *force };
        let files: Vec<PathBuf> = self.calls.files.iter().chain(others).cloned().collect();
        self.calls.read.open_output(&files, &output)
    }

    /// The traces in words.
    pub(super) fn title(&self) -> String {
        let name = |file: &PathBuf| file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
        self.calls.files.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// The traces, and how they are read.
    pub(super) fn traces(&self) -> &CallArgs {
        &self.calls
    }

    /// Whether all of the execution is selected.
    pub(super) fn is_all(&self) -> bool {
        self.selection.is_any_code() && self.selection.time.is_none() && !self.calls.complete
    }

    /// The times that are selected.
    pub(super) fn time(&self) -> Option<&TimeRange> {
        self.selection.time.as_ref()
    }

    /// The times and instructions of a trace that are selected.
    pub(super) fn window(&self, part: &Part<'_>) -> anyhow::Result<Window> {
        let times = self.time().map(|time| part.times.window(&part.name, time)).transpose()?;
        Ok(Window { times, instructions: self.selection.instructions.instructions.clone() })
    }

    /// Follows the calls of each trace with a new sink, and hands it to `take` with the selection of calls.
    pub(super) fn each<S: CallSink + Send>(
        &self,
        on_terminal: bool,
        new: impl Fn() -> S,
        take: impl FnMut(&Part<'_>, S, TreeSelection) -> anyhow::Result<()>,
    ) -> anyhow::Result<Verdict> {
        self.each_of(&self.calls.files, on_terminal, new, take)
    }

    /// As [`each`](Self::each), with parts for software trace.
    pub(super) fn each_with_software<S: CallSink + Send>(
        &self,
        on_terminal: bool,
        new: impl Fn() -> S,
        take: impl FnMut(&Part<'_>, S, TreeSelection) -> anyhow::Result<()>,
    ) -> anyhow::Result<Verdict> {
        let wanted = Wanted { software: self.selection.is_any_code(), ..self.wanted() };
        self.each_wanted(&self.calls.files, wanted, on_terminal, new, take)
    }

    /// As [`each`](Self::each), of other traces.
    pub(super) fn each_of<S: CallSink + Send>(
        &self,
        files: &[PathBuf],
        on_terminal: bool,
        new: impl Fn() -> S,
        take: impl FnMut(&Part<'_>, S, TreeSelection) -> anyhow::Result<()>,
    ) -> anyhow::Result<Verdict> {
        self.each_wanted(files, self.wanted(), on_terminal, new, take)
    }

    fn wanted(&self) -> Wanted<'_> {
        let CallSelectionArgs { process, time, instructions, .. } = &self.selection;
        let instructions = instructions.instructions.as_ref();
        Wanted { processes: process, time: time.as_ref(), instructions, software: false }
    }

    fn each_wanted<S: CallSink + Send>(
        &self,
        files: &[PathBuf],
        wanted: Wanted<'_>,
        on_terminal: bool,
        new: impl Fn() -> S,
        mut take: impl FnMut(&Part<'_>, S, TreeSelection) -> anyhow::Result<()>,
    ) -> anyhow::Result<Verdict> {
        self.calls.each_of(files, wanted, on_terminal, new, |part, sink| {
            if part.software.is_none() {
                warn_if_nothing(&part.name, part.has_instructions().into(), !part.is_executed);
            }
            let selection = if part.software.is_some() { TreeSelection::default() } else { self.selection(part)? };
            take(part, sink, selection)
        })
    }

    /// How the stacks of a trace are folded.
    pub(super) fn folding<'f>(&self, part: &'f Part<'_>, selection: &'f TreeSelection) -> Folding<'f> {
        let (heading, complete) = (part.heading.as_deref(), selection.is_complete_only);
        Folding { heading, functions: &selection.functions, complete }
    }

    fn selection(&self, part: &Part<'_>) -> anyhow::Result<TreeSelection> {
        let functions = self.selection.functions(|name| part.functions(name))?;
        Ok(TreeSelection { functions, is_complete_only: self.calls.complete, ..TreeSelection::default() })
    }
}

/// A place to write, for a library that streams into one. The output keeps an error until it is finished.
pub(super) struct ToOutput<'o>(pub(super) &'o mut Output);

impl io::Write for ToOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(|out| out.write_all(bytes));
        if self.0.is_open() { Ok(bytes.len()) } else { Err(io::ErrorKind::Other.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Warns of more calls than a viewer opens.
pub(super) fn warn_if_large(
    part: &Part<'_>,
    forest: &mut CallForest,
    selection: &TreeSelection,
    limit: u64,
    viewer: &str,
) -> anyhow::Result<()> {
    if forest.calls() <= limit {
        return Ok(());
    }
    let mut selected = 0;
    for stack in &part.stacks {
        let count = |event: TreeEvent<'_>| {
            selected += u64::from(matches!(event, TreeEvent::Begin(..)));
            Ok(())
        };
        let selection = stack.selection(selection);
        forest.each_event(stack.number, &selection, count).context("cannot use the temporary file of the call tree")?;
    }
    too_large(selected, limit, viewer).into_iter().for_each(diagnostic::warning);
    Ok(())
}

/// The warning about this number of calls, if it is above the limit.
fn too_large(calls: u64, limit: u64, viewer: &str) -> Option<String> {
    (calls > limit).then(|| {
        let (calls, limit) = (many(calls, "call"), grouped(limit));
        format!(
            "the file will have {calls}, and {viewer} opens about {limit}: --depth N, --function NAME, --time A..B or \
             --instructions A..B leaves some out"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_viewer_does_not_open_is_named_with_the_options_that_help() {
        assert_eq!(too_large(5, 5, "the viewer"), None);
        let warning = too_large(6, 5, "the viewer").unwrap_or_default();
        assert!(
            warning.starts_with("the file will have 6 calls, and the viewer opens about 5: --depth N"),
            "{warning}"
        );
    }
}
