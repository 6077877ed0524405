//! Measures tables of a trace: `cargo run --release -p unspool-tables --features measure --example tables_speed -- TRACE OUT [TABLE...]`.
//!
//! Prints the time without writing and with it, and the size of each table.

#![allow(clippy::print_stdout, reason = "a program that measures")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use arrow_array::RecordBatch;
use unspool_tables::{BlockBatch, Extraction, Table, TakeBatch, write_tables};

/// Counts rows.
#[derive(Default)]
struct Count(u64);

impl TakeBatch for Count {
    fn batch(&mut self, _: Table, _: u32, batch: RecordBatch) -> Result<(), unspool_tables::Error> {
        self.0 += batch.num_rows() as u64;
        Ok(())
    }

    fn blocks(&mut self, batch: BlockBatch) -> Result<(), unspool_tables::Error> {
        self.0 += batch.len() as u64;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (trace, out) = (arguments.next().ok_or("no trace")?, arguments.next().ok_or("no output")?);
    let named: Vec<Table> =
        arguments.map(|name| Table::named(&name).ok_or("no such table")).collect::<Result<_, _>>()?;
    let tables = if named.is_empty() { Table::ALL.to_vec() } else { named };
    let trace = unspool::open(trace)?;

    let (start, mut count) = (Instant::now(), Count::default());
    let mut extraction = Extraction::new(tables.iter().copied(), &mut count);
    for mut source in trace.step_sources()? {
        extraction.trace(&source.name, &mut *source.steps, &source.program)??;
    }
    extraction.finish()?;
    println!("{} rows in {:.2} s", count.0, start.elapsed().as_secs_f64());

    let start = Instant::now();
    write_tables(&trace, &out, &tables)?;
    println!("written in {:.2} s", start.elapsed().as_secs_f64());
    for table in tables {
        let files = std::fs::read_dir(Path::new(&out).join(table.name()))?;
        let bytes: u64 = files.map(|file| file.and_then(|file| file.metadata()).map_or(0, |data| data.len())).sum();
        println!("{:>14} bytes of {}", bytes, table.name());
    }
    Ok(())
}
