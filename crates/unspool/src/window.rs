//! Bytes of one source, one window at a time, and the packets in them.
//!
//! Takes a buffer of a capture. Produces windows on the bytes of one source, and packets of any protocol with their
//! offsets in the buffer. No packet continues across a break.

use std::io::{self, Read};
use std::ops::Range;

use unspool_capture::{Buffer, BufferFormat, Capture};
use unspool_coresight::frame::{
    Deformatter, FrameError, FrameSink, Layout, Mark, Offsets, SavedFrames, Span, Stream, WholeFrames,
};
use unspool_coresight::{ConfiguredSources, DecodeElements, DecodePackets, Malformed, PacketError, PacketItem, Sink};
use unspool_flow::{CodeMemory, FlowDecoder, FlowSink};

use crate::Error;
use crate::trace::source_config;

/// Bytes of a buffer that are read at once.
pub(crate) const CHUNK: usize = 256 * 1024;

const NO_ID: u8 = 0;

pub(crate) fn layout(buffer: &Buffer) -> Layout {
    match buffer.format {
        BufferFormat::DstreamFormatted => Layout::FromFullSync,
        _ => Layout::FromStart,
    }
}

/// A deformatter for a buffer. The sources of the capture show where frames start if bytes are missing.
pub(crate) fn deformatter(capture: &Capture, buffer: &Buffer) -> Deformatter<ConfiguredSources> {
    let mut sources = ConfiguredSources::default();
    for source in &capture.sources {
        if let Some(id) = source.id {
            sources.add(id, source_config(capture, source).map(|(config, _)| config));
        }
    }
    Deformatter::with_sources(layout(buffer), sources)
}

/// Start of a chunk of a buffer, and what reading continues with there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkStart {
    /// Bytes of the buffer before it, and of the source.
    pub(crate) read: u64,
    pub(crate) position: u64,
    /// The frames there, if the buffer has frames.
    pub(crate) frames: Option<SavedFrames>,
}

impl ChunkStart {
    /// The first byte of the buffer that is needed: the deformatter holds bytes back.
    pub(crate) fn first_byte(&self) -> u64 {
        self.frames.map_or(self.read, |frames| frames.offset())
    }
}

/// Bytes of one source, as they are read from a buffer.
pub(crate) struct SourceBytes<'c> {
    buffer: &'c Buffer,
    reader: Box<dyn Read>,
    /// `None`: the buffer has no frames.
    deformatter: Option<Deformatter<ConfiguredSources>>,
    framed: Framed,
    chunk: Vec<u8>,
    /// Bytes of the buffer read so far.
    pub(crate) read: u64,
    pub(crate) length: u64,
}

/// Stream of one source, and the bytes that belong to no frame and so perhaps to it.
struct Framed {
    stream: Stream,
    lost: Vec<FrameError>,
    /// The offsets in the buffer to which the stream is limited.
    range: Option<Range<u64>>,
}

impl FrameSink for Framed {
    fn span(&mut self, span: Span<'_>) {
        match self.range.clone() {
            None => self.stream.span(span),
            Some(range) => self.span_within(span, &range),
        }
    }

    #[inline]
    fn whole(&mut self, id: u8, offset: u64, frames: WholeFrames<'_>) {
        match self.range {
            None => self.stream.whole(id, offset, frames),
            Some(_) => frames.each(id, offset, |span| self.span(span)),
        }
    }

    fn mark(&mut self, mark: Mark) {
        if let Mark::Lost(error) = mark {
            if self.range.as_ref().is_some_and(|range| !range.contains(&error.offset)) {
                return;
            }
            self.lost.push(error);
        }
        self.stream.mark(mark);
    }
}

impl Framed {
    /// The part of a span that is in a range.
    fn span_within(&mut self, span: Span<'_>, range: &Range<u64>) {
        let index = |offset: u64| offset.saturating_sub(span.offset).min(span.bytes.len() as u64) as usize;
        let (start, end) = (index(range.start), index(range.end));
        if start < end {
            self.stream.span(Span { offset: span.offset + start as u64, bytes: &span.bytes[start..end], ..span });
        }
    }
}

impl<'c> SourceBytes<'c> {
    /// Bytes of the source with this id, or all if the buffer has no frames.
    pub(crate) fn new(
        capture: &Capture,
        buffer: &'c Buffer,
        reader: Box<dyn Read>,
        length: u64,
        id: Option<u8>,
    ) -> Self {
        Self {
            buffer,
            reader,
            deformatter: id.map(|_| deformatter(capture, buffer)),
            framed: Framed { stream: Stream::new(id.unwrap_or(NO_ID)), lost: vec![], range: None },
            chunk: vec![0; CHUNK],
            read: 0,
            length,
        }
    }

    /// Only the bytes at these offsets in the buffer.
    pub(crate) fn within(mut self, range: Option<Range<u64>>) -> Self {
        self.framed.range = range;
        self
    }

    /// Continues at the start of a chunk, with a reader that is at its [first byte](ChunkStart::first_byte).
    pub(crate) fn resumed(mut self, start: &ChunkStart) -> Result<Self, Error> {
        self.read = start.read;
        self.deformatter = match (self.deformatter, start.frames) {
            (None, None) => None,
            (Some(deformatter), Some(frames)) => {
                let mut held = vec![0; start.read.saturating_sub(frames.offset()) as usize];
                let error = |source| Error::Read { buffer: self.buffer.name.clone(), offset: frames.offset(), source };
                let count = read_full(&mut self.reader, &mut held).map_err(error)?;
                held.truncate(count);
                Some(deformatter.restored(&frames, held))
            }
            _ => {
                let source = io::Error::new(io::ErrorKind::InvalidData, "the index is that of another buffer");
                return Err(Error::Read { buffer: self.buffer.name.clone(), offset: start.read, source });
            }
        };
        Ok(self)
    }

    /// The start of the next chunk. `None`: reading cannot continue there.
    pub(crate) fn chunk_start(&self) -> Option<ChunkStart> {
        let frames = self.deformatter.as_ref().map(Deformatter::save);
        match frames {
            Some(None) => None,
            frames => {
                let position = self.framed.stream.end();
                Some(ChunkStart { read: self.read, position, frames: frames.flatten() })
            }
        }
    }

    /// Adds the next chunk of the buffer to the window. False: the buffer is at its end.
    pub(crate) fn read_chunk(&mut self) -> Result<bool, Error> {
        let offset = self.read;
        let error = |source| Error::Read { buffer: self.buffer.name.clone(), offset, source };
        let count = read_full(&mut self.reader, &mut self.chunk).map_err(error)?;
        self.read += count as u64;
        let bytes = &self.chunk[..count];
        match &mut self.deformatter {
            None if count > 0 => self.framed.span(Span { id: NO_ID, offset, bytes }),
            None => {}
            Some(deformatter) => {
                deformatter.push(bytes, &mut self.framed);
                if count == 0 {
                    deformatter.finish(&mut self.framed);
                }
            }
        }
        Ok(count > 0)
    }

    pub(crate) fn stream(&mut self) -> &mut Stream {
        &mut self.framed.stream
    }

    /// Bytes without a frame since the last call.
    pub(crate) fn lost(&mut self) -> impl Iterator<Item = FrameError> {
        self.framed.lost.drain(..)
    }
}

/// Fills the chunk, so that chunks do not depend on how a reader splits its data. Returns the number of bytes read.
pub(crate) fn read_full(reader: &mut dyn Read, chunk: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < chunk.len() {
        match reader.read(&mut chunk[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Decoder of the packets in windows, with their offsets in the buffer.
#[derive(Debug, Clone)]
pub(crate) struct Reader<D> {
    pub(crate) decoder: D,
    /// Start of the bytes being skipped, as offsets in the stream and in the buffer.
    open: Option<(u64, u64)>,
}

impl<D: DecodePackets> Reader<D> {
    pub(crate) fn new(decoder: D) -> Self {
        Self { decoder, open: None }
    }

    /// Decodes the window, break by break. The bytes left in it start a packet whose end has not arrived.
    #[inline(always)]
    pub(crate) fn decode(&mut self, stream: &mut Stream, last: bool, sink: &mut impl Sink<PacketItem<D::Packet>>) {
        loop {
            let next_break = stream.next_break();
            let length = next_break.map_or(stream.bytes().len(), |here| (here - stream.start()) as usize);
            // The pipeline is inlined here, and nowhere else.
            self.decode_up_to(stream, length, last || next_break.is_some(), sink);
            let Some(here) = next_break else { break };
            self.decoder.resync_at(self.decoder.offset());
            if here > 0 {
                // Later stages must see the break, even if the next byte starts a synchronization.
                let offset = stream.buffer_offset(here);
                sink.item(Err(PacketError { offset, skipped: 0, kind: Malformed::Discontinuity }));
            }
            stream.pass_break();
        }
    }

    #[inline(always)]
    fn decode_up_to(
        &mut self,
        stream: &mut Stream,
        length: usize,
        last: bool,
        sink: &mut impl Sink<PacketItem<D::Packet>>,
    ) {
        // The decoder borrows the window while offsets are looked up in the same stream.
        let (bytes, mut offsets) = stream.split();
        let locating = Locating { offsets: &mut offsets, open: &mut self.open, sink };
        let read = self.decoder.decode(&bytes[..length], last, locating);
        let unreported = self.decoder.unreported_from();
        if unreported < self.decoder.offset() {
            let offset = self.open.map_or_else(|| offsets.buffer_offset(unreported), |(_, offset)| offset);
            self.open = Some((unreported, offset));
        }
        stream.consume(read);
    }

    /// Decodes the window up to the flow of the program.
    #[inline(never)]
    pub(crate) fn decode_flow<C: DecodeElements<Packet = D::Packet>, M: CodeMemory>(
        &mut self,
        stream: &mut Stream,
        last: bool,
        flow: &mut FlowDecoder<C, M>,
        sink: &mut impl FlowSink,
    ) {
        self.decode(stream, last, &mut flow.decoding(sink));
    }
}

/// Sink that replaces offsets in the stream by offsets in the buffer.
struct Locating<'p, 's, T> {
    offsets: &'p mut Offsets<'s>,
    open: &'p mut Option<(u64, u64)>,
    sink: &'p mut T,
}

impl<P, T: Sink<PacketItem<P>>> Sink<PacketItem<P>> for Locating<'_, '_, T> {
    #[inline(always)]
    fn item(&mut self, mut item: PacketItem<P>) {
        let offset = match &mut item {
            Ok(packet) => &mut packet.offset,
            Err(error) => &mut error.offset,
        };
        // An item that earlier windows left open starts in one of them.
        *offset = match self.open.take() {
            Some((stream, start)) if stream == *offset => start,
            _ => self.offsets.buffer_offset(*offset),
        };
        self.sink.item(item);
    }
}
