//! README.md and the guide in `docs/`: every command runs as it stands and prints what the page shows.
//!
//! `UPDATE=1 cargo test --test it documents` rewrites what commands print, the pages of verbs, program texts
//! and the picture; the difference is then read like any other change. See `documents/page.rs` for the notation.
#![allow(clippy::unwrap_used, clippy::panic)]

mod links;
mod page;
mod screenshot;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use unspool_testing::{assert_document, repository};

use crate::run::unspool;
use page::Page;

/// The command that writes all of it again.
const HOW: &str = "cargo test --test it documents";

/// Lines of `sh` blocks: commands that this test does not run, each with the reason.
const NOT_RUN: [(&str, &str); 34] = [
    ("dask scheduler", "needs a cluster; `.ci/cluster` starts one of its own"),
    ("dask worker tcp://head:8786 --nworkers 32 --nthreads 1", "the same"),
    ("unspool view examples/hello-qemu", "serves until it is ended; `.ci/view` tests it"),
    ("unspool view examples/sum.tarmac examples/example.astf", "the same"),
    ("cargo run -- decode examples/hello-qemu", "`.ci/run` runs it from README.md"),
    ("cargo test", "`.ci/run` runs it from README.md; this test is a part of it"),
    ("cargo build --release -p unspool-capi", "`.ci/capi` runs it, and the following"),
    (
        "cc -o target/functions -I crates/capi/include crates/capi/examples/functions.c target/release/libunspool_c.a -lm",
        "needs it",
    ),
    ("target/functions examples/hello-qemu", "needs it"),
    ("cargo install --path crates/cli", "compiles the workspace once more"),
    ("cargo build --release", "compiles the workspace once more"),
    ("pip install crates/python", "compiles the workspace once more; `.ci/python` builds the same"),
    ("pip install 'crates/python[distributed]'", "compiles the workspace once more; `.ci/cluster` tests it"),
    ("unspool tables examples/hello-qemu -o hello.tables", "needs the feature `tables`; `.ci/tables` tests it"),
    (
        "unspool query examples/hello-qemu \"SELECT function, instructions FROM hot_functions LIMIT 3\"",
        "needs the feature `tables` and DuckDB; `.ci/tables` tests it",
    ),
    (
        "unspool query examples/hello-qemu \"SELECT * FROM steps WHERE function = 'say' LIMIT 10\" --json",
        "as the line before",
    ),
    ("unspool query examples/hello-qemu", "as the line before, and needs a terminal"),
    ("tools/package", "compiles the workspace once more; `.ci/run` runs it"),
    ("cargo run --release --features measure --example closed_loop -- TRACE...", "measures for minutes"),
    ("cargo run --release --features measure --example convert_speed -- TRACE...", "measures for minutes"),
    ("cargo run --release --features measure --example encode_speed -- TRACE", "measures for minutes"),
    ("cargo run --release --features measure --example record_speed -- PROGRAM", "measures for minutes"),
    ("cargo run --release --features measure --example generate -- random 100 random.astf", "writes a gigabyte"),
    ("cargo run --release --features measure --example generate -- random 100 random-capture", "encodes for a minute"),
    (
        "cargo run --release --features measure --example analysis_speed -- target/release/unspool TRACE...",
        "measures for minutes",
    ),
    ("UNSPOOL_CORPUS=FOLDER benches/run", "measures for minutes"),
    (
        "cargo run --release -p unspool-tables --features measure --example tables_speed -- TRACE OUT blocks",
        "measures for minutes",
    ),
    ("cargo run --release --features measure --example astf_speed", "measures for minutes"),
    ("cargo run --release --features measure --example stf_speed -- FILE", "measures for minutes"),
    ("cargo run --release --features measure --example tarmac_speed -- LOG", "measures for minutes"),
    (
        "unspool record --system -o boot.astf -- -M virt -cpu cortex-a72 -nodefaults -nographic -kernel image.elf",
        "needs a system to boot; `record_system` builds some and records them",
    ),
    (
        "unspool record --system -o linux.tarmac --events linux.events --from 0x400580 -- -M virt -smp 2 -kernel Image -initrd root",
        "needs a kernel; `record_linux` does the same",
    ),
    ("unspool encode linux.tarmac -o capture --events linux.events --context-ids --timestamps", "part of the same"),
    ("unspool decode capture --context-id tid", "part of the same"),
];

/// Options of other programs that the documents mention.
const FOREIGN: [&str; 9] = [
    "--path",
    "--release",
    "--features",
    "--example",
    "--enable-plugins",
    "--target-list",
    "--test",
    "--nthreads",
    "--nworkers",
];

/// The documents: README.md and all pages of the guide, from the root of the repository.
fn documents() -> Vec<String> {
    let mut paths = vec![String::from("README.md")];
    collect("docs", &mut paths);
    paths
}

fn collect(folder: &str, paths: &mut Vec<String>) {
    let entries = fs::read_dir(repository(folder)).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    for name in names {
        let path = format!("{folder}/{name}");
        if repository(&path).is_dir() {
            collect(&path, paths);
        } else if path.ends_with(".md") {
            paths.push(path);
        }
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(repository(path)).unwrap()
}

/// Compares the programs of a page with their files, and what its commands print with what it shows.
fn check(path: &str, text: &str) {
    let text = Page::parse(path, text).with_programs(read);
    assert_document(path, &Page::parse(path, &text).run(), HOW);
}

#[test]
fn the_commands_of_the_readme_print_what_it_shows() {
    check("README.md", &read("README.md"));
}

#[test]
fn the_commands_of_the_guide_print_what_it_shows() {
    // Other tests write README.md, the pages of verbs and the table of contents.
    let is_other = |path: &str| path.starts_with("docs/verbs/") || path == "docs/SUMMARY.md" || path == "README.md";
    documents().iter().filter(|path| !is_other(path)).for_each(|path| check(path, &read(path)));
}

/// Each verb has a page with its help; `UPDATE=1` adds missing ones.
#[test]
fn every_verb_has_a_page_with_its_help() {
    let verbs = verbs();
    assert!(verbs.len() > 15, "{verbs:?}");
    for verb in &verbs {
        let path = format!("docs/verbs/{verb}.md");
        let new = format!("# unspool {verb}\n\n```console\n$ unspool {verb} --help\n```\n");
        let text = fs::read_to_string(repository(&path)).unwrap_or(new);
        assert!(text.contains(&format!("$ unspool {verb} --help\n")), "{path} does not show the help");
        check(&path, &text);
    }
    let pages = documents().into_iter().filter(|path| path.starts_with("docs/verbs/"));
    let without_verb: Vec<_> =
        pages.filter(|path| !verbs.iter().any(|verb| path.ends_with(&format!("/{verb}.md")))).collect();
    assert!(without_verb.is_empty(), "pages of verbs that do not exist: {without_verb:?}");
    assert_document("docs/SUMMARY.md", &with_verbs(&read("docs/SUMMARY.md"), &verbs), HOW);
}

/// The verbs in the order of `unspool --help`.
fn verbs() -> Vec<String> {
    commands(&unspool(&["--help"]).clean().out)
}

/// The commands that a help lists.
fn commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Further lines of a description are indented more.
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    names.filter_map(|line| line.split(' ').next()).filter(|name| *name != "help").map(String::from).collect()
}

/// The table of contents with one line for each verb, where the lines of verbs are now.
fn with_verbs(summary: &str, verbs: &[String]) -> String {
    let is_verb = |line: &&str| line.contains("](verbs/");
    let before = summary.lines().take_while(|line| !is_verb(line));
    let after = summary.lines().skip_while(|line| !is_verb(line)).skip_while(is_verb);
    let lines = verbs.iter().map(|verb| format!("  - [{verb}](verbs/{verb}.md)"));
    let all = before.map(String::from).chain(lines).chain(after.map(String::from));
    all.map(|line| line + "\n").collect()
}

#[test]
fn commands_that_are_not_run_are_listed_with_a_reason() {
    let mut shown = BTreeSet::new();
    for path in documents() {
        let text = read(&path);
        let page = Page::parse(&path, &text);
        page.assert_no_command_outside_of_blocks();
        shown.extend(page.shell_lines().map(String::from));
    }
    let listed: BTreeSet<_> = NOT_RUN.iter().map(|(line, _)| String::from(*line)).collect();
    assert_eq!(shown, listed, "left: `sh` blocks of the documents; right: NOT_RUN");
}

/// A renamed option does not stay in the documents.
#[test]
fn every_option_in_the_documents_exists() {
    let mut known: BTreeSet<_> = FOREIGN.iter().map(|option| String::from(*option)).collect();
    known.extend(options(&unspool(&["--help"]).out));
    for verb in verbs() {
        let help = unspool(&[verb.as_str(), "--help"]).out;
        for kind in commands(&help) {
            known.extend(options(&unspool(&[verb.as_str(), &kind, "--help"]).out));
        }
        known.extend(options(&help));
    }
    // Decisions also mention what was not chosen.
    for path in documents().iter().filter(|path| !path.starts_with("docs/decisions/")) {
        let unknown: Vec<_> = options(&read(path)).difference(&known).cloned().collect();
        assert!(unknown.is_empty(), "{path}: no verb has {unknown:?}");
    }
}

/// The long options in a text.
fn options(text: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '-');
    let is_option = |word: &&str| {
        word.strip_prefix("--").is_some_and(|name| name.starts_with(|first: char| first.is_ascii_lowercase()))
    };
    words.filter(is_option).map(String::from).collect()
}

#[test]
fn the_readme_stays_short() {
    let lines = read("README.md").lines().count();
    assert!(lines < 250, "{lines} lines");
}

/// Programs in the documents are files that other tests compile and run.
#[test]
fn programs_are_examples_of_the_library() {
    let text = read("README.md");
    let files = Page::parse("README.md", &text).program_files();
    assert!(!files.is_empty(), "no program in README.md");
    assert!(files.iter().all(|file| file.starts_with("crates/unspool/examples/")), "{files:?}");
}

#[test]
fn links_lead_somewhere() {
    let broken: Vec<_> = documents().iter().flat_map(|path| links::broken(path, &read(path))).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_table_of_contents_has_every_page_once() {
    let summary = read("docs/SUMMARY.md");
    let listed: Vec<_> = links::targets(&summary).collect();
    let pages = documents();
    let pages = pages.iter().filter_map(|path| path.strip_prefix("docs/")).filter(|path| *path != "SUMMARY.md");
    for page in pages {
        assert_eq!(listed.iter().filter(|target| **target == page).count(), 1, "docs/SUMMARY.md: {page}");
    }
    assert!(Path::new(&repository("docs/book.toml")).is_file());
}
