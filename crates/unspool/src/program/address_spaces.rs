//! Address spaces over time: whose code is at an address, and when.
//!
//! system events of a capture + images ─▶ **address spaces** ─▶ code and symbols by map and address
//!
//! A map is one process, or the kernel, in one or more versions of its address space. Where the process or the version is
//! not known, an address has code only if all that are possible agree about it. Files are loaded when their code is
//! executed; what is not found is listed.

mod owner;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use unspool_capture::perf::KernelMemory;
use unspool_capture::{
    Call, Capture, Code, Contents, ContextFormat, ContextGuess, ContextProcess, ContextWidth, Direction, Extent, Hit,
    ImageLoader, ImageNotFound, ImageSearch, Inference, Jitdump, KERNEL, Mapping, Note, PackageFormat, PatchCode, Pid,
    Region, State, Symbols, SystemEvent, Timeline, View,
};
use unspool_coresight::Context;
use unspool_flow::MapId;

use super::generated::Generated;
use super::moment::{Moment, Window};

/// How to find processes and their files.
#[derive(Debug, Clone, Default)]
pub struct SpaceOptions {
    /// Where to look for files.
    pub search: ImageSearch,
    /// What CONTEXTIDR contains. Otherwise the package says so, or it is guessed if only one format explains the trace.
    pub context_format: Option<ContextFormat>,
    /// Events beside those of the capture.
    pub events: Vec<SystemEvent>,
    /// Code that programs generated.
    pub jitdumps: Vec<Jitdump>,
}

/// Address spaces of a capture.
#[derive(Debug)]
pub(super) struct AddressSpaces {
    pub(super) timeline: Timeline,
    /// The number of events up to the first time, if the log lost what came before it; otherwise 0.
    lost_before: usize,
    /// Whether trace from before the log was met.
    is_earlier_noted: OnceLock<()>,
    /// Whether events say where the code of the kernel is.
    has_kernel: bool,
    context_ids: OnceLock<ContextIds>,
    loader: Mutex<ImageLoader>,
    /// Code of each mapping of the timeline, once it was needed; `None` if its file was not found.
    codes: Vec<OnceLock<Option<Code>>>,
    /// Code of patches that name a file, by the name.
    patches: Vec<(String, Vec<u8>)>,
    /// Why files were not found, by the name of the image.
    missing: Mutex<BTreeMap<String, ImageNotFound>>,
    notes: Mutex<Vec<Note>>,
    maps: RwLock<Maps>,
    /// Functions that a recording lists, by path of the file and offset in it.
    symbols: BTreeMap<String, Symbols>,
    /// Names of generated functions of each process, once they were needed; `None` if there is no file with them.
    perf_maps: HashMap<Pid, OnceLock<Option<Code>>>,
    /// First and last addresses of memory of the kernel that is known, and takes precedence over its files.
    kernel_memory: Vec<(u64, u64)>,
}

/// What is known about context identifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContextIds {
    /// They have this format.
    Format(ContextFormat),
    /// They are not used, or their format is unknown.
    Ignored,
    /// They differ, and no format explains them: processes were executed that no event names.
    Unexplained,
}

/// One or more versions of an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Map {
    /// That of a process or the kernel.
    Process { pid: Pid, view: View },
    /// That of an unknown process that exists in a window.
    Any(Window),
    /// That of a process without events.
    Unnamed,
}

/// Numbers of maps, in the order in which they were first used.
#[derive(Debug, Default)]
struct Maps {
    list: Vec<Map>,
    ids: HashMap<Map, MapId>,
}

/// What is at an address of a map.
pub(super) enum Found<'s> {
    /// These bytes, up to where something else may be.
    Bytes(&'s [u8]),
    /// A file that was not found.
    Missing,
    /// One of several pieces of code.
    Ambiguous,
    /// Nothing is known for this number of bytes: the images of the whole machine apply.
    Absent(u64),
}

impl AddressSpaces {
    /// The address spaces of a capture with system events; `None` if there are none.
    pub(super) fn new(
        capture: &Capture,
        added: &[Code],
        options: &SpaceOptions,
        kernel: &KernelMemory,
    ) -> Option<Self> {
        let mut recorded = capture.events.iter().chain(&options.events);
        if !recorded.any(|event| has_code(&event.call)) && options.jitdumps.is_empty() {
            return None;
        }
        let mut search = image_search(capture, added, options);
        search.kernel = search.kernel.or_else(|| kernel.symbols.clone());
        let mut loader = ImageLoader::new(search);
        let generated = Generated::new(capture, &options.jitdumps, &mut loader);
        let mut notes = generated.notes.clone();
        let events = generated.with(capture.events.iter().chain(&options.events));
        let mut codes: HashMap<Mapping, Option<Code>> = HashMap::new();
        let mut missing = BTreeMap::new();
        let layout = |mapping: &Mapping| {
            let code = load(&mut loader, mapping, &mut missing, &mut notes);
            let extents = code.as_ref().map(extents).unwrap_or_default();
            codes.insert(mapping.clone(), code);
            extents
        };
        let patches = named_patches(capture, &events);
        let timeline = Timeline::new(events, Direction::Backward, layout);
        let of_mapping = |index: usize| {
            let known = timeline.mapping(index).and_then(|mapping| codes.remove(mapping));
            known.map_or_else(OnceLock::new, OnceLock::from)
        };
        let kernel_memory: Vec<(u64, u64)> = memory_of(kernel);
        if !kernel_memory.is_empty() {
            missing.retain(|image, _| !is_of_kernel(image));
        }
        let has_kernel = timeline.processes().any(|pid| pid == KERNEL);
        let format = options.context_format.or(capture.context_format);
        let codes = (0..timeline.mappings()).map(of_mapping).collect();
        Some(Self {
            lost_before: if capture.has_sessions() { 0 } else { lost_before(&timeline) },
            is_earlier_noted: OnceLock::new(),
            has_kernel,
            context_ids: format.map_or_else(OnceLock::new, |format| OnceLock::from(ContextIds::Format(format))),
            loader: Mutex::new(loader),
            codes,
            patches,
            missing: Mutex::new(missing),
            notes: Mutex::new(notes),
            maps: RwLock::default(),
            symbols: capture.symbols.clone(),
            perf_maps: timeline.processes().map(|pid| (pid, OnceLock::new())).collect(),
            kernel_memory,
            timeline,
        })
    }

    /// Do events place an image that the user added? Then it is not also in all address spaces.
    pub(super) fn places(&self, code: &Code) -> bool {
        (0..self.timeline.mappings())
            .filter_map(|index| self.timeline.mapping(index))
            .any(|mapping| is_image_of(mapping, code))
    }

    /// Guesses the format of context identifiers if it is not known yet; `values` makes a list of evidence.
    pub(super) fn find_context_format(&self, values: impl FnOnce() -> HashSet<(u32, ContextWidth)>) {
        self.context_ids.get_or_init(|| {
            let values = values();
            // Evidence of several widths counts as far as all have it.
            let width = values.iter().map(|(_, width)| *width).min_by_key(|width| width.bits());
            let values: Vec<u32> = values.into_iter().map(|(value, _)| value).filter(|value| *value != 0).collect();
            let guess = self.timeline.guess_context(&values, width.unwrap_or(ContextWidth::Bits32));
            let (found, text) = match (guess.format(), &guess) {
                _ if values.is_empty() => return ContextIds::Ignored,
                (Some(format), _) => {
                    let text = format!(
                        "context identifiers are assumed to be {}, since no other format fits the events as well: \
                         --context-id {} makes it certain",
                        format.text(),
                        format.name()
                    );
                    (ContextIds::Format(format), text)
                }
                (None, ContextGuess::Candidates(formats)) if formats.is_empty() && values.len() > 1 => {
                    let text = "code of processes is not shown, since the events do not explain the context \
                                identifiers: name their format with --context-id FORMAT";
                    (ContextIds::Unexplained, text.to_string())
                }
                (None, _) => {
                    let text = "context identifiers are ignored, since no single format fits the events: name it with \
                                --context-id FORMAT";
                    (ContextIds::Ignored, text.to_string())
                }
            };
            self.lock_notes().push(Note::assumed("system events", &text));
            found
        });
    }

    /// The map of a context in a window of time.
    pub(super) fn map_of(&self, moment: &Moment<'_>, context: &Context) -> MapId {
        let map = match context.level() {
            _ if moment.window.before < self.lost_before => self.before_the_log(),
            Some(1..) if self.has_kernel => Map::Process { pid: KERNEL, view: self.view(KERNEL, moment.window) },
            _ => self.process(moment, context),
        };
        if let Some(known) = self.maps.read().unwrap_or_else(PoisonError::into_inner).ids.get(&map) {
            return *known;
        }
        let mut maps = self.maps.write().unwrap_or_else(PoisonError::into_inner);
        let Maps { list, ids } = &mut *maps;
        *ids.entry(map).or_insert_with(|| {
            list.push(map);
            MapId(u32::try_from(list.len()).unwrap_or(u32::MAX))
        })
    }

    /// The map of trace from before a log that lost its start: numbers may have been those of other processes.
    fn before_the_log(&self) -> Map {
        self.is_earlier_noted.get_or_init(|| {
            let time = self.timeline.events().iter().find_map(|event| event.time).unwrap_or(0);
            let text = format!(
                "the event log lost its start: code of processes is not shown before its first event, at time {time:#x}"
            );
            self.lock_notes().push(Note::assumed("system events", &text));
        });
        Map::Unnamed
    }

    fn process(&self, moment: &Moment<'_>, context: &Context) -> Map {
        let window = moment.window;
        let named = |pid| Map::Process { pid, view: self.view(pid, window) };
        if let Some(thread) = moment.thread {
            return named(self.timeline.process_of(thread, window.after));
        }
        match (self.context_ids.get(), moment.context_registers.number(context)) {
            (Some(ContextIds::Format(format)), Some((value, width))) => {
                let positions = (window.before, window.after);
                match self.timeline.process_of_context_within(*format, value, width, positions) {
                    ContextProcess::Known(pid) => named(pid),
                    ContextProcess::Ambiguous => Map::Any(window),
                    ContextProcess::Unknown => Map::Unnamed,
                }
            }
            (known, _) => match (self.running(window, moment.core), known) {
                (Some(pid), _) => named(pid),
                // Processes that agree prove nothing if there are others.
                (None, Some(ContextIds::Unexplained)) => Map::Unnamed,
                (None, _) if self.lost_before > 0 => Map::Unnamed,
                (None, _) => Map::Any(window),
            },
        }
    }

    /// The process of all threads that a core executes in a window.
    fn running(&self, window: Window, core: Option<u32>) -> Option<Pid> {
        let core = core?;
        let events = (window.before..).zip(self.timeline.events().get(window.before..window.after)?);
        let switches = events.filter_map(|(position, event)| match event.call {
            Call::Switch { core: on, tid } if on == core => Some(self.timeline.process_of(tid, position + 1)),
            _ => None,
        });
        let before = self.timeline.thread_on(core, window.before);
        let before = before.map(|thread| self.timeline.process_of(thread, window.before));
        let mut processes = before.into_iter().chain(switches);
        let first = processes.next()?;
        processes.all(|process| process == first).then_some(first)
    }

    fn view(&self, pid: Pid, window: Window) -> View {
        self.timeline.version_within(pid, window.before, window.after)
    }

    fn map(&self, map: MapId) -> Map {
        let maps = self.maps.read().unwrap_or_else(PoisonError::into_inner);
        (map.0 as usize).checked_sub(1).and_then(|index| maps.list.get(index).copied()).unwrap_or(Map::Unnamed)
    }

    fn contents(&self, map: Map, address: u64) -> Contents<'_> {
        match map {
            Map::Process { pid, view } => self.timeline.lookup(pid, view, address),
            Map::Any(window) => self.timeline.lookup_in_any(window.before, window.after, address),
            Map::Unnamed => Contents::Absent { left: u64::MAX },
        }
    }

    /// What is at an address.
    pub(super) fn find(&self, map: MapId, address: u64) -> Found<'_> {
        let map = self.map(map);
        match self.contents(map, address) {
            Contents::Certain(hit) => match self.in_kernel_memory(map, &hit, address) {
                Some(left) => Found::Absent(left),
                None => self.bytes(&hit, address),
            },
            Contents::Doubtful(..) => Found::Ambiguous,
            Contents::Absent { left } => Found::Absent(left),
        }
    }

    fn bytes(&self, hit: &Hit<'_>, address: u64) -> Found<'_> {
        let limited = |bytes: &'_ [u8]| bytes.len().min(usize::try_from(hit.left).unwrap_or(usize::MAX));
        if let Some(index) = hit.piece.mapping() {
            let bytes = self.code(index).and_then(|code| code.starting_at(address)).unwrap_or_default();
            return if bytes.is_empty() { Found::Missing } else { Found::Bytes(&bytes[..limited(bytes)]) };
        }
        let code = match self.timeline.patch_code(hit.piece) {
            Some(PatchCode::Bytes(code)) => code.as_slice(),
            Some(PatchCode::Id(id)) => {
                self.patches.iter().find(|(name, _)| name == id).map_or(&[][..], |(_, code)| code.as_slice())
            }
            // The bytes are those in memory at the end, which a dump may have.
            Some(PatchCode::Absent) | None => return Found::Absent(hit.left),
        };
        let bytes = usize::try_from(hit.offset).ok().and_then(|offset| code.get(offset..)).unwrap_or_default();
        if bytes.is_empty() { Found::Missing } else { Found::Bytes(&bytes[..limited(bytes)]) }
    }

    /// Number of bytes of a file of the kernel for which its memory is known.
    fn in_kernel_memory(&self, map: Map, hit: &Hit<'_>, address: u64) -> Option<u64> {
        let is_file = matches!(map, Map::Process { pid: KERNEL, .. }) && hit.piece.mapping().is_some();
        let mut memory = self.kernel_memory.iter().filter(|_| is_file);
        let (_, last) = memory.find(|(first, last)| (*first..=*last).contains(&address))?;
        Some(hit.left.min((last - address).saturating_add(1)))
    }

    /// The code of a mapping, which is loaded on first use.
    fn code(&self, mapping: usize) -> Option<&Code> {
        let loaded = self.codes.get(mapping)?.get_or_init(|| {
            let mut loader = self.loader.lock().unwrap_or_else(PoisonError::into_inner);
            let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
            load(&mut loader, self.timeline.mapping(mapping)?, &mut missing, &mut self.lock_notes())
        });
        loaded.as_ref()
    }

    /// The function at an address, and the offset in it.
    pub(super) fn symbol(&self, map: MapId, address: u64) -> Option<(&str, u64)> {
        let map = self.map(map);
        let hit = self.contents(map, address).certain();
        match hit.and_then(|hit| hit.piece.mapping()) {
            Some(mapping) => self.symbol_of_file(mapping, hit?.offset, address),
            None => hit.and_then(|hit| Some((self.timeline.patch_name(hit.piece)?, hit.offset))),
        }
        .or_else(|| self.perf_map(map)?.symbols.find(address))
    }

    /// The function at an address of a process or of the kernel, and the offset in it: in the first map that has one.
    pub(super) fn symbol_of(&self, process: Option<Pid>, address: u64) -> Option<(&str, u64)> {
        let is_its = |map: &Map| match map {
            Map::Process { pid, .. } => *pid == KERNEL || process.is_none_or(|process| process == *pid),
            Map::Any(_) => true,
            Map::Unnamed => false,
        };
        let maps = self.maps.read().unwrap_or_else(PoisonError::into_inner).list.clone();
        let ids = (1..).zip(&maps).filter(|(_, map)| is_its(map)).map(|(id, _)| MapId(id));
        ids.filter_map(|id| self.symbol(id, address)).next()
    }

    /// The function of a file, or of what a recording lists about it.
    fn symbol_of_file(&self, mapping: usize, offset: u64, address: u64) -> Option<(&str, u64)> {
        let of_file = self.code(mapping).and_then(|code| code.symbols.find(address));
        of_file.or_else(|| self.symbols.get(&self.timeline.mapping(mapping)?.image)?.find(offset))
    }

    /// The names in `/tmp/perf-PID.map`.
    fn perf_map(&self, map: Map) -> Option<&Code> {
        let Map::Process { pid, .. } = map else { return None };
        let loaded = self.perf_maps.get(&pid)?.get_or_init(|| {
            let mut loader = self.loader.lock().unwrap_or_else(PoisonError::into_inner);
            let file = loader.find_file(&format!("/tmp/perf-{pid}.map"))?;
            let (code, notes) = Code::from_perf_map(file.name(), file.bytes());
            self.lock_notes().extend(notes);
            Some(code)
        });
        loaded.as_ref()
    }

    /// The image that events place at an address, found or not.
    pub(super) fn image(&self, map: MapId, address: u64) -> Option<&str> {
        let hit = self.contents(self.map(map), address).certain()?;
        self.timeline.mapping(hit.piece.mapping()?).map(|mapping| mapping.image.as_str())
    }

    /// The code of the file that events place at an address.
    pub(super) fn code_at(&self, map: MapId, address: u64) -> Option<&Code> {
        let hit = self.contents(self.map(map), address).certain()?;
        self.code(hit.piece.mapping()?)
    }

    /// The code of the file that a process, or the kernel, had at an address whenever it had one.
    pub(super) fn code_of_process(&self, process: Option<Pid>, address: u64) -> Option<&Code> {
        let always = Window { before: 0, after: self.timeline.events().len() };
        let of = |pid: Pid| {
            let map = Map::Process { pid, view: self.view(pid, always) };
            self.code(self.contents(map, address).certain()?.piece.mapping()?)
        };
        process.and_then(of).or_else(|| of(KERNEL))
    }

    /// The process of a map; `None` if it is not known.
    pub(super) fn process_of(&self, map: MapId) -> Option<Pid> {
        match self.map(map) {
            Map::Process { pid, .. } => Some(pid),
            Map::Any(_) | Map::Unnamed => None,
        }
    }

    /// Whether a map is that of several versions of a process, between which code is removed or replaced.
    pub(super) fn is_changing(&self, map: MapId) -> bool {
        matches!(self.map(map), Map::Process { pid, view } if self.timeline.removes_code(pid, view))
    }

    /// Why files were not found, by the name of the image.
    pub(super) fn missing(&self) -> BTreeMap<String, ImageNotFound> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes on files and assumptions since the last call.
    pub(super) fn take_notes(&self) -> Vec<Note> {
        std::mem::take(&mut *self.lock_notes())
    }

    /// Notes once that the timestamps of a source are not on the clock that the capture describes.
    pub(super) fn note_contradiction(&self, source: &str) {
        let text = format!(
            "the timestamps of {source} are not in the sessions that have them, so the events of a session are not \
             placed between its timestamps"
        );
        let note = Note::assumed("system events", &text);
        let mut notes = self.lock_notes();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    fn lock_notes(&self) -> MutexGuard<'_, Vec<Note>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of events up to the first time, in a log that lost its start; otherwise 0.
///
/// Such a log has starts, and also something without one. A log without any start is about ends, and about what exists at the end of
/// a trace: it covers all of the trace.
fn lost_before(timeline: &Timeline) -> usize {
    let is_lost = timeline.inferred().iter().any(|inferred| {
        matches!(
            inferred.what,
            Inference::EndWithoutStart
                | Inference::CurrentWithoutStart
                | Inference::UndeclaredProcess
                | Inference::ReusedWithoutStart
        )
    });
    let first = timeline.events().iter().find_map(|event| event.time);
    let has_starts = timeline.events().iter().any(|event| is_start(&event.call));
    first.filter(|_| is_lost && has_starts).map_or(0, |first| timeline.position(first))
}

fn is_start(call: &Call) -> bool {
    match call {
        Call::Process { state, .. }
        | Call::Library { state, .. }
        | Call::Thread { state, .. }
        | Call::Asid { state, .. } => *state == State::Start,
        _ => false,
    }
}

/// Is an image that the user added the file of a mapping?
pub(crate) fn is_image_of(mapping: &Mapping, code: &Code) -> bool {
    let name = |path: &str| path.rsplit(['/', '\\']).next().unwrap_or_default().to_string();
    let of_code = name(&code.name);
    let is_kernel = mapping.image.starts_with("[kernel") && of_code == "vmlinux";
    is_kernel || name(&mapping.image) == of_code
}

/// The memory of the kernel that is known.
fn memory_of(kernel: &KernelMemory) -> Vec<(u64, u64)> {
    let regions = kernel.code.iter().flat_map(|code| &code.regions);
    regions.map(|region| (region.address, region.last())).collect()
}

/// Is this the kernel, or one of its modules?
fn is_of_kernel(image: &str) -> bool {
    image.starts_with('[') && !image.starts_with("[vdso") || image.ends_with(".ko")
}

/// Does an event say where code is?
fn has_code(call: &Call) -> bool {
    matches!(call, Call::Process { .. } | Call::Library { .. } | Call::Patch { .. })
}

/// Where to look for the files of a capture: where the user says, in the package, and beside a recording.
pub(crate) fn image_search(capture: &Capture, added: &[Code], options: &SpaceOptions) -> ImageSearch {
    let mut search = options.search.clone();
    search.given.extend(added.iter().map(|code| PathBuf::from(&code.name)));
    let is_perf = capture.format == PackageFormat::Perf;
    if search.base.is_none() && is_perf {
        let folder = capture.path.parent().unwrap_or(Path::new(""));
        search.base = Some(if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_path_buf() });
    }
    if search.package.is_none() && !is_perf {
        search.package = Some(capture.clone());
    }
    if search.kernel.is_none() {
        search.kernel = capture.kernel_symbols().map(Arc::new);
    }
    search
}

fn load(
    loader: &mut ImageLoader,
    mapping: &Mapping,
    missing: &mut BTreeMap<String, ImageNotFound>,
    notes: &mut Vec<Note>,
) -> Option<Code> {
    match loader.load(mapping) {
        Ok((code, more)) => {
            notes.extend(more);
            Some(code)
        }
        Err(error) => {
            missing.insert(mapping.image.clone(), error);
            None
        }
    }
}

/// Where the bytes of a file are that is mapped as a whole.
fn extents(code: &Code) -> Vec<Extent> {
    let extent = |region: &Region| Extent {
        address: region.address,
        length: region.bytes.len() as u64,
        offset: region.address.wrapping_sub(code.bias),
    };
    code.regions.iter().map(extent).collect()
}

/// The code of patches that name a file of the package.
fn named_patches(capture: &Capture, events: &[SystemEvent]) -> Vec<(String, Vec<u8>)> {
    /// Maximum size of the code of a patch.
    const LIMIT: u64 = 16 << 20;
    let ids: HashSet<&str> = events.iter().filter_map(|event| patch_id(&event.call)).collect();
    let mut patches: Vec<(String, Vec<u8>)> =
        ids.into_iter().filter_map(|id| Some((id.to_string(), capture.read_file(id, LIMIT).ok()?))).collect();
    patches.sort_unstable();
    patches
}

fn patch_id(call: &Call) -> Option<&str> {
    match call {
        Call::Patch { code: PatchCode::Id(id), .. } => Some(id),
        _ => None,
    }
}
