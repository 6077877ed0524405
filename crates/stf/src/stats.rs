//! What a trace comes to: counts of records and instructions, and the instruction mix.
//!
//! instructions ─▶ **counts**, and opcodes by class and by mnemonic
//!
//! Counts mean what `stf_count` and `stf_imix` mean by them, so that they can be compared: the header is not counted, an
//! instruction that faulted was not executed, and everything is executed outside user mode until an event says that it is
//! entered. Memory does not grow with the trace: opcodes are counted in a table of fixed size, and what has to leave it
//! is added to its class and its mnemonic.

mod contents;

#[cfg(feature = "text")]
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;

#[cfg(feature = "text")]
use unspool_isa::Disassembler;
use unspool_isa::{Class, Classes, ControlFlow, Isa, OpcodeCache, RiscvExtensions, access, decode};

pub use self::contents::{Contents, Events};
use super::lift::Instruction;
use super::names::EventKind;
use super::read::Gather;
use super::record::{Event, Record};

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Records behind the header.
    pub records: u64,
    /// Opcode records.
    pub opcodes: u64,
    /// Of these, instructions that did not fault.
    pub instructions: u64,
    /// Instructions that faulted. A call of those above is no fault.
    pub faults: u64,
    /// Accesses to memory.
    pub accesses: u64,
    /// Of these, reads.
    pub reads: u64,
    /// Of these, writes.
    pub writes: u64,
    /// Records of accesses and of their contents.
    pub memory_records: u64,
    /// Register records.
    pub registers: u64,
    /// Micro-operations.
    pub microops: u64,
    /// Comments behind the header.
    pub comments: u64,
    /// Events of all kinds.
    pub events: u64,
    /// Page table walks.
    pub walks: u64,
    /// Accesses by other masters of the bus.
    pub bus_accesses: u64,
    /// Instructions that did not fault and are in user mode: an event said so.
    pub user: u64,
    /// Other instructions that did not fault.
    pub non_user: u64,
    /// Instructions by the mode that they are executed in (user, supervisor, hypervisor, machine), as far as it was told.
    pub modes: [u64; 4],
    /// Instructions with a record that says where execution goes on.
    pub targets: u64,
    /// Instructions whose address is forced.
    pub forced: u64,
}

impl Counts {
    /// The next instruction. False: it faulted.
    #[inline]
    pub fn add(&mut self, instruction: &Instruction<'_>) -> bool {
        self.records += u64::from(instruction.records);
        self.opcodes += 1;
        self.targets += u64::from(instruction.target.is_some());
        self.forced += u64::from(instruction.is_forced);
        let faulted = instruction.records > 1 && self.group(instruction);
        let mode = instruction.mode.filter(|&mode| mode < 4);
        if let Some(mode) = mode {
            self.modes[mode as usize] += 1;
        }
        if faulted {
            self.faults += 1;
            return false;
        }
        self.instructions += 1;
        let count = if mode == Some(0) { &mut self.user } else { &mut self.non_user };
        *count += 1;
        true
    }

    /// Counts what belongs to an instruction. True: it faulted.
    fn group(&mut self, instruction: &Instruction<'_>) -> bool {
        let mut faulted = false;
        for record in instruction.group() {
            faulted |= self.record(&record);
        }
        faulted
    }

    /// Records behind the last instruction belong to none, but they are there.
    pub fn add_trailing(&mut self, record: &Record<'_>) {
        self.records += 1;
        self.record(record);
    }

    fn record(&mut self, record: &Record<'_>) -> bool {
        match record {
            Record::InstMemAccess(access) => {
                self.accesses += 1;
                self.memory_records += 1;
                self.reads += u64::from(access.kind == 1);
                self.writes += u64::from(access.kind == 2);
            }
            Record::InstMemContent(_) => self.memory_records += 1,
            Record::InstReg(_) => self.registers += 1,
            Record::InstMicroop { .. } => self.microops += 1,
            Record::Comment(_) => self.comments += 1,
            Record::PageTableWalk(_) => self.walks += 1,
            Record::BusMasterAccess(_) => self.bus_accesses += 1,
            Record::Event(event) => {
                self.events += 1;
                return is_fault(event);
            }
            _ => {}
        }
        false
    }
}

impl Gather for Counts {
    fn take(&mut self, instruction: &Instruction<'_>) {
        self.add(instruction);
    }

    fn part(&self) -> Self {
        Self::default()
    }

    fn append(&mut self, part: Self) {
        let Self { modes, .. } = part;
        for (count, more) in self.modes.iter_mut().zip(modes) {
            *count += more;
        }
        self.records += part.records;
        self.opcodes += part.opcodes;
        self.instructions += part.instructions;
        self.faults += part.faults;
        self.accesses += part.accesses;
        self.reads += part.reads;
        self.writes += part.writes;
        self.memory_records += part.memory_records;
        self.registers += part.registers;
        self.microops += part.microops;
        self.comments += part.comments;
        self.events += part.events;
        self.walks += part.walks;
        self.bus_accesses += part.bus_accesses;
        self.user += part.user;
        self.non_user += part.non_user;
        self.targets += part.targets;
        self.forced += part.forced;
    }
}

fn is_fault(event: &Event<'_>) -> bool {
    EventKind::of(event) == EventKind::Fault
}

/// Counts instructions by what they are.
#[derive(Debug)]
pub struct Mix {
    isa: u16,
    /// What opcodes of RISC-V mean here.
    extensions: RiscvExtensions,
    /// How often an opcode was executed, RV32 or RV64.
    opcodes: OpcodeCache<(Isa, u32), u64>,
    table: Table,
}

/// The instruction mix.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Instructions.
    pub total: u64,
    /// Instructions in no class: they are none, or of a set that has no classes here.
    pub unclassified: u64,
    classes: BTreeMap<Class, u64>,
    mnemonics: BTreeMap<String, u64>,
}

impl Table {
    /// Instructions of each class, the most frequent first. One may be in several, so this comes to more than all.
    pub fn by_class(&self) -> Vec<(Class, u64)> {
        let mut rows: Vec<_> = self.classes.iter().map(|(class, count)| (*class, *count)).collect();
        rows.sort_by_key(|(class, count)| (Reverse(*count), class.name()));
        rows
    }

    /// Instructions of each mnemonic, the most frequent first. Without the feature `text` nobody knows mnemonics.
    pub fn by_mnemonic(&self) -> Vec<(&str, u64)> {
        let mut rows: Vec<_> = self.mnemonics.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        rows.sort_by_key(|(name, count)| (Reverse(*count), *name));
        rows
    }
}

impl Table {
    fn append(&mut self, part: Self) {
        self.total += part.total;
        self.unclassified += part.unclassified;
        for (class, count) in part.classes {
            *self.classes.entry(class).or_default() += count;
        }
        for (name, count) in part.mnemonics {
            *self.mnemonics.entry(name).or_default() += count;
        }
    }
}

/// Counts and the mix of the instructions that did not fault.
#[derive(Debug, Default)]
pub struct Stats {
    /// What was counted.
    pub counts: Counts,
    /// What instructions are.
    pub mix: Mix,
}

impl Gather for Stats {
    #[inline]
    fn take(&mut self, instruction: &Instruction<'_>) {
        if self.counts.add(instruction) {
            self.mix.add(instruction);
        }
    }

    fn part(&self) -> Self {
        Self { counts: Counts::default(), mix: self.mix.part() }
    }

    fn append(&mut self, part: Self) {
        self.counts.append(part.counts);
        self.mix.append(part.mix);
    }
}

impl Default for Mix {
    fn default() -> Self {
        Self::new()
    }
}

impl Mix {
    /// Instructions are of RISC-V, unless a record says otherwise.
    pub fn new() -> Self {
        Self::of(1, RiscvExtensions::default())
    }

    /// Instructions of the same set, counted from zero.
    fn part(&self) -> Self {
        Self::of(self.isa, self.extensions)
    }

    fn of(isa: u16, extensions: RiscvExtensions) -> Self {
        Self { isa, extensions, opcodes: OpcodeCache::new(14), table: Table::default() }
    }

    /// Takes note of a record of the header: instructions may be of another set.
    pub fn follow(&mut self, record: &Record<'_>) {
        match record {
            Record::Isa(isa) => {
                self.settle();
                self.isa = *isa;
            }
            Record::IsaExtended(list) => {
                self.settle();
                self.extensions = RiscvExtensions::of(list);
            }
            _ => {}
        }
    }

    /// The next instruction.
    #[inline]
    pub fn add(&mut self, instruction: &Instruction<'_>) {
        let Instruction { opcode, iem, .. } = *instruction;
        self.count((if iem == 1 { Isa::Rv32 } else { Isa::Rv64 }, opcode), 1);
    }

    #[inline]
    fn count(&mut self, key: (Isa, u32), more: u64) {
        if let Some(count) = self.opcodes.get_mut(key) {
            *count += more;
        } else if let Some((left, count)) = self.opcodes.insert(key, more) {
            self.leave(left, count);
        }
    }

    /// Adds what was counted elsewhere.
    pub fn append(&mut self, mut part: Self) {
        for (key, count) in part.opcodes.drain() {
            self.count(key, count);
        }
        self.table.append(part.table);
    }

    /// All instructions were counted.
    pub fn finish(mut self) -> Table {
        self.settle();
        self.table
    }

    fn settle(&mut self) {
        let counted: Vec<_> = self.opcodes.drain().collect();
        counted.into_iter().for_each(|(key, count)| self.leave(key, count));
    }

    /// An opcode is what it is, as often as it was counted.
    fn leave(&mut self, (isa, opcode): (Isa, u32), count: u64) {
        self.table.total += count;
        let classes = match self.isa {
            0 | 1 => self.extensions.classes(isa, opcode),
            2 => a64_classes(opcode),
            _ => Classes::NONE,
        };
        if classes.is_empty() {
            self.table.unclassified += count;
        }
        for class in classes.iter() {
            *self.table.classes.entry(class).or_default() += count;
        }
        self.mnemonic(isa, opcode, count);
    }

    #[cfg(feature = "text")]
    fn mnemonic(&mut self, isa: Isa, opcode: u32, count: u64) {
        let isa = match self.isa {
            0 | 1 => Some(isa),
            2 => Some(Isa::A64),
            _ => None,
        };
        let name = isa.and_then(|isa| {
            DISASSEMBLER.with_borrow_mut(|disassembler| {
                disassembler.extensions = self.extensions;
                disassembler.mnemonic(isa, opcode)
            })
        });
        let name = name.as_deref().unwrap_or("unknown");
        match self.table.mnemonics.get_mut(name) {
            Some(known) => *known += count,
            None => {
                self.table.mnemonics.insert(name.to_string(), count);
            }
        }
    }

    #[cfg(not(feature = "text"))]
    fn mnemonic(&mut self, _: Isa, _: u32, _: u64) {}
}

#[cfg(feature = "text")]
thread_local! {
    // It stays in the thread that made it, and few want it.
    static DISASSEMBLER: RefCell<Disassembler> = RefCell::new(Disassembler::new());
}

/// The classes of an A64 opcode in the words of RISC-V: only branches and accesses have some.
fn a64_classes(opcode: u32) -> Classes {
    let (decoded, operation) = (decode(Isa::A64, 0, opcode), access(Isa::A64, opcode).operation);
    Classes::which([
        (decoded.flow.is_branch(), Class::Branch),
        (decoded.conditional, Class::Conditional),
        (decoded.flow == ControlFlow::Direct && !decoded.conditional, Class::Jal),
        (decoded.flow.is_indirect(), Class::Jalr),
        (operation.reads(), Class::Load),
        (operation.writes(), Class::Store),
    ])
}
