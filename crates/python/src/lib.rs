//! The Python module `unspool`: its classes and functions that are written in Rust.
//!
//! ```text
//! unspool (Rust) ─▶ **unspool._unspool** ─▶ unspool (Python: python/unspool/)
//! ```
//!
//! Wraps the facade and decides nothing by itself: what is read, selected and written is as on the command line. Work is done with
//! the interpreter lock released. Errors are exceptions of `unspool.errors`, and so are panics. The type stubs are in
//! `python/unspool/_unspool.pyi`.
#![allow(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]

mod arrow;
mod call;
mod convert;
mod encode;
mod errors;
mod instruction;
mod iterate;
mod names;
mod packet;
mod selection;
mod shards;
mod step;
mod trace;
mod writer;

#[pyo3::pymodule]
mod _unspool {
    #[pymodule_export]
    use crate::arrow::ArrowTable;
    #[pymodule_export]
    use crate::call::{Call, CallIterator};
    #[pymodule_export]
    use crate::convert::{Conversion, convert};
    #[pymodule_export]
    use crate::encode::{Encoded, encode};
    #[cfg(feature = "test-support")]
    #[pymodule_export]
    use crate::errors::panic_in_library;
    #[pymodule_export]
    use crate::instruction::{Block, BlockIterator, Instruction, InstructionIterator};
    #[pymodule_export]
    use crate::packet::{Packet, PacketIterator};
    #[pymodule_export]
    use crate::shards::{
        assemble_shards, count_code, count_shard, finish_tables, merge_code, split_trace, unreadable_trace,
        whole_shard, write_code, write_shard,
    };
    #[pymodule_export]
    use crate::step::{Access, Context, RegisterWrite, Step, StepIterator, TakenException};
    #[pymodule_export]
    use crate::trace::{Trace, open};
    #[pymodule_export]
    use crate::writer::Writer;
}
