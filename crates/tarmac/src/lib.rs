//! Tarmac logs: the text that simulators, models and RTL print of what a core executes.
//!
//! log ─▶ [`read`] ─▶ [`parse`] ─▶ records ─▶ [`lift`] ─▶ [`steps`], and back by [`lower`] and [`mod@write`]
//!
//! A log is a sequence of lines, and every producer has a dialect of its own. A line is a record; an instruction with
//! the lines of its effects is a step.
//!
//! ```
//! use unspool_tarmac::Record;
//! use unspool_tarmac::parse::{ParseOptions, Parser};
//!
//! let line = Parser::new(ParseOptions::default()).parse(b"1 clk IT (1) 00008008 a00a T svc_s : ADR r0,{pc}+0x2c");
//! assert!(matches!(line.record, Record::Instruction(instruction) if instruction.opcode == Some(0xa00a)));
//! ```

mod annotation;
pub mod check;
pub mod clock;
pub mod dialect;
pub mod index;
pub mod json;
pub mod lift;
mod lines;
pub mod lower;
mod opcode;
pub mod parse;
pub mod read;
pub mod record;
pub mod registers;
pub mod restyle;
mod short_text;
pub mod slice;
pub mod state;
pub mod stats;
pub mod steps;
pub mod text;
pub mod value;
pub mod write;

pub use record::{Line, Record};
