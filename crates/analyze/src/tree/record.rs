//! Spilled calls: records of fixed size. A record of zeros is empty.

use crate::calls::{Began, Call, Cost, Ended, Site};

/// What is kept of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// All of it.
    All,
    /// Function, times, numbers of instructions and costs, without positions, call sites and addresses of instructions.
    Costs,
}

impl Kept {
    /// Size of a record in bytes.
    pub(super) fn size(self) -> usize {
        match self {
            Self::All => 22 * 8,
            Self::Costs => 10 * 8,
        }
    }
}

/// Adds the record of a call.
pub(super) fn push(out: &mut Vec<u8>, call: &Call, kept: Kept) {
    let Call { ordinal, last, function, site, entry, exit, back, own, .. } = *call;
    match kept {
        Kept::All => {
            let [site, back] = [site, back].map(Option::unwrap_or_default);
            let words = [
                ordinal,
                last,
                function,
                flags(call),
                own.time,
                own.instructions,
                entry.time,
                entry.number,
                exit.time,
                exit.number,
                entry.position,
                entry.pc,
                exit.position,
                exit.pc,
                site.position,
                site.time,
                site.number,
                site.pc,
                back.position,
                back.time,
                back.number,
                back.pc,
            ];
            push_words(out, &words);
        }
        Kept::Costs => {
            let flags = flags(call) & !(SITE | BACK);
            let head = [ordinal, last, function, flags, own.time, own.instructions];
            push_words(out, &head);
            push_words(out, &[entry.time, entry.number, exit.time, exit.number]);
        }
    }
}

#[inline]
fn push_words<const N: usize>(out: &mut Vec<u8>, words: &[u64; N]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// Decodes a call; `None` for an empty record.
pub(super) fn from_bytes(bytes: &[u8]) -> Option<Call> {
    let mut words = [0; 22];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let [
        ordinal,
        last,
        function,
        flags,
        time,
        instructions,
        entry_time,
        entry_number,
        exit_time,
        exit_number,
        rest @ ..,
    ] = words;
    let [site, back] = [4, 8].map(|at| {
        let [position, time, number, pc] = [0, 1, 2, 3].map(|word| rest[at + word]);
        Site { position, time, number, pc }
    });
    let entry = Site { position: rest[0], time: entry_time, number: entry_number, pc: rest[1] };
    let exit = Site { position: rest[2], time: exit_time, number: exit_number, pc: rest[3] };
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
    all.iter().fold(0, |flags, (is_so, flag)| flags | if *is_so { *flag } else { 0 })
}
