//! How a table of fields becomes types: the plain struct, the view on 32 bytes, and both ways between them.
//!
//! A record is one number of 256 bits, little-endian. A field is a stretch of its bits that lies within one of the four
//! 64-bit words, or bytes that are no number.

use super::record::RECORD_BYTES;

/// The bytes of one record.
pub type Bytes = [u8; RECORD_BYTES];

/// What a field says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'r> {
    /// A flag, one bit.
    Flag(bool),
    /// A number.
    Number(u64),
    /// Bytes that are no number.
    Bytes(&'r [u8]),
}

/// A value that fields have.
pub(super) trait Field: Sized {
    /// What it says.
    fn value(&self) -> Value<'_>;

    /// The value of the bits from `low` to `high`.
    fn get(bytes: &Bytes, low: usize, high: usize) -> Self;
    /// Sets these bits, which were zero.
    fn put(self, bytes: &mut Bytes, low: usize, high: usize);
}

#[inline(always)]
fn bits(bytes: &Bytes, low: usize, high: usize) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    let word = u64::from_le_bytes(words[low / 64]);
    let width = high - low + 1;
    word >> (low % 64) & (u64::MAX >> (64 - width))
}

#[inline(always)]
fn set_bits(bytes: &mut Bytes, low: usize, high: usize, value: u64) {
    let (words, _) = bytes.as_chunks_mut::<8>();
    let word = &mut words[low / 64];
    let width = high - low + 1;
    let value = (value & (u64::MAX >> (64 - width))) << (low % 64);
    *word = (u64::from_le_bytes(*word) | value).to_le_bytes();
}

impl Field for bool {
    fn value(&self) -> Value<'_> {
        Value::Flag(*self)
    }

    #[inline(always)]
    fn get(bytes: &Bytes, low: usize, high: usize) -> Self {
        bits(bytes, low, high) != 0
    }

    #[inline(always)]
    fn put(self, bytes: &mut Bytes, low: usize, high: usize) {
        set_bits(bytes, low, high, u64::from(self));
    }
}

macro_rules! number {
    ($($type:ty)*) => {
        $(impl Field for $type {
            fn value(&self) -> Value<'_> {
                Value::Number(u64::from(*self))
            }

            #[inline(always)]
            fn get(bytes: &Bytes, low: usize, high: usize) -> Self {
                bits(bytes, low, high) as $type
            }

            #[inline(always)]
            fn put(self, bytes: &mut Bytes, low: usize, high: usize) {
                set_bits(bytes, low, high, u64::from(self));
            }
        })*
    };
}

number!(u8 u16 u32 u64);

impl<const N: usize> Field for [u8; N] {
    fn value(&self) -> Value<'_> {
        Value::Bytes(self)
    }

    #[inline(always)]
    fn get(bytes: &Bytes, low: usize, high: usize) -> Self {
        let mut value = [0; N];
        value.copy_from_slice(&bytes[low / 8..=high / 8]);
        value
    }

    #[inline(always)]
    fn put(self, bytes: &mut Bytes, low: usize, high: usize) {
        bytes[low / 8..=high / 8].copy_from_slice(&self);
    }
}

/// Spells a record: its type, and its fields with the bits that they have.
macro_rules! record {
    (
        $(#[$doc:meta])*
        $name:ident, $view:ident: $type:literal {
            $($(#[$field_doc:meta])* $field:ident: $kind:ty = $low:literal..=$high:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $kind,)*
        }

        impl $name {
            /// The first byte of such a record.
            pub const TYPE: u8 = $type;

            /// Its bytes.
            #[inline]
            pub fn to_bytes(&self) -> Bytes {
                let mut bytes = [0; RECORD_BYTES];
                bytes[0] = $type;
                $(Field::put(self.$field, &mut bytes, $low, $high);)*
                bytes
            }

            /// Names every field, in the order of its bits, and what it says.
            pub fn each_field(&self, mut tell: impl FnMut(&'static str, Value<'_>)) {
                $(tell(stringify!($field), Field::value(&self.$field));)*
            }
        }

        #[doc = concat!("A [`", stringify!($name), "`] record as it lies in memory; each field is read when it is asked for.")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $view<'b>(&'b Bytes);

        impl<'b> $view<'b> {
            /// Looks at the bytes of a record as if they were of this type.
            #[inline(always)]
            pub fn new(bytes: &'b Bytes) -> Self {
                Self(bytes)
            }

            /// All of it.
            pub fn bytes(self) -> &'b Bytes {
                self.0
            }

            /// All fields at once.
            #[inline(always)]
            pub fn get(self) -> $name {
                $name { $($field: self.$field(),)* }
            }

            $(
                $(#[$field_doc])*
                #[inline(always)]
                pub fn $field(self) -> $kind {
                    Field::get(self.0, $low, $high)
                }
            )*
        }
    };
}

pub(super) use record;
