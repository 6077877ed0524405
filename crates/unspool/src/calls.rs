//! Calls of a Tarmac log, for each core by itself.
//!
//! lines ─▶ registers (stack pointer, link register), instructions ─▶ [`analyze::calls`](unspool_analyze::calls)
//!
//! Only calls in progress are held in memory. Times are those of the log, in the unit of its first time.

use std::fs::File;
use std::io;

use unspool_analyze::calls::{Call, Follower, Instruction, Opcode, Site};
use unspool_analyze::tree::Tree;
use unspool_isa::Isa;
use unspool_tarmac::dialect::{Dialect, Effects};
use unspool_tarmac::read::Position;
use unspool_tarmac::record::{self, InstructionSet, Line, Record, Stamp};
use unspool_tarmac::registers::Mode;
use unspool_tarmac::state::Registers;

use crate::Clock;
use crate::file::{End, FileError, TarmacFile};
use crate::meter::OnProgress;

/// Maximum number of cores; lines of further ones are skipped.
const MAX_CORES: usize = 256;

/// Empty call tree of one core, which spills to an unnamed temporary file.
pub fn call_tree() -> io::Result<Tree<File>> {
    Ok(Tree::new(tempfile::tempfile()?))
}

/// Call trees of all cores.
#[derive(Debug, Default)]
pub struct CallForest {
    trees: Vec<Option<Tree<File>>>,
    failed: Option<io::Error>,
}

impl CallForest {
    /// Adds a call that has ended.
    pub fn add(&mut self, core: usize, call: &Call) {
        if self.trees.len() <= core {
            self.trees.resize_with(core + 1, || None);
        }
        let tree = &mut self.trees[core];
        if tree.is_none() && self.failed.is_none() {
            match call_tree() {
                Ok(new) => *tree = Some(new),
                Err(error) => self.failed = Some(error),
            }
        }
        if let Some(tree) = tree {
            tree.add(call);
        }
    }

    /// Tree of a core; `None`: it executed nothing.
    pub fn tree(&mut self, core: usize) -> io::Result<Option<&mut Tree<File>>> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(self.trees.get_mut(core).and_then(Option::as_mut)),
        }
    }
}

impl TarmacFile {
    /// Hands the calls of a log to `take`, each when it ends, with the index of its core.
    pub fn calls(
        &mut self,
        progress: &mut OnProgress<'_>,
        take: &mut impl FnMut(usize, &Call),
    ) -> Result<(TarmacCalls, End), FileError> {
        let mut calls = TarmacCalls::new(self.dialect());
        let end = self.each(progress, |position, line| {
            calls.line(position, line, take);
            true
        })?;
        calls.finish(take);
        Ok((calls, end))
    }
}

/// Follower of the calls of all cores of a log.
#[derive(Debug)]
pub struct TarmacCalls {
    effects: Effects,
    cores: Vec<Core>,
    /// Core of the previous line, which lines without a core belong to.
    current: Option<usize>,
    clock: Clock,
    time: u64,
}

impl TarmacCalls {
    /// Starts. The dialect decides whether registers are printed before or after the instruction that writes them.
    pub fn new(dialect: Dialect) -> Self {
        let (effects, clock) = (dialect.effects(), Clock::default());
        Self { effects, cores: Vec::new(), current: None, clock, time: 0 }
    }

    /// Names of the cores with instructions or registers. A log without core names has one core with an empty name.
    pub fn cores(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.cores.iter().map(|core| &*core.name)
    }

    /// Unit of times.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Reads the next line. Calls that end with it are handed to `take`, with the index of their core.
    #[inline]
    pub fn line(&mut self, position: Position, line: &Line<'_>, take: &mut impl FnMut(usize, &Call)) {
        if let Stamp::At(time) = line.stamp {
            self.time = self.clock.count(time);
        }
        match &line.record {
            Record::Instruction(instruction) => {
                let (effects, time) = (self.effects, self.time);
                let Some((index, core)) = self.core(line.core) else { return };
                core.instruction(position.line, time, effects, instruction, &mut |call| take(index, call));
            }
            Record::Register(register) if may_be_pointer(register.name) => {
                let Some((_, core)) = self.core(line.core) else { return };
                core.register(register);
            }
            Record::Exception(exception) => self.interrupt(line.core, exception.is_step.then_some(position.line)),
            Record::Asynchronous(_) => self.interrupt(line.core, Some(position.line)),
            Record::Event(event) if event.is_exception => self.interrupt(line.core, None),
            _ => {}
        }
    }

    /// Ends the log, and with it all calls.
    pub fn finish(&mut self, take: &mut impl FnMut(usize, &Call)) {
        for (index, core) in self.cores.iter_mut().enumerate() {
            core.follower.finish(&mut |call| take(index, call));
        }
    }

    /// Marks an exception; `step`: line at which it starts a step.
    fn interrupt(&mut self, name: Option<&[u8]>, step: Option<u64>) {
        let Some((_, core)) = self.core(name) else { return };
        core.is_interrupted = true;
        core.step = core.step.or(step);
    }

    #[inline]
    fn core(&mut self, name: Option<&[u8]>) -> Option<(usize, &mut Core)> {
        let index = match (self.current, name) {
            (Some(index), None) => index,
            (Some(index), Some(name)) if *self.cores[index].name == *name => index,
            (_, name) => self.find(name.unwrap_or_default())?,
        };
        self.current = Some(index);
        Some((index, &mut self.cores[index]))
    }

    fn find(&mut self, name: &[u8]) -> Option<usize> {
        if let Some(index) = self.cores.iter().position(|core| *core.name == *name) {
            return Some(index);
        }
        if self.cores.len() >= MAX_CORES {
            return None;
        }
        self.cores.push(Core { name: name.into(), ..Core::default() });
        Some(self.cores.len() - 1)
    }
}

#[derive(Debug, Default)]
struct Core {
    name: Box<[u8]>,
    registers: Registers,
    follower: Follower,
    /// Number of instructions so far.
    count: u64,
    /// Time of the last instruction.
    time: u64,
    mode: Mode,
    /// Modes so far: each has a stack pointer of its own.
    modes: Vec<Mode>,
    stack: u32,
    pointers: Pointers,
    /// Pointers before the current instruction, where registers are printed before it.
    earlier: Pointers,
    is_interrupted: bool,
    /// First line of the current step, if it is not that of the instruction.
    step: Option<u64>,
}

/// The stack pointer and the link register.
#[derive(Debug, Clone, Copy, Default)]
struct Pointers {
    sp: Option<u64>,
    lr: Option<u64>,
    is_lr_written: bool,
}

impl Core {
    #[inline]
    fn instruction(
        &mut self,
        line: u64,
        time: u64,
        effects: Effects,
        instruction: &record::Instruction<'_>,
        take: &mut impl FnMut(&Call),
    ) {
        self.count += 1;
        // A time that goes back takes none: otherwise a part could take longer than the whole.
        self.time = self.time.max(time);
        // In debug state, instructions are read from a register, and there are no calls.
        let Some(pc) = instruction.address else { return };
        self.registers.instruction(instruction);
        if self.registers.mode() != self.mode || self.modes.is_empty() {
            self.enter_mode();
        }
        let pointers = self.pointers_before(effects);
        let site = Site { line: self.step.take().unwrap_or(line), time: self.time, number: self.count, pc };
        let step = Instruction {
            is_executed: instruction.is_executed,
            sp: pointers.sp,
            stack: self.stack,
            lr: pointers.lr,
            is_lr_written: pointers.is_lr_written,
            is_interrupted: std::mem::take(&mut self.is_interrupted),
            ..Instruction::new(site, instruction.length, code(instruction))
        };
        self.follower.step(&step, take);
    }

    /// Pointers as they were before the current instruction.
    #[inline]
    fn pointers_before(&mut self, effects: Effects) -> Pointers {
        let current = self.pointers;
        self.pointers.is_lr_written = false;
        match effects {
            Effects::After => current,
            Effects::Before => std::mem::replace(&mut self.earlier, current),
        }
    }

    fn enter_mode(&mut self) {
        self.mode = self.registers.mode();
        let known = self.modes.iter().position(|mode| *mode == self.mode);
        let index = known.unwrap_or(self.modes.len());
        if known.is_none() {
            self.modes.push(self.mode);
        }
        self.stack = index as u32;
        (self.pointers.sp, self.pointers.lr) = (self.registers.sp(), self.registers.lr());
    }

    fn register(&mut self, register: &record::Register<'_>) {
        let touched = self.registers.update(register);
        if touched.sp {
            self.pointers.sp = self.registers.sp();
        }
        if touched.lr {
            self.pointers.lr = self.registers.lr();
            self.pointers.is_lr_written = true;
        }
    }
}

/// Whether a register can be a stack pointer, a link register, or one that selects them. Most are not.
#[inline]
fn may_be_pointer(name: &[u8]) -> bool {
    match name {
        [b'x' | b'X' | b'e' | b'E', rest @ ..] => rest == b"30" || !rest.iter().all(u8::is_ascii_digit),
        [b'r' | b'R', rest @ ..] => !matches!(rest, [b'0'..=b'9'] | [b'1', b'0'..=b'2']),
        [b'c', b'p', b's', b'r'] => false,
        [letter, b'0'..=b'9', ..] => !letter.is_ascii_alphabetic(),
        _ => true,
    }
}

fn code(instruction: &record::Instruction<'_>) -> Option<Opcode> {
    let isa = match instruction.set? {
        InstructionSet::A => Isa::A32,
        InstructionSet::T | InstructionSet::E => Isa::T32,
        InstructionSet::O => Isa::A64,
    };
    Some(Opcode { isa, opcode: instruction.opcode? })
}
