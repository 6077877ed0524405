//! Anything that can be opened, as iterators: the easy way into the library.
//!
//! ```text
//! path ─▶ open ─▶ Opened ─▶ instructions(), blocks(), calls(), steps(), packets()
//! ```
//!
//! Works for captures, ASTF, STF and Tarmac. Images and symbols are found in the capture or beside the file. Each iterator
//! is fed by a thread of its own, so that decoding and the loop of the caller overlap. Consumers that need every item of
//! a stage, or more speed, use [`Trace`], [`open_steps`](crate::open_steps) and [`TraceFile`](crate::TraceFile).

mod beside;
mod blocks;
mod calls;
mod items;
mod seek;

use std::ops::{ControlFlow, Deref};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use unspool_analyze::calls::Call;
use unspool_analyze::step_selection::{SelectedSource, StepSelection};
use unspool_capture::{Capture, Code};
use unspool_coresight::frame::FrameError;
use unspool_coresight::{PacketItem, Sink, Transactions};
use unspool_model::{Event, Instruction, SourceError, Step, StepSource};

pub use self::blocks::ExecutedBlock;
use self::blocks::{BlockFeed, BlockJoiner, RangeFeed};
pub use self::calls::ExecutedCall;
use self::calls::feed_calls;
pub use self::items::Items;
use self::items::{Feed, spawn};
pub use self::seek::SeekableSteps;
use crate::file::OpenedSteps;
use crate::identify::{Identity, Wanted};
use crate::steps::{CaptureSteps, OpenSteps, open_capture, open_steps};
use crate::{Error, FileError, FileKind, PresentIds, Program, Trace, Watch};

/// Opens a capture, an ASTF file, an STF file or a Tarmac log. The first bytes decide which.
///
/// ```
/// # fn main() -> Result<(), unspool::Error> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hello-qemu");
/// let trace = unspool::open(path)?;
/// for instruction in trace.instructions()?.take(3) {
///     let instruction = instruction?;
///     println!("{:#x} {:?}", instruction.address, trace.function(instruction.address));
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// If it cannot be read, or is something else: then the error names it. A bare buffer needs its protocol: open it with
/// [`open_bare`](crate::open_bare), and convert the capture into a [`Opened`].
pub fn open(path: impl AsRef<Path>) -> Result<Opened, Error> {
    let path = path.as_ref();
    let kind = FileKind::at(path).map_err(|source| FileError::open(path.display().to_string(), source))?;
    match kind {
        FileKind::Capture => Ok(Opened::from(open_capture(path)?)),
        kind => Ok(Opened::new(Contents::File { path: path.to_path_buf(), kind })),
    }
}

/// Open capture or trace file.
#[derive(Debug)]
pub struct Opened {
    contents: Contents,
    /// Selected source of a capture.
    source: Option<String>,
    codes: Vec<Code>,
    selection: StepSelection,
    program: OnceLock<Program>,
}

#[derive(Debug, Clone)]
enum Contents {
    Capture(Box<Capture>),
    File { path: PathBuf, kind: FileKind },
}

/// Steps of a source of a capture, or of a trace file.
pub struct NamedSteps {
    /// Name of the source, or path of the file.
    pub name: String,
    /// Its steps.
    pub steps: OpenedSteps,
    /// The code that it executed.
    pub program: Arc<Program>,
}

/// An executed instruction, with its position and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecutedInstruction {
    /// Core; of a capture, index of the source in [`Opened::sources`].
    pub core: u32,
    /// Byte offset, record or line: see [`FileKind::unit`].
    pub position: u64,
    /// Time in the unit of the source.
    pub time: Option<u64>,
    /// Part of the execution before it is missing, or it is the first.
    pub follows_gap: bool,
    /// The instruction.
    pub instruction: Instruction,
}

impl Deref for ExecutedInstruction {
    type Target = Instruction;

    fn deref(&self) -> &Instruction {
        &self.instruction
    }
}

/// Packet of a source of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourcePacket {
    /// Index of the source in [`Opened::sources`].
    pub source: usize,
    /// Packet with its offset in the buffer, or bytes that are not a packet.
    pub packet: PacketItem,
}

/// The same trace, for another source or selection. The program is looked for anew.
impl Clone for Opened {
    fn clone(&self) -> Self {
        let Self { contents, source, codes, selection, .. } = self;
        Self {
            contents: contents.clone(),
            source: source.clone(),
            codes: codes.clone(),
            selection: selection.clone(),
            program: OnceLock::new(),
        }
    }
}

impl From<Capture> for Opened {
    fn from(capture: Capture) -> Self {
        Self::new(Contents::Capture(Box::new(capture)))
    }
}

impl Opened {
    fn new(contents: Contents) -> Self {
        let codes = match &contents {
            Contents::Capture(capture) => beside::of_capture(capture),
            Contents::File { path, .. } => beside::of_file(path),
        };
        Self { contents, source: None, codes, selection: StepSelection::default(), program: OnceLock::new() }
    }

    /// Selects one source of a capture, by name or trace id. The default is all sources, one after the other.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<String>) -> Self {
        self.select_source(source);
        self
    }

    /// As [`with_source`](Self::with_source), in place.
    pub fn select_source(&mut self, source: impl Into<String>) {
        self.source = Some(source.into());
    }

    /// Adds the code and symbols of an ELF file. It takes precedence over the images of a capture.
    ///
    /// # Errors
    ///
    /// If the file cannot be read as ELF.
    pub fn with_image(mut self, path: impl AsRef<Path>) -> Result<Self, Error> {
        self.add_image(path)?;
        Ok(self)
    }

    /// As [`with_image`](Self::with_image), in place. After an error, nothing has changed.
    ///
    /// # Errors
    ///
    /// If the file cannot be read as ELF.
    pub fn add_image(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        let (code, _) = Code::from_file(path, None)?;
        self.add_code(code);
        Ok(())
    }

    /// Adds code and symbols. They take precedence over the images of a capture.
    pub fn add_code(&mut self, code: Code) {
        self.codes.insert(0, code);
        self.program = OnceLock::new();
    }

    /// Selects steps by address, level, process, time and number, for [`steps`](Self::steps),
    /// [`instructions`](Self::instructions) and [`blocks`](Self::blocks). What is left out is a gap of them.
    #[must_use]
    pub fn with_selection(self, selection: StepSelection) -> Self {
        Self { selection, ..self }
    }

    /// Format.
    pub fn kind(&self) -> FileKind {
        match &self.contents {
            Contents::Capture(_) => FileKind::Capture,
            Contents::File { kind, .. } => *kind,
        }
    }

    /// The capture, if it is one.
    pub fn capture(&self) -> Option<&Capture> {
        match &self.contents {
            Contents::Capture(capture) => Some(capture),
            Contents::File { .. } => None,
        }
    }

    /// Names of the sources of a capture that have trace. A trace file has none.
    pub fn sources(&self) -> Vec<&str> {
        let Some(capture) = self.capture() else { return Vec::new() };
        let mut names: Vec<&str> = Vec::new();
        for trace in Trace::all(capture) {
            if !names.contains(&trace.source().name.as_str()) {
                names.push(&trace.source().name);
            }
        }
        names
    }

    /// Code and symbols: images that were added, found beside the file, or part of the capture.
    pub fn program(&self) -> &Program {
        self.program.get_or_init(|| match &self.contents {
            Contents::Capture(capture) => Program::of(capture, None, &self.codes).0,
            Contents::File { .. } => Program::new(self.codes.clone()),
        })
    }

    /// Name of the function at an address.
    pub fn function(&self, address: u64) -> Option<&str> {
        self.program().symbol(address).map(|(name, _)| name)
    }

    /// Iterates over the steps: instructions with their accesses and register writes, exceptions, contexts, gaps, notes.
    /// An error replaces what could not be read, and the next source of a capture follows it.
    ///
    /// # Errors
    ///
    /// If nothing can be read.
    pub fn steps(&self) -> Result<Items<Step>, Error> {
        let parts = self.selected_parts()?;
        spawn(move |feed| parts.feed_steps(feed, |step, feed| feed.push(step.clone())))
    }

    /// Iterates over the executed instructions. See [`steps`](Self::steps) for errors.
    ///
    /// # Errors
    ///
    /// If nothing can be read.
    pub fn instructions(&self) -> Result<Items<ExecutedInstruction>, Error> {
        let parts = self.selected_parts()?;
        spawn(move |feed| {
            let mut gaps = Gaps::default();
            parts.feed_steps(feed, |step, feed| match gaps.executed(step) {
                Some(executed) => feed.push(executed),
                None => ControlFlow::Continue(()),
            });
        })
    }

    /// Iterates over the executed blocks: straight-line code, up to a branch or to where the trace does not continue.
    /// Much faster than [`instructions`](Self::instructions) for a capture. See [`steps`](Self::steps) for errors.
    ///
    /// # Errors
    ///
    /// If nothing can be read.
    pub fn blocks(&self) -> Result<Items<ExecutedBlock>, Error> {
        let Contents::Capture(capture) = &self.contents else {
            let parts = self.selected_parts()?;
            return spawn(move |feed| {
                let mut joiner = BlockJoiner::default();
                parts.feed_steps(feed, |step, feed| joiner.step(step, feed));
                joiner.finish(feed);
            });
        };
        if !self.selection.is_all() {
            let parts = self.selected_parts()?;
            return spawn(move |feed| parts.feed_blocks(feed));
        }
        let (capture, codes, chosen) = (capture.clone(), self.codes.clone(), self.chosen()?);
        spawn(move |feed| feed_blocks(&capture, &codes, &chosen, feed))
    }

    /// Iterates over the calls that `keep` selects, stack by stack, in the order in which they began. They are inferred from
    /// control flow and known when the trace has been read. Of a [selection](Self::with_selection), only processes apply.
    ///
    /// # Errors
    ///
    /// If nothing can be read.
    pub fn calls(&self, keep: impl Fn(&Call) -> bool + Send + 'static) -> Result<Items<ExecutedCall>, Error> {
        let (parts, codes, processes) = (self.parts()?, self.codes.clone(), self.selection.processes.clone());
        spawn(move |feed| {
            for part in parts {
                if let Err(error) = feed_calls(part, &codes, &processes, &keep, feed) {
                    feed.fail(error);
                }
                if feed.is_closed() {
                    return;
                }
            }
        })
    }

    /// Iterates over the packets of a capture, source by source.
    ///
    /// # Errors
    ///
    /// If it is not a capture: other formats have no packets.
    pub fn packets(&self) -> Result<Items<SourcePacket>, Error> {
        let (capture, chosen) = match &self.contents {
            Contents::Capture(capture) => (capture.clone(), self.chosen()?),
            Contents::File { path, kind } => {
                return Err(Identity::known(*kind).refused(path.display().to_string(), Wanted::Capture).into());
            }
        };
        spawn(move |feed| {
            for (source, name) in chosen {
                for trace in Trace::all(&capture).iter().filter(|trace| trace.source().name == name) {
                    let mut sink = PacketFeed { feed, source, buffer: trace.buffer_index() };
                    if let Err(error) = trace.packets(&mut sink) {
                        feed.fail(error);
                    }
                }
            }
        })
    }

    /// Passes each step to a closure until it breaks, on the thread of the caller. As [`steps`](Self::steps), without a
    /// copy of each step.
    ///
    /// # Errors
    ///
    /// At the first source that cannot be read, after its steps up to there.
    pub fn each_step(&self, mut take: impl FnMut(&Step) -> ControlFlow<()>) -> Result<(), Error> {
        for part in self.parts()? {
            let mut flow = ControlFlow::Continue(());
            select(part.open()?, &self.selection)?.each(&mut |step| {
                flow = take(step);
                flow
            })?;
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Opens the steps of each source of a capture, or of a trace file, for analyses.
    ///
    /// # Errors
    ///
    /// If one of them cannot be opened.
    pub fn step_sources(&self) -> Result<Vec<NamedSteps>, Error> {
        let program = || Arc::new(Program::new(self.codes.clone()));
        let open = |part: Part| {
            let opened = part.open_with(program)?;
            Ok(NamedSteps { steps: select(opened.steps, &self.selection)?, ..opened })
        };
        self.parts()?.into_iter().map(open).collect()
    }

    /// Opens the steps of a source of a capture, without the selection.
    ///
    /// # Errors
    ///
    /// If it is no capture, or the source has no instructions.
    pub fn capture_steps(&self, source: &str) -> Result<CaptureSteps, Error> {
        match &self.contents {
            Contents::Capture(capture) => CaptureSteps::new(Capture::clone(capture), Some(source), &self.codes),
            Contents::File { path, kind } => {
                Err(Identity::known(*kind).refused(path.display().to_string(), Wanted::Capture).into())
            }
        }
    }

    /// Opens the steps as one source, for conversion, encoding or comparison.
    ///
    /// # Errors
    ///
    /// If a capture has several sources and none was selected.
    pub fn open_steps(&self) -> Result<OpenedSteps, Error> {
        let steps: OpenedSteps = match &self.contents {
            Contents::Capture(capture) => {
                Box::new(CaptureSteps::new(Capture::clone(capture), self.source.as_deref(), &self.codes)?)
            }
            Contents::File { path, kind } => {
                open_steps(path, &OpenSteps { kind: Some(*kind), ..OpenSteps::default() })?
            }
        };
        select(steps, &self.selection)
    }

    /// Sources of a capture that are read, with their index.
    fn chosen(&self) -> Result<Vec<(usize, String)>, Error> {
        let names = self.sources();
        let all = || names.iter().enumerate().map(|(index, name)| (index, (*name).to_string()));
        let (Some(wanted), Some(capture)) = (&self.source, self.capture()) else { return Ok(all().collect()) };
        let chosen = Trace::named(capture, wanted)?;
        Ok(all().filter(|(_, name)| *name == chosen.source().name).collect())
    }

    fn selected_parts(&self) -> Result<SelectedParts, Error> {
        Ok(SelectedParts { parts: self.parts()?, selection: self.selection.clone() })
    }

    /// Everything that has steps of its own.
    fn parts(&self) -> Result<Vec<Part>, Error> {
        match &self.contents {
            Contents::File { path, kind } => Ok(vec![Part::File { path: path.clone(), kind: *kind }]),
            Contents::Capture(capture) => {
                let part = |(index, source)| Part::Source {
                    capture: capture.clone(),
                    source,
                    core: index as u32,
                    codes: self.codes.clone(),
                };
                Ok(self.chosen()?.into_iter().map(part).collect())
            }
        }
    }
}

/// Part of a capture or trace file that has steps of its own.
#[derive(Clone)]
enum Part {
    File { path: PathBuf, kind: FileKind },
    Source { capture: Box<Capture>, source: String, core: u32, codes: Vec<Code> },
}

impl Part {
    fn open(self) -> Result<OpenedSteps, Error> {
        Ok(self.open_with(Arc::default)?.steps)
    }

    /// Opens it; `program` makes that of a file.
    fn open_with(self, program: impl FnOnce() -> Arc<Program>) -> Result<NamedSteps, Error> {
        match self {
            Self::File { path, kind } => {
                let steps = open_steps(&path, &OpenSteps { kind: Some(kind), ..OpenSteps::default() })?;
                Ok(NamedSteps { name: path.display().to_string(), steps, program: program() })
            }
            Self::Source { capture, source, core, codes } => {
                let steps = CaptureSteps::new(*capture, Some(&source), &codes)?.with_core(core);
                let program = Arc::clone(steps.program());
                Ok(NamedSteps { name: source, steps: Box::new(steps), program })
            }
        }
    }
}

/// The selected steps of parts.
struct SelectedParts {
    parts: Vec<Part>,
    selection: StepSelection,
}

impl SelectedParts {
    /// Feeds what `read` makes of the steps of each part.
    fn feed<T>(self, feed: &mut Feed<T>, mut read: impl FnMut(OpenedSteps, &mut Feed<T>) -> Result<(), SourceError>) {
        for part in self.parts {
            let steps = part.open().and_then(|steps| select(steps, &self.selection));
            if let Err(error) = steps.and_then(|steps| Ok(read(steps, feed)?)) {
                feed.fail(error);
            }
            if feed.is_closed() {
                return;
            }
        }
    }

    /// Feeds what `take` makes of each step.
    fn feed_steps<T>(self, feed: &mut Feed<T>, mut take: impl FnMut(&Step, &mut Feed<T>) -> ControlFlow<()>) {
        self.feed(feed, |mut steps, feed| steps.each(&mut |step| take(step, feed)));
    }

    /// Feeds the blocks, whole ones where the source has them.
    fn feed_blocks(self, feed: &mut Feed<ExecutedBlock>) {
        self.feed(feed, |mut steps, feed| {
            let mut sink = BlockFeed::new(feed);
            let ended = steps.follow(&mut sink);
            sink.finish();
            ended
        });
    }
}

/// The selected steps of a source. Fails if it does not have what the selection is about.
fn select(steps: OpenedSteps, selection: &StepSelection) -> Result<OpenedSteps, Error> {
    match selection.missing(steps.coverage()) {
        Some(facet) => Err(Error::NotCovered { facet: facet.name() }),
        None if selection.is_all() => Ok(steps),
        None => Ok(Box::new(SelectedSource::new(steps, selection.clone()))),
    }
}

/// Feeds the blocks of the sources of a capture.
fn feed_blocks(capture: &Capture, codes: &[Code], chosen: &[(usize, String)], feed: &mut Feed<ExecutedBlock>) {
    for (index, name) in chosen {
        let mut present = PresentIds::default();
        let is_chosen = |trace: &&Trace<'_>| trace.source().name == *name && present.may_have(trace);
        for trace in Trace::all(capture).iter().filter(is_chosen) {
            let (program, _) = Program::of(capture, trace.source().core, codes);
            let mut sink = RangeFeed::new(feed, *index as u32, trace.buffer_index());
            if let Err(error) = trace.flow(Transactions::Show, &program, &mut sink) {
                feed.fail(error);
            }
        }
    }
}

/// Cores whose execution has not started, or does not continue.
#[derive(Default)]
struct Gaps {
    /// By core: whether the next instruction continues the last one.
    continues: Vec<(u32, bool)>,
}

impl Gaps {
    #[inline]
    fn executed(&mut self, step: &Step) -> Option<ExecutedInstruction> {
        let continues = match self.continues.iter().position(|(core, _)| *core == step.core) {
            Some(index) => &mut self.continues[index].1,
            None => {
                self.continues.push((step.core, false));
                &mut self.continues.last_mut()?.1
            }
        };
        match step.event {
            Event::Instruction(instruction) => {
                let follows_gap = !std::mem::replace(continues, true);
                let Step { core, position, time, .. } = *step;
                Some(ExecutedInstruction { core, position, time, follows_gap, instruction })
            }
            Event::Gap(_) => {
                *continues = false;
                None
            }
            _ => None,
        }
    }
}

/// Sink of the packets of one source.
struct PacketFeed<'f> {
    feed: &'f mut Feed<SourcePacket>,
    source: usize,
    buffer: usize,
}

impl Sink<PacketItem> for PacketFeed<'_> {
    #[inline]
    fn item(&mut self, packet: PacketItem) {
        // A closed feed ends reading through the watch.
        let _ = self.feed.push(SourcePacket { source: self.source, packet });
    }
}

impl Watch for PacketFeed<'_> {
    fn lost(&mut self, error: FrameError) {
        self.feed.lost(self.buffer, self.source, error);
    }

    fn wants_more(&mut self) -> bool {
        !self.feed.is_closed()
    }
}
