//! Architectural checks: rules that the steps of any source must satisfy.
//!
//! steps ─▶ **checker** ─▶ findings
//!
//! Each core is tracked by itself: the address at which it must continue, its state, and what its opcodes allow. Only
//! facets that the source can report are checked ([`Coverage`]), and a gap resets all expectations. After a finding the
//! checker continues from the reported state, so that one cause gives one finding. Memory use does not grow with the
//! trace. No file format is known here; the rules of formats are checked elsewhere. Specification: Arm DDI 0487, and The
//! RISC-V Instruction Set Manual.
//!
//! ```
//! use unspool_analyze::check::Checker;
//! use unspool_model::{Coverage, Event, Facet, Instruction, Step};
//!
//! let mut checker = Checker::new(Coverage::of(&[Facet::Instructions, Facet::Opcodes]));
//! let mut names = Vec::new();
//! let mut step = Step::default();
//! // A NOP does not branch.
//! for address in [0x1000, 0x1004, 0x100c] {
//!     let opcode = Some(0xd503_201f);
//!     step.event = Event::Instruction(Instruction { address, opcode, length: 4, ..Instruction::default() });
//!     checker.step(&step, &mut |finding| names.push(finding.rule.name));
//! }
//! checker.finish(&mut |finding| names.push(finding.rule.name));
//! assert_eq!(names, ["step-pc-continuity"]);
//! ```

mod access;
mod blocks;
mod context;
mod control_flow;
mod core;
mod exception_vectors;
mod last;
mod report;
mod rules;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use unspool_model::{BlockExecution, BlockTrace, Coverage, Step};

use self::blocks::CleanBlocks;
use self::core::Core;
use self::report::{Reported, Reporter, Source};

pub use self::report::Finding;
pub use self::rules::RULES;
pub use unspool_model::rule::{Rule, Severity};

/// Checker of the steps of a source.
#[derive(Debug, Clone)]
pub struct Checker {
    source: Source,
    cores: Vec<Core>,
    /// Indexes of cores by their numbers.
    numbers: BTreeMap<u32, usize>,
    /// The core of the last step.
    number: u32,
    index: usize,
    reported: Reported,
    clean: CleanBlocks,
}

impl Checker {
    /// A checker for a source with this coverage.
    pub fn new(coverage: Coverage) -> Self {
        Self {
            source: Source { coverage, has_reads: false, has_writes: false, is_in_bits: false },
            cores: vec![Core::default()],
            numbers: BTreeMap::from([(0, 0)]),
            number: 0,
            index: 0,
            reported: Reported::new(),
            clean: CleanBlocks::default(),
        }
    }

    /// Checks the next step; reports findings about it or about the previous one.
    #[inline]
    pub fn step(&mut self, step: &Step, report: &mut dyn FnMut(Finding)) {
        if step.core != self.number {
            self.select_core(step.core);
        }
        let mut out = Reporter { core: step.core, reported: &mut self.reported, report };
        self.cores[self.index].step(step, &mut self.source, &mut out);
    }

    /// Checks the instructions of blocks. Each finding is reported with the position of the step at which it was found.
    pub fn blocks(&mut self, trace: &BlockTrace<'_>, report: &mut dyn FnMut(u64, Finding)) {
        if trace.core != self.number {
            self.select_core(trace.core);
        }
        let (executions, mut rest) = (trace.executions, trace.accesses);
        // The last execution that was checked, if the one at hand follows it, and the findings before it.
        let (mut before, mut is_clean_so_far) = (None::<(BlockExecution, u64)>, false);
        let _ = trace.each_execution(|index, position| {
            let execution = executions[index];
            let number = execution.number();
            let accesses = rest.as_mut().map(|rest| rest.split_off(number)).into_iter().flatten();
            let next = executions.get(index + 1).map(|next| next.number());
            let is_clean = next.is_some_and(|next| self.clean.contains(execution, next));
            // It is skipped if nothing can be found in it, nor in the step from the execution before it.
            if std::mem::replace(&mut is_clean_so_far, is_clean) && is_clean {
                self.cores[self.index].skip_clean();
                before = None;
                return ControlFlow::Continue(());
            }
            let findings = self.reported.total();
            for (at, step) in trace.steps_with(index, position, accesses).enumerate() {
                self.step(&step, &mut |finding| report(step.position, finding));
                if let (0, Some((before, findings))) = (at, before)
                    && self.reported.total() == findings
                    && trace.blocks[before.number()].isa == trace.blocks[number].isa
                {
                    self.clean.add(before, number);
                }
            }
            // An execution that changes the state was checked in two of them.
            let state = self.cores[self.index].state_of_blocks(trace.core, &self.source);
            before = self.clean.enter(state).then_some((execution, findings));
            ControlFlow::Continue(())
        });
    }

    /// Continues after instructions that are not handed in: the source guarantees that each follows from the one before
    /// it, and nothing but instructions is left out.
    pub fn skip(&mut self, core: u32, report: &mut dyn FnMut(Finding)) {
        if core != self.number {
            self.select_core(core);
        }
        let mut out = Reporter { core, reported: &mut self.reported, report };
        self.cores[self.index].skip(&mut self.source, &mut out);
    }

    /// Checks what is left at the end of the steps.
    pub fn finish(&mut self, report: &mut dyn FnMut(Finding)) {
        for (number, index) in &self.numbers {
            let mut out = Reporter { core: *number, reported: &mut self.reported, report };
            self.cores[*index].finish(&self.source, &mut out);
        }
    }

    /// Number of findings that were not reported: repeats for the same instruction, or findings beyond the limit.
    pub fn repeats(&self) -> u64 {
        self.reported.repeats
    }

    /// Number of violations of each violated rule, reported or not.
    pub fn counts(&self) -> impl Iterator<Item = (&'static Rule, u64)> {
        RULES.iter().zip(self.reported.counts.iter().copied()).filter(|(_, count)| *count > 0)
    }

    fn select_core(&mut self, core: u32) {
        let new = self.cores.len();
        self.index = *self.numbers.entry(core).or_insert(new);
        if self.index == new {
            self.cores.push(Core::default());
        }
        self.number = core;
    }
}
