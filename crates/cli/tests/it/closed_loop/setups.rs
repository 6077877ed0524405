//! Setups of the trace unit, one per option, and the part of a run that each traces.

use unspool::coresight::Protocol;
use unspool::coresight::etm4::unit::Settings;
use unspool::coresight::trace_buffer::{BufferSettings, FillMode};
use unspool::encode::UnitSettings;

use super::Positions;

/// Setup of the trace unit, and the part of a run that it traces.
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    pub(crate) settings: UnitSettings,
    pub(crate) formatted: bool,
    /// Buffer that is too small for the run.
    pub(crate) buffer: Option<BufferSettings>,
    pub(crate) shown: Shown,
}

/// Traced part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    All,
    Nothing,
    /// Instructions at these addresses, both included.
    Within(u64, u64),
    /// Instructions at other addresses.
    Without(u64, u64),
    /// Each time from the first address to the second, both included.
    Between(u64, u64),
    Start,
    End,
}

impl Setup {
    /// Are timestamps traced?
    pub(super) fn has_times(&self) -> bool {
        self.settings.has_timestamps()
    }

    /// Does each block have a timestamp?
    pub(super) fn has_all_times(&self) -> bool {
        self.has_times() && (self.settings.get("TRCTSCTLR") == Some(1) || self.settings.get("ETMTSEVR") == Some(0x6f))
    }
}

/// All setups, for a trace with these positions.
pub(crate) fn setups(positions: &Positions) -> Vec<Setup> {
    const CONFIG: &str = "TRCCONFIGR";
    let ete = |registers: &[(&str, u64)]| with(Protocol::Ete, registers);
    let etm4 = |registers: &[(&str, u64)]| with(Protocol::Etm4, registers);
    let range = [("TRCACVR0", positions.low), ("TRCACVR1", positions.high)];
    let points = [("TRCACVR2", positions.start), ("TRCACVR3", positions.stop)];
    let guesses = |mut settings: Settings, return_stack: bool| {
        settings.set("TRCIDR8", 5);
        settings.set("TRCIDR0", if return_stack { 0x0800_0ea1 } else { 0x2800_0ea1 });
        settings.guess_seed = Some(7);
        settings
    };
    // The timestamp after an overflow shows where it ends.
    let overflows = |mut settings: Settings| {
        settings.overflow_seed = Some(3);
        settings
    };
    let mut by_source = ete(&[]);
    by_source.source_addresses = true;
    let small = |fill| Some(BufferSettings { size: 8192, fill, ..BufferSettings::default() });
    let (low, high, start, stop) = (positions.low, positions.high, positions.start, positions.stop);
    let filtered = |register: (&str, u64), shown| (ete(&[&[register][..], &range, &points].concat()), shown);
    let rows = [
        ("ETE", (ete(&[]), Shown::All), false, None),
        ("return stack", (ete(&[(CONFIG, 1 | 1 << 12)]), Shown::All), false, None),
        ("timestamps", (ete(&[(CONFIG, 1 | 1 << 11), ("TRCTSCTLR", 1)]), Shown::All), false, None),
        ("few timestamps", (ete(&[(CONFIG, 1 | 1 << 11), ("TRCSYNCPR", 8)]), Shown::All), false, None),
        ("cycle counts", (ete(&[(CONFIG, 1 | 1 << 4), ("TRCCCCTLR", 64)]), Shown::All), false, None),
        ("context ids", (ete(&[(CONFIG, 1 | 0b11 << 6)]), Shown::All), false, None),
        ("branch broadcast", (ete(&[(CONFIG, 1 | 1 << 3)]), Shown::All), false, None),
        (
            "broadcast of a range",
            (ete(&[&[(CONFIG, 1 | 1 << 3), ("TRCBBCTLR", 0x101)][..], &range].concat()), Shown::All),
            false,
            None,
        ),
        ("guesses", (guesses(ete(&[]), false), Shown::All), false, None),
        ("guesses, return stack", (guesses(ete(&[(CONFIG, 1 | 1 << 12)]), true), Shown::All), false, None),
        ("source addresses", (by_source, Shown::All), false, None),
        ("all of it", (guesses(ete(&[(CONFIG, 0x18d9)]), true), Shown::All), true, None),
        ("ETMv4", (etm4(&[]), Shown::All), false, None),
        ("ETMv4, all of it", (guesses(etm4(&[(CONFIG, 0x18d9), ("TRCSYNCPR", 9)]), true), Shown::All), true, None),
        ("frames", (ete(&[]), Shown::All), true, None),
        ("overflow", (overflows(ete(&[(CONFIG, 1 | 1 << 11)])), Shown::All), false, None),
        ("overflow, return stack", (overflows(ete(&[(CONFIG, 0x1811), ("TRCTSCTLR", 1)])), Shown::All), true, None),
        ("overflow, guesses", (overflows(guesses(etm4(&[(CONFIG, 0x801)]), false)), Shown::All), false, None),
        ("synchronizations", (ete(&[("TRCSYNCPR", 8)]), Shown::All), false, None),
        ("include", filtered(("TRCVIIECTLR", 1), Shown::Within(low, high)), false, None),
        ("exclude", filtered(("TRCVIIECTLR", 0x1_0000), Shown::Without(low, high)), false, None),
        (
            "start and stop",
            {
                let points = [&[("TRCVISSCTLR", 0x8_0004), ("TRCVICTLR", 1)][..], &points].concat();
                (ete(&points), Shown::Between(start, stop))
            },
            false,
            None,
        ),
        ("users only", (ete(&[("TRCVICTLR", 0x20_0201)]), Shown::All), false, None),
        ("kernels only", (ete(&[("TRCVICTLR", 0x10_0201)]), Shown::Nothing), false, None),
        ("a circular buffer", (ete(&[("TRCSYNCPR", 8)]), Shown::End), false, small(FillMode::Circular)),
        ("one in frames", (ete(&[("TRCSYNCPR", 8)]), Shown::End), true, small(FillMode::Circular)),
        ("a buffer that fills", (ete(&[("TRCSYNCPR", 8)]), Shown::Start), false, small(FillMode::Fill)),
    ];
    let setup = |(name, (settings, shown), formatted, buffer): (_, (Settings, _), _, _)| Setup {
        name,
        settings: settings.into(),
        formatted,
        buffer,
        shown,
    };
    rows.into_iter().map(setup).collect()
}

fn with(protocol: Protocol, registers: &[(&str, u64)]) -> Settings {
    let mut settings = Settings::new(protocol);
    for (name, value) in registers {
        assert!(settings.set(name, *value), "{name}");
    }
    settings
}
