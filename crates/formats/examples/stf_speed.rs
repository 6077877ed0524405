//! How fast STF records and instructions are gone through: `cargo run --release --example stf_speed FILE.stf`.
//!
//! The body of the trace is repeated until it has 100 MB, so that what is measured is more than the first look at it.

#![allow(clippy::print_stdout)]

use std::ops::ControlFlow;
use std::time::Instant;

use unspool_formats::stf::lift::Follower;
use unspool_formats::stf::read::Reader;
use unspool_formats::stf::record::Record;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which plain .stf file?")?;
    let bytes = std::fs::read(path)?;
    let mut header = 0;
    let mut reader = Reader::plain(&bytes[..]);
    reader.each(|place, record| match record {
        Record::EndHeader => {
            header = place.offset as usize + 1;
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })?;
    let (header, body) = bytes.split_at(header);
    let times = 100_000_000 / body.len().max(1) + 1;
    let long = [header, &body.repeat(times)].concat();
    for _ in 0..3 {
        let start = Instant::now();
        let (mut records, mut check) = (0_u64, 0);
        Reader::plain(&long[..]).each(|_, record| {
            records += 1;
            check ^= u64::from(record.descriptor());
            ControlFlow::Continue(())
        })?;
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{records} records, {:.2} GB/s, {:.0} M/s ({check})",
            long.len() as f64 / seconds / 1e9,
            records as f64 / seconds / 1e6
        );
        let start = Instant::now();
        let mut check = 0;
        let mut follower = Follower::default();
        Reader::plain(&long[..]).each_instruction(&mut follower, |instruction| {
            check ^= instruction.pc ^ u64::from(instruction.opcode);
            ControlFlow::Continue(())
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let count = follower.instructions;
        println!(
            "{count} instructions, {:.2} GB/s, {:.0} M/s ({check:x})",
            long.len() as f64 / seconds / 1e9,
            count as f64 / seconds / 1e6
        );
    }
    Ok(())
}
