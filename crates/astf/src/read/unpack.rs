//! From the bytes of a file to records, as the header says that they are stored.
//!
//! input ─▶ **decoder** (or none) ─▶ a batch
//!
//! A zlib stream in pieces is unpacked by several threads, before the decoder goes on with what is left of it. Containers
//! may follow each other, as `cat` of two .xz or gzip files makes them. An end within a record, within the compressed data
//! or before that of the file is a fault, which comes behind everything that was before it.

use std::io::{self, Read};

use flate2::{Decompress, FlushDecompress, Status as ZlibStatus};
use liblzma::stream::{Action, Error as LzmaError, MtStreamBuilder, Status as LzmaStatus, Stream};
use zlib_rs::adler32::adler32;

use super::content::{Content, GZIP, LZMA_HEADER, XZ, has_lzma_header, has_zlib_header};
use super::input::Input;
use super::pieces::{Pieces, SoFar};
use super::{Batch, End, Fault, ReadErrorKind};
use crate::record::{RECORD_BYTES, Storage};

/// No more memory than this is spent on what compressed data refers back to and on what is decompressed ahead.
pub(super) const MEMORY_LIMIT: u64 = 512 << 20;

/// Fills batches with the records of an input.
pub(super) struct Unpacker<R> {
    input: Input<R>,
    decoder: Option<Decoder>,
    /// They come before what the decoder decodes.
    pieces: Option<Pieces>,
    threads: usize,
    /// The bytes of a record that the last batch had no room for, or of which more is to come.
    rest: [u8; RECORD_BYTES],
    rest_len: usize,
}

impl<R: Read> Unpacker<R> {
    /// The input is behind the header.
    pub(super) fn new(mut input: Input<R>, storage: Storage, threads: usize) -> Result<Self, Fault> {
        let bytes = input.peek(Content::PEEK);
        let decoder =
            container(bytes, storage).and_then(|found| found.map(|found| Decoder::new(found, threads)).transpose());
        match decoder {
            Ok(decoder) => {
                let is_zlib = decoder.as_ref().is_some_and(|decoder| decoder.container == Container::Zlib);
                let is_in_pieces = is_zlib && Pieces::is_start(input.peek(Content::PEEK));
                let pieces = is_in_pieces.then(|| Pieces::new(&mut input, threads));
                Ok(Self { input, decoder, pieces, threads, rest: [0; RECORD_BYTES], rest_len: 0 })
            }
            Err(ReadErrorKind::CompressedCutShort) => Err(input.cut_short()),
            Err(kind) => Err(Fault::new(kind, input.offset())),
        }
    }

    /// Fills it with at least one record, or tells the end.
    pub(super) fn fill(&mut self, batch: &mut Batch) {
        if let Some(mut pieces) = self.pieces.take() {
            match pieces.fill(&mut self.input, batch) {
                Ok(true) => {
                    self.pieces = Some(pieces);
                    return;
                }
                Ok(false) => self.decoder = Some(Decoder::of_rest(pieces.so_far())),
                Err(error) => {
                    batch.whole = 0;
                    batch.end = Some(End::Fault(self.input.fault(ReadErrorKind::Io(error))));
                    return;
                }
            }
        }
        self.decode(batch);
    }

    fn decode(&mut self, batch: &mut Batch) {
        let bytes = batch.records.as_flattened_mut();
        bytes[..self.rest_len].copy_from_slice(&self.rest[..self.rest_len]);
        let mut filled = self.rest_len;
        batch.end = loop {
            if filled == bytes.len() || (filled >= RECORD_BYTES && self.input.would_wait()) {
                break None;
            }
            let room = &mut bytes[filled..];
            let (made, end) = match &mut self.decoder {
                None => self.input.read(room),
                Some(decoder) => decoder.decode(&mut self.input, self.threads, room),
            };
            filled += made;
            if end.is_some() {
                break end;
            }
        };
        batch.whole = filled / RECORD_BYTES;
        let rest = &bytes[batch.whole * RECORD_BYTES..filled];
        self.rest_len = rest.len();
        self.rest[..rest.len()].copy_from_slice(rest);
        if let Some(End::Clean) = batch.end
            && self.rest_len != 0
        {
            // Where a record starts is known of a file that is not compressed only.
            let back = if self.decoder.is_none() { self.rest_len as u64 } else { 0 };
            let kind = ReadErrorKind::CutShort { bytes: self.rest_len };
            batch.end = Some(End::Fault(Fault::new(kind, self.input.offset() - back)));
        }
    }
}

/// Which container these bytes are, if any is to be expected.
fn container(bytes: &[u8], storage: Storage) -> Result<Option<Container>, ReadErrorKind> {
    let found = Content::of(bytes);
    let is_none = matches!(found, Content::Records | Content::Unknown);
    Ok(match (storage, found) {
        (Storage::Raw, _) if is_none => None,
        (Storage::Lzma, Content::Xz) => Some(Container::Xz),
        (Storage::Lzma, Content::Lzma) => Some(Container::Lzma),
        (Storage::Zlib, Content::Zlib) => Some(Container::Zlib),
        (Storage::Zlib, Content::Gzip) => Some(Container::Gzip),
        (Storage::Lzma, _) if is_none && bytes.len() < LZMA_HEADER => return Err(ReadErrorKind::CompressedCutShort),
        (Storage::Zlib, _) if is_none && bytes.len() < GZIP.len() => return Err(ReadErrorKind::CompressedCutShort),
        // The header of the file says so, and nothing speaks against it: the decoder will tell.
        (Storage::Lzma, _) if is_none && has_lzma_header(bytes) => Some(Container::Lzma),
        (Storage::Zlib, _) if is_none && has_zlib_header(bytes) => Some(Container::Zlib),
        (header, found) => return Err(ReadErrorKind::WrongStorage { header, found }),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Container {
    Xz,
    Lzma,
    Zlib,
    Gzip,
}

impl Container {
    /// How another one starts, where one may follow.
    fn next(self) -> &'static [u8] {
        match self {
            Self::Xz => &XZ,
            Self::Gzip => &GZIP,
            Self::Lzma | Self::Zlib => &[],
        }
    }
}

/// A decompressor, and whether it is within a container or behind one.
struct Decoder {
    container: Container,
    state: State,
}

enum State {
    Lzma(Stream),
    Zlib(Decompress),
    /// What is left of a zlib stream, and the Adler-32 of what was before.
    Rest(Decompress, u32),
    Between,
}

/// What a step of a decompressor led to.
enum Progress {
    More,
    /// Nothing more can be made of the input.
    Stuck,
    Ended,
}

impl Decoder {
    fn new(container: Container, threads: usize) -> Result<Self, ReadErrorKind> {
        Ok(Self { container, state: State::new(container, threads)? })
    }

    /// Goes on with a zlib stream.
    fn of_rest(SoFar { check, window }: SoFar) -> Self {
        let mut stream = Decompress::new(false);
        // Where it is not taken, what refers to it is damaged.
        let _ = stream.set_dictionary(&window);
        Self { container: Container::Zlib, state: State::Rest(stream, check) }
    }

    /// Decompresses some more: how many bytes, and whether they are the last.
    fn decode<R: Read>(&mut self, input: &mut Input<R>, threads: usize, output: &mut [u8]) -> (usize, Option<End>) {
        if let State::Between = self.state {
            return (0, self.between(input, threads));
        }
        input.more();
        let at_end = input.is_at_end();
        let (used, made, progress) = self.state.step(input.held(), at_end, output);
        input.consume(used);
        let end = match progress {
            Ok(Progress::Stuck) if at_end => Some(End::Fault(input.cut_short())),
            Ok(Progress::Stuck | Progress::More) => None,
            Ok(Progress::Ended) => {
                let end = match self.state {
                    State::Rest(_, check) => verify(input, check),
                    _ => None,
                };
                self.state = State::Between;
                end
            }
            Err(kind) => Some(End::Fault(input.fault(kind))),
        };
        (made, end)
    }

    /// Another container may follow, behind zeros if it is .xz. Anything else must not.
    fn between<R: Read>(&mut self, input: &mut Input<R>, threads: usize) -> Option<End> {
        let padding = if self.container == Container::Xz { input.skip_zeros() } else { 0 };
        let magic = self.container.next();
        let found = input.peek(magic.len().max(1));
        let is_padded = padding.is_multiple_of(4);
        if found.is_empty() && is_padded {
            return Some(input.end());
        }
        if !is_padded || magic.is_empty() || !magic.starts_with(found) {
            return Some(End::Fault(input.fault(ReadErrorKind::Trailing)));
        }
        if found.len() < magic.len() {
            return Some(End::Fault(input.cut_short()));
        }
        match State::new(self.container, threads) {
            Ok(state) => {
                self.state = state;
                None
            }
            Err(kind) => Some(End::Fault(input.fault(kind))),
        }
    }
}

impl State {
    fn new(container: Container, threads: usize) -> Result<Self, ReadErrorKind> {
        Ok(match container {
            Container::Xz if threads > 1 => {
                let mut builder = MtStreamBuilder::new();
                builder.threads(threads.min(MOST_THREADS) as u32);
                builder.memlimit_threading(MEMORY_LIMIT).memlimit_stop(MEMORY_LIMIT);
                Self::Lzma(builder.decoder().map_err(lzma_error)?)
            }
            Container::Xz => Self::Lzma(Stream::new_stream_decoder(MEMORY_LIMIT, 0).map_err(lzma_error)?),
            Container::Lzma => Self::Lzma(Stream::new_lzma_decoder(MEMORY_LIMIT).map_err(lzma_error)?),
            Container::Zlib => Self::Zlib(Decompress::new(true)),
            Container::Gzip => Self::Zlib(Decompress::new_gzip(WINDOW_BITS)),
        })
    }

    /// How many bytes were used and made, and what came of it. Bytes are made even where there is an error.
    fn step(
        &mut self,
        input: &[u8],
        at_end: bool,
        output: &mut [u8],
    ) -> (usize, usize, Result<Progress, ReadErrorKind>) {
        match self {
            Self::Lzma(stream) => {
                let before = (stream.total_in(), stream.total_out());
                let action = if at_end { Action::Finish } else { Action::Run };
                let progress = match stream.process(input, output, action) {
                    Ok(LzmaStatus::StreamEnd) => Ok(Progress::Ended),
                    Ok(LzmaStatus::MemNeeded) => Ok(Progress::Stuck),
                    Ok(LzmaStatus::Ok | LzmaStatus::GetCheck) => Ok(Progress::More),
                    Err(error) => Err(lzma_error(error)),
                };
                ((stream.total_in() - before.0) as usize, (stream.total_out() - before.1) as usize, progress)
            }
            Self::Zlib(stream) => inflate(stream, input, output),
            Self::Rest(stream, check) => {
                let (used, made, progress) = inflate(stream, input, output);
                *check = adler32(*check, &output[..made]);
                (used, made, progress)
            }
            Self::Between => (0, 0, Ok(Progress::Ended)),
        }
    }
}

/// A step of a zlib stream, as [`State::step`] tells it.
fn inflate(
    stream: &mut Decompress,
    input: &[u8],
    output: &mut [u8],
) -> (usize, usize, Result<Progress, ReadErrorKind>) {
    let before = (stream.total_in(), stream.total_out());
    let status = stream.decompress(input, output, FlushDecompress::None);
    let (used, made) = ((stream.total_in() - before.0) as usize, (stream.total_out() - before.1) as usize);
    let progress = match status {
        Ok(ZlibStatus::StreamEnd) => Ok(Progress::Ended),
        Ok(_) if used > 0 || made > 0 => Ok(Progress::More),
        Ok(_) if input.is_empty() => Ok(Progress::Stuck),
        Err(error) if error.needs_dictionary().is_some() => Err(ReadErrorKind::Unsupported),
        // There is input and room for output: whoever does nothing now never will.
        Ok(_) | Err(_) => Err(ReadErrorKind::Damaged),
    };
    (used, made, progress)
}

/// Takes the Adler-32 that ends a zlib stream.
fn verify<R: Read>(input: &mut Input<R>, check: u32) -> Option<End> {
    let found = input.peek(size_of::<u32>());
    if found.len() < size_of::<u32>() {
        return Some(End::Fault(input.cut_short()));
    }
    if found != check.to_be_bytes() {
        return Some(End::Fault(input.fault(ReadErrorKind::Damaged)));
    }
    input.consume(size_of::<u32>());
    None
}

/// More threads than this are of no use here, and liblzma has a limit of its own.
const MOST_THREADS: usize = 256;

/// The largest window of deflate: 32 KiB.
const WINDOW_BITS: u8 = 15;

fn lzma_error(error: LzmaError) -> ReadErrorKind {
    match error {
        LzmaError::Data | LzmaError::Format => ReadErrorKind::Damaged,
        LzmaError::Options | LzmaError::NoCheck | LzmaError::UnsupportedCheck => ReadErrorKind::Unsupported,
        LzmaError::MemLimit => ReadErrorKind::Memory { limit: MEMORY_LIMIT },
        LzmaError::Mem => ReadErrorKind::Io(io::ErrorKind::OutOfMemory.into()),
        LzmaError::Program => ReadErrorKind::Io(io::Error::other(error)),
    }
}
