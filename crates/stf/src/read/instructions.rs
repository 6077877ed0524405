//! Iteration over the instructions of a reader.

use std::io::Read;
use std::ops::ControlFlow;

use super::Reader;
use super::error::ReadError;
use crate::lift::{Followed, Follower, Instruction};

impl<R: Read> Reader<R> {
    /// Emits instructions until `visit` breaks, the trace ends or the rest cannot be read. True: there is more. Records
    /// after the last opcode belong to no instruction: at the end, [`position`](Reader::position) is before them.
    #[inline]
    pub fn each_instruction(
        &mut self,
        follower: &mut Follower,
        visit: impl FnMut(&Instruction<'_>) -> ControlFlow<()>,
    ) -> Result<bool, ReadError> {
        self.continue_instructions(follower, false, visit)
    }

    /// The same for a follower that has followed everything before, and so knows the next address.
    #[inline]
    pub(super) fn continue_instructions(
        &mut self,
        follower: &mut Follower,
        is_sure: bool,
        mut visit: impl FnMut(&Instruction<'_>) -> ControlFlow<()>,
    ) -> Result<bool, ReadError> {
        if self.is_after_end {
            return self.check_end();
        }
        let before = follower.instructions;
        loop {
            let window = &self.window[self.start..self.end];
            let Followed { stop, end } = follower.scan(window, self.next, &mut self.layout, &mut visit);
            let (chunk, is_whole) = (self.count.chunk, self.is_last(stop.done));
            match (self.apply(stop)?, end) {
                (Some(_), Some(end)) => return self.end_at(end),
                (Some(more), None) => return Ok(more),
                (None, _) => {}
            }
            // The address is unknown if the follower has followed nothing yet, or not to the end of the chunk.
            let is_known = is_whole && (is_sure || follower.instructions > before);
            if let Some(next) = self.count.chunk.filter(|next| is_known && Some(*next) != chunk) {
                self.check_pc(next, follower.next_pc);
            }
        }
    }
}
