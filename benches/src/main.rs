//! How fast each room is, beside the reference decoder, in one run on one core.
//!
//! Comes in: the corpus folder (`UNSPOOL_CORPUS`). Goes out: a table; every row has both speeds and their ratio, since
//! the speed of a machine changes from minute to minute and the ratio does not.

use std::env;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use unspool_coresight::Protocol;
use unspool_coresight::etm4::{
    Config, Element, ElementDecoder, ElementItem, Located, Packet, PacketDecoder, PacketItem, Profile, Registers, Speculation,
    Transactions,
};
use unspool_coresight::frame::{Deformatter, FrameData, Layout, Mark, Receive, Span, Stream};

#[repr(C)]
struct Unit {
    id: u32,
    configr: u32,
    idr0: u32,
    idr1: u32,
    idr2: u32,
    idr8: u32,
}

unsafe extern "C" {
    fn reference_packets(bytes: *const u8, length: u32, formatted: i32, units: *const Unit, count: u32) -> i64;
}

fn reference(bytes: &[u8], formatted: bool, units: &[Unit]) -> u64 {
    // SAFETY: the shim reads `length` bytes and `count` units and keeps no pointer.
    let packets = unsafe {
        reference_packets(bytes.as_ptr(), bytes.len() as u32, i32::from(formatted), units.as_ptr(), units.len() as u32)
    };
    u64::try_from(packets).expect("the reference decoder reads the buffer")
}

/// The trace units of the benchmark snapshot.
const IDS: [u8; 6] = [0x10, 0x12, 0x14, 0x16, 0x18, 0x1a];
const ROUNDS: usize = 100;
/// Bytes of the buffer that are in hand at once.
const PIECE: usize = 64 * 1024;

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
    let path = corpus.join("coresight/bugfix-exact-match/cstrace.bin");
    let bytes = std::fs::read(&path).expect("the benchmark buffer");
    println!("{} bytes, median of {ROUNDS} rounds, ours and the reference in turn", bytes.len());
    println!("{:28} {:>12} {:>12} {:>8}", "room", "unspool", "reference", "ratio");

    let units: Vec<Unit> = IDS.iter().map(|&id| unit(id)).collect();
    row("frames to streams", bytes.len(), || demultiplexed(&bytes), || reference(&bytes, true, &[]));
    let streams = streams(&bytes);
    let busiest = streams.iter().max_by_key(|stream| stream.len()).expect("a stream");
    row("one stream to packets", busiest.len(), || packets(busiest), || reference(busiest, false, &[unit(0x12)]));
    // The reference completes addresses in its packets, so its packets are what this compares with.
    row("one stream to committed", busiest.len(), || committed(busiest), || reference(busiest, false, &[unit(0x12)]));
    row("frames to packets", bytes.len(), || frames_to_packets(&bytes), || reference(&bytes, true, &units));
}

/// The streams of all sources at once, as the reference makes them.
struct All {
    streams: Vec<Stream>,
    place: [u8; 128],
}

impl All {
    fn new() -> Self {
        let mut place = [0xff; 128];
        IDS.iter().zip(0..).for_each(|(&id, index)| place[usize::from(id)] = index);
        Self { streams: IDS.iter().map(|&id| Stream::new(id)).collect(), place }
    }

    fn stream(&mut self, id: u8) -> Option<&mut Stream> {
        self.streams.get_mut(usize::from(self.place[usize::from(id)]))
    }
}

impl Receive for All {
    fn span(&mut self, span: Span<'_>) {
        if let Some(stream) = self.stream(span.id) {
            stream.span(span);
        }
    }

    #[inline]
    fn whole(&mut self, id: u8, offset: u64, data: FrameData) {
        if let Some(stream) = self.stream(id) {
            stream.whole(id, offset, data);
        }
    }

    fn mark(&mut self, mark: Mark) {
        self.streams.iter_mut().for_each(|stream| stream.mark(mark));
    }
}

/// Takes the buffer apart piece by piece, as a pipeline does, and hands each piece of each stream on.
fn demultiplex(bytes: &[u8], mut sink: impl FnMut(usize, &mut Stream)) {
    let mut all = All::new();
    let mut deformatter = Deformatter::new(Layout::FromStart);
    for piece in bytes.chunks(PIECE) {
        deformatter.push(piece, &mut all);
        all.streams.iter_mut().enumerate().for_each(|(index, stream)| sink(index, stream));
    }
    deformatter.finish(&mut all);
    all.streams.iter_mut().enumerate().for_each(|(index, stream)| sink(index, stream));
}

/// The whole streams.
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

/// Uses what a packet says, so that reading it cannot be left out.
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

/// Packets, elements, speculation resolved; counts elements.
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

/// Times both in turn and prints the medians: a round that was disturbed counts no more than any other.
fn row(name: &str, bytes: usize, ours: impl Fn() -> u64, reference: impl Fn() -> u64) {
    let (mut times, mut reference_times) = (vec![], vec![]);
    let (mut count, mut count_reference) = (0, 0);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        count = black_box(ours());
        times.push(start.elapsed());
        let start = Instant::now();
        count_reference = black_box(reference());
        reference_times.push(start.elapsed());
    }
    let [time, reference_time] = [times, reference_times].map(median);
    let speed = |time: Duration| format!("{:.0} MB/s", bytes as f64 / time.as_secs_f64() / 1e6);
    let ratio = reference_time.as_secs_f64() / time.as_secs_f64();
    println!(
        "{name:28} {:>12} {:>12} {ratio:>7.1}x   ({count} / {count_reference})",
        speed(time),
        speed(reference_time)
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
