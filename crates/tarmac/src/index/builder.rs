//! Building an index: segments are summarized in parallel, then merged in order.
//!
//! log ─▶ segments ─▶ summaries (threads) ─▶ **in order**: checkpoint, tables, tree ─▶ file

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel, sync_channel};

use super::bytes::put;
use super::calls::{Pointers, flow};
use super::checkpoint::{Checkpoint, CoreAt};
use super::directory::{Directory, Segment, finish, start};
use super::query::Before;
use super::segment::{CoreSummary, NO_CORE, SegmentText, Summary, encode_addresses, summarize};
use super::store::Packed;
use super::table::encode_unknown_writes;
use super::tree::{Node, Tree};
use super::{Fingerprint, IndexError, IndexOptions, IndexResult, Totals};
use crate::parse::Parser;
use crate::record::{Record, Stamp};
use crate::state::{Core, EarlierState, MAX_CORES, Machine, Registers};
use memchr::memrchr;

/// Maximum number of threads, each of which holds a segment in memory.
const MAX_THREADS: usize = 16;

/// Maximum size of a segment, as a multiple of the wanted size. A segment grows while it has no line end.
const MAX_GROWTH: usize = 4;

/// Maximum number of bytes before the last line end of a segment in which to look for an instruction to cut at.
const MAX_CUT_BACK: usize = 64 << 10;

/// Builds the index of a log. `progress` gets the number of bytes that are done.
pub fn build<T: Read + Seek, S: Read + Write + Seek>(
    log: &mut T,
    file: &mut S,
    fingerprint: Fingerprint,
    options: &IndexOptions,
    mut progress: impl FnMut(u64),
) -> IndexResult<Totals> {
    log.seek(SeekFrom::Start(0)).map_err(IndexError::Log)?;
    let end = start(file)?;
    let directory = Directory {
        fingerprint,
        options: *options,
        is_of_steps: false,
        totals: Totals::default(),
        cores: Vec::new(),
        segments: Vec::new(),
        tree: Tree::default(),
    };
    let mut merge = Merge { file, end, directory, now: Checkpoint::default(), offset: 0 };
    let mut cutter = Cutter { log, rest: Vec::new(), is_within_line: false, is_at_end: false, options: *options };
    run(&mut cutter, &mut merge, options, &mut progress)?;
    finish(merge.file, merge.end, &merge.directory)?;
    Ok(merge.directory.totals)
}

/// Reads segments, has threads summarize them, and merges the summaries in order.
fn run<T: Read, S: Read + Write + Seek>(
    cutter: &mut Cutter<'_, T>,
    merge: &mut Merge<'_, S>,
    options: &IndexOptions,
    progress: &mut impl FnMut(u64),
) -> IndexResult<()> {
    let threads = options.threads.clamp(1, MAX_THREADS);
    // Number of segments in memory: enough to keep all threads busy.
    let max_pending = threads + 2;
    let (to_workers, work) = sync_channel::<(usize, SegmentText)>(max_pending);
    let work = Mutex::new(work);
    std::thread::scope(|scope| {
        let (to_merge, done) = channel();
        for _ in 0..threads {
            let (work, to_merge) = (&work, to_merge.clone());
            scope.spawn(move || {
                while let Some((number, text)) = next(work) {
                    let mut missing = Missing(false);
                    let mut summary = summarize(&text, options, Machine::mid_log(options.big_endian), &mut missing);
                    summary.is_unresolved = missing.0;
                    if to_merge.send((number, text, summary)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(to_merge);
        let (mut sent, mut merged, mut waiting) = (0, 0, BTreeMap::new());
        let mut sender = Some(to_workers);
        loop {
            while let Some(to_workers) = sender.as_ref().filter(|_| sent - merged < max_pending) {
                let is_sent = cutter.next()?.is_some_and(|text| to_workers.send((sent, text)).is_ok());
                if is_sent {
                    sent += 1;
                } else {
                    // The workers end when the channel is closed.
                    sender = None;
                }
            }
            if merged == sent {
                return Ok(());
            }
            // The scope propagates the panic of a worker that ended early.
            let Ok((number, text, summary)) = done.recv() else { return Ok(()) };
            waiting.insert(number, (text, summary));
            while let Some((text, summary)) = waiting.remove(&merged) {
                merged += 1;
                merge.push(&text, summary)?;
                progress(merge.offset);
            }
        }
    })
}

fn next(work: &Mutex<Receiver<(usize, SegmentText)>>) -> Option<(usize, SegmentText)> {
    work.lock().ok()?.recv().ok()
}

/// The earlier state of a worker, which has none: records whether any was needed.
struct Missing(bool);

impl EarlierState for Missing {
    fn unresolved(&mut self) {
        self.0 = true;
    }
}

/// Divides a log into segments.
struct Cutter<'a, T> {
    log: &'a mut T,
    rest: Vec<u8>,
    is_within_line: bool,
    is_at_end: bool,
    options: IndexOptions,
}

impl<T: Read> Cutter<'_, T> {
    fn next(&mut self) -> IndexResult<Option<SegmentText>> {
        let size = self.options.segment_size.max(1);
        let mut bytes = std::mem::take(&mut self.rest);
        let is_within_line = self.is_within_line;
        self.is_within_line = false;
        let mut wanted = size;
        while !self.is_at_end {
            self.read(&mut bytes, wanted)?;
            match memrchr(b'\n', &bytes) {
                None if !self.is_at_end && wanted < size * MAX_GROWTH => wanted += size,
                None => break,
                Some(newline) => {
                    if !self.is_at_end {
                        let cut = self.cut(&bytes, newline + 1);
                        self.rest = bytes.split_off(cut);
                        return Ok(Some(SegmentText { bytes, is_within_line }));
                    }
                }
            }
        }
        // The log ends here, or a line is longer than a segment.
        self.is_within_line = !self.is_at_end;
        Ok((!bytes.is_empty()).then_some(SegmentText { bytes, is_within_line }))
    }

    /// Reads until there are `wanted` bytes.
    fn read(&mut self, bytes: &mut Vec<u8>, wanted: usize) -> IndexResult<()> {
        let missing = wanted.saturating_sub(bytes.len()) as u64;
        let got = self.log.take(missing).read_to_end(bytes).map_err(IndexError::Log)?;
        self.is_at_end = (got as u64) < missing;
        Ok(())
    }

    /// Offset at which to cut, at most `last`, the end of the last complete line: before the last instruction with a
    /// time, so that no later line depends on earlier ones. If there is none nearby, before the last instruction
    /// without a time; otherwise at `last`.
    fn cut(&self, bytes: &[u8], last: usize) -> usize {
        let mut end = last;
        let mut fallback = None;
        while let Some(newline) = memrchr(b'\n', &bytes[..end.saturating_sub(1)]) {
            let line = &bytes[newline + 1..end - 1];
            let line = Parser::new(self.options.parse).parse(line.strip_suffix(b"\r").unwrap_or(line));
            match (&line.record, line.stamp) {
                (Record::Instruction(_), Stamp::At(_)) => return newline + 1,
                (Record::Instruction(_), _) => fallback = fallback.or(Some(newline + 1)),
                _ => {}
            }
            end = newline + 1;
            if last - end > MAX_CUT_BACK {
                break;
            }
        }
        fallback.unwrap_or(last)
    }
}

/// Merges summaries in order.
pub(super) struct Merge<'a, S> {
    pub(super) file: &'a mut S,
    pub(super) end: u64,
    pub(super) directory: Directory,
    /// State after the last segment.
    pub(super) now: Checkpoint,
    /// Number of bytes of the log so far.
    pub(super) offset: u64,
}

impl<S: Read + Write + Seek> Merge<'_, S> {
    fn push(&mut self, text: &SegmentText, summary: Summary) -> IndexResult<()> {
        let summary = if summary.is_unresolved { self.summarize_again(text)? } else { summary };
        let segment = Segment { offset: self.offset, is_within_line: text.is_within_line, ..Segment::default() };
        self.push_summary(segment, summary)?;
        self.offset += text.bytes.len() as u64;
        Ok(())
    }

    /// Adds a summary; `start` has what is not in it.
    pub(super) fn push_summary(&mut self, start: Segment, summary: Summary) -> IndexResult<()> {
        let mut bytes = Vec::new();
        self.now.encode(&mut bytes);
        let mut segment = Segment {
            instructions_before: self.directory.totals.instructions,
            core_instructions_before: self.now.cores.iter().map(|core| core.track.instructions).collect(),
            latest: summary.latest,
            first: summary.first,
            exceptions: summary.exceptions.len() as u64,
            exception_list: None,
            checkpoint: Packed::of(&bytes).save(self.file, &mut self.end)?,
            ..start
        };
        // Only now: the checkpoint has the cores before the segment.
        let core_indexes = self.register_cores(&summary.cores);
        if !summary.exceptions.is_empty() {
            let list = Packed::of(&encode_exceptions(&summary.exceptions, &core_indexes));
            segment.exception_list = Some(list.save(self.file, &mut self.end)?);
        }
        self.tables(&summary, &core_indexes)?;
        self.directory.segments.push(segment);
        self.advance(summary, &core_indexes);
        Ok(())
    }

    /// A machine in the state after the last segment.
    pub(super) fn machine(&self) -> Machine {
        let known = |core: &CoreAt| Core {
            name: core.name.clone(),
            registers: core.registers.clone(),
            has_mode: true,
            last: Some(core.track.last()),
            ..Core::default()
        };
        let cores = self.now.cores.iter().map(known).collect();
        Machine::with(self.directory.options.big_endian, cores, self.now.current, self.directory.totals.lines)
    }

    /// Summarizes a segment again, with the earlier state.
    fn summarize_again(&mut self, text: &SegmentText) -> IndexResult<Summary> {
        let (options, machine) = (self.directory.options, self.machine());
        let segments = self.directory.segments.len();
        let mut before = Before::new(&mut *self.file, &self.directory, segments);
        let mut summary = summarize(text, &options, machine, &mut before);
        if let Some(error) = before.failed {
            return Err(error);
        }
        summary.cores.iter_mut().for_each(|core| core.is_seeded = true);
        Ok(summary)
    }

    /// Adds the cores of a summary that are new. Returns the index of each among all cores.
    fn register_cores(&mut self, cores: &[CoreSummary]) -> Vec<usize> {
        let directory = &mut self.directory;
        let mut index = |core: &CoreSummary| {
            let known = directory.cores.iter().position(|name| *name == core.name);
            known.or_else(|| {
                let index = directory.cores.len();
                (index < MAX_CORES).then(|| directory.cores.push(core.name.clone())).map(|()| index)
            })
        };
        // Cores beyond the limit share an index, which no query uses.
        let core_indexes: Vec<usize> = cores.iter().map(|core| index(core).unwrap_or(NO_CORE)).collect();
        for name in &directory.cores[self.now.cores.len()..] {
            self.now.cores.push(CoreAt { name: name.clone(), ..CoreAt::default() });
        }
        core_indexes
    }

    fn tables(&mut self, summary: &Summary, core_indexes: &[usize]) -> IndexResult<()> {
        let mut node = Node {
            base: self.directory.totals.lines,
            lines: summary.lines.into(),
            addresses: Some(Packed::of(&encode_addresses(&summary.addresses)).save(self.file, &mut self.end)?),
            ..Node::default()
        };
        for (at, core) in summary.cores.iter().enumerate().filter(|(_, core)| !core.unknown_writes.is_empty()) {
            let block = Packed::of(&encode_unknown_writes(&core.unknown_writes)).save(self.file, &mut self.end)?;
            node.unknown_writes.push((core_index(core_indexes, at) as u16, block));
        }
        for ((core, first), packed) in &summary.tables {
            let core = core_index(core_indexes, usize::from(*core)) as u16;
            node.tables.push(((core, *first), packed.save(self.file, &mut self.end)?));
        }
        node.tables.sort_unstable_by_key(|(key, _)| *key);
        self.directory.tree.add(node, self.file, &mut self.end)
    }

    /// Advances the state over a segment.
    fn advance(&mut self, summary: Summary, core_indexes: &[usize]) {
        let base = self.directory.totals.lines;
        for (core, index) in summary.cores.into_iter().zip(core_indexes) {
            if let Some(now) = self.now.cores.get_mut(*index) {
                advance_core(now, core, base, &self.directory.options);
            }
        }
        let current = core_index(core_indexes, summary.current);
        // A segment may have no lines of a core.
        if current < self.now.cores.len() {
            self.now.current = current;
        }
        self.now.time = summary.last.or(self.now.time);
        let totals = &mut self.directory.totals;
        totals.lines += u64::from(summary.lines);
        totals.instructions += summary.instructions;
        totals.exceptions += summary.exceptions.len() as u64;
        totals.problems += summary.problems;
        if totals.corrected_loads.count == 0 {
            totals.corrected_loads.first = base + summary.corrected_loads.first;
        }
        totals.corrected_loads.count += summary.corrected_loads.count;
    }
}

/// Advances the state of a core over a segment, given its summary. `base`: number of lines before the segment.
fn advance_core(state: &mut CoreAt, summary: CoreSummary, base: u64, options: &IndexOptions) {
    let mut parser = Parser::new(options.parse);
    for (line, raw) in &summary.early {
        if let Record::Register(register) = parser.parse(raw).record {
            state.registers.at_line(base + u64::from(*line));
            state.registers.update(&register);
        }
    }
    if let Some(first) = &summary.track.first
        && !first.mode.is_empty()
    {
        state.registers.set_mode(&first.mode);
        state.registers.set_is_a64(first.is_a64.or(state.registers.is_a64()));
    }
    advance_calls(state, &summary);
    if summary.is_seeded {
        state.registers = summary.registers;
    } else {
        state.registers.overlay(&summary.registers, base);
    }
    let has_previous = summary.track.previous.is_some();
    state.track.is_interrupted = summary.track.is_interrupted || state.track.is_interrupted && !has_previous;
    state.track.instructions += summary.track.instructions;
    state.track.previous = summary.track.previous.or(state.track.previous);
}

/// Advances calls and the snapshot of pointers. `state` has the registers before the segment.
fn advance_calls(state: &mut CoreAt, summary: &CoreSummary) {
    let CoreAt { registers, calls, track, .. } = state;
    // Registers that include all earlier state are not completed by it: after a gap, it is out of date.
    let nothing = Registers::default();
    let before = if summary.is_seeded { &nothing } else { &*registers };
    if summary.track.starts_after_gap {
        track.previous = None;
    }
    // From the last instruction before the segment to its first.
    if let (Some(previous), Some(first)) = (track.previous, &summary.track.first)
        && previous.next != first.address
    {
        // Registers that the segment writes before its first instruction are early lines, unless it started with a state.
        let at_first = if summary.is_seeded { first.pointers } else { Pointers::of(registers) };
        let flow = flow(&previous, first.address, track.snapshot.unwrap_or(at_first));
        flow.iter().for_each(|flow| calls.apply(flow, before));
    }
    summary.track.flows.iter().for_each(|flow| calls.apply(flow, before));
    if summary.track.has_gap {
        (track.previous, track.snapshot, track.is_interrupted) = (None, None, false);
    }
    let snapshot = summary.track.snapshot.map(|pointers| pointers.resolved(before));
    track.snapshot = snapshot.or(track.snapshot);
}

/// Index among all cores of a core of a summary.
fn core_index(core_indexes: &[usize], at: usize) -> usize {
    core_indexes.get(at).copied().unwrap_or(NO_CORE)
}

fn encode_exceptions(exceptions: &[(u32, usize, u64)], core_indexes: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    for (line, core, address) in exceptions {
        put(&mut out, (*line).into());
        put(&mut out, core_index(core_indexes, *core) as u64);
        put(&mut out, *address);
    }
    out
}
