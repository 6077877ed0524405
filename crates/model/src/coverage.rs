//! What a source can ever tell, known before its first step.

use std::fmt;

/// Something that a source may tell of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Facet {
    /// Which instructions were executed, one by one.
    Instructions,
    /// Their opcodes.
    Opcodes,
    /// Whether conditions held.
    Conditions,
    /// Whether branches were taken.
    Branches,
    /// The addresses and sizes of accesses to memory.
    Accesses,
    /// What was read and written there.
    Data,
    /// What registers were given.
    Registers,
    /// Exceptions and their returns.
    Exceptions,
    /// The Exception level or privilege mode.
    Levels,
    /// The Security state.
    Security,
    /// Processes, threads and virtual machines.
    Processes,
    /// The time.
    Times,
}

impl Facet {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Instructions,
        Self::Opcodes,
        Self::Conditions,
        Self::Branches,
        Self::Accesses,
        Self::Data,
        Self::Registers,
        Self::Exceptions,
        Self::Levels,
        Self::Security,
        Self::Processes,
        Self::Times,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Opcodes => "opcodes",
            Self::Conditions => "conditions",
            Self::Branches => "branches",
            Self::Accesses => "accesses",
            Self::Data => "data",
            Self::Registers => "registers",
            Self::Exceptions => "exceptions",
            Self::Levels => "levels",
            Self::Security => "security",
            Self::Processes => "processes",
            Self::Times => "times",
        }
    }
}

/// The facets that a source tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Coverage(u16);

impl Coverage {
    /// These facets.
    pub fn of(facets: &[Facet]) -> Self {
        facets.iter().fold(Self::default(), |coverage, facet| coverage.with(*facet))
    }

    /// With one more.
    pub fn with(self, facet: Facet) -> Self {
        Self(self.0 | 1 << facet as u8)
    }

    /// Is it told?
    #[inline]
    pub fn has(self, facet: Facet) -> bool {
        self.0 & 1 << facet as u8 != 0
    }

    /// What both tell.
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
