//! Instructions: what each one does to the flow of control and to memory, and how it reads.
//!
//! (instruction set, address, opcode) ─▶ **facts** (and text)
//! (A64 opcode) ─▶ **access**
//! (A64 or RISC-V opcode) ─▶ **destinations**: registers that are written
//! (RISC-V width, address, opcode) ─▶ **facts**, with access and classes (and text)
//!
//! Knows nothing of traces or of files. What matters to a trace unit is whether an instruction is a P0 instruction (one
//! that trace has an element for), where it can go, and whether it may go on instead.
//!
//! ```
//! use unspool_isa::{Isa, Kind, facts};
//!
//! // cbz x0, the address eight bytes ahead
//! let branch = facts(Isa::A64, 0x8000, 0xb400_0040);
//! assert_eq!(branch.kind, Kind::Direct);
//! assert!(branch.conditional);
//! assert_eq!(branch.target.map(|target| target.address), Some(0x8008));
//! ```
//!
//! With the feature `text` there is also a `Disassembler`, which needs the standard library.

#![no_std]

#[cfg(feature = "text")]
extern crate std;

mod a32;
mod a64;
mod access;
mod destinations;
mod facts;
mod riscv;
mod t32;
#[cfg(feature = "text")]
mod text;

pub use a64::is_ordinary_a64;
pub use access::{Access, Operation, Stage, a64_access, call_number};
pub use destinations::{Destinations, a64_destinations, riscv_destinations};
pub use facts::{Facts, Isa, Kind, Target, facts, t32_length};
pub use riscv::{Class, Classes, RiscvAccess, RiscvExtensions, RiscvFacts, RiscvFlow, Xlen, riscv_facts, riscv_length};
#[cfg(feature = "text")]
pub use text::{Disassembler, riscv_mnemonic};
