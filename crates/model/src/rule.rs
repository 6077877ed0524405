//! Rules that a trace is checked against, and their severity.

use std::fmt;

/// Severity of a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The format forbids it.
    Error,
    /// The format advises against it, or it is probably unintended.
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

/// A rule that traces are checked against.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name, which never changes.
    pub name: &'static str,
    /// Severity of a violation.
    pub severity: Severity,
    /// The section of the specification, or the record that it is about.
    pub section: &'static str,
    /// The rule in one sentence.
    pub summary: &'static str,
}

/// Declares a table of rules: `RULES` with the rules, and `RuleId` to refer to one.
#[macro_export]
macro_rules! rules {
    ($($id:ident $name:literal $severity:ident $section:literal $summary:literal;)*) => {
        /// Refers to a rule of the table.
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
