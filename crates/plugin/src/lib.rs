//! A QEMU plugin that records what programs and systems execute; `unspool record` reads its stream.
//!
//! QEMU ─▶ callbacks (`qemu`) ─▶ **threads** ─▶ wire records ─▶ shared memory, a socket or a file
//!
//! Knows of instruction sets only which instructions may access memory and which registers they write, and nothing of trace
//! formats. It has few dependencies, since it runs in the process of the emulator. It needs QEMU on Linux; elsewhere it is
//! empty.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

mod block_addresses;
mod memory;
mod operands;
mod options;
mod output;
mod qemu;
mod thread;
mod values;
