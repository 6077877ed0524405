//! Making an index: pieces on all cores, then in order.
//!
//! log ─▶ pieces ─▶ summaries (threads) ─▶ **in order**: checkpoint, tables, tree ─▶ file

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel, sync_channel};

use super::bytes::put;
use super::calls::{Pointers, flow};
use super::checkpoint::{Checkpoint, CoreAt};
use super::directory::{Directory, Piece, finish, start};
use super::query::Before;
use super::segment::{CoreSummary, Summary, Text, put_addresses, summarize};
use super::store::Packed;
use super::table::put_forgotten;
use super::tree::{Node, Tree};
use super::{Fingerprint, IndexError, IndexOptions, Totals};
use crate::parse::Parser;
use crate::record::{Record, Stamp};
use crate::state::{Core, EarlierState, MAX_CORES, Machine};
use memchr::memrchr;

/// No more threads than these: each has a piece in memory.
const MOST_THREADS: usize = 16;

/// A piece may be so many times longer than asked for if it has no end of a line.
const PATIENCE: usize = 4;

/// How far back a place to cut is looked for.
const REACH: usize = 64 << 10;

/// Makes the index of a log. `progress` is told how many bytes of the log are done.
pub fn build<T: Read + Seek, S: Read + Write + Seek>(
    log: &mut T,
    file: &mut S,
    fingerprint: Fingerprint,
    options: &IndexOptions,
    mut progress: impl FnMut(u64),
) -> Result<Totals, IndexError> {
    log.seek(SeekFrom::Start(0)).map_err(IndexError::Log)?;
    let end = start(file)?;
    let directory = Directory {
        fingerprint,
        options: *options,
        totals: Totals::default(),
        cores: Vec::new(),
        pieces: Vec::new(),
        tree: Tree::default(),
    };
    let mut merge = Merge { file, end, directory, now: Checkpoint::default(), offset: 0 };
    let mut cutter = Cutter { log, rest: Vec::new(), is_within_line: false, is_at_end: false, options: *options };
    run(&mut cutter, &mut merge, options, &mut progress)?;
    finish(merge.file, merge.end, &merge.directory)?;
    Ok(merge.directory.totals)
}

/// Cuts, has pieces looked at by threads, and puts them together in order.
fn run<T: Read, S: Read + Write + Seek>(
    cutter: &mut Cutter<'_, T>,
    merge: &mut Merge<'_, S>,
    options: &IndexOptions,
    progress: &mut impl FnMut(u64),
) -> Result<(), IndexError> {
    let threads = options.threads.clamp(1, MOST_THREADS);
    let (to_workers, work) = sync_channel::<(usize, Text)>(threads + 2);
    let work = Mutex::new(work);
    std::thread::scope(|scope| {
        let (to_merge, done) = channel();
        for _ in 0..threads {
            let (work, to_merge) = (&work, to_merge.clone());
            scope.spawn(move || {
                while let Some((number, text)) = next(work) {
                    let mut missing = Missing(false);
                    let mut summary = summarize(&text, options, Machine::within(options.big_endian), &mut missing);
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
            while let Some(to_workers) = sender.as_ref().filter(|_| sent - merged <= threads + 1) {
                let is_sent = cutter.next()?.is_some_and(|text| to_workers.send((sent, text)).is_ok());
                if is_sent {
                    sent += 1;
                } else {
                    // Without work the workers end.
                    sender = None;
                }
            }
            if merged == sent {
                return Ok(());
            }
            // A worker that is gone had a fault of its own, which the scope tells.
            let Ok((number, text, summary)) = done.recv() else { return Ok(()) };
            waiting.insert(number, (text, summary));
            while let Some((text, summary)) = waiting.remove(&merged) {
                merged += 1;
                merge.take(&text, summary)?;
                progress(merge.offset);
            }
        }
    })
}

fn next(work: &Mutex<Receiver<(usize, Text)>>) -> Option<(usize, Text)> {
    work.lock().ok()?.recv().ok()
}

/// A worker knows nothing of what came before; it says so if it has to know.
struct Missing(bool);

impl EarlierState for Missing {
    fn byte(&mut self, _: &[u8], _: u64) -> Option<u8> {
        None
    }

    fn unresolved(&mut self) {
        self.0 = true;
    }
}

/// Cuts a log into pieces.
struct Cutter<'a, T> {
    log: &'a mut T,
    rest: Vec<u8>,
    is_within_line: bool,
    is_at_end: bool,
    options: IndexOptions,
}

impl<T: Read> Cutter<'_, T> {
    fn next(&mut self) -> Result<Option<Text>, IndexError> {
        let size = self.options.piece.max(1);
        let mut bytes = std::mem::take(&mut self.rest);
        let is_within_line = self.is_within_line;
        self.is_within_line = false;
        let mut wanted = size;
        while !self.is_at_end {
            self.read(&mut bytes, wanted)?;
            match memrchr(b'\n', &bytes) {
                None if !self.is_at_end && wanted < size * PATIENCE => wanted += size,
                None => break,
                Some(newline) => {
                    if !self.is_at_end {
                        let cut = self.cut(&bytes, newline + 1);
                        self.rest = bytes.split_off(cut);
                        return Ok(Some(Text { bytes, is_within_line }));
                    }
                }
            }
        }
        // Either the log ends here, or a line does not.
        self.is_within_line = !self.is_at_end;
        Ok((!bytes.is_empty()).then_some(Text { bytes, is_within_line }))
    }

    /// Reads on until there are so many bytes.
    fn read(&mut self, bytes: &mut Vec<u8>, wanted: usize) -> Result<(), IndexError> {
        let missing = wanted.saturating_sub(bytes.len()) as u64;
        let got = self.log.take(missing).read_to_end(bytes).map_err(IndexError::Log)?;
        self.is_at_end = (got as u64) < missing;
        Ok(())
    }

    /// Where to cut: at the last instruction that has a time, so that nothing behind it needs the line before. If there
    /// is none close by, at the last line.
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
            if last - end > REACH {
                break;
            }
        }
        fallback.unwrap_or(last)
    }
}

/// Puts summaries together in order.
struct Merge<'a, S> {
    file: &'a mut S,
    end: u64,
    directory: Directory,
    /// What is known behind the last piece.
    now: Checkpoint,
    /// Bytes of the log so far.
    offset: u64,
}

impl<S: Read + Write + Seek> Merge<'_, S> {
    fn take(&mut self, text: &Text, summary: Summary) -> Result<(), IndexError> {
        let summary = if summary.is_unresolved { self.again(text)? } else { summary };
        self.file.seek(SeekFrom::Start(self.end)).map_err(IndexError::Write)?;
        let mut bytes = Vec::new();
        self.now.put(&mut bytes);
        let mut piece = Piece {
            offset: self.offset,
            is_within_line: text.is_within_line,
            instructions: self.directory.totals.instructions,
            of_cores: self.now.cores.iter().map(|core| core.track.instructions).collect(),
            latest: summary.latest,
            first: summary.first,
            exceptions: summary.exceptions.len() as u64,
            exception_list: None,
            checkpoint: Packed::of(&bytes).save(self.file, &mut self.end)?,
        };
        let places = self.places(&summary.cores);
        if !summary.exceptions.is_empty() {
            let list = Packed::of(&put_exceptions(&summary.exceptions, &places));
            piece.exception_list = Some(list.save(self.file, &mut self.end)?);
        }
        self.tables(&summary, &places)?;
        self.directory.pieces.push(piece);
        self.follow(summary, &places);
        self.offset += text.bytes.len() as u64;
        Ok(())
    }

    /// Looks at a piece once more, with all that came before.
    fn again(&mut self, text: &Text) -> Result<Summary, IndexError> {
        let known = |core: &CoreAt| Core {
            name: core.name.clone(),
            registers: core.registers.clone(),
            is_settled: true,
            ..Core::default()
        };
        let cores = self.now.cores.iter().map(known).collect();
        let options = self.directory.options;
        let base = self.directory.totals.lines;
        let machine = Machine::with(options.big_endian, cores, self.now.current, base);
        let pieces = self.directory.pieces.len();
        let mut before = Before::new(&mut *self.file, &self.directory, pieces);
        let mut summary = summarize(text, &options, machine, &mut before);
        if let Some(error) = before.failed {
            return Err(error);
        }
        summary.cores.iter_mut().for_each(|core| core.is_seeded = true);
        Ok(summary)
    }

    /// The places of the cores of a summary among all.
    fn places(&mut self, cores: &[CoreSummary]) -> Vec<usize> {
        let directory = &mut self.directory;
        let mut place = |core: &CoreSummary| {
            let known = directory.cores.iter().position(|name| *name == core.name);
            known.or_else(|| {
                let place = directory.cores.len();
                (place < MAX_CORES).then(|| directory.cores.push(core.name.clone())).map(|()| place)
            })
        };
        // Cores that are too many go to the last, which nobody asks for.
        let places: Vec<usize> = cores.iter().map(|core| place(core).unwrap_or(MAX_CORES)).collect();
        for name in &directory.cores[self.now.cores.len()..] {
            self.now.cores.push(CoreAt { name: name.clone(), ..CoreAt::default() });
        }
        places
    }

    fn tables(&mut self, summary: &Summary, places: &[usize]) -> Result<(), IndexError> {
        let mut node = Node {
            base: self.directory.totals.lines,
            lines: summary.lines.into(),
            addresses: Some(Packed::of(&put_addresses(&summary.addresses)).save(self.file, &mut self.end)?),
            ..Node::default()
        };
        for (at, core) in summary.cores.iter().enumerate().filter(|(_, core)| !core.forgotten.is_empty()) {
            let block = Packed::of(&put_forgotten(&core.forgotten)).save(self.file, &mut self.end)?;
            node.forgotten.push((places.get(at).map_or(MAX_CORES, |place| *place) as u16, block));
        }
        for ((core, first), packed) in &summary.tables {
            let core = places.get(usize::from(*core)).map_or(MAX_CORES, |place| *place) as u16;
            node.tables.push(((core, *first), packed.save(self.file, &mut self.end)?));
        }
        node.tables.sort_unstable_by_key(|(key, _)| *key);
        self.directory.tree.add(node, self.file, &mut self.end)
    }

    /// Goes on behind a piece.
    fn follow(&mut self, summary: Summary, places: &[usize]) {
        let base = self.directory.totals.lines;
        for (core, place) in summary.cores.into_iter().zip(places) {
            if let Some(now) = self.now.cores.get_mut(*place) {
                follow_core(now, core, base, &self.directory.options);
            }
        }
        self.now.current = places.get(summary.current).copied().unwrap_or(0).min(self.now.cores.len().max(1) - 1);
        self.now.time = summary.last.or(self.now.time);
        let totals = &mut self.directory.totals;
        totals.lines += u64::from(summary.lines);
        totals.instructions += summary.instructions;
        totals.exceptions += summary.exceptions.len() as u64;
        totals.problems += summary.problems;
    }
}

fn follow_core(now: &mut CoreAt, later: CoreSummary, base: u64, options: &IndexOptions) {
    let mut parser = Parser::new(options.parse);
    for (line, raw) in &later.early {
        if let Record::Register(register) = parser.parse(raw).record {
            now.registers.at_line(base + u64::from(*line));
            now.registers.update(&register);
        }
    }
    // From the last instruction before the piece to its first.
    if let Some(first) = &later.track.first
        && !first.mode.is_empty()
    {
        now.registers.set_mode(&first.mode);
        now.registers.set_is_a64(first.is_a64.or(now.registers.is_a64()));
    }
    if let (Some(previous), Some(first)) = (now.track.previous, &later.track.first)
        && previous.next != first.address
    {
        let pointers = now.track.snapshot.unwrap_or_else(|| Pointers::of(&now.registers));
        let flow = flow(&previous, first.address, pointers);
        flow.iter().for_each(|flow| now.calls.take(flow, &now.registers));
    }
    later.track.flows.iter().for_each(|flow| now.calls.take(flow, &now.registers));
    now.track.snapshot = later.track.snapshot.map(|later| later.resolved(&now.registers)).or(now.track.snapshot);
    if later.is_seeded {
        now.registers = later.registers;
    } else {
        now.registers.overlay(&later.registers, base);
    }
    now.track.instructions += later.track.instructions;
    now.track.previous = later.track.previous.or(now.track.previous);
}

fn put_exceptions(exceptions: &[(u32, usize, u64)], places: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    for (line, core, address) in exceptions {
        put(&mut out, (*line).into());
        put(&mut out, places.get(*core).copied().unwrap_or(0) as u64);
        put(&mut out, *address);
    }
    out
}
