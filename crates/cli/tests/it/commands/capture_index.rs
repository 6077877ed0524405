//! `index` of captures, and `state` by it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use unspool_testing::example;

use crate::run::{Folder, on, text};

/// A copy of an example, in a folder where an index may be written.
fn copy(folder: &Folder, name: &str) -> PathBuf {
    let to = folder.path(name);
    fs::create_dir(&to).unwrap();
    for entry in fs::read_dir(example(name)).unwrap() {
        let from = entry.unwrap().path();
        fs::copy(&from, to.join(from.file_name().unwrap())).unwrap();
    }
    to
}

/// Addresses of the instructions, as `decode` lists them.
fn addresses(capture: &Path, source: &[&str]) -> Vec<String> {
    let run = on("decode", capture, &[source, &["--json"]].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    let lines = run.json();
    let instructions = lines.iter().filter(|line| line["kind"] == "instruction");
    instructions.map(|line| line["address"].as_str().unwrap().to_string()).collect()
}

#[test]
fn state_by_an_index_of_a_capture_is_that_without() {
    let folder = Folder::new();
    for (name, source, file) in [
        ("hello-qemu", &[][..], "hello-qemu.unspool-index"),
        ("hello-ete", &["--source", "0x10"], "hello-ete.ETE_0.unspool-index"),
    ] {
        let (plain, capture) = (example(name), copy(&folder, name));
        let all = addresses(&plain, source);
        let made = on("index", &capture, &[source, &["--json"]].concat());
        assert_eq!(made.code, 0, "{}", made.err);
        let made = &made.json()[0];
        assert_eq!((&made["made"], &made["instructions"]), (&true.into(), &all.len().into()), "{name}");
        assert!(folder.path(file).is_file(), "{name}: {:?}", folder.names());
        on("index", &capture, source).expect(0, &["is up to date"]);
        let numbers = [1, 2, all.len() / 2, all.len(), all.len() + 1].map(|number| format!("#{number}"));
        for at in numbers.iter().chain([&all[3], &"0x1".to_string()]) {
            let options = [source, &["--at", at, "--json"]].concat();
            let (with, without) = (on("state", &capture, &options), on("state", &plain, &options));
            assert_eq!((with.code, &with.out), (without.code, &without.out), "{name} {at}: {}", with.err);
        }
        let find = |capture| on("find", capture, &[source, &["--address", &all[3]]].concat()).clean().out;
        assert!(find(&capture) == find(&plain) && !find(&plain).is_empty(), "{name}");
    }
    let named = |capture: &Path| on("state", capture, &["--at", "say", "--json"]).json();
    assert_eq!(named(&folder.path("hello-qemu")), named(&example("hello-qemu")));
    on("index", &example("hello-ete"), &["-o", text(&folder.path("any"))]).expect(2, &["--source"]);
}

#[test]
fn an_index_is_of_a_source_and_its_code() {
    let folder = Folder::new();
    let capture = copy(&folder, "hello-ete");
    let index = folder.path("index");
    let at = |source: &str, more: &[&str]| {
        let options = ["--source", source, "--at", "#2", "--index", text(&index)];
        on("state", &capture, &[&options[..], more].concat())
    };
    assert_eq!(on("index", &capture, &["--source", "0x10", "-o", text(&index)]).code, 0);
    let first = at("0x10", &[]);
    assert!(first.code == 0 && first.err.is_empty(), "{first:?}");
    let other = at("ETE_1", &["--force"]);
    assert!(other.code == 0 && other.err.contains("has changed") && other.out != first.out, "{other:?}");
    let program = folder.path("hello-ete").join("program.bin@0x5000000");
    let image = at("ETE_1", &["--force", "--image", text(&program)]);
    assert!(image.code == 0 && image.err.contains("has changed") && image.out == other.out, "{image:?}");
    // Its bytes change.
    let trace = folder.path("hello-ete").join("trace.bin");
    let bytes = fs::read(&trace).unwrap();
    fs::write(&trace, &bytes[..bytes.len() - 16]).unwrap();
    let changed = at("ETE_1", &["--force", "--image", text(&program)]);
    assert!(changed.err.contains("has changed"), "{changed:?}");
    // What is no index is not replaced.
    let foreign = folder.file("foreign", "text");
    let options = ["--source", "0x10", "-o", text(&foreign)];
    on("index", &capture, &options).expect(2, &["not an index"]);
    assert_eq!(fs::read(&foreign).unwrap(), b"text");
}

#[test]
fn a_source_of_a_file_is_an_error() {
    let folder = Folder::new();
    let log = folder.file("run.tarmac", "10 ns IT (1) 00010000 d2800020 O EL1h_n : MOV      x0,#1\n");
    on("index", &log, &["--source", "0x10"]).expect(2, &["not a capture"]);
    let lines: Vec<Value> = on("index", &log, &["--json"]).json();
    assert_eq!(lines[0]["lines"], 1);
}
