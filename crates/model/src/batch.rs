//! Many steps in a few arrays, so that they are cheap to send to another thread.
//!
//! step, step, step ─▶ **batch** ─▶ step, step, step

use crate::step::{Step, Touch, Write};
use crate::{Event, StepRef};

/// Steps in order.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    heads: Vec<Head>,
    registers: Vec<Write>,
    accesses: Vec<Touch>,
    bytes: Vec<(u8, u8)>,
    notes: String,
}

/// A step without its lists, and their lengths.
#[derive(Debug)]
struct Head {
    core: u32,
    position: u64,
    time: Option<u64>,
    event: Event,
    registers: usize,
    accesses: usize,
    bytes: usize,
    note: usize,
}

/// The position of a reader in a batch.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    head: usize,
    register: usize,
    access: usize,
    byte: usize,
    note: usize,
}

impl Batch {
    /// Empties the batch, and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.heads.clear();
        self.registers.clear();
        self.accesses.clear();
        self.bytes.clear();
        self.notes.clear();
    }

    #[inline]
    pub(crate) fn push(&mut self, step: &Step) {
        let &Step { core, position, time, event, .. } = step;
        let Step { registers, accesses, bytes, note, .. } = step;
        self.heads.push(Head {
            core,
            position,
            time,
            event,
            registers: registers.len(),
            accesses: accesses.len(),
            bytes: bytes.len(),
            note: note.len(),
        });
        // Most steps have no lists.
        if !registers.is_empty() {
            self.registers.extend_from_slice(registers);
        }
        if !accesses.is_empty() {
            self.accesses.extend_from_slice(accesses);
        }
        if !bytes.is_empty() {
            self.bytes.extend_from_slice(bytes);
        }
        if !note.is_empty() {
            self.notes.push_str(note);
        }
    }
}

impl Cursor {
    /// Takes the next step out of a batch. False: there are no more.
    #[inline]
    pub(crate) fn next(&mut self, batch: &Batch, step: &mut Step) -> bool {
        let Some(head) = batch.heads.get(self.head) else { return false };
        self.head += 1;
        step.clear();
        (step.core, step.position, step.time, step.event) = (head.core, head.position, head.time, head.event);
        step.registers.extend_from_slice(take_slice(&batch.registers, &mut self.register, head.registers));
        step.accesses.extend_from_slice(take_slice(&batch.accesses, &mut self.access, head.accesses));
        step.bytes.extend_from_slice(take_slice(&batch.bytes, &mut self.byte, head.bytes));
        if head.note > 0 {
            step.note.push_str(batch.notes.get(self.note..self.note + head.note).unwrap_or_default());
            self.note += head.note;
        }
        true
    }
}

impl Cursor {
    /// The next step of a batch, in place.
    #[inline]
    pub(crate) fn peek<'b>(&self, batch: &'b Batch) -> Option<StepRef<'b>> {
        let head = batch.heads.get(self.head)?;
        Some(StepRef {
            core: head.core,
            position: head.position,
            event: &head.event,
            registers: batch.registers.get(self.register..self.register + head.registers)?,
            accesses: batch.accesses.get(self.access..self.access + head.accesses)?,
            bytes: batch.bytes.get(self.byte..self.byte + head.bytes)?,
        })
    }

    /// Passes the next step of a batch.
    #[inline]
    pub(crate) fn pass(&mut self, batch: &Batch) {
        if let Some(head) = batch.heads.get(self.head) {
            self.head += 1;
            self.register += head.registers;
            self.access += head.accesses;
            self.byte += head.bytes;
            self.note += head.note;
        }
    }
}

/// The next `count` elements after those that were taken.
#[inline]
fn take_slice<'b, T>(all: &'b [T], taken: &mut usize, count: usize) -> &'b [T] {
    let start = std::mem::replace(taken, *taken + count);
    all.get(start..*taken).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, Exception};

    #[test]
    fn steps_are_read_as_written() {
        let mut note = Step { position: 3, ..Step::default() };
        note.set_note("päuse");
        let mut moved = Step { core: 1, position: 4, time: Some(9), ..Step::default() };
        moved.write_register("x1", 0, &[1, 2, 3, 4, 5, 6, 7, 8]);
        moved.write_register("v2", 64, &[9]);
        moved.access_known(Direction::Write, 0x1000, 2, [(1, 0xff), (0, 0)]);
        let raised = Step { position: 5, event: Event::Exception(Exception::default()), ..Step::default() };
        let mut touched = Step { position: 6, ..Step::default() };
        touched.access(Direction::Read, 0x2000, 16);
        let steps = [note, Step::default(), moved, raised, touched];
        let (mut batch, mut step) = (Batch::default(), Step::default());
        for _ in 0..2 {
            batch.clear();
            steps.iter().for_each(|step| batch.push(step));
            let (mut cursor, mut peeking) = (Cursor::default(), Cursor::default());
            for wanted in &steps {
                let found = peeking.peek(&batch).unwrap();
                assert_eq!((found.core, found.position, found.event), (wanted.core, wanted.position, &wanted.event));
                assert!(found.registers().eq(wanted.registers()) && found.accesses().eq(wanted.accesses()));
                peeking.pass(&batch);
                assert!(cursor.next(&batch, &mut step));
                assert_eq!(&step, wanted);
            }
            assert!(!cursor.next(&batch, &mut step) && peeking.peek(&batch).is_none());
        }
    }
}
