//! Runs of `unspool`, their results, and temporary files for them.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::schema;

pub(crate) const UNSPOOL: &str = env!("CARGO_BIN_EXE_unspool");

/// Result of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
    /// Peak memory in bytes, where the system reports it.
    pub(crate) peak: Option<u64>,
}

/// The tool. `UNSPOOL_BINARY` names another build of it, or a script that runs one: `.ci/other-systems` does.
pub(crate) fn command() -> Command {
    Command::new(std::env::var_os("UNSPOOL_BINARY").unwrap_or_else(|| UNSPOOL.into()))
}

/// The tool with the signals of a terminal: a shell that runs the tests in the background ignores Ctrl-C, and so would the tool.
#[cfg(unix)]
pub(crate) fn with_signals() -> Command {
    let tool = command();
    if !cfg!(target_os = "linux") {
        return tool;
    }
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,TERM,HUP").arg(tool.get_program());
    command
}

/// Longer than any run may take, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) fn unspool<A: AsRef<OsStr>>(args: &[A]) -> Run {
    unspool_with(args, b"")
}

/// Runs `unspool` with this standard input. A run that panics, hangs or is killed fails the test.
pub(crate) fn unspool_with<A: AsRef<OsStr>>(args: &[A], input: &[u8]) -> Run {
    let mut command = command();
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut stdin, stdout, stderr) =
        (child.stdin.take().unwrap(), child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let reads = [thread::spawn(move || text_of(stdout)), thread::spawn(move || text_of(stderr))];
    // A run that does not need its input closes it.
    let _ = stdin.write_all(input);
    drop(stdin);
    let (code, peak) = wait(&mut child);
    let [out, err] = reads.map(|read| read.join().unwrap());
    assert!(!err.contains("panicked"), "{err}");
    let is_other = std::env::var_os("UNSPOOL_BINARY").is_some();
    Run { code, out, err: if is_other { as_here(&err) } else { err }, peak }
}

/// Messages of the tool for another system: Windows separates the parts of a path by backslashes, and wine has messages of
/// its own.
fn as_here(messages: &str) -> String {
    let lines = messages.lines().filter(|line| !line.starts_with("wine client error"));
    lines.map(|line| line.replace('\\', "/") + "\n").collect()
}

/// Runs a verb on a file. Conversions replace what an earlier one wrote.
pub(crate) fn on(verb: &str, path: &Path, options: &[&str]) -> Run {
    let force: &[&str] = if verb == "convert" { &["--force"] } else { &[] };
    unspool(&[&[verb, text(path)], options, force].concat())
}

pub(crate) fn text_of(mut pipe: impl Read) -> String {
    let mut text = Vec::new();
    pipe.read_to_end(&mut text).unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

/// Sends a signal, such as `-INT`, to a process; to a process group if the number is negative.
pub(crate) fn send_signal(signal: &str, target: i32) {
    use rustix::process::{Pid, Signal, kill_process, kill_process_group};
    let signal = match signal {
        "-INT" => Signal::INT,
        "-TERM" => Signal::TERM,
        "-HUP" => Signal::HUP,
        "-KILL" => Signal::KILL,
        other => panic!("{other} is no signal of these tests"),
    };
    let pid = Pid::from_raw(target.abs()).unwrap();
    if target < 0 { kill_process_group(pid, signal) } else { kill_process(pid, signal) }.unwrap();
}

/// Exit code and peak memory.
pub(crate) fn wait(child: &mut Child) -> (i32, Option<u64>) {
    let start = Instant::now();
    let mut peak = None;
    loop {
        peak = peak.max(peak_memory(child.id()));
        if let Some(status) = child.try_wait().unwrap() {
            let code = status.code().unwrap_or_else(|| panic!("ended by {status}"));
            return (code, peak);
        }
        if start.elapsed() > TIMEOUT {
            child.kill().unwrap();
            panic!("still running after {TIMEOUT:?}");
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// High-water mark of a process, where the system reports it.
fn peak_memory(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// Runs `unspool` until `read` has seen enough of its output; then its pipe is closed. Returns exit code and messages.
pub(crate) fn read_part<A: AsRef<OsStr>>(args: &[A], read: impl FnOnce(&mut dyn BufRead)) -> (i32, String) {
    let mut command = command();
    let mut child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    read(&mut stdout);
    drop(stdout);
    (wait(&mut child).0, text_of(child.stderr.take().unwrap()))
}

/// Closes the pipe of each verb early; `dump` has printed its first line then. That is not an error.
#[track_caller]
pub(crate) fn assert_readers_may_leave(path: &Path, rows: &[&[&str]]) {
    for row in rows {
        let args = [&[row[0], text(path)], &row[1..]].concat();
        let left = read_part(&args, |out| {
            if row[0] == "dump" {
                out.read_line(&mut String::new()).unwrap();
            }
        });
        assert_eq!(left, (0, String::new()), "{row:?}");
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Self { code: output.status.code().unwrap_or(-1), out, err, peak: None }
    }
}

impl Run {
    /// Asserts the exit code, and that standard error contains each of these texts.
    #[track_caller]
    pub(crate) fn expect(self, code: i32, messages: &[&str]) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        for message in messages {
            assert!(self.err.contains(message), "no {message:?} in {self:#?}");
        }
        self
    }

    /// Asserts that standard output contains each of these texts.
    #[track_caller]
    pub(crate) fn shows(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.out.contains(text), "no {text:?} in {self:#?}");
        }
        self
    }

    /// Asserts success without any message but notes.
    #[track_caller]
    pub(crate) fn clean(self) -> Self {
        let problems: Vec<&str> = self.err.lines().filter(|line| !line.starts_with("note: ")).collect();
        assert_eq!((self.code, &problems[..]), (0, &[][..]), "{}", self.out);
        self
    }

    /// Lines of a listing without offsets and headings.
    pub(crate) fn items(&self) -> Vec<&str> {
        let lines = self.out.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split_once("  ").unwrap_or_else(|| panic!("no offset: {line}")).1).collect()
    }

    /// JSON lines of standard output without the summary. All lines are as the schema describes them.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<Value> {
        let mut lines = json_lines(&self.out);
        if let Some(verb) = schema::verb_of(&lines) {
            lines.iter().for_each(|line| schema::check(verb, line));
            lines.pop();
        }
        lines
    }

    /// The summary, which is the last JSON line of standard output.
    #[track_caller]
    pub(crate) fn json_summary(&self) -> Value {
        let mut lines = json_lines(&self.out);
        let verb = schema::verb_of(&lines).unwrap_or_else(|| panic!("no summary in {self:#?}"));
        lines.iter().for_each(|line| schema::check(verb, line));
        let summary = lines.pop().unwrap_or_default();
        assert_eq!(summary["clean"], self.code == 0, "{self:#?}");
        summary
    }

    /// JSON lines of standard error.
    pub(crate) fn json_messages(&self) -> Vec<Value> {
        json_lines(&self.err)
    }
}

fn json_lines(text: &str) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(parse).collect()
}

/// Asserts that an object has these fields, among others.
#[track_caller]
pub(crate) fn assert_fields(object: &Value, expected: &Value) {
    let found = expected.as_object().unwrap().keys().map(|key| (key.clone(), object[key].clone())).collect();
    assert_eq!(&Value::Object(found), expected, "{object}");
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Temporary directory.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn root(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Sorted names of the files.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    /// Asserts that no temporary file is left.
    #[track_caller]
    pub(crate) fn assert_no_partial_file(&self) {
        assert!(!self.names().iter().any(|name| name.contains(".part")), "{:?}", self.names());
    }
}

/// A Tarmac log in a folder.
pub(crate) fn log(text: &str) -> (Folder, PathBuf) {
    let folder = Folder::new();
    let path = folder.file("run.tarmac", text);
    (folder, path)
}

pub(crate) fn gzip(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    encoder.write_all(bytes.as_ref()).unwrap();
    encoder.finish().unwrap()
}
