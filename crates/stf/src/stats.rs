//! Statistics of a trace: counts of records and instructions, and the instruction mix.
//!
//! instructions ─▶ **counts**, and opcodes by class and by mnemonic
//!
//! Counts are defined as in `stf_count` and `stf_imix`, for comparison: the header is not counted, a faulting
//! instruction was not executed, and execution is outside user mode until an event enters it. Memory does not grow with
//! the trace: opcodes are counted in a table of fixed size, and evicted counts are added to their class and mnemonic.

mod contents;
mod counts;

#[cfg(feature = "text")]
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;

#[cfg(feature = "text")]
use unspool_isa::Disassembler;
use unspool_isa::{Class, Classes, ControlFlow, Isa, OpcodeCache, RiscvExtensions, access, decode};

pub use self::contents::{Contents, Events};
pub use self::counts::Counts;
use super::lift::Instruction;
use super::read::Gather;
use super::record::Record;

/// Counts instructions by class and mnemonic.
#[derive(Debug)]
pub struct Mix {
    isa: u16,
    /// Extensions that change the meaning of RISC-V opcodes.
    extensions: RiscvExtensions,
    /// Number of executions of an opcode, RV32 or RV64.
    opcodes: OpcodeCache<(Isa, u32), u64>,
    table: Table,
}

/// The instruction mix.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Instructions.
    pub total: u64,
    /// Instructions in no class: invalid ones, and those of instruction sets without classes.
    pub unclassified: u64,
    classes: BTreeMap<Class, u64>,
    mnemonics: BTreeMap<String, u64>,
}

impl Table {
    /// Instructions per class, most frequent first. An instruction may be in several classes.
    pub fn by_class(&self) -> Vec<(Class, u64)> {
        let mut rows: Vec<_> = self.classes.iter().map(|(class, count)| (*class, *count)).collect();
        rows.sort_by_key(|(class, count)| (Reverse(*count), class.name()));
        rows
    }

    /// Instructions per mnemonic, most frequent first. Empty without the feature `text`.
    pub fn by_mnemonic(&self) -> Vec<(&str, u64)> {
        let mut rows: Vec<_> = self.mnemonics.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        rows.sort_by_key(|(name, count)| (Reverse(*count), *name));
        rows
    }

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

/// Counts, and the mix of the instructions that did not fault.
#[derive(Debug, Default)]
pub struct Stats {
    /// Counts.
    pub counts: Counts,
    /// Instruction mix.
    pub mix: Mix,
}

impl Gather for Stats {
    #[inline]
    fn push(&mut self, instruction: &Instruction<'_>) {
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
    /// An empty mix of RISC-V instructions, unless a record selects another set.
    pub fn new() -> Self {
        Self::of(1, RiscvExtensions::default())
    }

    /// An empty mix of the same instruction set.
    fn part(&self) -> Self {
        Self::of(self.isa, self.extensions)
    }

    fn of(isa: u16, extensions: RiscvExtensions) -> Self {
        Self { isa, extensions, opcodes: OpcodeCache::new(14), table: Table::default() }
    }

    /// Follows a record of the header that selects the instruction set.
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

    /// Counts an instruction.
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

    /// Adds another mix.
    pub fn append(&mut self, mut part: Self) {
        for (key, count) in part.opcodes.drain() {
            self.count(key, count);
        }
        self.table.append(part.table);
    }

    /// The mix of all instructions.
    pub fn finish(mut self) -> Table {
        self.settle();
        self.table
    }

    fn settle(&mut self) {
        let counted: Vec<_> = self.opcodes.drain().collect();
        counted.into_iter().for_each(|(key, count)| self.leave(key, count));
    }

    /// Moves the count of an opcode into the table.
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
    // One per thread: it cannot be sent to another, and few threads need it.
    static DISASSEMBLER: RefCell<Disassembler> = RefCell::new(Disassembler::new());
}

/// Classes of an A64 opcode in terms of RISC-V: only branches and accesses have classes.
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
