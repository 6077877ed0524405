//! Speed of reading and writing ASTF files, compared with tools that only decompress.
//!
//! ```sh
//! cargo run --release -p unspool-astf --features measure --example astf_speed            # 256 MiB of records
//! cargo run --release -p unspool-astf --features measure --example astf_speed -- 1024    # this many MiB
//! cargo run --release -p unspool-astf --features measure --example astf_speed -- levels  # cost and ratio of each level
//! cargo run --release -p unspool-astf --features measure --example astf_speed -- flat    # memory over 8 GB, raw, .xz and zlib
//! ```
//!
//! Speeds are in bytes of records, not of the file: the best of five runs, and the average by processor time. `xz` and
//! `python3` (whose zlib is libz) are started as separate programs and read the same bytes from a file; without them
//! their lines are missing.

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use unspool_astf::Bytes;
use unspool_astf::read::{ReadOptions, Reader};
use unspool_astf::record::{Context, Header, Instruction, Level, Storage, View};
use unspool_astf::write::{WriteOptions, Writer};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let argument = std::env::args().nth(1);
    match argument.as_deref() {
        Some("flat") => flat(),
        Some("levels") => levels(),
        Some(mib) => speeds(mib.parse()?),
        None => speeds(256),
    }
}

fn print_row(what: &str, value: impl std::fmt::Display) {
    let _ = writeln!(io::stdout(), "{what:<44} {value}");
}

fn speeds(mib: usize) -> Outcome {
    let trace: Vec<Bytes> = Program::default().take(mib << 15).collect();
    let bytes = trace.as_flattened();
    let rate = |time: Time| {
        let [wall, cpu] = [time.wall, time.cpu].map(|seconds| bytes.len() as f64 / seconds / 1e9);
        format!("{wall:8.3} GB/s {cpu:8.3} GB per processor second")
    };

    let mut copy = vec![1; bytes.len()];
    let copying = time(|| {
        black_box(&mut copy).copy_from_slice(black_box(bytes));
        Ok(())
    });
    print_row("memcpy", rate(copying?));
    drop(copy);
    let touching = time(|| {
        black_box(touch(black_box(&trace)));
        Ok(())
    });
    print_row("every field of records in memory", rate(touching?));

    let raw = save("raw", Storage::Raw, &trace, WriteOptions::default())?;
    print_row("raw, batches only", rate(time(|| read(&raw, 1, |_| 0))?));
    print_row("raw, every field", rate(time(|| read(&raw, 1, touch))?));
    std::fs::remove_file(raw)?;

    for (storage, name) in [(Storage::Lzma, "xz"), (Storage::Zlib, "zlib")] {
        for threads in [1, 2] {
            let options = WriteOptions { threads, ..WriteOptions::default() };
            let write = time(|| save(name, storage, &trace, options).map(drop))?;
            print_row(&format!("{name}, written by {threads}"), rate(write));
        }
        let path = save(name, storage, &trace, WriteOptions::default())?;
        for threads in [1, 2] {
            print_row(&format!("{name}, read by {threads}, batches only"), rate(time(|| read(&path, threads, |_| 0))?));
            print_row(&format!("{name}, read by {threads}, every field"), rate(time(|| read(&path, threads, touch))?));
        }
        let body = without_header(&path)?;
        let tools: &[(&str, &[&str])] = match storage {
            Storage::Lzma => &[("xz -dc -T1", &["xz", "-dc", "-T1"]), ("xz -dc -T2", &["xz", "-dc", "-T2"])],
            _ => &[("libz (python3)", &["python3", "-c", LIBZ])],
        };
        for (tool, command) in tools {
            if let Ok(seconds) = time(|| run(command, &body)) {
                print_row(tool, rate(seconds));
            }
        }
        std::fs::remove_file(path)?;
        std::fs::remove_file(body)?;
    }
    Ok(())
}

/// Cost and ratio of each level, on 64 MiB and two threads.
fn levels() -> Outcome {
    let trace: Vec<Bytes> = Program::default().take(2 << 20).collect();
    let bytes = trace.as_flattened().len() as f64;
    for (storage, name, levels) in [(Storage::Lzma, "xz", [0, 1, 2, 3, 4]), (Storage::Zlib, "zlib", [1, 2, 3, 4, 6])] {
        for level in levels {
            for block_bytes in [1 << 20, 4 << 20, 16 << 20] {
                let options = WriteOptions { threads: 2, level, block_bytes, in_patterns: false };
                let before = processor_seconds()?;
                let path = save(name, storage, &trace, options)?;
                let write = bytes / 1e6 / (processor_seconds()? - before);
                let ratio = bytes / std::fs::metadata(&path)?.len() as f64;
                let read = bytes / 1e6 / time(|| read(&path, 1, |_| 0))?.wall;
                let line = format!("ratio {ratio:5.1}, {write:5.0} MB per processor second, read at {read:5.0} MB/s");
                print_row(&format!("{name} level {level}, blocks of {} MiB", block_bytes >> 20), line);
                std::fs::remove_file(path)?;
            }
        }
    }
    Ok(())
}

/// libz through Python. Its input comes in small chunks, so that its output stays in the cache as ours does.
const LIBZ: &str = "
import sys, zlib
stream, source = zlib.decompressobj(), sys.stdin.buffer
while chunk := source.read(1 << 14):
    stream.decompress(chunk)
";

/// Duration of an action.
struct Time {
    /// Minimum of all runs.
    wall: f64,
    /// The average of all runs, over all threads and awaited programs; a busy machine does not change it.
    cpu: f64,
}

fn time(mut action: impl FnMut() -> Outcome) -> Outcome<Time> {
    let mut wall = f64::INFINITY;
    let before = processor_seconds()?;
    for _ in 0..RUNS {
        let start = Instant::now();
        action()?;
        wall = wall.min(start.elapsed().as_secs_f64());
    }
    Ok(Time { wall, cpu: (processor_seconds()? - before) / f64::from(RUNS) })
}

const RUNS: u32 = 5;

/// Processor time of this process and its children; the kernel counts in hundredths of a second.
fn processor_seconds() -> Outcome<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // Fields are counted after the program name, which may contain anything.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    Ok(fields.skip(11).take(4).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0)
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("astf-speed-{}.{name}", std::process::id()))
}

fn save(name: &str, storage: Storage, trace: &[Bytes], options: WriteOptions) -> Outcome<PathBuf> {
    let path = scratch(name);
    let mut writer = Writer::new(File::create(&path)?, &Header::new(Level::Basic, false, storage), options)?;
    writer.write(trace)?;
    writer.finish()?;
    Ok(path)
}

/// The compressed records alone, for tools that know nothing of the header.
fn without_header(path: &Path) -> Outcome<PathBuf> {
    let body = scratch("body");
    std::fs::write(&body, std::fs::read(path)?.get(32..).unwrap_or(&[]))?;
    Ok(body)
}

fn read(path: &Path, threads: usize, mut each: impl FnMut(&[Bytes]) -> u64) -> Outcome {
    let mut reader = Reader::new(File::open(path)?, ReadOptions { threads, ahead: true })?;
    let mut sum = 0;
    loop {
        let batch = reader.next_records()?;
        if batch.is_empty() {
            black_box(sum);
            return Ok(());
        }
        sum ^= each(batch);
    }
}

fn run(command: &[&str], input: &Path) -> Outcome {
    let [program, arguments @ ..] = command else { return Ok(()) };
    let mut command = Command::new(program);
    let status = command.args(arguments).stdin(File::open(input)?).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{program}: {status}").into()) }
}

/// All fields of all records, by their getters.
fn touch(records: &[Bytes]) -> u64 {
    records.iter().fold(0, |sum, record| sum ^ fields(View::new(record)))
}

macro_rules! sum {
    ($view:ident: $($field:ident)*) => { 0 $(^ u64::from($view.$field()))* };
}

#[inline(always)]
fn fields(view: View<'_>) -> u64 {
    match view {
        View::Instruction(view) => sum!(view: xattr_mode reserved6 reserved1 ea_tagged trap is_branch is_read is_write
            ea_valid extra_eas ea_size iword pc ea xattr),
        View::ExtraEa(view) => {
            sum!(view: mem0_reserved8 mem0_reserved5 mem0_tagged mem0_is_read mem0_is_write mem0_size
            mem0_reserved32 mem0_addr mem1_valid extra_eas mem1_addr_range reserved5 mem1_reserved8 mem1_reserved5
            mem1_tagged mem1_is_read mem1_is_write mem1_size mem1_reserved32 mem1_addr)
        }
        View::Trap(view) => sum!(view: reserved8 trap_type reserved1a syscall_type reserved2 is_virtual reserved1b ec
            syscall_index reserved16 target_pc reserved128_low reserved128_high),
        View::Context(view) => sum!(view: pstate_sm pstate_dit pstate_ssbs reserved5a reserved16 evl reserved12
            unsupported mte_tcf reserved5b el reserved2 secure handler pid_valid tid_valid pid tid reserved64),
        View::Header(view) => {
            u64::from(view.magic()[0])
                ^ sum!(view: version_major version_minor reserved16 compressed
            use_zlib reserved62 reginfo meminfo addrinfo_d addrinfo_i pseudo single_el timestamps reserved57 reserved64)
        }
        View::StringStart(view) => sum!(view: reserved8 size) ^ bytes(&view.string()),
        View::StringContinuation(view) => bytes(&view.string()),
        View::Timestamp(view) => sum!(view: unit reserved16 reserved32 value value1 reserved64),
        View::Unknown(bytes) => u64::from(bytes[0]),
    }
}

fn bytes(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| sum ^ u64::from(*byte))
}

/// A program that never ends: functions of a few hundred instructions with loops, loads and stores that step through
/// arrays, a stack, and pointers that jump.
#[derive(Default)]
struct Program {
    random: u64,
    step: u64,
    function: u64,
    at: u64,
}

impl Program {
    /// A number that depends on nothing but its argument: the same code has the same opcode.
    fn mix(value: u64) -> u64 {
        let value = (value ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (value ^ value >> 29).wrapping_mul(0x94d0_49bb_1331_11eb) ^ value >> 32
    }

    fn access(&mut self, position: u64, code: u64) -> u64 {
        match code >> 8 & 3 {
            // Through an array, again and again.
            0 | 1 => 0xffff_8000_0000 + (position << 24) + (self.step >> 3 << 3) % (1 << 20),
            // On the stack.
            2 => 0x7fff_ffff_e000 - (self.function & 0xf) * 96 + (code >> 12 & 0xf) * 8,
            // Anywhere.
            _ => {
                self.random = Self::mix(self.random ^ self.step);
                0x5555_0000_0000 + (self.random & 0xff_fff8)
            }
        }
    }
}

impl Iterator for Program {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        self.step += 1;
        if self.step == 1 {
            return Some(Context { pid_valid: true, pid: 4711, ..Context::default() }.to_bytes());
        }
        let pc = 0x40_0000 + self.function * 0x400 + self.at * 4;
        let code = Self::mix(pc);
        let mut instruction = Instruction { pc, iword: code as u32, ..Instruction::default() };
        match code % 8 {
            0..=2 => {
                instruction.ea = self.access(pc >> 2 & 0xff, code);
                instruction.ea_valid = true;
                instruction.ea_size = if code & 0x800 == 0 { 7 } else { 3 };
                (instruction.is_read, instruction.is_write) = (!code.is_multiple_of(8), code.is_multiple_of(8));
                self.at += 1;
            }
            3 if code & 0x700 == 0 => {
                // The end of a loop of up to 32 instructions, which runs about sixteen times.
                instruction.is_branch = true;
                instruction.ea_valid = Self::mix(self.step) & 15 != 0;
                let back = self.at.min(code >> 24 & 31);
                instruction.ea = if instruction.ea_valid { pc - back * 4 } else { 0 };
                self.at = if instruction.ea_valid { self.at - back } else { self.at + 1 };
            }
            _ => self.at += 1,
        }
        if self.at >= 256 {
            self.at = 0;
            self.function = Self::mix(self.step) % 1024;
            (instruction.is_branch, instruction.ea_valid, instruction.is_read, instruction.is_write) =
                (true, true, false, false);
            (instruction.ea, instruction.ea_size) = (0x40_0000 + self.function * 0x400, 0);
        }
        Some(instruction.to_bytes())
    }
}

/// 8 GB of records through every storage, by a pipe between two threads: and the memory it takes.
fn flat() -> Outcome {
    let records = (8_u64 << 30) / 32;
    print_row("memory at the start", memory()?);
    for storage in [Storage::Raw, Storage::Zlib, Storage::Lzma] {
        let (input, output) = io::pipe()?;
        let write = move || -> io::Result<()> {
            let header = Header::new(Level::Basic, false, storage);
            let mut writer = Writer::new(output, &header, WriteOptions::default())?;
            let chunk: Vec<Bytes> = Program::default().take(1 << 18).collect();
            for _ in 0..records / chunk.len() as u64 {
                writer.write(&chunk)?;
            }
            writer.finish().map(drop)
        };
        let start = Instant::now();
        let writer = std::thread::spawn(write);
        let count = count(input)?;
        writer.join().map_err(|_| "the writer has failed")??;
        let seconds = start.elapsed().as_secs_f64();
        print_row(&format!("{storage:?}: {count} records in {seconds:.1} s, at most"), memory()?);
    }
    Ok(())
}

fn count(input: impl Read + Send + 'static) -> Outcome<u64> {
    let mut reader = Reader::new(input, ReadOptions::default())?;
    let mut count = 0;
    loop {
        match reader.next_records()?.len() as u64 {
            0 => return Ok(count),
            some => count += some,
        }
    }
}

/// Peak memory of this process.
fn memory() -> Outcome<String> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM")).ok_or("no VmHWM")?;
    Ok(line.split_whitespace().skip(1).collect::<Vec<_>>().join(" "))
}
