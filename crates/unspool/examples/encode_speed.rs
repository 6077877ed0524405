//! How fast steps become a capture: `cargo run --release --example encode_speed TRACE`.
//!
//! The first steps of a trace are kept in memory, few enough to stay near the processor, and encoded again and again: this
//! is about encoding, and not about reading.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use unspool::coresight::Protocol;
use unspool::coresight::etm4::unit::Settings;
use unspool::encode::{EncodeOptions, Encoder};
use unspool::model::{Step, StepSource, TimeUnit};
use unspool::{OpenSteps, open_steps};

/// Steps that are kept.
const KEPT: usize = 5_000;

/// Steps that are encoded.
const ALL: usize = 40_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("which trace?")?;
    let mut source = open_steps(Path::new(&path), &OpenSteps::default())?;
    let mut kept: Vec<Step> = Vec::new();
    source.each(&mut |step| {
        kept.push(step.clone());
        if kept.len() < KEPT { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    let directory = std::env::temp_dir().join(format!("unspool-encode-speed-{}", std::process::id()));
    let turns = reference_loop();
    println!("a fixed loop: {turns:.0} million turns a second");
    let source = Source { steps: &kept, time_unit: source.time_unit() };
    for (name, registers, change) in ROWS {
        let mut settings = Settings::new(Protocol::Ete);
        registers.iter().for_each(|(name, value)| assert!(settings.set(name, *value), "{name}"));
        change(&mut settings);
        source.encode(name, settings, &directory)?;
    }
    Ok(())
}

/// A name, registers, and what no register says.
type Row = (&'static str, &'static [(&'static str, u64)], fn(&mut Settings));

/// Each option by itself, and the usual ones together.
const ROWS: [Row; 13] = [
    ("plain", &[], |_| {}),
    ("return stack", &[("TRCCONFIGR", 0x1001)], |_| {}),
    ("timestamps", &[("TRCCONFIGR", 0x801)], |_| {}),
    ("timestamps, all", &[("TRCCONFIGR", 0x801), ("TRCTSCTLR", 1)], |_| {}),
    ("cycle counts", &[("TRCCONFIGR", 0x11)], |_| {}),
    ("context ids", &[("TRCCONFIGR", 0xc1)], |_| {}),
    ("branch broadcast", &[("TRCCONFIGR", 0x9)], |_| {}),
    ("source addresses", &[], |settings| settings.source_addresses = true),
    ("guesses", &[("TRCIDR8", 16)], |settings| settings.guess_seed = Some(1)),
    ("Q elements", &[("TRCCONFIGR", 0x2001), ("TRCIDR0", 0x2800_8ea1)], |settings| settings.q_seed = Some(1)),
    ("a filter", &[("TRCVIIECTLR", 0x1_0000), ("TRCACVR0", 0x1000), ("TRCACVR1", 0x1ffc)], |_| {}),
    ("an event", &[("TRCEVENTCTL0R", 2), ("TRCEVENTCTL1R", 1), ("TRCRSCTLR2", 0x4_0001), ("TRCACVR0", 0x1000)], |_| {}),
    ("return stack, timestamps, context ids", &[("TRCCONFIGR", 0x18c1)], |_| {}),
];

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

struct Source<'s> {
    steps: &'s [Step],
    time_unit: TimeUnit,
}

impl Source<'_> {
    fn encode(&self, name: &str, settings: Settings, directory: &Path) -> Result<(), Box<dyn Error>> {
        let options = EncodeOptions { settings, formatted: false, buffer: None, time_unit: self.time_unit };
        let mut encoder = Encoder::new(directory, options)?;
        let start = Instant::now();
        for _ in 0..ALL / self.steps.len().max(1) {
            for step in self.steps {
                encoder.take(step)?;
            }
        }
        let encoded = encoder.finish()?;
        let (seconds, bits) = (start.elapsed().as_secs_f64(), encoded.trace_bytes as f64 * 8.0);
        std::fs::remove_dir_all(directory)?;
        println!(
            "{name}: {:.1} million instructions a second, {:.2} bits each",
            encoded.instructions as f64 / seconds / 1e6,
            bits / encoded.instructions as f64
        );
        Ok(())
    }
}
