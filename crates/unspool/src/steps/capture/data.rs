//! Data trace, joined to the steps of its instructions.
//!
//! steps, data transfers ─▶ **steps with accesses**
//!
//! Transfers belong to the most recent data instruction: a load, a store or, where those are traced, a coprocessor register
//! transfer that was executed. Other instructions may come between, and values may come much later, so steps wait until they
//! are complete; the order is kept. Transfers that belong to no instruction, or to a coprocessor, are for the caller. Does
//! not know packets.
//! Specification: Arm IHI 0014, data tracing.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use unspool_coresight::etm3::OwnElement;
use unspool_coresight::etm3::element::{DataValue, Transfer};
use unspool_isa::{Isa, Transfers, access, transfers};
use unspool_model::{Direction, Event, Instruction, Step};

/// Greatest number of steps that wait for data.
const MAX_WAITING: usize = 1 << 12;

/// Steps that wait for their data.
#[derive(Debug, Default)]
pub(super) struct DataJoin {
    /// Coprocessor register transfers are traced.
    coprocessors: bool,
    waiting: VecDeque<Waiting>,
    /// Number of steps that have left.
    released: u64,
    /// The number of the step that transfers belong to.
    current: Option<u64>,
    /// Transfers without their value yet, oldest first.
    late: VecDeque<Late>,
}

#[derive(Debug)]
struct Waiting {
    step: Step,
    kind: Option<Kind>,
    accesses: Vec<Access>,
}

/// A data instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A load or store: the direction of its transfers, and the size of each.
    Memory { direction: Direction, size: u64 },
    /// A transfer between registers of the core and of a coprocessor, which is no access.
    Coprocessor,
}

#[derive(Debug, Clone, Copy)]
struct Access {
    address: Option<u64>,
    value: Option<u32>,
    big_endian: bool,
}

/// A transfer that waits for a value with this tag.
#[derive(Debug, Clone, Copy)]
struct Late {
    tag: u8,
    step: u64,
    access: usize,
}

type Take<'t> = &'t mut dyn FnMut(&Step) -> ControlFlow<()>;

impl DataJoin {
    /// A join at the start of a trace. `coprocessors`: it contains coprocessor register transfers.
    pub(super) fn new(coprocessors: bool) -> Self {
        Self { coprocessors, ..Self::default() }
    }

    /// Takes the next step, and passes on those that are complete.
    pub(super) fn step(&mut self, step: &Step, take: Take<'_>) -> ControlFlow<()> {
        if matches!(step.event, Event::Gap(_)) {
            self.end(take)?;
        }
        let kind = step.event.instruction().and_then(|instruction| data_kind(instruction, self.coprocessors));
        if self.waiting.is_empty() && kind.is_none() {
            self.released += 1;
            return take(step);
        }
        if kind.is_some() {
            self.current = Some(self.released + self.waiting.len() as u64);
        }
        self.waiting.push_back(Waiting { step: step.clone(), kind, accesses: Vec::new() });
        self.release(take)
    }

    /// Takes a data element. False: it belongs to no instruction whose accesses are known.
    pub(super) fn data(&mut self, own: &OwnElement) -> bool {
        match own {
            OwnElement::Transfer(transfer) => self.transfer(transfer),
            OwnElement::LateValue { tag, value } => self.late_value(*tag, *value),
            // The transfer before did not take place.
            OwnElement::StoreFailed => self.accesses().is_some_and(|accesses| accesses.pop().is_some()),
            OwnElement::DataSuppressed => {
                if let Some(accesses) = self.accesses() {
                    accesses.clear();
                }
                self.current = None;
                false
            }
            _ => false,
        }
    }

    /// Passes on all steps: what follows does not belong to them.
    pub(super) fn end(&mut self, take: Take<'_>) -> ControlFlow<()> {
        self.current = None;
        self.late.clear();
        self.release(take)
    }

    fn waiting(&mut self, step: u64) -> Option<&mut Waiting> {
        self.waiting.get_mut(usize::try_from(step.checked_sub(self.released)?).ok()?)
    }

    fn accesses(&mut self) -> Option<&mut Vec<Access>> {
        let current = self.current?;
        self.waiting(current).map(|waiting| &mut waiting.accesses)
    }

    fn transfer(&mut self, transfer: &Transfer) -> bool {
        let Some(step) = self.current else { return false };
        let Some(waiting) = self.waiting(step) else { return false };
        let (is_access, accesses) = (waiting.kind != Some(Kind::Coprocessor), &mut waiting.accesses);
        let follows = || accesses.last().and_then(|last| last.address).map(|address| (address + 4) & 0xffff_ffff);
        let address = transfer.address.map(u64::from).or_else(|| follows().filter(|_| !transfer.first));
        let value = match transfer.value {
            DataValue::Traced(value) => Some(value),
            DataValue::Late { .. } | DataValue::NotTraced => None,
        };
        let access = accesses.len();
        accesses.push(Access { address, value, big_endian: transfer.big_endian });
        if let DataValue::Late { tag } = transfer.value {
            self.late.push_back(Late { tag, step, access });
        }
        is_access
    }

    fn late_value(&mut self, tag: u8, value: Option<u32>) -> bool {
        let Some(at) = self.late.iter().position(|late| late.tag == tag) else { return false };
        let Some(Late { step, access, .. }) = self.late.remove(at) else { return false };
        let Some(waiting) = self.waiting(step) else { return false };
        let found = waiting.accesses.get_mut(access).map(|access| access.value = value);
        found.is_some() && waiting.kind != Some(Kind::Coprocessor)
    }

    /// Passes on steps up to the first that may get more data.
    fn release(&mut self, take: Take<'_>) -> ControlFlow<()> {
        let late = self.late.iter().map(|late| late.step);
        let mut open = late.chain(self.current).min().unwrap_or(u64::MAX);
        if self.waiting.len() > MAX_WAITING {
            open = self.released + (self.waiting.len() - MAX_WAITING) as u64;
            self.late.retain(|late| late.step >= open);
        }
        while self.released < open
            && let Some(mut waiting) = self.waiting.pop_front()
        {
            self.released += 1;
            waiting.complete();
            take(&waiting.step)?;
        }
        self.current = self.current.filter(|&step| step >= self.released);
        ControlFlow::Continue(())
    }
}

impl Waiting {
    /// Adds the accesses to the step. One whose address is not traced is not known at all.
    fn complete(&mut self) {
        let Some(Kind::Memory { direction, size }) = self.kind else { return };
        for Access { address, value, big_endian } in self.accesses.drain(..) {
            let Some(address) = address else { continue };
            // The order of the bytes of a big-endian value is not certain.
            let value = value.filter(|_| !big_endian).map(u32::to_le_bytes);
            let bytes = value.into_iter().flatten().take(size as usize).map(|byte| (byte, 0xff));
            self.step.access_known(direction, address, size, bytes);
        }
    }
}

/// The transfers of an instruction, if it is a data instruction that was executed.
fn data_kind(instruction: &Instruction, coprocessors: bool) -> Option<Kind> {
    let opcode = instruction.opcode.filter(|_| instruction.is_executed != Some(false))?;
    if is_coprocessor_transfer(instruction.isa, opcode) {
        return coprocessors.then_some(Kind::Coprocessor);
    }
    let direction = match transfers(instruction.isa, opcode) {
        Transfers { loads: true, stores: true } => Direction::Both,
        Transfers { loads: true, .. } => Direction::Read,
        Transfers { stores: true, .. } => Direction::Write,
        Transfers::NONE => return None,
    };
    let plain = access(instruction.isa, opcode).bytes.map(u64::from);
    let size = plain.or_else(|| special_size(instruction.isa, opcode)).map_or(4, |bytes| bytes.min(4));
    Some(Kind::Memory { direction, size })
}

/// Is it MCR, MRC, MCRR or MRRC, or the second form of one of them?
fn is_coprocessor_transfer(isa: Isa, opcode: u32) -> bool {
    let is_unconditional = opcode >> 28 == 0xf;
    let is_of_isa = match isa {
        Isa::A32 => true,
        // The same encodings, where A32 has the conditions AL and NV.
        Isa::T32 => is_unconditional || opcode >> 28 == 0xe,
        _ => false,
    };
    let transfers_one = opcode >> 24 & 0xf == 0xe && opcode & 0x10 != 0;
    let transfers_two = opcode >> 21 & 0x7f == 0b110_0010;
    is_of_isa && (transfers_one || transfers_two)
}

/// Bytes of a transfer of exclusives, swaps, table branches and vectors, where it is not a word.
fn special_size(isa: Isa, opcode: u32) -> Option<u64> {
    match isa {
        Isa::A32 if opcode >> 24 == 0xf4 => vector_size(opcode),
        Isa::T32 if opcode >> 24 == 0xf9 => vector_size(opcode),
        // Exclusives; then SWPB.
        Isa::A32 if opcode >> 23 & 0x1f == 0b00011 && opcode >> 4 & 0xf == 0b1001 => {
            Some([4, 4, 1, 2][(opcode >> 21 & 3) as usize])
        }
        Isa::A32 if opcode >> 20 & 0xff == 0b0001_0100 && opcode >> 4 & 0xff == 0b1001 => Some(1),
        // Table branches, and exclusives with a size.
        Isa::T32 if opcode >> 21 == 0b111_0100_0110 => Some(1 << (opcode >> 4 & 3)),
        _ => None,
    }
}

/// Bytes of a transfer of vector elements or structures: a word where the elements are adjacent in a register.
fn vector_size(opcode: u32) -> Option<u64> {
    let (is_single, kind) = (opcode >> 23 & 1 == 1, opcode >> 8 & 0xf);
    let is_adjacent = matches!(kind, 0b0111 | 0b1010 | 0b0110 | 0b0010);
    match () {
        () if is_single && kind >> 2 == 3 => Some(1 << (opcode >> 6 & 3)),
        () if is_single => Some(1 << (kind >> 2)),
        () if is_adjacent => None,
        () => Some(1 << (opcode >> 6 & 3)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directions and sizes, by the encodings of Arm DDI 0487.
    #[test]
    fn data_instructions_are_recognized() {
        use Direction::{Both, Read, Write};
        type Row<'r> = (&'r str, Isa, u32, Option<(Direction, u64)>);
        let rows: &[Row<'_>] = &[
            ("ldr r0, [r1]", Isa::A32, 0xe591_0000, Some((Read, 4))),
            ("strb r0, [r1]", Isa::A32, 0xe5c1_0000, Some((Write, 1))),
            ("ldm r1, {r2, r3}", Isa::A32, 0xe891_000c, Some((Read, 4))),
            ("strd r2, [r1]", Isa::A32, 0xe1c1_20f0, Some((Write, 4))),
            ("ldrex r0, [r1]", Isa::A32, 0xe191_0f9f, Some((Read, 4))),
            ("strex r2, r0, [r1]", Isa::A32, 0xe181_2f90, Some((Write, 4))),
            ("strexb r2, r0, [r1]", Isa::A32, 0xe1c1_2f90, Some((Write, 1))),
            ("swp r0, r2, [r1]", Isa::A32, 0xe101_0092, Some((Both, 4))),
            ("vldr s0, [r1]", Isa::A32, 0xed91_0a00, Some((Read, 4))),
            ("mcrr p15, 0, r0, r1, c2", Isa::A32, 0xec41_0f02, None),
            ("mrc p15, 0, r0, c1, c0, 0", Isa::A32, 0xee11_0f10, None),
            ("mul r0, r1, r2", Isa::A32, 0xe000_0291, None),
            ("add r0, r0, r1", Isa::A32, 0xe080_0001, None),
            ("push {r3, lr}", Isa::T32, 0xb508, Some((Write, 4))),
            ("ldrh r0, [r1]", Isa::T32, 0x8808, Some((Read, 2))),
            ("ldrex r0, [r1]", Isa::T32, 0xe851_0f00, Some((Read, 4))),
            ("strex r2, r0, [r1]", Isa::T32, 0xe841_0200, Some((Write, 4))),
            ("ldrexb r0, [r1]", Isa::T32, 0xe8d1_0f4f, Some((Read, 1))),
            ("tbb [pc, r0]", Isa::T32, 0xe8df_f000, Some((Read, 1))),
            ("vstr d0, [r1]", Isa::T32, 0xed81_0b00, Some((Write, 4))),
            ("tbh [pc, r0, lsl #1]", Isa::T32, 0xe8df_f010, Some((Read, 2))),
            ("ldrexd r2, r3, [r1]", Isa::T32, 0xe8d1_237f, Some((Read, 4))),
            ("swpb r0, r2, [r1]", Isa::A32, 0xe141_0092, Some((Both, 1))),
            ("vld1.8 {d0}, [r1]!", Isa::A32, 0xf421_070d, Some((Read, 4))),
            ("vst1.8 {d0}, [r12]!", Isa::A32, 0xf40c_070d, Some((Write, 4))),
            ("vld1.8 {d0}, [r1]!", Isa::T32, 0xf921_070d, Some((Read, 4))),
            ("vld2.8 {d0, d1}, [r1]", Isa::A32, 0xf421_080f, Some((Read, 1))),
            ("vld1.16 {d0[0]}, [r1]", Isa::A32, 0xf4a1_040f, Some((Read, 2))),
            ("vst1.32 {d0[0]}, [r1]", Isa::T32, 0xf981_080f, Some((Write, 4))),
            ("vld1.8 {d0[]}, [r1]", Isa::A32, 0xf4a1_0c0f, Some((Read, 1))),
            ("pld [r1]", Isa::A32, 0xf5d1_f000, None),
            ("movs r0, #1", Isa::T32, 0x2001, None),
        ];
        for &(text, isa, opcode, expected) in rows {
            let instruction = Instruction { isa, opcode: Some(opcode), ..Instruction::default() };
            let expected = expected.map(|(direction, size)| Kind::Memory { direction, size });
            assert_eq!(data_kind(&instruction, false), expected, "{text}");
        }
        let failed = Instruction {
            isa: Isa::A32,
            opcode: Some(0xe591_0000),
            is_executed: Some(false),
            ..Instruction::default()
        };
        assert_eq!(data_kind(&failed, true), None);
    }

    #[test]
    fn coprocessor_transfers_are_recognized() {
        let rows: &[(&str, Isa, u32, bool)] = &[
            ("mrc p15, 0, r0, c1, c0, 0", Isa::A32, 0xee11_0f10, true),
            ("mcreq p14, 0, r1, c0, c5, 0", Isa::A32, 0x0e00_1e15, true),
            ("mrc2 p1, 0, r0, c0, c0, 0", Isa::A32, 0xfe10_0110, true),
            ("mcrr p15, 0, r0, r1, c2", Isa::A32, 0xec41_0f02, true),
            ("mrrc p15, 0, r0, r1, c2", Isa::A32, 0xec51_0f02, true),
            ("mrc p15, 0, r0, c1, c0, 0", Isa::T32, 0xee11_0f10, true),
            ("mrrc p15, 0, r0, r1, c2", Isa::T32, 0xec51_0f02, true),
            ("cdp p1, 0, c0, c0, c0, 0", Isa::A32, 0xee00_0100, false),
            ("ldc p14, c5, [r1]", Isa::A32, 0xed91_5e00, false),
            ("vldr s0, [r1]", Isa::A32, 0xed91_0a00, false),
            ("svc 16", Isa::A32, 0xef00_0010, false),
            ("ldr r0, [r1, #16]", Isa::T32, 0x6908, false),
        ];
        for &(text, isa, opcode, expected) in rows {
            let instruction = Instruction { isa, opcode: Some(opcode), ..Instruction::default() };
            assert_eq!(data_kind(&instruction, true) == Some(Kind::Coprocessor), expected, "{text}");
        }
    }
}
