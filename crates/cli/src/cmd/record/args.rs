//! Arguments of `record`.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::bail;
use unspool::astf::record::Level;
use unspool::convert::Format;

use crate::args::{ASTF_LEVELS, one_of, parse_context, parse_number};

/// Run a program or a whole system under QEMU, and write a trace of its execution
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Output file; its name selects the format [default: the name of the program with .astf for AArch64, .tarmac for
    /// AArch32, .stf for RISC-V]
    #[arg(short, long, value_name = "OUT")]
    pub(super) output: Option<PathBuf>,

    /// Replace output files that exist
    #[arg(long)]
    pub(super) force: bool,

    /// Start when a thread first reaches this address or function
    #[arg(long, value_name = "ADDR|SYMBOL")]
    pub(super) from: Option<String>,

    /// Then skip the first N instructions of each thread
    #[arg(long, value_name = "N", value_parser = parse_number, default_value = "0")]
    pub(super) skip: u64,

    /// Record at most N instructions of each thread; the program runs to its end, a system is stopped
    #[arg(long, value_name = "N", value_parser = parse_number)]
    pub(super) limit: Option<u64>,

    /// Record the values that instructions write to registers (Tarmac and STF); needs QEMU 9.0 or later with plugins
    #[arg(long)]
    pub(super) registers: bool,

    /// Plugin [default: libunspool_plugin.so beside unspool, or the one inside unspool]
    #[arg(long, value_name = "PATH")]
    pub(super) plugin: Option<PathBuf>,

    /// Emulator [default: qemu-aarch64, qemu-arm or qemu-riscv64; with --system qemu-system-aarch64]
    #[arg(long, value_name = "PATH")]
    pub(super) emulator: Option<PathBuf>,

    /// Record a whole AArch64 system, with all Exception levels; arguments after '--' are those of the emulator
    #[arg(long, help_heading = "Systems")]
    pub(super) system: bool,

    /// State that the emulator does not report: el=0 to 3 (where CPUs start), security=secure or nonsecure (below EL3),
    /// sp=0 or x (SP_EL0 or SP_ELx), vl=BITS (vectors)
    #[arg(long, value_name = "KEY=VALUE,...", value_parser = parse_context, requires = "system", help_heading = "Systems")]
    pub(super) assume: Option<unspool::model::Context>,

    /// Where the trace of a CPU cannot continue, start another file: OUT with -2 before its extension and so on
    #[arg(long, requires = "system", help_heading = "Systems")]
    pub(super) split: bool,

    /// Write a system event log: the code that each process executed, when it changed, and the threads of processes. The
    /// trace then has processes, threads and times. For Tarmac; needs QEMU 9.0 or later
    #[arg(long, value_name = "FILE", requires = "system", help_heading = "Systems")]
    pub(super) events: Option<PathBuf>,

    /// Level of ASTF traces [default: basicplus]. A Basic trace has no exceptions, and no instructions whose address is
    /// unknown: those are counted
    #[arg(long, value_name = "LEVEL", value_parser = one_of(ASTF_LEVELS), requires = "system", help_heading = "Systems")]
    pub(super) astf_level: Option<Level>,

    /// Program and its arguments; with --system, the arguments of the emulator
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(super) program: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  unspool record -o sort.astf -- ./sort 1000
  unspool record -o main.astf.xz --from main --limit 1000000 -- ./program
  unspool record -o run.zstf -- ./riscv-program
  unspool record --registers --emulator ~/qemu-10/build/qemu-aarch64 -o sort.tarmac -- ./sort 1000
  unspool record --system -o boot.astf -- -M virt -cpu cortex-a72 -nodefaults -nographic -kernel image.elf
  unspool record --system -o firmware.astf.xz --assume security=nonsecure,sp=x -- -M virt,secure=on -bios bl1.bin
  unspool record --system -o linux.tarmac.xz --limit 100000000 -- -M virt -cpu cortex-a57 -nographic -kernel Image
  unspool record --system -o linux.tarmac --events linux.events --from 0x400580 -- -M virt -smp 2 -kernel Image -initrd root

Emulator: QEMU in user mode. The package qemu-user of Debian 12 (QEMU 7.2) supports plugins; packages of newer user-mode \
emulators are built without them: build one (configure --enable-plugins \
--target-list=aarch64-linux-user,arm-linux-user,riscv64-linux-user), and name it with --emulator. QEMU 7.2 reports instructions, \
opcodes and the addresses of accesses, but not those of prefetches, cache maintenance and DC ZVA: ASTF is written without \
them, and they are counted. QEMU 9.0 and later also reports registers (--registers), 9.2 and later also the data of accesses, \
which Tarmac and STF then contain. SVE and SME are disabled, because their accesses are not reported; QEMU_CPU selects another \
processor.

Registers: --registers records all registers at the start, then the registers that each instruction writes: X0 to X30, SP, V0 \
to V31 and the flags in PSTATE; x1 to x31 and f0 to f31 of RISC-V; of AArch32, R0 to R14, D0 to D31 and the CPSR. The return \
value of a system call is recorded as a write of the SVC or ECALL instruction. After a signal is delivered, all registers are \
recorded again. Not recorded: SVE, SME and RISC-V vectors, system registers and CSRs, FPSR, FPCR and FPSCR, the branch type in \
PSTATE, and the IT state.

Files: each thread is written to its own file: OUT, then OUT with .1, .2 and so on before its extension. A Tarmac log contains \
all threads, as cores. ASTF is compressed with zlib, unless the name selects otherwise (.astf.xz, .astf.raw). Child processes \
are not recorded.

Crashes and signals: a program that crashes, or is stopped by Ctrl-C or SIGTERM, leaves a complete trace: every instruction that \
completed, then the signal as an exception with the address of the instruction that caused it, and a note with its number. That \
instruction did not complete, and is not in the trace. With several threads, the signal is recorded in the thread that most \
likely received it. If the emulator is killed, the trace ends with the last instruction that is known to be complete; if the \
disk is full, with the last one that was written.

Exit code: that of the program, or 128 plus the number of the signal that killed it; 2 if recording failed; 1 if the program \
exited with 0 but the trace has problems.

Whole systems: QEMU in system mode, the package qemu-system-arm (7.2 and 10.0 are tested). Its log of exceptions is combined with \
what it executes; -d and -D are reserved for that. ASTF is BasicPlus, unless --astf-level is basic. Each CPU has its own file, or \
is a core of the Tarmac log. A recording ends when the system ends (by PSCI or semihosting), by its monitor, by Ctrl-C, or when \
all CPUs have reached --limit. -icount shift=1,sleep=off makes runs repeatable; with several CPUs, QEMU 9 and later does not take \
it. The initial Exception level is taken from the first exception; if the system runs long without one, set it with --assume \
el=N. The Security state below EL3 is not reported: use --assume. PSCI calls that QEMU handles are recorded as exceptions that \
return to the next instruction.
Processes: with --events, an address space is a translation table (TTBR0_EL1) with its identifier. If the system writes thread \
numbers to CONTEXTIDR_EL1, as Linux with CONFIG_PID_IN_CONTEXTIDR does, a process has the number of the first of its threads that \
is recorded; otherwise processes are numbered. Times are counts of blocks that all CPUs have executed. 'encode --events' adds the \
log to a capture, so that it can be decoded without any image.
Without registers (QEMU 7.2), the stack pointer after a return to EL1 to EL3 is known only if SPSR_ELx was not written since the \
exception (--assume sp=), and prefetches, DC ZVA and cache and TLB maintenance by address have no address in ASTF: the trace \
ends there (exit code 1), continues after it in another file (--split), or is Basic and written without them (--astf-level basic).";

impl Args {
    /// Rejects `--registers` for a format without register values.
    pub(super) fn check_registers(&self, format: Format) -> anyhow::Result<()> {
        if self.registers && !has_values(format) {
            bail!("ASTF has no register values: --registers needs Tarmac or STF (-o OUT.tarmac, OUT.stf)");
        }
        Ok(())
    }

    /// Rejects `--events` for a format without times of this kind.
    pub(super) fn check_events(&self, format: Format) -> anyhow::Result<()> {
        if self.events.is_some() && format != Format::Tarmac {
            bail!("only Tarmac has processes and times in ticks: --events needs -o OUT.tarmac");
        }
        Ok(())
    }
}

/// Does the format have data and register values?
pub(super) fn has_values(format: Format) -> bool {
    format != Format::Astf
}
