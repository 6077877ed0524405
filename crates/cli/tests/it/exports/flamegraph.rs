//! `export flamegraph`, as a browser shows it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use unspool_testing::tool;

use super::{LOG, export, output};
use crate::run::{Folder, log, on, text};

/// Loads a picture in a browser, runs a script in its page, and returns what that prints: a JSON value.
fn in_browser(browser: &Path, folder: &Folder, picture: &Path, script: &str) -> Value {
    let svg = fs::read_to_string(picture).unwrap();
    let (_, svg) = svg.split_once("?>").unwrap();
    in_page(browser, folder, &format!("<!doctype html><meta charset=utf-8><body>{svg}"), script)
}

/// As [`in_browser`], in a page.
pub(super) fn in_page(browser: &Path, folder: &Folder, page: &str, script: &str) -> Value {
    let page = format!(
        "{page}<pre id=result>none</pre><script>\
         document.getElementById('result').textContent = JSON.stringify((() => {{ {script} }})());</script>"
    );
    let path = folder.file("page.html", page);
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", text(&folder.path("profile"))));
    let dom = output(command.arg(format!("file://{}", text(&path))));
    let (_, result) = dom.split_once("<pre id=\"result\">").unwrap_or_else(|| panic!("{dom}"));
    let result = result.split_once("</pre>").unwrap().0;
    let result = result.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&result).unwrap_or_else(|error| panic!("{error}: {result}"))
}

/// Frames that are shown: name, left edge and width in pixels.
const SHOWN: &str = "
    const shown = () => Array.from(document.querySelectorAll('#frames g:not(.hidden)'), frame => [
        frame.querySelector('title').textContent.split('\\n')[0],
        Math.round(Number(frame.querySelector('rect').getAttribute('x'))),
        Math.round(Number(frame.querySelector('rect').getAttribute('width')))]);
    const frame = name => Array.from(document.querySelectorAll('#frames g'))
        .find(frame => frame.querySelector('title').textContent.startsWith(name + '\\n'));
    const click = element => element.dispatchEvent(new MouseEvent('click', { bubbles: true }));
";

#[test]
fn frames_zoom_and_search() {
    let Some(browser) = tool("chromium", "chromium") else { return };
    let (folder, path) = log(LOG);
    let (run, out) = export("flamegraph", &path, &["--core", "cpu0"], &folder, "out.svg");
    assert_eq!(run.code, 0, "{run:?}");
    let script = format!(
        "{SHOWN}
        const all = shown();
        click(frame('0xa020'));
        const zoomed = shown();
        click(document.getElementById('reset'));
        const again = shown();
        const field = document.querySelector('#search input');
        field.value = 'A02';
        field.dispatchEvent(new Event('input'));
        const found = Array.from(document.querySelectorAll('.found title'), title => title.textContent);
        return {{ all, zoomed, again, found, matched: document.getElementById('matched').textContent }};"
    );
    let result = in_browser(&browser, &folder, &out, &script);
    // Of 7 clocks, the first call of 0xa010 has 6, and 0xa020 in it 2. The second call takes no time.
    let expected = serde_json::json!([
        ["all", 10, 1180],
        ["cpu0", 10, 1180],
        ["0xa000", 10, 1180],
        ["0xa010", 10, 1011],
        ["0xa020", 10, 337]
    ]);
    assert_eq!(result["all"], expected);
    let zoomed = serde_json::json!([
        ["all", 10, 1180],
        ["cpu0", 10, 1180],
        ["0xa000", 10, 1180],
        ["0xa010", 10, 1180],
        ["0xa020", 10, 1180]
    ]);
    assert_eq!((&result["zoomed"], &result["again"]), (&zoomed, &result["all"]));
    assert_eq!(result["found"].as_array().unwrap().len(), 1);
    assert_eq!(result["matched"], "Matched: 28.57%");
}

#[test]
fn differences_have_colors() {
    let Some(browser) = tool("chromium", "chromium") else { return };
    let (folder, path) = log(LOG);
    // 0xa020 takes two instructions more.
    let more = LOG.replace(
        "5 clk cpu0 IT (4) 0000a024 d65f03c0 O EL1h_n : RET",
        "4 clk cpu0 IT (4) 0000a024 d503201f O EL1h_n : NOP\n5 clk cpu0 IT (5) 0000a028 d503201f O EL1h_n : NOP\n\
         5 clk cpu0 IT (6) 0000a02c d65f03c0 O EL1h_n : RET",
    );
    let new = folder.file("new.tarmac", more);
    let (run, out) =
        export("flamegraph", &new, &["--diff", text(&path), "--weight", "instructions"], &folder, "out.svg");
    assert_eq!(run.code, 0, "{run:?}");
    let script = format!(
        "{SHOWN} return ['0xa000', '0xa020'].map(name => [frame(name).querySelector('title').textContent,
            frame(name).querySelector('rect').getAttribute('fill')]);"
    );
    let result = in_browser(&browser, &folder, &out, &script);
    let [same, grown] = [0, 1].map(|index| [0, 1].map(|part| result[index][part].as_str().unwrap().to_string()));
    assert!(grown[0].contains("4 instructions") && grown[0].contains("before: 2 instructions"), "{grown:?}");
    assert_eq!([&same[1], &grown[1]], ["rgb(250,250,250)", "rgb(250,60,60)"]);
    on("export", Path::new("flamegraph"), &[text(&new), "--diff", text(&path), "-o", text(&path), "--force"])
        .expect(2, &["another one"]);
}
