//! The bytes of one source, a window at a time, and the packets in it.
//!
//! Comes in: a buffer of a capture. Goes out: windows on the bytes of one source, and packets with their offsets in the
//! buffer. No packet continues across a break.

use std::io::Read;

use unspool_capture::{Buffer, BufferFormat};
use unspool_coresight::Take;
use unspool_coresight::etm4::{Malformed, PacketDecoder, PacketError, PacketItem};
use unspool_coresight::frame::{Deformatter, FrameData, FrameError, Layout, Mark, Places, Receive, Span, Stream};

use crate::Error;

/// How many bytes of a buffer are in hand at once.
pub(crate) const PIECE: usize = 256 * 1024;

/// The id of a source whose bytes have no frames.
const NO_ID: u8 = 0;

/// Where the frames of a buffer start.
pub(crate) fn layout(buffer: &Buffer) -> Layout {
    match buffer.format {
        BufferFormat::DstreamFormatted => Layout::FromFullSync,
        _ => Layout::FromStart,
    }
}

/// The bytes of one source, as they are read from a buffer.
pub(crate) struct SourceBytes<'c> {
    buffer: &'c Buffer,
    reader: Box<dyn Read>,
    /// None, if the buffer has no frames.
    deformatter: Option<Deformatter>,
    framed: Framed,
    piece: Vec<u8>,
    /// How much of the buffer was read.
    pub(crate) read: u64,
    /// How much there is.
    pub(crate) length: u64,
}

/// The stream of one source, and what belongs to no frame and so perhaps to it.
struct Framed {
    stream: Stream,
    lost: Vec<FrameError>,
}

impl Receive for Framed {
    fn span(&mut self, span: Span<'_>) {
        self.stream.span(span);
    }

    #[inline]
    fn whole(&mut self, id: u8, offset: u64, data: FrameData) {
        self.stream.whole(id, offset, data);
    }

    fn mark(&mut self, mark: Mark) {
        if let Mark::Lost(error) = mark {
            self.lost.push(error);
        }
        self.stream.mark(mark);
    }
}

impl<'c> SourceBytes<'c> {
    /// The bytes of the source with this id, or all of them if the buffer has no frames.
    pub(crate) fn new(buffer: &'c Buffer, reader: Box<dyn Read>, length: u64, id: Option<u8>) -> Self {
        Self {
            buffer,
            reader,
            deformatter: id.map(|_| Deformatter::new(layout(buffer))),
            framed: Framed { stream: Stream::new(id.unwrap_or(NO_ID)), lost: vec![] },
            piece: vec![0; PIECE],
            read: 0,
            length,
        }
    }

    /// Adds the next piece of the buffer to the window. False: that was all.
    pub(crate) fn read_piece(&mut self) -> Result<bool, Error> {
        let offset = self.read;
        let count = self.fill_piece()?;
        let bytes = &self.piece[..count];
        match &mut self.deformatter {
            None if count > 0 => self.framed.stream.span(Span { id: NO_ID, offset, bytes }),
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

    fn fill_piece(&mut self) -> Result<usize, Error> {
        let error = |source| Error::Read { buffer: self.buffer.name.clone(), offset: self.read, source };
        let count = read_some(&mut self.reader, &mut self.piece).map_err(error)?;
        self.read += count as u64;
        Ok(count)
    }

    /// The window.
    pub(crate) fn stream(&mut self) -> &mut Stream {
        &mut self.framed.stream
    }

    /// What was lost since this was last asked.
    pub(crate) fn lost(&mut self) -> impl Iterator<Item = FrameError> {
        self.framed.lost.drain(..)
    }
}

/// As much as fits, so that pieces do not depend on how a reader cuts.
pub(crate) fn read_some(reader: &mut dyn Read, piece: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < piece.len() {
        match reader.read(&mut piece[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads packets from windows and puts them at their place in the buffer.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    pub(crate) decoder: PacketDecoder,
    /// A stretch that is being passed over: where it starts in the stream and in the buffer.
    open: Option<(u64, u64)>,
}

impl Reader {
    pub(crate) fn new(decoder: PacketDecoder) -> Self {
        Self { decoder, open: None }
    }

    /// Decodes the window, stretch by stretch. What is left of it starts a packet whose end has not come.
    #[inline(always)]
    pub(crate) fn decode(&mut self, stream: &mut Stream, last: bool, sink: &mut impl Take<PacketItem>) {
        while let Some(here) = stream.next_break() {
            let length = (here - stream.start()) as usize;
            self.stretch(stream, length, true, sink);
            self.decoder.resync();
            if here > 0 {
                // The rooms behind must know, even if the next byte starts a synchronisation.
                let offset = stream.place(here);
                sink.take(Err(PacketError { offset, skipped: 0, kind: Malformed::Discontinuity }));
            }
            stream.pass_break();
        }
        self.stretch(stream, stream.bytes().len(), last, sink);
    }

    #[inline(always)]
    fn stretch(&mut self, stream: &mut Stream, length: usize, last: bool, sink: &mut impl Take<PacketItem>) {
        // The window is lent to the decoder while places are looked up in the same stream.
        let (bytes, mut places) = stream.split();
        let placing = Placing { places: &mut places, open: &mut self.open, sink };
        let read = self.decoder.decode(&bytes[..length], last, placing);
        let unreported = self.decoder.unreported_from();
        if unreported < self.decoder.offset() {
            let place = self.open.map_or_else(|| places.place(unreported), |(_, place)| place);
            self.open = Some((unreported, place));
        }
        stream.consume(read);
    }
}

/// Gives items their offset in the buffer.
struct Placing<'p, 's, T> {
    places: &'p mut Places<'s>,
    open: &'p mut Option<(u64, u64)>,
    sink: &'p mut T,
}

impl<T: Take<PacketItem>> Take<PacketItem> for Placing<'_, '_, T> {
    #[inline(always)]
    fn take(&mut self, mut item: PacketItem) {
        let offset = match &mut item {
            Ok(packet) => &mut packet.offset,
            Err(error) => &mut error.offset,
        };
        // An item that earlier windows left open starts in one of those.
        *offset = match self.open.take() {
            Some((stream, place)) if stream == *offset => place,
            _ => self.places.place(*offset),
        };
        self.sink.take(item);
    }
}
