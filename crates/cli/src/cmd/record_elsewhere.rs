//! `record` on systems where it cannot run: says so, whatever its arguments are.

use std::ffi::OsString;

use anyhow::bail;

use crate::verdict::Verdict;

/// Run a program or a whole system under QEMU, and write a trace of its execution (needs Linux)
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Arguments of `record`, which are described where it can run
    #[arg(value_name = "ARGUMENTS", num_args = 0.., trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(_: &Args) -> anyhow::Result<Verdict> {
    bail!(
        "'record' needs Linux, because it loads a plugin into QEMU; record there, or in WSL, and copy the trace: all \
         other verbs work here"
    )
}
