//! The classes of instructions that an instruction mix counts.
//!
//! One instruction may be in several: `lw` is in `int` and `load`. The names and what is in each are those of Mavis, the
//! decoder behind the tools that came with the trace format STF, so that a mix can be compared with theirs.

use core::fmt;

/// A class of instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Works on integers, loads and stores of them included.
    Int,
    /// Works on floating-point numbers, loads and stores of them included.
    Float,
    /// Computes, and is no multiplication, division or such.
    Arith,
    /// Multiplies.
    Multiply,
    /// Divides, or gives the remainder.
    Divide,
    /// Branches or jumps.
    Branch,
    /// Reads the program counter as a value.
    Pc,
    /// Branches on a condition.
    Conditional,
    /// Jumps to where the opcode says.
    Jal,
    /// Jumps to where a register says.
    Jalr,
    /// Loads.
    Load,
    /// Stores.
    Store,
    /// Multiplies and adds.
    MultiplyAdd,
    /// Gives the square root.
    SquareRoot,
    /// Converts from one format of numbers to another.
    Convert,
    /// Compares.
    Compare,
    /// Moves a value unchanged.
    Move,
    /// Tells the kind of a floating-point number.
    Classify,
    /// Works on vectors.
    Vector,
    /// Can be masked, whether it is or not.
    Maskable,
    /// Accesses memory with a stride.
    Stride,
    /// Accesses memory at the places that a vector tells.
    Indexed,
    /// Accesses structures of several fields.
    Segment,
    /// Takes a fault on its first element only.
    FaultFirst,
    /// Moves whole vector registers.
    Whole,
    /// Works on masks.
    Mask,
    /// Manages or prefetches cache blocks.
    Cache,
    /// Accesses memory atomically.
    Atomic,
    /// Orders accesses or translations.
    Fence,
    /// Needs the system: calls, returns from traps, registers of control and such.
    System,
    /// Accesses a control and status register.
    Csr,
    /// Has results that are wider than its operands.
    Widening,
    /// Manages the memory of a guest, or accesses it.
    Hypervisor,
    /// Does what cryptography needs, on vectors.
    Crypto,
    /// Announces an access.
    Prefetch,
    /// Tells that what follows is not used again soon.
    NonTemporal,
    /// Changes nothing but the time that it takes.
    Hint,
}

impl Class {
    /// All classes, in the order of their bits.
    pub const ALL: [Self; 37] = [
        Self::Int,
        Self::Float,
        Self::Arith,
        Self::Multiply,
        Self::Divide,
        Self::Branch,
        Self::Pc,
        Self::Conditional,
        Self::Jal,
        Self::Jalr,
        Self::Load,
        Self::Store,
        Self::MultiplyAdd,
        Self::SquareRoot,
        Self::Convert,
        Self::Compare,
        Self::Move,
        Self::Classify,
        Self::Vector,
        Self::Maskable,
        Self::Stride,
        Self::Indexed,
        Self::Segment,
        Self::FaultFirst,
        Self::Whole,
        Self::Mask,
        Self::Cache,
        Self::Atomic,
        Self::Fence,
        Self::System,
        Self::Csr,
        Self::Widening,
        Self::Hypervisor,
        Self::Crypto,
        Self::Prefetch,
        Self::NonTemporal,
        Self::Hint,
    ];

    /// Its name in a table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Float => "float",
            Self::Arith => "arith",
            Self::Multiply => "mul",
            Self::Divide => "div",
            Self::Branch => "branch",
            Self::Pc => "pc",
            Self::Conditional => "cond",
            Self::Jal => "jal",
            Self::Jalr => "jalr",
            Self::Load => "load",
            Self::Store => "store",
            Self::MultiplyAdd => "mac",
            Self::SquareRoot => "sqrt",
            Self::Convert => "convert",
            Self::Compare => "compare",
            Self::Move => "move",
            Self::Classify => "classify",
            Self::Vector => "vector",
            Self::Maskable => "maskable",
            Self::Stride => "stride",
            Self::Indexed => "indexed",
            Self::Segment => "segment",
            Self::FaultFirst => "faultfirst",
            Self::Whole => "whole",
            Self::Mask => "mask",
            Self::Cache => "cache",
            Self::Atomic => "atomic",
            Self::Fence => "fence",
            Self::System => "system",
            Self::Csr => "csr",
            Self::Widening => "widening",
            Self::Hypervisor => "hypervisor",
            Self::Crypto => "crypto",
            Self::Prefetch => "prefetch",
            Self::NonTemporal => "ntl",
            Self::Hint => "hint",
        }
    }
}

/// A set of classes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Classes(u64);

impl Classes {
    /// No class: what is no instruction has none.
    pub const NONE: Self = Self(0);

    /// The set of these classes.
    pub const fn of(classes: &[Class]) -> Self {
        let (mut set, mut index) = (0, 0);
        while index < classes.len() {
            set |= 1 << classes[index] as u8;
            index += 1;
        }
        Self(set)
    }

    /// This set and the class.
    pub const fn with(self, class: Class) -> Self {
        Self(self.0 | 1 << class as u8)
    }

    /// Whether the class is in the set.
    pub const fn contains(self, class: Class) -> bool {
        self.0 >> class as u8 & 1 != 0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The classes in the set, in the order of [`Class::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Class> {
        Class::ALL.into_iter().filter(move |&class| self.contains(class))
    }
}

impl fmt::Debug for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
