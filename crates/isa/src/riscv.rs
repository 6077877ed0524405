//! RISC-V: control flow, memory accesses and the classes of an instruction mix, decoded together.
//!
//! (RV32 or RV64, address, opcode) ─▶ **instruction**
//!
//! Two bytes or four; the longer formats of the encoding have no instructions yet. Where extensions give two meanings to
//! one opcode, the meaning of the common profiles is decoded: Zcd rather than Zcmp and Zcmt (unless the caller has these:
//! [`RiscvExtensions`]), Zcf rather than Zclsd, and F rather than Zfinx. Covers the ratified extensions up to RVA23, and
//! no vendor extension.
//! Specification: The RISC-V Instruction Set Manual, volumes I and II (20250508).

mod compressed;
mod destinations;
mod extensions;
mod float;
mod instruction;
mod standard;
mod system;
mod vector;
mod zcm;

use crate::Isa;

pub(crate) use destinations::destinations;
pub use extensions::RiscvExtensions;
pub(crate) use instruction::Instruction;

/// Decodes `opcode` at `address`. The bits above an opcode of two bytes are ignored.
#[inline]
pub(crate) fn decode(extensions: RiscvExtensions, isa: Isa, address: u64, opcode: u32) -> Instruction {
    match isa.length(opcode as u16) {
        _ if extensions.claims(opcode) => zcm::decode(extensions, isa, opcode & 0xffff),
        4 => standard::decode(isa, address, opcode),
        _ => compressed::decode(isa, address, opcode as u16),
    }
}
