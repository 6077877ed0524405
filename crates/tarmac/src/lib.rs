//! Tarmac, the text that simulators and models print of what a core executes.
//!
//! A file is lines, and no two producers write them alike. A line is a record; records around an instruction are a step.

pub mod check;
pub mod clock;
pub mod dialect;
pub mod index;
pub mod lift;
pub mod lower;
pub mod parse;
pub mod read;
pub mod record;
pub mod registers;
pub mod restyle;
pub mod slice;
pub mod state;
pub mod steps;
pub mod text;
pub mod value;
pub mod write;

pub use record::{Line, Record};
