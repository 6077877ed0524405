//! Where execution went, from a source that is read on a thread of its own.
//!
//! source ─▶ pieces: steps, passes, new blocks ─▶ **next piece** ─▶ who follows
//!
//! Pieces are used again, and only a few exist, so that memory does not grow with the trace. Who stops asking ends the
//! thread.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use crate::batch::{Batch, Cursor};
use crate::{Block, Flow, Follow, Losses, Pass, SourceError, Step, StepSource};

/// Instructions of a piece, about: to wake a thread takes as long as many of them do.
const PIECE: usize = 16 << 10;

/// Pieces that wait.
const WAITING: usize = 3;

/// Why a source has ended, and what of the trace was in no step.
type Ended = (Result<(), SourceError>, Losses);

/// A source that is followed, piece by piece.
#[derive(Debug)]
pub struct Ahead {
    pieces: Receiver<Piece>,
    used: Sender<Piece>,
    blocks: Vec<Block>,
    step: Step,
    worker: Option<JoinHandle<Ended>>,
    losses: Losses,
}

/// Some of what a source tells.
#[derive(Debug, Default)]
struct Piece {
    parts: Vec<Part>,
    steps: Batch,
    passes: Vec<Pass>,
    /// Those that are new.
    blocks: Vec<Block>,
    /// Steps, and the records of flows.
    length: usize,
}

#[derive(Debug)]
enum Part {
    /// So many steps.
    Steps(usize),
    Flow(Head),
}

/// A flow without what it owns, and how many passes that has.
#[derive(Debug)]
struct Head {
    core: u32,
    passes: usize,
    next: u64,
    place: u64,
    time: Option<u64>,
}

impl Ahead {
    /// Starts a thread for a source.
    pub fn new(mut source: impl StepSource + Send + 'static) -> std::io::Result<Self> {
        let (give, pieces) = sync_channel(WAITING);
        let (used, reuse) = channel();
        let work = move || {
            let mut filler = Filler { give, reuse, piece: Piece::default(), blocks: 0 };
            let ended = source.follow(&mut filler);
            // If nobody wants the rest, it is not given.
            let _ = filler.flush();
            (ended, source.losses())
        };
        let worker = Some(thread::Builder::new().name("follow".into()).spawn(work)?);
        Ok(Self { pieces, used, blocks: Vec::new(), step: Step::default(), worker, losses: Losses::default() })
    }

    /// What of the trace was in no step, once there are no more.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Hands out the next piece, or what of it is wanted. False: there are no more, or no more are wanted.
    pub fn next_piece(&mut self, follower: &mut dyn Follow) -> Result<bool, SourceError> {
        let Ok(mut piece) = self.pieces.recv() else { return self.end() };
        self.blocks.append(&mut piece.blocks);
        let is_over = piece.hand_out(&self.blocks, &mut self.step, follower).is_break();
        piece.clear();
        // A source that has ended wants no pieces back.
        let _ = self.used.send(piece);
        Ok(!is_over)
    }

    fn end(&mut self) -> Result<bool, SourceError> {
        let Some(worker) = self.worker.take() else { return Ok(false) };
        let Ok((ended, losses)) = worker.join() else {
            return Err(SourceError { text: "the thread that reads has failed".into(), is_damage: false });
        };
        self.losses = losses;
        ended.map(|()| false)
    }
}

impl Piece {
    /// Empties it; the memory is used again.
    fn clear(&mut self) {
        self.parts.clear();
        self.steps.clear();
        self.passes.clear();
        self.blocks.clear();
        self.length = 0;
    }

    fn hand_out(&self, blocks: &[Block], step: &mut Step, follower: &mut dyn Follow) -> ControlFlow<()> {
        let (mut cursor, mut passes) = (Cursor::default(), &self.passes[..]);
        for part in &self.parts {
            match part {
                Part::Steps(count) => {
                    for _ in 0..*count {
                        cursor.next(&self.steps, step);
                        follower.step(step)?;
                    }
                }
                Part::Flow(Head { core, passes: count, next, place, time }) => {
                    let (mine, others) = passes.split_at(*count);
                    passes = others;
                    let (core, next, place, time) = (*core, *next, *place, *time);
                    follower.flow(&Flow { core, blocks, passes: mine, next, place, time })?;
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// Fills pieces.
struct Filler {
    give: SyncSender<Piece>,
    reuse: Receiver<Piece>,
    piece: Piece,
    /// Blocks that were given.
    blocks: usize,
}

impl Filler {
    fn filled(&mut self, length: usize) -> ControlFlow<()> {
        self.piece.length += length;
        if self.piece.length < PIECE { ControlFlow::Continue(()) } else { self.flush() }
    }

    fn flush(&mut self) -> ControlFlow<()> {
        if self.piece.parts.is_empty() {
            return ControlFlow::Continue(());
        }
        let full = std::mem::replace(&mut self.piece, self.reuse.try_recv().unwrap_or_default());
        if self.give.send(full).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

impl Follow for Filler {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.piece.steps.push(step);
        match self.piece.parts.last_mut() {
            Some(Part::Steps(count)) => *count += 1,
            _ => self.piece.parts.push(Part::Steps(1)),
        }
        self.filled(1)
    }

    fn flow(&mut self, flow: &Flow<'_>) -> ControlFlow<()> {
        let &Flow { core, blocks, passes, next, place, time } = flow;
        self.piece.blocks.extend_from_slice(&blocks[self.blocks..]);
        self.blocks = blocks.len();
        self.piece.passes.extend_from_slice(passes);
        self.piece.parts.push(Part::Flow(Head { core, passes: passes.len(), next, place, time }));
        self.filled(flow.instructions())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Coverage, Event, Instruction, Isa};

    /// Steps and flows in turns, and an error at the end.
    struct Laps(usize);

    impl StepSource for Laps {
        fn coverage(&self) -> Coverage {
            Coverage::default()
        }

        fn each(&mut self, _: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
            Ok(())
        }

        fn follow(&mut self, follower: &mut dyn Follow) -> Result<(), SourceError> {
            let mut blocks = Vec::new();
            for lap in 0..self.0 {
                let event = Event::Instruction(Instruction { address: lap as u64, ..Instruction::default() });
                let step = Step { core: 1, place: 9, event, ..Step::default() };
                // Every tenth lap has a new block.
                if lap % 10 == 0 {
                    let start = 4 * blocks.len() as u64;
                    blocks.push(Block { start, isa: Isa::A64, opcodes: vec![lap as u32; 3], ends_in_branch: false });
                }
                let number = blocks.len() as u32 - 1;
                let passes = [Pass::new(0, false), Pass::new(number, true)];
                let flow =
                    Flow { core: 1, blocks: &blocks, passes: &passes, next: 7, place: 10, time: Some(lap as u64) };
                if follower.step(&step).is_break() || follower.flow(&flow).is_break() {
                    return Ok(());
                }
            }
            Err(SourceError { text: "that is all".into(), is_damage: true })
        }
    }

    /// Writes down what it is told.
    #[derive(Default)]
    struct Written(Vec<String>, usize);

    impl Follow for Written {
        fn step(&mut self, step: &Step) -> ControlFlow<()> {
            self.0.push(format!("{step:?}"));
            if self.0.len() == self.1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }

        fn flow(&mut self, flow: &Flow<'_>) -> ControlFlow<()> {
            let blocks: Vec<&Block> = flow.passes.iter().map(|pass| &flow.blocks[pass.number()]).collect();
            let Flow { core, passes, next, place, time, .. } = flow;
            self.0.push(format!("{core} {blocks:?} {passes:?} {next} {place} {time:?}"));
            ControlFlow::Continue(())
        }
    }

    #[test]
    fn pieces_say_what_the_source_says() {
        for laps in [0, 1, 20_000] {
            let mut expected = Written::default();
            let expected_end = Laps(laps).follow(&mut expected).map_err(|error| error.to_string());
            let (mut ahead, mut found, mut pieces) = (Ahead::new(Laps(laps)).unwrap(), Written::default(), 0);
            let end = loop {
                match ahead.next_piece(&mut found) {
                    Ok(true) => pieces += 1,
                    Ok(false) => break Ok(()),
                    Err(error) => break Err(error.to_string()),
                }
            };
            assert_eq!((found.0, end), (expected.0, expected_end));
            assert_eq!(pieces, (7 * laps).div_ceil(PIECE), "{laps}");
        }
    }

    #[test]
    fn who_has_enough_gets_no_more() {
        let (mut ahead, mut found) = (Ahead::new(Laps(1_000_000)).unwrap(), Written(Vec::new(), 5));
        assert!(!ahead.next_piece(&mut found).unwrap());
        assert_eq!(found.0.len(), 5);
    }
}
