//! Rows of the table `accesses`: loads and stores.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, StringArray, UInt32Array, UInt64Array};
use unspool::model::Access;

use crate::rows::{Place, Places};

/// Rows of one source.
#[derive(Debug, Default)]
pub(crate) struct AccessRows {
    places: Places,
    instruction: Vec<Option<u64>>,
    direction: Vec<&'static str>,
    address: Vec<u64>,
    size: Vec<u64>,
    value: Vec<Option<u64>>,
    /// Data of accesses that are too long for a value.
    data: Vec<Option<Vec<u8>>>,
}

impl AccessRows {
    pub(crate) fn len(&self) -> usize {
        self.address.len()
    }

    /// Adds an access, with its data if all of them are known.
    pub(crate) fn add(&mut self, access: &Access<'_>, instruction: Option<u64>, place: &Place) {
        self.places.add(place);
        self.instruction.push(instruction);
        self.direction.push(access.direction.name());
        self.address.push(access.address);
        self.size.push(access.size);
        let is_known = !access.bytes.is_empty() && access.bytes.iter().all(|(_, mask)| *mask == 0xff);
        let bytes = access.bytes.iter().map(|(byte, _)| *byte);
        let is_long = access.bytes.len() > 8;
        let value = || bytes.clone().rev().fold(0, |value, byte| value << 8 | u64::from(byte));
        self.value.push((is_known && !is_long).then(value));
        self.data.push((is_known && is_long).then(|| bytes.collect()));
    }

    /// The columns, of which no row is left.
    pub(crate) fn take(&mut self, source: u32) -> Vec<ArrayRef> {
        let rows = self.len();
        let data = std::mem::take(&mut self.data);
        let mut columns = self.places.take(UInt32Array::from_value(source, rows));
        columns.extend([
            Arc::new(UInt64Array::from(std::mem::take(&mut self.instruction))) as ArrayRef,
            Arc::new(StringArray::from(std::mem::take(&mut self.direction))),
            Arc::new(UInt64Array::from(std::mem::take(&mut self.address))),
            Arc::new(UInt64Array::from(std::mem::take(&mut self.size))),
            Arc::new(UInt64Array::from(std::mem::take(&mut self.value))),
            Arc::new(BinaryArray::from_iter(data)),
        ]);
        columns
    }
}
