//! Software trace of the corpus (ITM, STM), compared with the reference decoder, its packet lister, and sigrok.
//!
//! Needs `UNSPOOL_CORPUS`, the folder that holds `coresight/`; the packet lister is in Debian's libopencsd-bin. Then the
//! same captures with flipped bytes.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use unspool::capture::{BufferFormat, Capture, Registers};
use unspool::coresight::itm::{Event, ExceptionAction, OwnElement as ItmElement, PcSample, Relation};
use unspool::coresight::stm::{Body, Kind, Timestamp, TimestampFormat};
use unspool::coresight::{Element, ElementItem, Malformed, Packet, PacketItem, Protocol, Software, TimeQuality};
use unspool::{Bare, Trace, open_bare, overview};
use unspool_testing::{corpus, reference_listing, tool};

use super::fixtures::assert_same;

fn snapshot(name: &str) -> Option<PathBuf> {
    Some(corpus("coresight")?.join(name))
}

fn elements(trace: &Trace<'_>) -> Vec<ElementItem> {
    let mut items = vec![];
    trace.elements(&mut (|item: ElementItem| items.push(item), ())).unwrap();
    items
}

fn packets(trace: &Trace<'_>) -> Vec<PacketItem> {
    let mut items = vec![];
    trace.packets(&mut (|item: PacketItem| items.push(item), ())).unwrap();
    items
}

/// Lines of a file of expectations, without those whose place is the reference's own choice.
fn expected(path: &Path) -> Vec<String> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let is_own = |line: &&str| line.starts_with("NO_SYNC") || line.starts_with("EO_TRACE");
    text.lines().filter(|line| !is_own(line)).map(str::to_string).collect()
}

/// Elements of an ITM in the words of the reference. It shows an overflow with the element after it.
fn itm_lines(items: &[ElementItem]) -> Vec<String> {
    let mut lines = vec![];
    let mut overflow = "";
    for item in items.iter().flatten() {
        let data = |value: u64, bytes: u8| format!("Data: 0x{value:0width$x}", width = usize::from(2 * bytes));
        let text = match item.value {
            Element::Overflow => {
                overflow = "ITM_OVERFLOW; ";
                continue;
            }
            Element::Software(Software { channel, payload, bits, .. }) => {
                format!("ITM_SWIT (ch: {:#x}; {})", channel.unwrap(), data(payload, bits / 8))
            }
            Element::Timestamp { value, .. } => format!("ITM_TS_GLOBAL ( TS: 0x{value:016x})"),
            Element::Itm(ItmElement::LocalTimestamp { ticks, relation, time }) => {
                let relation = match relation {
                    Relation::Synchronous => "TS Sync",
                    Relation::TimestampDelayed => "TS Delay",
                    Relation::EventDelayed => "Packet Delay",
                    Relation::BothDelayed => "TS and Packet Delay",
                };
                format!("ITM_TS_LOCAL ( TS delta: 0x{ticks:08x}, {{ {relation}}}; TS cumulative: 0x{time:016x})")
            }
            Element::Itm(ItmElement::Event { event, .. }) => {
                let (number, value, bytes) = hardware(event);
                format!("ITM_DWT (desc: {number:#x}; {})", data(value.into(), bytes))
            }
            _ => continue,
        };
        lines.push(format!("ITMTRACE\t{}{text}", std::mem::take(&mut overflow)));
    }
    lines
}

/// Discriminator, value and size of an observation, as its packet has them.
fn hardware(event: Event) -> (u8, u32, u8) {
    match event {
        Event::EventCounter { mask } => (0, mask.into(), 1),
        Event::Exception { number, action } => {
            let action = match action {
                ExceptionAction::Entered => 1,
                ExceptionAction::Exited => 2,
                ExceptionAction::Returned => 3,
            };
            (1, u32::from(number) | action << 12, 2)
        }
        Event::PcSample(PcSample::Address(address)) => (2, address, 4),
        Event::PcSample(PcSample::Asleep) => (2, 0, 1),
        Event::PcSample(PcSample::Prohibited) => (2, 0xff, 1),
        Event::PmuOverflow { mask } => (3, mask.into(), 1),
        Event::DataPc { comparator, pc } => (8 + 2 * comparator, pc, 4),
        Event::DataMatch { comparator } => (8 + 2 * comparator, 1, 1),
        Event::DataAddress { comparator, low } => (9 + 2 * comparator, low.into(), 2),
        Event::DataValue { comparator, write, size, value } => (16 + 2 * comparator + u8::from(write), value, size),
        Event::Unknown(hardware) => (hardware.discriminator, hardware.value, hardware.size),
    }
}

#[test]
fn itm_elements_agree_with_the_reference() {
    let Some(path) = snapshot("itm_only_raw") else { return };
    let capture = Capture::open(&path).unwrap();
    let trace = Trace::all(&capture)[0];
    let found = itm_lines(&elements(&trace));
    assert_same("itm_only_raw", &found, &expected(&path.join("expected/s0.0.txt.gz")));
    println!("{} lines agree", found.len());
}

/// Elements of an STM in the words of the reference. Elements without a master have the last one there: none before the
/// first, 0 after a version.
fn stm_lines(items: &[ElementItem]) -> Vec<String> {
    let mut has_master = false;
    let mut lines = vec![];
    for item in items.iter().flatten() {
        let (master, channel, text, time) = match item.value {
            Element::Software(Software { master, channel, payload, bits, marked, time }) => {
                let width = usize::from(bits / 4);
                let mut text = format!(" 0x{payload:0width$x};");
                text.push_str(if marked { " +Mrk" } else { "" });
                (master, channel, text, time)
            }
            Element::Stm(own) => match own.kind {
                Kind::Flag => (own.master, own.channel, " +Mrk".to_string(), own.time),
                Kind::Frequency(hertz) => (None, None, format!(" 0x{hertz:08x}; Freq"), None),
                _ => continue,
            },
            _ => continue,
        };
        has_master |= master.is_some();
        let number = |number: Option<u16>| match number {
            Some(number) => format!("0x{number:02x}"),
            None if has_master => "0x00".to_string(),
            None => "0x??".to_string(),
        };
        let mut line = format!("SWTRACE\t(Ma:{}; Ch:{}){text}", number(master), number(channel));
        if let Some(time) = time.filter(|time| time.quality == TimeQuality::Exact) {
            write!(line, " [ TS=0x{:012x}];", time.value).unwrap();
        }
        lines.push(line);
    }
    lines
}

#[test]
fn stm_elements_agree_with_the_reference() {
    for (name, file, count) in [("stm_only", "s0.20.txt.gz", 6279), ("stm-issue-27", "s0.10.txt.gz", 161)] {
        let Some(path) = snapshot(name) else { return };
        let capture = Capture::open(&path).unwrap();
        let trace = Trace::all(&capture)[0];
        let squeeze = |line: String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let found: Vec<String> = stm_lines(&elements(&trace)).into_iter().map(squeeze).collect();
        let wanted: Vec<String> = expected(&path.join("expected").join(file)).into_iter().map(squeeze).collect();
        assert_same(name, &found, &wanted);
        assert_eq!(found.len(), count, "{name}");
    }
}

/// Packets of an STM in the words of the packet lister.
fn stm_packet_lines(items: &[PacketItem]) -> Vec<String> {
    let mut lines = vec![];
    let (mut time, mut channel) = (0, 0);
    for packet in items.iter().flatten() {
        let Packet::Stm(stm) = packet.value else { panic!("{packet:?}") };
        let mut stamp = |timestamp: Option<Timestamp>| match timestamp {
            Some(Timestamp { value, nibbles }) => {
                let new = if nibbles == 16 { u64::MAX } else { (1 << (4 * nibbles)) - 1 };
                time = time & !new | value;
                format!(" TS=0x{time:016X}")
            }
            None => String::new(),
        };
        let text = match stm.body {
            Body::Null { count } => {
                lines.extend((0..count).map(|_| "NULL".to_string()));
                continue;
            }
            Body::Async => "ASYNC".to_string(),
            Body::Version(version) => {
                assert_eq!(version.timestamps, TimestampFormat::Natural);
                "VERSION Ver=3".to_string()
            }
            Body::Master { value, .. } => {
                channel = 0;
                format!("M8 Master=0x{value:02x}")
            }
            Body::Channel { value, wide } => {
                channel = if wide { value } else { channel & 0xff00 | value };
                format!("{} Chan=0x{channel:04x}", if wide { "C16" } else { "C8" })
            }
            Body::Frequency { value, .. } => format!("FREQ Freq={value}Hz"),
            Body::Flag(timestamp) => {
                let name = if timestamp.is_some() { "FLAGTS" } else { "FLAG" };
                format!("{name}{}", stamp(timestamp))
            }
            Body::Data { value, bits, marked, timestamp } => {
                let name =
                    format!("D{bits}{}{}", if marked { "M" } else { "" }, if timestamp.is_some() { "TS" } else { "" });
                format!("{name} Data=0x{value:0width$x}{}", stamp(timestamp), width = usize::from(bits / 4))
            }
            other => panic!("not in these captures: {other}"),
        };
        lines.push(text);
    }
    lines
}

/// `Idx:26; ID:10;\tD32M:32 bit data + marker; Data=0x01021010` to `D32M Data=0x01021010`.
fn listed(text: &str, id: u8) -> Vec<String> {
    let prefix = format!("ID:{id:x};\t");
    let line = |line: &str| {
        let rest = line.split_once(&prefix)?.1;
        let (name, fields) = rest.split_once(':')?;
        let fields: Vec<&str> =
            fields.split("; ").skip(1).map(|field| field.split(" ~").next().unwrap().trim()).collect();
        let text = std::iter::once(name).chain(fields).collect::<Vec<_>>().join(" ");
        (name != "NOTSYNC" && name != "INCOMPLETE_EOT").then_some(text)
    };
    text.lines().filter_map(line).collect()
}

#[test]
fn stm_packets_agree_with_the_packet_lister() {
    if tool("trc_pkt_lister", "libopencsd-bin").is_none() {
        return;
    }
    for name in ["stm_only", "stm-issue-27"] {
        let Some(path) = snapshot(name) else { return };
        let capture = Capture::open(&path).unwrap();
        let trace = Trace::all(&capture)[0];
        let text = reference_listing(&path, &[]).unwrap();
        let wanted = listed(&text, trace.source().id.unwrap());
        let found = stm_packet_lines(&packets(&trace));
        assert_same(name, &found, &wanted);
        println!("{name}: {} packets agree", found.len());
    }
}

/// Elements of an ITM in the words of sigrok, which joins text.
fn sigrok_lines(items: &[ElementItem]) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for item in items.iter().flatten() {
        let text = match item.value {
            Element::Overflow => "Overflow".to_string(),
            Element::Software(software) => {
                let (bytes, length) = software.bytes();
                let text = std::str::from_utf8(&bytes[..length]).ok();
                let channel = software.channel.unwrap();
                match text.filter(|text| !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic())) {
                    Some(text) => format!("{channel}: \"{text}\""),
                    None => {
                        format!("{channel}: 0x{:0width$x}", software.payload, width = usize::from(software.bits / 4))
                    }
                }
            }
            Element::Itm(ItmElement::Event { event, .. }) => match event {
                Event::PcSample(PcSample::Address(pc)) => format!("PC: 0x{pc:08x}"),
                Event::DataPc { comparator, pc } => format!("Watchpoint {comparator}: PC 0x{pc:08x}"),
                Event::DataAddress { comparator, low } => format!("Watchpoint {comparator}: address 0x????{low:04x}"),
                Event::DataValue { comparator, value, .. } => {
                    format!("Watchpoint {comparator}: Write data 0x{value:08x}")
                }
                Event::Exception { number, action } => {
                    let name = if number == 0 { "Thread".to_string() } else { format!("IRQ {}", number - 16) };
                    match action {
                        ExceptionAction::Entered => format!("Enter: {name}"),
                        ExceptionAction::Exited => format!("Exit: {name}"),
                        ExceptionAction::Returned => format!("Resume: {name}"),
                    }
                }
                other => panic!("not in this capture: {other}"),
            },
            other => panic!("not in this capture: {other}"),
        };
        lines.push(text);
    }
    lines
}

/// PC samples, text and observations of a Cortex-M3, whose trace has no synchronization at all.
#[test]
fn stm32f105_agrees_with_sigrok() {
    let Some(path) = snapshot("stm32f105") else { return };
    let capture = Capture::open(&path).unwrap();
    let trace = Trace::named(&capture, "I").unwrap();
    let items = elements(&trace);
    let presumed = items[0].unwrap_err();
    assert_eq!(presumed.kind.to_string(), Malformed::PresumedStart.to_string());
    let found = sigrok_lines(&items);
    let wanted: Vec<String> = expected(&path.join("expected/sigrok-itm.txt.gz"))
        .iter()
        .map(|line| line.trim_start_matches("arm_itm-1: ").to_string())
        // Sigrok repeats the mode after an exception.
        .filter(|line| line != "Thread" && line != "IRQ 28")
        .collect();
    let starting = |lines: &[String], start: &str| -> Vec<String> {
        lines.iter().filter(|line| line.starts_with(start)).cloned().collect()
    };
    // After a pause sigrok drops half of a packet: this sample, whose other half it shows as a value of channel 0.
    let mut samples = starting(&found, "PC: ");
    assert_eq!(samples.remove(187), "PC: 0x080002f6");
    assert_same("PC samples", &samples, &starting(&wanted, "PC: "));
    for channel in ["0", "1"] {
        // Sigrok joins the characters of a channel.
        let text = |lines: &[String]| -> String {
            let texts = starting(lines, &format!("{channel}: \""));
            texts.iter().map(|line| line.split('"').nth(1).unwrap()).collect()
        };
        assert_eq!(text(&found), text(&wanted), "text of channel {channel}");
    }
    for start in
        ["1: 0x", "Watchpoint 0: a", "Watchpoint 0: W", "Watchpoint 1: P", "Watchpoint 1: W", "Enter", "Resume"]
    {
        assert_same(start, &starting(&found, start), &starting(&wanted, start));
    }
    assert_eq!(starting(&found, "Overflow").len(), starting(&wanted, "Overflow").len());
    assert_eq!((found.len(), text_length(&found)), (586, 57), "all 586 packets are accounted for");
}

/// Number of values that are text.
fn text_length(lines: &[String]) -> usize {
    lines.iter().filter(|line| line.ends_with('"')).count()
}

/// The buffer is whole up to 0x1f0 and damaged from there on: all before is decoded, the rest is named.
#[test]
fn the_damaged_stm_buffer_of_juno_is_decoded_as_far_as_it_is_whole() {
    let Some(path) = snapshot("juno_r1_1") else { return };
    let capture = Capture::open(&path).unwrap();
    let trace = Trace::named(&capture, "STM_12").unwrap();
    let items = packets(&trace);
    let first_error = items.iter().filter_map(|item| item.err()).find(|error| !error.kind.is_ordinary());
    let written = elements(&trace).iter().flatten().filter(|it| matches!(it.value, Element::Software(_))).count();
    println!("{} items, {written} values, first damage {first_error:x?}", items.len());
    assert!(first_error.is_none_or(|error| error.offset >= 0x1f0), "{first_error:x?}");
    let whole = items.iter().flatten().filter(|packet| packet.offset < 0x1f0).count();
    assert!(whole > 50, "{whole}");
    let mut bytes = 0;
    trace.bytes(&mut (|chunk: &[u8]| bytes += chunk.len() as u64, ())).unwrap();
    let reported: u64 = items.iter().map(|item| item.map_or_else(|error| error.skipped, |packet| packet.length)).sum();
    assert_eq!(reported, bytes, "every byte is accounted for");
}

/// Raw bytes of an SWO pin and TPIU frames are distinguished by their content.
#[test]
fn bare_itm_opens_raw_and_in_frames() {
    for (name, file, format) in
        [("itm_only_raw", "itm_testdata.bin", BufferFormat::Raw), ("stm32f105", "t.bin", BufferFormat::Formatted)]
    {
        let Some(path) = snapshot(name) else { return };
        let bare = Bare {
            protocol: Protocol::Itm,
            id: None,
            format: None,
            registers: Registers::default(),
            write_pointer: None,
            wrapped: None,
        };
        let capture = open_bare(&[path.join(file)], bare).unwrap();
        assert_eq!(capture.buffers[0].format, format, "{name}");
    }
}

/// Pseudorandom numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

fn is_sync(item: &PacketItem) -> bool {
    item.is_ok_and(|packet| packet.value.kind().is_sync())
}

/// Flips bytes, one at a time: every byte is accounted for, and after the next synchronization packets are as
/// without it.
fn flip(name: &str, file: &str, protocol: Protocol, format: BufferFormat, flips: usize) {
    let Some(path) = snapshot(name) else { return };
    let original = fs::read(path.join(file)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("buffer.bin");
    let decode = |bytes: &[u8]| {
        fs::write(&target, bytes).unwrap();
        let registers = Registers::default();
        let bare =
            Bare { protocol, id: Some(0x20), format: Some(format), registers, write_pointer: None, wrapped: None };
        let capture = open_bare(&[&target], bare).unwrap();
        let trace = Trace::all(&capture)[0];
        elements(&trace);
        let mut length = 0;
        trace.bytes(&mut (|chunk: &[u8]| length += chunk.len() as u64, ())).unwrap();
        let items = packets(&trace);
        let sum: u64 = items.iter().map(|item| item.map_or_else(|error| error.skipped, |packet| packet.length)).sum();
        assert_eq!(sum, length, "bytes that are not accounted for");
        items
    };
    let whole = decode(&original);
    let mut dice = Dice(7);
    let (mut recovered, mut noticed) = (0, 0);
    for _ in 0..flips {
        let at = dice.below(original.len());
        let mut bytes = original.clone();
        bytes[at] ^= 1 << dice.below(8);
        let items = decode(&bytes);
        noticed += usize::from(items.iter().flat_map(|item| item.err()).any(|error| !error.kind.is_ordinary()));
        let offset = |item: &PacketItem| item.map_or_else(|error| error.offset, |packet| packet.offset);
        // An even byte of a frame may become or have been an id: the source then lacks bytes up to the next id, and with
        // them perhaps the next synchronization.
        let more = usize::from(format.is_formatted() && at.is_multiple_of(2));
        let is_later = |item: &PacketItem| is_sync(item) && offset(item) > at as u64 + 16;
        let sync = (0..whole.len()).filter(|&index| is_later(&whole[index])).nth(more);
        let Some(from) = sync.and_then(|sync| whole.get(sync + 1)).map(offset) else { continue };
        let after = |items: &[PacketItem]| -> Vec<PacketItem> {
            items.iter().filter(|item| offset(item) >= from).copied().collect()
        };
        assert_same(&format!("{name} flipped at {at:#x}"), &after(&items), &after(&whole));
        recovered += 1;
    }
    println!("{name}: {flips} flips, {noticed} noticed, {recovered} with a synchronization after them");
    assert!(recovered > flips / 3);
}

#[test]
fn flipped_itm_recovers() {
    flip("itm_only_raw", "itm_testdata.bin", Protocol::Itm, BufferFormat::Raw, 2000);
}

#[test]
fn flipped_stm_recovers() {
    flip("stm_only", "cstraceitm.bin", Protocol::Stm, BufferFormat::Formatted, 2000);
}

/// A flip in the bytes of one source changes nothing in those of another.
#[test]
fn flips_in_one_source_leave_others_alone() {
    let Some(path) = snapshot("stm32f105") else { return };
    let original = fs::read(path.join("t.bin")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        fs::copy(&entry, folder.path().join(entry.file_name().unwrap())).unwrap();
    }
    let target = folder.path().join("t.bin");
    let read = |bytes: &[u8]| {
        fs::remove_file(&target).ok();
        fs::write(&target, bytes).unwrap();
        let capture = Capture::open(folder.path()).unwrap();
        let mut other = Vec::new();
        let trace = Trace::named(&capture, "E").unwrap();
        trace.bytes(&mut (|chunk: &[u8]| other.extend_from_slice(chunk), ())).unwrap();
        let itm = Trace::named(&capture, "I").unwrap();
        (other, packets(&itm))
    };
    let (other, items) = read(&original);
    let of_itm: Vec<u64> =
        items.iter().flatten().filter(|packet| packet.length > 1).map(|packet| packet.offset).collect();
    let mut dice = Dice(11);
    let mut checked = 0;
    for _ in 0..200 {
        // Odd bytes of a frame are data.
        let at = of_itm[dice.below(of_itm.len())] as usize;
        if at.is_multiple_of(2) {
            continue;
        }
        let mut bytes = original.clone();
        bytes[at] ^= 1 << dice.below(8);
        assert!(read(&bytes).0 == other, "the other source changed with {at:#x}");
        checked += 1;
    }
    assert!(checked > 50, "{checked}");
}

#[test]
fn overviews_count_channels() {
    let Some(path) = snapshot("stm-issue-27") else { return };
    let capture = Capture::open(&path).unwrap();
    let overview = overview(&capture, &mut |_, _| {});
    let found = overview.traces[0].1.as_ref().unwrap();
    let channels: Vec<_> = found.channels.keys().copied().collect();
    assert_eq!(channels, [(Some(0x40), Some(0x407)), (Some(0x40), Some(0x480))]);
    // The last packet is cut.
    assert_eq!((found.malformed, found.time.map(|time| time.0)), (1, Some(0x3_aeb2_84c9)));
}
