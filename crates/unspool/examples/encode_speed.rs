//! Speed of encoding a trace into a capture: `cargo run --release --features measure --example encode_speed TRACE [SETUP...]`.
//!
//! Does all that `unspool encode` does: reads, decompresses and encodes the trace, and writes the capture, once per
//! setup. Reports the best of several runs, and the time in it that a hypervisor stole. Where timestamps are traced,
//! instructions get times, a thousand per microsecond. Filters have a range with a fifth of the executed instructions.

#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use unspool::coresight::Protocol;
use unspool::coresight::etm4::unit::Settings;
use unspool::encode::{EncodeOptions, Encoded, encode};
use unspool::model::{BlockSink, BlockTrace, Coverage, Positions, SourceError, Step, StepSource, TimeUnit};
use unspool::{OpenSteps, OpenedSteps, open_steps};

/// Runs of each setup.
const RUNS: usize = 3;

/// Instructions per microsecond.
const MICROSECOND: u64 = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let trace = args.next().ok_or("usage: encode_speed TRACE [SETUP...]")?;
    let names: Vec<String> = args.collect();
    let mut counts = Counts::default();
    open(&trace)?.follow(&mut counts)?;
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    for (name, registers, change) in rows(counts.quantiles()).into_iter().filter(|(name, ..)| is_wanted(name)) {
        let mut settings = Settings::new(Protocol::Ete);
        registers.iter().for_each(|(name, value)| assert!(settings.set(name, *value), "{name}"));
        change(&mut settings);
        let runs: Result<Vec<_>, _> = (0..RUNS).map(|_| run_once(&trace, settings.clone())).collect();
        let best = runs?.into_iter().min_by(|one, other| one.0.total_cmp(&other.0));
        let (seconds, stolen, encoded) = best.unwrap_or_default();
        println!(
            "{name}: {:.1} million instructions per second, {:.2} bits each ({:.2} of {seconds:.2} seconds stolen)",
            encoded.instructions as f64 / seconds / 1e6,
            encoded.trace_bytes as f64 * 8.0 / encoded.instructions as f64,
            stolen
        );
    }
    Ok(())
}

fn open(trace: &str) -> Result<OpenedSteps, unspool::Error> {
    open_steps(Path::new(trace), &OpenSteps { is_followed: true, ..OpenSteps::default() })
}

/// Seconds, stolen seconds, and the totals.
fn run_once(trace: &str, settings: Settings) -> Result<(f64, f64, Encoded), Box<dyn Error>> {
    let directory = std::env::temp_dir().join(format!("unspool-encode-speed-{}", std::process::id()));
    let (start, stolen) = (Instant::now(), stolen_seconds());
    let has_times = settings.get("TRCCONFIGR").unwrap_or(0) & 0x800 != 0;
    let source = open(trace)?;
    let source: OpenedSteps = if has_times { Box::new(Stamped(source)) } else { source };
    let options = EncodeOptions {
        settings: settings.into(),
        formatted: false,
        buffer: None,
        time_unit: source.time_unit(),
        replace: false,
        events: None,
    };
    let (encoded, _) = encode(&directory, vec![source], options)?;
    let (seconds, stolen) = (start.elapsed().as_secs_f64(), stolen_seconds() - stolen);
    std::fs::remove_dir_all(&directory)?;
    Ok((seconds, stolen, encoded))
}

/// Name, registers, and settings without a register.
type Row = (&'static str, Vec<(&'static str, u64)>, fn(&mut Settings));

/// Each option by itself, and the usual ones together. Filters and events first with addresses outside the program,
/// then with those of the run: a range, and two instructions.
fn rows([low, high, start, stop]: [u64; 4]) -> Vec<Row> {
    let range = [("TRCACVR0", low), ("TRCACVR1", high)];
    let points = [("TRCACVR2", start), ("TRCACVR3", stop)];
    let event = [("TRCEVENTCTL0R", 2), ("TRCEVENTCTL1R", 1)];
    let none = |_: &mut Settings| {};
    vec![
        ("plain", vec![], none),
        ("return stack", vec![("TRCCONFIGR", 0x1001)], none),
        ("timestamps", vec![("TRCCONFIGR", 0x801)], none),
        ("timestamps, all", vec![("TRCCONFIGR", 0x801), ("TRCTSCTLR", 1)], none),
        ("cycle counts", vec![("TRCCONFIGR", 0x11)], none),
        ("context ids", vec![("TRCCONFIGR", 0xc1)], none),
        ("branch broadcast", vec![("TRCCONFIGR", 0x9)], none),
        ("source addresses", vec![], |settings| settings.source_addresses = true),
        ("guesses", vec![("TRCIDR8", 16)], |settings| settings.guess_seed = Some(1)),
        ("Q elements", vec![("TRCCONFIGR", 0x2001), ("TRCIDR0", 0x2800_8ea1)], |settings| settings.q_seed = Some(1)),
        ("overflows", vec![], |settings| settings.overflow_seed = Some(1)),
        ("a filter", vec![("TRCVIIECTLR", 0x1_0000), ("TRCACVR0", 0x1000), ("TRCACVR1", 0x1ffc)], none),
        ("an event", [&event[..], &[("TRCRSCTLR2", 0x4_0001), ("TRCACVR0", 0x1000)]].concat(), none),
        ("return stack, timestamps, context ids", vec![("TRCCONFIGR", 0x18c1)], none),
        ("include", [&[("TRCVIIECTLR", 1)][..], &range].concat(), none),
        ("exclude", [&[("TRCVIIECTLR", 0x1_0000)][..], &range].concat(), none),
        ("start and stop", [&[("TRCVISSCTLR", 0x8_0004), ("TRCVICTLR", 1)][..], &points].concat(), none),
        ("a level", vec![("TRCVICTLR", 0x10_0201)], none),
        ("broadcast of a range", [&[("TRCCONFIGR", 0x9), ("TRCBBCTLR", 0x101)][..], &range].concat(), none),
        ("event of an address", [&event[..], &[("TRCRSCTLR2", 0x4_0004)], &points].concat(), none),
        ("event of a range", [&event[..], &[("TRCRSCTLR2", 0x5_0001)], &range].concat(), none),
        ("single shot", [&event[..], &[("TRCRSCTLR2", 0x3_0001), ("TRCSSCCR0", 4)], &points].concat(), none),
        (
            "timestamps of a range",
            [&[("TRCCONFIGR", 0x801), ("TRCTSCTLR", 2), ("TRCRSCTLR2", 0x5_0001)][..], &range].concat(),
            none,
        ),
    ]
}

/// Seconds of all processors that a hypervisor stole, where the system reports it.
fn stolen_seconds() -> f64 {
    let all = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let stolen = all.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse::<f64>().ok());
    stolen.unwrap_or(0.0) / 100.0
}

/// Executions of each instruction, by address.
#[derive(Default)]
struct Counts(BTreeMap<u64, u64>);

impl Counts {
    /// Addresses below which 3, 5, 2 and 7 tenths of the instructions were executed.
    fn quantiles(&self) -> [u64; 4] {
        let all: u64 = self.0.values().sum();
        [3, 5, 2, 7].map(|tenths| {
            let mut before = 0;
            let mut counts = self.0.iter();
            let at = counts.find(|(_, count)| {
                before += **count;
                before > all * tenths / 10
            });
            at.map_or(0, |(address, _)| *address)
        })
    }
}

impl BlockSink for Counts {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        if let Some(instruction) = step.event.instruction() {
            *self.0.entry(instruction.address).or_default() += 1;
        }
        ControlFlow::Continue(())
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        let mut counts = vec![0; trace.blocks.len()];
        trace.executions.iter().for_each(|execution| counts[execution.number()] += 1);
        for (block, count) in trace.blocks.iter().zip(counts).filter(|(_, count)| *count > 0) {
            block.instructions().for_each(|(address, ..)| *self.0.entry(address).or_default() += count);
        }
        ControlFlow::Continue(())
    }
}

/// Source whose instructions get times.
struct Stamped(OpenedSteps);

impl StepSource for Stamped {
    fn coverage(&self) -> Coverage {
        self.0.coverage()
    }

    fn time_unit(&self) -> TimeUnit {
        self.0.time_unit()
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        self.0.each(take)
    }

    fn follow(&mut self, sink: &mut dyn BlockSink) -> Result<(), SourceError> {
        self.0.follow(&mut Stamper { sink, instructions: 0 })
    }
}

/// Sink that adds times.
struct Stamper<'f> {
    sink: &'f mut dyn BlockSink,
    instructions: u64,
}

impl BlockSink for Stamper<'_> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        let mut stamped = step.clone();
        stamped.time = Some(self.instructions / MICROSECOND);
        self.instructions += u64::from(step.event.instruction().is_some());
        self.sink.step(&stamped)
    }

    /// Splits the blocks into parts, each with a time of its own.
    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        let mut part = BlockTrace { executions: &[], ..*trace };
        let mut start = 0;
        for (end, execution) in (1..).zip(trace.executions) {
            let time = self.instructions / MICROSECOND;
            self.instructions += trace.blocks[execution.number()].opcodes.len() as u64;
            if self.instructions / MICROSECOND > time || end == trace.executions.len() {
                let (executions, next) = (&trace.executions[start..end], trace.continues_at(end - 1));
                part = BlockTrace { executions, next, time: Some(time), ..part };
                self.sink.blocks(&part)?;
                part.positions = Positions::From(part.first_position() + part.instructions() as u64);
                start = end;
            }
        }
        ControlFlow::Continue(())
    }
}
