//! Real programs and systems, recorded while they run under QEMU.
//!
//! ```text
//! program ─▶ qemu-user with the plugin ──────────────────────┐
//! system ──▶ qemu-system with the plugin, log of exceptions ─┴─▶ wire records ─▶ recorder ─▶ steps, templates
//! ```
//!
//! Takes a program for Linux on AArch64, AArch32 or RISC-V ([`Recording`]), or the arguments of a system emulator
//! ([`SystemRecording`], AArch64). Produces instructions with opcodes, accesses, outcomes of branches, system calls,
//! exceptions and signals; one core per thread or CPU. Data and register values are recorded if the emulator reports them:
//! QEMU 7.2 reports neither. The kernel of a user program is not emulated: after a system call, execution continues where
//! the kernel returned to. Knows nothing of trace formats.

mod atomics;
mod chunks;
mod emitter;
mod error;
mod function;
mod launch;
mod machine;
mod recorder;
mod recording;
mod registers;
mod system;
mod user;

pub use unspool_wire::EmulatorCapabilities;

pub use error::RecordError;
pub use launch::plugin_beside_executable;
pub use machine::Machine;
pub use recorder::coverage;
pub use recording::{Options, Recording, Stream};
pub use system::{SystemOptions, SystemRecording};
pub use user::AmbiguousState;
