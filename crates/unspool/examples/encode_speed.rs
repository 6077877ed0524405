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
use unspool::model::{Step, StepSource};
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
    let rows = [
        ("plain", 0x1),
        ("return stack", 0x1001),
        ("return stack, timestamps, context ids", 0x18c1),
        ("cycle counts", 0x11),
    ];
    for (name, configuration) in rows {
        let mut settings = Settings::new(Protocol::Ete);
        settings.set("TRCCONFIGR", configuration);
        let time_unit = source.time_unit();
        let options = EncodeOptions { settings, formatted: false, buffer: None, time_unit };
        let mut encoder = Encoder::new(&directory, options)?;
        let start = Instant::now();
        for _ in 0..ALL / kept.len().max(1) {
            for step in &kept {
                encoder.take(step)?;
            }
        }
        let encoded = encoder.finish()?;
        let (seconds, bits) = (start.elapsed().as_secs_f64(), encoded.trace_bytes as f64 * 8.0);
        std::fs::remove_dir_all(&directory)?;
        println!(
            "{name}: {:.1} million instructions a second, {:.2} bits each",
            encoded.instructions as f64 / seconds / 1e6,
            bits / encoded.instructions as f64
        );
    }
    Ok(())
}
