//! Output on a terminal: color, the pager, progress. `script` of Debian's `bsdutils` provides the terminal.

use std::path::Path;
use std::process::Command;

use unspool_testing::tool;

use super::example;
use crate::run::{Folder, Run, UNSPOOL, log, text, unspool};

/// Two lines of a log that differ in an opcode.
const LOG: &str =
    "1 clk IT (1) 00001000 d2800060 A EL0t_n : MOV x0,#3\n2 clk IT (2) 00001004 d2800002 A EL0t_n : MOV x2,#0\n";

/// Runs a shell command on a terminal, without the user's settings. Standard error is on the terminal too.
fn on_terminal(command: &str, settings: &[(&str, &str)]) -> Option<Run> {
    let script = tool("script", "bsdutils")?;
    // Ctrl-C as in a terminal, wherever the tests run.
    let mut run = Command::new("env");
    run.arg("--default-signal=INT").arg(script).args(["-qec", command, "/dev/null"]);
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PAGER", "UNSPOOL_PAGER", "LESS", "CI"] {
        run.env_remove(name);
    }
    run.env("TERM", "xterm").envs(settings.iter().copied());
    let mut run = Run::from(run.output().unwrap());
    run.out = run.out.replace("\r\n", "\n");
    Some(run)
}

fn is_colored(text: &str) -> bool {
    text.contains("\x1b[")
}

/// The text without escape sequences for colors.
fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// Options, settings, and whether the output is colored or paged.
type Row<'r> = (&'r str, &'r [(&'r str, &'r str)], bool);

#[test]
fn color_is_for_terminals_or_on_demand() {
    let decode = format!("{UNSPOOL} decode -q {} --no-pager", text(&example()));
    let rows: &[Row<'_>] = &[
        ("", &[], true),
        ("", &[("NO_COLOR", "1")], false),
        ("", &[("CLICOLOR", "0")], false),
        ("--color never", &[], false),
        ("--color always", &[("NO_COLOR", "1")], true),
        ("--json", &[], false),
        ("--json --color always", &[], false),
        ("| cat", &[], false),
        ("--color always | cat", &[], true),
        ("| cat", &[("CLICOLOR_FORCE", "1")], true),
    ];
    for (options, settings, expected) in rows {
        let Some(run) = on_terminal(&format!("{decode} {options}"), settings) else { return };
        assert_eq!((is_colored(&run.out), run.code), (*expected, 0), "{options} {settings:?}: {}", run.out);
    }
}

#[test]
fn files_have_color_only_on_demand() {
    let folder = Folder::new();
    for (name, color, expected) in [("auto", "auto", false), ("always", "always", true)] {
        let path = folder.path(name);
        unspool(&["decode", "-q", text(&example()), "-o", text(&path), "--color", color]).expect(0, &[]);
        assert_eq!(is_colored(&std::fs::read_to_string(path).unwrap()), expected, "{color}");
    }
}

#[test]
fn color_adds_nothing_but_color() {
    let (folder, a) = log(LOG);
    let b = folder.file("b.tarmac", LOG.replace("d2800002", "d2800022"));
    let (capture, astf) = (example(), unspool_testing::example("example.astf"));
    let rows: &[&[&str]] = &[
        &["decode", text(&capture)],
        &["decode", text(&capture), "--emit", "ranges"],
        &["dump", text(&astf)],
        &["dump", text(&astf), "--hex"],
        &["dump", text(&a)],
        &["diff", text(&a), text(&b)],
        &["diff", text(&a), text(&a)],
    ];
    for row in rows {
        let [never, always] = ["never", "always"].map(|color| unspool(&[*row, &["--color", color]].concat()));
        assert_eq!(plain(&always.out), never.out, "{row:?}");
        assert!(is_colored(&always.out) && !is_colored(&never.out), "{row:?}: {}", always.out);
    }
    // The first trace is red and the second green, line by line.
    let diff = unspool(&["diff", text(&a), text(&b), "--color", "always"]).expect(1, &[]);
    assert!(diff.out.contains("\x1b[31m  A "), "{}", diff.out);
    assert!(diff.out.contains("\x1b[32m  B "), "{}", diff.out);
    assert!(diff.out.lines().all(|line| !is_colored(line) || line.ends_with("\x1b[0m")), "{:?}", diff.out);
}

/// A pager that marks its lines.
const MARKING: &str = "sed 's/^/paged: /'";

#[test]
fn a_terminal_gets_a_pager() {
    let decode = format!("{UNSPOOL} decode {} --color never", text(&example()));
    let rows: &[Row<'_>] = &[
        ("", &[("UNSPOOL_PAGER", MARKING)], true),
        ("", &[("PAGER", MARKING)], true),
        ("", &[("UNSPOOL_PAGER", MARKING), ("PAGER", "false")], true),
        ("", &[("UNSPOOL_PAGER", "cat"), ("PAGER", MARKING)], false),
        ("", &[("UNSPOOL_PAGER", ""), ("PAGER", MARKING)], false),
        ("--no-pager", &[("PAGER", MARKING)], false),
        ("| cat", &[("PAGER", MARKING)], false),
        ("", &[("TERM", "dumb")], false),
    ];
    for (options, settings, expected) in rows {
        let Some(run) = on_terminal(&format!("{decode} {options}"), settings) else { return };
        assert_eq!(run.out.contains("paged: # source 0x10"), *expected, "{options} {settings:?}: {}", run.out);
        assert!(run.out.contains("# source 0x10") && run.code == 0, "{options} {settings:?}: {}", run.out);
        // Another process writes at its own pace.
        if options.contains('|') {
            continue;
        }
        // Messages come after the pager has ended, not through it.
        let (listing, notes) = run.out.split_once("note:").unwrap_or_default();
        assert!(listing.contains("# source 0x12") && !notes.contains("paged:"), "{}", run.out);
    }
}

#[test]
fn less_is_the_default_with_the_options_of_git() {
    let folder = Folder::new();
    let less = folder.file("less", "#!/bin/sh\necho \"LESS=$LESS\"\ncat\n");
    let chmod = Command::new("chmod").args(["+x", text(&less)]).status().unwrap();
    assert!(chmod.success());
    let path = format!("{}:{}", folder.root().display(), std::env::var("PATH").unwrap_or_default());
    let decode = format!("{UNSPOOL} decode {}", text(&example()));
    let Some(run) = on_terminal(&decode, &[("PATH", &path)]) else { return };
    assert!(run.out.contains("LESS=FRX\n") && run.out.contains("\x1b["), "{}", run.out);
    let Some(run) = on_terminal(&decode, &[("PATH", &path), ("LESS", "S")]) else { return };
    assert!(run.out.contains("LESS=S\n"), "{}", run.out);
}

#[test]
fn a_pager_does_not_change_the_exit_code() {
    let (folder, a) = log(LOG);
    let b = folder.file("b.tarmac", LOG.replace("d2800002", "d2800022"));
    let diff = format!("{UNSPOOL} diff {} {}", text(&a), text(&b));
    let Some(run) = on_terminal(&diff, &[("PAGER", MARKING)]) else { return };
    assert_eq!((run.code, run.out.contains("paged: ")), (1, true), "{}", run.out);
    // One that fails after reading everything is no failure of the command.
    let Some(run) = on_terminal(&diff, &[("PAGER", "sh -c 'cat; exit 3'")]) else { return };
    assert_eq!(run.code, 1, "{}", run.out);
    // A command that fails before any output starts none.
    let Some(run) = on_terminal(&format!("{UNSPOOL} decode nowhere"), &[("PAGER", "echo started")]) else { return };
    assert_eq!((run.code, run.out.contains("started")), (2, false), "{}", run.out);
}

#[test]
fn leaving_the_pager_early_is_no_error() {
    let (_folder, path) = log(&LOG.repeat(20_000));
    let dump = format!("{UNSPOOL} dump {}", text(&path));
    let Some(run) = on_terminal(&dump, &[("PAGER", "head -n 1")]) else { return };
    assert_eq!((run.code, run.out.lines().count()), (0, 1), "{}", run.out);
    assert!(!run.out.contains("error"), "{}", run.out);
}

#[test]
fn without_the_pager_the_output_is_shown() {
    let decode = format!("{UNSPOOL} decode {} --color never", text(&example()));
    for (pager, message) in [("no-such-pager -x", "cannot start the pager"), ("less '", "unclosed quote")] {
        let Some(run) = on_terminal(&decode, &[("PAGER", pager)]) else { return };
        assert!(run.out.contains(message) && run.out.contains("# source 0x10") && run.code == 0, "{}", run.out);
    }
}

/// A command that reads a log from a pipe for more than a second.
fn slow_pipe(path: &Path, verb: &str) -> String {
    format!("(cat {0}; sleep 1.3; cat {0}; sleep 0.5; cat {0}) | {UNSPOOL} {verb} - > /dev/null", text(path))
}

#[test]
fn progress_of_a_pipe_is_a_count_and_a_rate() {
    let (_folder, path) = log(&LOG.repeat(50_000));
    let Some(run) = on_terminal(&slow_pipe(&path, "dump"), &[]) else { return };
    assert!(run.out.contains("iB/s") && !run.out.contains("left"), "{:?}", run.out);
    let Some(run) = on_terminal(&slow_pipe(&path, "dump -q"), &[]) else { return };
    assert_eq!(run.out, "");
    let Some(run) = on_terminal(&format!("{} 2> /dev/null", slow_pipe(&path, "dump")), &[]) else { return };
    assert_eq!(run.out, "");
}

/// A file of zeros that takes no space on disk, and longer to read than the test waits.
#[test]
fn progress_of_a_file_has_the_time_left() {
    let folder = Folder::new();
    let path = folder.path("zeros.bin");
    std::fs::File::create(&path).unwrap().set_len(64 << 30).unwrap();
    let bare = format!("{} --protocol ete --raw", text(&path));
    let out = folder.path("out.tarmac");
    let rows = [
        format!("packets {bare} > /dev/null"),
        format!("check {bare} > /dev/null"),
        // Nothing is printed before the end.
        format!("check {bare}"),
        format!("convert {bare} {}", text(&out)),
    ];
    for row in rows {
        let Some(run) = on_terminal(&format!("timeout 3 {UNSPOOL} {row}"), &[]) else { return };
        assert!(run.out.contains("iB/s") && run.out.contains("left"), "{row}: {:?}", run.out);
    }
}

/// Ctrl-C is for the pager: the command waits until that ends.
#[test]
fn an_interrupted_pager_keeps_the_terminal() {
    let (_folder, path) = log(&LOG.repeat(20_000));
    // The signal goes to all processes on the terminal, as that of the key does.
    let pager = "sh -c 'trap \"echo caught\" INT; head -n 1; kill -INT 0; sleep 0.3; echo waited'";
    let dump = format!("{UNSPOOL} dump {}; echo code $?", text(&path));
    let command = format!("trap : INT; {dump}");
    let Some(run) = on_terminal(&command, &[("PAGER", pager)]) else { return };
    let words = ["caught", "waited", "code 0"];
    let found: Vec<_> = words.iter().map(|word| run.out.find(word)).collect();
    assert!(found.iter().all(Option::is_some) && found.is_sorted(), "{:?}", run.out);
}

#[test]
fn verbose_adds_kinds_and_times() {
    let (_folder, path) = log(LOG);
    unspool(&["dump", "-v", text(&path)]).expect(0, &["run.tarmac: Tarmac log, dialect", "the command took 0."]);
    unspool(&["decode", "-v", text(&example())])
        .expect(0, &["hello-ete: snapshot, 2 sources in 1 buffer", "ETE_0: 0."]);
    assert!(!unspool(&["dump", text(&path)]).clean().err.contains("took"));
    unspool(&["dump", "-v", "-q", text(&path)]).expect(2, &["cannot be used with"]);
}
