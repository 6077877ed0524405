//! `view`: shows traces in a browser.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use unspool_view::Viewer;

use crate::args::ImageArgs;
use crate::diagnostic;
use crate::verdict::Verdict;

/// Show a trace in a browser
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Capture, ASTF file, STF file or Tarmac log; two of them are shown side by side
    #[arg(value_name = "TRACE", required = true, num_args = 1..=2)]
    traces: Vec<PathBuf>,

    #[command(flatten)]
    images: ImageArgs,

    /// Port on the loopback interface [default: any that is free]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Only print the address of the page
    #[arg(long)]
    no_open: bool,
}

const EXAMPLES: &str = "\
Examples:
  unspool view trace.astf --image program.elf
  unspool view snapshot/ --no-open
  unspool view expected.tarmac actual.astf       side by side, aligned where they are equal

The page shows a timeline of calls, instructions, source, call stack, registers and memory, packets and findings, which move together; \
'?' lists its keys. It is served on the loopback interface only, under an address with a random token, until the command is ended \
with Ctrl+C. A large trace is indexed while the page is already in use, and the index is kept as TRACE.unspool-index.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let codes = args.images.load()?;
    let viewer = Viewer::start(&args.traces, &codes, args.port)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}", viewer.address())?;
    out.flush()?;
    if !args.no_open && !open(viewer.address()) {
        diagnostic::note("no browser could be started: open the address in one");
    }
    diagnostic::note("the page is served until this command is ended with Ctrl+C");
    viewer.wait();
    Ok(Verdict::Clean)
}

/// Opens an address in the browser of the user. Returns whether something was started.
fn open(address: &str) -> bool {
    let (program, arguments): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("rundll32", &["url.dll,FileProtocolHandler"]),
        _ => ("xdg-open", &[]),
    };
    let mut command = Command::new(program);
    command.args(arguments).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}
