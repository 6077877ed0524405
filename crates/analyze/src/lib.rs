//! Analyses of executed instructions: findings and tables.
//!
//! ```text
//! blocks, steps of one source ─▶ calls ─▶ tree, profile, folded stacks; marks: exceptions, gaps, changes of the stack
//! blocks, steps of one source ─▶ stats ─▶ counts, instruction mix, footprint
//! blocks and steps of one source ─▶ address counts ─▶ executions and outcomes of each instruction
//! blocks, steps of one source ─▶ step selection ─▶ those of some addresses, levels, processes, times
//! steps of one source ─▶ loops ─▶ where execution only repeats itself
//! steps of one source ─▶ check ─▶ findings: behavior that no processor has
//! steps of two sources ─▶ diff ─▶ differences
//! steps of two sources ─▶ join ─▶ steps of the first, completed by the second
//! ```
//!
//! No trace format is known here. A [`calls::Tracker`] takes steps or blocks and emits calls as they end; [`tree`] orders
//! them, [`profile`] and [`folded`] count them. Memory use does not grow with the length of the trace.
//!
//! ```
//! use unspool_analyze::calls::{Call, Tracker};
//! use unspool_model::{Event, Instruction, Step};
//!
//! // bl 0x1010, ret, nop
//! let program = [(0x1000, 0x9400_0004), (0x1010, 0xd65f_03c0), (0x1004, 0xd503_201f)];
//! let mut calls: Vec<Call> = Vec::new();
//! let mut tracker = Tracker::new(|_stack: usize, call: &Call| calls.push(*call));
//! let mut step = Step::default();
//! for (position, (address, opcode)) in (0..).zip(program) {
//!     let instruction = Instruction { address, opcode: Some(opcode), length: 4, ..Instruction::default() };
//!     (step.position, step.event) = (position, Event::Instruction(instruction));
//!     tracker.step(&step);
//! }
//! let _ = tracker.finish();
//! assert_eq!(calls[0].function, 0x1010);
//! assert_eq!(calls[0].back.map(|site| site.pc), Some(0x1004));
//! ```

pub mod accesses;
pub mod address_counts;
pub mod basic_blocks;
pub mod block_counts;
pub mod branch_flow;
pub mod branches;
pub mod call_costs;
pub mod calls;
pub mod check;
pub mod diff;
pub mod find;
pub mod folded;
pub mod join;
pub mod known_state;
pub mod loops;
pub mod marks;
pub mod number_hash;
pub mod pass;
pub mod profile;
pub mod selection;
pub mod stats;
pub mod step_selection;
pub mod tree;
pub mod tuples;
