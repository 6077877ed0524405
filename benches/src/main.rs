//! Speed of each decoding stage next to the reference decoder, in one run on one core.
//!
//! Takes the corpus folder (`UNSPOOL_CORPUS`) and optionally a part of the names of the rows to measure. Prints a table: every
//! row has both speeds and their ratio, since the speed of a machine changes from minute to minute and the ratio does not.
//! Times are processor time, so that other work on the machine counts little. `run` builds the reference with all optimizations.

mod older;

use std::env;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use unspool::capture::Capture;
use unspool::{Parts, Program, Trace, Watch};
use unspool_coresight::etm4::{
    CommittedDecoder, Config, ElementDecoder, Packet, PacketDecoder, PacketItem, Registers, Speculation,
};
use unspool_coresight::frame::{Deformatter, FrameSink, Layout, Mark, Span, Stream, WholeFrames};
use unspool_coresight::{
    DecodeElements as _, DecodePackets as _, Element, ElementItem, InstructionDecoders as _, Located, Profile, Protocol,
    Sink, Transactions,
};
use unspool_flow::{
    Around, CodeMemory, FlowDecoder, FlowItem, FlowSink, Instruction, InstructionSink, Instructions, KnownCode, Run, Space,
};

#[repr(C)]
struct Unit {
    id: u32,
    configr: u32,
    idr0: u32,
    idr1: u32,
    idr2: u32,
    idr8: u32,
}

#[repr(C)]
struct ReferenceImage {
    address: u64,
    bytes: *const u8,
    length: u32,
}

unsafe extern "C" {
    fn reference_ranges(
        bytes: *const u8,
        length: u32,
        formatted: i32,
        units: *const Unit,
        count: u32,
        images: *const ReferenceImage,
        count_of_images: u32,
    ) -> i64;
    fn reference_packets(bytes: *const u8, length: u32, formatted: i32, units: *const Unit, count: u32) -> i64;
    fn thread_nanoseconds() -> u64;
}

/// Processor time that this thread has used so far.
fn processor_time() -> Duration {
    // SAFETY: the function only reads a clock.
    Duration::from_nanos(unsafe { thread_nanoseconds() })
}

/// Processor time of a function, and its result.
fn timed(function: impl Fn() -> u64) -> (Duration, u64) {
    let start = processor_time();
    let result = black_box(function());
    (processor_time() - start, result)
}

fn reference(bytes: &[u8], formatted: bool, units: &[Unit]) -> u64 {
    // SAFETY: the shim reads `length` bytes and `count` units and keeps no pointer.
    let packets = unsafe {
        reference_packets(bytes.as_ptr(), bytes.len() as u32, i32::from(formatted), units.as_ptr(), units.len() as u32)
    };
    u64::try_from(packets).expect("the reference decoder reads the buffer")
}

/// Full decode by the reference, with the images in memory. Returns the number of executed instructions.
fn reference_flow(bytes: &[u8], formatted: bool, units: &[Unit], images: &Images) -> u64 {
    let images = images.for_reference();
    // SAFETY: the shim reads `length` bytes, `count` units and the images, and keeps no pointer.
    let instructions = unsafe {
        reference_ranges(
            bytes.as_ptr(),
            bytes.len() as u32,
            i32::from(formatted),
            units.as_ptr(),
            units.len() as u32,
            images.as_ptr(),
            images.len() as u32,
        )
    };
    u64::try_from(instructions).expect("the reference decoder reads the buffer")
}

/// The code of the program, as the snapshot lists it.
struct Images(Vec<(u64, Vec<u8>)>);

impl Images {
    fn read(folder: &Path) -> Self {
        let files = [
            ("cc1.init_dump.bin", 0x40_01d8),
            ("cc1.text_dump.bin", 0x40_0200),
            ("cc1__libc_freeres_fn_dump.bin", 0x5c_e9c0),
            ("cc1__libc_thread_freeres_fn_dump.bin", 0x5c_f610),
            ("cc1.fini_dump.bin", 0x5c_f700),
        ];
        Self::of(folder, &files)
    }

    fn of(folder: &Path, files: &[(&str, u64)]) -> Self {
        let read = |&(file, address): &(&str, u64)| (address, std::fs::read(folder.join(file)).expect("an image"));
        Self(files.iter().map(read).collect())
    }

    fn for_reference(&self) -> Vec<ReferenceImage> {
        let image = |(address, bytes): &(u64, Vec<u8>)| ReferenceImage {
            address: *address,
            bytes: bytes.as_ptr(),
            length: bytes.len() as u32,
        };
        self.0.iter().map(image).collect()
    }
}

impl CodeMemory for Images {
    fn read<'b>(&'b self, address: u64, _space: Space, _buffer: &'b mut [u8]) -> &'b [u8] {
        let within = |(start, bytes): &&(u64, Vec<u8>)| address.wrapping_sub(*start) < bytes.len() as u64;
        self.0.iter().find(within).map_or(&[], |(start, bytes)| &bytes[(address - start) as usize..])
    }
}

/// The trace units of the benchmark snapshot.
const IDS: [u8; 6] = [0x10, 0x12, 0x14, 0x16, 0x18, 0x1a];
/// Bytes of the buffer that are pushed at once.
const CHUNK: usize = 64 * 1024;

fn unit(id: u8) -> Unit {
    Unit { id: u32::from(id), configr: 1, idr0: 0x2800_0ea1, idr1: 0x4100_f403, idr2: 0x488, idr8: 0 }
}

fn config() -> Config {
    let mut registers = Registers::default();
    for (name, value) in
        [("TRCCONFIGR", 1), ("TRCIDR0", 0x2800_0ea1), ("TRCIDR1", 0x4100_f403), ("TRCIDR2", 0x488), ("TRCIDR8", 0)]
    {
        registers.set(name, value);
    }
    Config::new(Protocol::Etm4, Profile::Application, &registers).0
}

fn main() {
    let corpus = PathBuf::from(env::var_os("UNSPOOL_CORPUS").expect("UNSPOOL_CORPUS names the corpus folder"));
    let folder = corpus.join("coresight/bugfix-exact-match");
    let bytes = std::fs::read(folder.join("cstrace.bin")).expect("the benchmark buffer");
    let images = Images::read(&folder);
    let units: Vec<Unit> = IDS.iter().map(|&id| unit(id)).collect();
    let streams = streams(&bytes);
    let busiest = streams.iter().max_by_key(|stream| stream.len()).expect("a stream");
    let table = Table { wanted: env::args().nth(1) };

    println!("| from, to | unspool | reference | ratio (quartiles) | counts |\n|---|---|---|---|---|");
    let size = bytes.len();
    table.row("frames to streams", size, 100, 1, || demultiplexed(&bytes), || reference(&bytes, true, &[]));
    let packets_of = || reference(busiest, false, &[unit(0x12)]);
    table.row("one stream to packets", busiest.len(), 100, 1, || packets(busiest), packets_of);
    // The reference completes addresses in its packets, so this is compared with its packets.
    table.row("one stream to committed", busiest.len(), 100, 1, || committed(busiest), packets_of);
    table.row("frames to packets", size, 100, 1, || frames_to_packets(&bytes), || reference(&bytes, true, &units));
    let flow_of = || reference_flow(busiest, false, &[unit(0x12)], &images);
    table.row("one stream to ranges", busiest.len(), 20, 1, || ranges(busiest, &images), flow_of);
    table.row("each range", busiest.len(), 20, 1, || each_range(busiest, &images), flow_of);
    table.row("one stream to instructions", busiest.len(), 20, 1, || instructions(busiest, &images), flow_of);
    let flow_of_all = || reference_flow(&bytes, true, &units, &images);
    table.row("frames to ranges", size, 20, 1, || frames_to_ranges(&bytes, &images), flow_of_all);
    let (long, times) = (bytes.repeat(16), 16);
    let flow_of_long = || times * reference_flow(&bytes, true, &units, &images);
    table.row("frames to ranges, 16 MiB", long.len(), 10, times, || frames_to_ranges(&long, &images), flow_of_long);
    let long_stream = busiest.repeat(16);
    let flow_of_long = || times * reference_flow(busiest, false, &[unit(0x12)], &images);
    let ours = || instructions(&long_stream, &images);
    table.row("instructions, 16 MiB", long_stream.len(), 5, times, ours, flow_of_long);
    let small = SmallBuffers::of(busiest);
    let (ours, theirs) = (|| small.ranges(&images), || small.reference(&images));
    table.row("buffers of 8 KiB of one program, to ranges", small.bytes(), 10, 1, ours, theirs);
    older::rows(&table, &corpus.join("coresight"));
    table.cores(&folder, &bytes);
}

/// Decodes the snapshot from disk with this number of threads. Returns the number of instructions.
fn on_cores(capture: &Capture, threads: usize) -> u64 {
    let trace = Trace::all(capture).into_iter().find(|trace| trace.source().id == Some(0x12)).expect("the busy source");
    let (program, _) = Program::of(capture, trace.source().core, &[]);
    let mut instructions = 0;
    let mut add = |part: Counts, _| {
        instructions += part.instructions;
        true
    };
    let parts = Parts::on(threads);
    trace.flow_in_parts(parts, Transactions::Show, &program, Counts::default, &mut add).expect("a readable capture");
    instructions
}

/// The streams of all sources at once, as in the reference.
struct All {
    streams: Vec<Stream>,
    position: [u8; 128],
}

impl All {
    fn new() -> Self {
        let mut position = [0xff; 128];
        IDS.iter().zip(0..).for_each(|(&id, index)| position[usize::from(id)] = index);
        Self { streams: IDS.iter().map(|&id| Stream::new(id)).collect(), position }
    }

    fn stream(&mut self, id: u8) -> Option<&mut Stream> {
        self.streams.get_mut(usize::from(self.position[usize::from(id)]))
    }
}

impl FrameSink for All {
    fn span(&mut self, span: Span<'_>) {
        if let Some(stream) = self.stream(span.id) {
            stream.span(span);
        }
    }

    #[inline]
    fn whole(&mut self, id: u8, offset: u64, frames: WholeFrames<'_>) {
        if let Some(stream) = self.stream(id) {
            stream.whole(id, offset, frames);
        }
    }

    fn mark(&mut self, mark: Mark) {
        self.streams.iter_mut().for_each(|stream| stream.mark(mark));
    }
}

/// Deformats the buffer chunk by chunk, as a pipeline does, and passes each stream to `sink` after each chunk.
fn demultiplex(bytes: &[u8], mut sink: impl FnMut(usize, &mut Stream)) {
    let mut all = All::new();
    let mut deformatter = Deformatter::new(Layout::FromStart);
    for chunk in bytes.chunks(CHUNK) {
        deformatter.push(chunk, &mut all);
        all.streams.iter_mut().enumerate().for_each(|(index, stream)| sink(index, stream));
    }
    deformatter.finish(&mut all);
    all.streams.iter_mut().enumerate().for_each(|(index, stream)| sink(index, stream));
}

fn streams(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut streams = vec![vec![]; IDS.len()];
    demultiplex(bytes, |index, stream| {
        streams[index].extend_from_slice(stream.bytes());
        stream.consume(stream.bytes().len());
    });
    streams
}

fn demultiplexed(bytes: &[u8]) -> u64 {
    let mut total = 0;
    demultiplex(bytes, |_, stream| {
        let length = black_box(stream.bytes()).len();
        total += length as u64;
        stream.consume(length);
    });
    total
}

fn frames_to_packets(bytes: &[u8]) -> u64 {
    let mut decoders = vec![PacketDecoder::new(&config()); IDS.len()];
    let mut count = 0;
    let mut check = 0;
    demultiplex(bytes, |index, stream| {
        let (mut items, mut sum) = (0, 0);
        let read = decoders[index].decode(stream.bytes(), false, |item: PacketItem| {
            items += 1;
            sum ^= touch(&item);
        });
        count += items;
        check ^= sum;
        stream.consume(read);
    });
    decoders.iter_mut().for_each(|decoder| {
        decoder.decode(&[], true, |_: PacketItem| count += 1);
    });
    black_box(check);
    count
}

/// Uses the contents of a packet, so that decoding it cannot be optimized away.
#[inline(always)]
fn touch(item: &PacketItem) -> u64 {
    match item {
        Ok(Located { value: Packet::Atoms(atoms), .. }) => u64::from(atoms.bits()) << 8 | u64::from(atoms.count()),
        Ok(Located { value: Packet::Address(address), .. }) => address.value,
        Ok(packet) => packet.length,
        Err(error) => error.skipped,
    }
}

fn packets(bytes: &[u8]) -> u64 {
    let mut decoder = PacketDecoder::new(&config());
    let mut count = 0;
    let mut check = 0;
    decoder.decode(bytes, true, |item: PacketItem| {
        count += 1;
        check ^= touch(&item);
    });
    black_box(check);
    count
}

/// Decodes packets and elements, and resolves speculation. Returns the number of elements.
fn committed(bytes: &[u8]) -> u64 {
    let config = config();
    let mut packets = PacketDecoder::new(&config);
    let mut elements = ElementDecoder::new(&config);
    let mut speculation = Speculation::new(&config, Transactions::Resolve);
    let (mut count, mut check) = (0, 0);
    packets.decode(bytes, true, |packet: PacketItem| {
        elements.push(packet, &mut |element: ElementItem| {
            speculation.push(element, &mut |item: ElementItem| {
                count += 1;
                check ^= match item {
                    Ok(Located { value: Element::Atoms(atoms), .. }) => u64::from(atoms.bits()),
                    Ok(Located { value: Element::TargetAddress(target), .. }) => target.address,
                    Ok(other) => other.length,
                    Err(error) => error.skipped,
                };
            });
        });
    });
    black_box(check);
    count
}

/// Counts executed ranges and instructions, as the consumer of the reference does.
#[derive(Default)]
struct Counts {
    ranges: u64,
    instructions: u64,
}

impl FlowSink for Counts {
    #[inline(always)]
    fn run(&mut self, run: Run<'_>) {
        self.ranges += run.len() as u64;
        self.instructions += run.instructions();
    }

    fn item(&mut self, item: FlowItem) {
        black_box(item.is_ok());
    }
}

impl Watch for Counts {}

/// Reads every range.
#[derive(Default)]
struct EachRange {
    instructions: u64,
    check: u64,
}

impl FlowSink for EachRange {
    #[inline(always)]
    fn run(&mut self, run: Run<'_>) {
        for range in run.ranges() {
            self.instructions += u64::from(range.instructions());
            self.check ^= range.start() ^ range.end() ^ u64::from(range.taken());
        }
    }

    fn item(&mut self, item: FlowItem) {
        black_box(item.is_ok());
    }
}

/// Reads every instruction.
#[derive(Default)]
struct EachInstruction {
    instructions: u64,
    check: u64,
}

impl InstructionSink for EachInstruction {
    #[inline(always)]
    fn instruction(&mut self, instruction: &Instruction, _around: &Around) {
        self.instructions += 1;
        self.check ^= instruction.address ^ u64::from(instruction.opcode);
    }

    fn item(&mut self, item: FlowItem) {
        black_box(item.is_ok());
    }
}

/// Decodes the flow from packets.
struct Flow<'i, S> {
    decoder: FlowDecoder<CommittedDecoder, &'i Images>,
    sink: S,
}

impl<'i, S: FlowSink> Flow<'i, S> {
    fn new(images: &'i Images, sink: S) -> Self {
        Self { decoder: FlowDecoder::new(&config(), Transactions::Show, images), sink }
    }

    fn of(bytes: &[u8], images: &'i Images, sink: S) -> S {
        let mut flow = Self::new(images, sink);
        PacketDecoder::new(&config()).decode(bytes, true, &mut flow);
        flow.finish(bytes.len() as u64)
    }

    fn finish(mut self, end: u64) -> S {
        self.decoder.finish(end, &mut self.sink);
        self.sink
    }
}

impl<S: FlowSink> Sink<PacketItem> for &mut Flow<'_, S> {
    #[inline(always)]
    fn item(&mut self, item: PacketItem) {
        self.decoder.push(item, &mut self.sink);
    }
}

fn ranges(bytes: &[u8], images: &Images) -> u64 {
    let counts = Flow::of(bytes, images, Counts::default());
    black_box(counts.ranges);
    counts.instructions
}

fn each_range(bytes: &[u8], images: &Images) -> u64 {
    let ranges = Flow::of(bytes, images, EachRange::default());
    black_box(ranges.check);
    ranges.instructions
}

fn instructions(bytes: &[u8], images: &Images) -> u64 {
    let each = Flow::of(bytes, images, Instructions::new(EachInstruction::default())).into_sink();
    black_box(each.check);
    each.instructions
}

fn frames_to_ranges(bytes: &[u8], images: &Images) -> u64 {
    let mut flows: Vec<(PacketDecoder, Flow<'_, Counts>)> =
        IDS.iter().map(|_| (PacketDecoder::new(&config()), Flow::new(images, Counts::default()))).collect();
    demultiplex(bytes, |index, stream| {
        let (packets, flow) = &mut flows[index];
        let read = packets.decode(stream.bytes(), false, flow);
        stream.consume(read);
    });
    let end = |(mut packets, mut flow): (PacketDecoder, Flow<'_, Counts>)| {
        packets.decode(&[], true, &mut flow);
        flow.finish(bytes.len() as u64).instructions
    };
    flows.into_iter().map(end).sum()
}

/// Buffers that each start with a synchronization, as a trace that wraps or a profiler leaves them.
struct SmallBuffers<'b>(Vec<&'b [u8]>);

impl<'b> SmallBuffers<'b> {
    /// Two hundred buffers of about 8 KiB of a stream, which is cut as often as needed.
    fn of(stream: &'b [u8]) -> Self {
        const SYNC: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80];
        let (mut buffers, mut rest) = (vec![], stream);
        while let Some(start) = rest.get(8 << 10..).and_then(|later| later.windows(12).position(|bytes| bytes == SYNC)) {
            let (buffer, after) = rest.split_at((8 << 10) + start);
            buffers.push(buffer);
            rest = after;
        }
        Self(buffers.into_iter().cycle().take(200).collect())
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|buffer| buffer.len()).sum()
    }

    /// Decodes one after the other, with the code that the one before has found.
    fn ranges(&self, images: &Images) -> u64 {
        let mut code = KnownCode::new(config().flow_rules());
        let mut instructions = 0;
        for buffer in &self.0 {
            let decoder = FlowDecoder::with_code(&config(), Transactions::Show, images, code);
            let mut flow = Flow { decoder, sink: Counts::default() };
            PacketDecoder::new(&config()).decode(buffer, true, &mut flow);
            flow.decoder.finish(buffer.len() as u64, &mut flow.sink);
            instructions += flow.sink.instructions;
            code = flow.decoder.into_code();
        }
        instructions
    }

    fn reference(&self, images: &Images) -> u64 {
        self.0.iter().map(|buffer| reference_flow(buffer, false, &[unit(0x12)], images)).sum()
    }
}

struct Table {
    /// Part of the names of the rows to print.
    wanted: Option<String>,
}

impl Table {
    /// Compares one thread with two, from a file.
    fn cores(&self, folder: &Path, bytes: &[u8]) {
        if self.wanted.as_ref().is_some_and(|wanted| !"two cores".contains(wanted.as_str())) {
            return;
        }
        let copy = tempfile::tempdir().expect("a temporary folder");
        for file in std::fs::read_dir(folder).expect("the snapshot").map(|entry| entry.expect("an entry").path()) {
            if file.is_file() {
                std::fs::copy(&file, copy.path().join(file.file_name().expect("a name"))).expect("a copy");
            }
        }
        let buffer = copy.path().join("cstrace.bin");
        std::fs::write(buffer, bytes.repeat(128)).expect("a long buffer");
        let capture = Capture::open(copy.path()).expect("the copied snapshot");
        let (mut one, mut two) = (vec![], vec![]);
        for _ in 0..5 {
            for (threads, times) in [(1, &mut one), (2, &mut two)] {
                let start = Instant::now();
                black_box(on_cores(&capture, threads));
                times.push(start.elapsed());
            }
        }
        let [one, two] = [one, two].map(median);
        let ratio = one.as_secs_f64() / two.as_secs_f64();
        let speeds = [one, two].map(|time| speed(128 * bytes.len(), time));
        let name = "128 MiB from disk to ranges, on two cores beside one";
        println!("| {name} | {} | {} | {ratio:.2} | |", speeds[1], speeds[0]);
    }

    /// Times ours, where there is no reference.
    fn alone(&self, name: &str, bytes: usize, rounds: usize, ours: impl Fn() -> u64) {
        if self.wanted.as_ref().is_some_and(|wanted| !name.contains(wanted)) {
            return;
        }
        let (times, counts): (Vec<Duration>, Vec<u64>) = (0..rounds).map(|_| timed(&ours)).unzip();
        println!("| {name} | {} | | | {} |", speed(bytes, median(times)), counts[0]);
    }

    /// Times both alternating, so that both get the same share of disturbances. The reference does one of `parts` equal parts of
    /// the work. Prints medians, and the ratio with its quartiles.
    fn row(
        &self,
        name: &str,
        bytes: usize,
        rounds: usize,
        parts: u64,
        ours: impl Fn() -> u64,
        reference: impl Fn() -> u64,
    ) {
        if self.wanted.as_ref().is_some_and(|wanted| !name.contains(wanted)) {
            return;
        }
        let (mut times, mut reference_times, mut ratios) = (vec![], vec![], vec![]);
        let mut counts = (0, 0);
        for _ in 0..rounds {
            let ((time, count), (reference_time, count_reference)) = (timed(&ours), timed(&reference));
            let reference_time = reference_time * parts as u32;
            ratios.push(reference_time.as_secs_f64() / time.as_secs_f64());
            times.push(time);
            reference_times.push(reference_time);
            counts = (count, count_reference);
        }
        ratios.sort_by(f64::total_cmp);
        let [low, middle, high] = [1, 2, 3].map(|quarter| ratios[(ratios.len() - 1) * quarter / 4]);
        let speeds = (speed(bytes, median(times)), speed(bytes, median(reference_times)));
        println!(
            "| {name} | {} | {} | {middle:.1} ({low:.1} to {high:.1}) | {} / {} |",
            speeds.0, speeds.1, counts.0, counts.1
        );
    }
}

fn speed(bytes: usize, time: Duration) -> String {
    format!("{:.1} MB/s", bytes as f64 / time.as_secs_f64() / 1e6)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
