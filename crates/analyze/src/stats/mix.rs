//! The instruction mix: opcodes by class, by mnemonic and by instruction set.
//!
//! opcodes ─▶ a table of places ─▶ opcodes that had to leave it ─▶ **mix**
//!
//! What an opcode is, is asked once while it keeps its place. What has to leave is kept up to a limit, and then added to
//! its class and its mnemonic, so that memory does not grow.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;

use unspool_isa::{self as isa, Class, Kind, Operation, Xlen, a64_access, facts, riscv_facts};
use unspool_model::Isa;

use super::branches::BranchKind;
use super::footprint::Fibonacci;

/// Opcodes that are counted without asking what they are.
const PLACES: usize = 1 << 14;

/// Opcodes that left their places and are kept.
const LEFT: usize = 1 << 18;

/// Mnemonics that are told apart: no instruction set has as many.
const NAMES: usize = 1 << 14;

/// Gives the mnemonic of an opcode.
pub(super) type Namer<'n> = Box<dyn FnMut(Isa, u32) -> String + 'n>;

/// The instruction mix.
#[derive(Debug, Clone, Default)]
pub struct Mix {
    /// Instructions.
    pub total: u64,
    /// Instructions without an opcode.
    pub unknown: u64,
    /// Instructions in no class.
    pub unclassified: u64,
    sets: BTreeMap<&'static str, u64>,
    classes: BTreeMap<&'static str, u64>,
    mnemonics: BTreeMap<String, u64>,
}

impl Mix {
    /// Instructions of each set, the most frequent first.
    pub fn by_isa(&self) -> Vec<(&str, u64)> {
        sorted(self.sets.iter().map(|(name, count)| (*name, *count)))
    }

    /// Instructions of each class, the most frequent first. One may be in several, so this comes to more than all.
    pub fn by_class(&self) -> Vec<(&str, u64)> {
        sorted(self.classes.iter().map(|(name, count)| (*name, *count)))
    }

    /// Instructions of each mnemonic, the most frequent first.
    pub fn by_mnemonic(&self) -> Vec<(&str, u64)> {
        sorted(self.mnemonics.iter().map(|(name, count)| (name.as_str(), *count)))
    }

    fn add(&mut self, Code { isa, opcode }: Code, count: u64, name: &mut Namer<'_>) {
        self.total += count;
        *self.sets.entry(isa.name()).or_default() += count;
        let name = name(isa, opcode);
        let classes = classes(isa, opcode, &name);
        if classes.is_empty() {
            self.unclassified += count;
        }
        for class in classes {
            *self.classes.entry(class).or_default() += count;
        }
        let is_new = self.mnemonics.len() >= NAMES && !self.mnemonics.contains_key(&name);
        let name = if is_new { "(others)".to_string() } else { name };
        *self.mnemonics.entry(name).or_default() += count;
    }
}

fn sorted<'m>(rows: impl Iterator<Item = (&'m str, u64)>) -> Vec<(&'m str, u64)> {
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|(name, count)| (Reverse(*count), *name));
    rows
}

/// An opcode of an instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Code {
    isa: Isa,
    opcode: u32,
}

/// An opcode, what it does to the flow of control, and how often it was executed.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    code: Code,
    kind: BranchKind,
    count: u64,
}

/// Counts opcodes.
pub(super) struct Opcodes<'n> {
    places: Vec<Place>,
    left: HashMap<Code, u64, BuildHasherDefault<Fibonacci>>,
    mix: Mix,
    name: Namer<'n>,
}

impl<'n> Opcodes<'n> {
    pub(super) fn new(name: Namer<'n>) -> Self {
        Self { places: vec![Place::default(); PLACES], left: HashMap::default(), mix: Mix::default(), name }
    }

    /// The next instruction; what it does to the flow of control.
    #[inline]
    pub(super) fn add(&mut self, isa: Isa, opcode: u32) -> BranchKind {
        let code = Code { isa, opcode };
        let place = &mut self.places[slot(opcode)];
        if place.code == code && place.count > 0 {
            place.count += 1;
            return place.kind;
        }
        self.replace(code)
    }

    /// The next instruction, of which nobody knows the opcode.
    pub(super) fn add_unknown(&mut self) -> BranchKind {
        (self.mix.total, self.mix.unknown) = (self.mix.total + 1, self.mix.unknown + 1);
        BranchKind::default()
    }

    #[inline(never)]
    fn replace(&mut self, code: Code) -> BranchKind {
        let kind = branch_kind(code);
        let left = std::mem::replace(&mut self.places[slot(code.opcode)], Place { code, kind, count: 1 });
        if left.count > 0 {
            if self.left.len() >= LEFT {
                self.settle();
            }
            *self.left.entry(left.code).or_default() += left.count;
        }
        kind
    }

    /// All instructions were counted.
    pub(super) fn finish(mut self) -> Mix {
        for place in std::mem::take(&mut self.places).into_iter().filter(|place| place.count > 0) {
            *self.left.entry(place.code).or_default() += place.count;
        }
        self.settle();
        self.mix
    }

    fn settle(&mut self) {
        for (code, count) in self.left.drain() {
            self.mix.add(code, count, &mut self.name);
        }
    }
}

/// Opcodes differ in their middle; Fibonacci hashing brings that to the top.
#[inline]
fn slot(opcode: u32) -> usize {
    (opcode.wrapping_mul(0x9e37_79b9) >> (u32::BITS - PLACES.ilog2())) as usize
}

/// The instruction set, as those who know opcodes call it.
enum Set {
    Arm(isa::Isa),
    Riscv(Xlen),
}

fn set(isa: Isa) -> Set {
    match isa {
        Isa::A64 => Set::Arm(isa::Isa::A64),
        Isa::A32 => Set::Arm(isa::Isa::A32),
        Isa::T32 => Set::Arm(isa::Isa::T32),
        Isa::Rv32 => Set::Riscv(Xlen::Rv32),
        Isa::Rv64 => Set::Riscv(Xlen::Rv64),
    }
}

fn branch_kind(Code { isa, opcode }: Code) -> BranchKind {
    match set(isa) {
        Set::Arm(isa) => BranchKind::of_arm(&facts(isa, 0, opcode)),
        Set::Riscv(xlen) => BranchKind::of_riscv(&riscv_facts(xlen, 0, opcode)),
    }
}

/// The classes that an instruction counts in. Those of RISC-V have the names that tools around STF use.
fn classes(isa: Isa, opcode: u32, name: &str) -> Vec<&'static str> {
    match set(isa) {
        Set::Riscv(xlen) => riscv_facts(xlen, 0, opcode).classes.iter().map(Class::name).collect(),
        Set::Arm(arm) => {
            let mut classes = flow_classes(arm, opcode);
            match isa {
                Isa::A64 => a64_classes(opcode, &mut classes),
                _ => classes.extend(aarch32_classes(name)),
            }
            classes
        }
    }
}

fn flow_classes(isa: isa::Isa, opcode: u32) -> Vec<&'static str> {
    let facts = facts(isa, 0, opcode);
    let is_branch = matches!(facts.kind, Kind::Direct | Kind::Indirect);
    let found = [
        (is_branch, "branch"),
        (is_branch && facts.conditional, "cond"),
        (facts.kind == Kind::Indirect, "indirect"),
        (is_branch && facts.link, "call"),
        (is_branch && facts.ret, "return"),
        (facts.kind == Kind::Isb, "fence"),
        (facts.kind == Kind::Wfx, "wait"),
    ];
    found.into_iter().filter(|(is, _)| *is).map(|(_, class)| class).collect()
}

/// What is done with memory and the system, and by the group of the encoding, what is computed with.
fn a64_classes(opcode: u32, classes: &mut Vec<&'static str>) {
    use Operation::{HypervisorCall, LoadStore, Prefetch, SecureMonitorCall, SupervisorCall, VectorPrefetch};
    let access = a64_access(opcode);
    let operation = access.operation;
    let group = opcode >> 25 & 0xf;
    let is_system = opcode >> 22 == 0b11_0101_0100 || opcode >> 24 == 0b1101_0100;
    // DSB, DMB and SB. ISB is one of those above, and CLREX is none.
    let is_barrier = opcode & 0xffff_f01f == 0xd503_301f && opcode >> 5 & 7 != 2 && classes.is_empty();
    let is_simd_access = group & 0b0101 == 0b0100 && opcode >> 26 & 1 != 0;
    let found = [
        (operation.reads(), "load"),
        (operation.writes(), "store"),
        (operation == LoadStore, "atomic"),
        (operation.touches_tags(), "tag"),
        (matches!(operation, Prefetch | VectorPrefetch), "prefetch"),
        (matches!(operation, Operation::CacheMaintenance | Operation::CacheMaintenanceAll), "cache"),
        (matches!(operation, SupervisorCall | HypervisorCall | SecureMonitorCall), "system-call"),
        (is_barrier, "fence"),
        (is_system, "system"),
        (matches!(group, 0b1000 | 0b1001 | 0b0101 | 0b1101), "int"),
        (matches!(group, 0b0111 | 0b1111) || is_simd_access, "simd"),
        (access.vector, "vector"),
    ];
    classes.extend(found.into_iter().filter(|(is, _)| *is).map(|(_, class)| class));
}

/// How the mnemonics of AArch32 start that compute with general registers.
const INTEGER: [&str; 65] = [
    "adc", "add", "adr", "and", "asr", "bfc", "bfi", "bic", "clz", "cmn", "cmp", "crc32", "eor", "lsl", "lsr", "mla",
    "mls", "mov", "mul", "mvn", "neg", "orn", "orr", "pkh", "qadd", "qasx", "qdadd", "qdsub", "qsax", "qsub", "rbit",
    "rev", "ror", "rrx", "rsb", "rsc", "sadd", "sasx", "sbc", "sbfx", "sdiv", "sel", "sh", "sml", "smm", "smu", "ssat",
    "ssax", "ssub", "sub", "sxt", "teq", "tst", "uadd", "uasx", "ubfx", "udiv", "uh", "uma", "uml", "umu", "uq", "usa",
    "usub", "uxt",
];

/// Of AArch32, the mnemonic tells what is done with memory, and what is computed.
fn aarch32_classes(name: &str) -> impl Iterator<Item = &'static str> {
    let starts = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    let is_swap = name.starts_with("swp");
    let found = [
        (starts(&["ld", "vld", "pop", "vpop", "rfe", "tbb", "tbh"]) || is_swap, "load"),
        (starts(&["st", "vst", "push", "vpush", "srs"]) || is_swap, "store"),
        (starts(&["dmb", "dsb"]), "fence"),
        (starts(&["svc", "hvc", "smc"]), "system-call"),
        (name.starts_with('v'), "simd"),
        (starts(&INTEGER), "int"),
    ];
    found.into_iter().filter(|(is, _)| *is).map(|(_, class)| class)
}
