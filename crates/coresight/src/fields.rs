//! Packets, elements and items as named fields, for writers of JSON and other notations.
//!
//! An item lists its fields in a fixed order; the receiver chooses the notation and knows no protocol.

use core::fmt;

/// Receives the fields of one item, in order.
pub trait Fields {
    /// The next field.
    fn field(&mut self, name: &'static str, value: Value<'_>);

    /// A number, if there is one.
    fn optional(&mut self, name: &'static str, value: Option<impl Into<u64>>) {
        if let Some(value) = value {
            self.field(name, Value::Number(value.into()));
        }
    }

    /// A number, or nothing known.
    fn nullable(&mut self, name: &'static str, value: Option<impl Into<u64>>) {
        self.field(name, value.map_or(Value::Unknown, |value| Value::Number(value.into())));
    }

    /// An address, or nothing known.
    fn nullable_address(&mut self, name: &'static str, address: Option<u64>) {
        self.field(name, address.map_or(Value::Unknown, Value::Hex));
    }
}

/// The value of a field.
#[derive(Clone, Copy)]
pub enum Value<'v> {
    /// A count, a number, an amount.
    Number(u64),
    /// Yes or no.
    Flag(bool),
    /// An address or a bit pattern.
    Hex(u64),
    /// A name or a sentence.
    Text(&'v dyn fmt::Display),
    /// The numbers of the bits that are set.
    Bits(u8),
    /// The trace does not contain it.
    Unknown,
}
