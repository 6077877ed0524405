//! Description of register values in plain English.
//!
//! Takes a register name, its value and the protocol. Produces an [`Explanation`], field by field, that accounts for every
//! set bit: undefined ones are fields named `reserved`. Decides nothing about decoding: that is in `config.rs`.
//! `registers.rs` is the table, `rules.rs` describes values.
//! Specification: Arm IHI 0064 (ETMv4) and DDI 0487 (ETE), register descriptions.

use alloc::{
    format,
    string::{String, ToString as _},
    vec::Vec,
};

use crate::Protocol;

mod registers;
mod rules;

use registers::{Field, REGISTERS, Register};
use rules::{bits, mask};

/// The meaning of one register value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The architectural name, upper case, with its number if there are several.
    pub register: String,
    /// The purpose of the register.
    pub title: &'static str,
    /// Its fields in the order that reads best, then the reserved bits that are set.
    pub fields: Vec<ExplainedField>,
    /// Summary when no field is notable.
    otherwise: &'static str,
}

/// The meaning of one field of a register value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedField {
    /// The architectural name, or `reserved`.
    pub name: &'static str,
    /// The highest bit.
    pub high: u8,
    /// The lowest bit.
    pub low: u8,
    /// The value, shifted down to bit 0.
    pub value: u64,
    /// Description of the value.
    pub meaning: String,
    /// Part of the summary.
    pub notable: bool,
}

/// Describes `value` in the named register (in any case) of an ETE or ETMv4 trace unit.
///
/// ```
/// use unspool_coresight::{Protocol, etm4::explain};
/// let explanation = explain("trcconfigr", 0x1811, Protocol::Ete).unwrap();
/// assert_eq!(explanation.register, "TRCCONFIGR");
/// assert_eq!(explanation.summary(), "cycle counts, timestamps, return stack");
/// assert_eq!(explain("TRCNOSUCHR", 0, Protocol::Ete), None);
/// ```
pub fn explain(register: &str, value: u64, protocol: Protocol) -> Option<Explanation> {
    if !matches!(protocol, Protocol::Ete | Protocol::Etm4) {
        return None;
    }
    let (register, number) = REGISTERS.iter().find_map(|known| Some((known, known.number(register)?)))?;
    let mut unexplained = value;
    let mut fields = Vec::new();
    for field in register.fields.iter().filter(|field| field.is_on(protocol)) {
        unexplained &= !mask(field.high, field.low);
        fields.push(field.explain(value));
    }
    fields.extend(reserved(unexplained));
    let Register { name, title, otherwise, .. } = *register;
    Some(Explanation { register: format!("{name}{number}"), title, fields, otherwise })
}

impl Explanation {
    /// The notable fields in one line.
    pub fn summary(&self) -> String {
        let notable: Vec<&str> =
            self.fields.iter().filter(|field| field.notable).map(|field| &*field.meaning).collect();
        if notable.is_empty() { self.otherwise.to_string() } else { notable.join(", ") }
    }
}

impl Register {
    /// The number in `name`, as written, if this is the register; empty for a register without a number.
    fn number<'n>(&self, name: &'n str) -> Option<&'n str> {
        let (head, number) = name.split_at_checked(self.name.len())?;
        let is_right = match number {
            "" => self.count == 0,
            digits => digits.parse::<u8>().is_ok_and(|number| number < self.count) && !digits.starts_with('+'),
        };
        (is_right && head.eq_ignore_ascii_case(self.name)).then_some(number)
    }
}

impl Field {
    fn is_on(&self, protocol: Protocol) -> bool {
        self.only.is_none_or(|only| only == protocol)
    }

    fn explain(&self, register: u64) -> ExplainedField {
        let &Field { name, high, low, .. } = self;
        let value = bits(register, high, low);
        let (meaning, notable) = self.rule.describe(value, register, bits(u64::MAX, high, low));
        ExplainedField { name, high, low, value, meaning, notable }
    }
}

/// One field for each run of set bits, lowest first.
fn reserved(mut unexplained: u64) -> impl Iterator<Item = ExplainedField> {
    core::iter::from_fn(move || {
        let low = unexplained.trailing_zeros();
        let width = unexplained.checked_shr(low)?.trailing_ones();
        let (high, low) = ((low + width - 1) as u8, low as u8);
        let value = bits(unexplained, high, low);
        unexplained &= !mask(high, low);
        let meaning =
            if high == low { format!("reserved bit {low} set") } else { format!("reserved bits {high}:{low} set") };
        Some(ExplainedField { name: "reserved", high, low, value, meaning, notable: true })
    })
}

#[cfg(test)]
mod tests;
