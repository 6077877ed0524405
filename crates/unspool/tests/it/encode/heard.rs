//! What our decoder hears in a capture, one thing after the other.

use std::path::Path;
use unspool::coresight::{Security, Transactions};

use unspool::capture::Capture;
use unspool::flow::{Around, FlowItem, Instruction, InstructionSink, Item};
use unspool::{Program, Trace, Watch};

/// One thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// An instruction: where it is, and how many bytes it has.
    Instruction(u64, u8),
    /// Instructions that follow one another: where they start and where they end.
    Range(u64, u64),
    /// So many instructions, their start and what is behind them.
    Q {
        start: Option<u64>,
        next: Option<u64>,
        count: Option<u32>,
    },
    Time(u64),
    Cycles(u32),
    Event(u8),
    /// Level, is it Secure, virtual context identifier, context identifier.
    Context(u8, bool, Option<u32>, Option<u32>),
    /// Its number, and the return address.
    Exception(u16, Option<u64>),
    /// Tracing starts.
    On,
    /// Something is not as it should be.
    Problem,
}

#[derive(Default)]
struct Ear(Vec<Heard>);

impl InstructionSink for Ear {
    fn instruction(&mut self, instruction: &Instruction, _: &Around) {
        self.0.push(Heard::Instruction(instruction.address, instruction.length));
    }

    fn item(&mut self, item: FlowItem) {
        let heard = match item.map(|item| item.value) {
            Ok(Item::Q { start, next, instructions }) => [Some(Heard::Q { start, next, count: instructions }), None],
            Ok(Item::Timestamp { value, cycles }) => [Some(Heard::Time(value)), cycles.map(Heard::Cycles)],
            Ok(Item::CycleCount(cycles)) => [cycles.map(Heard::Cycles), None],
            Ok(Item::Event { mask }) => [Some(Heard::Event(mask)), None],
            Ok(Item::Context(context)) => {
                let is_secure = context.security == Security::Secure;
                [Some(Heard::Context(context.el, is_secure, context.vmid, context.context_id)), None]
            }
            Ok(Item::Exception { number, return_address }) => [Some(Heard::Exception(number, return_address)), None],
            Ok(Item::TraceOn) => [Some(Heard::On), None],
            Ok(Item::NoCode { .. } | Item::Lost { .. } | Item::Finding(_)) | Err(_) => [Some(Heard::Problem), None],
            Ok(_) => [None, None],
        };
        self.0.extend(heard.into_iter().flatten());
    }
}

impl Watch for Ear {}

/// All that is heard in the only trace of a capture.
pub(crate) fn listen(directory: &Path) -> Vec<Heard> {
    let capture = Capture::open(directory).unwrap();
    let traces = Trace::all(&capture);
    let (program, _) = Program::of(&capture, traces[0].source().core, &[]);
    let mut ear = Ear::default();
    traces[0].instructions(Transactions::Show, &program, &mut ear).unwrap();
    ear.0
}
