//! Compressed records: one zstd stream per file, cut into records at any byte.
//!
//! bytes of a COMPRESSED record ─▶ **decompressor** ─▶ whole records inside
//!
//! Decoder state and the beginning of an unfinished record are kept from one call to the next. Does not know what the
//! records are.

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use super::bytes::ByteOrder;
use super::record::{HEADER, Header};

/// Bytes that are decompressed at a time.
const CHUNK: usize = 64 << 10;

/// Output that any input may have, and the maximum ratio after that: a small file must not fill the memory.
const FREE: u64 = 16 << 20;
const RATIO: u64 = 200;

/// The compressed stream of one file.
pub(crate) struct Decompressor {
    order: ByteOrder,
    state: State,
    /// The beginning of a record whose rest is in the next call.
    rest: Vec<u8>,
    consumed: u64,
    produced: u64,
}

enum State {
    Start,
    Running(Decoder<'static>),
    /// After an error, which was reported.
    Failed,
}

impl Decompressor {
    pub(crate) fn new(order: ByteOrder) -> Self {
        Self { order, state: State::Start, rest: Vec::new(), consumed: 0, produced: 0 }
    }

    /// Decompresses some bytes and passes on the records that are complete with them.
    ///
    /// # Errors
    ///
    /// A message, once; the stream is not read any further then.
    pub(crate) fn feed(&mut self, bytes: &[u8], each: &mut dyn FnMut(Header, &[u8])) -> Result<(), String> {
        let result = self.run(bytes, each);
        if result.is_err() {
            self.state = State::Failed;
            self.rest = Vec::new();
        }
        result
    }

    /// Number of bytes of a record that has no end.
    pub(crate) fn unfinished(&self) -> usize {
        self.rest.len()
    }

    fn run(&mut self, bytes: &[u8], each: &mut dyn FnMut(Header, &[u8])) -> Result<(), String> {
        if matches!(self.state, State::Start) {
            self.state = State::Running(Decoder::new().map_err(|error| error.to_string())?);
        }
        self.consumed = self.consumed.saturating_add(bytes.len() as u64);
        let limit = FREE.saturating_add(self.consumed.saturating_mul(RATIO));
        let mut input = InBuffer::around(bytes);
        let mut chunk = vec![0; CHUNK];
        loop {
            let State::Running(decoder) = &mut self.state else { return Ok(()) };
            let mut output = OutBuffer::around(&mut chunk[..]);
            decoder.run(&mut input, &mut output).map_err(|error| error.to_string())?;
            let produced = output.as_slice();
            let (is_done, is_full) = (input.pos() == bytes.len(), produced.len() == CHUNK);
            self.produced = self.produced.saturating_add(produced.len() as u64);
            if self.produced > limit {
                return Err(format!("more than {limit} bytes from {} compressed ones", self.consumed));
            }
            self.rest.extend_from_slice(produced);
            self.pass_on(each)?;
            if is_done && !is_full {
                return Ok(());
            }
        }
    }

    fn pass_on(&mut self, each: &mut dyn FnMut(Header, &[u8])) -> Result<(), String> {
        let mut at = 0;
        while let Some(start) = self.rest.get(at..).filter(|rest| rest.len() >= HEADER) {
            let header = Header::parse(start, self.order).filter(|header| header.size <= u16::MAX.into());
            let header = header.ok_or("a decompressed record has an impossible size")?;
            let Some(record) = start.get(..header.size as usize) else { break };
            each(header, record.get(HEADER..).unwrap_or_default());
            at += header.size as usize;
        }
        self.rest.drain(..at);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use zstd::stream::raw::Encoder;

    use super::*;

    fn record(kind: u32, length: u16) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend((length + 8).to_le_bytes());
        bytes.extend((0..length).map(|at| at as u8));
        bytes
    }

    /// A stream that is flushed after each part and never ended.
    fn compress(parts: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut encoder = Encoder::new(1).unwrap();
        let mut compressed = Vec::new();
        for part in parts {
            let mut bytes = vec![0; part.len() + 1024];
            let mut output = OutBuffer::around(&mut bytes[..]);
            let mut input = InBuffer::around(part);
            while input.pos() < part.len() {
                encoder.run(&mut input, &mut output).unwrap();
            }
            while encoder.flush(&mut output).unwrap() > 0 {}
            compressed.push(output.as_slice().to_vec());
        }
        compressed
    }

    fn feed(decompressor: &mut Decompressor, bytes: &[u8]) -> Result<Vec<(u32, usize)>, String> {
        let mut found = Vec::new();
        decompressor.feed(bytes, &mut |header, body| found.push((header.kind, body.len())))?;
        Ok(found)
    }

    #[test]
    fn records_straddle_and_the_frame_never_ends() {
        let all = [record(10, 100), record(11, 24), record(14, 0), record(3, 60_000)].concat();
        for cut in [0, 4, 50, 108, 110, 143, 1000] {
            let parts = compress(&[&all[..cut], &all[cut..]]);
            let mut decompressor = Decompressor::new(ByteOrder::Little);
            let mut found = feed(&mut decompressor, &parts[0]).unwrap();
            found.extend(feed(&mut decompressor, &parts[1]).unwrap());
            assert_eq!(found, [(10, 100), (11, 24), (14, 0), (3, 60_000)], "{cut}");
            assert_eq!(decompressor.unfinished(), 0);
        }
    }

    #[test]
    fn damage_is_reported_once() {
        let mut decompressor = Decompressor::new(ByteOrder::Little);
        assert!(feed(&mut decompressor, b"this is not zstd").is_err());
        assert_eq!(feed(&mut decompressor, b"nor is this"), Ok(Vec::new()));
        let zeros = compress(&[&[0; 100]]);
        assert!(feed(&mut Decompressor::new(ByteOrder::Little), &zeros[0]).is_err(), "a record of size 0");
    }

    #[test]
    fn a_small_input_does_not_become_a_huge_output() {
        let records = record(14, 0).repeat(4 << 20);
        let bomb = compress(&[&records]);
        assert!(bomb[0].len() < 1 << 16, "{}", bomb[0].len());
        let error = feed(&mut Decompressor::new(ByteOrder::Little), &bomb[0]).unwrap_err();
        assert!(error.contains("compressed ones"), "{error}");
    }
}
