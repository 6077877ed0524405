//! Bare trace buffers: trace bytes without a package, described by the caller.
//!
//! paths and [`BareOptions`] ─▶ **bare** ─▶ [`Capture`] with one buffer and one source

use std::collections::BTreeMap;
use std::path::Path;

use unspool_coresight::Protocol;

use crate::buffer::{Buffer, BufferFile, BufferFormat};
use crate::capture::{Capture, PackageFormat, Source, trace_id};
use crate::error::Error;
use crate::metadata::check_start;
use crate::note::Location;
use crate::registers::Registers;
use crate::store::{LooseFile, Store};

/// Metadata of a bare trace buffer, which a package would otherwise supply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BareOptions {
    /// The protocol of the source.
    pub protocol: Protocol,
    /// Its trace ID; if `None`, taken from the registers.
    pub id: Option<u8>,
    /// Format of the bytes.
    pub format: BufferFormat,
    /// The registers of the trace unit.
    pub registers: Registers,
    /// Offset at which the next byte would have been written, if the buffer is circular.
    pub write_pointer: Option<u64>,
    /// Whether a circular buffer has wrapped.
    pub wrapped: Option<bool>,
}

impl BareOptions {
    /// The raw stream of one source.
    pub fn raw(protocol: Protocol) -> Self {
        Self {
            protocol,
            id: None,
            format: BufferFormat::Raw,
            registers: Registers::default(),
            write_pointer: None,
            wrapped: None,
        }
    }

    /// Frames that contain the stream of this source.
    pub fn formatted(protocol: Protocol) -> Self {
        Self { format: BufferFormat::Formatted, ..Self::raw(protocol) }
    }
}

impl Capture {
    /// Opens files as one buffer, joined in this order. `-` is the standard input; it and other streams are copied
    /// to an unnamed temporary file, so that they can be read more than once.
    ///
    /// # Errors
    ///
    /// If there is no path, or one cannot be opened.
    pub fn bare<P: AsRef<Path>>(paths: &[P], options: BareOptions) -> Result<Self, Error> {
        let Some(first) = paths.first().map(AsRef::as_ref) else {
            let found = "no file is given".to_string();
            return Err(Error::NotACapture { path: Path::new("").to_path_buf(), found });
        };
        let (store, names) = open_files(paths)?;
        let mut capture = Capture::new(first, PackageFormat::Bare, store);
        let mut files = Vec::new();
        for name in &names {
            let (name, size) = capture.find_file(Location::file(name), name);
            files.push(BufferFile { name, offset: 0, size });
        }
        let mut buffer = Buffer {
            name: buffer_name(first),
            files,
            format: options.format,
            write_pointer: options.write_pointer,
            wrapped: options.wrapped,
            vendor: None,
            component: None,
            recorded: None,
        };
        check_start(&mut capture, Location::file(&first.to_string_lossy()), &mut buffer);
        capture.buffers.push(buffer);
        capture.sources.push(source(options));
        Ok(capture)
    }
}

fn open_files<P: AsRef<Path>>(paths: &[P]) -> Result<(Store, Vec<String>), Error> {
    let mut files = BTreeMap::new();
    let mut names = Vec::new();
    for path in paths.iter().map(AsRef::as_ref) {
        let name = path.to_string_lossy().into_owned();
        if !files.contains_key(&name) {
            files.insert(name.clone(), LooseFile::open(path)?);
        }
        names.push(name);
    }
    Ok((Store::Loose(files), names))
}

fn source(options: BareOptions) -> Source {
    let name = options.protocol.name();
    Source {
        name: name.to_string(),
        kind: name.to_ascii_uppercase(),
        protocol: Some(options.protocol),
        id: options.id.or_else(|| trace_id(&options.registers)),
        registers: options.registers,
        options: Vec::new(),
        buffers: vec![0],
        core: None,
        configured: None,
    }
}

fn buffer_name(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    stem.filter(|stem| stem != "-").unwrap_or_else(|| "stdin".to_string())
}
