//! The classes of instructions that an instruction mix counts.
//!
//! One instruction may be in several: `lw` is in `int` and `load`. For RISC-V the names and their contents are those of
//! Mavis, the decoder of the tools that came with the trace format STF, so that a mix can be compared with theirs.

use core::fmt;

/// Declares [`Class`] from one row per class: documentation, variant, name.
macro_rules! classes {
    ($($(#[$doc:meta])* $class:ident $name:literal,)*) => {
        /// A class of instructions.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Class {
            $($(#[$doc])* $class,)*
        }

        impl Class {
            /// All classes, in the order of their bits.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$class),*];

            /// Its name in a table.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$class => $name,)*
                }
            }
        }
    };
}

classes! {
    /// Works on integers, loads and stores of them included.
    Int "int",
    /// Works on floating-point numbers, loads and stores of them included.
    Float "float",
    /// Computes, other than by multiplication, division and the like.
    Arith "arith",
    /// Multiplies.
    Multiply "mul",
    /// Divides, or computes the remainder.
    Divide "div",
    /// Branches or jumps.
    Branch "branch",
    /// Reads the program counter as a value.
    Pc "pc",
    /// Branches on a condition.
    Conditional "cond",
    /// Jumps to a target in the opcode.
    Jal "jal",
    /// Jumps to a target in a register.
    Jalr "jalr",
    /// Loads.
    Load "load",
    /// Stores.
    Store "store",
    /// Multiplies and adds.
    MultiplyAdd "mac",
    /// Computes the square root.
    SquareRoot "sqrt",
    /// Converts between number formats.
    Convert "convert",
    /// Compares.
    Compare "compare",
    /// Moves a value unchanged.
    Move "move",
    /// Classifies a floating-point number.
    Classify "classify",
    /// Works on vectors.
    Vector "vector",
    /// Can be masked.
    Maskable "maskable",
    /// Accesses memory with a stride.
    Stride "stride",
    /// Accesses memory at addresses in a vector.
    Indexed "indexed",
    /// Accesses structures of several fields.
    Segment "segment",
    /// Takes a fault on its first element only.
    FaultFirst "faultfirst",
    /// Moves whole vector registers.
    Whole "whole",
    /// Works on masks.
    Mask "mask",
    /// Manages or prefetches cache blocks.
    Cache "cache",
    /// Accesses memory atomically.
    Atomic "atomic",
    /// Orders accesses or translations.
    Fence "fence",
    /// System instructions: calls, trap returns, control registers and the like.
    System "system",
    /// Accesses a control and status register.
    Csr "csr",
    /// Has results that are wider than its operands.
    Widening "widening",
    /// Manages the memory of a guest, or accesses it.
    Hypervisor "hypervisor",
    /// Vector cryptography.
    Crypto "crypto",
    /// Announces an access.
    Prefetch "prefetch",
    /// A hint that the next access is not reused soon.
    NonTemporal "ntl",
    /// A hint, without architectural effect.
    Hint "hint",
    /// Branches to a target that is not in the opcode. Arm only, like all that follow.
    Indirect "indirect",
    /// Calls a function.
    Call "call",
    /// Returns from a function.
    Return "return",
    /// Waits for an interrupt or event.
    Wait "wait",
    /// Accesses allocation tags.
    Tag "tag",
    /// Calls a higher exception level.
    SystemCall "system-call",
    /// Works on SIMD and floating-point registers.
    Simd "simd",
}

/// A set of classes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Classes(u64);

impl Classes {
    /// No class, as for opcodes that are not instructions.
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

    /// The union of both sets.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The classes whose condition holds.
    pub fn which(conditions: impl IntoIterator<Item = (bool, Class)>) -> Self {
        conditions.into_iter().filter(|(holds, _)| *holds).fold(Self::NONE, |set, (_, class)| set.with(class))
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
