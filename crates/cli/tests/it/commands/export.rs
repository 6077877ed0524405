//! `export`, `tuples` and `accesses`: on our examples, against what other verbs show of the same trace.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;

use serde_json::Value;

use super::stf::long;
use crate::run::{Folder, log, on, text};

fn address(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// Address, branch and outcome of each record.
fn records(bytes: &[u8]) -> Vec<(u64, u8, u8)> {
    let records = bytes.as_chunks::<64>().0.iter();
    records.map(|record| (u64::from_le_bytes(record[..8].try_into().unwrap()), record[8], record[9])).collect()
}

#[test]
fn champsim_has_every_instruction() {
    let (folder, capture) = (Folder::new(), unspool_testing::example("hello-qemu"));
    let out = folder.path("run.champsimtrace.gz");
    let run = on("export", std::path::Path::new("champsim"), &[text(&capture), "-o", text(&out)]);
    run.expect(0, &["instructions"]);
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(fs::File::open(&out).unwrap()).read_to_end(&mut bytes).unwrap();
    let found = records(&bytes);
    let decoded = on("decode", &capture, &["--json"]).json();
    let instructions: Vec<&Value> = decoded.iter().filter(|line| line["kind"] == "instruction").collect();
    assert!(instructions.len() > 10 && bytes.len() == 64 * instructions.len());
    for (line, (ip, is_branch, is_taken)) in instructions.iter().zip(&found) {
        assert_eq!((address(&line["address"]), line["taken"].is_boolean()), (*ip, *is_branch == 1));
        assert_eq!(line["taken"] == true, *is_taken == 1, "{line}");
    }
    on("export", std::path::Path::new("champsim"), &[text(&capture), "-o", text(&out)]).expect(2, &["--force"]);
}

#[test]
fn tuples_are_counted() {
    let folder = Folder::new();
    let trace = folder.file("a.stf", long(50));
    // A loop of two instructions, 50 times.
    let rows = |options: &[&str]| -> BTreeMap<String, u64> {
        let lines = on("tuples", &trace, &[options, &["--json"]].concat()).clean().json();
        let tuples = lines.iter().filter(|line| line["kind"] == "tuple");
        tuples.map(|line| (line["mnemonics"].to_string(), line["count"].as_u64().unwrap())).collect()
    };
    assert_eq!(rows(&["--length", "1"]).into_values().collect::<Vec<_>>(), [50, 50]);
    assert_eq!(rows(&[]).into_values().collect::<std::collections::BTreeSet<_>>(), [49, 50].into());
    assert_eq!(rows(&["--length", "3"]).into_values().collect::<Vec<_>>(), [49, 49]);
    on("tuples", &trace, &["--length", "9"]).expect(2, &["1..=8"]);
    let pairs = on("tuples", &unspool_testing::example("hello-qemu"), &["--fusion"]).out;
    assert!(pairs.lines().all(|line| line.contains(", ")), "{pairs}");
}

const LOG: &str = "\
1 clk cpu0 IT (1) 00001000 f9400001 O EL1h_n : LDR      x1,[x0]
1 clk cpu0 MR8 00090000:000000090000_NS 00000000_00000007
2 clk cpu0 IT (2) 00001004 f9400001 O EL1h_n : LDR      x1,[x0]
2 clk cpu0 MR8 00090040:000000090040_NS 00000000_00000008
3 clk cpu0 IT (3) 00001000 f9400001 O EL1h_n : LDR      x1,[x0]
3 clk cpu0 MR8 00090008:000000090008_NS 00000000_00000009
4 clk cpu0 IT (4) 00001008 f81f0fe0 O EL1h_n : STR      x0,[sp,#-0x10]!
4 clk cpu0 MW8 00090040:000000090040_NS 00000000_00000001
";

#[test]
fn accesses_and_their_tables() {
    let (_folder, path) = log(LOG);
    let text = on("accesses", &path, &["--reads", "--limit", "1"]).clean().out;
    assert_eq!(text.trim(), "line 1         t=1 0x0000000000001000 r  0x0000000000090000 8 0x0000000000000007");
    let lines = |options: &[&str], kind: &str| -> Vec<Value> {
        let lines = on("accesses", &path, &[options, &["--json"]].concat()).clean().json();
        lines.into_iter().filter(|line| line["kind"] == kind).collect()
    };
    assert_eq!(lines(&["--writes"], "access").len(), 1);
    let totals = lines(&["--totals"], "line");
    assert_eq!((&totals[0]["reads"], &totals[1]["writes"], totals.len()), (&2.into(), &1.into(), 2));
    assert_eq!(lines(&["--totals", "--line", "4096"], "line").len(), 1);
    // The first accesses of two lines, and two after an access of the other line.
    let reuse = lines(&["--reuse"], "reuse");
    let counts: Vec<u64> = reuse.iter().map(|line| line["accesses"].as_u64().unwrap()).collect();
    assert_eq!(counts, [2, 0, 2]);
    let strides = lines(&["--strides"], "strides");
    assert_eq!(strides[0]["strides"][0]["stride"], 8);
    on("accesses", &path, &["--totals", "--line", "48"]).expect(2, &["power of two"]);
}
