//! Scenario files: one behavior each, as text.
//!
//! A file has a `registers:` line and sections; a section opens with its name and a colon at the start of a line, and
//! has one item per line. `;` starts a comment. What an item means is for the test to know.

use std::fs;
use std::path::Path;

/// One scenario file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// The name of the file, without its extension.
    pub name: String,
    /// The words after `registers:`.
    pub registers: String,
    /// Section and item of each line, in the order of the file.
    items: Vec<(String, String)>,
}

impl Scenario {
    /// Parses the text of a file.
    ///
    /// # Panics
    ///
    /// If there is no `registers:` line.
    #[must_use]
    pub fn parse(name: &str, text: &str) -> Self {
        let (mut registers, mut section, mut items) = (None, "", Vec::new());
        let lines = text.lines().map(|line| line.split(';').next().unwrap_or("").trim_end());
        for line in lines.filter(|line| !line.trim().is_empty()) {
            match line.split_once(':') {
                Some(("registers", words)) => registers = Some(words.trim().to_string()),
                Some((name, "")) if !line.starts_with(' ') => section = name,
                _ => items.push((section.to_string(), line.trim().to_string())),
            }
        }
        let registers = registers.unwrap_or_else(|| panic!("{name}: no registers: line"));
        Self { name: name.to_string(), registers, items }
    }

    /// All items in the order of the file, each after the name of its section.
    pub fn items(&self) -> impl Iterator<Item = (&str, &str)> {
        self.items.iter().map(|(section, item)| (section.as_str(), item.as_str()))
    }

    /// The items of one section.
    #[must_use]
    pub fn section(&self, name: &str) -> Vec<&str> {
        self.items.iter().filter(|(section, _)| section == name).map(|(_, item)| item.as_str()).collect()
    }

    /// Fails if there is a section that is none of these.
    ///
    /// # Panics
    ///
    /// If there is one.
    #[track_caller]
    pub fn assert_sections(&self, known: &[&str]) {
        let unknown = self.items.iter().find(|(section, _)| !known.contains(&section.as_str()));
        assert_eq!(unknown, None, "{}: unknown section", self.name);
    }
}

/// All scenarios of a folder, sorted by name.
///
/// # Panics
///
/// If the folder or a file cannot be read.
#[must_use]
pub fn scenarios(folder: &Path) -> Vec<Scenario> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Scenario::parse(&name, &fs::read_to_string(path).expect("a text"))
    };
    paths.iter().map(read).collect()
}
