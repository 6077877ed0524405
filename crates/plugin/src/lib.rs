//! Tells what a program does under QEMU: a plugin that the emulator loads, and `unspool record` reads.
//!
//! QEMU ─▶ callbacks (`qemu`) ─▶ **threads** ─▶ records (`stream`) ─▶ a socket or a file
//!
//! Knows nothing of instruction sets but where an access to memory can be, and which registers an instruction writes; nor
//! of trace formats. It depends on little, since it lives in the process of somebody else. Only QEMU on Linux has what it needs; elsewhere it is empty.

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod log;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod memory;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod operands;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod options;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod places;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod qemu;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod stream;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod thread;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod values;
