//! Checkpoints: the state of all cores at the start of a segment, encoded and decoded.

use super::bytes::{Cursor, Malformed, put, put_bytes};
use super::calls::{Calls, Pointers, Previous};
use super::segment::Track;
use super::time::{decode_time, encode_time};
use super::{IndexError, IndexResult};
use crate::record::{InstructionSet, Time};
use crate::registers::{MAX_BITS, Slot};
use crate::state::{Pointer, Registers};

/// Maximum number of calls in a checkpoint, the innermost ones.
const MAX_CALLS: usize = 4096;

/// State between two lines.
#[derive(Debug, Clone, Default)]
pub(super) struct Checkpoint {
    pub(super) cores: Vec<CoreAt>,
    /// The core of the previous line.
    pub(super) current: usize,
    /// The time of the previous line.
    pub(super) time: Option<Time>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct CoreAt {
    pub(super) name: Vec<u8>,
    pub(super) registers: Registers,
    pub(super) calls: Calls,
    /// Progress through the program; its flows are empty.
    pub(super) track: Track,
}

impl Checkpoint {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.current as u64);
        encode_time(out, self.time);
        put(out, self.cores.len() as u64);
        self.cores.iter().for_each(|core| core.encode(out));
    }

    pub(super) fn decode(bytes: &[u8], offset: u64) -> IndexResult<Self> {
        Self::read(&mut Cursor(bytes)).map_err(|Malformed| IndexError::Damaged { offset })
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Malformed> {
        let current = cursor.number()? as usize;
        let time = decode_time(cursor)?;
        let cores = cursor.list(CoreAt::decode)?;
        if current >= cores.len().max(1) {
            return Err(Malformed);
        }
        Ok(Self { cores, current, time })
    }
}

impl CoreAt {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.name);
        encode_registers(out, &self.registers);
        put(out, self.calls.depth());
        let frames = &self.calls.frames;
        let kept = &frames[frames.len().saturating_sub(MAX_CALLS)..];
        put(out, kept.len() as u64);
        for (address, sp) in kept {
            put(out, *address);
            encode_option(out, *sp);
        }
        put(out, self.track.instructions);
        encode_previous(out, self.track.previous);
        out.push(u8::from(self.track.is_interrupted));
        out.push(u8::from(self.track.snapshot.is_some()));
        if let Some(pointers) = self.track.snapshot {
            encode_option(out, pointers.lr.resolve(&self.registers, true));
            encode_option(out, pointers.sp.resolve(&self.registers, false));
        }
    }

    fn decode(cursor: &mut Cursor<'_>) -> Result<Self, Malformed> {
        let name = cursor.bytes()?.to_vec();
        let registers = decode_registers(cursor)?;
        let depth = cursor.number()?;
        let frames = cursor.list(|cursor| Ok((cursor.number()?, decode_option(cursor)?)))?;
        let below = depth.checked_sub(frames.len() as u64).ok_or(Malformed)?;
        let mut track =
            Track { instructions: cursor.number()?, previous: decode_previous(cursor)?, ..Track::default() };
        track.is_interrupted = cursor.byte()? != 0;
        if cursor.byte()? != 0 {
            let (lr, sp) = (Pointer::Is(decode_option(cursor)?), Pointer::Is(decode_option(cursor)?));
            track.snapshot = Some(Pointers { lr, sp });
        }
        Ok(Self { name, registers, calls: Calls { frames, below }, track })
    }
}

fn encode_option(out: &mut Vec<u8>, number: Option<u64>) {
    out.push(u8::from(number.is_some()));
    number.into_iter().for_each(|number| put(out, number));
}

fn decode_option(cursor: &mut Cursor<'_>) -> Result<Option<u64>, Malformed> {
    if cursor.byte()? == 0 { Ok(None) } else { cursor.number().map(Some) }
}

fn decode_slot(cursor: &mut Cursor<'_>) -> Result<Slot, Malformed> {
    u16::try_from(cursor.number()?).map(Slot).map_err(|_| Malformed)
}

/// The instruction sets in the order of their numbers in the file.
const SETS: [Option<InstructionSet>; 5] =
    [None, Some(InstructionSet::A), Some(InstructionSet::T), Some(InstructionSet::E), Some(InstructionSet::O)];

fn encode_previous(out: &mut Vec<u8>, previous: Option<Previous>) {
    out.push(u8::from(previous.is_some()));
    if let Some(previous) = previous {
        put(out, previous.address);
        put(out, previous.next.wrapping_sub(previous.address));
        encode_option(out, previous.opcode.map(u64::from));
        out.push(SETS.iter().position(|set| *set == previous.set).unwrap_or(0) as u8);
    }
}

fn decode_previous(cursor: &mut Cursor<'_>) -> Result<Option<Previous>, Malformed> {
    if cursor.byte()? == 0 {
        return Ok(None);
    }
    let address = cursor.number()?;
    let next = address.wrapping_add(cursor.number()?);
    let opcode = decode_option(cursor)?.map(|opcode| opcode as u32);
    let set = *SETS.get(usize::from(cursor.byte()?)).ok_or(Malformed)?;
    Ok(Some(Previous { address, next, opcode, set }))
}

fn encode_registers(out: &mut Vec<u8>, registers: &Registers) {
    put_bytes(out, registers.mode_text());
    out.push(registers.is_a64().map_or(0, |is_a64| 1 + u8::from(is_a64)));
    [registers.last_stack, registers.last_link]
        .iter()
        .for_each(|slot| encode_option(out, slot.map(|slot| slot.0.into())));
    put(out, registers.names().count() as u64);
    registers.names().for_each(|name| put_bytes(out, name));
    let mut count = 0;
    registers.each(|_, _, _| count += 1);
    put(out, count);
    registers.each(|slot, _, contents| {
        put(out, slot.0.into());
        let whole = registers.cells.whole(slot);
        // Usually the last write covers the whole register.
        let is_one = contents.lines().iter().copied().chain(whole).all(|line| line == contents.line);
        put(out, u64::from(contents.bits) << 2 | u64::from(!is_one) << 1 | u64::from(whole.is_some()));
        put(out, contents.line);
        if !is_one {
            contents.lines().iter().copied().chain(whole).for_each(|line| put(out, line));
        }
        let (value, known) = contents.words();
        let words = usize::from(contents.bits).div_ceil(64);
        value.iter().take(words).chain(known.iter().take(words)).for_each(|word| put(out, *word));
    });
}

fn decode_registers(cursor: &mut Cursor<'_>) -> Result<Registers, Malformed> {
    let mut registers = Registers::default();
    let mode = cursor.bytes()?;
    let is_a64 = cursor.byte()?;
    registers.set_mode(mode);
    registers.set_is_a64((is_a64 != 0).then_some(is_a64 == 2));
    for last in [&mut registers.last_stack, &mut registers.last_link] {
        *last = decode_option(cursor)?.map(|slot| Slot(slot as u16));
    }
    for _ in 0..cursor.count()? {
        registers.add_name(cursor.bytes()?).ok_or(Malformed)?;
    }
    for _ in 0..cursor.count()? {
        let (slot, bits, line) = (decode_slot(cursor)?, cursor.number()?, cursor.number()?);
        let (bits, has_lines, is_whole) = (bits >> 2, bits & 2 != 0, bits & 1 != 0);
        if bits > MAX_BITS as u64 {
            return Err(Malformed);
        }
        let (words, halves) = ((bits as usize).div_ceil(64), (bits as usize).div_ceil(32));
        let mut lines = vec![line; halves];
        let mut whole = is_whole.then_some(line);
        if has_lines {
            for line in lines.iter_mut().chain(&mut whole) {
                *line = cursor.number()?;
            }
        }
        let numbers = (0..2 * words).map(|_| cursor.number()).collect::<Result<Vec<_>, _>>()?;
        let (value, known) = numbers.split_at(words);
        if !registers.restore(slot, bits, line, value, known) {
            return Err(Malformed);
        }
        registers.restore_lines(slot, &lines, whole);
    }
    Ok(registers)
}
