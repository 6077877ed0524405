//! Header and totals of an ASTF file.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use unspool_astf::read::Warning;
use unspool_astf::record::{Header, Level, RECORD_BYTES, Storage};
use unspool_astf::stats::{Counts, TRAPS, TYPES};

use crate::file::{AstfFile, End, FileError};
use crate::meter::OnProgress;

/// Header and totals of an ASTF file.
#[derive(Debug)]
pub struct AstfInfo {
    /// Name in messages.
    pub name: String,
    /// Header.
    pub header: Header,
    /// Size of the file in bytes.
    pub size: Option<u64>,
    /// Oddities of the header.
    pub warnings: Vec<Warning>,
    /// Totals, if the records were read.
    pub counts: Option<Counts>,
    /// How reading ended.
    pub end: End,
}

impl AstfInfo {
    /// Reads a file; `quick`: only its header.
    pub fn read(file: &mut AstfFile, quick: bool, progress: &mut OnProgress<'_>) -> Result<Self, FileError> {
        let (mut counts, mut size, mut end) = (None, file.meter().size, End::Stopped);
        if !quick {
            let counts = counts.insert(Counts::default());
            end = file.each(progress, |_, records| {
                records.iter().for_each(|record| counts.add(record));
                true
            })?;
            size = Some(file.meter().bytes_read());
        }
        let (name, header, warnings) = (file.name().to_string(), *file.header(), file.warnings().to_vec());
        Ok(Self { name, header, size, warnings, counts, end })
    }

    /// Bytes of the records, uncompressed.
    pub fn unpacked(&self, counts: &Counts) -> u64 {
        counts.records() * RECORD_BYTES as u64
    }

    /// Compression ratio: bytes of records per byte of the file.
    pub fn ratio(&self, counts: &Counts) -> Option<f64> {
        self.size.filter(|size| *size > 0).map(|size| self.unpacked(counts) as f64 / size as f64)
    }

    /// Everything as JSON.
    pub fn json(&self) -> Value {
        let header = &self.header;
        let mut page = json!({
            "kind": "astf",
            "file": self.name,
            "format": "astf",
            "version": format!("{}.{}", header.version_major, header.version_minor),
            "level": level_name(header).to_lowercase(),
            "storage": storage_name(header).to_lowercase(),
            "features": features(header),
            "bytes": self.size,
            "warnings": self.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "damage": match &self.end { End::Damaged(text) => Some(text), _ => None },
        });
        if let Some(counts) = &self.counts {
            page["unpacked_bytes"] = json!(self.unpacked(counts));
            page["ratio"] = json!(self.ratio(counts));
            counts_json(counts, &mut page);
        }
        page
    }
}

/// Name of the level.
pub fn level_name(header: &Header) -> &'static str {
    match header.level() {
        Level::Basic => "Basic",
        Level::BasicPlus => "BasicPlus",
    }
}

/// Name of the storage.
pub fn storage_name(header: &Header) -> &'static str {
    match header.storage() {
        Storage::Raw => "RAW",
        Storage::Lzma => "LZMA",
        Storage::Zlib => "zlib",
    }
}

/// The feature flags that are set.
pub fn features(header: &Header) -> Vec<&'static str> {
    let all = [
        (header.reginfo, "reginfo"),
        (header.meminfo, "meminfo"),
        (header.addrinfo_d, "addrinfo_d"),
        (header.addrinfo_i, "addrinfo_i"),
        (header.pseudo, "pseudo"),
        (header.single_el, "single_el"),
        (header.timestamps, "timestamps"),
    ];
    all.into_iter().filter_map(|(set, name)| set.then_some(name)).collect()
}

fn counts_json(counts: &Counts, page: &mut Value) {
    let types: BTreeMap<&str, u64> = TYPES.into_iter().zip(counts.types).collect();
    let traps: BTreeMap<&str, u64> = TRAPS.into_iter().zip(counts.traps).collect();
    page["records"] = json!(counts.records());
    page["types"] = json!(types);
    page["instructions"] = json!(counts.instructions());
    page["instructions_at_el"] = json!(counts.at_level);
    page["branches"] = json!({"taken": counts.taken, "not_taken": counts.not_taken});
    page["reads"] = json!({"count": counts.reads, "bytes": counts.bytes_read});
    page["writes"] = json!({"count": counts.writes, "bytes": counts.bytes_written});
    page["other_accesses"] = json!(counts.others);
    page["tagged_accesses"] = json!(counts.tagged);
    page["trapping_instructions"] = json!(counts.trapping);
    page["traps"] = json!(traps);
    page["contexts"] = json!(counts.contexts);
    page["pids"] = json!(counts.processes.keys().collect::<Vec<_>>());
    page["first_time"] = json!(counts.time.map(|(first, _)| first));
    page["last_time"] = json!(counts.time.map(|(_, last)| last));
    page["strings"] = json!(counts.strings);
    page["more_strings"] = json!(counts.more_strings);
}
