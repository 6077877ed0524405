//! Lookup of a file by its name in a package: the result, and the paths that stay inside the package.

/// Result of looking up a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The file exists under this name; `exact` unless the name matches only when case is ignored.
    File { name: String, size: u64, exact: bool },
    /// The file does not exist.
    Missing,
    /// The name points outside the package.
    Outside,
    /// The file exists but cannot be used, for this reason.
    Unusable(String),
}

/// The components of a path inside a package; `None` if the path points outside.
pub(crate) fn path_components(name: &str) -> Option<Vec<&str>> {
    let mut path = Vec::new();
    if is_rooted(name) || name.contains('\0') {
        return None;
    }
    for part in name.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." => drop(path.pop()?),
            part => path.push(part),
        }
    }
    Some(path)
}

/// Whether the path is absolute on Unix or Windows.
fn is_rooted(name: &str) -> bool {
    let mut chars = name.chars();
    let first = chars.next();
    let drive = first.is_some_and(|c| c.is_ascii_alphabetic()) && chars.next() == Some(':');
    drive || matches!(first, Some('/' | '\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside_the_package() {
        let rows: &[(&str, Option<&str>)] = &[
            ("a.bin", Some("a.bin")),
            ("dir/a.bin", Some("dir/a.bin")),
            ("dir\\a.bin", Some("dir/a.bin")),
            ("./dir//a.bin", Some("dir/a.bin")),
            ("dir/../a.bin", Some("a.bin")),
            ("../a.bin", None),
            ("dir/../../a.bin", None),
            ("..\\a.bin", None),
            ("/etc/passwd", None),
            ("\\\\server\\share", None),
            ("C:\\a.bin", None),
            ("c:a.bin", None),
            ("a\0b", None),
            ("", Some("")),
        ];
        for (name, expected) in rows {
            assert_eq!(path_components(name).map(|path| path.join("/")).as_deref(), *expected, "{name:?}");
        }
    }
}
