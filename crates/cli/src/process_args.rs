//! Options for captures of several processes: whose code was executed, and where its files are.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use unspool::SpaceOptions;
use unspool::capture::{Code, ContextFormat, ImageSearch, Jitdump, Kallsyms, Kcore, Pid, ProcMaps};

use crate::args::ImageArgs;
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

    /// Add the symbols of the kernel, from a copy of /proc/kallsyms. They also place its modules
    #[arg(long, value_name = "FILE")]
    kallsyms: Option<PathBuf>,

    /// Add the code of the kernel as it was in memory, from a copy of /proc/kcore. With --kallsyms, only its code is read
    #[arg(long, value_name = "FILE")]
    kcore: Option<PathBuf>,

    /// Add code that a program generated, from its jitdump file (jit-PID.dump). Can be repeated
    #[arg(long, value_name = "FILE")]
    jitdump: Vec<PathBuf>,

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
    /// Reads the files that say where code is.
    pub(crate) fn load(&self) -> anyhow::Result<SpaceOptions> {
        let (mut events, mut jitdumps) = (Vec::new(), Vec::new());
        for path in &self.jitdump {
            let dump = Jitdump::parse(&path.display().to_string(), &read(path)?)?;
            dump.notes.iter().for_each(diagnostic::warning);
            jitdumps.push(dump);
        }
        for MapsArgument { path, pid } in &self.maps {
            let maps = ProcMaps::parse(&path.display().to_string(), &read(path)?, *pid);
            maps.notes.iter().for_each(diagnostic::warning);
            events.extend(maps.events);
        }
        let search = ImageSearch {
            sysroots: self.sysroot.clone(),
            debug_dirs: self.debug_dir.clone(),
            ignore_build_ids: self.any_build_id,
            kernel: self.kernel()?.map(Arc::new),
            ..ImageSearch::default()
        };
        Ok(SpaceOptions { search, context_format: self.context_id, events, jitdumps })
    }

    /// The images of a program, and the code and symbols of the kernel.
    pub(crate) fn codes(&self, images: &ImageArgs) -> anyhow::Result<Vec<Code>> {
        let mut codes = images.load()?;
        let kernel = self.kernel()?;
        codes.extend(self.kernel_memory(kernel.as_ref())?);
        if let (Some(kallsyms), Some(path)) = (&kernel, &self.kallsyms) {
            kallsyms.notes.iter().for_each(diagnostic::warning);
            codes.push(kallsyms.code(&path.display().to_string()));
        }
        Ok(codes)
    }

    /// The code of the kernel as it was in memory.
    pub(crate) fn kernel_memory(&self, symbols: Option<&Kallsyms>) -> anyhow::Result<Option<Code>> {
        let Some(path) = &self.kcore else { return Ok(None) };
        let mut kcore = Kcore::open(path)?;
        let (code, notes) = match symbols {
            Some(kallsyms) => kcore.code(kallsyms, Kcore::DEFAULT_LIMIT),
            None => kcore.read_all(Kcore::DEFAULT_LIMIT),
        };
        notes.iter().for_each(diagnostic::warning);
        Ok(Some(code))
    }

    /// The copy of /proc/kallsyms.
    pub(crate) fn kallsyms_path(&self) -> Option<&Path> {
        self.kallsyms.as_deref()
    }

    /// The symbols of the kernel.
    pub(crate) fn kernel(&self) -> anyhow::Result<Option<Kallsyms>> {
        let parse = |path: &PathBuf| Ok(Kallsyms::parse(&path.display().to_string(), read(path)?));
        self.kallsyms.as_ref().map(parse).transpose()
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot open {}", path.display()))
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
