//! The protocol of a trace source.
//!
//! Takes the type text of a device file or a word of the command line (`ETM4.2`, `ETE`, `pft1.1`), produces a
//! [`Protocol`]. The version digits stay with the caller: registers have the exact version.

use core::fmt;

/// The protocol of one trace source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Protocol {
    /// Embedded Trace Extension (Armv9), the successor of ETMv4.
    Ete,
    /// Embedded Trace Macrocell, version 4, instruction stream.
    Etm4,
    /// Embedded Trace Macrocell, version 4, data stream.
    Etm4Data,
    /// Embedded Trace Macrocell, version 3.
    Etm3,
    /// Program Trace Macrocell (program flow trace).
    Ptm,
    /// Instrumentation Trace Macrocell.
    Itm,
    /// System Trace Macrocell, which speaks MIPI STPv2.
    Stm,
}

impl Protocol {
    /// The protocol of a name in any case, with dashes and version digits.
    ///
    /// ```
    /// use unspool_coresight::Protocol;
    /// assert_eq!(Protocol::from_name("ETM4.2"), Some(Protocol::Etm4));
    /// assert_eq!(Protocol::from_name("pft1.1"), Some(Protocol::Ptm));
    /// assert_eq!(Protocol::from_name("cortex"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Self> {
        const NAMES: &[(&str, Protocol)] = &[
            ("ete", Protocol::Ete),
            ("etmv4-data", Protocol::Etm4Data),
            ("etm4-data", Protocol::Etm4Data),
            ("etmv4", Protocol::Etm4),
            ("etm4", Protocol::Etm4),
            ("etmv3", Protocol::Etm3),
            ("etm3", Protocol::Etm3),
            ("ptm", Protocol::Ptm),
            ("pft", Protocol::Ptm),
            ("itm", Protocol::Itm),
            ("stm", Protocol::Stm),
            ("stp", Protocol::Stm),
        ];
        let name = name.trim();
        NAMES.iter().find(|(known, _)| is_name_with_version(name, known)).map(|&(_, protocol)| protocol)
    }

    /// The short lower-case name that the command line and JSON use.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Ete => "ete",
            Protocol::Etm4 => "etm4",
            Protocol::Etm4Data => "etm4-data",
            Protocol::Etm3 => "etm3",
            Protocol::Ptm => "ptm",
            Protocol::Itm => "itm",
            Protocol::Stm => "stm",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Is it `known`, followed by characters of a version or an instance only? `ETMv4.2`, `ETM4_i`, `STM-500`.
fn is_name_with_version(name: &str, known: &str) -> bool {
    let Some((head, rest)) = name.split_at_checked(known.len()) else { return false };
    head.eq_ignore_ascii_case(known)
        && rest.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '-' | '_' | ' ' | 'v' | 'V' | 'i' | 'I'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_device_files_are_recognized() {
        let rows: &[(&str, Option<Protocol>)] = &[
            ("ETE", Some(Protocol::Ete)),
            ("ETM4", Some(Protocol::Etm4)),
            ("ETM4.4", Some(Protocol::Etm4)),
            ("ETMv4i", Some(Protocol::Etm4)),
            ("ETM4-data", Some(Protocol::Etm4Data)),
            ("ETM3.5", Some(Protocol::Etm3)),
            ("PTM1.1", Some(Protocol::Ptm)),
            ("PFT1.1", Some(Protocol::Ptm)),
            ("ITM", Some(Protocol::Itm)),
            ("STM-500", Some(Protocol::Stm)),
            ("ETM", None),
            ("ete-like", None),
            ("", None),
            ("Cortex-A53", None),
        ];
        for (name, expected) in rows {
            assert_eq!(Protocol::from_name(name), *expected, "{name}");
        }
    }
}
