//! How fast the call tree of a Tarmac log is made: `cargo run --release --example calls_speed LOG`.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs::File;
use std::ops::ControlFlow;
use std::time::Instant;

use unspool::tarmac::read::{ReadOptions, Reader};
use unspool::{TarmacCalls, call_tree};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("which log?")?;
    let start = Instant::now();
    let mut reader = Reader::new(File::open(path)?, ReadOptions::default())?;
    let mut calls = TarmacCalls::new(reader.dialect());
    let mut tree = call_tree()?;
    reader.each(|position, line| {
        calls.line(position, line, &mut |_, call| tree.add(call));
        ControlFlow::Continue(())
    })?;
    calls.finish(&mut |_, call| tree.add(call));
    let mut count = 0_u64;
    tree.each(
        |_| true,
        |_, _| {
            count += 1;
            Ok(())
        },
    )?;
    let (bytes, seconds) = (reader.position().offset as f64, start.elapsed().as_secs_f64());
    println!("{count} calls, {:.0} MB in {seconds:.2} s: {:.0} MB/s", bytes / 1e6, bytes / 1e6 / seconds);
    Ok(())
}
