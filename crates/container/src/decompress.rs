//! Decompression of the bytes of a file.
//!
//! [`Input`] ─▶ decoder ─▶ bytes
//!
//! gzip members, .xz streams and zstd frames may follow each other, as `cat` of two files leaves them. Everything that can
//! be decompressed before damage is delivered first.

use std::io::{self, Read};

use flate2::{Decompress, FlushDecompress, Status as ZlibStatus};
use liblzma::stream::{Action, Error as LzmaError, MtStreamBuilder, Status as LzmaStatus, Stream};
use zlib_rs::adler32::adler32;

use crate::{Container, Damage, Failure, Fault, Input, Progress, ZstdDecoder, is_zstd_frame};

/// Maximum memory for the window of compressed data and for bytes that are decompressed ahead.
pub const MEMORY_LIMIT: u64 = 512 << 20;

/// Maximum number of threads: more are of no use here, and liblzma has a limit of its own.
const MAX_THREADS: usize = 256;

/// The largest window of DEFLATE: 32 KiB.
const WINDOW_BITS: u8 = 15;

/// Decompresses an input.
pub struct Decompressor<R> {
    input: Input<R>,
    container: Container,
    threads: usize,
    state: State,
}

enum State {
    Plain,
    Zlib(Decompress),
    /// The rest of a zlib stream, and the Adler-32 of everything before.
    ZlibRest(Decompress, u32),
    Lzma(Stream),
    Zstd(Box<ZstdDecoder>),
    /// After a member, stream or frame: another one may follow.
    Between,
    Ended(Option<Failure>),
}

impl<R: Read> Decompressor<R> {
    /// The input is at the start of a stream of this kind. With more than one thread, blocks of .xz are decompressed by
    /// as many at a time; all others by the thread of the caller.
    pub fn new(input: Input<R>, container: Container, threads: usize) -> Result<Self, Damage> {
        let state = State::new(container, threads).map_err(|fault| Damage { offset: input.offset(), fault })?;
        Ok(Self { input, container, threads, state })
    }

    /// The kind of stream.
    pub fn container(&self) -> Container {
        self.container
    }

    /// The compressed bytes.
    pub fn input(&mut self) -> &mut Input<R> {
        &mut self.input
    }

    /// Whether the next byte has to be read from the file.
    pub fn would_wait(&self) -> bool {
        self.input.would_wait()
    }

    /// Resumes a zlib stream at the start of a DEFLATE block on a byte boundary. `window` is the end of what was decompressed
    /// before, as far as references reach; `check` is the Adler-32 of all of it.
    pub fn resume_zlib(&mut self, window: &[u8], check: u32) {
        let mut stream = Decompress::new(false);
        // If the window is not accepted, references to it are reported as damage.
        let _ = stream.set_dictionary(window);
        (self.container, self.state) = (Container::Zlib, State::ZlibRest(stream, check));
    }

    /// Decompresses some more into an output with room: the number of bytes, which may be 0, or `None` at the end. A
    /// failure is returned once.
    pub fn step(&mut self, output: &mut [u8]) -> Result<Option<usize>, Failure> {
        match &mut self.state {
            State::Ended(failure) => return failure.take().map_or(Ok(None), Err),
            State::Between => self.next_member(),
            State::Plain => {
                let bytes = self.input.read(output);
                if bytes == 0 {
                    self.end();
                }
                return Ok(Some(bytes));
            }
            _ => return Ok(Some(self.decode(output))),
        }
        Ok(Some(0))
    }

    /// Decompresses at least one byte into an output with room; 0 at the end.
    pub fn read_some(&mut self, output: &mut [u8]) -> Result<usize, Failure> {
        loop {
            match self.step(output)? {
                Some(0) => {}
                Some(bytes) => return Ok(bytes),
                None => return Ok(0),
            }
        }
    }

    fn decode(&mut self, output: &mut [u8]) -> usize {
        let wants = if let State::Zstd(zstd) = &self.state { zstd.wants() } else { 1 };
        self.input.peek(wants);
        let at_end = self.input.is_at_end();
        let (used, made, progress) = self.state.decode(self.input.held(), at_end, output);
        self.input.consume(used);
        match progress {
            Ok(Progress::Stuck) if at_end => self.fail(Fault::CutShort),
            Ok(Progress::Stuck | Progress::More) => {}
            Ok(Progress::Ended) => match self.state {
                State::ZlibRest(_, check) => self.verify(check),
                _ => self.state = State::Between,
            },
            Err(fault) => self.fail(fault),
        }
        made
    }

    /// Consumes the Adler-32 that ends a zlib stream.
    fn verify(&mut self, check: u32) {
        let found = self.input.peek(size_of::<u32>());
        if found.len() < size_of::<u32>() {
            self.fail(Fault::CutShort);
        } else if found != check.to_be_bytes() {
            self.fail(Fault::Damaged);
        } else {
            self.input.consume(size_of::<u32>());
            self.state = State::Between;
        }
    }

    /// Starts the next part: another member, stream or frame, for .xz after padding with zeros, or the end.
    fn next_member(&mut self) {
        let padding = if self.container == Container::Xz { self.input.skip_zeros() } else { 0 };
        let magic = self.container.magic();
        let found = self.input.peek(magic.len().max(1));
        let is_next = match self.container {
            Container::Zstd => is_zstd_frame(found),
            _ => !magic.is_empty() && found.starts_with(magic),
        };
        let fault = match () {
            () if !padding.is_multiple_of(4) => Fault::Trailing,
            () if found.is_empty() => return self.end(),
            () if is_next => match State::new(self.container, self.threads) {
                Ok(state) => {
                    self.state = state;
                    return;
                }
                Err(fault) => fault,
            },
            () if magic.starts_with(found) => Fault::CutShort,
            () => Fault::Trailing,
        };
        self.fail(fault);
    }

    /// The file ends, or cannot be read any further.
    fn end(&mut self) {
        let offset = self.input.offset();
        self.state = State::Ended(self.input.failure().map(|error| Failure::Io { offset, error }));
    }

    fn fail(&mut self, fault: Fault) {
        let held = if fault == Fault::CutShort { self.input.held().len() as u64 } else { 0 };
        let offset = self.input.offset() + held;
        let unread = self.input.failure().filter(|_| fault == Fault::CutShort);
        let damage = Failure::Damage(Damage { offset, fault });
        self.state = State::Ended(Some(unread.map_or(damage, |error| Failure::Io { offset, error })));
    }
}

impl<R: Read> Read for Decompressor<R> {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        if output.is_empty() {
            return Ok(0);
        }
        Ok(self.read_some(output)?)
    }
}

impl State {
    fn new(container: Container, threads: usize) -> Result<Self, Fault> {
        Ok(match container {
            Container::Plain => Self::Plain,
            Container::Gzip => Self::Zlib(Decompress::new_gzip(WINDOW_BITS)),
            Container::Zlib => Self::Zlib(Decompress::new(true)),
            Container::Xz if threads > 1 => {
                let mut builder = MtStreamBuilder::new();
                builder.threads(threads.min(MAX_THREADS) as u32);
                builder.memlimit_threading(MEMORY_LIMIT).memlimit_stop(MEMORY_LIMIT);
                Self::Lzma(builder.decoder().map_err(lzma_fault)?)
            }
            Container::Xz => Self::Lzma(Stream::new_stream_decoder(MEMORY_LIMIT, 0).map_err(lzma_fault)?),
            Container::Lzma => Self::Lzma(Stream::new_lzma_decoder(MEMORY_LIMIT).map_err(lzma_fault)?),
            Container::Zstd => Self::Zstd(Box::new(ZstdDecoder::new()?)),
        })
    }

    /// Bytes consumed, bytes produced, and the outcome. Bytes are produced even where there is a fault.
    fn decode(&mut self, input: &[u8], at_end: bool, output: &mut [u8]) -> (usize, usize, Result<Progress, Fault>) {
        match self {
            Self::Zlib(stream) => inflate(stream, input, output),
            Self::ZlibRest(stream, check) => {
                let (used, made, progress) = inflate(stream, input, output);
                *check = adler32(*check, &output[..made]);
                (used, made, progress)
            }
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
            Self::Zstd(zstd) => zstd.step(input, output),
            Self::Plain | Self::Between | Self::Ended(_) => (0, 0, Ok(Progress::Ended)),
        }
    }
}

fn inflate(stream: &mut Decompress, input: &[u8], output: &mut [u8]) -> (usize, usize, Result<Progress, Fault>) {
    let before = (stream.total_in(), stream.total_out());
    let status = stream.decompress(input, output, FlushDecompress::None);
    let (used, made) = ((stream.total_in() - before.0) as usize, (stream.total_out() - before.1) as usize);
    let progress = match status {
        Ok(ZlibStatus::StreamEnd) => Ok(Progress::Ended),
        Ok(_) if used > 0 || made > 0 => Ok(Progress::More),
        Ok(_) if input.is_empty() => Ok(Progress::Stuck),
        Err(error) if error.needs_dictionary().is_some() => Err(Fault::Unsupported),
        // There is input and room for output: a decoder that does nothing now never will.
        Ok(_) | Err(_) => Err(Fault::Damaged),
    };
    (used, made, progress)
}

fn lzma_fault(error: LzmaError) -> Fault {
    match error {
        LzmaError::Data | LzmaError::Format | LzmaError::Program => Fault::Damaged,
        LzmaError::Options | LzmaError::NoCheck | LzmaError::UnsupportedCheck => Fault::Unsupported,
        LzmaError::MemLimit | LzmaError::Mem => Fault::Memory,
    }
}
