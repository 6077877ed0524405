//! From trace to instructions: the program flow, as far as trace and code determine it.
//!
//! committed elements + code ─▶ **flow** ─▶ ranges, instructions
//!
//! Does not know files, frames or protocols. [`Walker`] is the stage, [`CodeMemory`] its source of code;
//! [`FlowDecoder`] joins it with the decoders of a protocol, and [`Instructions`] expands ranges into instructions.

mod between;
mod code;
mod decode;
mod expand;
mod fields;
mod flat;
mod graph;
mod instruction;
mod item;
mod memory;
mod runs;
mod stack;
mod table;
mod walk;

pub use between::Between;
pub use decode::{Decoding, Entry, FlowDecoder, Seam};
pub use expand::Instructions;
pub use fields::item_fields;
pub use flat::FlatRun;
pub use instruction::{Around, Instruction, InstructionSink, Outcome};
pub use item::{Cause, Finding, FlowItem, FlowSink, Item, Range, Run, RunKey, Transaction};
pub use memory::{Callback, CodeMemory, MapId, Space};
pub use walk::{KnownCode, Walker};
