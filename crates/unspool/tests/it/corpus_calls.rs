//! Call trees, profiles and folded stacks of the Tarmac logs of the corpus, compared with those of another tool.
//!
//! The other tool lists only calls whose beginning and end are in the log, so only these are compared. It names only
//! functions that start at a symbol.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::Path;

use unspool::Program;
use unspool::analyze::calls::{Call, CallSink, Site};
use unspool::analyze::folded::Folded;
use unspool::analyze::profile::Profiles;
use unspool::analyze::tree::Forest;
use unspool::capture::Code;
use unspool::file::{End, FileOptions, TarmacFile};
use unspool_testing::corpus;

/// Call tree and profile of a log with one core.
struct Calls {
    tree: Forest<Cursor<Vec<u8>>>,
    profiles: Profiles,
}

fn read_calls(path: &Path) -> Calls {
    let mut calls = Calls { tree: Forest::new(Cursor::default()), profiles: Profiles::new(true) };
    read(path, &mut calls.tree);
    read(path, &mut calls.profiles);
    calls
}

fn read(path: &Path, sink: &mut impl CallSink) {
    let mut log = TarmacFile::open(path, &FileOptions::default()).unwrap();
    let (calls, end) = log.calls(&mut |_, _| {}, sink).unwrap();
    assert_eq!((calls.cores().len(), end), (1, End::Whole));
}

impl Calls {
    /// Tree as the other tool prints it: the call, then the function that was called.
    fn tree(&mut self, name: impl Fn(u64) -> String) -> String {
        let mut text = String::new();
        let take = |depth: usize, call: &Call| {
            let indent = " ".repeat(depth * 4);
            if let (Some(site), Some(back)) = (call.site, call.back) {
                text += &format!("{}- {} - {}\n", &indent[2..], position(&site), position(&back));
            }
            let (entry, exit) = (position(&call.entry), position(&call.exit));
            text += &format!("{indent}o {entry} - {exit} : {}\n", name(call.function));
            Ok(())
        };
        self.tree.each(0, |call| call.is_complete() || call.is_root(), take).unwrap();
        text
    }

    /// Calls, and time including callees, per function.
    fn profile(&mut self) -> Vec<(u64, [u64; 2])> {
        let profile = self.profiles.of(0).unwrap();
        profile.rows().map(|(function, row)| (function, [row.calls, row.total.time])).collect()
    }

    /// Sorted, since the order means nothing.
    fn folded(&mut self, name: impl Fn(u64) -> String) -> Vec<String> {
        let mut folded = Folded::of_complete_calls();
        let add = |depth: usize, call: &Call| {
            folded.add(depth, call);
            Ok(())
        };
        self.tree.each(0, |_| true, add).unwrap();
        let mut lines = Vec::new();
        let take = |stack: &[u64], own: unspool::analyze::calls::Cost| -> Result<(), ()> {
            let name = |function: &u64| Some(name(*function)).filter(|name| !name.is_empty());
            let names = stack.iter().map(|function| name(function).unwrap_or_else(|| format!("{function:#x}")));
            lines.push(format!("{} {}", names.collect::<Vec<_>>().join(";"), own.time));
            Ok(())
        };
        folded.each(take).unwrap();
        sorted(lines)
    }
}

fn position(site: &Site) -> String {
    format!("t:{} l:{} pc:{:#x}", site.time, site.position, site.pc)
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

fn lines(path: &Path) -> Vec<String> {
    sorted(fs::read_to_string(path).unwrap().lines().map(str::to_string).collect())
}

fn program(path: &Path) -> Program {
    Program::new(vec![Code::from_file(path, None).unwrap().0])
}

/// Name of the function that starts at an address. The `_start` of all logs but one is a label without type and size,
/// which the other tool ignores.
fn named(program: &Program, log: &str, address: u64) -> String {
    let is_known = |name: &str| name != "_start" || log == "quicksort";
    let symbol = program.symbol(address).filter(|(name, offset)| *offset == 0 && is_known(name));
    symbol.map_or_else(String::new, |(name, _)| name.to_string())
}

/// Log, image, and the expected trees without and with names, profile and folded stacks.
const LOGS: [(&str, &str, [&str; 4]); 4] = [
    (
        "quicksort",
        "quicksort",
        ["calltree-@-addr.ref", "calltree-@-symbols.ref", "profile-@-symbols.ref", "flamegraph-@-symbols.ref"],
    ),
    ("calculator-aarch32-es-ld-st-style", "calculator-aarch32", CALCULATOR),
    ("calculator-aarch64-es-ld-st-style", "calculator-aarch64", CALCULATOR),
    ("calculator-aarch64-fastmodel", "calculator-aarch64", CALCULATOR),
];

const CALCULATOR: [&str; 4] = ["@.calltree.txt", "@.calltree-sym.txt", "@.profile.txt", "@.flame.txt"];

/// Calls of a tree of the other tool: depth, function, first and last time.
fn listed(tree: &str) -> impl Iterator<Item = (usize, u64, [u64; 2])> {
    let calls = tree.lines().filter_map(|line| Some((line.find("o t:")?, line)));
    calls.map(|(depth, line)| {
        let after = |name: &'static str| {
            line.match_indices(name).map(|(at, _)| line[at + name.len()..].split(' ').next().unwrap())
        };
        let times: Vec<u64> = after(" t:").map(|time| time.parse().unwrap()).collect();
        let function = after("pc:0x").next().unwrap();
        (depth, u64::from_str_radix(function, 16).unwrap(), [times[0], times[1]])
    })
}

/// Calls per function in a tree of the other tool, and the time of those that are not within a call of the same function.
fn outermost(tree: &str) -> Vec<(u64, [u64; 2])> {
    let mut rows: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
    let mut stack: Vec<(usize, u64)> = Vec::new();
    for (depth, function, [from, to]) in listed(tree) {
        stack.retain(|(outer, _)| *outer < depth);
        let is_nested = stack.iter().any(|(_, outer)| *outer == function);
        stack.push((depth, function));
        let row = rows.entry(function).or_default();
        row[0] += 1;
        row[1] += if is_nested { 0 } else { to - from };
    }
    rows.into_iter().collect()
}

/// The profile of the other tool has the same calls. It counts all of them, nested ones too, and both ends of each.
fn assert_all_calls(tree: &str, profile: &str) {
    let mut rows: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
    for (_, function, [from, to]) in listed(tree) {
        let row = rows.entry(function).or_default();
        (row[0], row[1]) = (row[0] + 1, row[1] + to - from + 1);
    }
    let expected: Vec<String> =
        rows.iter().map(|(function, [calls, time])| format!("{function:#x} {calls} {time}")).collect();
    let rows = profile.lines().skip(1).map(|line| line.split_whitespace().take(3).collect::<Vec<_>>().join(" "));
    assert_eq!(rows.collect::<Vec<_>>(), expected);
}

#[test]
fn trees_profiles_and_folded_stacks() {
    let Some(corpus) = corpus("tarmac") else { return };
    for (log, image, [addresses, names, profile, folded]) in LOGS {
        let expected = |name: &str| corpus.join("expected").join(name.replace('@', log));
        let mut calls = read_calls(&corpus.join(format!("{log}.tarmac")));
        let program = program(&corpus.join(format!("{image}.elf")));
        let name = |address| named(&program, log, address);
        assert_eq!(calls.tree(|_| String::new()), fs::read_to_string(expected(addresses)).unwrap(), "{log}");
        assert_eq!(calls.tree(name), fs::read_to_string(expected(names)).unwrap(), "{log}");
        let tree = fs::read_to_string(expected(addresses)).unwrap();
        assert_eq!(calls.profile(), outermost(&tree), "{log}");
        assert_all_calls(&tree, &fs::read_to_string(expected(profile)).unwrap());
        assert_eq!(calls.folded(name), lines(&expected(folded)), "{log}");
    }
}

#[test]
fn odd_calls() {
    let Some(corpus) = corpus("tarmac") else { return };
    for log in ["calltest32", "calltest64"] {
        let path = corpus.join("calltests").join(log);
        let program = program(&path.with_extension("elf"));
        let expected = fs::read_to_string(path.with_extension("ref")).unwrap();
        // Its classification of each transfer of control comes first.
        let start = expected.find("\no ").unwrap() + 1;
        let tree = read_calls(&path.with_extension("tarmac")).tree(|address| named(&program, log, address));
        assert_eq!(tree, expected[start..], "{log}");
    }
}

/// Depth and function of every call, and whether it returned.
fn shape(path: &Path) -> Vec<(usize, u64, bool)> {
    let mut shape = Vec::new();
    let take = |depth: usize, call: &Call| {
        shape.push((depth, call.function, call.is_complete()));
        Ok(())
    };
    read_calls(path).tree.each(0, |_| true, take).unwrap();
    shape
}

#[test]
fn two_dialects_have_the_same_calls() {
    let Some(corpus) = corpus("tarmac") else { return };
    let [one, other] = ["calculator-aarch64-es-ld-st-style.tarmac", "calculator-aarch64-fastmodel.tarmac"];
    let [one, other] = [one, other].map(|name| shape(&corpus.join(name)));
    assert_eq!(one, other);
    // main does not return: the program ends in a function that it calls.
    assert_eq!(one[1], (1, 0x21_09bc, false));
}
