//! The machine that a program is compiled for, from its ELF header, and the arguments of its emulator.

use std::env;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use unspool_model::{Context, Isa, Modes, Security};

use crate::error::RecordError;

/// The machine that a program is compiled for.
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

/// Maximum number of bytes of an ELF header.
const HEADER: u64 = 64;

/// The path of a program; a bare name is searched as a shell does.
pub(crate) fn find_program(program: &Path) -> PathBuf {
    if program.components().count() != 1 || program.is_file() {
        return program.to_path_buf();
    }
    let paths = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&paths).map(|folder| folder.join(program)).find(|path| path.is_file());
    found.unwrap_or_else(|| program.to_path_buf())
}

/// Whether the processor is the default one: the user may choose another.
pub(crate) fn is_default_processor() -> bool {
    env::var_os("QEMU_CPU").is_none()
}

impl Machine {
    /// The machine of a program; a bare name is searched as a shell does.
    pub fn of_program(program: &Path) -> Result<Self, RecordError> {
        let path = find_program(program);
        let mut header = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(HEADER).read_to_end(&mut header));
        read.map_err(|source| RecordError::Program { path: path.clone(), source })?;
        Self::of_header(&path, &header)
    }

    /// The machine of the program at this path, with these first bytes.
    pub(crate) fn of_header(path: &Path, header: &[u8]) -> Result<Self, RecordError> {
        let not = |what: String| RecordError::NotSupported { path: path.to_path_buf(), what };
        let &[0x7f, b'E', b'L', b'F', class, order, ..] = header else {
            return Err(not("not an ELF file".into()));
        };
        if order != 1 {
            return Err(not("big-endian programs are not supported".into()));
        }
        let machine = header.get(18..20).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_le_bytes);
        match (machine, class) {
            (183, 2) => Ok(Self::Aarch64),
            (40, 1) => Ok(Self::Arm),
            (243, 2) => Ok(Self::Riscv64),
            (243, 1) => Ok(Self::Riscv32),
            _ => Err(not(format!("ELF machine {machine} is not AArch64, AArch32 or RISC-V"))),
        }
    }

    /// The emulator for its programs.
    pub fn emulator(self) -> &'static str {
        self.row().0
    }

    /// The folder of Debian with libraries for such programs.
    pub(crate) fn libraries(self) -> &'static str {
        self.row().1
    }

    /// The instruction set; of AArch32, the one that programs start in.
    pub(crate) fn isa(self) -> Isa {
        self.row().2
    }

    const fn row(self) -> (&'static str, &'static str, Isa) {
        match self {
            Self::Aarch64 => ("qemu-aarch64", "/usr/aarch64-linux-gnu", Isa::A64),
            Self::Arm => ("qemu-arm", "/usr/arm-linux-gnueabihf", Isa::A32),
            Self::Riscv64 => ("qemu-riscv64", "/usr/riscv64-linux-gnu", Isa::Rv64),
            Self::Riscv32 => ("qemu-riscv32", "/usr/riscv32-linux-gnu", Isa::Rv32),
        }
    }

    /// Whether this system call sends a signal: kill, tkill, tgkill, and their variants with information.
    pub(crate) fn sends_signal(self, call: i64) -> bool {
        match self {
            Self::Arm => matches!(call, 37 | 178 | 238 | 268 | 363),
            Self::Aarch64 | Self::Riscv64 | Self::Riscv32 => matches!(call, 129..=131 | 138 | 240),
        }
    }

    /// Arguments of the emulator besides the plugin.
    pub(crate) fn arguments(self) -> &'static [&'static str] {
        match self {
            // The emulator does not report accesses of SVE and SME: programs do not get them.
            Self::Aarch64 => &["-cpu", "max,sve=off,sme=off"],
            _ => &[],
        }
    }

    /// The state that user programs are executed in.
    pub(crate) fn context(self) -> Context {
        let level = Some(0);
        match self {
            Self::Aarch64 => Context {
                level,
                security: Some(Security::NonSecure),
                is_aarch64: Some(true),
                is_handler: Some(false),
                // Another processor may have vectors of any length.
                modes: is_default_processor().then(Modes::default),
                ..Context::default()
            },
            Self::Arm => {
                Context { level, security: Some(Security::NonSecure), is_aarch64: Some(false), ..Context::default() }
            }
            Self::Riscv64 | Self::Riscv32 => Context { level, ..Context::default() },
        }
    }
}
