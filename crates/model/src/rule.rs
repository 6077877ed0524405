//! Rules that a format is held to, and how bad it is to break one.

use std::fmt;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The format forbids it.
    Error,
    /// The format advises against it, or it cannot be what was meant.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// Something that traces are held to.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name, which stays.
    pub name: &'static str,
    /// How bad it is to break it.
    pub severity: Severity,
    /// Where the specification says so, or which record it is about.
    pub section: &'static str,
    /// The rule in one sentence.
    pub summary: &'static str,
}

/// Spells a table of rules: the rules as values, and a name for each to point at it.
#[macro_export]
macro_rules! rules {
    ($($id:ident $name:literal $severity:ident $section:literal $summary:literal;)*) => {
        /// Points at a rule of the table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum RuleId {
            $($id,)*
        }

        impl RuleId {
            /// The rule.
            pub(crate) fn rule(self) -> &'static $crate::rule::Rule {
                &RULES[self as usize]
            }
        }

        /// All rules, in the order of the specification.
        pub static RULES: &[$crate::rule::Rule] = &[
            $($crate::rule::Rule { name: $name, severity: $crate::rule::Severity::$severity, section: $section, summary: $summary },)*
        ];
    };
}

pub use crate::rules;
