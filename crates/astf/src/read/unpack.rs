//! From the bytes of a file to records, stored as the header specifies.
//!
//! input ─▶ **decompressor** ─▶ a batch
//!
//! A zlib stream of independent blocks is decompressed by several threads, before the decompressor continues with the
//! rest of it. An end within a record, within the compressed data or before that of the file is a fault, which comes
//! after all records before it.

use std::io::Read;

use unspool_container::{Container, Damage, Decompressor, Fault, Input};

use super::batch::{Batch, End};
use super::content::Content;
use super::error::{LocatedKind, ReadErrorKind};
use crate::deflate::block_inflater::BlockInflater;
use crate::record::{RECORD_BYTES, Storage};

/// Fills batches with the records of an input.
pub(super) struct Unpacker<R> {
    bytes: Decompressor<R>,
    /// They come before what the decompressor delivers.
    blocks: Option<BlockInflater>,
    /// Bytes of a record that did not fit into the last batch, or that is not complete.
    rest: [u8; RECORD_BYTES],
    rest_len: usize,
}

impl<R: Read> Unpacker<R> {
    /// The input is after the header.
    pub(super) fn new(mut input: Input<R>, storage: Storage, threads: usize) -> Result<Self, LocatedKind> {
        let found = container(input.peek(Content::PEEK), storage);
        let mut bytes = match found {
            Ok(container) => Decompressor::new(input, container, threads)?,
            Err(ReadErrorKind::Compressed(Fault::CutShort)) => {
                let offset = input.offset() + input.held().len() as u64;
                let cut_short = Damage { offset, fault: Fault::CutShort }.into();
                return Err(input.failure().map_or(cut_short, |error| LocatedKind::new(error.into(), offset)));
            }
            Err(kind) => return Err(LocatedKind::new(kind, input.offset())),
        };
        let has_blocks =
            bytes.container() == Container::Zlib && BlockInflater::is_start(bytes.input().peek(Content::PEEK));
        let blocks = has_blocks.then(|| BlockInflater::new(bytes.input(), threads));
        Ok(Self { bytes, blocks, rest: [0; RECORD_BYTES], rest_len: 0 })
    }

    /// Fills the batch with at least one record, or the end.
    pub(super) fn fill(&mut self, batch: &mut Batch) {
        if let Some(mut blocks) = self.blocks.take() {
            match blocks.fill(self.bytes.input(), batch) {
                Ok(true) => {
                    self.blocks = Some(blocks);
                    return;
                }
                Ok(false) => {
                    self.bytes.resume_zlib(&blocks.resume.window, blocks.resume.check);
                }
                Err(error) => {
                    batch.whole = 0;
                    batch.end = Some(End::Fault(LocatedKind::new(error.into(), self.bytes.input().offset())));
                    return;
                }
            }
        }
        self.decode(batch);
    }

    fn decode(&mut self, batch: &mut Batch) {
        let is_plain = self.bytes.container() == Container::Plain;
        batch.offset = is_plain.then(|| self.bytes.input().offset() - self.rest_len as u64);
        let bytes = batch.records.as_flattened_mut();
        bytes[..self.rest_len].copy_from_slice(&self.rest[..self.rest_len]);
        let mut filled = self.rest_len;
        batch.end = loop {
            if filled == bytes.len() || (filled >= RECORD_BYTES && self.bytes.would_wait()) {
                break None;
            }
            match self.bytes.step(&mut bytes[filled..]) {
                Ok(Some(made)) => filled += made,
                Ok(None) => break Some(End::Clean),
                Err(failure) => break Some(End::Fault(failure.into())),
            }
        };
        batch.whole = filled / RECORD_BYTES;
        let rest = &bytes[batch.whole * RECORD_BYTES..filled];
        self.rest_len = rest.len();
        self.rest[..rest.len()].copy_from_slice(rest);
        if let Some(End::Clean) = batch.end
            && self.rest_len != 0
        {
            // The offset of a record is known only of a file that is not compressed.
            let back = if self.bytes.container() == Container::Plain { self.rest_len as u64 } else { 0 };
            let kind = ReadErrorKind::CutShort { bytes: self.rest_len };
            batch.end = Some(End::Fault(LocatedKind::new(kind, self.bytes.input().offset() - back)));
        }
    }
}

/// The container that these bytes start, which has to be one that the header of the file allows.
fn container(bytes: &[u8], storage: Storage) -> Result<Container, ReadErrorKind> {
    let found = Content::of(bytes);
    // Without a magic number, the header of the file decides, if nothing contradicts it: the decoder will report
    // damage.
    let (compressed, unmarked, needed) = match storage {
        Storage::Raw => ([Container::Plain; 2], Container::Plain, 0),
        Storage::Lzma => ([Container::Xz, Container::Lzma], Container::Lzma, Container::Lzma.header_bytes()),
        Storage::Zlib => ([Container::Zlib, Container::Gzip], Container::Zlib, Container::Gzip.header_bytes()),
    };
    match found {
        Content::Compressed(container) if compressed.contains(&container) => Ok(container),
        Content::Records | Content::Unknown if bytes.len() < needed => Err(Fault::CutShort.into()),
        Content::Records | Content::Unknown if unmarked.has_header(bytes) => Ok(unmarked),
        found => Err(ReadErrorKind::WrongStorage { header: storage, found }),
    }
}
