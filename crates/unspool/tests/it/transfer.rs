//! Transfer of steps from a source to a sink: losses of the source, damage, and absent cores.
use std::ops::ControlFlow;

use unspool::convert::{TransferError, Transferred, transfer};
use unspool::model::{
    Coverage, Event, Gap, Instruction, Loss, Losses, SinkError, SourceError, Step, StepSink, StepSource,
};

/// Three instructions of core 1 and one of core 2, each followed by an unreadable line.
struct Source {
    is_damaged: bool,
    losses: Losses,
}

impl StepSource for Source {
    fn coverage(&self) -> Coverage {
        Coverage::default()
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        let mut step = Step::default();
        for (position, core) in [(1, 1), (4, 1), (5, 2), (6, 1)] {
            (step.position, step.core) = (position, core);
            step.event = Event::Instruction(Instruction { address: 4 * position, length: 4, ..Instruction::default() });
            if take(&step).is_break() {
                return Ok(());
            }
            self.losses.add(Loss::Unreadable, position + 1);
        }
        let error = SourceError { text: "line 7: broken".to_string(), is_damage: true, position: Some(7) };
        if self.is_damaged { Err(error) } else { Ok(()) }
    }

    fn losses(&self) -> Losses {
        self.losses.clone()
    }
}

#[derive(Default)]
struct Sink {
    positions: Vec<u64>,
    is_finished: bool,
    losses: Losses,
}

impl StepSink for Sink {
    fn push(&mut self, step: &Step) -> Result<(), SinkError> {
        assert!(!matches!(step.event, Event::Gap(Gap::Damaged)));
        self.positions.push(step.position);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.is_finished = true;
        Ok(())
    }

    fn losses(&self) -> &Losses {
        &self.losses
    }
}

fn run(is_damaged: bool, core: Option<u32>) -> (Result<Transferred, TransferError>, Sink) {
    let (source, mut sink) = (Source { is_damaged, losses: Losses::default() }, Sink::default());
    let done = transfer(Box::new(source), core, &mut sink, |_, _| ControlFlow::Continue(()));
    (done, sink)
}

#[test]
fn losses_of_the_source_are_returned() {
    for is_damaged in [false, true] {
        let (done, sink) = run(is_damaged, Some(1));
        let done = done.unwrap();
        assert_eq!((done.instructions, done.other_cores), (3, 1));
        let unreadable = done.not_in_steps.of(Loss::Unreadable);
        assert_eq!((unreadable.count, unreadable.first), (4, 2), "damaged: {is_damaged}");
        assert_eq!(done.damage.as_deref(), is_damaged.then_some("line 7: broken"));
        assert_eq!((sink.positions, sink.is_finished), (vec![1, 4, 6], !is_damaged));
    }
}

#[test]
fn absent_core_is_reported() {
    let (done, sink) = run(false, Some(9));
    assert_eq!(done.unwrap_err().to_string(), "there is no core 9; the trace has cores 0 to 2");
    assert!(sink.positions.is_empty() && !sink.is_finished);
}
