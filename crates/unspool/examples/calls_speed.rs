//! Speed of making the call tree of a Tarmac log: `cargo run --release --features measure --example calls_speed LOG`.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use unspool::analyze::calls::Call;
use unspool::call_forest;
use unspool::file::{FileOptions, TarmacFile};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: calls_speed LOG")?;
    let start = Instant::now();
    let mut log = TarmacFile::open(Path::new(&path), &FileOptions::default())?;
    let mut forest = call_forest();
    log.calls(&mut |_, _| {}, &mut forest)?;
    let mut count = 0_u64;
    let each = |_: usize, _: &Call| {
        count += 1;
        Ok(())
    };
    forest.each(0, |_| true, each)?;
    let (bytes, seconds) = (log.meter().bytes_read() as f64, start.elapsed().as_secs_f64());
    println!("{count} calls, {:.0} MB in {seconds:.2} s: {:.0} MB/s", bytes / 1e6, bytes / 1e6 / seconds);
    Ok(())
}
