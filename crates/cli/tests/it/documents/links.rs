//! Links between documents: the file exists, and so does the heading.

use std::fs;
use std::path::Path;

use unspool_testing::repository;

/// Targets of the links in a text, without those to other hosts.
pub(super) fn targets(text: &str) -> impl Iterator<Item = &str> {
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    ends.map(|(target, _)| target).filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// Links of a document that lead nowhere.
pub(super) fn broken(path: &str, text: &str) -> Vec<String> {
    let is_broken = |target: &&str| !exists(path, text, target);
    targets(text).filter(is_broken).map(|target| format!("{path}: {target}")).collect()
}

fn exists(path: &str, text: &str, target: &str) -> bool {
    let (file, heading) = target.split_once('#').map_or((target, None), |(file, heading)| (file, Some(heading)));
    let found = repository(path).parent().unwrap_or(Path::new("")).join(file);
    let linked = if file.is_empty() { Some(text.to_string()) } else { fs::read_to_string(&found).ok() };
    match heading {
        Some(heading) => linked.is_some_and(|text| headings(&text).any(|found| found == heading)),
        None => found.exists(),
    }
}

/// Headings as they are in links.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let kept = line.trim_start_matches('#').trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    })
}

#[test]
fn broken_links_are_found() {
    let text = "# A title, this\n[a](#a-title-this) [b](#none) [c](../README.md) [d](none.md) [e](https://example.com)";
    assert_eq!(broken("docs/SUMMARY.md", text), ["docs/SUMMARY.md: #none", "docs/SUMMARY.md: none.md"]);
}
