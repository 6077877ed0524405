//! One source in one buffer, and the pipeline over it.
//!
//! Comes in: a capture and which of its streams. Goes out: packets, elements or committed elements to a [`Sink`], what was
//! executed to a [`FlowReceiver`] or [`InstructionReceiver`], each with its offset in the buffer. Memory does not grow
//! with the trace: bytes come in pieces, and only what a packet needs is carried from one to the next.

use unspool_capture::{Buffer, Capture, Core, Source, Stream as StreamOf};
use unspool_coresight::etm4::{
    Assumption, Config, ElementDecoder, ElementItem, PacketDecoder, PacketItem, Profile, Registers, Speculation,
    Transactions,
};
use unspool_coresight::frame::{Deformatter, FrameError, Receive};
use unspool_coresight::{Protocol, Take};

use unspool_flow::{CodeMemory, FlowDecoder, FlowSink, InstructionSink, Instructions};

use crate::Error;
use crate::window::{PIECE, Reader, SourceBytes, layout, read_some};

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

    /// So many bytes of the source itself were read so far. Told before the progress in the buffer.
    fn bytes_read(&mut self, _bytes: u64) {}
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

    /// The profile of the PE, as far as its type tells.
    pub(crate) fn profile(&self) -> Profile {
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
        let mut reader = Reader::new(PacketDecoder::new(&config));
        let mut source = self.open_source()?;
        loop {
            let last = !source.read_piece()?;
            reader.decode(source.stream(), last, &mut Items(sink));
            source.lost().for_each(|error| sink.lost(error));
            sink.bytes_read(source.stream().start());
            sink.progress(source.read, source.length);
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

    /// Goes through the instructions that were executed, one by one. Otherwise as [`flow`](Self::flow).
    pub fn instructions(
        &self,
        transactions: Transactions,
        program: &impl CodeMemory,
        sink: &mut impl InstructionReceiver,
    ) -> Result<u64, Error> {
        self.flow(transactions, program, &mut Instructions::new(sink))
    }

    /// Writes the source's own bytes, frames taken off.
    pub fn bytes(&self, sink: &mut impl for<'b> Sink<&'b [u8]>) -> Result<(), Error> {
        let mut source = self.open_source()?;
        loop {
            let last = !source.read_piece()?;
            let stream = source.stream();
            sink.item(stream.bytes());
            stream.consume(stream.bytes().len());
            while stream.next_break().is_some() {
                stream.pass_break();
            }
            source.lost().for_each(|error| sink.lost(error));
            sink.progress(source.read, source.length);
            if last || !sink.wants_more() {
                return Ok(());
            }
        }
    }

    pub(crate) fn open_source(&self) -> Result<SourceBytes<'c>, Error> {
        let buffer = self.buffer();
        let reader = self.capture.reader(self.stream.buffer)?;
        let id = match (buffer.format.is_formatted(), self.source().id) {
            (false, _) => None,
            // Where nothing is, nothing has to be told apart.
            (true, None) if buffer.is_empty() => None,
            (true, Some(id)) => Some(id),
            (true, None) => return Err(Error::NoTraceId { source_name: self.source().name.clone() }),
        };
        let length = reader.len();
        Ok(SourceBytes::new(buffer, Box::new(reader), length, id))
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

/// Hands packets to a sink.
struct Items<'s, S>(&'s mut S);

impl<S: Sink<PacketItem>> Take<PacketItem> for Items<'_, S> {
    #[inline(always)]
    fn take(&mut self, item: PacketItem) {
        self.0.item(item);
    }
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

    fn bytes_read(&mut self, bytes: u64) {
        self.sink.bytes_read(bytes);
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

    /// As [`Sink::bytes_read`].
    fn bytes_read(&mut self, _bytes: u64) {}
}

/// Takes the instructions that were executed, and what there is to say about reading.
pub trait InstructionReceiver: InstructionSink {
    /// As [`Sink::lost`].
    fn lost(&mut self, _error: FrameError) {}

    /// As [`Sink::wants_more`].
    fn wants_more(&mut self) -> bool {
        true
    }

    /// As [`Sink::progress`].
    fn progress(&mut self, _read: u64, _all: u64) {}

    /// As [`Sink::bytes_read`].
    fn bytes_read(&mut self, _bytes: u64) {}
}

impl<S: InstructionReceiver> FlowReceiver for Instructions<&mut S> {
    fn lost(&mut self, error: FrameError) {
        self.sink().lost(error);
    }

    fn wants_more(&mut self) -> bool {
        self.sink().wants_more()
    }

    fn progress(&mut self, read: u64, all: u64) {
        self.sink().progress(read, all);
    }

    fn bytes_read(&mut self, bytes: u64) {
        self.sink().bytes_read(bytes);
    }
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

    fn bytes_read(&mut self, bytes: u64) {
        self.sink.bytes_read(bytes);
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
