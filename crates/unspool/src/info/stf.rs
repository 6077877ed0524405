//! Header and totals of an STF file.

use serde_json::{Value, json};
use unspool_stf::header::{Header, OwnedTraceInfo};
use unspool_stf::names;
use unspool_stf::read::{ChunkSizes, Storage, Warning};
use unspool_stf::stats::Contents;

use crate::file::{End, FileError, StfFile};
use crate::meter::OnProgress;

/// Header and totals of an STF file.
#[derive(Debug)]
pub struct StfInfo {
    /// Name in messages.
    pub name: String,
    /// Storage of the records.
    pub storage: Storage,
    /// Sizes of its chunks.
    pub chunks: Option<ChunkSizes>,
    /// Size of the file in bytes.
    pub size: Option<u64>,
    /// Header.
    pub header: Header,
    /// Totals, if the records were read.
    pub contents: Option<Contents>,
    /// Oddities of the file.
    pub warnings: Vec<Warning>,
    /// How reading ended.
    pub end: End,
}

impl StfInfo {
    /// Reads a file; `quick`: only its header.
    pub fn read(file: &mut StfFile, quick: bool, progress: &mut OnProgress<'_>) -> Result<Self, FileError> {
        let (header, mut end) = match file.header()? {
            Ok(header) => (header, End::Stopped),
            Err(end) => (Header::default(), end),
        };
        let (mut contents, mut size) = (None, file.meter().size);
        if !quick && end == End::Stopped {
            let (mut gathered, ended) = file.gather(&header, progress, Contents::default(), Contents::add_trailing)?;
            gathered.bytes = file.reader().position().offset;
            // A file with an index is not read in order, but all of it is read.
            size = size.or(Some(file.meter().bytes_read()));
            (contents, end) = (Some(gathered), ended);
        }
        let (name, storage, warnings) = (file.name().to_string(), file.storage(), file.warnings().to_vec());
        // Without an index, the number of chunks is known only after reading.
        Ok(Self { name, storage, chunks: file.chunks(), size, header, contents, warnings, end })
    }

    /// Everything as JSON.
    pub fn json(&self) -> Value {
        let header = &self.header;
        let features = header.features.unwrap_or(0);
        let trace_infos: Vec<Value> = header
            .trace_infos
            .iter()
            .map(|OwnedTraceInfo { generator, version: [major, minor, patch], comment }| {
                json!({
                    "generator": generator,
                    "name": names::generator(*generator),
                    "version": format!("{major}.{minor}.{patch}"),
                    "comment": comment,
                })
            })
            .collect();
        let clocks: Vec<Value> = header.clocks.iter().map(|(id, name)| json!({"id": id, "name": name})).collect();
        let mut page = json!({
            "kind": "stf",
            "file": self.name,
            "format": "stf",
            "container": self.storage.to_string(),
            "version": header.version.map(|(major, minor)| format!("{major}.{minor}")),
            "isa": header.isa,
            "isa_name": header.isa.and_then(names::isa),
            "iem": header.iem,
            "iem_name": header.iem.and_then(names::iem),
            "vlen": header.vlen,
            "extensions": header.extensions,
            "features": format!("{features:#x}"),
            "feature_names": names::features(features).map(|name| name.to_string()).collect::<Vec<_>>(),
            "generators": trace_infos,
            "comments": header.comments,
            "process": header.process,
            "protocol": header.protocol,
            "clocks": clocks,
            "address": header.pc.map(|pc| format!("{pc:#x}")),
            "header_records": header.records,
            "bytes": self.size,
            "chunks": self.chunks.as_ref().map(|chunks| json!({
                "count": chunks.count,
                "instructions": chunks.instructions,
            })),
            "warnings": self.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "damage": match &self.end { End::Damaged(text) => Some(text), _ => None },
        });
        if let Some(contents) = &self.contents {
            page["unpacked_bytes"] = json!(contents.bytes);
            page["transactions"] = json!(contents.transactions);
            page["event_names"] = json!(contents.events.rows());
            for (name, count) in contents.counts.fields() {
                page[name] = json!(count);
            }
        }
        page
    }
}
