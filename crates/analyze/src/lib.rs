//! Analyses of executed instructions: findings and tables.
//!
//! ```text
//! instructions of a core ─▶ calls ─▶ tree, profile, folded stacks
//! steps of one source ─▶ stats ─▶ counts, instruction mix, footprint
//! steps of one source ─▶ check ─▶ findings: behavior that no processor has
//! steps of two sources ─▶ diff ─▶ differences
//! steps of two sources ─▶ join ─▶ steps of the first, completed by the second
//! ```
//!
//! No trace format is known here. A reader feeds a [`calls::Follower`] instruction by instruction and gets calls as
//! they end; [`tree`] orders them, [`profile`] and [`folded`] count them. Memory use does not grow with the length of
//! the trace.
//!
//! ```
//! use unspool_analyze::calls::{Opcode, Follower, Instruction, Site};
//! use unspool_isa::Isa;
//!
//! // bl 0x1010, ret, nop
//! let program = [(0x1000, 0x9400_0004), (0x1010, 0xd65f_03c0), (0x1004, 0xd503_201f)];
//! let mut calls = Vec::new();
//! let mut follower = Follower::new();
//! for (number, (pc, opcode)) in (0..).zip(program) {
//!     let site = Site { line: number + 1, time: number, number, pc };
//!     let code = Opcode { isa: Isa::A64, opcode };
//!     follower.step(&Instruction::new(site, 4, Some(code)), &mut |call| calls.push(*call));
//! }
//! follower.finish(&mut |call| calls.push(*call));
//! assert_eq!(calls[0].function, 0x1010);
//! assert_eq!(calls[0].back.map(|site| site.pc), Some(0x1004));
//! ```

pub mod calls;
pub mod check;
pub mod diff;
pub mod folded;
pub mod join;
pub mod profile;
pub mod selection;
pub mod stats;
pub mod tree;
