//! Loops without progress: the execution only repeats itself, as after a crash or at the end of a bare-metal program.
//!
//! steps ─▶ **detector** ─▶ the step that closes a loop
//!
//! The definition is that of `tarmac-truncate`: an address comes again within [`LONGEST`] instructions, and no register has
//! changed in between; or the same exceptions come again, and nothing was executed in between. Memory is not compared. Where
//! a trace has no registers, instructions that write one count as changes.

use std::collections::{HashMap, VecDeque};

use unspool_isa::{ControlFlow, Isa, decode, destinations};
use unspool_model::{Event, Exception, Instruction, Step};

/// Number of instructions, and of exceptions, of the longest loop that is recognized.
pub const LONGEST: usize = 16;

/// Maximum number of registers of a core whose values are known. Writes of further ones count as changes.
const MAX_REGISTERS: usize = 1 << 12;

/// Finds loops without progress in the steps of one source.
#[derive(Debug)]
pub struct LoopDetector {
    has_registers: bool,
    cores: HashMap<u32, Core>,
}

#[derive(Debug, Default)]
struct Core {
    registers: HashMap<String, Vec<(u8, u8)>>,
    /// Addresses since a register last changed.
    addresses: VecDeque<u64>,
    /// Exceptions since the last instruction, without their positions.
    exceptions: VecDeque<Exception>,
    /// The loop was found, and continues.
    is_in_loop: bool,
}

impl LoopDetector {
    /// A detector. `has_registers`: the steps have the values of registers that are written.
    pub fn new(has_registers: bool) -> Self {
        Self { has_registers, cores: HashMap::new() }
    }

    /// Whether a step closes a loop that was not found before. All steps have to be passed in order.
    pub fn step(&mut self, step: &Step) -> bool {
        let has_registers = self.has_registers;
        let core = self.cores.entry(step.core).or_default();
        let is_closed = match &step.event {
            Event::Gap(_) => {
                *core = Core::default();
                return false;
            }
            // An instruction comes before its own effects.
            Event::Instruction(found) => {
                core.exceptions.clear();
                core.is_repeated(found.address)
            }
            Event::Exception(found) => core.is_same_exception(found),
            _ => false,
        };
        let is_change = match &step.event {
            Event::Instruction(found) if !has_registers => may_write_register(found),
            _ => core.takes_changes(step),
        };
        let is_new = is_closed && !core.is_in_loop;
        core.is_in_loop |= is_closed;
        if is_change {
            core.addresses.clear();
            core.exceptions.clear();
            core.is_in_loop = false;
        }
        is_new
    }
}

impl Core {
    fn is_repeated(&mut self, address: u64) -> bool {
        let is_repeated = self.addresses.contains(&address);
        self.is_in_loop &= is_repeated;
        push(&mut self.addresses, address);
        is_repeated
    }

    /// Whether the exceptions so far end with a sequence that comes twice.
    fn is_same_exception(&mut self, exception: &Exception) -> bool {
        push(&mut self.exceptions, *exception);
        let all = self.exceptions.make_contiguous();
        (1..=all.len() / 2).any(|length| {
            let (earlier, last) = all[all.len() - 2 * length..].split_at(length);
            earlier == last
        })
    }

    /// Takes the registers that a step writes. Whether one of them changes, or may change.
    fn takes_changes(&mut self, step: &Step) -> bool {
        let mut is_change = false;
        for write in step.registers() {
            let is_known = write.low == 0 && write.bytes.iter().all(|(_, mask)| *mask == 0xff);
            let is_same = is_known && self.registers.get(write.name).is_some_and(|bytes| bytes == write.bytes);
            if is_same {
                continue;
            }
            is_change = true;
            if self.registers.len() < MAX_REGISTERS || self.registers.contains_key(write.name) {
                self.registers.insert(write.name.to_string(), write.bytes.to_vec());
            }
        }
        is_change
    }
}

fn push<T>(all: &mut VecDeque<T>, one: T) {
    if all.len() == LONGEST {
        all.pop_front();
    }
    all.push_back(one);
}

/// Whether an instruction may change a register, or what it does is not known.
fn may_write_register(instruction: &Instruction) -> bool {
    let Instruction { isa, address, opcode: Some(opcode), .. } = *instruction else { return true };
    let decoded = decode(isa, address, opcode);
    let writes = match isa {
        // Of these, only what changes the flow of control is known to write nothing else.
        Isa::A32 | Isa::T32 => matches!(decoded.flow, ControlFlow::FallThrough | ControlFlow::Indirect),
        _ => !destinations(isa, opcode).is_none(),
    };
    writes || decoded.link
}

#[cfg(test)]
mod tests {
    use unspool_model::{ExceptionKind, Gap};

    use super::*;

    const NOP: u32 = 0xd503_201f;
    const LOAD: u32 = 0xf940_0000;
    const BRANCH: u32 = 0x1400_0000;

    fn instruction(address: u64, opcode: u32) -> Step {
        let mut step = Step::default();
        let opcode = Some(opcode);
        step.event = Event::Instruction(Instruction { address, opcode, length: 4, ..Instruction::default() });
        step
    }

    fn writing(address: u64, value: u8) -> Step {
        let mut step = instruction(address, LOAD);
        step.write_register("x0", 0, &[value, 0, 0, 0, 0, 0, 0, 0]);
        step
    }

    fn exception(kind: ExceptionKind) -> Step {
        let mut step = Step::default();
        step.event = Event::Exception(Exception { kind, ..Exception::default() });
        step
    }

    fn closed(has_registers: bool, steps: &[Step]) -> Vec<usize> {
        let mut detector = LoopDetector::new(has_registers);
        (0..).zip(steps).filter(|(_, step)| detector.step(step)).map(|(index, _)| index).collect()
    }

    #[test]
    fn an_address_that_comes_again_without_a_change_closes_a_loop_once() {
        let at = |address| instruction(address, NOP);
        let endless: Vec<Step> = (0..40).map(|index| at(0x10 + 4 * (index % 4))).collect();
        let far: Vec<Step> = (0..80).map(|index| at(0x10 + 4 * (index % 17))).collect();
        let mut gap = Step::default();
        gap.event = Event::Gap(Gap::Overflow);
        for has_registers in [false, true] {
            assert_eq!(closed(has_registers, &endless), [4]);
            assert_eq!(closed(has_registers, &far), [], "a longer loop");
            assert_eq!(closed(has_registers, &[at(0x10), gap.clone(), at(0x10)]), []);
            assert_eq!(closed(has_registers, &[instruction(0x10, BRANCH), instruction(0x10, BRANCH)]), [1]);
            // A loop that was left and entered again is another one.
            let again = [0x10, 0x10, 0x10, 0x20, 0x30, 0x30].map(at);
            assert_eq!(closed(has_registers, &again), [1, 5]);
        }
    }

    #[test]
    fn a_register_that_changes_is_progress() {
        let counting: Vec<Step> = (0..9).map(|value| writing(0x10, value)).collect();
        let polling: Vec<Step> = (0..9).map(|value| writing(0x10, u8::from(value == 5))).collect();
        assert_eq!(closed(true, &counting), []);
        // Values 0, 0 close a loop; 1 at index 5 and 0 at index 6 are changes, and then it repeats itself again.
        assert_eq!(closed(true, &polling), [2, 8]);
        assert_eq!(closed(false, &polling), [], "values are not known: each load may change one");
    }

    #[test]
    fn values_of_too_many_registers_are_not_kept() {
        let mut detector = LoopDetector::new(true);
        let (mut step, mut closed) = (instruction(0x10, LOAD), 0);
        for round in 0..3 {
            for number in 0..=MAX_REGISTERS {
                step.clear();
                step.event = instruction(0x10, LOAD).event;
                step.write_register(&format!("r{number}"), 0, &[1]);
                closed += u32::from(detector.step(&step));
            }
            assert_eq!(closed, round, "the last register of each round counts as changed");
        }
        assert_eq!(detector.cores[&0].registers.len(), MAX_REGISTERS);
    }

    #[test]
    fn exceptions_that_come_again_before_any_instruction_close_a_loop() {
        let [irq, fiq] = [ExceptionKind::Irq, ExceptionKind::Fiq].map(exception);
        assert_eq!(closed(true, &[irq.clone(), fiq.clone(), irq.clone(), fiq.clone(), irq.clone()]), [3]);
        assert_eq!(closed(true, &[irq.clone(), instruction(0x10, NOP), irq]), []);
        assert_eq!(closed(true, &[fiq]), []);
    }

    #[test]
    fn instructions_of_aarch32_that_only_branch_write_no_register() {
        let thumb = |opcode| {
            let mut step = instruction(0x100, opcode);
            if let Event::Instruction(found) = &mut step.event {
                (found.isa, found.length) = (Isa::T32, 2);
            }
            step
        };
        assert_eq!(closed(false, &[thumb(0xe7fe), thumb(0xe7fe)]), [1], "b .");
        assert_eq!(closed(false, &[thumb(0xbd00), thumb(0xbd00)]), [], "pop {{pc}}");
        assert_eq!(closed(false, &[thumb(0x3001), thumb(0x3001)]), [], "adds r0, #1");
    }
}
