//! Makes an ETE capture of a trace, as the hardware would have recorded it: `encode TRACE DIRECTORY`.

use std::error::Error;
use std::io::{Write, stdout};
use std::path::Path;

use unspool::coresight::Protocol;
use unspool::coresight::etm4::unit::Settings;
use unspool::encode::{EncodeOptions, encode};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, from, to] = &args[..] else { return Err("usage: encode TRACE DIRECTORY".into()) };
    run(from, to, &mut stdout().lock())
}

pub(crate) fn run(from: &str, to: &str, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let steps = unspool::open(from)?.open_steps()?;
    let settings = Settings::new(Protocol::Ete);
    let options = EncodeOptions {
        settings: settings.into(),
        formatted: false,
        buffer: None,
        time_unit: steps.time_unit(),
        replace: false,
        events: None,
    };
    let (encoded, _) = encode(Path::new(to), vec![steps], options)?;
    writeln!(out, "{} instructions in {} bytes of trace", encoded.instructions, encoded.trace_bytes)?;
    let decoded = unspool::open(to)?.instructions()?.filter(Result::is_ok).count();
    writeln!(out, "{decoded} instructions decoded from it")?;
    Ok(())
}
