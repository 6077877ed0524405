//! Formatting and deformatting, of whole and of damaged frames.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

/// Output of a deformatter.
#[derive(Debug, Default, Clone, PartialEq)]
struct Record {
    bytes: Vec<(u8, u64, u8)>,
    marks: Vec<Mark>,
}

impl FrameSink for Record {
    fn span(&mut self, span: Span<'_>) {
        self.bytes.extend((span.offset..).zip(span.bytes).map(|(offset, &byte)| (span.id, offset, byte)));
    }

    fn mark(&mut self, mark: Mark) {
        self.marks.push(mark);
    }
}

impl Record {
    fn of(layout: Layout, chunks: &[&[u8]]) -> Self {
        let mut record = Record::default();
        let mut deformatter = Deformatter::new(layout);
        chunks.iter().for_each(|chunk| deformatter.push(chunk, &mut record));
        deformatter.finish(&mut record);
        record
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut last = 0;
        for &(id, _, byte) in &self.bytes {
            if id != last {
                text += &format!("[{id:02x}]");
                last = id;
            }
            text += &format!("{byte:02x}");
        }
        self.marks.iter().for_each(|mark| {
            text += &match mark {
                Mark::Lost(error) => format!(" {error}"),
                other => format!(" {other:?}"),
            };
        });
        text
    }
}

#[test]
fn frames_assign_bytes_to_ids() {
    let rows: &[(&str, [u8; 16], &str)] = &[
        (
            "an id, then its bytes with their low bits from the flags",
            [0x21, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0b0000_0010],
            "[10]0103030405060708090a0b0c0d0e",
        ),
        (
            "an id that takes effect after the next byte",
            [0x21, 0x01, 0x25, 0x02, 0x04, 0x05, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0b0000_0010],
            "[10]0102[12]0405000000000000000000",
        ),
        (
            "an id in the last byte is for the next frame",
            [0x21, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x25, 0b1000_0000],
            "[10]0102030405060708090a0b0c0d",
        ),
        (
            "null bytes are dropped",
            [0x21, 0xaa, 0x01, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0],
            "[10]aa",
        ),
        (
            "a trigger is a mark",
            [0x21, 0xaa, 0xfb, 0x00, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            "[10]aa Trigger { offset: 3 }",
        ),
        (
            "a reserved id spoils its frame",
            [0x21, 0xaa, 0xfd, 0x00, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            " 0x0: reserved trace id 0x7e in a frame (16 bytes skipped)",
        ),
    ];
    for (name, frame, expected) in rows {
        assert_eq!(Record::of(Layout::FromStart, &[frame]).text(), *expected, "{name}");
    }
}

#[test]
fn bytes_keep_their_offsets() {
    let frame = [0x21, 0x01, 0x25, 0x02, 0x04, 0x05, 0, 0, 0, 0, 0, 0, 0, 0, 0x01, 0b0000_0010];
    let record = Record::of(Layout::FromStart, &[&frame]);
    let positions: Vec<u64> = record.bytes.iter().map(|byte| byte.1).collect();
    assert_eq!(positions, [1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
}

#[test]
fn half_synchronizations_are_removed() {
    let frame = [0x21, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0];
    let bytes = [&FSYNC, &frame[..4], &HSYNC, &HSYNC, &frame[4..]].concat();
    let record = Record::of(Layout::FromFullSync, &[&bytes]);
    assert_eq!(
        record.text(),
        "[10]0102030405060708090a0b0c0d0e FullSync { offset: 0 } HalfSync { offset: 8 } HalfSync { offset: 10 }"
    );
    assert_eq!(record.bytes[3].1, 12, "the byte after the half synchronizations");
}

#[test]
fn four_full_synchronizations_are_a_barrier() {
    let mut formatter = Formatter::new();
    formatter.push(0x10, &[1, 2]);
    formatter.barrier();
    formatter.push(0x10, &[3]);
    let frames = formatter.finish();
    let record = Record::of(Layout::FromStart, &[&frames]);
    assert!(record.marks.contains(&Mark::Barrier { offset: 16 }));
    assert_eq!(record.bytes.iter().map(|byte| byte.2).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn trace_port_capture_starts_at_a_full_synchronization() {
    let frames = formatted(&[(0x10, (0..200).collect())], Some(4));
    let record = Record::of(Layout::FromFullSync, &[&frames[7..]]);
    let lost = FrameError { offset: 0, skipped: 61, kind: BadFrame::NotSynchronized };
    assert_eq!(record.marks.first(), Some(&Mark::Lost(lost)));
    let bytes: Vec<u8> = record.bytes.iter().map(|byte| byte.2).collect();
    assert!(bytes.ends_with(&(60..200).collect::<Vec<u8>>()) || bytes.is_empty(), "{bytes:?}");
}

#[test]
fn a_full_synchronization_inside_a_frame_restores_alignment() {
    let runs: Vec<_> = (0..40).map(|n| (0x10 + n % 2, vec![n; 9])).collect();
    let mut frames = formatted(&runs, Some(1));
    frames.drain(50..53);
    let record = Record::of(Layout::FromFullSync, &[&frames]);
    let lost: Vec<_> = record.marks.iter().filter(|mark| matches!(mark, Mark::Lost(_))).collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(record.bytes.last().map(|byte| byte.2), Some(39));
}

/// Two sources with alignment synchronizations every few hundred bytes.
fn two_sources() -> Vec<u8> {
    two_sources_in(Formatter::new())
}

fn two_sources_in(mut formatter: Formatter) -> Vec<u8> {
    for n in 0..800_u32 {
        let id = if n % 2 == 0 { 0x10 } else { 0x11 };
        if n % 80 < 2 {
            formatter.push(id, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80]);
        }
        let noise = u64::from(n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        formatter.push(id, &(noise ^ noise >> 29).to_le_bytes());
    }
    formatter.finish()
}

#[test]
fn frames_are_found_again_after_missing_bytes() {
    let whole = two_sources();
    let expected = Record::of(Layout::FromStart, &[&whole]);
    for missing in [1, 3, 5, 7, 9, 11, 13, 15] {
        let mut cut = whole.clone();
        cut.drain(500..500 + missing);
        let record = Record::of(Layout::FromStart, &[&cut]);
        assert!(record.marks.iter().any(|mark| matches!(mark, Mark::Lost(_))), "{missing} bytes missing");
        let tail =
            |record: &Record| record.bytes.iter().rev().take(1500).map(|byte| (byte.0, byte.2)).collect::<Vec<_>>();
        assert!(tail(&record) == tail(&expected), "{missing} bytes missing");
    }
}

/// The bytes of each id from an offset of the undamaged buffer on.
fn bytes_from(record: &Record, offset: u64) -> Vec<(u8, u64, u8)> {
    record.bytes.iter().filter(|byte| byte.1 >= offset).copied().collect()
}

#[test]
fn a_lost_or_added_byte_costs_the_frames_around_it() {
    let whole = two_sources();
    let expected = Record::of(Layout::FromStart, &[&whole]);
    for at in (1000..1700).step_by(9) {
        let mut less = whole.clone();
        less.remove(at);
        let mut more = whole.clone();
        more.insert(at, at as u8);
        for (name, damaged, moved) in [("removed", less, 1), ("added", more, -1)] {
            let mut record = Record::of(Layout::FromStart, &[&damaged]);
            let lost: Vec<&Mark> = record.marks.iter().collect();
            assert!(
                matches!(lost[..], [Mark::Lost(FrameError { kind: BadFrame::Shifted, .. }), ..]),
                "{name} {at}: {lost:?}"
            );
            // A frame before the damage may be lost with it, and ids show a shift only after some bytes.
            let (before, after) = (at as u64 - 48, at as u64 + 64);
            let head =
                |record: &Record| record.bytes.iter().take_while(|byte| byte.1 < before).copied().collect::<Vec<_>>();
            assert!(head(&record) == head(&expected), "{name} {at}: {:?}", record.marks);
            record.bytes.iter_mut().for_each(|byte| byte.1 = byte.1.saturating_add_signed(moved));
            assert!(bytes_from(&record, after) == bytes_from(&expected, after), "{name} {at}");
        }
    }
}

/// Reads in chunks, by another deformatter after each chunk where the state can be saved. Returns how often it was.
fn read_by_several(layout: Layout, bytes: &[u8], chunk: usize) -> (Record, usize) {
    let (mut record, mut deformatter, mut saved) = (Record::default(), Deformatter::new(layout), 0);
    for end in (chunk..bytes.len() + chunk).step_by(chunk).map(|end| end.min(bytes.len())) {
        deformatter.push(&bytes[end.saturating_sub(1) / chunk * chunk..end], &mut record);
        if let Some(state) = deformatter.save() {
            let numbers = state.to_numbers();
            assert_eq!(SavedFrames::from_numbers(numbers), Some(state), "{numbers:x?}");
            let held = bytes[state.offset() as usize..end].to_vec();
            deformatter = Deformatter::new(layout).restored(&state, held);
            saved += 1;
        }
    }
    deformatter.finish(&mut record);
    (record, saved)
}

#[test]
fn another_deformatter_continues_at_a_saved_state() {
    let whole = two_sources();
    let mut damaged = whole.clone();
    damaged.remove(3000);
    damaged.insert(5000, 0xff);
    damaged[2000] = 0xff;
    let synchronized = two_sources_in(Formatter::with_full_sync(3));
    for (layout, bytes) in
        [(Layout::FromStart, &whole), (Layout::FromStart, &damaged), (Layout::FromFullSync, &synchronized)]
    {
        let expected = Record::of(layout, &[bytes]);
        for chunk in [16, 37, 256, 1000, 4096] {
            let (record, saved) = read_by_several(layout, bytes, chunk);
            assert!(record == expected, "{layout:?} {chunk}");
            assert!(saved * chunk > bytes.len() / 4, "{layout:?} {chunk}: {saved}");
        }
    }
}

#[test]
fn numbers_that_are_no_state_are_rejected() {
    let mut deformatter = Deformatter::new(Layout::FromStart);
    deformatter.push(&two_sources(), &mut Record::default());
    let numbers = deformatter.save().unwrap().to_numbers();
    for at in [0, 1, 2, 3, 4, 5, 9, 10, 11, 12] {
        let mut forged = numbers;
        forged[at] = u64::MAX - 1;
        assert_eq!(SavedFrames::from_numbers(forged), None, "{at}");
    }
}

#[test]
fn frames_of_a_buffer_that_starts_inside_a_frame_are_found() {
    let whole = two_sources();
    let expected = Record::of(Layout::FromStart, &[&whole]);
    for cut in 1..16 {
        for layout in [Layout::FromStart, Layout::FromFullSync] {
            let mut record = Record::of(layout, &[&whole[cut..]]);
            record.bytes.iter_mut().for_each(|byte| byte.1 += cut as u64);
            // Bytes before the first id belong to no source.
            assert!(bytes_from(&record, 64) == bytes_from(&expected, 64), "{cut} bytes, {layout:?}");
            let skipped = 16 - cut as u64;
            assert!(matches!(record.marks[..], [Mark::Lost(error)] if error.skipped == skipped), "{:?}", record.marks);
        }
    }
}

#[test]
fn ids_that_nothing_is_known_of_are_no_damage() {
    let mut formatter = Formatter::new();
    (0..400_u32).for_each(|n| formatter.push(0x10 + (n / 40) as u8, &[0xa0 | n as u8; 7]));
    let record = Record::of(Layout::FromStart, &[&formatter.finish()]);
    assert_eq!((record.bytes.len(), record.marks), (2800, vec![]));
}

/// Synchronizations after a zero are no known ones, so other starts of frames seem to fit better.
#[test]
fn a_source_that_starts_late_is_no_damage() {
    for late in 300..340_u32 {
        let mut formatter = Formatter::new();
        for n in 0..700_u32 {
            let id = if n >= late && n % 4 == 0 { 0x13 } else { 0x10 + (n % 2) as u8 };
            if n % 20 == 0 {
                formatter.push(id, &[0; 11][..11 - usize::from(n > 250) * (n as usize / 20 % 3)]);
                formatter.push(id, &[0; 1][..usize::from(n > 250)]);
                formatter.push(id, &[0x80]);
            }
            let noise = u64::from(n + late).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let zeros = if n > 250 { 0x00ff_0000_00ff_0000 } else { u64::MAX };
            formatter.push(id, &((noise ^ noise >> 29) & zeros).to_le_bytes());
        }
        let record = Record::of(Layout::FromStart, &[&formatter.finish()]);
        assert_eq!(record.marks, [], "{late}");
    }
}

#[test]
fn damaged_frame_is_skipped() {
    let mut bytes = two_sources();
    bytes[320] = 0xfd;
    let record = Record::of(Layout::FromStart, &[&bytes]);
    let error = FrameError { offset: 320, skipped: 16, kind: BadFrame::ReservedId(0x7e) };
    assert_eq!(record.marks, [Mark::Lost(error)]);
}

#[test]
fn truncated_frame_is_reported() {
    let mut frames = formatted(&[(0x10, vec![7; 40])], None);
    frames.truncate(35);
    let record = Record::of(Layout::FromStart, &[&frames]);
    assert_eq!(record.bytes.len(), 29);
    let error = FrameError { offset: 32, skipped: 3, kind: BadFrame::Truncated };
    assert_eq!(record.marks, [Mark::Lost(error)]);
}

#[test]
fn a_stream_maps_its_bytes_back_to_the_buffer() {
    let runs = [(0x10, (0..100).collect()), (0x11, vec![0xee; 20]), (0x10, (100..120).collect())];
    let frames = formatted(&runs, None);
    let record = Record::of(Layout::FromStart, &[&frames]);
    let mut stream = Stream::new(0x10);
    let mut deformatter = Deformatter::new(Layout::FromStart);
    deformatter.push(&frames, &mut stream);
    deformatter.finish(&mut stream);
    assert_eq!(stream.bytes(), (0..120).collect::<Vec<u8>>());
    let positions: Vec<u64> = (0..120).map(|position| stream.buffer_offset(position)).collect();
    let expected: Vec<u64> = record.bytes.iter().filter(|byte| byte.0 == 0x10).map(|byte| byte.1).collect();
    assert_eq!(positions, expected);
}

/// Runs of bytes, each with its id.
fn runs() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    prop::collection::vec((1..=ID_LAST, prop::collection::vec(any::<u8>(), 0..40)), 0..30)
}

fn formatted(runs: &[(u8, Vec<u8>)], full_sync_every: Option<usize>) -> Vec<u8> {
    let mut formatter = full_sync_every.map_or_else(Formatter::new, Formatter::with_full_sync);
    runs.iter().for_each(|(id, bytes)| formatter.push(*id, bytes));
    formatter.finish()
}

proptest! {
    #[test]
    fn formatting_then_deformatting_is_identity(runs in runs(), every in prop::option::of(1_usize..5)) {
        let layout = if every.is_some() { Layout::FromFullSync } else { Layout::FromStart };
        let record = Record::of(layout, &[&formatted(&runs, every)]);
        let sent: Vec<(u8, u8)> = runs.iter().flat_map(|(id, bytes)| bytes.iter().map(|&byte| (*id, byte))).collect();
        let found: Vec<(u8, u8)> = record.bytes.iter().map(|byte| (byte.0, byte.2)).collect();
        prop_assert_eq!(found, sent);
        let lost = record.marks.iter().any(|mark| matches!(mark, Mark::Lost(_)));
        prop_assert!(!lost);
    }

    #[test]
    fn chunk_boundaries_make_no_difference(
        bytes in prop::collection::vec(prop_oneof![Just(0xff), Just(0x7f), Just(0x21), any::<u8>()], 0..700),
        cuts in prop::collection::vec(0_usize..700, 0..6),
        from_start in any::<bool>(),
    ) {
        let layout = if from_start { Layout::FromStart } else { Layout::FromFullSync };
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let mut chunks = vec![];
        let mut from = 0;
        for cut in cuts {
            chunks.push(&bytes[from..cut]);
            from = cut;
        }
        chunks.push(&bytes[from..]);
        prop_assert_eq!(Record::of(layout, &chunks), Record::of(layout, &[&bytes]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Small chunks are never read in groups of frames.
    #[test]
    fn groups_of_frames_are_read_as_single_frames_are(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4), 0..4),
        length in prop_oneof![1_usize..80, 500_usize..3000],
    ) {
        let mut bytes = two_sources();
        for (at, byte, kind) in damage {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, byte),
                _ => drop(bytes.splice(at..at, FSYNC)),
            }
        }
        let chunks: Vec<&[u8]> = bytes.chunks(length).collect();
        prop_assert_eq!(Record::of(Layout::FromStart, &chunks), Record::of(Layout::FromStart, &[&bytes]));
    }
}
