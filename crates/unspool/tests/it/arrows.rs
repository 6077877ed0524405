//! Dependencies between crates: the table in `ARCHITECTURE.md` and the manifests agree.
//!
//! Compares the document with the output of `cargo metadata`, so that neither can change without the other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Dependencies of each crate within the workspace.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Heading above the table.
const HEADING: &str = "## The arrows";

/// A crate may hold one part in this many of the source lines.
const MIN_PARTS: usize = 5;

/// Crates that `cargo test` leaves out: each has a script that `.ci/run` calls.
const BESIDES: [&str; 3] = ["capi", "python", "tables"];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Rows such as ``| `capture` | `coresight` |`` under the heading.
fn documented() -> Arrows {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let section = text.lines().skip_while(|line| *line != HEADING).skip(1).take_while(|line| !line.starts_with('#'));
    let rows = section.filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let [name, uses] = cells[..] else { panic!("'{row}' does not have two cells") };
        let [name] = &quoted(name)[..] else { panic!("'{row}' does not name one crate") };
        (name.clone(), quoted(uses).into_iter().collect())
    })
    .collect()
}

/// Text between backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_string).collect()
}

/// What cargo knows of the workspace.
fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--format-version", "1", "--no-deps"];
    let output = Command::new(cargo).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Normal dependencies between the packages of the workspace.
fn in_manifests() -> Arrows {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let names: BTreeSet<&str> = packages.iter().map(|package| text(&package["name"])).collect();
    let uses = |package: &Value| {
        let all = package["dependencies"].as_array().unwrap().iter();
        // The kind of a normal dependency is null; those of tests and build scripts have one.
        let normal = all.filter(|dependency| dependency["kind"].is_null()).map(|dependency| text(&dependency["name"]));
        normal.filter(|name| names.contains(name)).map(noun).collect()
    };
    packages.iter().map(|package| (noun(text(&package["name"])), uses(package))).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Name of a package without the prefix: `capture` for `unspool-capture`.
fn noun(package: &str) -> String {
    package.strip_prefix("unspool-").unwrap_or(package).to_string()
}

#[test]
fn document_and_manifests_agree() {
    let documented = documented();
    assert!(!documented.is_empty(), "ARCHITECTURE.md has no table under '{HEADING}'");
    assert_eq!(documented, in_manifests(), "left: ARCHITECTURE.md, right: cargo metadata");
}

/// Only tables and bindings for other languages are left out of `cargo test`, since `.ci/run` tests them by themselves.
#[test]
fn the_default_members_are_all_crates_but_these() {
    let metadata = metadata();
    let tested = metadata["workspace_default_members"].as_array().unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let mut left_out: Vec<String> = packages
        .filter(|package| !tested.contains(&package["id"]))
        .map(|package| noun(text(&package["name"])))
        .collect();
    left_out.sort();
    assert_eq!(left_out, BESIDES, "left: members that are not in `default-members` of Cargo.toml");
}

#[test]
fn no_crate_holds_more_than_a_fifth_of_the_lines() {
    let lines: BTreeMap<String, usize> = in_manifests()
        .into_keys()
        .map(|name| (name.clone(), lines_below(&root().join("crates").join(name).join("src"))))
        .collect();
    let total: usize = lines.values().sum();
    let (largest, count) = lines.iter().max_by_key(|(_, count)| **count).unwrap();
    assert!(count * MIN_PARTS <= total, "{largest} has {count} of {total} lines");
}

/// Lines of Rust in a folder and all folders below it.
fn lines_below(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| match path.extension() {
            None => lines_below(&path),
            Some(_) => fs::read_to_string(&path).unwrap().lines().count(),
        })
        .sum()
}
