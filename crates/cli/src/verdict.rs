//! Result of a verb that did its work, and so the exit code.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No problems: exit code 0.
    Clean,
    /// The trace has problems: exit code 1.
    Problems,
}

impl Verdict {
    pub(crate) fn of(has_problems: bool) -> Self {
        if has_problems { Self::Problems } else { Self::Clean }
    }

    /// The worse of both.
    pub(crate) fn or(self, other: Self) -> Self {
        if self == Self::Clean { other } else { self }
    }
}
