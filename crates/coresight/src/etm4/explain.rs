//! What a register value of a trace unit says, in words.
//!
//! Comes in: a register name, its value, the protocol. Goes out: an [`Explanation`], field by field, with every set
//! bit accounted for: those that nobody defined are fields named `reserved`.
//! This room decides nothing: what reading trace needs of the registers is in `config.rs`.
//! `registers.rs` and the rooms in it are the table, `rules.rs` has the words that depend on a value, this file puts them together.
//! Specification: Arm IHI 0064 (ETMv4) and DDI 0487 (ETE), register descriptions.

use alloc::{
    format,
    string::{String, ToString as _},
    vec::Vec,
};

use crate::Protocol;

mod registers;
mod rules;

use rules::Rule;

/// What one register value means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The architectural name, upper case, with its number if there are several.
    pub register: String,
    /// What the register is for.
    pub title: &'static str,
    /// Its fields in the order that reads best, then the reserved bits that are set.
    pub fields: Vec<ExplainedField>,
    /// What to say when no field is notable.
    otherwise: &'static str,
}

/// What one field of a register value means.
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
    /// The value in words that stand on their own.
    pub meaning: String,
    /// Worth a place on a one-page overview.
    pub notable: bool,
}

/// Says what `value` means in the named register (case does not matter) of an ETE or ETMv4 trace unit.
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
    let (register, number) = registers::all().find_map(|known| Some((known, known.number(register)?)))?;
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

struct Register {
    name: &'static str,
    title: &'static str,
    otherwise: &'static str,
    /// How many there are, numbered from 0; 0: there is one, without a number.
    count: u8,
    fields: &'static [Field],
}

impl Register {
    /// Is it called this? Then its number, as it is written.
    fn number<'n>(&self, name: &'n str) -> Option<&'n str> {
        let (head, number) = name.split_at_checked(self.name.len())?;
        let is_right = match number {
            "" => self.count == 0,
            digits => digits.parse::<u8>().is_ok_and(|number| number < self.count) && !digits.starts_with('+'),
        };
        (is_right && head.eq_ignore_ascii_case(self.name)).then_some(number)
    }
}

struct Field {
    name: &'static str,
    high: u8,
    low: u8,
    rule: Rule,
    /// The only protocol that has this field; the bits are reserved in the other one.
    only: Option<Protocol>,
}

impl Field {
    fn is_on(&self, protocol: Protocol) -> bool {
        self.only.is_none_or(|only| only == protocol)
    }

    fn explain(&self, register: u64) -> ExplainedField {
        let &Field { name, high, low, .. } = self;
        let value = bits(register, high, low);
        let (meaning, notable) = self.rule.say(value, register, bits(u64::MAX, high, low));
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

const fn mask(high: u8, low: u8) -> u64 {
    u64::MAX >> (63 - high) & u64::MAX << low
}

const fn bits(value: u64, high: u8, low: u8) -> u64 {
    (value & mask(high, low)) >> low
}

#[cfg(test)]
mod tests;
