//! Load addresses of position-independent images, found from the opcodes of a trace file.
//!
//! Takes executed instructions with their opcodes; every place of the image with the same opcode at the same offset in its
//! page votes for a load bias. Opcodes are exact, so votes suffice here: nothing is decoded.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use unspool_capture::{Code, Machine, Note};
use unspool_model::{Instruction, SourceError, StepSource};

use super::{CODE_LIMIT, MAX_TRIALS, MAX_VOTES, MIN_RANGES, PAGE_MASK, Placement};

/// Steps of a trace that are read for evidence.
const STEP_LIMIT: u64 = 1 << 20;

/// Different instructions that vote: enough for the dynamic loader, which runs before the program.
const MAX_INSTRUCTIONS: usize = 64 << 10;

/// Moves position-independent images without an address to where the instructions of a trace show that they were loaded,
/// as [`place_images`](super::place_images) does for captures. Reads the start of the trace.
///
/// # Errors
///
/// If the trace cannot be read.
pub fn place_images_by_steps(steps: &mut dyn StepSource, codes: &mut [Code]) -> Result<Vec<Note>, SourceError> {
    if !codes.iter().any(|code| code.is_unplaced) {
        return Ok(Vec::new());
    }
    let evidence = Evidence::of(steps)?;
    let mut notes = Vec::new();
    for code in codes.iter_mut().filter(|code| code.is_unplaced) {
        let placement = choose(&evidence.votes(code));
        notes.extend(placement.note(code));
        placement.apply(code);
    }
    Ok(notes)
}

/// Executed instructions: addresses by offset in the page, opcode and length.
#[derive(Debug, Default)]
struct Evidence {
    seen: HashSet<u64>,
    addresses: HashMap<(u64, u32, u8), Vec<u64>>,
}

impl Evidence {
    fn of(steps: &mut dyn StepSource) -> Result<Self, SourceError> {
        let (mut evidence, mut read) = (Self::default(), 0);
        let result = steps.each(&mut |step| {
            read += 1;
            step.event.instruction().into_iter().for_each(|instruction| evidence.add(instruction));
            let is_enough = read == STEP_LIMIT || evidence.seen.len() == MAX_INSTRUCTIONS;
            if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match result {
            // What comes before the damage is evidence too; the verb reports the damage.
            Err(error) if !error.is_damage => Err(error),
            _ => Ok(evidence),
        }
    }

    fn add(&mut self, instruction: &Instruction) {
        let Instruction { address, opcode: Some(opcode), length, .. } = *instruction else { return };
        if self.seen.insert(address) {
            self.addresses.entry((address & PAGE_MASK, opcode, length)).or_default().push(address);
        }
    }

    /// Biases with the most votes first.
    fn votes(&self, code: &Code) -> Vec<(u64, u64)> {
        let mut votes: HashMap<u64, u64> = HashMap::new();
        let (mut left, mut bytes_left) = (MAX_VOTES, CODE_LIMIT);
        for region in &code.regions {
            let bytes = &region.bytes[..region.bytes.len().min(bytes_left)];
            bytes_left -= bytes.len();
            for offset in (0..bytes.len()).step_by(2) {
                let place = region.address.wrapping_add(offset as u64);
                for key in keys(code, &bytes[offset..]) {
                    let found = self.addresses.get(&(place & PAGE_MASK, key.0, key.1)).map_or(&[][..], Vec::as_slice);
                    for address in &found[..found.len().min(left)] {
                        *votes.entry(address.wrapping_sub(place)).or_default() += 1;
                        left -= 1;
                    }
                }
            }
        }
        let mut ordered: Vec<(u64, u64)> = votes.into_iter().collect();
        ordered.sort_unstable_by_key(|(bias, votes)| (std::cmp::Reverse(*votes), *bias));
        ordered.truncate(MAX_TRIALS);
        ordered
    }
}

/// Opcodes that may start here, and their lengths.
fn keys(code: &Code, bytes: &[u8]) -> impl Iterator<Item = (u32, u8)> {
    let half = |at: usize| {
        let bytes = [*bytes.get(at)?, *bytes.get(at + 1)?];
        Some(if code.big_endian_code { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    };
    let (first, second) = (half(0), half(2));
    let joined = |high: Option<u16>, low: Option<u16>| Some((u32::from(high?) << 16 | u32::from(low?), 4));
    let word = if code.big_endian_code { joined(first, second) } else { joined(second, first) };
    // A wide T32 instruction is two halfwords, the first of which has the high bits.
    let wide = joined(first, second).filter(|_| code.machine == Some(Machine::Arm) && !code.big_endian_code);
    [first.map(|half| (u32::from(half), 2)), word, wide].into_iter().flatten()
}

/// The only bias that many instructions vote for. One with less than half of the votes of the best is a coincidence.
fn choose(votes: &[(u64, u64)]) -> Placement {
    let Some((_, best)) = votes.first().filter(|(_, votes)| *votes >= MIN_RANGES) else { return Placement::Unknown };
    let good: Vec<&(u64, u64)> = votes.iter().filter(|(_, votes)| votes * 2 >= *best).collect();
    match good[..] {
        [(bias, votes)] => Placement::At { bias: *bias, because: format!("{votes} instructions of the trace agree") },
        _ => Placement::Ambiguous(good.iter().map(|(bias, _)| *bias).collect()),
    }
}
