//! How fast steps become a capture: `cargo run --release --example encode_speed TRACE [SET-UP...]`.
//!
//! The first steps of a trace are kept in memory, few enough to stay near the processor, and encoded again and again: this
//! is about encoding, and not about reading. Steps without a time get one, so that there are timestamps to send. The best of
//! several tries is told: others may use the machine too.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use unspool::coresight::Protocol;
use unspool::coresight::etm4::unit::Settings;
use unspool::encode::{EncodeOptions, Encoded, Encoder};
use unspool::model::{Step, StepSource, TimeUnit};
use unspool::{OpenSteps, open_steps};

/// Steps that are kept.
const KEPT: usize = 5_000;

/// Steps that are encoded, and how often.
const ALL: usize = 20_000_000;
const TRIES: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let path = words.next().ok_or("which trace?")?;
    let names: Vec<String> = words.collect();
    let run = Run::of(Path::new(&path))?;
    let turns = reference_loop();
    println!("a fixed loop: {turns:.0} million turns a second");
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    for (name, registers, change) in rows(run.places()).into_iter().filter(|(name, ..)| is_wanted(name)) {
        let mut settings = Settings::new(Protocol::Ete);
        registers.iter().for_each(|(name, value)| assert!(settings.set(name, *value), "{name}"));
        change(&mut settings);
        let tries: Result<Vec<_>, _> = (0..TRIES).map(|_| run.encode(settings.clone())).collect();
        let (seconds, encoded) = tries?.into_iter().min_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or_default();
        println!(
            "{name}: {:.1} million instructions a second, {:.2} bits each",
            encoded.instructions as f64 / seconds / 1e6,
            encoded.trace_bytes as f64 * 8.0 / encoded.instructions as f64
        );
    }
    Ok(())
}

/// A name, registers, and what no register says.
type Row = (&'static str, Vec<(&'static str, u64)>, fn(&mut Settings));

/// Each option by itself, and the usual ones together. Filters and events first with addresses where nothing is, then with
/// those of the run: a range, and two instructions.
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

/// How fast the machine is just now: each turn waits for the one before.
fn reference_loop() -> f64 {
    const TURNS: u64 = 200_000_000;
    let start = Instant::now();
    let mut state = std::hint::black_box(1_u64);
    for _ in 0..TURNS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    std::hint::black_box(state);
    TURNS as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// The steps that are kept.
struct Run {
    steps: Vec<Step>,
    time_unit: TimeUnit,
    directory: PathBuf,
}

impl Run {
    fn of(trace: &Path) -> Result<Self, Box<dyn Error>> {
        let mut source = open_steps(trace, &OpenSteps::default())?;
        let mut steps: Vec<Step> = Vec::new();
        source.each(&mut |step| {
            let mut kept = step.clone();
            kept.time = step.time.or(Some(steps.len() as u64));
            steps.push(kept);
            if steps.len() < KEPT { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let directory = std::env::temp_dir().join(format!("unspool-encode-speed-{}", std::process::id()));
        Ok(Self { steps, time_unit: source.time_unit(), directory })
    }

    /// Addresses of the run, in order.
    fn places(&self) -> [u64; 4] {
        let mut all: Vec<u64> =
            self.steps.iter().filter_map(|step| step.event.instruction()).map(|one| one.address).collect();
        all.sort_unstable();
        all.dedup();
        [3, 5, 2, 7].map(|part| all.get(all.len() * part / 10).copied().unwrap_or(0))
    }

    /// How many seconds it took, and what was made.
    fn encode(&self, settings: Settings) -> Result<(f64, Encoded), Box<dyn Error>> {
        let options = EncodeOptions { settings, formatted: false, buffer: None, time_unit: self.time_unit };
        let mut encoder = Encoder::new(&self.directory, options)?;
        let start = Instant::now();
        for _ in 0..ALL / self.steps.len().max(1) {
            for step in &self.steps {
                encoder.take(step)?;
            }
        }
        let encoded = encoder.finish()?;
        let seconds = start.elapsed().as_secs_f64();
        std::fs::remove_dir_all(&self.directory)?;
        Ok((seconds, encoded))
    }
}
