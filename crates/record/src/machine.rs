//! What a program is made for, as the header of its file says.

use std::path::Path;

use unspool_model::{Context, Isa, Modes, Security};

use super::RecordError;

/// What a program is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Machine {
    /// AArch64.
    Aarch64,
    /// AArch32.
    Arm,
    /// RISC-V with registers of 64 bits.
    Riscv64,
    /// RISC-V with registers of 32 bits.
    Riscv32,
}

/// Nobody chose another processor than the one that we choose.
pub(super) fn is_usual() -> bool {
    std::env::var_os("QEMU_CPU").is_none()
}

impl Machine {
    /// What a program is made for.
    pub fn of_program(program: &Path) -> Result<Self, RecordError> {
        super::launch::machine_of(program)
    }

    /// That of the program at this path.
    pub(super) fn of(path: &Path, header: &[u8]) -> Result<Self, RecordError> {
        let not = |what: String| RecordError::NotSupported { path: path.to_path_buf(), what };
        let &[0x7f, b'E', b'L', b'F', class, order, ..] = header else {
            return Err(not("it is no ELF file".into()));
        };
        if order != 1 {
            return Err(not("it is made for the order of bytes that has the highest first".into()));
        }
        let machine = header.get(18..20).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_le_bytes);
        match (machine, class) {
            (183, 2) => Ok(Self::Aarch64),
            (40, 1) => Ok(Self::Arm),
            (243, 2) => Ok(Self::Riscv64),
            (243, 1) => Ok(Self::Riscv32),
            _ => Err(not(format!("ELF machine {machine} is none of AArch64, AArch32 and RISC-V"))),
        }
    }

    /// The emulator for its programs.
    pub fn emulator(self) -> &'static str {
        match self {
            Self::Aarch64 => "qemu-aarch64",
            Self::Arm => "qemu-arm",
            Self::Riscv64 => "qemu-riscv64",
            Self::Riscv32 => "qemu-riscv32",
        }
    }

    /// What the emulator is told besides the plugin.
    pub(super) fn settings(self) -> &'static [&'static str] {
        match self {
            // What SVE and SME do with memory is not told, so that programs are not offered them.
            Self::Aarch64 => &["-cpu", "max,sve=off,sme=off"],
            _ => &[],
        }
    }

    /// Where Debian keeps the libraries of such programs.
    pub(super) fn libraries(self) -> &'static str {
        match self {
            Self::Aarch64 => "/usr/aarch64-linux-gnu",
            Self::Arm => "/usr/arm-linux-gnueabihf",
            Self::Riscv64 => "/usr/riscv64-linux-gnu",
            Self::Riscv32 => "/usr/riscv32-linux-gnu",
        }
    }

    /// The state that programs of users are executed in.
    pub(super) fn context(self) -> Context {
        let level = Some(0);
        match self {
            Self::Aarch64 => Context {
                level,
                security: Some(Security::NonSecure),
                is_aarch64: Some(true),
                is_handler: Some(false),
                // Who chose another processor may have chosen one with vectors of any length.
                modes: is_usual().then(Modes::default),
                ..Context::default()
            },
            Self::Arm => {
                Context { level, security: Some(Security::NonSecure), is_aarch64: Some(false), ..Context::default() }
            }
            Self::Riscv64 | Self::Riscv32 => Context { level, ..Context::default() },
        }
    }

    /// The instruction set, as long as nothing says otherwise.
    pub(super) fn isa(self) -> Isa {
        match self {
            Self::Aarch64 => Isa::A64,
            Self::Arm => Isa::A32,
            Self::Riscv64 => Isa::Rv64,
            Self::Riscv32 => Isa::Rv32,
        }
    }
}
