//! Register values by name.
//!
//! lines such as `TRCCONFIGR(id:0x4)=0x1` or `PC(size:64)=0` ─▶ **registers** ─▶ [`Registers`]
//!
//! Keeps the order of the file; lookup is by bare name and ignores case. The meaning of a register is not known here.

use std::collections::HashMap;
use std::fmt;

use crate::ini::number;

/// One register of a core or of a trace unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Register {
    /// The bare name, as written.
    pub name: String,
    /// Its value.
    pub value: u64,
    /// The number in `(0x004)` or `(id:0x4)`, if there is one.
    pub id: Option<u64>,
    /// The width in bits in `(size:64)`, if there is one.
    pub size: Option<u32>,
}

impl Register {
    /// A register without number and width.
    pub fn new(name: impl Into<String>, value: u64) -> Self {
        Self { name: name.into(), value, id: None, size: None }
    }

    /// Parses the key and the value of a register line.
    ///
    /// # Errors
    ///
    /// A message that names the part that is not valid.
    pub fn parse(key: &str, value: &str) -> Result<Self, String> {
        let (name, attributes) = key.split_once('(').unwrap_or((key, ""));
        let bad_value = || format!("`{value}` is not a number of at most 64 bits");
        let mut register = Self::new(name.trim(), number(value).ok_or_else(bad_value)?);
        for attribute in attributes.split(['(', ')', ',', ' ']).filter(|text| !text.is_empty()) {
            register.read_attribute(attribute).ok_or_else(|| format!("`{attribute}` is neither id nor size"))?;
        }
        Ok(register)
    }

    fn read_attribute(&mut self, attribute: &str) -> Option<()> {
        match attribute.split_once(':') {
            Some((word, value)) if word.eq_ignore_ascii_case("size") => {
                self.size = Some(u32::try_from(number(value)?).ok()?);
            }
            Some((word, value)) if word.eq_ignore_ascii_case("id") => self.id = Some(number(value)?),
            Some(_) => return None,
            None => self.id = Some(number(attribute)?),
        }
        Some(())
    }
}

/// The key of the register line: `PC(size:64)`.
impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(id) = self.id {
            write!(f, "(id:{id:#x})")?;
        }
        match self.size {
            Some(size) => write!(f, "(size:{size})"),
            None => Ok(()),
        }
    }
}

/// Registers in the order of their file, each name once.
///
/// ```
/// use unspool_capture::{Register, Registers};
/// let registers: Registers = [Register::new("TRCCONFIGR", 0x8001)].into_iter().collect();
/// assert_eq!(registers.get("trcconfigr"), Some(0x8001));
/// assert_eq!(registers.get("TRCIDR0"), None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registers {
    list: Vec<Register>,
    by_name: HashMap<String, usize>,
}

impl Registers {
    /// The value of a register, by its name, ignoring case.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.find(name).map(|register| register.value)
    }

    /// A register, by its name, ignoring case.
    pub fn find(&self, name: &str) -> Option<&Register> {
        self.by_name.get(&name.to_ascii_lowercase()).and_then(|&at| self.list.get(at))
    }

    /// Adds a register, or replaces the one of the same name in its position.
    pub fn set(&mut self, register: Register) {
        let at = *self.by_name.entry(register.name.to_ascii_lowercase()).or_insert(self.list.len());
        match self.list.get_mut(at) {
            Some(old) => *old = register,
            None => self.list.push(register),
        }
    }

    /// All registers, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Register> {
        self.list.iter()
    }

    /// Number of registers.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no registers.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl FromIterator<Register> for Registers {
    fn from_iter<I: IntoIterator<Item = Register>>(registers: I) -> Self {
        let mut all = Self::default();
        registers.into_iter().for_each(|register| all.set(register));
        all
    }
}

impl<'a> IntoIterator for &'a Registers {
    type Item = &'a Register;
    type IntoIter = std::slice::Iter<'a, Register>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_form() {
        let rows: &[(&str, Option<u64>, Option<u32>)] = &[
            ("TRCCONFIGR", None, None),
            ("TRCCONFIGR(0x004)", Some(4), None),
            ("TRCCONFIGR(id:0x4)", Some(4), None),
            ("TRCCONFIGR(ID:4)", Some(4), None),
            ("TRCCONFIGR(size:64)", None, Some(64)),
            ("TRCCONFIGR(id:0x4)(size:64)", Some(4), Some(64)),
            ("TRCCONFIGR (id:0x4, size:64)", Some(4), Some(64)),
            ("TRCCONFIGR(0x4,size:64", Some(4), Some(64)),
            ("TRCCONFIGR()", None, None),
        ];
        for (key, id, size) in rows {
            let register = Register::parse(key, "0x8001").unwrap();
            assert_eq!(register, Register { name: "TRCCONFIGR".into(), value: 0x8001, id: *id, size: *size }, "{key}");
            assert_eq!(Register::parse(&register.to_string(), "0x8001"), Ok(register), "{key}");
        }
    }

    #[test]
    fn errors_name_the_invalid_part() {
        let rows = [
            (
                "V0(size:128)",
                "0x00112233445566778899aabbccddeeff",
                "`0x00112233445566778899aabbccddeeff` is not a number",
            ),
            ("R0", "unknown", "`unknown` is not a number"),
            ("R0", "", "`` is not a number"),
            ("R0(width:8)", "1", "`width:8` is neither id nor size"),
            ("R0(size:x)", "1", "`size:x` is neither id nor size"),
        ];
        for (key, value, expected) in rows {
            let error = Register::parse(key, value).unwrap_err();
            assert!(error.starts_with(expected), "{key}={value}: {error}");
        }
    }

    #[test]
    fn order_is_kept_and_the_last_value_is_used() {
        let names = [("B", 1), ("a", 2), ("b", 3)];
        let registers: Registers = names.map(|(name, value)| Register::new(name, value)).into_iter().collect();
        let seen: Vec<(&str, u64)> = registers.iter().map(|r| (r.name.as_str(), r.value)).collect();
        assert_eq!(seen, [("b", 3), ("a", 2)]);
        assert_eq!(registers.get("A"), Some(2));
    }
}
