//! `export html`, as a browser shows it.

use std::fs;

use serde_json::json;
use unspool_testing::tool;

use super::flamegraph::in_page;
use super::{LOG, export};
use crate::run::log;

#[test]
fn a_page_has_all_of_it() {
    let Some(browser) = tool("chromium", "chromium") else { return };
    let (folder, path) = log(LOG);
    let (run, out) = export("html", &path, &["--core", "cpu0"], &folder, "out.html");
    assert_eq!(run.code, 0, "{run:?}");
    let page = fs::read_to_string(&out).unwrap();
    // Nothing is loaded from elsewhere.
    assert!(!page.contains("src=") && !page.contains("href=") && !page.contains("@import"), "{page}");
    let script = "
        const rows = selector => Array.from(document.querySelectorAll(selector + ' tr'),
            row => Array.from(row.children, cell => cell.textContent.trim()));
        const canvas = document.getElementById('timeline');
        const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        return { facts: Object.fromEntries(rows('#facts')), functions: rows('#functions').slice(1),
            frames: document.querySelectorAll('#frames g').length, isDrawn: pixels.some(value => value !== 0) };";
    let result = in_page(&browser, &folder, &page, script);
    // The profile of the log: own cost, cost with callees, calls.
    let functions = json!([
        ["4 clk", "6 clk", "2", "0xa010"],
        ["2 clk", "2 clk", "1", "0xa020"],
        ["1 clk", "7 clk", "1", "0xa000"],
    ]);
    assert_eq!(result["functions"], functions);
    assert_eq!((&result["facts"]["Calls"], &result["facts"]["Total"]), (&json!("4"), &json!("7 clk")));
    assert_eq!((&result["isDrawn"], &result["frames"]), (&json!(true), &json!(5)));
}
