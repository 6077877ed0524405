//! Source files that the debug information names, and how often their lines were executed.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::Refusal;
use crate::job::locked;
use crate::parameters::Parameters;
use crate::source::Source;

/// Limit of the size of a source file.
const MAX_SIZE: u64 = 16 << 20;

/// Files with numbers, which stay the same.
#[derive(Debug, Default)]
pub(crate) struct Files(Vec<Arc<str>>);

impl Files {
    /// The number of a file.
    pub(crate) fn number(&mut self, path: &Arc<str>) -> usize {
        self.0.iter().position(|known| known == path).unwrap_or_else(|| {
            self.0.push(Arc::clone(path));
            self.0.len() - 1
        })
    }

    /// All of them.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

/// Answers a request for a source file: one that an instruction on the page comes from, and no other.
pub(crate) fn answer(source: &Source, parameters: &mut Parameters) -> Result<Value, Refusal> {
    let number = parameters.number("file", 0..=usize::MAX)?;
    let path = locked(&source.files).0.get(number).cloned();
    let path = path.ok_or_else(|| Refusal::absent("no instruction so far comes from this file"))?;
    let counts = source.line_counts.result().map_or_else(|| json!({}), |counts| counts.json(&path));
    Ok(match read(Path::new(&*path)) {
        Ok(text) => json!({"path": &*path, "lines": text.lines().collect::<Vec<_>>(), "counts": counts, "why": null}),
        Err(why) => json!({"path": &*path, "lines": [], "counts": counts, "why": format!("{path}: {why}")}),
    })
}

fn read(path: &Path) -> Result<String, String> {
    let about = fs::metadata(path).map_err(|error| error.to_string())?;
    if !about.is_file() || about.len() > MAX_SIZE {
        return Err("not a file of source text".to_string());
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(MAX_SIZE).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
