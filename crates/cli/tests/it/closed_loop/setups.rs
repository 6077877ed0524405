//! Set-ups of the trace unit, each with an option of its own, and what of a run they show.

use unspool::coresight::Protocol;
use unspool::coresight::etm4::unit::Settings;
use unspool::coresight::trace_buffer::{BufferSettings, FillMode};

use super::Positions;

/// How the trace unit is set up, and what of a run it then shows.
pub(crate) struct Setup {
    /// Its name.
    pub(crate) name: &'static str,
    /// The registers, and what no register says.
    pub(crate) settings: Settings,
    /// In frames.
    pub(crate) formatted: bool,
    /// A buffer that is too small.
    pub(crate) buffer: Option<BufferSettings>,
    /// What is shown.
    pub(crate) shows: Shows,
}

/// What is shown of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shows {
    /// All of it.
    All,
    /// Nothing.
    Nothing,
    /// What is at these addresses, both included.
    Within(u64, u64),
    /// What is elsewhere.
    Without(u64, u64),
    /// From here to there, both included, again and again.
    Between(u64, u64),
    /// How it begins.
    Start,
    /// How it ends.
    End,
}

impl Setup {
    /// Are timestamps traced?
    pub(super) fn has_times(&self) -> bool {
        self.settings.config().timestamps
    }

    /// Does each block have one, if time passed?
    pub(super) fn has_all_times(&self) -> bool {
        self.has_times() && self.settings.get("TRCTSCTLR") == Some(1)
    }
}

/// All set-ups, for a trace with these places.
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
    // Where an overflow ends is known by the timestamp that is told there.
    let overflows = |mut settings: Settings| {
        settings.overflow_seed = Some(3);
        settings
    };
    let mut by_source = ete(&[]);
    by_source.source_addresses = true;
    let small = |fill| Some(BufferSettings { size: 8192, fill, ..BufferSettings::default() });
    let (low, high, start, stop) = (positions.low, positions.high, positions.start, positions.stop);
    let filtered = |register: (&str, u64), shows| (ete(&[&[register][..], &range, &points].concat()), shows);
    let rows = [
        ("ETE", (ete(&[]), Shows::All), false, None),
        ("return stack", (ete(&[(CONFIG, 1 | 1 << 12)]), Shows::All), false, None),
        ("timestamps", (ete(&[(CONFIG, 1 | 1 << 11), ("TRCTSCTLR", 1)]), Shows::All), false, None),
        ("few timestamps", (ete(&[(CONFIG, 1 | 1 << 11), ("TRCSYNCPR", 8)]), Shows::All), false, None),
        ("cycle counts", (ete(&[(CONFIG, 1 | 1 << 4), ("TRCCCCTLR", 64)]), Shows::All), false, None),
        ("context ids", (ete(&[(CONFIG, 1 | 0b11 << 6)]), Shows::All), false, None),
        ("branch broadcast", (ete(&[(CONFIG, 1 | 1 << 3)]), Shows::All), false, None),
        (
            "broadcast of a range",
            (ete(&[&[(CONFIG, 1 | 1 << 3), ("TRCBBCTLR", 0x101)][..], &range].concat()), Shows::All),
            false,
            None,
        ),
        ("guesses", (guesses(ete(&[]), false), Shows::All), false, None),
        ("guesses, return stack", (guesses(ete(&[(CONFIG, 1 | 1 << 12)]), true), Shows::All), false, None),
        ("source addresses", (by_source, Shows::All), false, None),
        ("all of it", (guesses(ete(&[(CONFIG, 0x18d9)]), true), Shows::All), true, None),
        ("ETMv4", (etm4(&[]), Shows::All), false, None),
        ("ETMv4, all of it", (guesses(etm4(&[(CONFIG, 0x18d9), ("TRCSYNCPR", 9)]), true), Shows::All), true, None),
        ("frames", (ete(&[]), Shows::All), true, None),
        ("overflow", (overflows(ete(&[(CONFIG, 1 | 1 << 11)])), Shows::All), false, None),
        ("overflow, return stack", (overflows(ete(&[(CONFIG, 0x1811), ("TRCTSCTLR", 1)])), Shows::All), true, None),
        ("overflow, guesses", (overflows(guesses(etm4(&[(CONFIG, 0x801)]), false)), Shows::All), false, None),
        ("synchronisations", (ete(&[("TRCSYNCPR", 8)]), Shows::All), false, None),
        ("include", filtered(("TRCVIIECTLR", 1), Shows::Within(low, high)), false, None),
        ("exclude", filtered(("TRCVIIECTLR", 0x1_0000), Shows::Without(low, high)), false, None),
        (
            "start and stop",
            {
                let points = [&[("TRCVISSCTLR", 0x8_0004), ("TRCVICTLR", 1)][..], &points].concat();
                (ete(&points), Shows::Between(start, stop))
            },
            false,
            None,
        ),
        ("users only", (ete(&[("TRCVICTLR", 0x20_0201)]), Shows::All), false, None),
        ("kernels only", (ete(&[("TRCVICTLR", 0x10_0201)]), Shows::Nothing), false, None),
        ("a circular buffer", (ete(&[("TRCSYNCPR", 8)]), Shows::End), false, small(FillMode::Circular)),
        ("one in frames", (ete(&[("TRCSYNCPR", 8)]), Shows::End), true, small(FillMode::Circular)),
        ("a buffer that fills", (ete(&[("TRCSYNCPR", 8)]), Shows::Start), false, small(FillMode::Fill)),
    ];
    let setup = |(name, (settings, shows), formatted, buffer)| Setup { name, settings, formatted, buffer, shows };
    rows.into_iter().map(setup).collect()
}

fn with(protocol: Protocol, registers: &[(&str, u64)]) -> Settings {
    let mut settings = Settings::new(protocol);
    for (name, value) in registers {
        assert!(settings.set(name, *value), "{name}");
    }
    settings
}
