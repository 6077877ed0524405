//! Condition keys: packets about conditional instructions to elements.
//!
//! conditional packets ─▶ **one element per instruction or result, with its key**
//!
//! Two running keys count modulo the number of normal keys (TRCIDR12 less TRCIDR13): that of the last instruction and that of
//! the last result. A key above is special and only counts. Keys are unknown until a packet has one, since the state at a
//! trace info is not documented in public. Does not know the code: the flow finds the instructions.
//! Specification: Arm IHI 0064, conditional instruction trace.

use super::Config;
use super::element::{ConditionOutcome, OwnElement};
use super::packet::{ConditionalInstruction, ConditionalResult, KeyResult};

/// Greatest number of instructions that a result with its own key implies.
const MAX_IMPLIED: u32 = 64;

/// The state of the keys, and the position in the block that is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConditionKeys {
    /// Number of normal keys, if known.
    modulus: Option<u32>,
    /// Results are flags rather than passed or failed.
    has_flags: bool,
    /// The last key of an instruction.
    instruction: Option<u32>,
    /// The last key of a result.
    result: Option<u32>,
    /// Number of conditional instructions since the last P0 element, if known.
    number: Option<u32>,
    /// The block starts at the target of a branch or at a handler, so that it cannot start inside an IT block.
    follows_branch: bool,
}

impl ConditionKeys {
    pub(super) fn new(config: &Config) -> Self {
        let mut keys = Self {
            modulus: config.condition_keys,
            has_flags: config.condition_flags,
            instruction: None,
            result: None,
            number: Some(0),
            follows_branch: false,
        };
        keys.forget();
        keys
    }

    /// A block starts.
    pub(super) fn start_block(&mut self, follows_branch: bool) {
        (self.number, self.follows_branch) = (Some(0), follows_branch);
    }

    /// Forgets the keys, and where the block started.
    pub(super) fn forget(&mut self) {
        // With a single key there is nothing to know.
        let only = self.modulus.filter(|&modulus| modulus == 1).map(|_| 0);
        (self.instruction, self.result) = (only, only);
        self.start_block(false);
    }

    pub(super) fn instruction(&mut self, packet: ConditionalInstruction, emit: &mut impl FnMut(OwnElement)) {
        match packet {
            ConditionalInstruction::Format1 { key } => {
                self.instruction = self.after_explicit(self.instruction, key);
                self.emit_instruction(Some(key), emit);
            }
            ConditionalInstruction::Format2 { step } => {
                if step != 1 {
                    self.instruction = self.ahead(self.instruction, 1);
                }
                self.emit_instruction(self.instruction, emit);
                if step == 2 {
                    self.emit_instruction(self.instruction, emit);
                }
            }
            ConditionalInstruction::Format3 { count, last } => {
                for _ in 0..count {
                    self.instruction = self.ahead(self.instruction, 1);
                    self.emit_instruction(self.instruction, emit);
                }
                if last {
                    self.emit_instruction(self.instruction, emit);
                }
            }
        }
    }

    pub(super) fn result(&mut self, packet: ConditionalResult, emit: &mut impl FnMut(OwnElement)) {
        match packet {
            ConditionalResult::Format1 { first, second } => {
                for KeyResult { key, result, ci } in [Some(first), second].into_iter().flatten() {
                    self.result = self.after_explicit(self.result, key);
                    if ci {
                        self.imply_instructions(MAX_IMPLIED, emit);
                    }
                    let outcome = self.explicit_outcome(result);
                    emit(OwnElement::ConditionalResult { key: Some(key), outcome });
                }
            }
            ConditionalResult::Format2 { skip, token } => {
                let count = 1 + u32::from(skip);
                self.result = self.ahead(self.result, count);
                self.imply_instructions(count, emit);
                emit(OwnElement::ConditionalResult { key: self.result, outcome: self.short_outcome(token) });
            }
            ConditionalResult::Format3 { tokens } => {
                // Public facts do not say which keys these results have, nor which instructions they imply.
                let follows_branch = self.follows_branch;
                self.forget();
                (self.number, self.follows_branch) = (None, follows_branch);
                let key = self.result;
                self.tokens(tokens, &mut |outcome| emit(OwnElement::ConditionalResult { key, outcome }));
            }
            ConditionalResult::Format4 { token } => {
                self.result = self.modulus.and_then(|modulus| self.ahead(self.result, modulus - 1));
                emit(OwnElement::ConditionalResult { key: self.result, outcome: self.short_outcome(token) });
            }
        }
    }

    fn emit_instruction(&mut self, key: Option<u32>, emit: &mut impl FnMut(OwnElement)) {
        let (number, follows_branch) = (self.number, self.follows_branch);
        self.number = number.and_then(|number| number.checked_add(1));
        emit(OwnElement::ConditionalInstruction { key, number, follows_branch });
    }

    /// Instructions up to the key of the result, which have no packets of their own: at most this many. With a single key,
    /// or with more instructions than that, their number is not known.
    fn imply_instructions(&mut self, most: u32, emit: &mut impl FnMut(OwnElement)) {
        let Some(distance) = self.distance().filter(|&distance| distance <= most && self.modulus != Some(1)) else {
            self.number = None;
            return;
        };
        for _ in 0..distance {
            self.instruction = self.ahead(self.instruction, 1);
            self.emit_instruction(self.instruction, emit);
        }
    }

    /// Number of keys from that of the last instruction to that of the last result.
    fn distance(&self) -> Option<u32> {
        match (self.instruction?, self.result?) {
            (from, to) if to >= from => Some(to - from),
            (from, to) => Some(self.modulus?.saturating_sub(from).saturating_add(to)),
        }
    }

    /// The running key after a packet with this key.
    fn after_explicit(&self, running: Option<u32>, key: u32) -> Option<u32> {
        let modulus = self.modulus?;
        if key < modulus { Some(key) } else { self.ahead(running, 1) }
    }

    fn ahead(&self, key: Option<u32>, count: u32) -> Option<u32> {
        let modulus = u64::from(self.modulus?);
        let next = (u64::from(key?) + u64::from(count)) % modulus;
        u32::try_from(next).ok()
    }

    fn explicit_outcome(&self, result: u8) -> ConditionOutcome {
        match (self.has_flags, result) {
            (true, flags) => ConditionOutcome::Flags(flags & 0xf),
            (false, 0) => ConditionOutcome::Failed,
            (false, _) => ConditionOutcome::Passed,
        }
    }

    /// A token of two bits.
    fn short_outcome(&self, token: u8) -> ConditionOutcome {
        match (self.has_flags, token) {
            (true, 0) => ConditionOutcome::Flags(0b0010),
            (true, 1) => ConditionOutcome::Flags(0b1000),
            (true, 2) => ConditionOutcome::Flags(0b0110),
            (false, 0) => ConditionOutcome::Failed,
            (false, 1) => ConditionOutcome::Passed,
            _ => ConditionOutcome::Unknown,
        }
    }

    /// The tokens of twelve bits, the first in the lowest, up to one that stands for none.
    fn tokens(&self, tokens: u16, take: &mut impl FnMut(ConditionOutcome)) {
        let mut at = 0;
        while at < 12 {
            let left = tokens >> at;
            at += 2;
            match (left & 0b11, self.has_flags) {
                (token @ 0..=2, _) => take(self.short_outcome(token as u8)),
                (_, false) => return,
                (_, true) => {
                    at += 2;
                    take(match left >> 2 & 0b11 {
                        0 => ConditionOutcome::Flags(0b1010),
                        1 => ConditionOutcome::Flags(0),
                        2 => ConditionOutcome::Flags(0b0100),
                        _ => return,
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    use super::*;
    use crate::etm4::tests::etm4;

    fn keys(count: Option<u32>, has_flags: bool) -> ConditionKeys {
        ConditionKeys::new(&Config { condition_keys: count, condition_flags: has_flags, ..etm4() })
    }

    enum P {
        C(ConditionalInstruction),
        R(ConditionalResult),
    }
    use ConditionalInstruction as C;
    use ConditionalResult as R;

    fn texts(mut keys: ConditionKeys, packets: &[P]) -> Vec<String> {
        let mut found = Vec::new();
        let mut emit = |element: OwnElement| found.push(element.to_string());
        for packet in packets {
            match packet {
                P::C(packet) => keys.instruction(*packet, &mut emit),
                P::R(packet) => keys.result(*packet, &mut emit),
            }
        }
        found
    }

    fn one(key: u32, result: u8, ci: bool) -> R {
        R::Format1 { first: KeyResult { key, result, ci }, second: None }
    }

    /// Arm IHI 0064 and public decoders: the rules are in the names.
    #[test]
    fn running_keys() {
        let start = || P::C(C::Format1 { key: 5 });
        let rows: &[(&str, ConditionKeys, &[P], &[&str])] = &[
            ("format 1 sets the key", keys(Some(8), false), &[start()], &["conditional instruction, key 5"]),
            (
                "format 2: next, same, two of the next",
                keys(Some(8), false),
                &[start(), P::C(C::Format2 { step: 0 }), P::C(C::Format2 { step: 1 }), P::C(C::Format2 { step: 2 })],
                &[
                    "conditional instruction, key 5",
                    "conditional instruction, key 6",
                    "conditional instruction, key 6",
                    "conditional instruction, key 7",
                    "conditional instruction, key 7",
                ],
            ),
            (
                "format 3: counted modulo the keys, the last once more",
                keys(Some(7), false),
                &[start(), P::C(C::Format3 { count: 3, last: true })],
                &[
                    "conditional instruction, key 5",
                    "conditional instruction, key 6",
                    "conditional instruction, key 0",
                    "conditional instruction, key 1",
                    "conditional instruction, key 1",
                ],
            ),
            (
                "a special key counts as one",
                keys(Some(8), false),
                &[start(), P::C(C::Format1 { key: 9 }), P::C(C::Format2 { step: 1 })],
                &["conditional instruction, key 5", "conditional instruction, key 9", "conditional instruction, key 6"],
            ),
            (
                "keys are unknown before a packet has one",
                keys(Some(8), false),
                &[P::C(C::Format2 { step: 0 }), P::R(R::Format4 { token: 1 })],
                &["conditional instruction, key unknown", "conditional result, key unknown: passed"],
            ),
            (
                "a single key is always known",
                keys(Some(1), false),
                &[P::C(C::Format2 { step: 0 }), P::R(R::Format2 { skip: false, token: 0 })],
                &["conditional instruction, key 0", "conditional result, key 0: failed"],
            ),
            (
                "a result implies the instructions up to its key",
                keys(Some(8), false),
                &[start(), P::R(one(7, 1, true))],
                &[
                    "conditional instruction, key 5",
                    "conditional instruction, key 6",
                    "conditional instruction, key 7",
                    "conditional result, key 7: passed",
                ],
            ),
            (
                "format 2 with a skipped key, then format 4: n+2, then n+1",
                keys(Some(8), false),
                &[
                    start(),
                    P::R(one(5, 0, false)),
                    P::R(R::Format2 { skip: true, token: 1 }),
                    P::R(R::Format4 { token: 2 }),
                ],
                &[
                    "conditional instruction, key 5",
                    "conditional result, key 5: failed",
                    "conditional instruction, key 6",
                    "conditional instruction, key 7",
                    "conditional result, key 7: passed",
                    "conditional result, key 6: unknown",
                ],
            ),
            (
                "without the registers, keys cannot be counted",
                keys(None, false),
                &[start(), P::C(C::Format2 { step: 0 })],
                &["conditional instruction, key 5", "conditional instruction, key unknown"],
            ),
        ];
        for (name, keys, packets, expected) in rows {
            assert_eq!(texts(*keys, packets), *expected, "{name}");
        }
    }

    #[test]
    fn tokens_are_outcomes_or_flags() {
        let rows: &[(bool, u16, &[&str])] = &[
            (false, 0xff1, &["passed", "failed"]),
            (false, 0xaaa, &["unknown"; 6]),
            (true, 0xff4, &["flags C", "flags N"]),
            (true, 0x732, &["flags Z C", "flags C", "flags N C", "no flags"]),
            (true, 0x0fb, &["flags Z"]),
        ];
        for (has_flags, tokens, expected) in rows {
            let found = texts(keys(Some(1), *has_flags), &[P::R(R::Format3 { tokens: *tokens })]);
            let expected: Vec<String> =
                expected.iter().map(|text| alloc::format!("conditional result, key 0: {text}")).collect();
            assert_eq!(found, expected, "{tokens:#x}");
        }
    }

    #[test]
    fn results_of_format_3_make_the_number_of_instructions_unknown() {
        let mut keys = keys(Some(8), false);
        keys.result(R::Format3 { tokens: 0xff1 }, &mut |_| {});
        let mut numbers = Vec::new();
        let mut emit = |element| {
            if let OwnElement::ConditionalInstruction { number, .. } = element {
                numbers.push(number);
            }
        };
        keys.instruction(C::Format2 { step: 0 }, &mut emit);
        keys.start_block(true);
        keys.instruction(C::Format2 { step: 2 }, &mut emit);
        assert_eq!(numbers, [None, Some(0), Some(1)]);
    }
}
