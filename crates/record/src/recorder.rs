//! The loop over the chunks of a stream, for programs and systems.
//!
//! chunks ─▶ code and records ─▶ **recorder** ─▶ sink

use std::io;
use std::ops::ControlFlow;

use unspool_model::{Coverage, Facet, SourceError};
use unspool_wire::{CODE, Code, EmulatorCapabilities, damage};

use crate::chunks::Chunks;
use crate::emitter::Sink;

/// Emits steps from the records of a stream.
pub(crate) trait Recorder {
    /// Adds translated code, which threads execute later.
    fn code(&mut self, code: &Code<'_>) -> io::Result<()>;

    /// Processes a chunk of records of a thread or CPU.
    fn records(&mut self, number: u32, bytes: &[u8], sink: Sink<'_>) -> io::Result<ControlFlow<()>>;

    /// Emits the remaining steps at the end of the stream. `signal`: the one that killed the emulator.
    fn finish(&mut self, signal: Option<i32>, sink: Sink<'_>) -> io::Result<()>;
}

/// Maximum distance of a block number from its order: threads of the emulator translate concurrently.
pub(crate) const MAX_AHEAD: usize = 1 << 12;

/// Error for a fact that the user has to provide.
pub(crate) fn unknown(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, what)
}

/// Records until the stream ends or the sink breaks. `signal_at_end` waits for the end of the emulator, and returns the signal
/// that killed it.
pub(crate) fn record(
    chunks: &mut impl Chunks,
    recorder: &mut impl Recorder,
    signal_at_end: impl FnOnce() -> io::Result<Option<i32>>,
    sink: Sink<'_>,
) -> Result<(), SourceError> {
    each_chunk(chunks, recorder, signal_at_end, sink).map_err(|error| SourceError {
        text: match error.kind() {
            io::ErrorKind::Unsupported => error.to_string(),
            _ => format!("the stream of the emulator: {error}"),
        },
        is_damage: error.kind() == io::ErrorKind::InvalidData,
        position: None,
    })
}

fn each_chunk(
    chunks: &mut impl Chunks,
    recorder: &mut impl Recorder,
    signal_at_end: impl FnOnce() -> io::Result<Option<i32>>,
    sink: Sink<'_>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    while let Some(number) = chunks.next(&mut bytes)? {
        if chunk(recorder, number, &bytes, sink)?.is_break() {
            return Ok(());
        }
    }
    let signal = signal_at_end()?;
    while let Some(number) = chunks.next_after_end(&mut bytes)? {
        if chunk(recorder, number, &bytes, sink)?.is_break() {
            return Ok(());
        }
    }
    recorder.finish(signal, sink)
}

fn chunk(recorder: &mut impl Recorder, number: u32, bytes: &[u8], sink: Sink<'_>) -> io::Result<ControlFlow<()>> {
    if number != CODE {
        return recorder.records(number, bytes, sink);
    }
    let mut rest = bytes;
    while !rest.is_empty() {
        let code = Code::decode(&mut rest).ok_or_else(|| damage("a block of code is damaged"))?;
        recorder.code(&code)?;
    }
    Ok(ControlFlow::Continue(()))
}

/// Facets of the steps of a recording with an emulator of these capabilities.
pub fn coverage(capabilities: EmulatorCapabilities) -> Coverage {
    let always = Coverage::of(&[
        Facet::Instructions,
        Facet::Opcodes,
        Facet::Branches,
        Facet::Accesses,
        Facet::Exceptions,
        Facet::Levels,
        Facet::Security,
    ]);
    let optional = [(capabilities.data, Facet::Data), (capabilities.registers, Facet::Registers)];
    optional.iter().filter(|(is_reported, _)| *is_reported).fold(always, |all, (_, facet)| all.with(*facet))
}
