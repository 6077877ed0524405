//! The instruction mix: opcodes by class, by mnemonic and by instruction set.
//!
//! opcodes ─▶ a cache of counts ─▶ evicted opcodes ─▶ **mix**
//!
//! An opcode is decoded once while it is in the cache. Evicted opcodes are kept up to a limit, and then added to their
//! class and their mnemonic, so that memory does not grow.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;

use unspool_isa::{Class, Classes, OpcodeCache, classes, decode};
use unspool_model::Isa;

use super::branches::BranchKind;
use crate::number_hash::Fibonacci;

/// Maximum number of evicted opcodes that are kept.
const EVICTED: usize = 1 << 18;

/// Maximum number of mnemonics: no instruction set has as many.
const NAMES: usize = 1 << 14;

/// Function that returns the mnemonic of an opcode.
pub(super) type Namer<'n> = Box<dyn FnMut(Isa, u32) -> String + Send + 'n>;

/// The instruction mix.
#[derive(Debug, Clone, Default)]
pub struct Mix {
    /// Number of instructions.
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

    /// Instructions of each class, the most frequent first. An instruction may be in several, so the sum may exceed the total.
    pub fn by_class(&self) -> Vec<(&str, u64)> {
        sorted(self.classes.iter().map(|(name, count)| (*name, *count)))
    }

    /// Instructions of each mnemonic, the most frequent first.
    pub fn by_mnemonic(&self) -> Vec<(&str, u64)> {
        sorted(self.mnemonics.iter().map(|(name, count)| (name.as_str(), *count)))
    }

    fn append(&mut self, other: Self) {
        self.total += other.total;
        self.unknown += other.unknown;
        self.unclassified += other.unclassified;
        add_all(&mut self.sets, other.sets);
        add_all(&mut self.classes, other.classes);
        add_all(&mut self.mnemonics, other.mnemonics);
    }

    fn add(&mut self, (isa, opcode): Code, count: u64, name: &mut Namer<'_>) {
        self.total += count;
        *self.sets.entry(isa.name()).or_default() += count;
        let name = name(isa, opcode);
        let mut found = classes(isa, opcode);
        if matches!(isa, Isa::A32 | Isa::T32) {
            found = found.and(aarch32_classes(&name));
        }
        if found.is_empty() {
            self.unclassified += count;
        }
        for class in found.iter() {
            *self.classes.entry(class.name()).or_default() += count;
        }
        let is_new = self.mnemonics.len() >= NAMES && !self.mnemonics.contains_key(&name);
        let name = if is_new { "(others)".to_string() } else { name };
        *self.mnemonics.entry(name).or_default() += count;
    }
}

fn add_all<K: Ord>(counts: &mut BTreeMap<K, u64>, others: BTreeMap<K, u64>) {
    others.into_iter().for_each(|(key, count)| *counts.entry(key).or_default() += count);
}

fn sorted<'m>(rows: impl Iterator<Item = (&'m str, u64)>) -> Vec<(&'m str, u64)> {
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|(name, count)| (Reverse(*count), *name));
    rows
}

/// An opcode of an instruction set.
type Code = (Isa, u32);

/// Kind of branch of an opcode, and the number of its executions.
#[derive(Debug, Clone, Copy)]
struct Counted {
    kind: BranchKind,
    count: u64,
}

pub(super) struct Opcodes<'n> {
    cache: OpcodeCache<Code, Counted>,
    evicted: HashMap<Code, u64, BuildHasherDefault<Fibonacci>>,
    mix: Mix,
    name: Namer<'n>,
}

impl<'n> Opcodes<'n> {
    pub(super) fn new(name: Namer<'n>) -> Self {
        Self { cache: OpcodeCache::new(14), evicted: HashMap::default(), mix: Mix::default(), name }
    }

    /// Counts executions of an instruction and returns its kind of branch.
    #[inline]
    pub(super) fn add(&mut self, isa: Isa, opcode: u32, count: u64) -> BranchKind {
        if let Some(counted) = self.cache.get_mut((isa, opcode)) {
            counted.count += count;
            return counted.kind;
        }
        self.insert((isa, opcode), count)
    }

    /// Adds the counts of another part.
    pub(super) fn append(&mut self, mut other: Self) {
        other.evict_all();
        for ((isa, opcode), count) in other.evicted {
            self.add(isa, opcode, count);
        }
        self.mix.append(other.mix);
    }

    /// Counts an instruction without an opcode.
    pub(super) fn add_unknown(&mut self) -> BranchKind {
        (self.mix.total, self.mix.unknown) = (self.mix.total + 1, self.mix.unknown + 1);
        BranchKind::default()
    }

    #[inline(never)]
    fn insert(&mut self, code: Code, count: u64) -> BranchKind {
        let kind = BranchKind::new(&decode(code.0, 0, code.1));
        if let Some((code, Counted { count, .. })) = self.cache.insert(code, Counted { kind, count }) {
            if self.evicted.len() >= EVICTED {
                self.settle();
            }
            *self.evicted.entry(code).or_default() += count;
        }
        kind
    }

    /// The mix of all instructions.
    pub(super) fn finish(mut self) -> Mix {
        self.evict_all();
        self.settle();
        self.mix
    }

    fn evict_all(&mut self) {
        for (code, Counted { count, .. }) in self.cache.drain() {
            *self.evicted.entry(code).or_default() += count;
        }
    }

    fn settle(&mut self) {
        for (code, count) in self.evicted.drain() {
            self.mix.add(code, count, &mut self.name);
        }
    }
}

/// Starts of AArch32 mnemonics that compute with general registers.
const INTEGER: [&str; 65] = [
    "adc", "add", "adr", "and", "asr", "bfc", "bfi", "bic", "clz", "cmn", "cmp", "crc32", "eor", "lsl", "lsr", "mla",
    "mls", "mov", "mul", "mvn", "neg", "orn", "orr", "pkh", "qadd", "qasx", "qdadd", "qdsub", "qsax", "qsub", "rbit",
    "rev", "ror", "rrx", "rsb", "rsc", "sadd", "sasx", "sbc", "sbfx", "sdiv", "sel", "sh", "sml", "smm", "smu", "ssat",
    "ssax", "ssub", "sub", "sxt", "teq", "tst", "uadd", "uasx", "ubfx", "udiv", "uh", "uma", "uml", "umu", "uq", "usa",
    "usub", "uxt",
];

/// The classes of an AArch32 instruction by its mnemonic.
fn aarch32_classes(name: &str) -> Classes {
    let starts = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    let is_swap = name.starts_with("swp");
    Classes::which([
        (starts(&["ld", "vld", "pop", "vpop", "rfe", "tbb", "tbh"]) || is_swap, Class::Load),
        (starts(&["st", "vst", "push", "vpush", "srs"]) || is_swap, Class::Store),
        (starts(&["dmb", "dsb"]), Class::Fence),
        (starts(&["svc", "hvc", "smc"]), Class::SystemCall),
        (name.starts_with('v'), Class::Simd),
        (starts(&INTEGER), Class::Int),
    ])
}
