//! Values of general-purpose registers, for instructions that write them into the trace.
//!
//! register writes of steps ─▶ **values**, as far as they are known

use unspool_model::Step;

/// Values of X0 to X30; `None`: unknown.
#[derive(Debug, Default)]
pub(super) struct Values([Option<u64>; 31]);

impl Values {
    /// The value of a register. Register 31 is the zero register.
    pub(super) fn get(&self, number: usize) -> Option<u64> {
        if number == 31 { Some(0) } else { self.0.get(number).copied().flatten() }
    }

    /// Applies the register writes of a step.
    pub(super) fn learn(&mut self, step: &Step) {
        for write in step.registers() {
            let Some(value) = number(write.name).and_then(|number| self.0.get_mut(number)) else { continue };
            let is_whole = write.low == 0 && write.bytes.iter().all(|(_, mask)| *mask == 0xff);
            // A write of the low half clears the other one.
            let is_known = is_whole && matches!(write.bytes.len(), 4 | 8);
            let bytes = write.bytes.iter().rev().fold(0, |value, (byte, _)| value << 8 | u64::from(*byte));
            *value = is_known.then_some(bytes);
        }
    }
}

fn number(name: &str) -> Option<usize> {
    match name {
        "lr" => Some(30),
        _ => name.strip_prefix(['x', 'w', 'r'])?.parse().ok(),
    }
}
