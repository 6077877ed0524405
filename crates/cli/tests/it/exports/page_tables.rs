//! Coverage and findings of `export html`, as a browser shows them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use unspool_testing::{example, tool};

use super::export;
use super::flamegraph::in_page;
use crate::programs::{Target, built_for_debugging, record};
use crate::run::{Folder, on, text};

/// Rows of tables by their ids.
fn tables(browser: &Path, trace: &Path, options: &[&str]) -> Value {
    let folder = Folder::new();
    let (run, out) = export("html", trace, options, &folder, "out.html");
    assert!(run.code < 2, "{run:?}");
    let script = "
        const rows = table => Array.from(table.querySelectorAll('tr'),
            row => Array.from(row.children, cell => cell.textContent.trim())).slice(1);
        return Object.fromEntries(Array.from(document.querySelectorAll('table[id]'), table => [table.id, rows(table)]));";
    in_page(browser, &folder, &fs::read_to_string(&out).unwrap(), script)
}

/// The report of `coverage`, which gcov judges elsewhere.
#[test]
fn a_page_has_the_coverage_of_functions_and_lines() {
    let Some(browser) = tool("chromium", "chromium") else { return };
    let dir = TempDir::new().unwrap();
    let Some(program) = built_for_debugging(dir.path(), "calls", Target::A64) else { return };
    let trace = dir.path().join("run.astf");
    record(&["-o", text(&trace), "--from", "main"], &program, &[]);
    let image = ["--image", text(&program)];
    let found = tables(&browser, &trace, &image);
    let rows = |by: &str| on("coverage", &trace, &[&image[..], &["--by", by, "--json"]].concat()).expect(0, &[]).json();
    let files: Vec<Value> = rows("file")
        .into_iter()
        .filter(|row| row["kind"] == "file")
        .map(|row| json!([row["path"], row["covered"].to_string(), row["total"].to_string()]))
        .collect();
    let shown: Vec<Value> =
        found["covered-files"].as_array().unwrap().iter().map(|row| json!([row[0], row[1], row[2]])).collect();
    assert!(!files.is_empty());
    assert_eq!(shown, files);
    let functions = found["covered-functions"].as_array().unwrap();
    let fib = functions.iter().find(|row| row[0] == "fib").unwrap();
    let expected = rows("function").into_iter().find(|row| row["name"] == "fib").unwrap();
    assert_eq!(fib[4], expected["entries"].to_string());
}

/// What `check` finds in the example, with its counts.
#[test]
fn a_page_has_the_findings_of_a_check() {
    let Some(browser) = tool("chromium", "chromium") else { return };
    let trace = example("hello-ete");
    let found = tables(&browser, &trace, &[]);
    let summary = on("check", &trace, &["--json"]).json_summary();
    let expected: Value = summary["rules"].clone();
    let rows = found["findings"].as_array().cloned().unwrap_or_default();
    let shown: serde_json::Map<String, Value> = rows
        .iter()
        .map(|row| {
            (
                row[2].as_str().unwrap().to_string(),
                row[3].as_str().unwrap().replace(',', "").parse::<u64>().unwrap().into(),
            )
        })
        .collect();
    assert_eq!(Value::Object(shown), expected);
    let (folder, clean) = crate::run::log(super::LOG);
    assert!(tables(&browser, &clean, &[]).get("findings").is_none());
    drop(folder);
}
