//! Indexes of logs and of steps.
//!
//! Takes a log, or any bytes as an index. An index can be built of every log, and answers; of the steps of the log too, and
//! its registers are those of a replay. Bytes that are no index are refused, and a damaged index gives an error or an answer.

use std::io::Cursor;
use std::ops::ControlFlow;

use unspool::model::{SourceError, Step, StepSource as _};
use unspool::tarmac;
use unspool::tarmac::index::{
    Fingerprint, Index, IndexOptions, Indexed, ResumeSteps, SegmentAt, StepIndexer, StepScanner, StepSegments, build,
};

/// Steps in memory; a point is the index of a step.
struct Steps(Vec<Step>);

impl ResumeSteps for Steps {
    fn each_from(
        &mut self,
        at: &SegmentAt<'_>,
        take: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        let start = at.resume.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)) as usize;
        let _: ControlFlow<()> = self.0.get(start..).unwrap_or_default().iter().try_for_each(take);
        Ok(())
    }
}

/// Checks all properties for these bytes.
pub fn check(data: &[u8]) {
    let Some((&[choice, place], rest)) = data.split_first_chunk() else { return };
    if choice & 1 != 0 {
        return query(rest, b"", place.into());
    }
    let mut log = Cursor::new(rest);
    let Ok(fingerprint) = Fingerprint::of(&mut log, 0) else { return };
    let Ok(reader) = tarmac::read::Reader::new(rest, tarmac::read::ReadOptions::default()) else { return };
    let options = IndexOptions { segment_size: 1 + usize::from(choice), ..IndexOptions::of(reader.dialect()) };
    let mut file = Cursor::new(Vec::new());
    build(&mut log, &mut file, fingerprint, &options, |_| {}).expect("memory can be written");
    let mut bytes = file.into_inner();
    query(&bytes, rest, place.into());
    // A damaged byte.
    if let Some(at) = (usize::from(place) * 37).checked_rem(bytes.len()) {
        bytes[at] ^= choice | 1;
        query(&bytes, rest, place.into());
    }
    of_steps(rest, u32::from(choice >> 1) + 1, place.into());
}

fn query(index: &[u8], log: &[u8], line: u64) {
    let Ok(index) = Index::open(Cursor::new(index)) else { return };
    let mut indexed = Indexed::new(Cursor::new(log), index);
    let _ = indexed.state(line, &[0..=u64::MAX]);
    let _ = (indexed.instruction(None, line), indexed.next_at(0x8000, line), indexed.next_exception(line));
}

/// The registers of an index of steps are those of a replay.
fn of_steps(log: &[u8], distance: u32, number: u64) {
    let Ok(reader) = tarmac::read::Reader::new(log, tarmac::read::ReadOptions::default()) else { return };
    let mut source = tarmac::steps::Steps::new(reader, false);
    let (unit, mut steps) = (source.time_unit(), Vec::new());
    let _ = source.each(&mut |step| {
        steps.push(step.clone());
        ControlFlow::Continue(())
    });
    let mut file = Cursor::new(Vec::new());
    let fingerprint = Fingerprint { length: log.len() as u64, modified: 0, sum: 0 };
    let mut indexer = StepIndexer::new(&mut file, fingerprint, unit).expect("memory can be written");
    let mut scanner = StepScanner::new(unit, 0);
    let (mut count, mut in_segment) = (0, 0);
    for (at, step) in steps.iter().enumerate() {
        let is_instruction = step.event.instruction().is_some();
        if is_instruction && in_segment >= distance {
            indexer.cut(0, (at as u64).to_le_bytes().to_vec()).expect("memory can be written");
            in_segment = 0;
        }
        indexer.step(step).expect("memory can be read");
        in_segment += u32::from(is_instruction);
        if count < number {
            scanner.step(step);
        }
        count += u64::from(is_instruction);
    }
    let totals = indexer.finish().expect("memory can be written");
    if number == 0 || number > totals.instructions {
        return;
    }
    let mut indexed = Indexed::new(StepSegments::new(Steps(steps), unit), Index::open(file).expect("it was written"));
    let (found, expected) = (indexed.state(number, &[]).expect("it can be read"), scanner.finish());
    for (found, expected) in found.cores.iter().zip(&expected.cores) {
        let registers = |core: &tarmac::index::CoreState| {
            let mut rows = Vec::new();
            core.registers.each(|_, name, contents| rows.push((name.to_string(), contents.text())));
            rows
        };
        assert_eq!((found.pc, found.instructions), (expected.pc, expected.instructions));
        assert_eq!(registers(found), registers(expected));
    }
}
