//! Memory spaces: the Security states and Exception levels in which an image is visible.
//!
//! value of `space=` ─▶ **spaces** ─▶ set of pairs of Security state and Exception level
//!
//! A bit set, so that the check whether a PE sees an image is one bit test.

use std::fmt;
use std::ops::BitOr;

use unspool_coresight::{Context, Security};

/// A set of pairs of Security state and Exception level.
///
/// ```
/// use unspool_capture::Spaces;
/// use unspool_coresight::{Context, Security};
/// let kernel = Spaces::from_name("EL1N").unwrap();
/// assert!(kernel.contains(Security::NonSecure, 0));
/// assert!(!kernel.contains(Security::Secure, 1));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spaces(u16);

impl Spaces {
    /// All states and levels.
    pub const ANY: Self = Self(0xffff);
    /// Secure EL1 and EL0.
    pub const EL1S: Self = Self::levels(Security::Secure, 0b0011);
    /// Non-secure EL1 and EL0.
    pub const EL1N: Self = Self::levels(Security::NonSecure, 0b0011);
    /// Realm EL1 and EL0.
    pub const EL1R: Self = Self::levels(Security::Realm, 0b0011);
    /// Secure EL2, and EL0 under a host in EL2.
    pub const EL2S: Self = Self::levels(Security::Secure, 0b0101);
    /// Non-secure EL2, and EL0 under a host in EL2.
    pub const EL2N: Self = Self::levels(Security::NonSecure, 0b0101);
    /// Realm EL2, and EL0 under a host in EL2.
    pub const EL2R: Self = Self::levels(Security::Realm, 0b0101);
    /// EL3, which is in Secure state, or in Root state with the Realm Management Extension.
    pub const EL3: Self = Self(Self::levels(Security::Secure, 0b1000).0 | Self::ROOT.0);
    /// EL3 in Root state.
    pub const ROOT: Self = Self::levels(Security::Root, 0b1000);
    /// The whole Secure state.
    pub const SECURE: Self = Self::levels(Security::Secure, 0b1111);
    /// The whole Non-secure state.
    pub const NON_SECURE: Self = Self::levels(Security::NonSecure, 0b0111);
    /// The whole Realm state.
    pub const REALM: Self = Self::levels(Security::Realm, 0b0111);

    /// Parses the name of a memory space, ignoring case.
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.trim())).map(|(_, spaces)| *spaces)
    }

    /// Whether memory is visible to a PE at this Exception level of this Security state. At
    /// [`Context::UNKNOWN_EL`], which is never EL2, memory of any of the other levels is. The M profile has no levels:
    /// memory of the Security state is visible in both its modes.
    pub fn contains(self, security: Security, el: u8) -> bool {
        let levels = match el {
            0..=3 => 1 << el,
            Context::UNKNOWN_EL => 0b1011,
            Context::THREAD | Context::HANDLER => 0b1111,
            _ => 0,
        };
        self.0 & levels << shift(security) != 0
    }

    const fn levels(security: Security, levels: u16) -> Self {
        Self(levels << shift(security))
    }
}

const fn shift(security: Security) -> u32 {
    match security {
        Security::Secure => 0,
        Security::NonSecure => 4,
        Security::Root => 8,
        Security::Realm => 12,
    }
}

/// Names in the snapshot format. The first name of a set is the one that is displayed.
const NAMES: [(&str, Spaces); 17] = [
    ("ANY", Spaces::ANY),
    ("S", Spaces::SECURE),
    ("N", Spaces::NON_SECURE),
    ("R", Spaces::REALM),
    ("EL1S", Spaces::EL1S),
    ("EL1N", Spaces::EL1N),
    ("EL1R", Spaces::EL1R),
    ("EL2S", Spaces::EL2S),
    ("EL2N", Spaces::EL2N),
    ("EL2R", Spaces::EL2R),
    ("EL3", Spaces::EL3),
    ("ROOT", Spaces::ROOT),
    // From before Secure EL2 existed.
    ("EL2", Spaces::EL2N),
    // Older names: hypervisor, privileged, non-secure privileged, secure privileged.
    ("H", Spaces::EL2N),
    ("P", Spaces::EL1N),
    ("NP", Spaces::EL1N),
    ("SP", Spaces::EL1S),
];

impl BitOr for Spaces {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The name of the set, or the names of its parts: `N+EL1S`.
impl fmt::Display for Spaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = NAMES.iter().find(|(_, spaces)| spaces == self) {
            return f.write_str(name);
        }
        let (mut left, mut separator) = (self.0, "");
        for (name, spaces) in NAMES.iter().filter(|(_, spaces)| spaces.0 & !self.0 == 0) {
            if left & spaces.0 != 0 {
                write!(f, "{separator}{name}")?;
                (left, separator) = (left & !spaces.0, "+");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Levels of Secure, Non-secure, Root and Realm, as in `02/-/-/-`.
    fn levels(spaces: Spaces) -> String {
        let states = [Security::Secure, Security::NonSecure, Security::Root, Security::Realm];
        let of_state =
            |state| (0..4).filter(|el| spaces.contains(state, *el)).map(|el| el.to_string()).collect::<String>();
        states.map(of_state).map(|levels| if levels.is_empty() { "-".into() } else { levels }).join("/")
    }

    #[test]
    fn names() {
        let rows = [
            ("ANY", "0123/0123/0123/0123"),
            ("any", "0123/0123/0123/0123"),
            ("S", "0123/-/-/-"),
            ("N", "-/012/-/-"),
            ("R", "-/-/-/012"),
            ("EL1S", "01/-/-/-"),
            ("EL1N", "-/01/-/-"),
            ("EL1R", "-/-/-/01"),
            ("EL2S", "02/-/-/-"),
            ("EL2N", "-/02/-/-"),
            ("EL2", "-/02/-/-"),
            ("el2r", "-/-/-/02"),
            ("EL3", "3/-/3/-"),
            ("Root", "-/-/3/-"),
            ("H", "-/02/-/-"),
            ("P", "-/01/-/-"),
            ("NP", "-/01/-/-"),
            (" SP ", "01/-/-/-"),
        ];
        for (name, expected) in rows {
            assert_eq!(Spaces::from_name(name).map(levels).as_deref(), Some(expected), "{name}");
        }
        for unknown in ["", "EL0", "EL4", "EL1", "S N", "physical"] {
            assert_eq!(Spaces::from_name(unknown), None, "{unknown}");
        }
        assert!(!Spaces::ANY.contains(Security::Secure, 4));
    }

    #[test]
    fn displayed_names_parse_to_the_same_set() {
        for (name, spaces) in NAMES {
            assert_eq!(Spaces::from_name(&spaces.to_string()), Some(spaces), "{name}");
        }
        assert_eq!((Spaces::EL1S | Spaces::NON_SECURE).to_string(), "N+EL1S");
    }
}
