//! What the writers do with calls that no trace has: they close what was opened, and never go back in time.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use unspool_analyze::calls::Cost;
use unspool_export::flamegraph::{Drawn, FlameOptions, write_flamegraph};
use unspool_export::folded::push_stack;
use unspool_export::perfetto::PerfettoWriter;
use unspool_export::speedscope::{SpeedscopeWriter, ValueUnit};
use unspool_export::stacks::{Side, StackTree};

/// Fields of a protocol buffer: number and value, or number and bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    let varint = |bytes: &mut &[u8]| {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (first, rest) = bytes.split_first().unwrap();
            value |= u64::from(first & 0x7f) << shift;
            (*bytes, shift) = (rest, shift + 7);
            if first & 0x80 == 0 {
                return value;
            }
        }
    };
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let length = match tag & 7 {
            0 => 0,
            1 => 8,
            _ => varint(&mut bytes) as usize,
        };
        let value = if tag & 7 == 0 { varint(&mut bytes) } else { 0 };
        let (payload, rest) = bytes.split_at(length);
        fields.push((tag >> 3, value, payload));
        bytes = rest;
    }
    fields
}

/// Time and kind of the slice events of a trace: field 8 and field 11 of a packet, and field 9 of its event.
fn slice_events(trace: &[u8]) -> Vec<(u64, u64)> {
    let mut events = Vec::new();
    for (_, _, packet) in fields(trace) {
        let packet = fields(packet);
        let of = |number: u64| packet.iter().find(|(field, ..)| *field == number);
        if let Some((_, _, event)) = of(11) {
            let kind = fields(event).iter().find(|(field, ..)| *field == 9).unwrap().1;
            events.push((of(8).unwrap().1, kind));
        }
    }
    events
}

proptest! {
    /// Beginnings and ends at any time.
    #[test]
    fn whatever_begins_ends(calls in prop::collection::vec((any::<bool>(), any::<u64>()), 0..100)) {
        let mut writer = PerfettoWriter::new(Vec::new());
        let track = writer.track("calls", None).unwrap();
        let mut slices = writer.slices(track);
        let mut speedscope = SpeedscopeWriter::new(Vec::new(), "a \"trace\"").unwrap();
        let mut profile = speedscope.profile("calls", ValueUnit::None, 2, 0).unwrap();
        for (begins, at) in calls {
            if begins {
                slices.begin(at, "name", "call", None).unwrap();
                profile.begin("name", at).unwrap();
            } else {
                slices.end(at, Some(("ended", "here"))).unwrap();
                profile.end(at).unwrap();
            }
        }
        slices.finish().unwrap();
        profile.finish().unwrap();
        let events = slice_events(&writer.finish().unwrap());
        prop_assert!(events.is_sorted_by_key(|(at, _)| *at));
        let mut depth = 0_i64;
        for (_, kind) in &events {
            depth += if *kind == 1 { 1 } else { -1 };
            prop_assert!(depth >= 0);
        }
        prop_assert_eq!(depth, 0);
        let text = String::from_utf8(speedscope.finish().unwrap()).unwrap();
        prop_assert_eq!(text.matches("\"type\":\"O\"").count() * 2, events.len());
        prop_assert_eq!(text.matches("\"type\":\"C\"").count() * 2, events.len());
        prop_assert!(text.contains("\"name\":\"a \\\"trace\\\"\""));
    }

    /// A picture is as deep and wide as what is seen of it, and names are not markup.
    #[test]
    fn pictures_of_any_stacks(stacks in prop::collection::vec((prop::collection::vec("[a-c<&\"]", 0..6), any::<u32>()), 0..50)) {
        let mut tree = StackTree::new();
        for (stack, weight) in &stacks {
            tree.add(Side::Shown, stack, Cost { time: 0, instructions: u64::from(*weight) });
        }
        let (weight, text) = (|cost: Cost| cost.instructions, |value: u64| value.to_string());
        let options = FlameOptions { title: "<title>", weight: &weight, text: &text, is_comparison: false };
        let mut svg = Vec::new();
        let drawn = write_flamegraph(&mut svg, &tree, &options).unwrap();
        let svg = String::from_utf8(svg).unwrap();
        prop_assert_eq!(svg.matches("<g data-x").count(), drawn.frames);
        prop_assert_eq!(drawn.frames + drawn.left_out, tree.len() + 1);
        prop_assert!(svg.contains("&lt;title&gt;") && !svg.contains("<title><"));
    }
}

#[test]
fn an_empty_picture() {
    let options =
        FlameOptions { title: "", weight: &|cost| cost.time, text: &|value| value.to_string(), is_comparison: true };
    let drawn = write_flamegraph(&mut Vec::new(), &StackTree::new(), &options).unwrap();
    assert_eq!(drawn, Drawn { frames: 1, left_out: 0 });
}

/// The separators of the format do not appear in names.
#[test]
fn names_in_folded_stacks() {
    let mut line = String::new();
    push_stack(&mut line, &["operator new(a; b)", "f"]);
    assert_eq!(line, "operator_new(a__b);f");
}
