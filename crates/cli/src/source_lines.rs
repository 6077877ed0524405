//! Source lines for verbs that show them: where debug information is, notes about it, and the text of source files.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use unspool::SpaceOptions;
use unspool::lines::Lines;

use crate::args::ImageArgs;
use crate::listing::report_images;

/// Largest source file that is shown.
const FILE_LIMIT: u64 = 64 << 20;

/// Source lines, with separate debug files from where the options say that files are.
pub(crate) fn source_lines(spaces: &SpaceOptions, images: &ImageArgs) -> Lines {
    let mut search = spaces.search.clone();
    search.given.extend(images.paths().into_iter().map(Path::to_path_buf));
    Lines::new(search)
}

/// Reports problems of debug information.
pub(crate) fn report_lines(lines: Option<&Lines>) {
    if let Some(lines) = lines {
        report_images(&lines.take_notes(), &mut BTreeSet::new());
    }
}

/// Where source files are now.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct SourcePathArgs {
    /// Look for source files below NEW whose path in the debug information starts with OLD. Can be repeated
    #[arg(long, value_name = "OLD=NEW", value_parser = parse_pair)]
    source_path: Vec<(String, String)>,
}

impl SourcePathArgs {
    /// The path of a source file on this machine.
    pub(crate) fn path(&self, recorded: &str) -> PathBuf {
        let moved = |(old, new): &(String, String)| {
            let rest = recorded.strip_prefix(old.as_str())?;
            let is_whole = rest.is_empty() || old.ends_with('/') || rest.starts_with(['/', '\\']);
            is_whole.then(|| format!("{new}{rest}"))
        };
        self.source_path.iter().find_map(moved).unwrap_or_else(|| recorded.to_string()).into()
    }
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(old, _)| !old.is_empty());
    pair.map(|(old, new)| (old.to_string(), new.to_string())).ok_or_else(|| format!("'{text}' is not OLD=NEW"))
}

/// Text of source files, each read once.
#[derive(Debug, Default)]
pub(crate) struct SourceFiles {
    paths: SourcePathArgs,
    files: HashMap<String, Option<Vec<String>>>,
}

impl SourceFiles {
    pub(crate) fn new(paths: &SourcePathArgs) -> Self {
        Self { paths: paths.clone(), files: HashMap::new() }
    }

    /// All lines of a file, by its path in the debug information; `None` if it is not found.
    pub(crate) fn lines(&mut self, recorded: &str) -> Option<&[String]> {
        if !self.files.contains_key(recorded) {
            self.files.insert(recorded.to_string(), read_lines(&self.paths.path(recorded)));
        }
        self.files.get(recorded)?.as_deref()
    }

    /// A line, counted from 1.
    pub(crate) fn line(&mut self, recorded: &str, line: u32) -> Option<&str> {
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        self.lines(recorded)?.get(index).map(String::as_str)
    }
}

/// The lines of a regular file.
fn read_lines(path: &Path) -> Option<Vec<String>> {
    fs::metadata(path).ok().filter(|about| about.is_file() && about.len() <= FILE_LIMIT)?;
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_LIMIT).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).lines().map(str::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_source_files_are_moved() {
        let pairs = ["/build=/home/me/src", "/usr/src/=/opt/"].map(|pair| parse_pair(pair).unwrap_or_default());
        let args = SourcePathArgs { source_path: pairs.to_vec() };
        let rows = [
            ("/build/a.c", "/home/me/src/a.c"),
            ("/builder/a.c", "/builder/a.c"),
            ("/usr/src/x/a.c", "/opt/x/a.c"),
            ("a.c", "a.c"),
        ];
        rows.iter().for_each(|(from, to)| assert_eq!(args.path(from), Path::new(to), "{from}"));
        assert!(parse_pair("a").is_err() && parse_pair("=b").is_err());
    }
}
