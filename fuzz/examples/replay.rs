//! Checks every seed without a fuzzer: `cargo run --release --example replay`.

use std::path::Path;
use std::{fs, io};

fn main() -> io::Result<()> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for (name, check) in unspool_fuzz::TARGETS {
        let mut count = 0;
        for entry in fs::read_dir(seeds.join(name))? {
            let path = entry?.path();
            eprintln!("{}", path.display());
            check(&fs::read(path)?);
            count += 1;
        }
        println!("{name}: {count} seeds hold");
    }
    Ok(())
}
