//! A page of Markdown, its fenced blocks, and the commands in them.
//!
//! In a `console` block a line that starts with `$ ` is a command for `sh`, continued on the next line after `\`; the lines
//! up to the next command are what it prints, on both streams. All commands of a page run one after another in one temporary
//! folder that has a copy of `examples/`. A command that fails is followed by `$ echo $?`. `[..]` in a printed line
//! matches any text, such as a time.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use unspool_testing::{repository, tool};

use crate::run::{Folder, UNSPOOL};

/// Text that differs from run to run.
const ANY: &str = "[..]";

/// Commands that run something else after ` -- `, what they need for it, and the Debian package that has it.
const NEEDS: [(&str, &str, &str); 2] = [
    ("unspool record --system", "qemu-system-aarch64", "qemu-system-arm"),
    ("unspool record", "qemu-aarch64", "qemu-user"),
];

const FENCE: &str = "```";

/// A page of Markdown.
pub(super) struct Page<'a> {
    path: &'a str,
    lines: Vec<&'a str>,
    blocks: Vec<Block<'a>>,
}

/// A fenced block: lines from `start` up to `end`, without its fences.
struct Block<'a> {
    language: &'a str,
    start: usize,
    end: usize,
}

impl<'a> Page<'a> {
    pub(super) fn parse(path: &'a str, text: &'a str) -> Self {
        let lines: Vec<_> = text.lines().collect();
        let is_fence = |line: &&str| line.trim_start().starts_with(FENCE);
        let fences: Vec<_> = (0..lines.len()).filter(|index| is_fence(&lines[*index])).collect();
        assert!(fences.len().is_multiple_of(2), "{path}: a block has no end");
        let block =
            |pair: &[usize]| Block { language: &lines[pair[0]][FENCE.len()..], start: pair[0] + 1, end: pair[1] };
        let indented = fences.iter().find(|index| !lines[**index].starts_with(FENCE));
        assert_eq!(indented, None, "{path}: this fence is indented (line counted from 0)");
        Self { path, blocks: fences.chunks(2).map(block).collect(), lines }
    }

    fn text(&self, block: &Block<'_>) -> &[&'a str] {
        &self.lines[block.start..block.end]
    }

    fn blocks(&self, language: &'static str) -> impl Iterator<Item = &Block<'a>> {
        self.blocks.iter().filter(move |block| block.language == language)
    }

    /// Lines of `sh` blocks.
    pub(super) fn shell_lines(&self) -> impl Iterator<Item = &'a str> {
        let lines = self.blocks("sh").flat_map(|block| self.text(block));
        lines.copied().filter(|line| !line.is_empty() && !line.starts_with('#'))
    }

    /// Commands are in `console` and `sh` blocks only.
    #[track_caller]
    pub(super) fn assert_no_command_outside_of_blocks(&self) {
        for block in self.blocks.iter().filter(|block| !["console", "sh"].contains(&block.language)) {
            let is_command = |line: &&&str| ["$ ", "unspool ", "cargo "].iter().any(|start| line.starts_with(start));
            let found = self.text(block).iter().find(is_command);
            assert_eq!(found, None, "{}: a command in a block that is not run", self.path);
        }
    }

    /// Files whose text is on the page.
    pub(super) fn program_files(&self) -> Vec<&'a str> {
        self.programs().map(|(_, file)| file).collect()
    }

    /// Program texts: the block, and the file that the comment before it names.
    fn programs(&self) -> impl Iterator<Item = (&Block<'a>, &'a str)> {
        self.blocks.iter().filter(|block| ["rust", "c"].contains(&block.language)).map(|block| {
            let comment = block.start.checked_sub(2).and_then(|index| self.lines[index].strip_prefix("<!-- "));
            let file = comment.and_then(|rest| rest.strip_suffix(" -->"));
            (block, file.unwrap_or_else(|| panic!("{}: no '<!-- FILE -->' before a program", self.path)))
        })
    }

    /// The page with the present text of its programs.
    pub(super) fn with_programs(&self, read: impl Fn(&str) -> String) -> String {
        let mut page = Rewritten::default();
        for (block, file) in self.programs() {
            page.keep(&self.lines, block.start);
            page.text.push_str(&read(file));
            page.done = block.end;
        }
        page.keep(&self.lines, self.lines.len());
        page.text
    }

    /// The page with what its commands print now.
    pub(super) fn run(&self) -> String {
        let mut page = Rewritten::default();
        let folder = Folder::new();
        copy(&repository("examples"), &folder.path("examples"));
        for block in self.blocks("console") {
            if !self.run_block(block, &folder, &mut page) {
                break;
            }
        }
        page.keep(&self.lines, self.lines.len());
        page.text
    }

    /// Runs a block; `false`: a command needs a program that is not installed.
    fn run_block(&self, block: &Block<'_>, folder: &Folder, page: &mut Rewritten) -> bool {
        let mut status = 0;
        let mut next = block.start;
        while next < block.end {
            let (command, output) = self.command(block, next);
            if !can_run(&command) {
                return false;
            }
            page.keep(&self.lines, output.start);
            let expected = &self.lines[output.clone()];
            let failed = status != 0;
            let (printed, code) = shell(&command, status, folder.root());
            assert!(!failed || command == "echo $?", "{}: '$ echo $?' must follow a failure, not {command}", self.path);
            printed.lines().for_each(|line| page.push(as_expected(line.trim_end(), expected)));
            page.done = output.end;
            (status, next) = (code, output.end);
        }
        assert_eq!(status, 0, "{}: the last command of a block failed, without '$ echo $?'", self.path);
        true
    }

    /// The command that starts at a line, and the lines that it prints.
    fn command(&self, block: &Block<'_>, start: usize) -> (String, std::ops::Range<usize>) {
        let first = self.lines[start].strip_prefix("$ ");
        let first = first.unwrap_or_else(|| panic!("{}: no '$ ' at the start of a block", self.path));
        assert!(!first.starts_with("cd "), "{}: each command runs in a shell of its own", self.path);
        let (mut command, mut end) = (String::from(first), start + 1);
        while command.ends_with('\\') && end < block.end {
            command = format!("{command}\n{}", self.lines[end]);
            end += 1;
        }
        let output = self.lines[end..block.end].iter().take_while(|line| !line.starts_with("$ ")).count();
        (command, end..end + output)
    }
}

/// A page that is being written again.
#[derive(Default)]
struct Rewritten {
    text: String,
    /// Lines of the old page that were used.
    done: usize,
}

impl Rewritten {
    /// Copies the old lines up to this one.
    fn keep(&mut self, lines: &[&str], end: usize) {
        lines[self.done..end].iter().for_each(|line| self.push(line));
        self.done = end;
    }

    fn push(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

/// Whether the programs that a command needs are installed.
fn can_run(command: &str) -> bool {
    let is_match = |start: &str| command.starts_with(start) && command.contains(" -- ");
    let Some((_, program, package)) = NEEDS.iter().find(|(start, ..)| is_match(start)) else {
        return true;
    };
    tool(program, package).is_some()
}

/// What a command prints on both streams, and its exit code.
fn shell(command: &str, status: i32, folder: &Path) -> (String, i32) {
    let mut paths = vec![Path::new(UNSPOOL).parent().unwrap().to_path_buf()];
    paths.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("exec 2>&1\n(exit {status})\n{command}"));
    shell.current_dir(folder).stdin(Stdio::null()).env("PATH", std::env::join_paths(paths).unwrap());
    shell.env("XDG_CACHE_HOME", folder.join(".cache")).env("QEMU_RAND_SEED", "1").env_remove("COLUMNS");
    let output = shell.output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(!printed.contains("panicked"), "{command}: {printed}");
    (printed, output.status.code().unwrap())
}

/// The line of the page that stands for this one, or the line itself.
///
/// # Panics
///
/// If the line has a speed, which differs from run to run, and the page has no placeholder for it.
fn as_expected<'a>(line: &'a str, expected: &[&'a str]) -> &'a str {
    let matching = expected.iter().find(|expected| expected.contains(ANY) && matches(expected, line));
    assert!(matching.is_some() || !line.contains("B/s)"), "write {ANY} for the time and speed of: {line}");
    matching.copied().unwrap_or(line)
}

/// Whether a line has the fixed parts of a pattern, in order.
fn matches(pattern: &str, line: &str) -> bool {
    let Some((start, rest)) = pattern.split_once(ANY) else {
        return pattern == line;
    };
    let Some(line) = line.strip_prefix(start) else {
        return false;
    };
    (0..=line.len()).filter(|end| line.is_char_boundary(*end)).any(|end| matches(rest, &line[end..]))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_changed_output_is_found_and_rewritten() {
    let page = "Text.\n\n```console\n$ echo a \\\n  b\na c\n$ echo 3 s\n[..] s\n$ false\n$ echo $?\n0\n```\nEnd.\n";
    let expected = "Text.\n\n```console\n$ echo a \\\n  b\na b\n$ echo 3 s\n[..] s\n$ false\n$ echo $?\n1\n```\nEnd.\n";
    assert_eq!(Page::parse("a page", page).run(), expected);
    assert_eq!(Page::parse("a page", expected).run(), expected);
}

#[test]
#[should_panic(expected = "must follow a failure")]
fn a_failure_is_not_overlooked() {
    Page::parse("a page", "```console\n$ false\n$ true\n```\n").run();
}

#[test]
#[should_panic(expected = "write [..] for the time")]
fn a_speed_needs_a_placeholder() {
    as_expected("in 0.02 s (1 MB/s)", &["in 0.02 s (1 MB/s)"]);
}

#[test]
fn placeholders_match_any_text() {
    assert!(matches("in [..] s ([..] MB/s)", "in 0.02 s (1 MB/s)"));
    assert!(matches("[..]", ""));
    assert!(!matches("in [..] s", "in 0.02 ms"));
}
