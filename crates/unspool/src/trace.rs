//! One source in one buffer, and the pipeline over it.
//!
//! Takes a capture and one of its streams. Produces packets, elements or committed elements for a [`Sink`], and
//! instructions for a [`FlowSink`] or [`InstructionSink`], each with its offset in the buffer; a [`Watch`] supervises
//! the reading. Does not know protocols: the configuration selects the decoders. Memory does not grow with the trace: bytes
//! arrive in chunks, and only the start of an incomplete packet is kept.

use unspool_capture::{Buffer, Capture, Clock, Core, Source, Stream as StreamOf};
use unspool_coresight::frame::{FrameSink, Stream};
use unspool_coresight::{
    Assumption, DecodeElements, DecodePackets, Decoders, ElementItem, Features, InstructionDecoders as _, PacketItem,
    Profile, Protocol, Sink, TraceConfig, Transactions, with_decoders, with_instruction_decoders,
};
use unspool_flow::{FlowDecoder, FlowSink, InstructionSink, Instructions};

use crate::program::{Changes, Moment, Moments};
use crate::steps::choose;
use crate::window::{CHUNK, ChunkStart, Reader, SourceBytes, deformatter, read_full};
use crate::{Error, Program, Watch, reconfigured};

/// One source in one buffer of a capture.
#[derive(Debug, Clone, Copy)]
pub struct Trace<'c> {
    capture: &'c Capture,
    stream: StreamOf,
    /// The bytes of all configurations of the trace unit, not only of the one of this source.
    is_whole: bool,
}

impl<'c> Trace<'c> {
    /// Every stream of a capture, in the order of its buffers.
    pub fn all(capture: &'c Capture) -> Vec<Self> {
        capture.streams().into_iter().map(|stream| Self { capture, stream, is_whole: false }).collect()
    }

    /// First trace of the source with this name or trace id.
    ///
    /// # Errors
    ///
    /// If there is none, or if several sources have this id.
    pub fn named(capture: &'c Capture, wanted: &str) -> Result<Self, Error> {
        let all = Self::all(capture);
        choose(&all, Some(wanted)).map(|index| all[index])
    }

    /// The capture.
    pub fn capture(&self) -> &'c Capture {
        self.capture
    }

    /// All streams of the capture.
    pub(crate) fn siblings(&self) -> Vec<Self> {
        Self::all(self.capture)
    }

    /// Source.
    pub fn source(&self) -> &'c Source {
        &self.capture.sources[self.stream.source]
    }

    /// Index of the source in the capture.
    pub fn source_index(&self) -> usize {
        self.stream.source
    }

    /// Buffer with its bytes.
    pub fn buffer(&self) -> &'c Buffer {
        &self.capture.buffers[self.stream.buffer]
    }

    /// Index of the buffer in the capture.
    pub fn buffer_index(&self) -> usize {
        self.stream.buffer
    }

    /// PE that the source traces, if the capture names it.
    pub fn core(&self) -> Option<&'c Core> {
        self.source().core.and_then(|core| self.capture.cores.get(core))
    }

    /// Clock of its timestamps.
    pub fn clock(&self) -> Clock {
        self.capture.clock_of(self.stream.source)
    }

    /// Index, from 0, of the buffer among those that contain this trace id.
    pub fn session(&self) -> usize {
        self.stream.session
    }

    /// Contents of the trace, and assumptions made because the capture lacks a register.
    pub fn features(&self) -> Result<(Features, Vec<Assumption>), Error> {
        self.config().map(|(config, assumed)| (config.features(), assumed))
    }

    /// Configuration of the trace unit, and assumptions about it.
    pub(crate) fn config(&self) -> Result<(TraceConfig, Vec<Assumption>), Error> {
        let source = self.source();
        let protocol = source
            .protocol
            .ok_or_else(|| Error::UnknownProtocol { source_name: source.name.clone(), kind: source.kind.clone() })?;
        Ok(config_of(protocol, self.profile(), source))
    }

    /// Whether the trace has instructions. Others have what software wrote and what a DWT observed: elements, and no
    /// flow.
    pub fn has_instructions(&self) -> bool {
        self.config().is_ok_and(|(config, _)| config.has_instructions())
    }

    /// The error of a source without instructions.
    pub(crate) fn no_instructions(&self) -> Result<Error, Error> {
        let source = self.source();
        let protocol = source
            .protocol
            .ok_or_else(|| Error::UnknownProtocol { source_name: source.name.clone(), kind: source.kind.clone() })?;
        Ok(Error::NoInstructions { source_name: source.name.clone(), protocol })
    }

    /// Profile of the PE, as far as its type shows.
    pub(crate) fn profile(&self) -> Profile {
        profile_of(self.core())
    }

    /// Reads the packets. Offsets are those of the buffer; lengths count bytes of the source itself.
    pub fn packets(&self, sink: &mut (impl Sink<PacketItem> + Watch)) -> Result<(), Error> {
        with_decoders!(self.config()?.0, decoders => {
            let mut reader = Reader::new(decoders.packets());
            self.each_window(sink, |stream, last, sink| {
                reader.decode(stream, last, &mut |item: PacketItem<_>| {
                    sink.item(item.map(|packet| packet.map(Into::into)));
                });
            })
        })
    }

    /// Reads the packets, each after the elements that it completes, speculative ones too.
    pub fn packets_and_elements(
        &self,
        sink: &mut (impl Sink<PacketItem> + Sink<ElementItem> + Watch),
    ) -> Result<(), Error> {
        with_decoders!(self.config()?.0, decoders => {
            let (mut reader, mut elements) = (Reader::new(decoders.packets()), decoders.elements());
            self.each_window(sink, |stream, last, sink| {
                reader.decode(stream, last, &mut |item: PacketItem<_>| {
                    elements.push(item, &mut |element: ElementItem| sink.item(element));
                    sink.item(item.map(|packet| packet.map(Into::into)));
                });
            })?;
            elements.finish(&mut |element: ElementItem| sink.item(element));
            Ok(())
        })
    }

    /// Reads the elements, speculative ones too.
    pub fn elements(&self, sink: &mut (impl Sink<ElementItem> + Watch)) -> Result<(), Error> {
        with_decoders!(self.config()?.0, decoders => self.elements_of(&decoders, decoders.elements(), sink).map(drop))
    }

    /// Reads the committed elements. Returns the number of P0 elements that were still speculative at the end.
    pub fn committed(
        &self,
        transactions: Transactions,
        sink: &mut (impl Sink<ElementItem> + Watch),
    ) -> Result<u64, Error> {
        with_decoders!(self.config()?.0, decoders => {
            self.elements_of(&decoders, decoders.committed(transactions), sink)
        })
    }

    fn elements_of<C: Decoders>(
        &self,
        config: &C,
        mut elements: impl DecodeElements<Packet = C::Packet>,
        sink: &mut (impl Sink<ElementItem> + Watch),
    ) -> Result<u64, Error> {
        let mut reader = Reader::new(config.packets());
        self.each_window(sink, |stream, last, sink| {
            reader.decode(stream, last, &mut elements.decoding(sink));
        })?;
        Ok(elements.finish(sink))
    }

    /// Reads what was executed: the committed elements, joined with the code of the program. Returns the number of P0
    /// elements that were still speculative at the end. An error for a source without instructions.
    pub fn flow(
        &self,
        transactions: Transactions,
        program: &Program,
        sink: &mut (impl FlowSink + Watch),
    ) -> Result<u64, Error> {
        self.flow_at(&program.moments(self)?, transactions, sink)
    }

    /// As [`flow`](Self::flow), at the moments of the stream.
    pub(crate) fn flow_at(
        &self,
        moments: &Moments<'_>,
        transactions: Transactions,
        sink: &mut (impl FlowSink + Watch),
    ) -> Result<u64, Error> {
        let program = moments.first().program();
        with_instruction_decoders!(self.config()?.0, decoders => {
            let mut reader = Reader::new(decoders.packets());
            let code = program.take_known(decoders.flow_rules());
            let mut flow = FlowDecoder::with_code(&decoders, transactions, moments.first(), code);
            if moments.is_one() {
                self.each_window(sink, |stream, last, sink| reader.decode_flow(stream, last, &mut flow, sink))?;
            } else {
                let mut changes = moments.changes();
                self.each_window(sink, |stream, last, sink| {
                    decode_changing(&mut reader, stream, last, &mut flow, &mut changes, sink);
                })?;
            }
            let outstanding = flow.finish(self.buffer().len(), sink);
            program.keep_known(flow.into_code());
            Ok(outstanding)
        }, _ => Err(self.no_instructions()?))
    }

    /// Reads the executed instructions, one by one. Otherwise as [`flow`](Self::flow).
    pub fn instructions(
        &self,
        transactions: Transactions,
        program: &Program,
        sink: &mut (impl InstructionSink + Watch),
    ) -> Result<u64, Error> {
        self.flow(transactions, program, &mut Instructions::new(sink))
    }

    /// Reads the bytes of the source itself, without frames.
    pub fn bytes(&self, sink: &mut (impl for<'b> Sink<&'b [u8]> + Watch)) -> Result<(), Error> {
        self.each_window(sink, |stream, _, sink| {
            sink.item(stream.bytes());
            stream.consume(stream.bytes().len());
            while stream.next_break().is_some() {
                stream.pass_break();
            }
        })
    }

    /// Reads window after window of the source's bytes, as long as the watch wants more.
    fn each_window<W: Watch>(
        &self,
        watch: &mut W,
        mut decode: impl FnMut(&mut Stream, bool, &mut W),
    ) -> Result<(), Error> {
        let mut source = self.open_source()?;
        loop {
            let last = !source.read_chunk()?;
            decode(source.stream(), last, watch);
            source.lost().for_each(|error| watch.lost(error));
            watch.bytes_read(source.stream().start());
            watch.progress(source.read, source.length);
            if last || !watch.wants_more() {
                return Ok(());
            }
        }
    }

    pub(crate) fn open_source(&self) -> Result<SourceBytes<'c>, Error> {
        self.open_source_at(None)
    }

    /// The bytes of the source, from the start of a chunk on if there is one.
    pub(crate) fn open_source_at(&self, start: Option<&ChunkStart>) -> Result<SourceBytes<'c>, Error> {
        let buffer = self.buffer();
        let reader = self.capture.reader_at(self.stream.buffer, start.map_or(0, ChunkStart::first_byte))?;
        let id = match (buffer.format.is_formatted(), self.source().id) {
            (false, _) => None,
            // An empty buffer needs no id.
            (true, None) if buffer.is_empty() => None,
            (true, Some(id)) => Some(id),
            (true, None) => return Err(Error::NoTraceId { source_name: self.source().name.clone() }),
        };
        let length = reader.len();
        let range = if self.is_whole { None } else { reconfigured::range_of(self)? };
        let source = SourceBytes::new(self.capture, buffer, Box::new(reader), length, id).within(range);
        match start {
            Some(start) => source.resumed(start),
            None => Ok(source),
        }
    }

    /// Is it the trace of the same configuration?
    pub(crate) fn is_same(&self, other: &Trace<'_>) -> bool {
        self.stream == other.stream
    }

    /// The same trace, with the bytes of all configurations of the trace unit.
    pub(crate) fn whole(self) -> Self {
        Self { is_whole: true, ..self }
    }
}

/// Decodes a window up to the flow of a program that changes.
fn decode_changing<'p, D: DecodePackets, C: DecodeElements<Packet = D::Packet>>(
    reader: &mut Reader<D>,
    stream: &mut Stream,
    last: bool,
    flow: &mut FlowDecoder<C, Moment<'p>>,
    changes: &mut Changes<'_, 'p>,
    mut sink: &mut dyn FlowSink,
) {
    reader.decode(stream, last, &mut |item: PacketItem<_>| {
        let offset = offset_of(&item);
        changes.up_to(offset, |moment| flow.change_map(offset, moment, sink));
        flow.push(item, &mut sink);
    });
}

/// Configuration of a source with a known protocol, and assumptions about it.
pub(crate) fn source_config(capture: &Capture, source: &Source) -> Option<(TraceConfig, Vec<Assumption>)> {
    let core = source.core.and_then(|core| capture.cores.get(core));
    source.protocol.map(|protocol| config_of(protocol, profile_of(core), source))
}

fn config_of(protocol: Protocol, profile: Profile, source: &Source) -> (TraceConfig, Vec<Assumption>) {
    let registers = source.registers.iter().map(|register| (register.name.as_str(), register.value));
    let options = source.options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    TraceConfig::new(protocol, profile, registers, options)
}

fn profile_of(core: Option<&Core>) -> Profile {
    core.map_or(Profile::Unknown, |core| Profile::of_core(&core.kind))
}

/// The offset of a packet, or of the error in its place.
fn offset_of<P>(item: &PacketItem<P>) -> u64 {
    match item {
        Ok(packet) => packet.offset,
        Err(error) => error.offset,
    }
}

/// Reads the frames of one buffer.
pub fn read_frames(capture: &Capture, buffer: usize, sink: &mut (impl FrameSink + Watch)) -> Result<(), Error> {
    let mut reader = capture.reader(buffer)?;
    let described = &capture.buffers[buffer];
    let length = reader.len();
    let mut deformatter = deformatter(capture, described);
    let mut chunk = vec![0; CHUNK];
    let mut read = 0;
    loop {
        let error = |source| Error::Read { buffer: described.name.clone(), offset: read, source };
        let count = read_full(&mut reader, &mut chunk).map_err(error)?;
        if count == 0 {
            break;
        }
        read += count as u64;
        deformatter.push(&chunk[..count], sink);
        sink.progress(read, length);
        if !sink.wants_more() {
            return Ok(());
        }
    }
    deformatter.finish(sink);
    Ok(())
}
