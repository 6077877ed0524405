//! zstd frames: their start, and a decoder that reads no more than it needs.
//!
//! Specification: RFC 8878, "Zstandard Frames".

use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, get_error_name};

use crate::{Container, Fault, MEMORY_LIMIT};

/// Bytes that a decoder asks for at the start of a frame: the magic number and the frame header descriptor.
const FRAME_START: usize = 5;

/// Whether these bytes start a frame, including a skippable one.
pub fn is_zstd_frame(bytes: &[u8]) -> bool {
    bytes.starts_with(Container::Zstd.magic()) || is_zstd_skippable_frame(bytes)
}

/// Whether these bytes start a frame that decompressors skip.
pub fn is_zstd_skippable_frame(bytes: &[u8]) -> bool {
    matches!(bytes, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// Outcome of one step of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Some input was consumed, or some output produced.
    More,
    /// More input is needed.
    Stuck,
    /// The stream has ended.
    Ended,
}

/// Decoder of zstd frames.
pub struct ZstdDecoder {
    context: DCtx<'static>,
    wants: usize,
}

impl ZstdDecoder {
    /// A decoder at the start of a frame.
    pub fn new() -> Result<Self, Fault> {
        let mut context = DCtx::try_create().ok_or(Fault::Memory)?;
        context.set_parameter(DParameter::WindowLogMax(MEMORY_LIMIT.ilog2())).map_err(|_| Fault::Memory)?;
        Ok(Self { context, wants: FRAME_START })
    }

    /// Starts a frame, whatever came before.
    pub fn start(&mut self) {
        // Resetting only the session cannot fail.
        let _ = self.context.reset(ResetDirective::SessionOnly);
        self.wants = FRAME_START;
    }

    /// Number of bytes that the next step consumes at most: thus an error costs no block but its own.
    pub fn wants(&self) -> usize {
        self.wants
    }

    /// Decodes whole frames at once, if the output has room for them.
    pub fn whole(&mut self, input: &[u8], output: &mut [u8]) -> Option<usize> {
        self.context.decompress(output, input).ok()
    }

    /// Decodes some more: bytes consumed, bytes produced, and the outcome.
    pub fn step(&mut self, input: &[u8], output: &mut [u8]) -> (usize, usize, Result<Progress, Fault>) {
        let mut from = InBuffer::around(&input[..input.len().min(self.wants)]);
        let mut to = OutBuffer::around(output);
        let result = self.context.decompress_stream(&mut to, &mut from);
        let (used, made) = (from.pos(), to.pos());
        let progress = match result {
            Ok(0) => Ok(Progress::Ended),
            Ok(wants) => {
                self.wants = wants;
                Ok(if used == 0 && made == 0 { Progress::Stuck } else { Progress::More })
            }
            Err(code) if get_error_name(code).contains("too much memory") => Err(Fault::Memory),
            Err(code) if get_error_name(code).contains("ictionary") => Err(Fault::Unsupported),
            Err(_) => Err(Fault::Damaged),
        };
        (used, made, progress)
    }
}
