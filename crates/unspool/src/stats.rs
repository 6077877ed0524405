//! Counts of the steps of anything that can be opened.

use std::ops::ControlFlow;

use unspool_analyze::stats::{Report, Stats};
use unspool_isa::{self as isa, Disassembler, Xlen, riscv_mnemonic};
use unspool_model::{Isa, SourceError, StepSource, TimeUnit};

use crate::meter::{Meter, OnProgress};

/// Steps between two reports of progress.
const STRIDE: u64 = 1 << 16;

/// Counts of the steps of a source.
#[derive(Debug)]
pub struct Counted {
    /// The counts.
    pub report: Report,
    /// Unit of times.
    pub unit: TimeUnit,
    /// Why there are no more steps.
    pub ended: Result<(), SourceError>,
}

/// Counts all steps of a source.
pub fn count_steps(source: &mut dyn StepSource, meter: &Meter, progress: &mut OnProgress<'_>) -> Counted {
    let mut arm = None;
    let mut stats = Stats::new(move |isa, opcode| mnemonic(arm.get_or_insert_with(Disassembler::new), isa, opcode));
    let mut stride = STRIDE;
    let ended = source.each(&mut |step| {
        stats.take(step);
        stride -= 1;
        if stride == 0 {
            stride = STRIDE;
            meter.report(progress);
        }
        ControlFlow::Continue(())
    });
    Counted { report: stats.finish(), unit: source.time_unit(), ended }
}

fn mnemonic(arm: &mut Disassembler, isa: Isa, opcode: u32) -> String {
    const UNKNOWN: &str = "unknown";
    let set = match isa {
        Isa::A64 => isa::Isa::A64,
        Isa::A32 => isa::Isa::A32,
        Isa::T32 => isa::Isa::T32,
        Isa::Rv32 => return riscv_mnemonic(Xlen::Rv32, opcode).unwrap_or(UNKNOWN).to_string(),
        Isa::Rv64 => return riscv_mnemonic(Xlen::Rv64, opcode).unwrap_or(UNKNOWN).to_string(),
    };
    let text = arm.text(set, 0, opcode);
    let name = text.split_ascii_whitespace().next().filter(|name| !name.starts_with(".inst"));
    name.unwrap_or(UNKNOWN).to_string()
}
