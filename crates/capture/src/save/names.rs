//! Names of files in a package: safe on every system, and each used once.
//!
//! name or path from anywhere ─▶ **names** ─▶ relative name without `..`, drive or special characters

use std::collections::HashSet;

use crate::code::file_names;
use crate::lookup::path_components;
use crate::open::{CONTENTS, SNAPSHOT};

/// Maximum number of characters of a component, and of a name.
const COMPONENT_LIMIT: usize = 100;
const NAME_LIMIT: usize = 1000;

/// Names in use, in lower case, since the target file system may ignore case.
#[derive(Debug)]
pub(super) struct Names {
    /// Files and folders.
    used: HashSet<String>,
    folders: HashSet<String>,
}

impl Names {
    pub(super) fn new() -> Self {
        // A file named `snapshot.ini` would turn the package into a snapshot.
        Self { used: HashSet::from([CONTENTS, SNAPSHOT].map(str::to_string)), folders: HashSet::new() }
    }

    /// Keeps generated files from this name.
    pub(super) fn block(&mut self, name: &str) {
        self.used.insert(name.to_ascii_lowercase());
    }

    /// Reserves the name of a copied file, moved into a folder if the name is in use.
    pub(super) fn reserve(&mut self, name: &str) -> String {
        let mut name = name.to_string();
        while name.is_empty() || self.is_used(&name.to_ascii_lowercase()) {
            name.insert_str(0, if name.is_empty() { "image" } else { "images/" });
        }
        let lower = name.to_ascii_lowercase();
        self.folders.extend(parents(&lower).map(str::to_string));
        self.used.extend(parents(&lower).map(str::to_string).chain([lower.clone()]));
        name
    }

    /// Whether a file cannot have this name: another has it, or the name of one of its folders.
    fn is_used(&self, lower: &str) -> bool {
        let is_file = |name: &str| self.used.contains(name) && !self.folders.contains(name);
        self.used.contains(lower) || parents(lower).any(is_file)
    }

    /// Reserves an unused name for a generated file.
    pub(super) fn unused(&mut self, stem: &str, extension: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
        let stem: String = stem.chars().take(64).map(plain).collect();
        let names = (0..).map(|number| match number {
            0 => format!("{stem}.{extension}"),
            number => format!("{stem}_{number}.{extension}"),
        });
        let mut free = names.filter(|name| !self.used.contains(&name.to_ascii_lowercase()));
        let name = free.next().unwrap_or_default();
        self.used.insert(name.to_ascii_lowercase());
        name
    }
}

/// The folders of a name.
fn parents(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(at, _)| &name[..at])
}

/// The name in a package for an image that events name: its path without the root, or the name of the file that it is
/// searched as.
pub(super) fn name_of_image(image: &str) -> String {
    let inside = path_components(image.trim_start_matches(['/', '\\'])).unwrap_or_default().join("/");
    if image.contains('/') && !inside.is_empty() {
        return plain_name(&inside);
    }
    let names = file_names(image).unwrap_or_default();
    plain_name(names.first().map_or("", String::as_str))
}

/// A path that every system can have.
pub(super) fn plain_name(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "._-+@=,~ ".contains(c);
    let plain = |part: &str| {
        let part: String = part.chars().take(COMPONENT_LIMIT).map(|c| if is_plain(c) { c } else { '_' }).collect();
        let part = part.trim().trim_end_matches('.').to_string();
        if part.is_empty() { "_".to_string() } else { part }
    };
    let parts: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(plain).collect();
    let name = parts.join("/");
    if name.len() <= NAME_LIMIT { name } else { parts.last().cloned().unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_get_safe_names() {
        let rows = [
            ("/usr/lib/libc.so.6", "usr/lib/libc.so.6"),
            ("lib.so", "lib.so"),
            ("../x", "x"),
            ("../../etc/x", "x"),
            ("/a/../../x", "x"),
            ("/a/../b/x", "b/x"),
            ("C:\\dir\\x.dll", "x.dll"),
            ("c:x", "c_x"),
            ("C:/dir/x.dll", "x.dll"),
            ("\\\\host\\share\\x", "x"),
            ("[vdso]", "vdso.so"),
            ("[kernel.kallsyms]_text", "vmlinux"),
            ("[ext4]", "ext4.ko"),
            ("/data/app; rm #1/ x ", "data/app_ rm _1/x"),
            ("/a/b\nc", "a/b_c"),
            ("/a/.../x", "a/_/x"),
            ("", ""),
        ];
        for (image, expected) in rows {
            assert_eq!(name_of_image(image), expected, "{image:?}");
        }
        let long = format!("/{}/{}", "d/".repeat(600), "n".repeat(300));
        assert_eq!(name_of_image(&long), "n".repeat(COMPONENT_LIMIT));
    }

    #[test]
    fn names_are_used_once_whatever_their_case() {
        let mut names = Names::new();
        names.block("gone");
        let rows = [
            ("bin/app", "bin/app"),
            ("bin/app", "images/bin/app"),
            ("BIN/APP", "images/images/BIN/APP"),
            ("bin", "images/images/images/bin"),
            ("lib", "lib"),
            ("lib/app", "images/lib/app"),
            ("Contents.ini", "images/Contents.ini"),
            ("gone", "images/gone"),
            ("", "image"),
        ];
        for (name, expected) in rows {
            assert_eq!(names.reserve(name), expected, "{name}");
        }
        assert_eq!([names.unused("gone", "bin"), names.unused("gone", "bin")], ["gone.bin", "gone_1.bin"]);
    }
}
