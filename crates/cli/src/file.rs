//! Trace files as the verbs meet them: what is in a file is told by its first bytes, never by its name.
//!
//! Comes in: a path. Goes out: a file that is open, of one of the formats.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;
use unspool::What;

use crate::astf::{Astf, is_standard};
use crate::stf::Stf;
use crate::tarmac::{Tarmac, TarmacArgs};

/// Which file.
#[derive(Debug, clap::Args)]
pub(crate) struct FileArgs {
    /// An ASTF or STF file or a Tarmac log ('-': standard input)
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) tarmac: TarmacArgs,
}

impl FileArgs {
    /// Opens it.
    pub(crate) fn open(&self, threads: Option<usize>) -> anyhow::Result<Option<Opened>> {
        open(&self.file, threads, &self.tarmac)
    }
}

/// A trace file.
pub(crate) enum Opened {
    Astf(Astf),
    Stf(Stf),
    Tarmac(Tarmac),
}

/// Opens a file or the standard input. `None`: it is a trace file, but damaged before the first record; that was told.
/// What a user says of a log makes a log of it.
pub(crate) fn open(path: &Path, threads: Option<usize>, tarmac: &TarmacArgs) -> anyhow::Result<Option<Opened>> {
    if tarmac.is_said() {
        return Ok(Some(Opened::Tarmac(Tarmac::open(path, tarmac)?)));
    }
    match look(path, threads, tarmac.hint) {
        Some(opened) => opened,
        // That it is none of them is for one of them to say.
        None => Ok(Astf::open(path, threads, Some(tarmac.hint))?.map(Opened::Astf)),
    }
}

/// Opens a file or the standard input as what the user says that it is. A capture is none of them.
pub(crate) fn open_as(
    what: What,
    path: &Path,
    threads: Option<usize>,
    tarmac: &TarmacArgs,
) -> anyhow::Result<Option<Opened>> {
    match what {
        What::Astf => Ok(Astf::open(path, threads, None)?.map(Opened::Astf)),
        What::Stf if is_pipe(path) => {
            let (name, pipe) = pipe(path).with_context(|| path.display().to_string())?;
            Ok(Stf::of(&name, pipe, threads)?.map(Opened::Stf))
        }
        What::Stf => Ok(Stf::open(path, threads)?.map(Opened::Stf)),
        _ => Ok(Some(Opened::Tarmac(Tarmac::open(path, tarmac)?))),
    }
}

/// As [`open`]; `None`: it is something else, or nothing.
pub(crate) fn open_if_trace(path: &Path) -> Option<anyhow::Result<Option<Opened>>> {
    if is_pipe(path) { peek(path, None, None) } else { look(path, None, "") }
}

fn look(path: &Path, threads: Option<usize>, hint: &str) -> Option<anyhow::Result<Option<Opened>>> {
    if is_pipe(path) {
        return peek(path, threads, Some(hint));
    }
    match What::at(path).ok()? {
        What::Astf => Some(Astf::open(path, threads, None).map(|file| file.map(Opened::Astf))),
        What::Stf => Some(Stf::open(path, threads).map(|file| file.map(Opened::Stf))),
        What::Tarmac => Some(Tarmac::open(path, &TarmacArgs::default()).map(|file| Some(Opened::Tarmac(file)))),
        _ => None,
    }
}

/// Looks into a pipe. What was read of it is lost to others, so that if only a trace file will do, which is what a hint
/// is for, ASTF says what is wrong with anything else.
fn peek(path: &Path, threads: Option<usize>, hint: Option<&str>) -> Option<anyhow::Result<Option<Opened>>> {
    let (name, pipe) = pipe(path).ok()?;
    let (what, pipe) = What::peek(pipe).ok()?;
    match what {
        What::Stf => Some(Stf::of(&name, Box::new(pipe), threads).map(|file| file.map(Opened::Stf))),
        What::Astf => Some(Astf::of(&name, Box::new(pipe), None, threads, None).map(|file| file.map(Opened::Astf))),
        What::Tarmac => {
            let file = Tarmac::of(&name, Box::new(pipe), &TarmacArgs::default());
            Some(file.map(|file| Some(Opened::Tarmac(file))))
        }
        _ if hint.is_some() => {
            Some(Astf::of(&name, Box::new(pipe), None, threads, hint).map(|file| file.map(Opened::Astf)))
        }
        _ => None,
    }
}

/// The standard input or another pipe, and what it is called.
pub(crate) fn pipe(path: &Path) -> io::Result<(String, Box<dyn Read + Send>)> {
    if is_standard(path) {
        return Ok(("standard input".to_string(), Box::new(io::stdin())));
    }
    Ok((path.display().to_string(), Box::new(File::open(path)?)))
}

/// Can it be read only once?
pub(crate) fn is_pipe(path: &Path) -> bool {
    is_standard(path) || path.metadata().is_ok_and(|about| !about.is_file() && !about.is_dir())
}
