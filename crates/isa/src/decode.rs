//! Control flow, access, destinations and classes of an opcode: one function each, for all instruction sets.
//!
//! (instruction set, address, opcode) ─▶ control flow, memory access, destination registers, classes
//!
//! This file selects the decoder of the instruction set. A T32 opcode of four bytes has its
//! first halfword in the high half; one of two bytes has zeros there. The bits above a RISC-V opcode of two bytes are
//! ignored.

use crate::access::{Access, Operation, Transfers};
use crate::class::{Class, Classes};
use crate::control_flow::{ControlFlow, Decoded};
use crate::destinations::Destinations;
use crate::{Isa, RiscvExtensions, a64, aarch32, riscv};

const NO_EXTENSIONS: RiscvExtensions = RiscvExtensions { zcmp: false, zcmt: false };

/// The control flow and the length of `opcode` at `address`.
///
/// Encodings of Arm that are unpredictable, unallocated or unknown fall through.
#[inline]
pub fn decode(isa: Isa, address: u64, opcode: u32) -> Decoded {
    NO_EXTENSIONS.decode(isa, address, opcode)
}

/// The memory access of `opcode`.
///
/// Most unallocated encodings are [`Operation::None`](crate::Operation::None). For AArch32 only plain loads and stores
/// are decoded.
///
/// ```
/// use unspool_isa::{Isa, Operation, access};
///
/// // ldp x29, x30, [sp], #16
/// let load = access(Isa::A64, 0xa8c1_7bfd);
/// assert_eq!((load.operation, load.bytes), (Operation::Load, Some(16)));
/// ```
#[inline]
pub fn access(isa: Isa, opcode: u32) -> Access {
    NO_EXTENSIONS.access(isa, opcode)
}

/// Whether `opcode` loads or stores data, whatever the size. Unlike [`access`](access()), all forms of AArch32 are decoded.
///
/// ```
/// use unspool_isa::{Isa, transfers};
///
/// // ldrex r0, [r1]
/// let exclusive = transfers(Isa::A32, 0xe191_0f9f);
/// assert!(exclusive.loads && !exclusive.stores);
/// ```
pub fn transfers(isa: Isa, opcode: u32) -> Transfers {
    match isa {
        Isa::A32 => aarch32::a32_transfers(opcode),
        Isa::T32 => aarch32::t32_transfers(opcode, isa.length((opcode >> 16) as u16)),
        Isa::A64 | Isa::Rv32 | Isa::Rv64 => match access(isa, opcode).operation {
            Operation::Load => Transfers { loads: true, stores: false },
            Operation::Store => Transfers { loads: false, stores: true },
            Operation::LoadStore => Transfers { loads: true, stores: true },
            _ => Transfers::NONE,
        },
    }
}

/// The registers that `opcode` writes whenever it completes, for A64 and RISC-V.
///
/// Others may be written as well: SVE, SME and RISC-V vector registers, system registers, cumulative floating-point flags
/// and the registers of rare extensions are not decoded. AArch32 has no destinations.
///
/// ```
/// use unspool_isa::{Isa, destinations};
///
/// // ldp x29, x30, [sp], #16
/// assert_eq!(destinations(Isa::A64, 0xa8c1_7bfd).general, 1 << 29 | 1 << 30 | 1 << 31);
/// // c.ldsp ra, 8(sp)
/// assert_eq!(destinations(Isa::Rv64, 0x60a2).general, 1 << 1);
/// ```
pub fn destinations(isa: Isa, opcode: u32) -> Destinations {
    match isa {
        Isa::A64 => a64::destinations(opcode),
        Isa::Rv32 | Isa::Rv64 if !classes(isa, opcode).is_empty() => riscv::destinations(isa, opcode),
        _ => Destinations::NONE,
    }
}

/// The classes that an instruction mix counts `opcode` in. A RISC-V opcode without any is not an instruction; for
/// AArch32 only control flow is classified.
pub fn classes(isa: Isa, opcode: u32) -> Classes {
    NO_EXTENSIONS.classes(isa, opcode)
}

/// The same functions where RISC-V opcodes have other meanings.
impl RiscvExtensions {
    /// See [`decode`](crate::decode()).
    #[inline]
    pub fn decode(self, isa: Isa, address: u64, opcode: u32) -> Decoded {
        match isa {
            Isa::A64 => a64::decode(address, opcode),
            Isa::A32 => aarch32::a32::decode(address, opcode),
            Isa::T32 => match isa.length((opcode >> 16) as u16) {
                4 => aarch32::t32::wide(address, opcode),
                _ => aarch32::t32::narrow(address, opcode as u16),
            },
            Isa::Rv32 | Isa::Rv64 => riscv::decode(self, isa, address, opcode).decoded,
        }
    }

    /// See [`access`](crate::access()).
    #[inline]
    pub fn access(self, isa: Isa, opcode: u32) -> Access {
        match isa {
            Isa::A64 => a64::access(opcode),
            Isa::A32 => aarch32::a32_access(opcode),
            Isa::T32 => aarch32::t32_access(opcode, isa.length((opcode >> 16) as u16)),
            Isa::Rv32 | Isa::Rv64 => riscv::decode(self, isa, 0, opcode).access,
        }
    }

    /// See [`classes`](crate::classes()).
    pub fn classes(self, isa: Isa, opcode: u32) -> Classes {
        if isa.is_riscv() {
            return riscv::decode(self, isa, 0, opcode).classes;
        }
        let decoded = decode(isa, 0, opcode);
        let own = if isa == Isa::A64 { a64::classes(opcode, &decoded) } else { Classes::NONE };
        flow_classes(&decoded).and(own)
    }
}

/// The classes of an Arm instruction by its control flow.
fn flow_classes(decoded: &Decoded) -> Classes {
    let is_branch = decoded.flow.is_branch();
    Classes::which([
        (is_branch, Class::Branch),
        (is_branch && decoded.conditional, Class::Conditional),
        (decoded.flow.is_indirect(), Class::Indirect),
        (is_branch && decoded.link, Class::Call),
        (is_branch && decoded.ret, Class::Return),
        (decoded.flow.is_system_call(), Class::SystemCall),
        (decoded.flow == ControlFlow::Isb, Class::Fence),
        (decoded.flow == ControlFlow::Wfx, Class::Wait),
    ])
}
