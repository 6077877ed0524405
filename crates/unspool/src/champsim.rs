//! ChampSim traces: one record of 64 bytes for each instruction.
//!
//! steps of one source ─▶ **records** ─▶ output
//!
//! ```text
//! byte 0  instruction pointer, 8 bytes        16  two addresses that it writes, 8 bytes each
//!      8  1 if it is a branch                 32  four addresses that it reads, 8 bytes each
//!      9  1 if that was taken                     (all numbers are little-endian; 0: none)
//!     10  two destination registers
//!     12  four source registers
//! ```
//!
//! ChampSim was made for x86: it recognizes the kind of a branch by the stack pointer (6), flags (25) and instruction pointer (26) among its registers. Branches have
//! just these; other instructions have the registers that their operands name, with numbers of their own. More registers or
//! addresses than a record holds are left out, and counted. Facts about the format: public sources of ChampSim.

use std::io::{self, Write};
use std::ops::ControlFlow;

use unspool_analyze::branches::{Executed, Kind};
use unspool_isa::{Disassembler, Isa, OpcodeCache, Operands, Register};
use unspool_model::{BlockSink, Direction, Event, Instruction, Step};

const STACK_POINTER: u8 = 6;
const FLAGS: u8 = 25;
const INSTRUCTION_POINTER: u8 = 26;
/// The first general register, and the first floating-point register.
const GENERAL: u8 = 64;
const FLOAT: u8 = 128;

/// Bytes of a record.
const LENGTH: usize = 64;

/// What was written, and what was left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Instructions.
    pub instructions: u64,
    /// Registers and addresses that a record has no room for.
    pub left_out: u64,
}

/// Registers of a record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Registers {
    destinations: [u8; 2],
    sources: [u8; 4],
    left_out: u8,
}

impl Registers {
    fn new(destinations: &[u8], sources: &[u8]) -> Self {
        let mut registers = Self::default();
        registers.destinations.iter_mut().zip(destinations).for_each(|(to, from)| *to = *from);
        registers.sources.iter_mut().zip(sources).for_each(|(to, from)| *to = *from);
        registers.left_out = (destinations.len().saturating_sub(2) + sources.len().saturating_sub(4)) as u8;
        registers
    }

    /// Those by which ChampSim recognizes this kind of branch.
    fn of_branch(kind: Kind, is_conditional: bool) -> Self {
        const IP: u8 = INSTRUCTION_POINTER;
        const SP: u8 = STACK_POINTER;
        match kind {
            _ if is_conditional => Self::new(&[IP], &[IP, FLAGS]),
            Kind::Direct => Self::new(&[IP], &[]),
            Kind::Call => Self::new(&[IP, SP], &[IP, SP]),
            Kind::IndirectCall => Self::new(&[IP, SP], &[IP, SP, GENERAL]),
            Kind::Return => Self::new(&[IP, SP], &[SP]),
            Kind::Indirect | Kind::ExceptionReturn | Kind::Unknown => Self::new(&[IP], &[GENERAL]),
        }
    }

    fn of_operands(operands: &Operands) -> Self {
        let numbers = |registers: &[Register]| registers.iter().copied().map(number).collect::<Vec<u8>>();
        Self::new(&numbers(&operands.destinations), &numbers(&operands.sources))
    }
}

fn number(register: Register) -> u8 {
    match register {
        Register::General(number) => GENERAL + number,
        Register::Stack => STACK_POINTER,
        Register::Float(number) => FLOAT + number,
        Register::Flags => FLAGS,
    }
}

/// Writes the instructions of a source.
pub struct ChampSimWriter<W> {
    out: W,
    disassembler: Disassembler,
    registers: OpcodeCache<(Isa, u32), Registers>,
    /// A branch whose outcome the next instruction shows, and the address after it.
    pending: Option<([u8; LENGTH], u64)>,
    written: Written,
    failed: Option<io::Error>,
}

impl<W: Write> ChampSimWriter<W> {
    /// A writer to this output.
    pub fn new(out: W) -> Self {
        Self {
            out,
            disassembler: Disassembler::new(),
            registers: OpcodeCache::new(14),
            pending: None,
            written: Written::default(),
            failed: None,
        }
    }

    /// Ends the trace.
    ///
    /// # Errors
    ///
    /// If writing failed.
    pub fn finish(mut self) -> io::Result<(W, Written)> {
        self.write_pending(None);
        match self.failed {
            Some(error) => Err(error),
            None => Ok((self.out, self.written)),
        }
    }

    fn instruction(&mut self, step: &Step, instruction: &Instruction) {
        self.write_pending(Some(instruction.address));
        let branch = Executed::of(step);
        let registers = match &branch {
            Some(branch) => Registers::of_branch(branch.kind, branch.is_conditional),
            None => self.registers_of(instruction),
        };
        let mut record = [0; LENGTH];
        record[..8].copy_from_slice(&instruction.address.to_le_bytes());
        record[8] = u8::from(branch.is_some());
        record[9] = u8::from(branch.is_some_and(|branch| branch.is_taken == Some(true) || !branch.is_conditional));
        record[10..12].copy_from_slice(&registers.destinations);
        record[12..16].copy_from_slice(&registers.sources);
        self.written.left_out += u64::from(registers.left_out);
        self.accesses(step, &mut record);
        if branch.is_some_and(|branch| branch.is_taken.is_none() && branch.is_conditional) {
            self.pending = Some((record, instruction.address.wrapping_add(instruction.length.into())));
        } else {
            self.write(&record);
        }
    }

    fn registers_of(&mut self, instruction: &Instruction) -> Registers {
        let Some(opcode) = instruction.opcode else { return Registers::default() };
        let Self { registers, disassembler, .. } = self;
        *registers.get_or_insert_with((instruction.isa, opcode), || {
            let text = disassembler.text(instruction.isa, 0, opcode);
            Registers::of_operands(&Operands::of(instruction.isa, opcode, &text))
        })
    }

    fn accesses(&mut self, step: &Step, record: &mut [u8; LENGTH]) {
        // The next free field, and the end of the fields.
        let (mut writes, mut reads) = ((16, 32), (32, LENGTH));
        for access in step.accesses() {
            let (is_read, is_write) = match access.direction {
                Direction::Read => (true, false),
                Direction::Write => (false, true),
                Direction::Both => (true, true),
                Direction::Neither => (false, false),
            };
            for (is_wanted, (next, end)) in [(is_write, &mut writes), (is_read, &mut reads)] {
                if is_wanted && next < end {
                    record[*next..*next + 8].copy_from_slice(&access.address.to_le_bytes());
                    *next += 8;
                } else {
                    self.written.left_out += u64::from(is_wanted);
                }
            }
        }
    }

    /// Writes the branch whose outcome was unknown. Without a next instruction it counts as not taken.
    fn write_pending(&mut self, next: Option<u64>) {
        if let Some((mut record, after)) = self.pending.take() {
            record[9] = u8::from(next.is_some_and(|next| next != after));
            self.write(&record);
        }
    }

    fn write(&mut self, record: &[u8; LENGTH]) {
        self.written.instructions += 1;
        if let Err(error) = self.out.write_all(record) {
            self.failed.get_or_insert(error);
        }
    }
}

impl<W: Write> BlockSink for ChampSimWriter<W> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        match &step.event {
            Event::Instruction(instruction) => self.instruction(step, instruction),
            Event::Gap(_) | Event::Exception(_) => self.write_pending(None),
            _ => {}
        }
        if self.failed.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn wants_accesses(&self) -> bool {
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]
mod tests {
    use unspool_model::Branch;

    use super::*;

    fn step(address: u64, opcode: u32, taken: Option<bool>) -> Step {
        let branch = taken.map(|taken| Branch { taken, target: None });
        let instruction =
            Instruction { address, opcode: Some(opcode), length: 4, isa: Isa::A64, branch, ..Instruction::default() };
        let mut step = Step::default();
        step.event = Event::Instruction(instruction);
        step
    }

    /// Instruction pointer, branch, taken, destinations, sources.
    type Fields = (u64, u8, u8, [u8; 2], [u8; 4]);

    fn fields(record: &[u8]) -> Fields {
        let address = u64::from_le_bytes(record[..8].try_into().unwrap());
        (address, record[8], record[9], record[10..12].try_into().unwrap(), record[12..16].try_into().unwrap())
    }

    /// The kinds by the rules of ChampSim: which of the three special registers are read and written.
    #[test]
    fn kinds_of_branches_are_recognized() {
        let rows: &[(u32, Fields)] = &[
            // b, b.eq, bl, blr x1, ret, br x1, add x0, x1, x2
            (0x1400_0004, (0x1000, 1, 1, [26, 0], [0, 0, 0, 0])),
            (0x5400_0080, (0x1000, 1, 1, [26, 0], [26, 25, 0, 0])),
            (0x9400_0004, (0x1000, 1, 1, [26, 6], [26, 6, 0, 0])),
            (0xd63f_0020, (0x1000, 1, 1, [26, 6], [26, 6, 64, 0])),
            (0xd65f_03c0, (0x1000, 1, 1, [26, 6], [6, 0, 0, 0])),
            (0xd61f_0020, (0x1000, 1, 1, [26, 0], [64, 0, 0, 0])),
            (0x8b02_0020, (0x1000, 0, 0, [64, 0], [65, 66, 0, 0])),
        ];
        for (opcode, expected) in rows {
            let mut writer = ChampSimWriter::new(Vec::new());
            assert!(writer.step(&step(0x1000, *opcode, expected.1.eq(&1).then_some(true))).is_continue());
            let (bytes, written) = writer.finish().unwrap();
            assert_eq!((fields(&bytes), bytes.len(), written.instructions), (*expected, 64, 1), "{opcode:#x}");
        }
    }

    #[test]
    fn unknown_outcomes_are_those_of_the_next_instruction() {
        for (next, taken) in [(0x1004, 0), (0x1010, 1)] {
            let mut writer = ChampSimWriter::new(Vec::new());
            for step in [step(0x1000, 0x5400_0080, None), step(next, 0xd503_201f, None)] {
                assert!(writer.step(&step).is_continue());
            }
            let (bytes, _) = writer.finish().unwrap();
            assert_eq!((bytes.len(), fields(&bytes).2), (128, taken));
        }
    }

    #[test]
    fn addresses_have_their_places() {
        let mut pair = step(0x1000, 0xa940_7be0, None);
        (0..5).for_each(|n| pair.access(Direction::Read, 0x8000 + 8 * n, 8));
        pair.access(Direction::Write, 0x9000, 8);
        let mut writer = ChampSimWriter::new(Vec::new());
        assert!(writer.step(&pair).is_continue());
        let (bytes, written) = writer.finish().unwrap();
        let words: Vec<u64> = bytes[16..].as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        assert_eq!(words, [0x9000, 0, 0x8000, 0x8008, 0x8010, 0x8018]);
        assert_eq!(written, Written { instructions: 1, left_out: 1 });
    }
}
