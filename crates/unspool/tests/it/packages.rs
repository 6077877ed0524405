//! Packages for crates.io: every crate has the metadata and the files that a stranger looks for there.
//!
//! Takes the output of `cargo metadata`. What the packages contain is tried by `cargo publish --dry-run` in `.ci/run`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use unspool_testing::repository;

/// Limits of crates.io.
const MAX_KEYWORDS: usize = 5;
const MAX_KEYWORD: usize = 20;

/// Categories of crates.io that we use; it drops others with a warning.
const CATEGORIES: [&str; 10] = [
    "command-line-utilities",
    "compression",
    "data-structures",
    "development-tools::debugging",
    "development-tools::profiling",
    "embedded",
    "emulators",
    "encoding",
    "no-std",
    "parser-implementations",
];

/// Packages of the workspace that are published.
fn published() -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--format-version", "1", "--no-deps"];
    let output = Command::new(cargo).args(arguments).current_dir(repository("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array_mut().unwrap();
    packages.drain(..).filter(|package| package["publish"].is_null()).collect()
}

fn list(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

#[test]
fn every_package_introduces_itself() {
    let packages = published();
    assert!(packages.len() > 10, "{}", packages.len());
    for package in &packages {
        let name = &package["name"];
        for key in ["description", "documentation", "license", "readme", "repository", "rust_version"] {
            assert!(package[key].as_str().is_some_and(|text| !text.is_empty()), "{name}: no {key}");
        }
        assert_eq!(package["repository"], "https://github.com/unspool/unspool", "{name}");
        let keywords = list(&package["keywords"]);
        let is_keyword = |word: &&str| {
            let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_+".contains(letter);
            word.len() <= MAX_KEYWORD
                && word.starts_with(|c: char| c.is_ascii_alphanumeric())
                && word.chars().all(is_allowed)
        };
        assert!(
            (1..=MAX_KEYWORDS).contains(&keywords.len()) && keywords.iter().all(is_keyword),
            "{name}: {keywords:?}"
        );
        let categories = list(&package["categories"]);
        assert!(!categories.is_empty(), "{name}: no category");
        assert!(categories.iter().all(|category| CATEGORIES.contains(category)), "{name}: {categories:?}");
    }
}

#[test]
fn every_package_has_its_readme_and_licenses() {
    for package in published() {
        let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        for file in [package["readme"].as_str().unwrap(), "LICENSE-MIT", "LICENSE-APACHE"] {
            let path = folder.join(file);
            assert!(std::fs::metadata(&path).is_ok_and(|found| found.len() > 0), "{} is missing", path.display());
        }
    }
}

/// A package is published after all that it depends on, so a circle through tests would leave none to start with.
#[test]
fn tests_do_not_hold_up_publishing() {
    for package in published() {
        for dependency in package["dependencies"].as_array().unwrap() {
            let (name, is_ours) = (&dependency["name"], dependency["path"].is_string());
            let (is_for_tests, has_version) = (dependency["kind"] == "dev", dependency["req"] != "*");
            assert!(
                !is_ours || is_for_tests != has_version,
                "{}: {name} {}",
                package["name"],
                if is_for_tests { "is for tests and has a version" } else { "has no version" }
            );
        }
    }
}
