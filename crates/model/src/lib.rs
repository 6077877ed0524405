//! Steps: executed instructions with their effects, in a form that all trace formats share.
//!
//! ETE captures, ASTF, STF, Tarmac ─▶ **steps** ─▶ diff, check, statistics, other formats
//!
//! A step has the position of the native records that it comes from. Information that a source does not have is absent,
//! never zero, and a source declares in advance which kinds of information it has ([`Coverage`]). Knows no format, no
//! file and no packet.
//!
//! ```
//! use unspool_model::{Event, Instruction, Isa, Step};
//!
//! let mut step = Step::default();
//! step.event = Event::Instruction(Instruction { address: 0x8000, opcode: Some(0xd503_201f), ..Instruction::default() });
//! step.write_register("x0", 0, &[1, 0, 0, 0, 0, 0, 0, 0]);
//! assert_eq!(step.registers().next().map(|write| write.name), Some("x0"));
//! assert_eq!(step.event.instruction().map(|instruction| instruction.isa), Some(Isa::A64));
//! ```

mod batch;
mod block;
mod block_cursor;
mod chunk;
mod core_selector;
mod coverage;
pub mod digits;
pub mod hold;
pub mod json;
mod loss;
pub mod note;
mod pull;
mod read_ahead;
pub mod rule;
pub mod selection;
mod sink;
mod source;
mod step;
mod time;

pub use block::{
    Block, BlockAccesses, BlockExecution, BlockSink, BlockTrace, Positions, StoppedAt, Template, TemplateAccess,
    TemplateTrace,
};
pub use block_cursor::{BlockCursor, BlockPlace, RestOfExecution};
pub use core_selector::CoreSelector;
pub use coverage::{Coverage, Facet};
pub use loss::{Loss, Losses, Lost};
pub use pull::Pull;
pub use read_ahead::ReadAhead;
pub use sink::{SinkError, StepSink};
pub use source::{SourceError, StepSource};
pub use step::{
    Access, Branch, Context, Direction, Event, Exception, ExceptionKind, Gap, Instruction, Modes, RegisterWrite,
    Security, Step, StepRef,
};
pub use time::TimeUnit;
pub use unspool_isa::Isa;
