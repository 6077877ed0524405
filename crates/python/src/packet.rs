//! Packets of captures.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use unspool::SourcePacket;
use unspool::coresight::PacketItem;
use unspool::coresight::fields::{Fields, Value};

use crate::iterate::Batches;

/// A packet of a trace source, or bytes that are not one: their kind is 'malformed', and they have an error.
#[pyclass(frozen, eq, module = "unspool")]
#[derive(PartialEq)]
pub(crate) struct Packet {
    source: Arc<str>,
    item: PacketItem,
}

#[pymethods]
impl Packet {
    /// Name of the source.
    #[getter]
    fn source(&self) -> &str {
        &self.source
    }

    /// Offset of its first byte in the buffer.
    #[getter]
    fn offset(&self) -> u64 {
        self.item.as_ref().map_or_else(|error| error.offset, |packet| packet.offset)
    }

    /// Number of bytes.
    #[getter]
    fn length(&self) -> u64 {
        self.item.as_ref().map_or_else(|error| error.skipped, |packet| packet.length)
    }

    /// Kind, as the command line names it; 'malformed': not a packet.
    #[getter]
    fn kind(&self) -> &'static str {
        self.item.as_ref().map_or("malformed", |packet| packet.value.kind().name())
    }

    /// The packet in words.
    #[getter]
    fn text(&self) -> String {
        self.item.as_ref().map_or_else(ToString::to_string, |packet| packet.value.to_string())
    }

    /// Why the bytes are not a packet.
    #[getter]
    fn error(&self) -> Option<String> {
        self.item.as_ref().err().map(|error| error.kind.to_string())
    }

    /// Its fields, as in the JSON of 'unspool packets'.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut fields = DictFields { dict: PyDict::new(py), failed: None };
        if let Ok(packet) = &self.item {
            packet.value.fields(&mut fields);
        }
        fields.failed.map_or(Ok(fields.dict), Err)
    }

    fn __repr__(&self) -> String {
        format!("Packet(offset={:#x}, kind='{}')", self.offset(), self.kind())
    }
}

/// Fields in a dictionary.
struct DictFields<'py> {
    dict: Bound<'py, PyDict>,
    failed: Option<PyErr>,
}

impl Fields for DictFields<'_> {
    fn field(&mut self, name: &'static str, value: Value<'_>) {
        let set = match value {
            Value::Number(number) | Value::Hex(number) => self.dict.set_item(name, number),
            Value::Flag(is_set) => self.dict.set_item(name, is_set),
            Value::Text(text) => self.dict.set_item(name, text.to_string()),
            Value::Bits(bits) => {
                let set: Vec<u32> = (0..8).filter(|bit| bits >> bit & 1 == 1).collect();
                self.dict.set_item(name, set)
            }
            Value::Unknown => self.dict.set_item(name, None::<u64>),
        };
        self.failed = self.failed.take().or(set.err());
    }
}

/// Iterator over packets, source by source.
#[pyclass(module = "unspool")]
pub(crate) struct PacketIterator {
    batches: Batches<SourcePacket>,
    sources: Vec<Arc<str>>,
}

impl PacketIterator {
    pub(crate) fn new(batches: Batches<SourcePacket>, sources: Vec<Arc<str>>) -> Self {
        Self { batches, sources }
    }
}

#[pymethods]
impl PacketIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Packet>> {
        let Some(SourcePacket { source, packet }) = self.batches.next(py)? else { return Ok(None) };
        let source = self.sources.get(source).cloned().unwrap_or_default();
        Ok(Some(Packet { source, item: packet }))
    }

    /// Damage that was met so far, as exceptions, if iteration collects it.
    #[getter]
    fn damage(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        self.batches.damage(py)
    }
}
