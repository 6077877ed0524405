//! Documents that tests generate.

use std::fs;

use crate::repository;

/// Compares a file of the repository with its generated text; with `UPDATE=1` it is written first.
///
/// # Panics
///
/// If they differ; the message has the command (`how`) that writes the file.
#[track_caller]
pub fn assert_document(path: &str, text: &str, how: &str) {
    let file = repository(path);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&file, text).expect("the document can be written");
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert!(written == text, "{path} is out of date; write it with `UPDATE=1 {how}`");
}
