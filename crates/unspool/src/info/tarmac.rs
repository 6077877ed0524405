//! Dialect and totals of a Tarmac log.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use unspool_container::Container;
use unspool_tarmac::stats::Summary;
use unspool_tarmac::text::Text;

use crate::file::{End, FileError, TarmacFile};
use crate::meter::OnProgress;

/// Lines that a quick summary reads.
const QUICK: u64 = 10_000;

/// Dialect and totals of a log.
#[derive(Debug)]
pub struct TarmacInfo {
    /// Name in messages.
    pub name: String,
    /// Only the first lines were read.
    pub is_quick: bool,
    /// Container.
    pub container: Container,
    /// Name of the dialect.
    pub dialect: &'static str,
    /// Size of the file in bytes.
    pub size: Option<u64>,
    /// Totals.
    pub summary: Summary,
    /// How reading ended.
    pub end: End,
}

impl TarmacInfo {
    /// Reads a log; `quick`: only its first lines.
    pub fn read(file: &mut TarmacFile, quick: bool, progress: &mut OnProgress<'_>) -> Result<Self, FileError> {
        let mut summary = Summary::default();
        let end = file.each(progress, |position, line| {
            summary.add(position, line);
            !quick || position.line < QUICK
        })?;
        let meter = file.meter();
        Ok(Self {
            name: file.name().to_string(),
            is_quick: quick,
            container: file.container(),
            dialect: file.dialect().name(),
            size: meter.size.or_else(|| (end == End::Whole).then(|| meter.bytes_read())),
            summary,
            end,
        })
    }

    /// Description of the container.
    pub fn container_text(&self) -> &'static str {
        match self.container {
            Container::Gzip => "in a gzip file",
            Container::Xz => "in an .xz file",
            Container::Zstd => "in a zstd file",
            _ => "plain",
        }
    }

    /// Everything as JSON.
    pub fn json(&self) -> Value {
        let table = |names: &BTreeMap<Vec<u8>, u64>| -> Value {
            names
                .iter()
                .map(|(name, count)| (Text(name).to_string(), json!(count)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        json!({
            "kind": "tarmac",
            "file": self.name,
            "format": "tarmac",
            "dialect": self.dialect,
            "container": self.container.to_string(),
            "bytes": self.size,
            "header": self.summary.header.as_ref().map(|(revision, flags)| json!({"revision": revision, "flags": flags})),
            "quick": self.is_quick,
            "lines": self.summary.lines,
            "kinds": self.summary.kinds,
            "instructions": self.summary.instructions(),
            "skipped": self.summary.skipped,
            "sets": self.summary.sets,
            "modes": table(&self.summary.modes),
            "cores": table(&self.summary.cores),
            "exceptions": self.summary.exceptions,
            "address": self.summary.start.map(|start| format!("{start:#x}")),
            "first_time": self.summary.first.map(|time| time.to_string()),
            "last_time": self.summary.last.map(|time| time.to_string()),
        })
    }
}
