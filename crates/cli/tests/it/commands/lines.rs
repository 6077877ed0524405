//! `decode --lines`, `annotate` and `coverage` on `testdata/lines`, whose programs have debug information.
//!
//! Lines are those of GNU addr2line; executions are counted in the text of Tarmac logs.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use unspool_testing::{repository, tool};

use crate::run::{Folder, Run, on, text, unspool};

fn data(name: &str) -> PathBuf {
    repository("testdata/lines").join(name)
}

/// The trace of `shapes` in all formats.
fn formats(folder: &Folder) -> Vec<PathBuf> {
    let astf = data("shapes.astf");
    let (capture, stf, tarmac) = (folder.path("capture"), folder.path("run.stf"), folder.path("run.tarmac"));
    unspool(&["encode", text(&astf), "-o", text(&capture)]).expect(0, &[]);
    unspool(&["convert", text(&astf), text(&stf)]).expect(0, &[]);
    unspool(&["convert", text(&astf), text(&tarmac)]).expect(0, &[]);
    vec![astf, capture, stf, tarmac]
}

/// Executions of each address in a Tarmac log.
fn counted(log: &Path) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for line in fs::read_to_string(log).unwrap().lines() {
        let Some((_, rest)) = line.split_once("ES  (") else { continue };
        let address = rest.split(':').next().unwrap();
        *counts.entry(u64::from_str_radix(address, 16).unwrap()).or_default() += 1;
    }
    assert!(!counts.is_empty());
    counts
}

/// Function, file and line of each frame, by address, as addr2line finds them.
fn expected_lines(name: &str) -> HashMap<String, Vec<Value>> {
    let list = fs::read_to_string(data(name)).unwrap();
    let frames = |line: &str| {
        let (address, frames) = line.split_once(' ').unwrap();
        let address = format!("{:#x}", u64::from_str_radix(&address[2..], 16).unwrap());
        let words: Vec<&str> = frames.split(' ').collect();
        let frame = |pair: &[&str]| {
            let (file, line) = pair[1].rsplit_once(':').unwrap();
            json!({"function": pair[0], "file": file, "line": line.parse::<u32>().unwrap()})
        };
        (address, words.chunks(2).map(frame).collect())
    };
    list.lines().map(frames).collect()
}

#[test]
fn decoded_instructions_have_lines() {
    let folder = Folder::new();
    let capture = formats(&folder).swap_remove(1);
    let (program, expected) = (data("shapes"), expected_lines("shapes.expected"));
    let options = ["--image", text(&program), "--lines", "--json"];
    let listed = on("decode", &capture, &options).clean().json();
    let instructions: Vec<&Value> = listed.iter().filter(|line| line["kind"] == "instruction").collect();
    assert_eq!(instructions.len(), 95);
    for line in instructions {
        let address = line["address"].as_str().unwrap();
        assert_eq!(line["lines"].as_array().unwrap(), &expected[address], "{address}");
    }
    for line in on("decode", &capture, &[&options[..], &["--emit", "ranges"]].concat()).clean().json() {
        if line["kind"] == "range" {
            assert_eq!(line["lines"].as_array().unwrap(), &expected[line["start"].as_str().unwrap()]);
        }
    }
    let listing = on("decode", &capture, &["--image", text(&program), "--lines"]).clean();
    let inlined =
        "; /src/shapes.h:5 in area, inlined at /src/shapes.c:13 in twice, inlined at /src/shapes.c:22 in sum\n";
    let listing = listing.shows(&[inlined, "; /src/shapes.c:49\n"]);
    // A line is shown where it changes.
    let mut before = "";
    for line in listing.out.lines().filter(|line| line.starts_with(';')) {
        assert!(line != before || line.is_empty(), "{line}");
        before = line;
    }
    // Other order, on several threads: the same lines.
    let ordered = on("decode", &capture, &["--image", text(&program), "--lines", "--by", "time"]);
    ordered.clean().shows(&[inlined]);
    // Not without the option.
    assert!(!on("decode", &capture, &["--image", text(&program)]).out.contains("shapes.c"));
}

#[test]
fn functions_are_annotated_alike_in_all_formats() {
    let folder = Folder::new();
    let formats = formats(&folder);
    let counts = counted(&formats[3]);
    let source = format!("/src={}", text(&repository("testdata/lines")));
    let options = ["sum", "--image", text(&data("shapes")), "--source-path", &source].map(str::to_string);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let expected = expected_lines("shapes.expected");
    for trace in &formats {
        let rows = on("annotate", trace, &[&options[..], &["--json"]].concat()).clean().json();
        assert_eq!((&rows[0]["kind"], &rows[0]["name"]), (&"function".into(), &"sum".into()));
        let total: u64 = rows[1..].iter().map(|row| row["count"].as_u64().unwrap()).sum();
        assert_eq!(rows[0]["executed"], total);
        for row in &rows[1..] {
            let address = row["address"].as_str().unwrap();
            let count = counts.get(&u64::from_str_radix(&address[2..], 16).unwrap()).copied().unwrap_or(0);
            assert_eq!(row["count"], count, "{trace:?} {row}");
            assert_eq!(row["lines"].as_array().unwrap(), &expected[address], "{trace:?}");
        }
        let listing = on("annotate", trace, &options).clean();
        let loop_line = "; /src/shapes.c:20      for (int side = 0; side < limit; side++) {\n";
        listing.shows(&["# sum in ", loop_line, " (inlined: area in twice in sum)", "  ; taken "]);
    }
    // Without the source, lines are numbers only.
    let alone = on("annotate", &formats[0], &["sum", "--image", text(&data("shapes"))]).clean();
    assert!(alone.out.contains("; /src/shapes.c:20\n"), "{}", alone.out);
}

/// Executions of all instructions in a log, by the innermost line that addr2line finds.
#[test]
fn lines_are_profiled_alike_in_all_formats() {
    let folder = Folder::new();
    let formats = formats(&folder);
    let expected = expected_lines("shapes.expected");
    let (mut lines, mut files) = (BTreeMap::new(), BTreeMap::new());
    let counts = counted(&formats[3]);
    for (address, count) in &counts {
        let frame = &expected[&format!("{address:#x}")][0];
        let (file, line) = (frame["file"].as_str().unwrap().to_string(), frame["line"].as_u64().unwrap());
        *lines.entry((file.clone(), line)).or_insert(0) += count;
        *files.entry(file).or_insert(0) += count;
    }
    let total: u64 = counts.values().sum();
    for trace in &formats {
        let profile = |by: &str, options: &[&str]| {
            let run = on("profile", trace, &[&["--by", by, "--json"], options].concat()).clean();
            assert_eq!(run.json_summary()["total"], total, "{trace:?}");
            run.json().into_iter().filter(|row| row["kind"] == by).collect::<Vec<_>>()
        };
        let image = ["--image", text(&data("shapes"))].map(str::to_string);
        let image: Vec<&str> = image.iter().map(String::as_str).collect();
        let found = profile("line", &image);
        let row = |row: &Value| {
            ((row["file"].as_str().unwrap().to_string(), row["line"].as_u64().unwrap()), row["self"].as_u64().unwrap())
        };
        assert_eq!(found.iter().map(row).collect::<BTreeMap<_, _>>(), lines, "{trace:?}");
        let counts: Vec<u64> = found.iter().map(|row| row["self"].as_u64().unwrap()).collect();
        assert!(counts.is_sorted_by(|one, next| one >= next), "{counts:?}");
        let found = profile("file", &image);
        let row = |row: &Value| (row["file"].as_str().unwrap().to_string(), row["self"].as_u64().unwrap());
        assert_eq!(found.iter().map(row).collect::<BTreeMap<_, _>>(), files, "{trace:?}");
        let found = profile("module", &image);
        assert_eq!((found.len(), &found[0]["self"]), (1, &total.into()), "{trace:?}");
        let text = on("profile", trace, &[&["--by", "line"], &image[..]].concat()).clean().out;
        assert!(
            text.contains(&format!("# instructions, {total} in total\n")) && text.contains("  /src/shapes.h:5\n"),
            "{text}"
        );
        // A capture contains its program.
        if !trace.is_dir() {
            let found = profile("line", &[]);
            assert_eq!(
                found,
                [json!({"kind": "line", "core": "", "file": null, "line": null, "module": null, "self": total})]
            );
        }
    }
}

#[test]
fn a_function_that_does_not_exist() {
    let rows = [
        (&["nothing", "--image"][..], "no function 'nothing' of known size in "),
        (&["sum"], "nothing that was executed is in an image: name the program with --image FILE"),
    ];
    for (options, message) in rows {
        let program = data("shapes");
        let options: Vec<&str> = options.iter().copied().chain((options.len() > 1).then(|| text(&program))).collect();
        on("annotate", &data("shapes.astf"), &options).expect(2, &[message]);
    }
}

fn covered(trace: &Path, options: &[&str]) -> Run {
    on("coverage", trace, &[&["--image", text(&data("shapes"))], options].concat())
}

#[test]
fn coverage_is_the_same_in_all_formats() {
    let folder = Folder::new();
    for trace in formats(&folder) {
        let lines = covered(&trace, &["--by", "line", "--json"]).clean().json();
        let count = |path: &str, line: u32| {
            let found = lines.iter().find(|row| row["path"] == path && row["line"] == line);
            found.map(|row| (row["count"].as_u64().unwrap(), row["covered"].as_u64() != Some(0)))
        };
        // `sum(5)` once; its loop for 0 to 4; `count` for 0 to 2; `never` not at all.
        let rows = [
            ("/src/shapes.c", 9, Some((0, false))),
            ("/src/shapes.c", 21, Some((5, true))),
            ("/src/shapes.c", 24, Some((3, true))),
            ("/src/shapes.c", 31, Some((3, true))),
            ("/src/shapes.c", 53, Some((1, true))),
            ("/src/shapes.c", 54, Some((0, false))),
            ("/src/shapes.c", 1, None),
        ];
        for (path, line, expected) in rows {
            assert_eq!(count(path, line), expected, "{trace:?} {path}:{line}");
        }
        let functions = covered(&trace, &["--by", "function", "--json"]).clean().json();
        let entries: Vec<(&str, u64)> = functions
            .iter()
            .filter(|row| row["kind"] == "function")
            .map(|row| (row["name"].as_str().unwrap(), row["entries"].as_u64().unwrap()))
            .collect();
        assert_eq!(entries, [("never", 0), ("sum", 1), ("count", 3), ("_start", 1)], "{trace:?}");
        let totals = covered(&trace, &["--by", "image", "--json"]).clean();
        let summary = totals.json_summary();
        assert_eq!((&summary["outside"], &summary["instructions"]), (&0.into(), &95.into()), "{trace:?}");
        assert_eq!(summary["at_least"], false, "{trace:?}");
    }
}

#[test]
fn runs_are_added_up_and_compared() {
    let folder = Folder::new();
    let (trace, part) = (data("shapes.astf"), folder.path("part.astf"));
    unspool(&["slice", text(&trace), text(&part), "--limit", "60"]).expect(0, &[]);
    let image = data("shapes");
    let twice = unspool(&["coverage", text(&trace), text(&trace), "--image", text(&image), "--by", "function"]);
    twice.clean().shows(&["           6 ", "  count\n"]);
    let same = covered(&trace, &["--diff", text(&trace)]).clean();
    same.shows(&["the same lines and functions are covered"]);
    // The part ends before `count` is called.
    let less = covered(&part, &["--diff", text(&trace)]).expect(1, &[]);
    let less = less.shows(&["- function count\n", "- /src/shapes.c:31\n", "no longer covered"]);
    assert!(!less.out.contains("\n+ "), "{}", less.out);
    covered(&trace, &["--diff", text(&part)]).clean().shows(&["+ function count\n"]);
    let rows = covered(&part, &["--diff", text(&trace), "--json"]).expect(1, &[]).json();
    assert!(
        rows.iter().any(
            |row| *row == json!({"kind": "line_difference", "change": "lost", "path": "/src/shapes.c", "line": 31})
        )
    );
}

#[test]
fn branches_of_t32_have_both_directions() {
    let options = ["--image", text(&data("shapes-t32")), "--json", "--by", "line"].map(str::to_string);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let rows = on("coverage", &data("shapes-t32.tarmac"), &options).clean().json();
    let branches: Vec<&Value> = rows.iter().filter_map(|row| row["branches"].as_array()).flatten().collect();
    assert!(branches.iter().any(|branch| branch["branch"] == true && branch["taken"] != 0 && branch["not_taken"] != 0));
}

/// A log has an `IS` line for an instruction whose condition failed.
#[test]
fn conditional_instructions_are_counted_by_outcome() {
    let folder = Folder::new();
    let moveq = "00008000 03a00001 A svc_ns : MOVEQ r0,#1";
    let log = folder.file("c.tarmac", format!("1 clk cpu0 IT (1) {moveq}\n2 clk cpu0 IS (2) {moveq}\n"));
    let code = folder.file("c.bin", [0x01, 0x00, 0xa0, 0x03]);
    let image = format!("{}@0x8000", text(&code));
    let rows = on("coverage", &log, &["--image", &image, "--json"]).clean().json();
    assert!(rows.contains(&json!({"kind": "total", "name": "conditions", "covered": 2, "total": 2})), "{rows:?}");
}

#[test]
fn reports_are_written() {
    let folder = Folder::new();
    let (trace, info, xml, html) =
        (data("shapes.astf"), folder.path("a.info"), folder.path("a.xml"), folder.path("html"));
    let source = format!("/src={}", text(&repository("testdata/lines")));
    let options =
        ["--lcov", text(&info), "--cobertura", text(&xml), "-o", text(&html), "--source-path", source.as_str()];
    covered(&trace, &options).clean();
    let lcov = fs::read_to_string(&info).unwrap();
    for line in ["DA:9,0", "DA:31,3", "FN:18,sum", "FNDA:3,count", "FNDA:0,never", "end_of_record"] {
        assert!(lcov.lines().any(|found| found == line), "no {line} in {lcov}");
    }
    let number = |name: &str| -> u64 {
        lcov.lines().filter_map(|line| line.strip_prefix(name)).map(|text| text.parse::<u64>().unwrap()).sum()
    };
    let lines = lcov.lines().filter(|line| line.starts_with("DA:"));
    assert_eq!(number("LF:"), lines.clone().count() as u64);
    assert_eq!(number("LH:"), lines.filter(|line| !line.ends_with(",0")).count() as u64);
    let xml = fs::read_to_string(&xml).unwrap();
    assert!(
        xml.contains("<line number=\"9\" hits=\"0\" branch=\"false\"/>") && xml.ends_with("</coverage>\n"),
        "{xml}"
    );
    let page = fs::read_to_string(html.join("file0.html")).unwrap();
    assert!(page.contains("<span class=\"miss\"><span class=\"n\">9</span>"), "{page}");
    assert!(page.contains("for (int side = 0; side &lt; limit; side++) {"), "{page}");
    // Nothing is replaced.
    covered(&trace, &["--lcov", text(&info)]).expect(2, &["use --force"]);
    covered(&trace, &["-o", text(&html)]).expect(2, &["use --force"]);
    covered(&trace, &["-o", text(&html), "--force"]).clean();
}

#[test]
fn genhtml_accepts_the_report() {
    let Some(genhtml) = tool("genhtml", "lcov") else { return };
    let folder = Folder::new();
    let (info, html) = (folder.path("a.info"), folder.path("html"));
    let source = format!("/src={}", text(&repository("testdata/lines")));
    covered(&data("shapes.astf"), &["--lcov", text(&info), "--source-path", &source]).clean();
    let mut command = std::process::Command::new(genhtml);
    command.args(["--branch-coverage", "-o", text(&html), text(&info)]);
    let run = Run::from(command.output().unwrap()).expect(0, &[]);
    assert!(run.out.contains("lines......: "), "{}", run.out);
}

/// The example lost trace: what it does not show is not covered, but may have been executed.
#[test]
fn gaps_make_it_at_least() {
    let run = on("coverage", &unspool_testing::example("hello-ete"), &["--by", "image", "--json"]);
    assert!(run.err.contains("all results are 'at least'"), "{run:?}");
    let summary = run.json_summary();
    assert_eq!((&summary["at_least"], summary["gaps"].as_u64() > Some(0)), (&true.into(), true));
    on("coverage", &unspool_testing::example("hello-ete"), &[]).shows(&["instructions  at least "]);
}
