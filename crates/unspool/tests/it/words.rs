//! The vocabulary: no file uses a phrase of the table "Words we avoid" in `GLOSSARY.md`.
//!
//! Identifiers count as much as prose: `is_told` and `StepTeller` are split into their words. Hyphenated words do not
//! count, because names of rules in reports never change.

use std::fs;
use std::path::{Path, PathBuf};

use unspool_testing::repository;

/// The heading of the table.
const HEADING: &str = "## Words we avoid";

/// Folders and documents that are searched, from the root of the repository.
const SEARCHED: [&str; 9] = [
    "crates",
    "fuzz",
    "benches",
    "docs",
    "examples",
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
];

/// Machine-read text, which never changes: notes in recorded traces, keys and kinds in JSON.
const FIXED: [&str; 1] = ["execution goes on"];

/// The phrases of the first column.
fn avoided() -> Vec<String> {
    let text = fs::read_to_string(repository("GLOSSARY.md")).unwrap();
    let rows = text.lines().skip_while(|line| *line != HEADING).filter(|line| line.starts_with('|')).skip(2);
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    cells.flat_map(|cell| cell.split(',')).map(|phrase| format!(" {} ", phrase.trim())).collect()
}

/// Rust sources and documents in a folder, or the document itself.
fn files(path: &Path, found: &mut Vec<PathBuf>) {
    let is_text = path.extension().is_some_and(|extension| extension == "rs" || extension == "md");
    if path.is_dir() && !path.ends_with("target") {
        fs::read_dir(path).unwrap().for_each(|entry| files(&entry.unwrap().path(), found));
    } else if is_text && path.is_file() && !path.ends_with("it/words.rs") {
        found.push(path.to_path_buf());
    }
}

/// The words of a line in lower case, with a space around each.
fn split(line: &str) -> String {
    let mut words = String::from(" ");
    let mut was_lower = false;
    for character in line.chars() {
        if character.is_ascii_uppercase() && was_lower {
            words.push(' ');
        }
        was_lower = character.is_ascii_lowercase() || character.is_ascii_digit();
        let is_word = character.is_ascii_alphanumeric() || character == '-';
        words.push(if is_word { character.to_ascii_lowercase() } else { ' ' });
    }
    words.push(' ');
    words.split_whitespace().fold(String::from(" "), |all, word| all + word + " ")
}

#[test]
fn no_file_uses_a_word_that_the_glossary_avoids() {
    let phrases = avoided();
    assert!(phrases.len() > 10, "{phrases:?}");
    let mut paths = Vec::new();
    SEARCHED.iter().for_each(|path| files(&repository(path), &mut paths));
    assert!(paths.len() > 500, "only {} files", paths.len());
    let mut uses = Vec::new();
    for path in paths {
        for (number, line) in (1..).zip(fs::read_to_string(&path).unwrap().lines()) {
            let words = split(&FIXED.iter().fold(line.to_string(), |line, fixed| line.replace(fixed, "")));
            let found = phrases.iter().filter(|phrase| words.contains(&**phrase));
            uses.extend(found.map(|phrase| format!("{}:{number}:{phrase}", path.display())));
        }
    }
    assert!(uses.is_empty(), "{} uses of words that GLOSSARY.md avoids:\n{}", uses.len(), uses.join("\n"));
}

#[test]
fn identifiers_are_split_into_words() {
    assert_eq!(split("let is_told = StepTeller::new(MOST_X);"), " let is told step teller new most x ");
    assert_eq!(split("`astf-context-behind-trap`"), " astf-context-behind-trap ");
}
