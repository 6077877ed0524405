//! Comparisons of blocks and of steps in place: the same findings and counts as instruction by instruction, for any traces.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use proptest::prelude::*;
use unspool_analyze::diff::{Differ, Options, comparable};
use unspool_model::{
    Block, BlockAccesses, BlockExecution, BlockSink, BlockTrace, Context, Coverage, Direction, Event, Exception,
    ExceptionKind, Facet, Gap, Isa, Positions, Pull, SourceError, Step, StepSource, TemplateAccess,
};

use super::event;

/// What happens in a trace.
#[derive(Debug, Clone, Copy)]
struct Item {
    what: What,
    /// Number of a block of the program.
    block: usize,
    is_taken: bool,
    /// Base of the addresses of accesses.
    address: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Block,
    /// A block, handed over step by step, with registers and data.
    Steps,
    Gap,
    Exception,
    Context(u8),
}

/// A source of items that has blocks, which may be halves of those of the program.
#[derive(Clone)]
struct Trace {
    items: Vec<Item>,
    is_halved: bool,
    has_position_each: bool,
    coverage: Coverage,
}

/// Blocks of one to five instructions at addresses that follow each other; some end in a branch.
fn program() -> Vec<Block> {
    let block = |number: u64| {
        let opcodes = (0..=number % 5).map(|index| 0xd503_2000 + (number * 8 + index) as u32).collect();
        Block::new(0x1000 + 32 * number, Isa::A64, opcodes, !number.is_multiple_of(3))
    };
    (0..6).map(block).collect()
}

fn accesses_of(block: &Block) -> Vec<TemplateAccess> {
    let directions = [Direction::Read, Direction::Write, Direction::Both, Direction::Neither];
    let accesses = (0_u16..).zip(&block.opcodes).zip(directions.into_iter().cycle());
    let accesses = accesses.filter(|((_, opcode), _)| *opcode % 2 == 1);
    accesses.map(|((index, _), direction)| TemplateAccess { index, size: index % 3 * 4, direction }).collect()
}

impl Trace {
    /// The blocks of the program, or their halves.
    fn blocks(&self) -> Vec<Vec<Block>> {
        let halves = |block: Block| {
            let middle = block.opcodes.len() / 2;
            if !self.is_halved || middle == 0 {
                return vec![block];
            }
            let (first, second) = block.opcodes.split_at(middle);
            let start = block.start + 4 * middle as u64;
            let first = Block::new(block.start, block.isa, first.to_vec(), false);
            vec![first, Block::new(start, block.isa, second.to_vec(), block.ends_in_branch)]
        };
        program().into_iter().map(halves).collect()
    }

    /// Passes on items as an event, or as executions of blocks.
    fn pass(&self, mut take: impl FnMut(Result<&BlockTrace<'_>, &Step>, bool) -> ControlFlow<()>) -> ControlFlow<()> {
        let halves = self.blocks();
        let mut first_of = vec![0];
        halves.iter().for_each(|halves| first_of.push(first_of[first_of.len() - 1] + halves.len()));
        let blocks = halves.concat();
        let of_blocks: Vec<_> = blocks.iter().map(accesses_of).collect();
        let mut rest = &self.items[..];
        while let Some(item) = rest.first() {
            if !matches!(item.what, What::Block | What::Steps) {
                let mut step = event(match item.what {
                    What::Gap => Event::Gap(Gap::Overflow),
                    What::Context(level) => Event::Context(Context { level: Some(level), ..Context::default() }),
                    _ => Event::Exception(Exception { kind: ExceptionKind::Synchronous, ..Exception::default() }),
                });
                step.position = 7;
                take(Err(&step), false)?;
                rest = &rest[1..];
                continue;
            }
            let count = rest.iter().take_while(|next| next.what == item.what).count();
            let (mut executions, mut addresses) = (Vec::new(), Vec::new());
            for item in &rest[..count] {
                for number in first_of[item.block]..first_of[item.block + 1] {
                    executions.push(BlockExecution::new(number as u32, item.is_taken && blocks[number].ends_in_branch));
                    addresses.extend(of_blocks[number].iter().map(|access| item.address + u64::from(access.index)));
                }
            }
            rest = &rest[count..];
            let next = rest.first().map(|next| blocks[first_of[next.block]].start);
            let each: Vec<u64> = (0..executions.len() as u64).collect();
            let positions = if self.has_position_each { Positions::Each(&each) } else { Positions::From(100) };
            let accesses = Some(BlockAccesses { of_blocks: &of_blocks, addresses: &addresses });
            let (blocks, executions) = (&blocks, &executions);
            let trace = BlockTrace { core: 0, blocks, executions, next, positions, time: None, accesses };
            take(Ok(&trace), item.what == What::Block)?;
        }
        ControlFlow::Continue(())
    }
}

impl StepSource for Trace {
    fn coverage(&self) -> Coverage {
        self.coverage
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        let _ = self.pass(|item, is_block| match item {
            Ok(trace) if is_block => trace.each_step(&mut *take),
            Ok(trace) => trace.each_step(|step| take(&with_values(step))),
            Err(step) => take(step),
        });
        Ok(())
    }

    fn follow(&mut self, sink: &mut dyn BlockSink) -> Result<(), SourceError> {
        let _ = self.pass(|item, is_block| match item {
            Ok(trace) if is_block => sink.blocks(trace),
            Ok(trace) => trace.each_step(|step| sink.step(&with_values(step))),
            Err(step) => sink.step(step),
        });
        Ok(())
    }
}

/// A step with registers and data that depend on its opcode and on the addresses of its accesses.
fn with_values(step: &Step) -> Step {
    let mut step = step.clone();
    let opcode = step.event.instruction().and_then(|instruction| instruction.opcode).unwrap_or_default();
    let value = step.accesses().map(|access| access.address as u8).sum::<u8>();
    for register in 0..opcode % 4 {
        step.write_register(["x0", "x1", "x0"][register as usize], 0, &[value, register as u8]);
    }
    if opcode.is_multiple_of(2) {
        step.access_known(Direction::Write, 0x9000, 2, [(value, 0xff), (1, u8::from(opcode.is_multiple_of(4)))]);
    }
    step
}

/// A trace with a note before each step: no two instructions follow each other, so that each is compared by itself.
struct Noted(Trace);

impl StepSource for Noted {
    fn coverage(&self) -> Coverage {
        self.0.coverage
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        self.0.each(&mut |step| {
            take(&event(Event::Note))?;
            take(step)
        })
    }
}

/// Findings and summary as text.
fn diff(options: &Options, pulls: [Pull; 2]) -> (Vec<String>, String) {
    let mut findings = Vec::new();
    let summary = Differ::new(options.clone()).run(pulls, &mut |finding| {
        findings.push(format!("{finding:?}"));
        ControlFlow::Continue(())
    });
    (findings, format!("{:?}", summary.unwrap()))
}

/// Blocks at the start of both traces: more instructions than are read ahead to find out that they start together.
const BEGINNING: usize = 500;

fn beginning() -> Vec<Item> {
    let item = |index| Item { what: What::Block, block: index % 6, is_taken: true, address: 0 };
    (0..BEGINNING).map(item).collect()
}

fn any_item() -> impl Strategy<Value = Item> {
    let what = prop_oneof![
        60 => Just(What::Block),
        10 => Just(What::Steps),
        1 => Just(What::Gap),
        1 => Just(What::Exception),
        1 => (0_u8..3).prop_map(What::Context),
    ];
    (what, 0_usize..6, any::<bool>(), 0_u64..2).prop_map(|(what, block, is_taken, address)| Item {
        what,
        block,
        is_taken,
        address,
    })
}

/// A change of the second trace: at an index, another item in place of it, before it, or none.
type Change = (prop::sample::Index, Option<Item>, bool);

fn any_changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(any_item()), any::<bool>()), 0..4)
}

fn any_options() -> impl Strategy<Value = Options> {
    let facets = prop_oneof![
        3 => Just(comparable()),
        1 => Just(Coverage::of(&[Facet::Instructions, Facet::Branches])),
        1 => Just(Coverage::of(&[Facet::Opcodes, Facet::Accesses])),
        1 => Just(Coverage::of(&[Facet::Levels])),
    ];
    let context = prop::sample::select(vec![0, 1, 5, 40]);
    (any::<bool>(), context, facets, any::<bool>()).prop_map(|(all, context, facets, strict)| Options {
        all,
        context,
        facets,
        strict,
        window: 256,
        ..Options::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn blocks_are_compared_as_their_steps(
        items in prop::collection::vec(any_item(), 1..120),
        changes in any_changes(),
        forms in any::<[bool; 6]>(),
        options in any_options(),
    ) {
        let items = [beginning(), items].concat();
        let mut changed = items.clone();
        for (index, item, is_added) in changes {
            let at = BEGINNING + index.index(changed.len() - BEGINNING);
            match item {
                Some(item) if is_added => changed.insert(at, item),
                Some(item) => changed[at] = item,
                None if changed.len() > BEGINNING + 1 => drop(changed.remove(at)),
                None => {}
            }
        }
        let trace = |items, is_halved, has_position_each, has_accesses| {
            let facets: Vec<Facet> = comparable().iter().filter(|it| has_accesses || *it != Facet::Accesses).collect();
            Trace { items, is_halved, has_position_each, coverage: Coverage::of(&facets) }
        };
        let a = trace(items, forms[0], forms[1], forms[2]);
        let b = trace(changed, forms[3], forms[4], forms[5]);
        let wants_accesses = forms[2] && forms[5] && options.facets.has(Facet::Accesses);
        let expected = diff(&options, [a.clone(), b.clone()].map(|trace| Pull::new(Noted(trace)).unwrap()));
        let blocks = |trace: &Trace| Pull::with_blocks(trace.clone(), wants_accesses).unwrap();
        prop_assert_eq!(&diff(&options, [blocks(&a), blocks(&b)]), &expected);
        prop_assert_eq!(&diff(&options, [blocks(&a), Pull::new(b.clone()).unwrap()]), &expected);
        prop_assert_eq!(&diff(&options, [a, b].map(|trace| Pull::new(trace).unwrap())), &expected);
    }
}
