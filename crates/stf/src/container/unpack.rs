//! gzip, xz and zstd: from the bytes of a file to those of the trace.
//!
//! Containers may follow each other, as `cat` of two files makes them. What can be had before damage comes out first.

use std::io::{self, Read};

use flate2::{Decompress, FlushDecompress, Status as ZlibStatus};
use liblzma::stream::{Action, Error as LzmaError, MtStreamBuilder, Status as LzmaStatus, Stream};

use super::frame::{Progress, Zstd, is_frame};
use super::input::Input;
use super::{Container, Fault};

/// No more memory than this is spent on what compressed data refers back to and on what is decompressed ahead.
const MEMORY_LIMIT: u64 = 512 << 20;

/// More threads than this are of no use here, and liblzma has a limit of its own.
const MOST_THREADS: usize = 256;

/// The largest window of deflate: 32 KiB.
const WINDOW_BITS: u8 = 15;

/// Something is wrong at this place of the file. It travels as the source of an [`io::Error`].
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("byte {at:#x} of the file: {fault}")]
pub(crate) struct Located {
    pub(crate) at: u64,
    pub(crate) fault: Fault,
}

/// The bytes of a trace out of a compressed file.
pub(crate) struct Unpack {
    input: Input,
    container: Container,
    threads: usize,
    state: State,
    /// What is wrong, to be told behind what came before.
    error: Option<io::Error>,
}

enum State {
    Lzma(Stream),
    Zlib(Decompress),
    Zstd(Box<Zstd>),
    Between,
    Ended,
}

impl Unpack {
    /// The input is a file of this kind.
    pub(crate) fn new(input: Input, container: Container, threads: usize) -> Result<Self, Fault> {
        let state = State::new(container, threads)?;
        Ok(Self { input, container, threads, state, error: None })
    }

    /// Something is wrong.
    fn fail(&mut self, fault: Fault) {
        self.state = State::Ended;
        let at = self.input.offset() + if fault == Fault::CutShort { self.input.held().len() as u64 } else { 0 };
        let failed = self.input.failure().filter(|_| fault == Fault::CutShort);
        self.error = Some(failed.unwrap_or_else(|| io::Error::other(Located { at, fault })));
    }

    /// Decompresses some more.
    fn step(&mut self, output: &mut [u8]) -> usize {
        self.input.peek(1);
        let wants = if let State::Zstd(zstd) = &self.state { zstd.wants() } else { 1 };
        self.input.peek(wants);
        let at_end = self.input.is_at_end();
        let (used, made, progress) = self.state.step(self.input.held(), at_end, output);
        self.input.consume(used);
        match progress {
            Ok(Progress::Stuck) if at_end => self.fail(Fault::CutShort),
            Ok(Progress::Stuck | Progress::More) => {}
            Ok(Progress::Ended) => self.state = State::Between,
            Err(fault) => self.fail(fault),
        }
        made
    }

    /// Another container may follow, behind zeros if it is .xz. Anything else must not.
    fn between(&mut self) {
        let padding = if self.container == Container::Xz { self.input.skip_zeros() } else { 0 };
        let magic = self.container.magic();
        let found = self.input.peek(magic.len());
        let (is_padded, is_next) = (padding.is_multiple_of(4), found.starts_with(magic));
        if found.is_empty() && is_padded {
            self.state = State::Ended;
            self.error = self.input.failure();
            return;
        }
        let is_other_frame = self.container == Container::Zstd && is_frame(found);
        let fault = if is_padded && (is_next || is_other_frame) {
            match State::new(self.container, self.threads) {
                Ok(state) => {
                    self.state = state;
                    return;
                }
                Err(fault) => fault,
            }
        } else if is_padded && magic.starts_with(found) {
            Fault::CutShort
        } else {
            Fault::Trailing
        };
        self.fail(fault);
    }
}

impl Read for Unpack {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        if output.is_empty() {
            return Ok(0);
        }
        loop {
            let made = match self.state {
                State::Ended => return self.error.take().map_or(Ok(0), Err),
                State::Between => {
                    self.between();
                    0
                }
                _ => self.step(output),
            };
            if made > 0 {
                return Ok(made);
            }
        }
    }
}

impl State {
    fn new(container: Container, threads: usize) -> Result<Self, Fault> {
        Ok(match container {
            Container::Xz if threads > 1 => {
                let mut builder = MtStreamBuilder::new();
                builder.threads(threads.min(MOST_THREADS) as u32);
                builder.memlimit_threading(MEMORY_LIMIT).memlimit_stop(MEMORY_LIMIT);
                Self::Lzma(builder.decoder().map_err(lzma_fault)?)
            }
            Container::Xz => Self::Lzma(Stream::new_stream_decoder(MEMORY_LIMIT, 0).map_err(lzma_fault)?),
            Container::Gzip => Self::Zlib(Decompress::new_gzip(WINDOW_BITS)),
            Container::Zstd => Self::Zstd(Box::new(Zstd::new()?)),
            Container::Plain | Container::Zstf => Self::Ended,
        })
    }

    /// How many bytes were used and made, and what came of it. Bytes are made even where there is an error.
    fn step(&mut self, input: &[u8], at_end: bool, output: &mut [u8]) -> (usize, usize, Result<Progress, Fault>) {
        match self {
            Self::Lzma(stream) => {
                let before = (stream.total_in(), stream.total_out());
                let action = if at_end { Action::Finish } else { Action::Run };
                let progress = match stream.process(input, output, action) {
                    Ok(LzmaStatus::StreamEnd) => Ok(Progress::Ended),
                    Ok(LzmaStatus::MemNeeded) => Ok(Progress::Stuck),
                    Ok(LzmaStatus::Ok | LzmaStatus::GetCheck) => Ok(Progress::More),
                    Err(error) => Err(lzma_fault(error)),
                };
                ((stream.total_in() - before.0) as usize, (stream.total_out() - before.1) as usize, progress)
            }
            Self::Zlib(stream) => {
                let before = (stream.total_in(), stream.total_out());
                let status = stream.decompress(input, output, FlushDecompress::None);
                let (used, made) = ((stream.total_in() - before.0) as usize, (stream.total_out() - before.1) as usize);
                let progress = match status {
                    Ok(ZlibStatus::StreamEnd) => Ok(Progress::Ended),
                    Ok(_) if used > 0 || made > 0 => Ok(Progress::More),
                    Ok(_) if input.is_empty() => Ok(Progress::Stuck),
                    // There is input and room for output: whoever does nothing now never will.
                    Ok(_) | Err(_) => Err(Fault::Damaged),
                };
                (used, made, progress)
            }
            Self::Zstd(zstd) => zstd.step(input, output),
            Self::Between | Self::Ended => (0, 0, Ok(Progress::Ended)),
        }
    }
}

fn lzma_fault(error: LzmaError) -> Fault {
    match error {
        LzmaError::Data | LzmaError::Format | LzmaError::Program => Fault::Damaged,
        LzmaError::Options | LzmaError::NoCheck | LzmaError::UnsupportedCheck => Fault::Unsupported,
        LzmaError::MemLimit | LzmaError::Mem => Fault::Memory,
    }
}
