//! Expansion of runs into instructions.
//!
//! runs of ranges, items ─▶ **instructions**, items
//!
//! [`Instructions`] expands ranges and does not disassemble. The target of an indirect branch is in no
//! opcode: it is where execution continues. So a taken indirect branch waits for what follows it, and so do the items
//! between them.

use crate::between::Between;
use crate::code::within;
use crate::flat::{Flat, FlatRun};
use crate::instruction::{Around, Instruction, InstructionSink, Outcome};
use crate::item::{FlowItem, FlowSink, Range, Run};

/// Expands ranges for an [`InstructionSink`]. A [`FlowSink`] itself, it follows a [`Walker`](crate::Walker) or a
/// [`FlowDecoder`](crate::FlowDecoder). The item that ends the trace also ends all waiting.
#[derive(Debug)]
pub struct Instructions<S> {
    sink: S,
    around: Around,
    waiting: Waiting,
    flat: Flat,
}

/// An indirect branch that waits for its target.
#[derive(Debug, Default)]
struct Waiting {
    branch: Option<Instruction>,
    /// Items after it.
    after: Between,
}

impl Waiting {
    /// Emits the branch that waits, and then the items after it.
    #[inline]
    fn release(&mut self, target: Option<u64>, sink: &mut impl InstructionSink, around: &mut Around) {
        let Some(mut instruction) = self.branch.take() else { return };
        instruction.branch = Some(Outcome { taken: true, target });
        sink.instruction(&instruction, around);
        for item in self.after.drain() {
            around.update(&Ok(item));
            sink.item(Ok(item));
        }
    }
}

impl<S: InstructionSink> Instructions<S> {
    /// Expands runs for this sink.
    pub fn new(sink: S) -> Self {
        Self { sink, around: Around::default(), waiting: Waiting::default(), flat: Flat::default() }
    }

    /// The sink of the instructions.
    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// The state around the next instruction.
    pub fn around(&self) -> &Around {
        &self.around
    }

    /// Continues with this state around the next instruction.
    pub fn set_around(&mut self, around: Around) {
        self.around = around;
    }

    /// Emits what waits for the target of an indirect branch, as a run that starts at `next` does.
    pub fn settle(&mut self, next: Option<u64>) {
        self.waiting.release(next, &mut self.sink, &mut self.around);
    }

    /// Returns the sink, after what waits for the target of an indirect branch: the target stays unknown.
    pub fn into_sink(mut self) -> S {
        self.waiting.release(None, &mut self.sink, &mut self.around);
        self.sink
    }

    /// A run that is not in the cache of flat runs.
    #[inline(never)]
    fn ranges(&mut self, run: &Run<'_>) {
        for range in run.ranges() {
            self.waiting.release(Some(range.start()), &mut self.sink, &mut self.around);
            self.range(&range, run.offset());
        }
    }

    fn range(&mut self, range: &Range<'_>, offset: u64) {
        let isa = range.isa();
        let Some((&last, before)) = range.opcodes().split_last() else { return };
        let mut address = range.start();
        for &opcode in before {
            let length = isa.opcode_length(opcode);
            let instruction = Instruction { address, opcode, isa, length, ends_range: false, branch: None, offset };
            self.sink.instruction(&instruction, &self.around);
            address = within(isa, address.wrapping_add(u64::from(length)));
        }
        let length = isa.opcode_length(last);
        self.last(Instruction { address, opcode: last, isa, length, ends_range: true, branch: None, offset }, range);
    }

    /// The last instruction of a range, which alone may branch.
    fn last(&mut self, mut instruction: Instruction, range: &Range<'_>) {
        let (facts, taken) = (range.last(), range.taken());
        if range.has_outcome() {
            let target = facts.target.filter(|_| taken).map(|target| target.address);
            instruction.branch = Some(Outcome { taken, target });
        }
        if facts.flow.is_indirect() && taken {
            self.waiting.branch = Some(instruction);
        } else {
            self.sink.instruction(&instruction, &self.around);
        }
    }
}

impl<S: InstructionSink> FlowSink for Instructions<S> {
    #[inline]
    fn run(&mut self, run: Run<'_>) {
        let Self { sink, around, waiting, flat } = self;
        let (Some(key), Some(entries)) = (run.key(), flat.get(&run)) else { return self.ranges(&run) };
        let [before @ .., last, after] = entries else { return };
        let first = before.first().unwrap_or(last);
        waiting.release(Some(first.address()), sink, around);
        sink.instructions(&FlatRun::before_waiting(&run, key, entries, last.waits()), around);
        if last.waits() {
            waiting.branch = Some(last.instruction(after, run.offset()));
        }
    }

    fn item(&mut self, item: FlowItem) {
        let Self { sink, around, waiting, .. } = self;
        if waiting.branch.is_some() {
            match waiting.after.hold(&item) {
                Ok(()) => return,
                Err(target) => waiting.release(target, sink, around),
            }
        }
        around.update(&item);
        sink.item(item);
    }
}

#[cfg(test)]
mod tests {
    use unspool_coresight::exception::ExceptionNumber;
    use unspool_coresight::{
        Atoms, Broken, Context, Element, ElementError, FlowRules, Located, Malformed, Security, SubIsa, Target,
    };

    use super::*;
    use crate::{Callback, Item, Space, Walker};

    /// A64 at 0x1000.
    const A64: [u32; 6] = [
        0xd503_201f, // 0x1000 nop
        0xb400_0060, // 0x1004 cbz x0, 0x1010
        0xd61f_0020, // 0x1008 br x1
        0xd503_3fdf, // 0x100c isb
        0xd503_201f, // 0x1010 nop
        0xd69f_03e0, // 0x1014 eret
    ];
    /// T32 at 0x2000.
    const T32: [u16; 5] = [
        0xbf00, // 0x2000 nop
        0xf3af, 0x8000, // 0x2002 nop.w
        0xe7fb, // 0x2006 b 0x2000
        0x4770, // 0x2008 bx lr
    ];

    fn read(address: u64, _: Space, buffer: &mut [u8]) -> usize {
        let a64: Vec<u8> = A64.iter().flat_map(|word| word.to_le_bytes()).collect();
        let t32: Vec<u8> = T32.iter().flat_map(|half| half.to_le_bytes()).collect();
        let (base, bytes) = if address < 0x2000 { (0x1000, a64) } else { (0x2000, t32) };
        let rest = address.checked_sub(base).and_then(|offset| bytes.get(offset as usize..)).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        length
    }

    /// One line per instruction or item.
    #[derive(Default)]
    struct Lines {
        lines: Vec<String>,
        ranges: usize,
    }

    impl InstructionSink for Lines {
        fn instruction(&mut self, instruction: &Instruction, around: &Around) {
            let Instruction { address, opcode, length, branch, offset, .. } = instruction;
            self.ranges += usize::from(instruction.ends_range);
            let outcome = match branch {
                None => String::new(),
                Some(Outcome { taken: true, target: Some(target) }) => format!(" -> {target:x}"),
                Some(Outcome { taken, .. }) => format!(" {}", if *taken { "E" } else { "N" }),
            };
            let el = around.context.map_or("?".into(), |context| context.el.to_string());
            let time = around.timestamp.map_or(String::new(), |time| format!(" t{time}"));
            let cycles = around.cycles.map_or(String::new(), |cycles| format!(" c{cycles}"));
            self.lines.push(format!("@{offset} EL{el}{time}{cycles} {address:x} {opcode:x}/{length}{outcome}"));
        }

        fn item(&mut self, item: FlowItem) {
            let text = item.map_or_else(|error| error.to_string(), |item| format!("{:?}", item.value));
            self.lines.push(text.split([' ', '(']).next().unwrap_or_default().to_string());
        }
    }

    fn context(el: u8, aarch64: bool) -> Element {
        Element::Context(Context { el, aarch64, security: Security::Secure, vmid: None, context_id: None })
    }

    fn at(address: u64) -> Element {
        Element::TargetAddress(Target { address, isa: if address < 0x2000 { SubIsa::Is0 } else { SubIsa::Is1 } })
    }

    fn atoms(text: &str) -> Element {
        let bits = text.bytes().rev().fold(0, |bits, atom| bits << 1 | u32::from(atom == b'E'));
        Element::Atoms(Atoms::new(bits, text.len() as u8))
    }

    fn time(value: u64) -> Element {
        Element::Timestamp { value, cycles: None }
    }

    fn lines(elements: &[Result<Element, Broken>]) -> Lines {
        let rules = FlowRules { return_stack: true, silent_exception_returns: true, ..FlowRules::default() };
        let mut walker = Walker::new(rules, Callback(read));
        let mut instructions = Instructions::new(Lines::default());
        for (offset, element) in (0..).zip(elements) {
            let item = match *element {
                Ok(value) => Ok(Located { offset, length: 1, value }),
                Err(kind) => Err(ElementError { offset, skipped: 1, kind }),
            };
            walker.push(item, &mut instructions);
        }
        walker.finish(99, &mut instructions);
        instructions.into_sink()
    }

    fn texts(elements: &[Element]) -> Vec<String> {
        lines(&elements.iter().copied().map(Ok).collect::<Vec<_>>()).lines
    }

    #[test]
    fn branch_targets_are_where_execution_continues() {
        let found = texts(&[context(1, true), at(0x1000), atoms("NE"), at(0x100c), atoms("EE"), context(0, true)]);
        let expected = [
            "Context",
            "@2 EL1 1000 d503201f/4",
            "@2 EL1 1004 b4000060/4 N",
            "@2 EL1 1008 d61f0020/4 -> 100c",
            "@4 EL1 100c d5033fdf/4 E",
            "@4 EL1 1010 d503201f/4",
            "@4 EL1 1014 d69f03e0/4 E",
            "ExceptionReturn",
            "Context",
            "End",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn items_between_a_branch_and_its_target_keep_their_order() {
        let elements = [
            context(1, true),
            at(0x1010),
            atoms("E"),
            context(0, true),
            time(7),
            Element::CycleCount(Some(5)),
            at(0x1004),
            atoms("E"),
            Element::CycleCount(Some(6)),
            Element::CycleCount(None),
            atoms("E"),
        ];
        let expected = [
            "Context",
            "@2 EL1 1010 d503201f/4",
            "@2 EL1 1014 d69f03e0/4 -> 1004",
            "ExceptionReturn",
            "Context",
            "Timestamp",
            "CycleCount",
            "@7 EL0 t7 c5 1004 b4000060/4 -> 1010",
            "CycleCount",
            "CycleCount",
            "@10 EL0 t7 c11 1010 d503201f/4",
            "@10 EL0 t7 c11 1014 d69f03e0/4 E",
            "ExceptionReturn",
            "End",
        ];
        assert_eq!(texts(&elements), expected);
    }

    #[test]
    fn branches_without_a_target_are_emitted() {
        let branch = [context(1, true), at(0x1008), atoms("E")];
        let q = Element::Q { count: Some(3) };
        let exception = Element::Exception { number: ExceptionNumber::etm4(14), address: Some(0x1000) };
        let rows: &[(&str, &[Element], &str, &str)] = &[
            ("no code", &[at(0x5000), atoms("E")], " -> 5000", "NoCode"),
            ("unknown instructions", &[at(0x1000), q, at(0x1008)], " -> 1000", "Q"),
            ("an exception", &[at(0x1000), exception], " E", "Exception"),
            ("tracing stops", &[Element::Discard, Element::TraceOn, context(1, true), at(0x1000)], " E", "Discard"),
            ("trace is lost", &[Element::Overflow], " E", "Overflow"),
            ("no target", &[atoms("E"), at(0x1000), atoms("E")], " E", "Finding"),
            ("the trace ends", &[], " E", "End"),
            ("too many items", &[time(1); 20], " E", "Timestamp"),
        ];
        for (name, elements, outcome, next) in rows {
            let found = texts(&[&branch, *elements].concat());
            assert_eq!(found[1], format!("@2 EL1 1008 d61f0020/4{outcome}"), "{name}: {found:?}");
            assert_eq!(found[2], *next, "{name}: {found:?}");
        }
        let found = texts(&[&branch[..], &[time(1); 20], &[at(0x1000)]].concat());
        assert_eq!(found.iter().filter(|line| *line == "Timestamp").count(), 20, "{found:?}");
    }

    #[test]
    fn context_ends_at_a_break() {
        let broken = Err(Broken::Packet(Malformed::Discontinuity));
        let branch = [context(1, true), at(0x1008), atoms("E")].map(Ok);
        let after = [at(0x1000), context(2, true), atoms("N")].map(Ok);
        let found = lines(&[&branch[..], &[broken], &after].concat());
        let expected =
            ["@2 EL1 1008 d61f0020/4 E", "0x3:", "Context", "@6 EL2 1000 d503201f/4", "@6 EL2 1004 b4000060/4 N"];
        assert_eq!(found.lines[1..6], expected);
        assert_eq!(found.ranges, 2);
        let mut around = Around { timestamp: Some(3), cycles: Some(4), ..Around::default() };
        let before = around;
        around.update(&Ok(Located { offset: 0, length: 0, value: Item::TraceOn }));
        assert_eq!(around, before, "timestamps and cycles stay");
    }

    #[test]
    fn t32_instructions_have_two_lengths() {
        let found = texts(&[context(0, false), at(0x2000), atoms("EE"), at(0x2008), atoms("E"), at(0x1000)]);
        let round = ["2000 bf00/2", "2002 f3af8000/4", "2006 e7fb/2 -> 2000"];
        let expected: Vec<String> = round.iter().chain(&round).map(|line| format!("@2 EL0 {line}")).collect();
        assert_eq!(found[1..7], expected);
        assert_eq!(found[7], "Finding", "the loop does not lead to 0x2008");
        assert_eq!(found[8], "@4 EL0 2008 4770/2 E");
    }
}
