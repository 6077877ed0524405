//! Arguments of the kinds that are made of calls: traces, which calls, and the file to write.

use std::io;
use std::path::PathBuf;

use anyhow::{Context, bail};
use unspool::CallForest;
use unspool::analyze::calls::CallSink;
use unspool::analyze::tree::{TreeEvent, TreeSelection};
use unspool::number::{grouped, many};

use super::FileArgs;
use crate::args::OutputArgs;
use crate::cmd::follow::{CallArgs, Part};
use crate::cmd::stacks::Folding;
use crate::diagnostic;
use crate::output::Output;
use crate::verdict::Verdict;

#[derive(Debug, clap::Args)]
pub(super) struct CallFileArgs {
    #[command(flatten)]
    calls: CallArgs,

    /// Only this process: its number, or the file name of its program. Can be repeated
    #[arg(long, value_name = "PID|NAME")]
    process: Vec<String>,

    /// Only calls of this function, with what they call. Can be repeated
    #[arg(long, value_name = "NAME")]
    function: Vec<String>,

    #[command(flatten)]
    file: FileArgs,
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

    /// Follows the calls of each trace with a new sink, and hands it to `take` with the selection of calls.
    pub(super) fn each<S: CallSink + Send>(
        &self,
        on_terminal: bool,
        new: impl Fn() -> S,
        take: impl FnMut(&Part<'_>, S, TreeSelection) -> anyhow::Result<()>,
    ) -> anyhow::Result<Verdict> {
        self.each_of(&self.calls.files, on_terminal, new, take)
    }

    /// As [`each`](Self::each), of other traces.
    pub(super) fn each_of<S: CallSink + Send>(
        &self,
        files: &[PathBuf],
        on_terminal: bool,
        new: impl Fn() -> S,
        mut take: impl FnMut(&Part<'_>, S, TreeSelection) -> anyhow::Result<()>,
    ) -> anyhow::Result<Verdict> {
        self.calls.each_of(files, &self.process, on_terminal, new, |part, sink| {
            let selection = self.selection(part)?;
            take(part, sink, selection)
        })
    }

    /// How the stacks of a trace are folded.
    pub(super) fn folding<'f>(&self, part: &'f Part<'_>, selection: &'f TreeSelection) -> Folding<'f> {
        let (heading, complete) = (part.heading.as_deref(), selection.is_complete_only);
        Folding { heading, functions: &selection.functions, complete }
    }

    fn selection(&self, part: &Part<'_>) -> anyhow::Result<TreeSelection> {
        let mut functions = Vec::new();
        for name in &self.function {
            let found = part.functions(name);
            if found.is_empty() {
                bail!(
                    "no function '{name}' with a known size in the symbols of the trace; add its program with --image"
                );
            }
            functions.extend(found);
        }
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
        forest.each_event(stack.number, selection, count).context("cannot use the temporary file of the call tree")?;
    }
    if selected > limit {
        let (selected, limit) = (many(selected, "call"), grouped(limit));
        diagnostic::warning(format_args!(
            "the file will have {selected}, and {viewer} opens about {limit}: --depth N or --function NAME leaves some out"
        ));
    }
    Ok(())
}
