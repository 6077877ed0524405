//! Instructions: control flow, memory accesses, registers written, classes, and text.
//!
//! (instruction set, address, opcode) ─▶ **control flow** ([`decode`](decode())), [`access`](access()),
//! [`destinations`](destinations()), [`classes`](classes()) and, with the feature `text`, text
//!
//! Every function takes all five instruction sets: A64, A32, T32, RV32 and RV64. Knows nothing of traces or of files.
//! An [`OpcodeCache`] stores values that a caller derives from an opcode.
//!
//! ```
//! use unspool_isa::{ControlFlow, Isa, decode};
//!
//! // cbz x0, the address eight bytes ahead
//! let branch = decode(Isa::A64, 0x8000, 0xb400_0040);
//! assert_eq!(branch.flow, ControlFlow::Direct);
//! assert!(branch.conditional);
//! assert_eq!(branch.target_address(), Some(0x8008));
//! ```
//!
//! With the feature `text` there is also a `Disassembler`, which needs the standard library.

#![no_std]

extern crate alloc;
#[cfg(feature = "text")]
extern crate std;

mod a64;
mod aarch32;
mod access;
mod bits;
mod class;
mod control_flow;
mod decode;
mod destinations;
mod isa;
mod opcode_cache;
mod riscv;
#[cfg(feature = "text")]
mod text;

pub use a64::{call_number, is_a64_branch_or_system};
pub use access::{Access, Operation, Stage, Transfers};
pub use class::{Class, Classes};
pub use control_flow::{ControlFlow, Decoded, Target};
pub use decode::{access, classes, decode, destinations, transfers};
pub use destinations::Destinations;
pub use isa::Isa;
pub use opcode_cache::{OpcodeCache, OpcodeKey, TextCache};
pub use riscv::RiscvExtensions;
#[cfg(feature = "text")]
pub use text::{Disassembler, Operands, Register, RelativeTarget, RelativeText};
