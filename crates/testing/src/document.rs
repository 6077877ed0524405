//! Documents that tests generate.

use std::fs;

use crate::repository;

/// Compares a file of the repository with its generated text; with `UPDATE=1` it is written first.
///
/// # Panics
///
/// If they differ; the message has the first different line, and the command (`how`) that writes the file.
#[track_caller]
pub fn assert_document(path: &str, text: &str, how: &str) {
    let file = repository(path);
    let written = || fs::read_to_string(&file).unwrap_or_default();
    if std::env::var_os("UPDATE").is_some() && written() != text {
        fs::write(&file, text).expect("the document can be written");
    }
    let written = written();
    let different = first_difference(&written, text);
    assert!(written == text, "{path} is out of date; write it with `UPDATE=1 {how}`\n{different}");
}

/// The first line in which two texts differ, with its number.
fn first_difference(written: &str, text: &str) -> String {
    let same = written.lines().zip(text.lines()).take_while(|(written, text)| written == text).count();
    let line = |text: &str| text.lines().nth(same).unwrap_or("(end)").to_string();
    format!("line {}: {}\n      now: {}", same + 1, line(written), line(text))
}
