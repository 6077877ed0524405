//! Profiles for other tools, judged by these tools: callgrind_annotate, llvm-profdata, clang, perf2bolt and llvm-bolt.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use unspool_testing::{repository, tool};

use crate::programs::{Target, built_for_debugging, record, unspool};
use crate::run::{Run, text};

/// Costs by function, as callgrind_annotate adds them up.
struct Annotated {
    total: u64,
    functions: BTreeMap<String, u64>,
}

/// Runs callgrind_annotate in a folder without sources.
fn annotated(judge: &Path, file: &Path, options: &[&str]) -> Annotated {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(judge);
    command.args(["--threshold=100", "--show-percs=no", "--auto=no"]).args(options).arg(file);
    let run = Run::from(command.current_dir(folder.path()).output().unwrap()).clean();
    let number = |text: &str| text.replace(',', "").parse::<u64>().ok();
    let mut found = Annotated { total: 0, functions: BTreeMap::new() };
    for line in run.out.lines() {
        let Some((cost, rest)) = line.trim().split_once(' ') else { continue };
        let Some(cost) = number(cost) else { continue };
        if rest.trim() == "PROGRAM TOTALS" {
            found.total = cost;
        } else if let Some((_, name)) = rest.trim().split_once(':') {
            let name = name.split(" [").next().unwrap_or_default();
            *found.functions.entry(name.to_string()).or_default() += cost;
        }
    }
    found
}

/// Own and total instructions by the name of the function.
fn profile(trace: &Path, program: &Path) -> BTreeMap<String, [u64; 2]> {
    let options = ["--image", text(program), "--weight", "instructions", "--json"];
    let run = unspool(&[&["profile", text(trace)], &options[..]].concat()).expect(0, &[]);
    let mut functions: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for row in run.json() {
        // The name of what started in the middle of a function has an offset.
        let name = row["name"].as_str().unwrap().split('+').next().unwrap().to_string();
        let sums = functions.entry(name).or_default();
        sums.iter_mut().zip(["self", "total"]).for_each(|(sum, key)| *sum += row[key].as_u64().unwrap());
    }
    functions
}

fn statistics(trace: &Path) -> Value {
    let rows = unspool(&["stats", text(trace), "--json"]).expect(0, &[]).json();
    rows.into_iter().find(|row| row["kind"] == "steps").unwrap()
}

/// Recursion, calls through pointers, and functions of the C library without source lines.
#[test]
fn callgrind_annotate_has_the_costs_of_the_profile() {
    let dir = TempDir::new().unwrap();
    let Some(judge) = tool("callgrind_annotate", "valgrind") else { return };
    let Some(program) = built_for_debugging(dir.path(), "calls", Target::A64) else { return };
    let (trace, file) = (dir.path().join("run.astf"), dir.path().join("callgrind.out"));
    record(&["-o", text(&trace), "--from", "main"], &program, &[]);
    unspool(&["export", "callgrind", text(&trace), "--image", text(&program), "-o", text(&file)]).clean();
    let expected = profile(&trace, &program);
    let own = annotated(&judge, &file, &[]);
    assert_eq!(Some(own.total), statistics(&trace)["instructions"].as_u64());
    assert_eq!(own.functions.values().sum::<u64>(), own.total);
    // A recursion is a function of its own.
    let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
    for (name, cost) in &own.functions {
        *by_name.entry(name.trim_end_matches("'2").to_string()).or_default() += cost;
    }
    let expected_own = expected.iter().filter(|(_, sums)| sums[0] > 0).map(|(name, sums)| (name.clone(), sums[0]));
    assert_eq!(by_name, expected_own.collect());
    assert!(own.functions.contains_key("fib'2") && own.functions.contains_key("square"));
    let inclusive = annotated(&judge, &file, &["--inclusive=yes"]);
    for (name, cost) in inclusive.functions.iter().filter(|(name, _)| !name.ends_with("'2")) {
        assert_eq!(*cost, expected[name][1], "{name}");
    }
    for name in ["main", "fib", "square", "negate"] {
        assert!(inclusive.functions.contains_key(name), "{name}");
    }
}

/// Own costs by line are those of `profile --by line`, whose lines `addr2line` and `gcov` judge elsewhere.
#[test]
fn callgrind_lines_are_those_of_the_line_profile() {
    let dir = TempDir::new().unwrap();
    let Some(program) = built_for_debugging(dir.path(), "calls", Target::A64) else { return };
    let (trace, file) = (dir.path().join("run.astf"), dir.path().join("callgrind.out"));
    record(&["-o", text(&trace), "--from", "main"], &program, &[]);
    unspool(&["export", "callgrind", text(&trace), "--image", text(&program), "-o", text(&file)]).clean();
    let rows =
        unspool(&["profile", text(&trace), "--image", text(&program), "--by", "line", "--json"]).expect(0, &[]).json();
    let row = |row: &Value| Some((row["line"].as_u64()?, row["self"].as_u64()?));
    let expected: BTreeMap<u64, u64> = rows.iter().filter_map(row).collect();
    let mut found: BTreeMap<u64, u64> = BTreeMap::new();
    let written = fs::read_to_string(&file).unwrap();
    let mut lines = written.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("calls=") {
            lines.next();
        } else if let Some((line, cost)) =
            line.split_once(' ').and_then(|(a, b)| Some((a.parse().ok()?, b.parse::<u64>().ok()?)))
        {
            *found.entry(line).or_default() += cost;
        }
    }
    found.remove(&0);
    assert_eq!(found, expected);
}

/// Tools of LLVM 19.
struct Llvm {
    clang: PathBuf,
    profdata: PathBuf,
}

fn llvm() -> Option<Llvm> {
    tool("ld.lld-19", "lld-19")?;
    tool("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu, libc6-dev-arm64-cross")?;
    tool("qemu-aarch64", "qemu-user")?;
    Some(Llvm { clang: tool("clang-19", "clang-19")?, profdata: tool("llvm-profdata-19", "llvm-19")? })
}

impl Llvm {
    /// Builds the branchy program.
    fn build(&self, program: &Path, options: &[&str]) {
        let fixed =
            ["--target=aarch64-linux-gnu", "-fuse-ld=lld", "-static", "-O2", "-g", "-fdebug-info-for-profiling"];
        let mut command = Command::new(&self.clang);
        command.args(fixed).args(["-Wl,--emit-relocs", "-Werror=profile-instr-out-of-date"]).args(options);
        command.arg(repository("crates/cli/tests/it/programs/branchy.c")).arg("-o").arg(program);
        let run = Run::from(command.output().unwrap()).expect(0, &[]);
        assert_eq!(run.err, "", "no warning of the compiler");
    }

    fn profdata(&self, arguments: &[&str]) -> Run {
        Run::from(Command::new(&self.profdata).args(arguments).output().unwrap()).clean()
    }
}

/// Records a program from `main` on. Returns what it printed, and taken branches.
fn recorded(program: &Path, trace: &Path) -> (String, u64) {
    let run = record(&["-o", text(trace), "--from", "main"], program, &[]);
    (run.out, statistics(trace)["taken"].as_u64().unwrap())
}

#[test]
fn a_program_built_with_its_sample_profile_takes_fewer_branches() {
    let dir = TempDir::new().unwrap();
    let Some(llvm) = llvm() else { return };
    let [plain, better, trace, other, profile, merged] =
        ["plain", "better", "plain.astf", "better.astf", "branchy.afdo", "branchy.profdata"]
            .map(|name| dir.path().join(name));
    llvm.build(&plain, &[]);
    let (output, before) = recorded(&plain, &trace);
    unspool(&["export", "afdo", text(&trace), "--image", text(&plain), "-o", text(&profile)]).clean();
    llvm.profdata(&["merge", "--sample", text(&profile), "-o", text(&merged)]);
    let shown = llvm.profdata(&["show", "--sample", "--hot-func-list", text(&merged)]).out;
    assert!(shown.contains("classify") && shown.contains("walk"), "{shown}");
    llvm.build(&better, &[&format!("-fprofile-sample-use={}", text(&merged))]);
    let (same, after) = recorded(&better, &other);
    assert_eq!(output, same);
    assert!(after * 10 < before * 9, "taken branches: {before} before, {after} after");
}

/// Entries and executions are those of the trace, by the reader of LLVM.
#[test]
fn llvm_reads_the_counts_of_a_sample_profile() {
    let dir = TempDir::new().unwrap();
    let Some(llvm) = llvm() else { return };
    let [program, trace, profile] = ["branchy", "branchy.astf", "branchy.afdo"].map(|name| dir.path().join(name));
    llvm.build(&program, &[]);
    recorded(&program, &trace);
    unspool(&["export", "afdo", text(&trace), "--image", text(&program), "-o", text(&profile)]).clean();
    let shown = llvm.profdata(&["show", "--sample", text(&profile)]).out;
    // `Function: classify: 610485, 19847, 24 sampled lines`: samples, entries.
    let entries = |name: &str| {
        let line = shown.lines().find(|line| line.starts_with(&format!("Function: {name}: "))).unwrap();
        line.split(", ").nth(1).unwrap().parse::<u64>().unwrap()
    };
    let rows = unspool(&["profile", text(&trace), "--image", text(&program), "--json"]).expect(0, &[]).json();
    for name in ["classify", "walk"] {
        let calls = rows.iter().find(|row| row["name"] == name).unwrap()["calls"].as_u64().unwrap();
        assert_eq!(entries(name), calls, "{name}");
    }
    // The generator and the sum of digits are inlined, and so are calls in calls.
    assert!(shown.contains("inlined callee: next_random") && shown.contains("inlined callee: rare"), "{shown}");
}

/// Samples of the lines of a function and of what it inlined, in the order of the file; without those that have no line.
fn samples(profile: &str, function: &str) -> Vec<String> {
    let lines = profile.lines().skip_while(|line| !line.starts_with(&format!("{function}:"))).skip(1);
    let own = lines.take_while(|line| line.starts_with(' '));
    let sample = |line: &str| {
        let (place, rest) = line.split_once(": ").unwrap();
        let offset: u32 = place.trim().split('.').next().unwrap().parse().unwrap();
        let is_count = rest.starts_with(|first: char| first.is_ascii_digit());
        // Totals of inlined functions are not comparable: the generator adds up bytes.
        let rest = if is_count { rest } else { rest.split(':').next().unwrap() };
        // Line 0 is far before every declaration.
        (offset < 0xf000).then(|| format!("{place}: {rest}"))
    };
    own.filter_map(sample).collect()
}

/// LLVM has a generator of its own, which takes ranges and branches with their counts.
#[test]
fn samples_of_lines_are_those_of_llvm_profgen() {
    let dir = TempDir::new().unwrap();
    let (Some(llvm), Some(profgen)) = (llvm(), tool("llvm-profgen-19", "llvm-19")) else { return };
    let [program, trace, profile, branches, input, output] =
        ["branchy", "branchy.astf", "branchy.afdo", "branchy.preagg", "unsymbolized", "expected"]
            .map(|name| dir.path().join(name));
    llvm.build(&program, &[]);
    recorded(&program, &trace);
    let export = |kind: &str, out: &Path| {
        unspool(&["export", kind, text(&trace), "--image", text(&program), "-o", text(out)]).clean()
    };
    export("afdo", &profile);
    export("bolt", &branches);
    let (mut of_ranges, mut of_branches) = (Vec::new(), Vec::new());
    for line in fs::read_to_string(&branches).unwrap().lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["F", from, to, count] => of_ranges.push(format!("{from}-{to}:{count}\n")),
            ["B", from, to, count, "0"] if from != "0" && to != "0" => {
                of_branches.push(format!("{from}->{to}:{count}\n"));
            }
            _ => assert!(line.starts_with("B "), "{line}"),
        }
    }
    let lists = [of_ranges, of_branches].map(|rows| format!("{}\n{}", rows.len(), rows.concat()));
    fs::write(&input, lists.concat()).unwrap();
    let mut command = Command::new(profgen);
    command.args(["--format=text", "--use-offset=0"]).arg(format!("--unsymbolized-profile={}", text(&input)));
    command.arg(format!("--binary={}", text(&program))).arg(format!("--output={}", text(&output)));
    Run::from(command.output().unwrap()).expect(0, &[]);
    let [found, expected] = [&profile, &output].map(|path| fs::read_to_string(path).unwrap());
    for function in ["classify", "walk"] {
        let expected = samples(&expected, function);
        assert!(expected.len() > 10, "{function}: {expected:?}");
        assert_eq!(samples(&found, function), expected, "{function}");
    }
}

#[test]
fn bolt_takes_all_branches_and_makes_a_better_program() {
    let dir = TempDir::new().unwrap();
    let Some(llvm) = llvm() else { return };
    let Some(bolt) = tool("llvm-bolt-19", "bolt-19") else { return };
    // The tool does this only under this name, without a version.
    let perf2bolt = fs::canonicalize(&bolt).unwrap().with_file_name("perf2bolt");
    let [program, better, trace, other, branches, data] =
        ["branchy", "bolted", "branchy.astf", "bolted.astf", "branchy.preagg", "branchy.fdata"]
            .map(|name| dir.path().join(name));
    llvm.build(&program, &[]);
    let (output, before) = recorded(&program, &trace);
    unspool(&["export", "bolt", text(&trace), "--image", text(&program), "-o", text(&branches)]).clean();
    let run = |tool: &Path, arguments: &[&str]| {
        Run::from(Command::new(tool).args(arguments).current_dir(dir.path()).output().unwrap()).expect(0, &[])
    };
    let run_data = run(&perf2bolt, &["-pa", "-p", text(&branches), "-o", text(&data), text(&program)]);
    let said = format!("{}{}", run_data.out, run_data.err);
    // A system call ends a range, and is no branch.
    let share =
        |about: &str| said.lines().find(|line| line.contains(about)).unwrap_or_else(|| panic!("{said}")).to_string();
    assert!(share("traces mismatching disassembled function contents").ends_with("(0.0%)"), "{said}");
    assert!(share("ut of range traces involving unknown regions").ends_with(": 0 (0.0%)"), "{said}");
    let layout = ["-reorder-blocks=ext-tsp", "-reorder-functions=hfsort"];
    run(&bolt, &[&[text(&program), "-o", text(&better), "-data", text(&data)], &layout[..]].concat());
    let (same, after) = recorded(&better, &other);
    assert_eq!(output, same);
    assert!(after < before, "taken branches: {before} before, {after} after");
}
