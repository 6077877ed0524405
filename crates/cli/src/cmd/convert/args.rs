//! Arguments of `convert`, and the options of the library that they select.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use unspool::FileKind;
use unspool::astf::record::{Level, Storage};
use unspool::astf::write::WriteOptions;
use unspool::container::{CompressOptions, Container};
use unspool::convert::Format;
use unspool::convert::native::NativeOutput;
use unspool::file::is_standard;
use unspool::stf::{self, builder::StfVersion};
use unspool::target::{astf_storage, log_container};
use unspool::tarmac::dialect::Dialect;
use unspool::tarmac::restyle::Style;

use crate::args::{
    ASTF_LEVELS, BareArgs, Choice, ForceArgs, ImageArgs, JobsArgs, OutputFormat, is_number, one_of, parse_context,
};
use crate::file::{TarmacArgs, parse_dialect};
use crate::process_args::ProcessArgs;
use crate::selection_args::SelectionArgs;

/// Convert a trace to another format, or its records to another container, and report what is lost
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// ASTF file, STF file, Tarmac log ('-': standard input), snapshot directory, trace package or a .zip of either. With
    /// --protocol: a bare buffer
    #[arg(value_name = "IN")]
    pub(super) input: PathBuf,

    /// Output file, the same as -o ('-': standard output). It appears when it is complete
    #[arg(value_name = "OUT", required_unless_present = "output")]
    pub(super) out: Option<PathBuf>,

    /// Output file
    #[arg(short, long, value_name = "FILE", conflicts_with = "out")]
    pub(super) output: Option<PathBuf>,

    #[command(flatten)]
    pub(super) force: ForceArgs,

    /// Format of OUT, and how it is stored [default: by the name of OUT]
    #[arg(long, value_name = "FORMAT", value_parser = one_of(OutputFormat::CHOICES))]
    pub(super) to: Option<OutputFormat>,

    /// Format of IN [default: auto-detected]
    #[arg(long, value_name = "FORMAT", value_parser = one_of(INPUT_FORMATS))]
    pub(super) from: Option<FileKind>,

    /// Source of a capture: its trace id or its name
    #[arg(long, value_name = "ID", help_heading = "Another format")]
    pub(super) source: Option<String>,

    /// Only this core: its number, counted from 0 in order of appearance, or its name in a Tarmac log. With --protocol: the
    /// type of the core that was traced, such as Cortex-M3
    #[arg(long, value_name = "CORE", help_heading = "Another format")]
    pub(super) core: Option<String>,

    /// Write one file per piece without a gap: OUT-0001, OUT-0002, ...
    #[arg(long, help_heading = "Another format")]
    pub(super) split: bool,

    /// With --split: write at most N files
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "split", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Another format")]
    pub(super) pieces: u64,

    /// Another trace of the same run, which adds the addresses of accesses and other facts that IN lacks
    #[arg(long, value_name = "TRACE", help_heading = "Another format")]
    pub(super) accesses: Option<PathBuf>,

    /// Core of the other trace
    #[arg(long, value_name = "N", default_value_t = 0, requires = "accesses", help_heading = "Another format")]
    pub(super) accesses_core: u32,

    /// State that IN does not contain: el=0 to 3, security=secure or nonsecure, sp=0 or x (SP_EL0 or SP_ELx), vl=BITS
    /// (vectors)
    #[arg(long, value_name = "KEY=VALUE,...", value_parser = parse_context, help_heading = "Another format")]
    pub(super) assume: Option<unspool::model::Context>,

    /// Level of an ASTF trace [default: basicplus if IN contains exceptions]
    #[arg(long, value_name = "LEVEL", value_parser = one_of(ASTF_LEVELS), help_heading = "Another format")]
    pub(super) astf_level: Option<Level>,

    /// Omit the disassembly from a Tarmac log
    #[arg(long, help_heading = "Another format")]
    pub(super) no_disassembly: bool,

    #[command(flatten)]
    pub(super) images: ImageArgs,

    #[command(flatten)]
    pub(super) selection: SelectionArgs,

    #[command(flatten)]
    pub(super) processes: ProcessArgs,

    #[command(flatten)]
    pub(super) bare: BareArgs,

    /// Version of STF to write
    #[arg(long, value_name = "VERSION", value_parser = one_of(STF_VERSIONS))]
    pub(super) stf_version: Option<StfVersion>,

    /// Producer of the Tarmac log IN: rev3, fast-models, gem5, cortex-m0, cortex-m3, cortex-r5 or other [default:
    /// auto-detected]
    #[arg(long, value_name = "NAME", value_parser = parse_dialect, help_heading = "Tarmac")]
    pub(super) dialect: Option<Dialect>,

    /// Style of the Tarmac log to write [default: that of IN, or rev3 if IN is not a log]
    #[arg(long, value_name = "STYLE", value_parser = one_of(STYLES), help_heading = "Tarmac")]
    pub(super) to_dialect: Option<Style>,

    /// Instructions are Thumb where their line names no instruction set
    #[arg(long, help_heading = "Tarmac")]
    pub(super) implicit_thumb: bool,

    /// Accesses are those of a big-endian core
    #[arg(long, help_heading = "Tarmac")]
    pub(super) big_endian: bool,

    /// Only the first line of an access has LD or ST
    #[arg(long, help_heading = "Tarmac")]
    pub(super) continuations: bool,

    /// Report losses and the result as JSON, on standard error
    #[arg(long)]
    pub(super) json: bool,

    /// Reject a log that calls a load a write, instead of taking it as a read with a warning: exit code 1
    #[arg(long)]
    pub(super) strict: bool,

    /// Write nothing if anything would be lost: exit code 1
    #[arg(long)]
    pub(super) deny_loss: bool,

    /// Keep what was converted before the first damage in IN
    #[arg(long)]
    pub(super) keep_damaged: bool,

    #[command(flatten)]
    pub(super) jobs: JobsArgs,

    /// Compression level: 0 is fast, 9 is small (zstd: up to 19)
    #[arg(long, value_name = "L", value_parser = clap::value_parser!(u32).range(0..=19))]
    pub(super) compression: Option<u32>,

    /// Instructions per chunk of a .zstf file [default: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) chunk: Option<u64>,
}

const INPUT_FORMATS: &[Choice<FileKind>] = &[
    ("capture", "Snapshot directory or trace package, or a .zip of either", FileKind::Capture),
    ("astf", "ASTF", FileKind::Astf),
    ("stf", "STF", FileKind::Stf),
    ("tarmac", "Tarmac", FileKind::Tarmac),
];

const STYLES: &[Choice<Style>] = &[
    ("rev3", "Tarmac Text Rev 3: ES lines and memory pictures", Style::Rev3),
    ("fast-models", "Style of Fast Models: IT lines and accesses", Style::FastModels),
];

const STF_VERSIONS: &[Choice<StfVersion>] =
    &[("1.3", "Published specification", StfVersion::V1_3), ("1.6", "Current tools", StfVersion::V1_6)];

const EXAMPLES: &str = "\
Examples:
  unspool convert trace.astf trace.astf.xz
  unspool convert trace.astf.xz trace.astf.gz --compression 9
  unspool convert small.astf - --to raw | unspool dump -
  unspool convert trace.stf trace.zstf
  unspool convert trace.zstf trace.stf.xz -j 2
  unspool convert trace.zstf old.stf --stf-version 1.3 --deny-loss
  unspool convert model.tarmac -o rev3.tarmac.xz --to-dialect rev3
  unspool convert run.tarmac run.astf.xz
  unspool convert run.astf run.zstf
  unspool convert snapshot/ run.tarmac --source 0x10
  unspool convert snapshot/ run.stf --source 0x10 --split
  unspool convert snapshot/ run.astf --accesses model.tarmac
  unspool convert snapshot/ user.tarmac --source 0x10 --mode user
  unspool convert trbe.bin run.tarmac --protocol ete --image app.elf

Without --to, the name of OUT selects the format, and a name without a known extension is rejected. ASTF: .astf or .raw is RAW; .xz or .lzma is LZMA; .gz, .zz, .z or .zlib is \
zlib. The format keeps the header uncompressed in all cases, so xz and gzip do not open such files. \
STF: .stf has plain records; .zstf has chunks and an index; .gz, .xz and .zst are gzip, xz and zstd files. \
Tarmac: .gz, .xz and .zst are gzip, xz and zstd files.
Within a format, records are copied byte for byte, and so is the header of ASTF except for the storage flags. An STF file \
that is already in the requested container is copied. --stf-version rewrites the version and the width of event numbers, drops what \
the version lacks, with a count, and adds unspool to the header as generator. Lines of a Tarmac log are unchanged unless \
--to-dialect selects another style: then losses are counted, and lines that the style does not have are unchanged. \
To another format, a trace is converted instruction by instruction. What the format cannot represent is dropped, counted and \
reported; if the result would be an incorrect trace, conversion stops and reports the position. docs/conversions.md lists all pairs. \
With a selection, a trace is converted instruction by instruction also within a format, and there is a gap where instructions \
were left out; 'unspool slice' copies records instead. A capture has gaps where execution was not traced, and some formats have none: --split writes the pieces between gaps to \
separate files. ASTF requires the addresses of memory accesses, which instruction trace does not contain: to convert a capture to \
ASTF, add --accesses. Tarmac and STF need no such trace.
Some producers, such as gem5, mark the accesses of some loads as writes; unspool follows the opcode and warns with a count. \
Nothing is written for a damaged file, unless --keep-damaged. Output to a pipe cannot be undone: the exit code shows whether \
it is complete.
Exit codes: 0 success, 1 IN is damaged, has lines that cannot be parsed, or a loss was denied, 2 the command failed.";

impl Args {
    /// The type of the core of a bare buffer.
    pub(super) fn core_type(&self) -> Option<&str> {
        let core = self.core.as_deref().filter(|_| self.bare.is_given());
        core.filter(|core| !is_number(core))
    }

    pub(super) fn tarmac(&self) -> TarmacArgs {
        TarmacArgs { dialect: self.dialect, implicit_thumb: self.implicit_thumb, hint: "--from tarmac" }
    }

    /// Output file.
    pub(super) fn output(&self) -> &Path {
        // The parser requires one of them.
        self.output.as_deref().or(self.out.as_deref()).unwrap_or_else(|| Path::new("-"))
    }

    /// Rejects a name of OUT that selects no format.
    pub(super) fn check_format(&self) -> anyhow::Result<()> {
        let output = self.output();
        if self.to.is_some() || is_standard(output) || Format::from_path(output).is_some() {
            return Ok(());
        }
        bail!(
            "{}: the name has no known extension; use .astf, .stf, .zstf, .tarmac or .log, followed by .gz, .xz or .zst for a \
             compressed file, or select the format with --to: astf, stf, zstf, tarmac, astf.gz, astf.xz, stf.gz, stf.xz, \
             stf.zst, tarmac.gz, tarmac.xz or tarmac.zst",
            output.display()
        )
    }

    /// Whether records are copied: within a format, all of them.
    pub(super) fn is_native(&self, from: Option<Format>, to: Format) -> bool {
        from == Some(to) && self.selection.is_all()
    }

    pub(super) fn native(&self) -> NativeOutput<'_> {
        NativeOutput {
            path: self.output(),
            keep_damaged: self.keep_damaged,
            deny_loss: self.deny_loss,
            rejects_corrections: false,
        }
    }

    /// Output format: as given, by the name of OUT, or that of IN.
    pub(super) fn format(&self, input: Option<Format>) -> anyhow::Result<Format> {
        let format = self.to.map(OutputFormat::format).or_else(|| Format::from_path(self.output())).or(input);
        format.with_context(|| self.no_default("the format", "astf, stf, zstf or tarmac"))
    }

    pub(super) fn astf_storage(&self) -> anyhow::Result<Storage> {
        let storage = self.to.map_or_else(|| astf_storage(self.output()), OutputFormat::astf);
        storage.with_context(|| self.no_default("the storage of records", "raw, lzma or zlib"))
    }

    pub(super) fn stf_storage(&self) -> Option<stf::Storage> {
        self.to.map_or_else(|| stf::Storage::from_path(self.output()), OutputFormat::stf)
    }

    pub(super) fn log_container(&self) -> Container {
        self.to.and_then(OutputFormat::tarmac).unwrap_or_else(|| log_container(self.output()))
    }

    pub(super) fn no_default(&self, missing: &str, choices: &str) -> String {
        format!("{}: the name does not select {missing}; use --to {choices}", self.output().display())
    }

    pub(super) fn astf_options(&self) -> anyhow::Result<WriteOptions> {
        if let Some(level) = self.compression.filter(|level| *level > 9) {
            bail!("--compression {level}: LZMA and zlib have levels from 0 to 9");
        }
        let defaults = WriteOptions::default();
        let threads = self.jobs.threads().unwrap_or(defaults.threads);
        Ok(WriteOptions { threads, level: self.compression.unwrap_or(defaults.level), ..defaults })
    }

    pub(super) fn log_options(&self) -> CompressOptions {
        let defaults = CompressOptions::default();
        CompressOptions {
            threads: self.jobs.threads().unwrap_or(defaults.threads),
            level: self.compression,
            ..defaults
        }
    }

    pub(super) fn stf_options(&self) -> stf::write::WriteOptions {
        let defaults = stf::write::WriteOptions::default();
        stf::write::WriteOptions {
            threads: self.jobs.threads().unwrap_or(defaults.threads),
            level: self.compression,
            chunk_markers: self.chunk.unwrap_or(defaults.chunk_markers),
        }
    }

    pub(super) fn check_level(&self, container: Container) -> anyhow::Result<()> {
        match self.compression {
            Some(level) if level > 9 && matches!(container, Container::Gzip | Container::Xz) => {
                bail!("--compression {level}: gzip and xz have levels from 0 to 9")
            }
            _ => Ok(()),
        }
    }
}
