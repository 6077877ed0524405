//! `record`: runs a program under QEMU, and writes what it did as a trace.
//!
//! PROGRAM ─▶ steps of its threads ─▶ a sink for each ─▶ OUT, OUT.1 ...
//!
//! The program keeps the standard streams; what we have to say goes to the error stream. Files appear when they are
//! complete, or not at all.

mod signals;
mod sinks;
mod system;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::{Context, anyhow};
use unspool::astf::lower::LeftOut;
use unspool::convert::Format;
use unspool::model::StepSource;
use unspool::number::{grouped, many};
use unspool::record::{Machine, Options, Recording};

use self::signals::Signals;
use self::sinks::Sinks;
use crate::args::{AstfLevel, assumed, number_u64};
use crate::diagnostic::diagnostic as tell;
use crate::verdict::Verdict;

/// Run a program, or a whole system, under QEMU, and write a trace of what it does
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where the trace goes; the name tells the format (if not said, the name of the program with .astf for AArch64,
    /// .tarmac for AArch32, .stf for RISC-V)
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,

    /// Start when a thread first comes to this address, or to this function
    #[arg(long, value_name = "ADDR|SYMBOL")]
    from: Option<String>,

    /// Then leave out so many instructions of each thread
    #[arg(long, value_name = "N", value_parser = number_u64, default_value = "0")]
    skip: u64,

    /// Record at most so many instructions of each thread; the program goes on to its end, a system is ended
    #[arg(long, value_name = "N", value_parser = number_u64)]
    limit: Option<u64>,

    /// Tell what each instruction writes into registers, in Tarmac and STF; needs QEMU 9.0 or later with plugins
    #[arg(long)]
    registers: bool,

    /// The plugin (found beside unspool, if not said)
    #[arg(long, value_name = "PATH")]
    plugin: Option<PathBuf>,

    /// The emulator (qemu-aarch64, qemu-arm or qemu-riscv64; with --system qemu-system-aarch64, if not said)
    #[arg(long, value_name = "PATH")]
    emulator: Option<PathBuf>,

    /// Record a whole system of AArch64, with all Exception levels; what stands behind '--' is given to the emulator
    #[arg(long, help_heading = "Systems")]
    system: bool,

    /// What the emulator does not tell, and you know: el=0 to 3 (where CPUs start), security=secure or nonsecure
    /// (below EL3), sp=0 or x (SP_EL0 or SP_ELx), vl=BITS (vectors)
    #[arg(long, value_name = "KEY=VALUE,...", value_parser = assumed, requires = "system", help_heading = "Systems")]
    assume: Option<unspool::model::Context>,

    /// Where the trace of a CPU cannot be told further, go on in another file: OUT with -2 before its extension and so on
    #[arg(long, requires = "system", help_heading = "Systems")]
    split: bool,

    /// The level of ASTF traces (if not said, basicplus). A Basic one is written without exceptions, and without
    /// instructions whose address is not told: those are counted
    #[arg(long, value_name = "LEVEL", value_enum, requires = "system", help_heading = "Systems")]
    astf_level: Option<AstfLevel>,

    /// The program, and what it is given; with --system, what the emulator is given
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
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

The emulator is QEMU in user mode: the package qemu-user of Debian 12 (QEMU 7.2) has it with plugins. It tells
instructions, their opcodes, and where memory is accessed; not what is in memory or in registers, and not where prefetches,
operations on caches and DC ZVA go: ASTF is written without those, and says how many. SVE and SME are switched off, since
their accesses are not told; QEMU_CPU chooses another processor.
QEMU since 9.2 tells what is read and written too, which Tarmac and STF have then; since 9.0 it tells registers (--registers),
of programs and of systems. Packages of such emulators for programs take no plugins: build one (configure --enable-plugins
--target-list=aarch64-linux-user,arm-linux-user,riscv64-linux-user), and name it with --emulator. Told is all that there is
at the start, and then what each instruction writes: X0 to X30, SP, V0 to V31 and the PSTATE of flags; x1 to x31 and f0 to f31
of RISC-V; of AArch32, R0 to R14, D0 to D31 and the CPSR, where an instruction changes them. What a system call returns is
written by the call. Behind a signal all of them are told anew, as state. Not told: SVE, SME and vectors of RISC-V, system
registers and CSRs, FPSR, FPCR and FPSCR, the branch type in PSTATE, and the state of IT.
ASTF is stored with zlib, unless the name says otherwise (.astf.xz, .astf.raw): raw records have 32 bytes each.
Each thread is a trace of its own, OUT, OUT with .1 before its extension and so on; a Tarmac log has them all, as cores.
A program that forks is recorded without its children. One that is ended by Ctrl-C or SIGTERM leaves a complete trace up to there.

A system is recorded with QEMU in system mode, the package qemu-system-arm (7.2 and 10.0 are tested). What it logs of
exceptions is joined with what it executes; -d and -D are not to be had. ASTF is BasicPlus, unless --astf-level says basic.
Each CPU is a trace of its own. A system ends by itself (as by PSCI or semihosting), by its monitor, by Ctrl-C, or where all CPUs
reached --limit: what was told until then is a complete trace. -icount shift=1,sleep=off makes runs repeatable.
The level at the start is the one that the first exception comes from; if none comes for long, say --assume el=. Below EL3
nobody tells the Security state: --assume. Calls that the emulator serves (PSCI) are exceptions that lead behind the call.
QEMU since 9.0 tells what is in registers, and since 9.2 what is read and written, which Tarmac and STF have then. Without
registers (7.2) the stack pointer after a return to EL1 to EL3 is known only if nobody wrote SPSR_ELx since the exception
(--assume sp=), and prefetches, DC ZVA and maintenance of caches and translations by address cannot be told in ASTF: a trace
ends there, and is complete up to there (exit code 1), goes on behind it in another file (--split), or is Basic and written
without them (--astf-level basic).";

/// Records.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let signals = Signals::wait()?;
    if args.system {
        return system::run(args, &signals);
    }
    let (program, arguments) = args.program.split_first().context("say which program to record")?;
    let format = match args.output.as_deref().and_then(Format::from_path) {
        Some(format) => format,
        None => usual_format(Machine::of_program(Path::new(program))?),
    };
    refuse_registers(args, format)?;
    let options = Options {
        program: program.into(),
        arguments: arguments.to_vec(),
        from: args.from.clone(),
        skip: args.skip,
        limit: args.limit,
        data: has_values(format),
        registers: args.registers,
        emulator: args.emulator.clone(),
        plugin: args.plugin.clone(),
    };
    let mut recording = Recording::start(&options)?;
    signals.hand_on_to(recording.process());
    let output = args.output.clone().unwrap_or_else(|| usual_name(&options, format));
    let mut sinks = Sinks::new(&output, format, recording.coverage());
    recording.tell(&mut sinks)?;
    sinks.result()?;
    if let Some(unsure) = recording.unsure() {
        let blocks = many(unsure.blocks as u64, "block");
        tell(format_args!("{blocks} of code, taken for T32, may be A32: the first is at {:#x}", unsure.first));
    }
    signals.let_go();
    let status = recording.wait().context("waiting for the emulator")?;
    tell(format_args!("{}: {}", options.program.display(), ended(status)));
    let written = sinks.finish()?;
    if written.is_empty() {
        return Err(anyhow!("nothing was recorded: the program did not come to where recording starts"));
    }
    for trace in written {
        let name = trace.path.display();
        tell_left_out(&trace.path, &trace.left_out);
        tell(format_args!("{name}: {} instructions", grouped(trace.instructions)));
        if !trace.losses.is_empty() {
            tell(format_args!("{name}: lost, since the format cannot say it: {}", trace.losses));
        }
    }
    Ok(Verdict::Clean)
}

/// Has it records of what is in memory and in registers?
fn has_values(format: Format) -> bool {
    format != Format::Astf
}

/// Registers that nothing would hold are not asked for.
fn refuse_registers(args: &Args, format: Format) -> anyhow::Result<()> {
    if args.registers && !has_values(format) {
        return Err(anyhow!(
            "an ASTF trace has no registers: --registers is for Tarmac and STF (-o OUT.tarmac, OUT.stf)"
        ));
    }
    Ok(())
}

/// What the emulator does not tell enough of.
fn tell_left_out(path: &Path, left_out: &[LeftOut]) {
    let name = path.display();
    for LeftOut { kind, count, first } in left_out {
        let (count, kind) = (grouped(*count), kind.words());
        tell(format_args!(
            "{name}: left out, since the emulator does not tell where they go: {count} {kind}, the first at {first:#x}"
        ));
    }
}

fn ended(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("the program ended with exit code {code}"),
        None => format!("the program was ended by a signal ({status})"),
    }
}

/// The format that is written if nothing is said.
fn usual_format(machine: Machine) -> Format {
    match machine {
        Machine::Aarch64 => Format::Astf,
        Machine::Arm => Format::Tarmac,
        Machine::Riscv64 | Machine::Riscv32 => Format::Stf,
    }
}

/// The name of the program, here.
fn usual_name(options: &Options, format: Format) -> PathBuf {
    let mut name = options.program.file_name().unwrap_or_default().to_os_string();
    name.push(match format {
        Format::Astf => ".astf",
        Format::Stf => ".stf",
        Format::Tarmac => ".tarmac",
    });
    name.into()
}
