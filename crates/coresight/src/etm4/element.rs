//! Elements that only ETMv4 has: conditional instructions, and those that pair instruction trace with data trace. All others are in
//! [`Element`](crate::Element).

/// An element that no other protocol has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnElement {
    /// A data synchronization marker with a number.
    NumberedDataSync(u8),
    /// A data synchronization marker without a number; the instruction stream has a value with it.
    UnnumberedDataSync(Option<u8>),
    /// A conditional instruction other than a branch was executed; whether its condition held is in its result.
    ConditionalInstruction {
        /// Its key, if known.
        key: Option<u32>,
        /// Its number among the conditional instructions since the last P0 element, if known.
        number: Option<u32>,
        /// The last P0 element led to the target of a branch or to a handler: no IT block started before.
        follows_branch: bool,
    },
    /// Results of conditional instructions before this point do not follow.
    ConditionalFlush,
    /// The result of all conditional instructions with a key that have none yet.
    ConditionalResult {
        /// The key, if known.
        key: Option<u32>,
        /// The result.
        outcome: ConditionOutcome,
    },
    /// Data transfers were not traced (data stream).
    Suppression,
    /// Bytes of a data stream whose layout is not known.
    Undecoded {
        /// Number of bytes.
        bytes: u64,
    },
}

/// The result of a conditional instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionOutcome {
    /// The condition failed: the instruction had no effect.
    Failed,
    /// The condition held.
    Passed,
    /// Not known.
    Unknown,
    /// The flags that the condition depends on: N, Z, C and V in bits 3 to 0.
    Flags(u8),
}

impl ConditionOutcome {
    /// Did this condition hold, in the encoding of A32? `None`: not known.
    pub fn passes(self, condition: u8) -> Option<bool> {
        match self {
            ConditionOutcome::Failed => Some(false),
            ConditionOutcome::Passed => Some(true),
            ConditionOutcome::Unknown => None,
            ConditionOutcome::Flags(flags) => Some(holds(condition, flags)),
        }
    }
}

/// Does a condition hold with these flags?
fn holds(condition: u8, flags: u8) -> bool {
    let [n, z, c, v] = [3, 2, 1, 0].map(|bit| flags >> bit & 1 == 1);
    let base = match condition >> 1 & 0b111 {
        0 => z,
        1 => c,
        2 => n,
        3 => v,
        4 => c && !z,
        5 => n == v,
        6 => n == v && !z,
        _ => return true,
    };
    base != (condition & 1 == 1)
}

impl OwnElement {
    /// The name of the element's kind that the command line and JSON use.
    pub fn name(&self) -> &'static str {
        match self {
            OwnElement::NumberedDataSync(_) => "numbered_data_sync",
            OwnElement::UnnumberedDataSync(_) => "unnumbered_data_sync",
            OwnElement::ConditionalInstruction { .. } => "conditional_instruction",
            OwnElement::ConditionalFlush => "conditional_flush",
            OwnElement::ConditionalResult { .. } => "conditional_result",
            OwnElement::Suppression => "suppression",
            OwnElement::Undecoded { .. } => "undecoded",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: condition, flags that satisfy it, flags that do not.
    #[test]
    fn conditions_depend_on_flags() {
        let rows: &[(&str, u8, u8, u8)] = &[
            ("EQ", 0, 0b0100, 0b1011),
            ("NE", 1, 0b1011, 0b0100),
            ("CS", 2, 0b0010, 0b1101),
            ("MI", 4, 0b1000, 0b0111),
            ("VS", 6, 0b0001, 0b1110),
            ("HI", 8, 0b0010, 0b0110),
            ("LS", 9, 0b0110, 0b0010),
            ("GE", 10, 0b1001, 0b1000),
            ("LT", 11, 0b1000, 0b1001),
            ("GT", 12, 0b0000, 0b0100),
            ("LE", 13, 0b0100, 0b1001),
        ];
        for &(name, condition, holds, fails) in rows {
            let passes = |flags| ConditionOutcome::Flags(flags).passes(condition);
            assert_eq!((passes(holds), passes(fails)), (Some(true), Some(false)), "{name}");
        }
        assert_eq!(ConditionOutcome::Unknown.passes(0), None);
        assert_eq!(ConditionOutcome::Failed.passes(14), Some(false));
    }
}
