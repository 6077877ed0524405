//! The command line as its users meet it: words in; text, JSON lines and an exit code out.
//!
//! Most of it runs on `examples/hello-ete`, whose program and packets are in `crates/unspool/tests/hello.rs`.
#![allow(clippy::unwrap_used, clippy::panic)]

mod astf;
mod bad_input;
mod calls;
mod check;
mod convert;
mod damage;
mod decode;
mod diff;
mod elf;
mod encode;
mod pipe;
mod program;
mod slice;
mod state;
mod stats;
mod stf;
mod tarmac;
mod verbs;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// What a run of `unspool` came to.
#[derive(Debug)]
struct Run {
    code: i32,
    out: String,
    err: String,
    /// The most memory that it had at a time, in bytes, as far as the system tells.
    peak: Option<u64>,
}

/// Longer than any run here may take, even on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(120);

fn unspool<A: AsRef<OsStr>>(args: &[A]) -> Run {
    unspool_with(args, b"")
}

/// Runs `unspool` with this on its standard input. A run that panics, hangs or is killed fails the test.
fn unspool_with<A: AsRef<OsStr>>(args: &[A], input: &[u8]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unspool"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut stdin, stdout, stderr) =
        (child.stdin.take().unwrap(), child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let reads = [thread::spawn(move || text_of(stdout)), thread::spawn(move || text_of(stderr))];
    // Who does not want the input closes it; that is not ours to judge.
    let _ = stdin.write_all(input);
    drop(stdin);
    let (code, peak) = wait(&mut child);
    let [out, err] = reads.map(|read| read.join().unwrap());
    assert!(!err.contains("panicked"), "{err}");
    Run { code, out, err, peak }
}

fn text_of(mut pipe: impl Read) -> String {
    let mut text = Vec::new();
    pipe.read_to_end(&mut text).unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

/// The exit code, and the peak of the memory on the way.
fn wait(child: &mut Child) -> (i32, Option<u64>) {
    let start = Instant::now();
    let mut peak = None;
    loop {
        peak = peak.max(peak_memory(child.id()));
        if let Some(status) = child.try_wait().unwrap() {
            let code = status.code().unwrap_or_else(|| panic!("ended by {status}"));
            return (code, peak);
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("still running after {PATIENCE:?}");
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// The high-water mark of a process, where the system has one to read.
fn peak_memory(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

impl Run {
    /// Fails the test unless the run ended with this code and, on the error stream, each of these words.
    #[track_caller]
    fn expect(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in {self:#?}");
        }
        self
    }

    /// A run without anything to complain about.
    #[track_caller]
    fn clean(self) -> Self {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self
    }

    /// The lines of a listing without their offsets, headings left out.
    fn items(&self) -> Vec<&str> {
        let lines = self.out.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split_once("  ").unwrap_or_else(|| panic!("no offset: {line}")).1).collect()
    }

    /// The output as JSON, one value a line.
    fn json(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.out.lines().map(parse).collect()
    }
}

/// The capture that comes with unspool.
fn example() -> PathBuf {
    unspool_testing::example("hello-ete")
}

fn example_file(name: &str) -> Vec<u8> {
    fs::read(example().join(name)).unwrap()
}

/// The files of the example by name.
fn example_files() -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(example()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort_unstable();
    names.into_iter().map(|name| (name.clone(), example_file(&name))).collect()
}

/// A copy of the example, to be spoilt.
fn example_copy() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    example_files().iter().for_each(|(name, bytes)| fs::write(dir.path().join(name), bytes).unwrap());
    dir
}

/// Files as a zip archive.
fn write_zip(path: &Path, files: &[(String, Vec<u8>)]) {
    let mut zip = zip::ZipWriter::new(File::create(path).unwrap());
    for (name, bytes) in files {
        zip.start_file(name.as_str(), zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
