//! Speed of reading STF records and instructions: `cargo run --release --features measure --example stf_speed FILE [WORD]`. With a word,
//! only the rows that contain it.
//!
//! The body of a plain file is repeated up to 100 MB, so that more than cold caches is measured. For a .zstf file, the
//! time to decompress its chunks is measured separately.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::io::{Cursor, Read};
use std::ops::ControlFlow;
use std::time::Instant;

use unspool_stf::lift::{Follower, Instruction};
use unspool_stf::read::{Gather, ReadError, ReadOptions, Reader, Storage};
use unspool_stf::record::Record;
use unspool_stf::stats::Stats;
use unspool_stf::write::{WriteOptions, Writer};

/// Number of measurements, of which the best counts.
const TIMES: usize = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("which file?")?;
    let file = std::fs::read(path)?;
    let plain = match Storage::of(&file) {
        Some(Storage::PLAIN) => repeated(&file)?,
        _ => unpacked(&file)?,
    };
    println!("{} bytes of records", plain.len());
    iterate("plain", plain.len(), || Ok(Reader::plain(&plain[..])))?;
    let packed = if file.starts_with(b"ZSTF") { file } else { written(&plain, Storage::Zstf, 1)? };
    best("zstd alone", plain.len(), || bare(&packed))?;
    for threads in [1, 2] {
        let options = ReadOptions { threads };
        iterate(&format!("zstf, {threads}"), plain.len(), || Reader::seekable(Cursor::new(packed.clone()), options))?;
        iterate(&format!("zstf as a pipe, {threads}"), plain.len(), || {
            Reader::new(Cursor::new(packed.clone()), options)
        })?;
    }
    for container in Storage::ALL {
        for threads in [1, 2] {
            let mut length = 0;
            best(&format!("write {container}, {threads}"), plain.len(), || {
                length = written(&plain, container, threads)?.len();
                Ok(0)
            })?;
            if length > 0 {
                println!("{length:>28} bytes");
            }
        }
    }
    Ok(())
}

/// Measures all iterations over a reader.
fn iterate<R: Read>(
    name: &str,
    length: usize,
    open: impl Fn() -> Result<Reader<R>, ReadError>,
) -> Result<(), Box<dyn Error>> {
    best(&format!("{name}: runs"), length, || {
        let mut reader = open()?;
        reader.each_run(|_, _| ControlFlow::Continue(()))?;
        Ok(reader.position().record)
    })?;
    best(&format!("{name}: records"), length, || {
        let (mut records, mut check) = (0, 0);
        open()?.each(|_, record| {
            records += 1;
            check ^= u64::from(record.descriptor());
            ControlFlow::Continue(())
        })?;
        std::hint::black_box(check);
        Ok(records)
    })?;
    best(&format!("{name}: instructions"), length, || {
        let (mut follower, mut check) = (Follower::default(), 0);
        open()?.each_instruction(&mut follower, |instruction| {
            check ^= instruction.pc ^ u64::from(instruction.opcode);
            ControlFlow::Continue(())
        })?;
        std::hint::black_box(check);
        Ok(follower.instructions)
    })?;
    best(&format!("{name}: gathered"), length, || {
        let (mut follower, mut check) = (Follower::default(), Check(0));
        open()?.gather(&mut follower, &mut check)?;
        std::hint::black_box(check.0);
        Ok(follower.instructions)
    })?;
    best(&format!("{name}: stats"), length, || {
        let (mut follower, mut stats) = (Follower::default(), Stats::default());
        open()?.gather(&mut follower, &mut stats)?;
        Ok(stats.mix.finish().total)
    })
}

/// The checksum of instructions, computed by several threads.
struct Check(u64);

impl Gather for Check {
    #[inline]
    fn push(&mut self, instruction: &Instruction<'_>) {
        self.0 ^= instruction.pc ^ u64::from(instruction.opcode);
    }

    fn part(&self) -> Self {
        Self(0)
    }

    fn append(&mut self, part: Self) {
        self.0 ^= part.0;
    }
}

/// Measures and prints the best time.
fn best(name: &str, length: usize, mut run: impl FnMut() -> Result<u64, Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(2).is_some_and(|word| !name.contains(&word)) {
        return Ok(());
    }
    let (mut min, mut count) = (f64::MAX, 0);
    for _ in 0..TIMES {
        let start = Instant::now();
        count = run()?;
        min = min.min(start.elapsed().as_secs_f64());
    }
    let (bytes, things) = (length as f64 / min / 1e9, count as f64 / min / 1e6);
    println!("{name:>28}: {:8.2} ms, {bytes:6.2} GB/s, {things:5.0} M/s", min * 1e3);
    Ok(())
}

/// The header once, the body repeatedly.
fn repeated(file: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut header = 0;
    Reader::plain(file).each(|position, record| match record {
        Record::EndHeader => {
            header = position.offset as usize + 1;
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })?;
    let (header, body) = file.split_at(header);
    let times = 100_000_000 / body.len().max(1) + 1;
    Ok([header, &body.repeat(times)].concat())
}

fn unpacked(file: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut plain = Vec::new();
    Reader::new(Cursor::new(file.to_vec()), ReadOptions::default())?.each_run(|_, run| {
        plain.extend_from_slice(run);
        ControlFlow::Continue(())
    })?;
    Ok(plain)
}

fn written(plain: &[u8], container: Storage, threads: usize) -> std::io::Result<Vec<u8>> {
    let options = WriteOptions { threads, ..WriteOptions::default() };
    let mut writer = Writer::seekable(Cursor::new(Vec::new()), container, options)?;
    writer.write(plain)?;
    Ok(writer.finish()?.into_inner())
}

/// Decompresses the chunks into the same memory.
fn bare(file: &[u8]) -> Result<u64, Box<dyn Error>> {
    let word = |at: usize| file[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word)) as usize;
    let end = word(12);
    let entries = |chunk: usize| (word(end + 8 + 24 * chunk), word(end + 24 + 24 * chunk));
    let (mut context, mut memory) = (zstd::zstd_safe::DCtx::create(), Vec::new());
    for chunk in 0..word(end) {
        let (offset, size) = entries(chunk);
        let next = if chunk + 1 < word(end) { entries(chunk + 1).0 } else { end };
        if memory.len() < size {
            memory.resize(size, 0);
        }
        let made = context.decompress(&mut memory[..size], &file[offset..next]);
        if made != Ok(size) {
            return Err("a chunk is damaged".into());
        }
    }
    Ok(0)
}
