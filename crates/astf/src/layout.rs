//! From a table of fields to types: the struct, the view on 32 bytes, and the conversions between them.

//! A record is a little-endian number of 256 bits. A field is a range of bits within one of the four 64-bit words, or
//! bytes that are not a number.

/// Bytes of every record.
pub const RECORD_BYTES: usize = 32;

/// The bytes of one record.
pub type Bytes = [u8; RECORD_BYTES];

/// Value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'r> {
    /// One bit.
    Flag(bool),
    /// A number.
    Number(u64),
    /// Bytes that are not a number.
    Bytes(&'r [u8]),
}

/// Type of a field.
pub(super) trait Field: Sized {
    fn value(&self) -> Value<'_>;

    /// Reads the bits from `low` to `high`.
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

/// Declares a record: its type, and its fields with their bits.
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
            $($(#[$field_doc])* #[doc = concat!("Bits ", $low, " to ", $high, ".")] pub $field: $kind,)*
        }

        impl $name {
            /// First byte of such a record.
            pub const TYPE: u8 = $type;

            /// Encodes the record.
            #[inline]
            pub fn to_bytes(&self) -> Bytes {
                let mut bytes = [0; RECORD_BYTES];
                bytes[0] = $type;
                $(Field::put(self.$field, &mut bytes, $low, $high);)*
                bytes
            }

            /// Calls `each` with the name and the value of every field, in the order of its bits.
            pub fn each_field(&self, mut each: impl FnMut(&'static str, Value<'_>)) {
                $(each(stringify!($field), Field::value(&self.$field));)*
            }
        }

        #[doc = concat!("A [`", stringify!($name), "`] record in memory; fields are read on access.")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $view<'b>(&'b Bytes);

        impl<'b> $view<'b> {
            /// Views the bytes of a record as this type.
            #[inline(always)]
            pub fn new(bytes: &'b Bytes) -> Self {
                Self(bytes)
            }

            /// The bytes of the record.
            pub fn bytes(self) -> &'b Bytes {
                self.0
            }

            /// Reads all fields.
            #[inline(always)]
            pub fn get(self) -> $name {
                $name { $($field: self.$field(),)* }
            }

            $(
                $(#[$field_doc])*
                #[doc = concat!("Bits ", $low, " to ", $high, ".")]
                #[inline(always)]
                pub fn $field(self) -> $kind {
                    Field::get(self.0, $low, $high)
                }
            )*
        }
    };
}

/// Declares [`Record`](super::record::Record) and [`View`](super::record::View), with a variant for each kind of
/// record.
macro_rules! any_record {
    ($($(#[$doc:meta])* $name:ident, $view:ident;)*) => {
        /// A record of any type.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Record {
            $($(#[$doc])* $name($name),)*
            /// A type that this version of the format does not know.
            Unknown(Bytes),
        }

        impl Record {
            /// Encodes the record.
            #[inline]
            pub fn to_bytes(&self) -> Bytes {
                match self {
                    $(Self::$name(record) => record.to_bytes(),)*
                    Self::Unknown(bytes) => *bytes,
                }
            }

            /// Calls `each` with the name and the value of every field after the type.
            pub fn each_field(&self, mut each: impl FnMut(&'static str, Value<'_>)) {
                match self {
                    $(Self::$name(record) => record.each_field(each),)*
                    Self::Unknown(bytes) => each("bytes", Value::Bytes(bytes)),
                }
            }
        }

        /// A record of any type in memory.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum View<'b> {
            $($(#[$doc])* $name($view<'b>),)*
            /// A type that this version of the format does not know.
            Unknown(&'b Bytes),
        }

        impl<'b> View<'b> {
            /// Views a record by its type.
            #[inline(always)]
            pub fn new(bytes: &'b Bytes) -> Self {
                match bytes[0] {
                    $($name::TYPE => Self::$name($view::new(bytes)),)*
                    _ => Self::Unknown(bytes),
                }
            }

            /// Reads all fields.
            #[inline(always)]
            pub fn get(self) -> Record {
                match self {
                    $(Self::$name(view) => Record::$name(view.get()),)*
                    Self::Unknown(bytes) => Record::Unknown(*bytes),
                }
            }
        }
    };
}

pub(super) use {any_record, record};
