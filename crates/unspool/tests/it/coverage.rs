//! The table of `docs/ete-coverage.md`: every section has an implementation and a test that exist.

use std::fs;

use unspool_testing::repository;

/// Sections of the first document, without those below them. The second document is checked by its first and last section.
const ETE_SECTIONS: [(&str, u32); 9] = [
    ("K10.5.1", 3),
    ("K10.5.2", 18),
    ("K10.5.3", 6),
    ("K10.5.4", 4),
    ("K10.5.5", 18),
    ("K10.5.6", 4),
    ("K10.5.7", 6),
    ("K10.5.8", 4),
    ("K10.5", 11),
];

/// A row: section, file that implements it, file of its test, and name of the test unless the file is a scenario.
struct Row<'t> {
    section: &'t str,
    implementation: &'t str,
    test_file: &'t str,
    test: Option<&'t str>,
}

#[test]
fn files_and_tests_of_the_table_exist() {
    let document = document();
    let rows = rows(&document);
    assert!(rows.len() > 100, "only {} rows", rows.len());
    let gone: Vec<String> = rows.iter().filter_map(missing).collect();
    assert!(gone.is_empty(), "{}", gone.join("\n"));
}

#[test]
fn every_section_has_a_row() {
    let document = document();
    let rows = rows(&document);
    let has = |section: &str| {
        let below = format!("{section}.");
        rows.iter().any(|row| row.section == section || row.section.starts_with(&below))
    };
    let sections = ETE_SECTIONS.iter().flat_map(|(above, count)| (1..=*count).map(move |n| format!("{above}.{n}")));
    let missing: Vec<String> = sections.filter(|section| !has(section)).collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
    assert!(has("4.1") && has("6.4"));
}

fn document() -> String {
    fs::read_to_string(repository("docs/ete-coverage.md")).expect("the table")
}

fn rows(document: &str) -> Vec<Row<'_>> {
    let lines = document.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| section"));
    lines.map(row).collect()
}

fn row(line: &str) -> Row<'_> {
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let [section, _, implementation, test] = cells[..] else { panic!("not four cells: {line}") };
    let mut words = test.split('`').map(str::trim).filter(|word| !word.is_empty());
    let test_file = words.next().unwrap_or_else(|| panic!("no test: {line}"));
    Row { section, implementation: implementation.trim_matches('`'), test_file, test: words.next() }
}

/// What a row names that is not there.
fn missing(row: &Row<'_>) -> Option<String> {
    let Row { section, implementation, test_file, test } = row;
    let read = |path: &str| fs::read_to_string(repository(&format!("crates/{path}")));
    if read(implementation).is_err() {
        return Some(format!("{section}: no file {implementation}"));
    }
    let Ok(text) = read(test_file) else { return Some(format!("{section}: no file {test_file}")) };
    let is_there = match test {
        None => text.contains("packets:"),
        Some(test) => text.contains(&format!("fn {test}(")) && text.contains("#[test]"),
    };
    (!is_there).then(|| format!("{section}: no test {} in {test_file}", test.unwrap_or("packets")))
}
