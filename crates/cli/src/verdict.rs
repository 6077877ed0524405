//! Result of a verb that did its work, and so the exit code.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No problems: exit code 0.
    Clean,
    /// The trace has problems: exit code 1.
    Problems,
    /// A program was run, and failed with this exit code.
    #[cfg(unix)]
    Program(u8),
}

impl Verdict {
    pub(crate) fn of(has_problems: bool) -> Self {
        if has_problems { Self::Problems } else { Self::Clean }
    }

    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Problems => 1,
            #[cfg(unix)]
            Self::Program(code) => code,
        }
    }

    /// The worse of both.
    pub(crate) fn or(self, other: Self) -> Self {
        if self == Self::Clean { other } else { self }
    }
}
