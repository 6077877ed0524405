//! Traces on the command line: every file, and every source of a capture, by itself.
//!
//! Takes arguments; produces open traces with their program, and reports what cannot be read. Knows no verb.

use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use unspool::analyze::pass::Pass;
use unspool::analyze::step_selection::{LeftOut, Selected, StepSelection};
use unspool::capture::{Capture, Code};
use unspool::file::{TraceFile, is_pipe, is_standard};
use unspool::indexed_log::{LogError, index_path};
use unspool::indexed_steps::{
    IndexedSteps, capture_index_path, fingerprint_of, open_capture_index, open_step_index, with_capture_index,
};
use unspool::model::{BlockSink, CoreSelector, Coverage, Losses, SourceError, StepSource, TimeUnit};
use unspool::software_marks::SoftwareSource;
use unspool::tarmac::index::Index;
use unspool::{
    CaptureSteps, FileKind, Meter, OpenedSteps, Parts, PresentIds, Program, SpaceOptions, open_capture, place_images,
};

use crate::args::{ImageArgs, JobsArgs, OutputArgs, SourceArgs};
use crate::diagnostic;
use crate::file::{TarmacArgs, each_file, losses_verdict, open, report_astf, with_hint};
use crate::listing::{report_assumptions, report_images};
use crate::output::Output;
use crate::process_args::ProcessArgs;
use crate::programs::report_program;
use crate::progress::Progress;
use crate::selection_args::SelectionArgs;
use crate::verdict::Verdict;

/// Arguments of the verbs that analyze traces.
#[derive(Debug, clap::Args)]
pub(crate) struct TraceArgs {
    /// Captures, ASTF files, STF files or Tarmac logs ('-': standard input, except for captures)
    #[arg(value_name = "TRACE", required = true)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
}

/// How traces of any kind are read.
#[derive(Debug, clap::Args)]
pub(crate) struct ReadArgs {
    #[command(flatten)]
    sources: SourceArgs,
    #[command(flatten)]
    pub(crate) images: ImageArgs,
    #[command(flatten)]
    pub(crate) jobs: JobsArgs,
    #[command(flatten)]
    pub(crate) processes: ProcessArgs,
    #[command(flatten)]
    pub(crate) tarmac: TarmacArgs,
}

/// A file, or a source of a capture.
pub(crate) struct OpenTrace {
    /// The path as it was given.
    pub(crate) file: String,
    /// Name and trace id of a source.
    pub(crate) source: Option<(String, Option<u8>)>,
    /// Whether no other source of the capture is read.
    pub(crate) is_only_source: bool,
    pub(crate) kind: FileKind,
    contents: Contents,
    program: Arc<Program>,
    pub(crate) meter: Meter,
    /// Another reader of the file, if it is a pipe that is read twice.
    second: Option<TraceFile>,
    /// The index of a source of a capture.
    index: Option<Index<File>>,
}

enum Contents {
    Source(Box<CaptureSteps>),
    /// A source without instructions.
    Software(Box<SoftwareSource>),
    /// `None`: it was taken.
    File(Option<Box<TraceFile>>),
    Steps(OpenedSteps),
}

impl OpenTrace {
    /// Its name in messages and headings.
    pub(crate) fn name(&self) -> String {
        match &self.source {
            Some((source, _)) => format!("{} {source}", self.file),
            None => self.file.clone(),
        }
    }

    /// Its code and symbols.
    pub(crate) fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The source of a capture.
    pub(crate) fn capture_steps(&mut self) -> Option<&mut CaptureSteps> {
        if let Contents::Source(steps) = &mut self.contents { Some(steps) } else { None }
    }

    /// The source of software trace, which has no steps.
    pub(crate) fn software(&self) -> Option<&SoftwareSource> {
        if let Contents::Software(source) = &self.contents { Some(source) } else { None }
    }

    /// The file itself, for a verb that reads its records. It has no steps afterwards.
    pub(crate) fn take_file(&mut self) -> Option<TraceFile> {
        if let Contents::File(file) = &mut self.contents { file.take().map(|file| *file) } else { None }
    }

    /// Another reader of the file, if it is a pipe that is [read twice](EachOptions::twice).
    pub(crate) fn take_second(&mut self) -> Option<TraceFile> {
        self.second.take()
    }

    /// Its steps, unless the file was taken.
    pub(crate) fn steps(&mut self) -> anyhow::Result<&mut dyn StepSource> {
        if let Some(file) = self.take_file() {
            let (steps, meter) = file.into_steps(false);
            (self.contents, self.meter) = (Contents::Steps(steps), meter);
        }
        match &mut self.contents {
            Contents::Source(steps) => Ok(&mut **steps),
            Contents::Steps(steps) => Ok(steps),
            Contents::File(_) => bail!("{}: the trace was read already", self.file),
            Contents::Software(source) => bail!("{}: software trace has no instructions", source.name()),
        }
    }

    /// What its steps may have, and the unit of their times.
    pub(crate) fn coverage(&mut self) -> anyhow::Result<(Coverage, TimeUnit)> {
        let steps = self.steps()?;
        Ok((steps.coverage(), steps.time_unit()))
    }

    /// The selection that options describe. Fails if the trace does not have what they are about.
    pub(crate) fn select(&mut self, args: &SelectionArgs) -> anyhow::Result<StepSelection> {
        if args.is_all() {
            return Ok(StepSelection::default());
        }
        let (coverage, unit) = self.coverage()?;
        args.resolve(&self.name(), &self.program, coverage, unit)
    }

    /// Passes the selected steps to a sink, blocks at once where the trace has them.
    pub(crate) fn follow(&mut self, selection: &StepSelection, sink: &mut dyn BlockSink) -> anyhow::Result<Verdict> {
        let ended = self.feed(selection, LeftOut::Gap, sink)?;
        self.end(ended)
    }

    /// Passes the steps near some addresses to a sink, or all of them if there is no index, or that is faster.
    pub(crate) fn follow_near(
        &mut self,
        addresses: &[Range<u64>],
        sink: &mut dyn BlockSink,
    ) -> anyhow::Result<Verdict> {
        match self.take_indexed(addresses) {
            Some(mut indexed) => self.end(indexed.each_step_near(addresses, &mut |step| sink.step(step))),
            None => self.follow(&StepSelection::default(), sink),
        }
    }

    /// The trace with its index, if that has few parts with these addresses. A source of a capture has no steps afterwards.
    fn take_indexed(&mut self, addresses: &[Range<u64>]) -> Option<IndexedSteps> {
        match (&mut self.contents, self.kind) {
            (contents @ Contents::Source(_), _) => {
                let mut index = self.index.take()?;
                index.has_few_near(addresses).ok().filter(|is_few| *is_few)?;
                match std::mem::replace(contents, Contents::File(None)) {
                    Contents::Source(steps) => Some(with_capture_index(*steps, index)),
                    _ => None,
                }
            }
            (Contents::File(_) | Contents::Steps(_), FileKind::Astf | FileKind::Stf) => {
                let file = Path::new(&self.file);
                let mut indexed = used(open_step_index(file, &index_path(file)))?;
                indexed.index_mut().has_few_near(addresses).ok().filter(|is_few| *is_few)?;
                Some(indexed)
            }
            _ => None,
        }
    }

    /// Passes the selected steps to a sink one at a time, with the data of their accesses.
    pub(crate) fn each(&mut self, selection: &StepSelection, sink: &mut dyn BlockSink) -> anyhow::Result<Verdict> {
        self.steps()?;
        let progress = Progress::follow(&self.meter);
        let mut selected = Selected::new(selection.clone(), LeftOut::Gap, sink);
        let ended = self.steps()?.each(&mut |step| selected.step(step));
        drop(progress);
        self.end(ended)
    }

    /// Runs a pass over the selected steps. A capture is read on several threads if everything is selected: otherwise it
    /// has to be read in order, since the context of a part depends on those before it.
    pub(crate) fn run_pass<P: Pass>(
        &mut self,
        selection: &StepSelection,
        jobs: JobsArgs,
        make: impl Fn() -> P + Sync,
    ) -> anyhow::Result<(P, Result<(), SourceError>)> {
        if let (Contents::Source(steps), true) = (&mut self.contents, selection.is_all()) {
            let _progress = Progress::follow(&self.meter);
            return Ok(match steps.run_pass(Parts::on(jobs.count()), &make) {
                Ok(pass) => (pass, Ok(())),
                Err(error) => (make(), Err(error)),
            });
        }
        let mut pass = make();
        let ended = self.feed(selection, LeftOut::Nothing, &mut pass)?;
        Ok((pass, ended))
    }

    fn feed(
        &mut self,
        selection: &StepSelection,
        left_out: LeftOut,
        sink: &mut dyn BlockSink,
    ) -> anyhow::Result<Result<(), SourceError>> {
        self.steps()?;
        let _progress = Progress::follow(&self.meter);
        let steps = self.steps()?;
        if selection.is_all() {
            return Ok(steps.follow(sink));
        }
        Ok(steps.follow(&mut Selected::new(selection.clone(), left_out, sink)))
    }

    /// Reports damage, which is a problem.
    pub(crate) fn end(&self, ended: Result<(), SourceError>) -> anyhow::Result<Verdict> {
        let verdict = losses_verdict(&self.file, &self.losses());
        match ended {
            Ok(()) => Ok(verdict),
            Err(error) if error.is_damage => {
                diagnostic::error(format_args!("{}: {error}", self.name()));
                Ok(Verdict::Problems)
            }
            Err(error) => bail!("{}: {error}", self.name()),
        }
    }

    fn losses(&self) -> Losses {
        match &self.contents {
            // Losses of a capture are gaps of its steps.
            Contents::Source(_) | Contents::Software(_) | Contents::File(_) => Losses::default(),
            Contents::Steps(steps) => steps.losses(),
        }
    }
}

impl TraceArgs {
    /// Opens an output that is none of the inputs.
    pub(crate) fn open_output(&self, output: &OutputArgs) -> anyhow::Result<Output> {
        self.read.open_output(&self.files, output)
    }

    /// The number of files.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Passes each trace to `take`. What cannot be read does not stop the others, but the command fails.
    pub(crate) fn each(&self, take: impl FnMut(&mut OpenTrace) -> anyhow::Result<Verdict>) -> anyhow::Result<Verdict> {
        self.each_with(EachOptions::default(), take)
    }

    /// The same, with options.
    pub(crate) fn each_with(
        &self,
        options: EachOptions<'_>,
        mut take: impl FnMut(&mut OpenTrace) -> anyhow::Result<Verdict>,
    ) -> anyhow::Result<Verdict> {
        each_file(&self.files, |_, file| self.read.each(file, options, &mut take))
    }
}

/// Name and trace id of a source.
type SourceName = (String, Option<u8>);

/// Consumer of open traces.
type Take<'t> = dyn FnMut(&mut OpenTrace) -> anyhow::Result<Verdict> + 't;

/// Which traces are read, and how.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EachOptions<'o> {
    /// Only sources of this core of a capture.
    pub(crate) core: Option<&'o CoreSelector>,
    /// Whether a file is read twice, which takes a [second reader](OpenTrace::take_second) if it is a pipe.
    pub(crate) twice: bool,
    /// Whether [software trace](OpenTrace::software) of a capture is taken too.
    pub(crate) software: bool,
    /// Whether the index of a source is [used](OpenTrace::follow_near).
    pub(crate) indexed: bool,
}

impl ReadArgs {
    /// Opens an output that is none of the inputs.
    pub(crate) fn open_output(&self, files: &[PathBuf], output: &OutputArgs) -> anyhow::Result<Output> {
        Output::open_beside_all(output, &files.iter().cloned().chain(self.image_paths()).collect::<Vec<_>>())
    }

    /// The selected sources of captures.
    pub(crate) fn sources(&self) -> &SourceArgs {
        &self.sources
    }

    /// Whether the trace at a path is read as a capture.
    pub(crate) fn is_capture(&self, file: &Path) -> bool {
        !self.tarmac.is_given() && matches!(FileKind::at(file), Ok(FileKind::Capture)) && !is_pipe(file)
    }

    /// Files that are read beside the traces.
    pub(crate) fn image_paths(&self) -> Vec<PathBuf> {
        self.images.paths().into_iter().map(Path::to_path_buf).collect()
    }

    /// Passes a file, or each source of a capture, to `take`.
    pub(crate) fn each(&self, file: &Path, options: EachOptions<'_>, take: &mut Take<'_>) -> anyhow::Result<Verdict> {
        match self.capture(file)? {
            Some(capture) => self.each_source(file, &capture, options, take),
            None => take(&mut self.open_file(file, options.twice)?),
        }
    }

    /// The capture at a path. `None`: it is a file or a pipe.
    fn capture(&self, file: &Path) -> anyhow::Result<Option<Capture>> {
        if !self.is_capture(file) {
            return Ok(None);
        }
        open_capture(file).map(Some).map_err(|error| with_hint(error.into(), self.tarmac.hint))
    }

    fn open_file(&self, path: &Path, twice: bool) -> anyhow::Result<OpenTrace> {
        let (file, second) = if twice && is_pipe(path) {
            let options = self.tarmac.options(self.jobs.threads());
            TraceFile::open_twice(path, &options).map_err(|error| with_hint(error.into(), self.tarmac.hint))?
        } else {
            (self.reopen(path)?, None)
        };
        let kind = file.kind();
        let codes = self.images.load_for(path)?;
        if kind != FileKind::Stf {
            codes.iter().try_for_each(Code::require_arm)?;
        }
        if let TraceFile::Astf(file) = &file {
            report_astf(file);
        }
        Ok(OpenTrace {
            file: name_of(path),
            source: None,
            is_only_source: true,
            kind,
            contents: Contents::File(Some(Box::new(file))),
            program: Arc::new(Program::new(codes)),
            meter: Meter::default(),
            second,
            index: None,
        })
    }

    /// Opens a file that is no capture.
    pub(crate) fn reopen(&self, path: &Path) -> anyhow::Result<TraceFile> {
        open(path, self.jobs.threads(), &self.tarmac)
    }

    fn each_source(
        &self,
        file: &Path,
        capture: &Capture,
        options: EachOptions<'_>,
        take: &mut Take<'_>,
    ) -> anyhow::Result<Verdict> {
        report_assumptions(capture);
        let sources = self.selected_sources(capture, options.core)?;
        let (added, spaces) = (self.processes.codes(&self.images)?, self.processes.load()?);
        let mut codes = added.clone();
        let mut reported = BTreeSet::new();
        report_images(&place_images(capture, &mut codes), &mut reported);
        let (mut verdict, mut count, is_only_source) = (Verdict::Clean, 0, sources.len() == 1);
        for source in sources {
            if let Some(software) = SoftwareSource::new(capture, &source.0).filter(|_| options.software) {
                count += 1;
                verdict = verdict.or(take(&mut software_trace(file, source, software))?);
                continue;
            }
            match CaptureSteps::with_spaces(capture.clone(), Some(&source.0), &codes, &spaces) {
                Ok(steps) => {
                    count += 1;
                    let (meter, program) = (Meter::new(Some(steps.size())), Arc::clone(steps.program()));
                    let index = if options.indexed { index_of(capture, &source.0, &added, &spaces) } else { None };
                    let contents = Contents::Source(Box::new(steps.counting(&Arc::clone(&meter.read))));
                    let (file, source, kind) = (file.display().to_string(), Some(source), FileKind::Capture);
                    let mut trace =
                        OpenTrace { file, source, is_only_source, kind, contents, program, meter, second: None, index };
                    verdict = verdict.or(take(&mut trace)?);
                    report_program(&trace.program, &mut reported);
                }
                Err(error) => {
                    // Sources that were not named may be of any kind.
                    if !self.sources.is_empty() || !error.is_other_kind() {
                        verdict = Verdict::Problems;
                    }
                    diagnostic::error(error);
                }
            }
        }
        if count == 0 {
            bail!("{}: no trace source could be read; 'unspool info' shows what the capture contains", file.display());
        }
        Ok(verdict)
    }

    /// Distinct names and ids of the selected sources that have trace.
    fn selected_sources(&self, capture: &Capture, core: Option<&CoreSelector>) -> anyhow::Result<Vec<SourceName>> {
        let mut present = PresentIds::default();
        let mut sources: Vec<SourceName> = Vec::new();
        for trace in self.sources.select(capture)?.iter().filter(|trace| present.may_have(trace)) {
            let source = trace.source();
            if !sources.iter().any(|(name, _)| *name == source.name) {
                sources.push((source.name.clone(), source.id));
            }
        }
        match core {
            Some(core) => of_core(capture, core, sources),
            None => Ok(sources),
        }
    }
}

/// The index of a source of a capture, if there is one.
fn index_of(capture: &Capture, source: &str, added: &[Code], spaces: &SpaceOptions) -> Option<Index<File>> {
    let path = capture_index_path(capture, source);
    if !path.is_file() {
        return None;
    }
    used(open_capture_index(&path, &fingerprint_of(capture, source, added, spaces)))
}

/// An index, unless there is none; one that is not of this trace is reported.
fn used<T>(opened: Result<T, LogError>) -> Option<T> {
    match opened {
        Ok(index) => Some(index),
        Err(error) if error.is_absent() => None,
        Err(error) => {
            diagnostic::detail(format_args!("{error}; it is not used"));
            None
        }
    }
}

/// A source of software trace.
fn software_trace(file: &Path, source: SourceName, software: SoftwareSource) -> OpenTrace {
    OpenTrace {
        file: file.display().to_string(),
        source: Some(source),
        is_only_source: false,
        kind: FileKind::Capture,
        meter: Meter::new(Some(software.size())),
        contents: Contents::Software(Box::new(software)),
        program: Arc::new(Program::new(Vec::new())),
        second: None,
        index: None,
    }
}

/// The name of a file in messages.
pub(crate) fn name_of(path: &Path) -> String {
    if is_standard(path) { "standard input".to_string() } else { path.display().to_string() }
}

/// The sources of a core: by its name, by that of the source, or by the number of the source.
fn of_core(capture: &Capture, wanted: &CoreSelector, sources: Vec<SourceName>) -> anyhow::Result<Vec<SourceName>> {
    let core_name = |name: &str| {
        let core = capture.sources.iter().find(|source| source.name == name).and_then(|source| source.core);
        core.and_then(|core| capture.cores.get(core)).map_or(String::new(), |core| core.name.clone())
    };
    let is_wanted = |(number, (name, _)): &(usize, SourceName)| {
        wanted.matches(*number, name.as_bytes()) || wanted.matches(usize::MAX, core_name(name).as_bytes())
    };
    let names = sources.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    let found: Vec<SourceName> = sources.into_iter().enumerate().filter(is_wanted).map(|(_, source)| source).collect();
    if found.is_empty() {
        bail!("no core '{wanted}' in the capture; its sources: {names}");
    }
    Ok(found)
}

/// Opens one source of a capture, which has to be named if there are several. Also returns the code that was added, before it
/// was placed, and where files are looked for.
pub(crate) fn open_source(
    path: &Path,
    source: Option<&str>,
    images: &ImageArgs,
    processes: &ProcessArgs,
) -> anyhow::Result<(CaptureSteps, Vec<Code>, SpaceOptions)> {
    let capture = open_capture(path)?;
    report_assumptions(&capture);
    let (codes, spaces) = (processes.codes(images)?, processes.load()?);
    let mut placed = codes.clone();
    report_images(&place_images(&capture, &mut placed), &mut BTreeSet::new());
    let steps = CaptureSteps::with_spaces(capture, source, &placed, &spaces)?;
    Ok((steps, codes, spaces))
}
