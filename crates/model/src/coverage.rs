//! Coverage: the kinds of information that a source has, known before its first step.

use std::fmt;

/// Declares the facets and their names.
macro_rules! facets {
    ($($(#[$doc:meta])* $id:ident $name:literal;)*) => {
        /// A kind of information that steps may have.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Facet {
            $($(#[$doc])* $id,)*
        }

        impl Facet {
            /// All of them.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$id),*];

            /// The name, which never changes.
            pub fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)* }
            }
        }
    };
}

facets! {
    /// Which instructions were executed, one by one.
    Instructions "instructions";
    /// Their opcodes.
    Opcodes "opcodes";
    /// Whether conditions held.
    Conditions "conditions";
    /// Whether branches were taken.
    Branches "branches";
    /// Addresses and sizes of memory accesses.
    Accesses "accesses";
    /// Data of memory accesses.
    Data "data";
    /// Register writes.
    Registers "registers";
    /// Exceptions and exception returns.
    Exceptions "exceptions";
    /// The Exception level or privilege mode.
    Levels "levels";
    /// The Security state.
    Security "security";
    /// Processes, threads and virtual machines.
    Processes "processes";
    /// The time.
    Times "times";
}

/// The facets that a source covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Coverage(u16);

impl Coverage {
    /// Coverage of these facets.
    pub fn of(facets: &[Facet]) -> Self {
        facets.iter().fold(Self::default(), |coverage, facet| coverage.with(*facet))
    }

    /// With one facet more.
    pub fn with(self, facet: Facet) -> Self {
        Self(self.0 | 1 << facet as u8)
    }

    /// Without a facet.
    pub fn without(self, facet: Facet) -> Self {
        Self(self.0 & !(1 << facet as u8))
    }

    /// Whether a facet is covered.
    #[inline]
    pub fn has(self, facet: Facet) -> bool {
        self.0 & 1 << facet as u8 != 0
    }

    /// The facets that both cover.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The facets, in order.
    pub fn iter(self) -> impl Iterator<Item = Facet> {
        Facet::ALL.into_iter().filter(move |facet| self.has(*facet))
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Facet::name).collect();
        f.write_str(&names.join(", "))
    }
}
