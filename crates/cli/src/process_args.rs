//! Options for captures of several processes: whose code was executed, and where its files are.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use unspool::SpaceOptions;
use unspool::capture::{ContextFormat, ImageSearch, Pid, ProcMaps};

use crate::diagnostic;

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Processes")]
pub(crate) struct ProcessArgs {
    /// Find the files of processes in a copy of the traced machine's file system. Can be repeated
    #[arg(long, value_name = "FOLDER")]
    sysroot: Vec<PathBuf>,

    /// Find the files of processes by their build ID, as in /usr/lib/debug or ~/.debug. Can be repeated
    #[arg(long, value_name = "FOLDER")]
    debug_dir: Vec<PathBuf>,

    /// Use files although their build ID differs from that of the traced program
    #[arg(long)]
    any_build_id: bool,

    /// Add the code of a process, from a copy of /proc/PID/maps. Without PID, the number at the end of the file's name is
    /// used. Can be repeated
    #[arg(long, value_name = "FILE[:PID]", value_parser = parse_maps)]
    maps: Vec<MapsArgument>,

    /// What the operating system writes to CONTEXTIDR: asid, asid+pid, asid+tid, tid or pid
    #[arg(long, value_name = "FORMAT", value_parser = parse_format)]
    context_id: Option<ContextFormat>,
}

#[derive(Debug, Clone)]
struct MapsArgument {
    path: PathBuf,
    pid: Pid,
}

impl ProcessArgs {
    /// Reads the files that are named.
    pub(crate) fn load(&self) -> anyhow::Result<SpaceOptions> {
        let mut events = Vec::new();
        for MapsArgument { path, pid } in &self.maps {
            let text = fs::read(path).with_context(|| format!("cannot open {}", path.display()))?;
            let maps = ProcMaps::parse(&path.display().to_string(), &text, *pid);
            maps.notes.iter().for_each(diagnostic::warning);
            events.extend(maps.events);
        }
        let search = ImageSearch {
            sysroots: self.sysroot.clone(),
            debug_dirs: self.debug_dir.clone(),
            ignore_build_ids: self.any_build_id,
            ..ImageSearch::default()
        };
        Ok(SpaceOptions { search, context_format: self.context_id, events })
    }
}

fn parse_format(name: &str) -> Result<ContextFormat, String> {
    let names = || ContextFormat::ALL.map(ContextFormat::name).join(", ");
    ContextFormat::from_name(name).ok_or_else(|| format!("not one of {}", names()))
}

/// `FILE:PID`, or a file whose name ends in the number.
fn parse_maps(text: &str) -> Result<MapsArgument, String> {
    if let Some((path, pid)) = text.rsplit_once(':')
        && let Ok(pid) = pid.parse()
    {
        return Ok(MapsArgument { path: path.into(), pid });
    }
    let stem = Path::new(text).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let digits = stem.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let pid = digits.parse().map_err(|_| "the process is not known: FILE:PID".to_string())?;
    Ok(MapsArgument { path: text.into(), pid })
}
