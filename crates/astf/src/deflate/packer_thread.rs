//! A [`TemplateDeflater`] in a thread of its own.
//!
//! patterns, records ─▶ jobs ─▶ a thread ─▶ compressed bytes, in the same order ─▶ output
//!
//! Few jobs are in flight at a time, and each has few records, so that memory does not grow with the trace.

use std::io;
use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use unspool_model::BlockExecution;

use super::super::layout::Bytes;
use super::pattern::{Executions, Patterns, no_pattern};
use super::template_deflater::TemplateDeflater;

/// Maximum number of records of a job, unless it is one pattern.
const RECORDS: usize = 1 << 17;

/// Maximum number of jobs in flight.
const JOBS: usize = 32;

/// Compresses in another thread.
pub(crate) struct PackerThread {
    /// A job that has too few records to be submitted.
    job: Job,
    /// Jobs to be used again, for their memory.
    spare: Vec<Job>,
    /// Number of patterns that the thread knows.
    known: usize,
    jobs: SyncSender<Job>,
    results: Receiver<Job>,
    in_flight: usize,
    thread: JoinHandle<Packer>,
}

/// Records to be compressed, and the result.
#[derive(Default)]
struct Job {
    parts: Vec<Part>,
    /// Of all parts, in their order.
    records: Vec<Bytes>,
    slot_records: Vec<usize>,
    executions: Vec<BlockExecution>,
    addresses: Vec<u64>,
    /// Number of records.
    count: usize,
    compressed: Vec<u8>,
    failed: Option<io::Error>,
}

/// Part of a job: the number of records, slots, block executions and addresses that belong to it.
enum Part {
    Records(usize),
    Pattern { index: usize, records: usize, slots: usize },
    Executions { executions: usize, addresses: usize },
}

impl PackerThread {
    pub(crate) fn new() -> io::Result<Self> {
        let (jobs, received) = sync_channel(JOBS);
        let (done, results) = sync_channel(JOBS);
        let thread = thread::Builder::new().name("pack".into()).spawn(move || Packer::new().work(&received, &done))?;
        Ok(Self { job: Job::default(), spare: Vec::new(), known: 0, jobs, results, in_flight: 0, thread })
    }

    /// Writes records that are in no pattern.
    pub(crate) fn write(&mut self, output: &mut impl Write, records: &[Bytes]) -> io::Result<()> {
        for records in records.chunks(RECORDS) {
            self.job.records.extend_from_slice(records);
            match self.job.parts.last_mut() {
                Some(Part::Records(count)) => *count += records.len(),
                _ => self.job.parts.push(Part::Records(records.len())),
            }
            self.add(records.len(), output)?;
        }
        Ok(())
    }

    /// Writes the patterns of block executions.
    pub(crate) fn patterns(
        &mut self,
        output: &mut impl Write,
        patterns: &Patterns,
        Executions { mut executions, mut addresses, record_count }: Executions<'_>,
    ) -> io::Result<()> {
        self.send_new(patterns);
        if record_count <= RECORDS as u64 {
            return self.add_executions(output, executions, addresses, record_count as usize);
        }
        while !executions.is_empty() {
            let (mut records, mut slots, mut count) = (0, 0, 0);
            while let Some(execution) = executions.get(count).filter(|_| records < RECORDS) {
                records += patterns.records(execution.index()).len();
                slots += patterns.slot_count(execution.index());
                count += 1;
            }
            let (now, later) = executions.split_at_checked(count).unwrap_or_default();
            let (filled, rest) = addresses.split_at_checked(slots).ok_or_else(no_pattern)?;
            self.add_executions(output, now, filled, records)?;
            (executions, addresses) = (later, rest);
        }
        Ok(())
    }

    fn add_executions(
        &mut self,
        output: &mut impl Write,
        executions: &[BlockExecution],
        addresses: &[u64],
        records: usize,
    ) -> io::Result<()> {
        self.job.executions.extend_from_slice(executions);
        self.job.addresses.extend_from_slice(addresses);
        self.job.parts.push(Part::Executions { executions: executions.len(), addresses: addresses.len() });
        self.add(records, output)
    }

    /// Sends the patterns that the thread does not know.
    fn send_new(&mut self, patterns: &Patterns) {
        for index in patterns.indexes_after(self.known) {
            let records = patterns.records(*index);
            let before = self.job.slot_records.len();
            self.job.slot_records.extend(patterns.slot_records(*index));
            let slots = self.job.slot_records.len() - before;
            self.job.records.extend_from_slice(records);
            self.job.parts.push(Part::Pattern { index: *index, records: records.len(), slots });
            self.known += 1;
        }
    }

    /// Counts records that were added, and submits the job if it has enough.
    fn add(&mut self, records: usize, output: &mut impl Write) -> io::Result<()> {
        self.job.count += records;
        if self.job.count >= RECORDS { self.submit(output) } else { Ok(()) }
    }

    fn submit(&mut self, output: &mut impl Write) -> io::Result<()> {
        if self.in_flight == JOBS {
            self.collect(output)?;
        }
        let job = std::mem::replace(&mut self.job, self.spare.pop().unwrap_or_default());
        self.in_flight += 1;
        self.jobs.send(job).map_err(|_| gone())
    }

    /// Takes the oldest job back, and writes its result.
    fn collect(&mut self, output: &mut impl Write) -> io::Result<()> {
        let mut job = self.results.recv().map_err(|_| gone())?;
        self.in_flight -= 1;
        if let Some(error) = job.failed.take() {
            return Err(error);
        }
        output.write_all(&job.compressed)?;
        job.clear();
        self.spare.push(job);
        Ok(())
    }

    pub(crate) fn finish(mut self, output: &mut impl Write) -> io::Result<()> {
        self.submit(output)?;
        while self.in_flight > 0 {
            self.collect(output)?;
        }
        drop(self.jobs);
        self.thread.join().map_err(|_| gone())?.deflater.finish(output)
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that compresses has failed")
}

impl Job {
    fn clear(&mut self) {
        self.parts.clear();
        self.records.clear();
        self.slot_records.clear();
        self.executions.clear();
        self.addresses.clear();
        self.compressed.clear();
        self.count = 0;
    }
}

/// State of the thread.
struct Packer {
    deflater: TemplateDeflater,
    patterns: Patterns,
}

impl Packer {
    fn new() -> Self {
        Self { deflater: TemplateDeflater::new(), patterns: Patterns::default() }
    }

    /// Compresses jobs until there are no more.
    fn work(mut self, jobs: &Receiver<Job>, done: &SyncSender<Job>) -> Self {
        while let Ok(mut job) = jobs.recv() {
            job.failed = self.pack(&mut job).err();
            if done.send(job).is_err() {
                break;
            }
        }
        self
    }

    fn pack(&mut self, job: &mut Job) -> io::Result<()> {
        let Job { parts, records, slot_records, executions, addresses, compressed, .. } = job;
        let (mut records, mut slot_records) = (&records[..], &slot_records[..]);
        let (mut executions, mut addresses) = (&executions[..], &addresses[..]);
        for part in parts {
            match *part {
                Part::Records(count) => self.deflater.write(compressed, take(&mut records, count))?,
                Part::Pattern { index, records: count, slots: slot_count } => {
                    self.patterns.set(index, take(&mut records, count), take(&mut slot_records, slot_count));
                }
                Part::Executions { executions: count, addresses: address_count } => {
                    let (executions, addresses) = (take(&mut executions, count), take(&mut addresses, address_count));
                    self.deflater.patterns(
                        compressed,
                        &mut self.patterns,
                        Executions { executions, addresses, record_count: 0 },
                    )?;
                }
            }
        }
        self.deflater.flush(compressed)
    }
}

/// Splits off the first `count`.
fn take<'a, T>(all: &mut &'a [T], count: usize) -> &'a [T] {
    let (first, rest) = all.split_at_checked(count).unwrap_or_default();
    *all = rest;
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_writes_the_same_bytes() {
        let record = |seed: u8| -> Bytes { std::array::from_fn(|at| if at < 5 { seed } else { 0 }) };
        let (mut patterns, mut own) = (Patterns::default(), Patterns::default());
        for (index, count) in [1, 40, 3000].into_iter().enumerate() {
            let records: Vec<Bytes> = (0..count).map(|seed| record(seed as u8)).collect();
            let slot_records = &[0, count - 1][..count.min(2)];
            patterns.set(index, &records, slot_records);
            own.set(index, &records, slot_records);
        }
        // More than there is in a job.
        let executions: Vec<BlockExecution> =
            (0..30_000).map(|at| BlockExecution::new(u32::from(at % 97 == 0), at % 97 != 0 && at % 2 == 1)).collect();
        let slots: usize = executions.iter().map(|execution| patterns.slot_count(execution.index())).sum();
        let records: usize = executions.iter().map(|execution| patterns.records(execution.index()).len()).sum();
        let addresses: Vec<u64> = (0..slots as u64).map(|at| 0x7f00_0000 + at * at).collect();
        let all = Executions { executions: &executions, addresses: &addresses, record_count: records as u64 };
        let (mut here, mut there) = (Vec::new(), Vec::new());
        let mut deflater = TemplateDeflater::new();
        let mut thread = PackerThread::new().expect("a thread");
        for _ in 0..2 {
            deflater.write(&mut here, &[record(9)]).expect("memory");
            deflater.patterns(&mut here, &mut own, all).expect("memory");
            thread.write(&mut there, &[record(9)]).expect("memory");
            thread.patterns(&mut there, &patterns, all).expect("memory");
        }
        deflater.finish(&mut here).expect("memory");
        thread.finish(&mut there).expect("memory");
        assert!(here == there, "{} and {} bytes", here.len(), there.len());
        let mut plain = Vec::new();
        let read = io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(&there[..]), &mut plain);
        assert_eq!(read.ok(), Some(2 * 32 * (records + 1)));
    }
}
