//! Spilled calls: records of fixed size. A record of zeros is empty.

use crate::calls::{Began, Call, Cost, Ended, Site};

const WORDS: usize = 22;

/// Size of a record in bytes.
pub(super) const SIZE: usize = WORDS * 8;

/// Encodes a call.
pub(super) fn to_bytes(call: &Call) -> [u8; SIZE] {
    let Call { ordinal, last, function, site, entry, exit, back, own, .. } = *call;
    let [a, b, c, d] = [site.unwrap_or_default(), entry, exit, back.unwrap_or_default()].map(words);
    let (head, tail) = ([ordinal, last, function, flags(call)], [own.time, own.instructions]);
    let mut bytes = [0; SIZE];
    let slots = bytes.as_chunks_mut().0.iter_mut();
    for (slot, word) in slots.zip([&head[..], &a, &b, &c, &d, &tail].into_iter().flatten()) {
        *slot = word.to_le_bytes();
    }
    bytes
}

/// Decodes a call; `None` for an empty record.
pub(super) fn from_bytes(bytes: &[u8; SIZE]) -> Option<Call> {
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let [ordinal, last, function, flags, sites @ .., time, instructions] = words;
    let [site, entry, exit, back] = [0, 4, 8, 12].map(|at| {
        let [position, time, number, pc] = [0, 1, 2, 3].map(|word| sites[at + word]);
        Site { position, time, number, pc }
    });
    let call = Call {
        ordinal,
        last,
        function,
        began: match flags & (EXCEPTION | AFTER_GAP) {
            0 => Began::Called,
            EXCEPTION => Began::Exception,
            _ => Began::Gap,
        },
        ended: match flags & (UNWOUND | AT_END | IN_GAP) {
            0 => Ended::Returned,
            UNWOUND => Ended::Unwound,
            IN_GAP => Ended::InGap,
            _ => Ended::AtEnd,
        },
        site: (flags & SITE != 0).then_some(site),
        entry,
        exit,
        back: (flags & BACK != 0).then_some(back),
        own: Cost { time, instructions },
        has_gap: flags & HAS_GAP != 0,
    };
    (ordinal > 0).then_some(call)
}

const EXCEPTION: u64 = 1;
const UNWOUND: u64 = 2;
const AT_END: u64 = 4;
const SITE: u64 = 8;
const BACK: u64 = 16;
const AFTER_GAP: u64 = 32;
const IN_GAP: u64 = 64;
const HAS_GAP: u64 = 128;

fn flags(call: &Call) -> u64 {
    let all = [
        (call.began == Began::Exception, EXCEPTION),
        (call.ended == Ended::Unwound, UNWOUND),
        (call.ended == Ended::AtEnd, AT_END),
        (call.site.is_some(), SITE),
        (call.back.is_some(), BACK),
        (call.began == Began::Gap, AFTER_GAP),
        (call.ended == Ended::InGap, IN_GAP),
        (call.has_gap, HAS_GAP),
    ];
    all.into_iter().filter(|(is_so, _)| *is_so).map(|(_, flag)| flag).sum()
}

fn words(site: Site) -> [u64; 4] {
    [site.position, site.time, site.number, site.pc]
}
