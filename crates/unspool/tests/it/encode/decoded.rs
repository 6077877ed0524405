//! Items that our decoder finds in a capture, in order.

use std::path::Path;

use unspool::coresight::{Security, Transactions};

use unspool::capture::Capture;
use unspool::flow::{Around, FlowItem, Instruction, InstructionSink, Item};
use unspool::{Program, Trace, Watch};

/// Decoded item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// Address and length of an instruction.
    Instruction(u64, u8),
    /// Consecutive instructions: start and end.
    Range(u64, u64),
    /// Q element: start, next address and number of instructions.
    Q {
        start: Option<u64>,
        next: Option<u64>,
        count: Option<u32>,
    },
    Time(u64),
    Cycles(u32),
    Event(u8),
    /// Level, whether it is Secure, virtual context identifier, context identifier.
    Context(u8, bool, Option<u32>, Option<u32>),
    /// Number and return address.
    Exception(u16, Option<u64>),
    /// Start of tracing.
    On,
    /// Error, finding or missing code.
    Problem,
}

#[derive(Default)]
struct Collector(Vec<Decoded>);

impl InstructionSink for Collector {
    fn instruction(&mut self, instruction: &Instruction, _: &Around) {
        self.0.push(Decoded::Instruction(instruction.address, instruction.length));
    }

    fn item(&mut self, item: FlowItem) {
        let decoded = match item.map(|item| item.value) {
            Ok(Item::Q { start, next, instructions }) => [Some(Decoded::Q { start, next, count: instructions }), None],
            Ok(Item::Timestamp { value, cycles }) => [Some(Decoded::Time(value)), cycles.map(Decoded::Cycles)],
            Ok(Item::CycleCount(cycles)) => [cycles.map(Decoded::Cycles), None],
            Ok(Item::Event { mask }) => [Some(Decoded::Event(mask)), None],
            Ok(Item::Context(context)) => {
                let is_secure = context.security == Security::Secure;
                [Some(Decoded::Context(context.el, is_secure, context.vmid, context.context_id)), None]
            }
            Ok(Item::Exception { number, return_address }) => {
                [Some(Decoded::Exception(number.value, return_address)), None]
            }
            Ok(Item::TraceOn) => [Some(Decoded::On), None],
            Ok(Item::NoCode { .. } | Item::Lost { .. } | Item::Finding(_)) | Err(_) => [Some(Decoded::Problem), None],
            Ok(_) => [None, None],
        };
        self.0.extend(decoded.into_iter().flatten());
    }
}

impl Watch for Collector {}

/// All items of the only trace of a capture.
pub(crate) fn decode_capture(directory: &Path) -> Vec<Decoded> {
    let capture = Capture::open(directory).unwrap();
    let traces = Trace::all(&capture);
    let (program, _) = Program::of(&capture, traces[0].source().core, &[]);
    let mut collector = Collector::default();
    traces[0].instructions(Transactions::Show, &program, &mut collector).unwrap();
    collector.0
}
