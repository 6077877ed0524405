//! Times of instructions in the closed loop, and their check after decoding.
//!
//! The time of an instruction encodes its number. The trace unit traces times at the start of blocks, so a time that
//! changes with a decoded instruction is exactly the time of this instruction, and after an overflow it shows how many were
//! lost. Where every block requests a timestamp, the time of an instruction is that of the first of its block or of the
//! block before: a block of one instruction is too short for another timestamp.

/// Time of the first instruction, and between two instructions.
const START: u64 = 1_000_000;
const TICKS: u64 = 3;

/// Time of the instruction with this number.
pub(super) fn time_of(index: u64) -> u64 {
    START + index * TICKS
}

/// Number of the instruction with this time; `None`: there is none.
pub(super) fn index_of(time: u64) -> Option<u64> {
    time.checked_sub(START).filter(|ticks| ticks.is_multiple_of(TICKS)).map(|ticks| ticks / TICKS)
}

/// Checks times, instruction by instruction.
pub(super) struct Times {
    of_all_blocks: bool,
    last: Option<u64>,
    /// Start times of this block and the one before.
    blocks: [u64; 2],
}

impl Times {
    pub(super) fn new(of_all_blocks: bool) -> Self {
        Self { of_all_blocks, last: None, blocks: [0; 2] }
    }

    /// Compares the decoded time of an instruction with its own. True: the decoded time is a new one.
    pub(super) fn check(&mut self, found: Option<u64>, time: u64, starts_block: bool) -> Result<bool, String> {
        if starts_block {
            self.blocks = [time, self.blocks[0]];
        }
        let is_new = found != self.last;
        if found.is_none() || (is_new && found != Some(time)) {
            return Err(format!("has the time {found:?}, not {time}"));
        }
        self.last = found;
        if self.of_all_blocks && !self.blocks.map(Some).contains(&found) {
            return Err(format!("has the time {found:?}, but its block starts at {}", self.blocks[0]));
        }
        Ok(is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_times_are_found() {
        // Instructions 0 and 1 are a block, 2 is one, 3 and 4 are one.
        let starts = [true, false, true, true, false];
        let rows: &[(&str, bool, [Option<u64>; 5], bool)] = &[
            ("each block", true, [Some(0), Some(0), Some(2), Some(3), Some(3)], true),
            ("none after a single instruction", true, [Some(0), Some(0), Some(2), Some(2), Some(2)], true),
            ("two blocks late", true, [Some(0), Some(0), Some(0), Some(0), Some(0)], false),
            ("now and then", false, [Some(0), Some(0), Some(0), Some(3), Some(3)], true),
            ("no time", false, [Some(0), Some(0), None, Some(3), Some(3)], false),
            ("of another instruction", false, [Some(0), Some(0), Some(1), Some(1), Some(1)], false),
        ];
        for (name, of_all_blocks, found, expected) in rows {
            let mut times = Times::new(*of_all_blocks);
            let mut found = (0..).zip(starts).zip(found);
            let is_right =
                found.all(|((index, starts), found)| times.check(found.map(time_of), time_of(index), starts).is_ok());
            assert_eq!(is_right, *expected, "{name}");
        }
    }
}
