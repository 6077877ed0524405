//! One source in one buffer, and the pipeline over it.
//!
//! Comes in: a capture and which of its streams. Goes out: packets, elements or committed elements to a [`Sink`], each
//! with its offset in the buffer. Memory does not grow with the trace: bytes come in pieces, and only what a packet
//! needs is carried from one to the next.

use std::io::Read;

use unspool_capture::{Buffer, BufferFormat, Capture, Core, Source, Stream as StreamOf};
use unspool_coresight::Protocol;
use unspool_coresight::etm4::{
    Assumption, Config, ElementDecoder, ElementItem, Malformed, PacketDecoder, PacketError, PacketItem, Profile,
    Registers, Speculation, Transactions,
};
use unspool_coresight::frame::{Deformatter, FrameData, FrameError, Layout, Mark, Places, Receive, Span, Stream};

use unspool_flow::{CodeMemory, FlowDecoder, FlowSink};

use crate::Error;

/// How many bytes of a buffer are in hand at once.
const PIECE: usize = 256 * 1024;

/// Takes what a pipeline finds. Every `FnMut(T)` is one.
pub trait Sink<T> {
    /// The next item.
    fn item(&mut self, item: T);

    /// Bytes of the buffer that belong to no frame: nobody knows whose they were. Told between pieces, so items that
    /// come later in the buffer may have been told before.
    fn lost(&mut self, _error: FrameError) {}

    /// Is there interest in more? Asked between pieces, so some items may still come after a no.
    fn wants_more(&mut self) -> bool {
        true
    }

    /// How far reading came in the buffer, of how many bytes in all.
    fn progress(&mut self, _read: u64, _all: u64) {}
}

impl<T, F: FnMut(T)> Sink<T> for F {
    fn item(&mut self, item: T) {
        self(item);
    }
}

/// One source in one buffer of a capture.
#[derive(Debug, Clone, Copy)]
pub struct Trace<'c> {
    capture: &'c Capture,
    stream: StreamOf,
}

impl<'c> Trace<'c> {
    /// Every stream of a capture, in the order in which it lists its buffers.
    pub fn all(capture: &'c Capture) -> Vec<Self> {
        capture.streams().into_iter().map(|stream| Self { capture, stream }).collect()
    }

    /// The source.
    pub fn source(&self) -> &'c Source {
        &self.capture.sources[self.stream.source]
    }

    /// The buffer that its bytes are in.
    pub fn buffer(&self) -> &'c Buffer {
        &self.capture.buffers[self.stream.buffer]
    }

    /// The buffer's place among those of the capture.
    pub fn buffer_index(&self) -> usize {
        self.stream.buffer
    }

    /// The PE that the source traces, if the capture says.
    pub fn core(&self) -> Option<&'c Core> {
        self.source().core.and_then(|core| self.capture.cores.get(core))
    }

    /// The ordinal, from 0, of the buffer among those that carry this trace id.
    pub fn session(&self) -> usize {
        self.stream.session
    }

    /// How the trace unit was configured, and what of that was assumed because no register says it.
    pub fn config(&self) -> Result<(Config, Vec<Assumption>), Error> {
        let source = self.source();
        let protocol = source
            .protocol
            .ok_or_else(|| Error::UnknownProtocol { source_name: source.name.clone(), kind: source.kind.clone() })?;
        if !matches!(protocol, Protocol::Ete | Protocol::Etm4) {
            return Err(Error::NotReadable { source_name: source.name.clone(), protocol });
        }
        let (mut config, assumed) = Config::new(protocol, self.profile(), &self.registers());
        source.options.iter().for_each(|(name, value)| apply_option(&mut config, name, value));
        Ok((config, assumed))
    }

    fn profile(&self) -> Profile {
        let Some(core) = self.core() else { return Profile::Unknown };
        let kind = core.kind.to_ascii_lowercase();
        let starts = |names: &[&str]| names.iter().any(|name| kind.starts_with(name));
        if starts(&["cortex-m", "star"]) {
            Profile::Microcontroller
        } else if starts(&["cortex-", "neoverse", "arm-aa64", "armv8-a", "armv9-a"]) {
            Profile::Application
        } else {
            Profile::Unknown
        }
    }

    fn registers(&self) -> Registers {
        let mut registers = Registers::default();
        for register in &self.source().registers {
            registers.set(&register.name, register.value as u32);
        }
        registers
    }

    /// Goes through the packets. Offsets are those of the buffer, lengths count the source's own bytes.
    pub fn packets(&self, sink: &mut impl Sink<PacketItem>) -> Result<(), Error> {
        let (config, _) = self.config()?;
        let mut decoder = PacketDecoder::new(&config);
        let mut stream = self.open_stream()?;
        loop {
            let last = !stream.read_piece()?;
            decode_piece(&mut stream, &mut decoder, last, &mut |item| sink.item(item));
            stream.lost().for_each(|error| sink.lost(error));
            sink.progress(stream.read, stream.length);
            if last || !sink.wants_more() {
                return Ok(());
            }
        }
    }

    /// Goes through the elements, speculative ones too.
    pub fn elements(&self, sink: &mut impl Sink<ElementItem>) -> Result<(), Error> {
        let (config, _) = self.config()?;
        let mut through = Through { room: ElementDecoder::new(&config), sink };
        self.packets(&mut through)?;
        let Through { mut room, sink } = through;
        room.finish(&mut |item| sink.item(item));
        Ok(())
    }

    /// Goes through the elements that really happened. Returns how many P0 elements were still speculative at the end.
    pub fn committed(&self, transactions: Transactions, sink: &mut impl Sink<ElementItem>) -> Result<u64, Error> {
        let (config, _) = self.config()?;
        let mut through = Through { room: Speculation::new(&config, transactions), sink };
        self.elements(&mut through)?;
        let Through { mut room, sink } = through;
        Ok(room.finish(&mut |item| sink.item(item)))
    }

    /// Goes through what was executed: the elements that really happened, joined with the code of the program. Returns
    /// how many P0 elements were still speculative at the end.
    pub fn flow(
        &self,
        transactions: Transactions,
        program: &impl CodeMemory,
        sink: &mut impl FlowReceiver,
    ) -> Result<u64, Error> {
        let (config, _) = self.config()?;
        let decoder = FlowDecoder::new(&config, transactions, program);
        let mut walk = Walk { decoder, sink };
        self.packets(&mut walk)?;
        Ok(walk.decoder.finish(self.buffer().len(), walk.sink))
    }

    /// Writes the source's own bytes, frames taken off.
    pub fn bytes(&self, sink: &mut impl for<'b> Sink<&'b [u8]>) -> Result<(), Error> {
        let mut stream = self.open_stream()?;
        loop {
            let last = !stream.read_piece()?;
            sink.item(stream.bytes());
            stream.consume(stream.bytes().len());
            while stream.next_break().is_some() {
                stream.pass_break();
            }
            stream.lost().for_each(|error| sink.lost(error));
            sink.progress(stream.read, stream.length);
            if last || !sink.wants_more() {
                return Ok(());
            }
        }
    }

    fn open_stream(&self) -> Result<SourceBytes<'c>, Error> {
        let buffer = self.buffer();
        let reader = self.capture.reader(self.stream.buffer)?;
        let id = self.source().id;
        let frames = match (buffer.format.is_formatted(), id) {
            (false, _) => None,
            // Where nothing is, nothing has to be told apart.
            (true, None) if buffer.is_empty() => None,
            (true, Some(id)) => {
                Some((Deformatter::new(layout(buffer)), Framed { stream: Stream::new(id), lost: vec![] }))
            }
            (true, None) => return Err(Error::NoTraceId { source_name: self.source().name.clone() }),
        };
        let length = reader.len();
        Ok(SourceBytes {
            buffer,
            reader: Box::new(reader),
            frames,
            piece: vec![0; PIECE],
            raw: vec![],
            start: 0,
            open: None,
            read: 0,
            length,
        })
    }
}

/// A named option says one thing that a register would say among others. There are none for speculation.
fn apply_option(config: &mut Config, name: &str, value: &str) {
    let Some(number) = parse_number(value) else { return };
    match name.to_ascii_lowercase().as_str() {
        "cyclecount" => config.cycle_counting = number != 0,
        "context_id" => {
            config.context_id_bytes = (number / 8).min(4) as u8;
            config.context_ids = number != 0;
        }
        "vmid" => {
            config.vmid_bytes = (number / 8).min(4) as u8;
            config.vmids = number != 0;
        }
        "timestamp_bits" => config.timestamps = number != 0,
        _ => {}
    }
}

fn parse_number(text: &str) -> Option<u32> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(1),
        "false" | "no" | "off" => Some(0),
        text => match text.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        },
    }
}

/// Where the frames of a buffer start.
pub(crate) fn layout(buffer: &Buffer) -> Layout {
    match buffer.format {
        BufferFormat::DstreamFormatted => Layout::FromFullSync,
        _ => Layout::FromStart,
    }
}

/// The bytes of one source, a window at a time.
struct SourceBytes<'c> {
    buffer: &'c Buffer,
    reader: Box<dyn Read>,
    frames: Option<(Deformatter, Framed)>,
    piece: Vec<u8>,
    /// The window of a buffer without frames, and its place.
    raw: Vec<u8>,
    start: u64,
    /// A stretch that is being passed over: where it starts in the stream and in the buffer.
    open: Option<(u64, u64)>,
    read: u64,
    length: u64,
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

impl SourceBytes<'_> {
    /// Adds the next piece of the buffer to the window. False: that was all.
    fn read_piece(&mut self) -> Result<bool, Error> {
        let count = self.fill_piece()?;
        let piece = &self.piece[..count];
        match &mut self.frames {
            None => self.raw.extend_from_slice(piece),
            Some((deformatter, framed)) => {
                deformatter.push(piece, framed);
                if count == 0 {
                    deformatter.finish(framed);
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

    fn bytes(&self) -> &[u8] {
        self.frames.as_ref().map_or(&self.raw, |(_, framed)| framed.stream.bytes())
    }

    fn start(&self) -> u64 {
        self.frames.as_ref().map_or(self.start, |(_, framed)| framed.stream.start())
    }

    fn next_break(&self) -> Option<u64> {
        self.frames.as_ref().and_then(|(_, framed)| framed.stream.next_break())
    }

    fn place(&mut self, position: u64) -> u64 {
        self.frames.as_mut().map_or(position, |(_, framed)| framed.stream.place(position))
    }

    fn pass_break(&mut self) {
        if let Some((_, framed)) = &mut self.frames {
            framed.stream.pass_break();
        }
    }

    /// What was lost since this was last asked.
    fn lost(&mut self) -> impl Iterator<Item = FrameError> {
        self.frames.iter_mut().flat_map(|(_, framed)| framed.lost.drain(..))
    }

    fn consume(&mut self, count: usize) {
        match &mut self.frames {
            Some((_, framed)) => framed.stream.consume(count),
            None => {
                self.raw.drain(..count);
                self.start += count as u64;
            }
        }
    }
}

/// As much as fits, so that pieces do not depend on how a reader cuts.
fn read_some(reader: &mut dyn Read, piece: &mut [u8]) -> std::io::Result<usize> {
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

/// Decodes the window, stretch by stretch: no packet continues across a break.
fn decode_piece(
    source: &mut SourceBytes<'_>,
    decoder: &mut PacketDecoder,
    last: bool,
    sink: &mut impl FnMut(PacketItem),
) {
    while let Some(here) = source.next_break() {
        let length = (here - source.start()) as usize;
        decode_stretch(source, decoder, length, true, sink);
        decoder.resync();
        if here > 0 {
            // The rooms behind must know, even if the next byte starts a synchronisation.
            sink(Err(PacketError { offset: source.place(here), skipped: 0, kind: Malformed::Discontinuity }));
        }
        source.pass_break();
    }
    decode_stretch(source, decoder, source.bytes().len(), last, sink);
}

fn decode_stretch(
    source: &mut SourceBytes<'_>,
    decoder: &mut PacketDecoder,
    length: usize,
    last: bool,
    sink: &mut impl FnMut(PacketItem),
) {
    let read = match &mut source.frames {
        None => decoder.decode(&source.raw[..length], last, sink),
        Some((_, Framed { stream, .. })) => {
            // The window is lent to the decoder while places are looked up in the same stream.
            let (bytes, mut places) = stream.split();
            let open = &mut source.open;
            let read = decoder.decode(&bytes[..length], last, |item| sink(placed(item, open.take(), &mut places)));
            let untold = decoder.untold();
            if untold < decoder.offset() {
                let place = open.map_or_else(|| places.place(untold), |(_, place)| place);
                *open = Some((untold, place));
            }
            read
        }
    };
    source.consume(read);
}

/// The item with its offset in the buffer. An item that earlier windows left `open` starts in one of those.
fn placed(mut item: PacketItem, open: Option<(u64, u64)>, places: &mut Places<'_>) -> PacketItem {
    let offset = match &mut item {
        Ok(packet) => &mut packet.offset,
        Err(error) => &mut error.offset,
    };
    *offset = match open {
        Some((stream, place)) if stream == *offset => place,
        _ => places.place(*offset),
    };
    item
}

/// A room on the way: what comes in is put into it, what comes out goes on.
struct Through<'s, R, S> {
    room: R,
    sink: &'s mut S,
}

/// A room that takes `I` and gives elements.
trait Room<I> {
    fn put(&mut self, item: I, sink: &mut impl FnMut(ElementItem));
}

impl Room<PacketItem> for ElementDecoder {
    fn put(&mut self, item: PacketItem, sink: &mut impl FnMut(ElementItem)) {
        self.push(item, sink);
    }
}

impl Room<ElementItem> for Speculation {
    fn put(&mut self, item: ElementItem, sink: &mut impl FnMut(ElementItem)) {
        self.push(item, sink);
    }
}

impl<I, R: Room<I>, S: Sink<ElementItem>> Sink<I> for Through<'_, R, S> {
    fn item(&mut self, item: I) {
        let sink = &mut *self.sink;
        self.room.put(item, &mut |element| sink.item(element));
    }

    fn lost(&mut self, error: FrameError) {
        self.sink.lost(error);
    }

    fn wants_more(&mut self) -> bool {
        self.sink.wants_more()
    }

    fn progress(&mut self, read: u64, all: u64) {
        self.sink.progress(read, all);
    }
}

/// Takes what was executed, and what there is to say about reading.
pub trait FlowReceiver: FlowSink {
    /// As [`Sink::lost`].
    fn lost(&mut self, _error: FrameError) {}

    /// As [`Sink::wants_more`].
    fn wants_more(&mut self) -> bool {
        true
    }

    /// As [`Sink::progress`].
    fn progress(&mut self, _read: u64, _all: u64) {}
}

/// The last room: packets go in, what was executed comes out.
struct Walk<'s, M, S> {
    decoder: FlowDecoder<M>,
    sink: &'s mut S,
}

impl<M: CodeMemory, S: FlowReceiver> Sink<PacketItem> for Walk<'_, M, S> {
    #[inline(always)]
    fn item(&mut self, item: PacketItem) {
        self.decoder.push(item, self.sink);
    }

    fn lost(&mut self, error: FrameError) {
        self.sink.lost(error);
    }

    fn wants_more(&mut self) -> bool {
        self.sink.wants_more()
    }

    fn progress(&mut self, read: u64, all: u64) {
        self.sink.progress(read, all);
    }
}

/// Takes what the frames of a buffer hold.
pub trait Frames: Receive {
    /// As [`Sink::wants_more`].
    fn wants_more(&mut self) -> bool {
        true
    }

    /// As [`Sink::progress`].
    fn progress(&mut self, _read: u64, _all: u64) {}
}

/// Goes through the frames of one buffer.
pub fn go_through_frames(capture: &Capture, buffer: usize, sink: &mut impl Frames) -> Result<(), Error> {
    let mut reader = capture.reader(buffer)?;
    let described = &capture.buffers[buffer];
    let length = reader.len();
    let mut deformatter = Deformatter::new(layout(described));
    let mut piece = vec![0; PIECE];
    let mut read = 0;
    loop {
        let error = |source| Error::Read { buffer: described.name.clone(), offset: read, source };
        let count = read_some(&mut reader, &mut piece).map_err(error)?;
        if count == 0 {
            break;
        }
        read += count as u64;
        deformatter.push(&piece[..count], sink);
        sink.progress(read, length);
        if !sink.wants_more() {
            return Ok(());
        }
    }
    deformatter.finish(sink);
    Ok(())
}
