//! Selections of random executions, through steps and through blocks.

use proptest::prelude::*;
use unspool_model::{BlockExecution, Direction, Exception, Instruction, Isa, TemplateAccess};

use super::*;

/// What a source hands over.
#[derive(Debug, Clone)]
enum Item {
    Step(u32, Option<u64>, Event),
    Blocks(u32, Option<u64>, Vec<(u32, bool)>),
}

/// Three blocks, at 0x1000, 0x1010 and 0x1020, of four instructions, one, and two.
fn blocks() -> Vec<Block> {
    vec![
        Block::new(0x1000, Isa::A64, vec![1, 2, 3, 4], true),
        Block::new(0x1010, Isa::A64, vec![5], false),
        Block::new(0x1020, Isa::A64, vec![6, 7], true),
    ]
}

/// Accesses of the second and fourth instruction of the first block, and of the first of the third.
fn accesses() -> Vec<Vec<TemplateAccess>> {
    let access = |index| TemplateAccess { index, size: 8, direction: Direction::Read };
    vec![vec![access(1), access(3)], vec![], vec![access(0)]]
}

/// Passes items to a sink.
fn feed(items: &[Item], sink: &mut dyn BlockSink) {
    let (blocks, of_blocks) = (blocks(), accesses());
    for (position, item) in (0..).map(|number| 100 * number).zip(items) {
        let _ = match item {
            Item::Step(core, time, event) => {
                let mut step = Step::default();
                (step.core, step.position, step.time, step.event) = (*core, position, *time, *event);
                sink.step(&step)
            }
            Item::Blocks(core, time, list) => {
                let executions: Vec<_> = list.iter().map(|(at, is)| BlockExecution::new(*at, *is)).collect();
                let each: Vec<u64> = (0..).map(|number| position + number).take(list.len()).collect();
                let addresses: Vec<u64> = (0..2 * list.len() as u64).map(|number| position + 8 * number).collect();
                let positions = if position % 200 == 0 { Positions::From(position) } else { Positions::Each(&each) };
                sink.blocks(&BlockTrace {
                    core: *core,
                    blocks: &blocks,
                    executions: &executions,
                    next: Some(0x2000),
                    positions,
                    time: *time,
                    accesses: Some(BlockAccesses { of_blocks: &of_blocks, addresses: &addresses }),
                })
            }
        };
    }
}

/// Collects all steps; blocks become steps.
#[derive(Default)]
struct Steps(Vec<Step>);

impl BlockSink for Steps {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.0.push(step.clone());
        ControlFlow::Continue(())
    }

    fn wants_accesses(&self) -> bool {
        true
    }
}

fn all_steps(items: &[Item]) -> Vec<Step> {
    let mut all = Steps::default();
    feed(items, &mut all);
    all.0
}

fn select(items: &[Item], selection: &StepSelection, left_out: LeftOut) -> Vec<Step> {
    let mut found = Steps::default();
    feed(items, &mut Selected::new(selection.clone(), left_out, &mut found));
    found.0
}

/// The definition: the state of a core at a step, from all steps before it.
fn context_at(steps: &[Step], index: usize) -> Context {
    let core = steps[index].core;
    steps[..index].iter().filter(|step| step.core == core).fold(Context::default(), |context, step| match &step.event {
        Event::Context(new) => new.over(&context),
        Event::Gap(_) => Context::default(),
        _ => context,
    })
}

/// The definition of what is selected, other than contexts and gaps.
fn is_selected(steps: &[Step], index: usize, selection: &StepSelection) -> bool {
    let (step, context) = (&steps[index], context_at(steps, index));
    let of_core = steps[..=index].iter().rev().filter(|other| other.core == step.core);
    let address = of_core.filter_map(|other| other.event.instruction()).map(|found| found.address).next();
    let is_in =
        |ranges: &[Range<u64>], value: u64| ranges.iter().any(|range| value >= range.start && value < range.end);
    let before = steps[..index].iter().filter(|other| other.core == step.core);
    let number = before.filter(|other| other.event.instruction().is_some()).count() as u64;
    let StepSelection { addresses, levels, processes, times, instructions } = selection;
    !matches!(step.event, Event::Context(_) | Event::Gap(_))
        && (addresses.is_empty() || address.is_some_and(|address| is_in(addresses, address)))
        && (levels.is_empty() || context.level.is_some_and(|level| levels.contains(&level)))
        && (processes.is_empty() || context.process.is_some_and(|process| processes.contains(&process)))
        && times.as_ref().is_none_or(|times| step.time.is_some_and(|time| is_in(std::slice::from_ref(times), time)))
        && instructions.as_ref().is_none_or(|numbers| is_in(std::slice::from_ref(numbers), number))
}

fn events() -> impl Strategy<Value = Event> {
    let instruction = |address: u64| {
        Event::Instruction(Instruction {
            address: 0x1000 + 4 * address,
            opcode: Some(9),
            length: 4,
            ..Instruction::default()
        })
    };
    let context = (prop::option::of(0_u8..3), prop::option::of(0_u64..3))
        .prop_map(|(level, process)| Event::Context(Context { level, process, ..Context::default() }));
    prop_oneof![
        4 => (0_u64..12).prop_map(instruction),
        3 => context,
        1 => Just(Event::Gap(Gap::Overflow)),
        1 => Just(Event::Gap(Gap::Start)),
        1 => Just(Event::Exception(Exception::default())),
        1 => Just(Event::State),
    ]
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    let time = || prop::option::weighted(0.8, 0_u64..8);
    let item = prop_oneof![
        3 => (0_u32..2, time(), events()).prop_map(|(core, time, event)| Item::Step(core, time, event)),
        2 => (0_u32..2, time(), prop::collection::vec((0_u32..3, any::<bool>()), 0..6))
            .prop_map(|(core, time, list)| Item::Blocks(core, time, list)),
    ];
    prop::collection::vec(item, 0..40)
}

fn selections() -> impl Strategy<Value = StepSelection> {
    let range = |(start, length): (u64, u64)| 0x1000 + 4 * start..0x1000 + 4 * (start + length);
    let addresses = prop::collection::vec((0_u64..10, 1_u64..6).prop_map(range), 0..3);
    let times = prop::option::of((0_u64..6, 1_u64..5).prop_map(|(start, length)| start..start + length));
    let levels = prop::collection::vec(0_u8..3, 0..2);
    let processes = prop::collection::vec(0_u64..3, 0..2);
    let instructions = prop::option::of((0_u64..20, 1_u64..30).prop_map(|(start, length)| start..start + length));
    (addresses, levels, processes, times, instructions).prop_map(
        |(addresses, levels, processes, times, instructions)| StepSelection {
            addresses,
            levels,
            processes,
            times,
            instructions,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// What is selected is all steps, filtered by the definition.
    #[test]
    fn selected_steps_are_the_filtered_steps(items in items(), selection in selections()) {
        let all = all_steps(&items);
        let expected: Vec<&Step> = (0..all.len()).filter(|at| is_selected(&all, *at, &selection)).map(|at| &all[at]).collect();
        for left_out in [LeftOut::Gap, LeftOut::Nothing] {
            let found = select(&items, &selection, left_out);
            let others: Vec<&Step> =
                found.iter().filter(|step| !matches!(step.event, Event::Context(_) | Event::Gap(_))).collect();
            prop_assert_eq!(&others, &expected);
            let mut selected = Steps::default();
            let mut sink = Selected::new(selection.clone(), left_out, &mut selected);
            feed(&items, &mut sink);
            let instructions = expected.iter().filter(|step| step.event.instruction().is_some()).count();
            prop_assert_eq!(sink.instructions(), instructions as u64);
        }
    }

    /// Blocks and their steps lead to the same.
    #[test]
    fn blocks_are_selected_like_their_steps(items in items(), selection in selections()) {
        for left_out in [LeftOut::Gap, LeftOut::Nothing] {
            let mut expected = Steps::default();
            let mut sink = Selected::new(selection.clone(), left_out, &mut expected);
            let _ = all_steps(&items).iter().try_for_each(|step| sink.step(step));
            prop_assert_eq!(select(&items, &selection, left_out), expected.0);
        }
    }

    /// The sink knows the context of everything that it gets, as if it had got everything.
    #[test]
    fn contexts_are_known_to_the_sink(items in items(), selection in selections()) {
        let all = all_steps(&items);
        let expected: Vec<Context> =
            (0..all.len()).filter(|at| is_selected(&all, *at, &selection)).map(|at| context_at(&all, at)).collect();
        for left_out in [LeftOut::Gap, LeftOut::Nothing] {
            let found = select(&items, &selection, left_out);
            let is_other = |step: &Step| !matches!(step.event, Event::Context(_) | Event::Gap(_));
            let contexts: Vec<Context> =
                (0..found.len()).filter(|at| is_other(&found[*at])).map(|at| context_at(&found, at)).collect();
            prop_assert_eq!(&contexts, &expected);
        }
    }

    /// There is a gap between two selected steps of a core if something was executed between them, or was missing.
    #[test]
    fn gaps_are_where_something_is_left_out(items in items(), selection in selections()) {
        let all = all_steps(&items);
        let is_executed = |step: &Step| {
            matches!(step.event, Event::Instruction(_) | Event::Exception(_) | Event::ExceptionReturn { .. } | Event::Gap(_))
        };
        let mut expected = Vec::new();
        let mut is_cut = [false; 2];
        for (index, step) in all.iter().enumerate() {
            let core = step.core as usize;
            if is_selected(&all, index, &selection) {
                expected.push(std::mem::take(&mut is_cut[core]));
            } else {
                is_cut[core] |= is_executed(step);
            }
        }
        let mut found = Vec::new();
        let mut is_cut = [false; 2];
        for step in select(&items, &selection, LeftOut::Gap) {
            match step.event {
                Event::Gap(_) => is_cut[step.core as usize] = true,
                Event::Context(_) => {}
                _ => found.push(std::mem::take(&mut is_cut[step.core as usize])),
            }
        }
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn a_condition_needs_its_facet() {
    let all = Coverage::of(&[Facet::Levels, Facet::Processes, Facet::Times]);
    let none = StepSelection::default();
    let rows = [
        (none.clone(), None),
        (StepSelection { levels: vec![0], ..none.clone() }, Some(Facet::Levels)),
        (StepSelection { processes: vec![1], ..none.clone() }, Some(Facet::Processes)),
        (StepSelection { times: Some(1..2), ..none }, Some(Facet::Times)),
    ];
    for (selection, facet) in rows {
        assert_eq!(selection.missing(all), None);
        assert_eq!(selection.missing(Coverage::default()), facet);
        assert_eq!(selection.missing(facet.map_or(all, |facet| all.without(facet))), facet);
    }
}
