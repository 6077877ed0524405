//! `convert`: the same records in another container, or the same steps in another format.
//!
//! in ─▶ records, or steps ─▶ a temporary file beside OUT ─▶ OUT
//!
//! OUT appears when it is complete, or not at all.

mod reject_unused_options;

use std::convert;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use unspool::analyze::diff;
use unspool::analyze::join::{Common, Join, common};
use unspool::astf::record::Storage;
use unspool::astf::{self, write::WriteOptions};
use unspool::container::{CompressOptions, Container};
use unspool::convert::native::{
    NativeError, NativeOutput, restyle_tarmac, rewrite_stf, store_astf, store_stf, store_tarmac,
};
use unspool::convert::report::{LossReport, describe_position};
use unspool::convert::{
    ConversionPlan, FileSink, Format, OpenSinkError, Origin, SinkOptions, TransferError, plan, transfer,
};
use unspool::file::{AstfFile, End, StfFile, TarmacFile, TraceFile, is_capture, is_standard};
use unspool::model::json::Object;
use unspool::model::{SinkError, StepSink};
use unspool::number::many;
use unspool::stf::version::Rewriter;
use unspool::stf::{self, builder};
use unspool::target::{WriteError, astf_storage, is_stream, log_container};
use unspool::tarmac::dialect::Dialect;
use unspool::tarmac::restyle::{Restyler, Style};
use unspool::tarmac::{self, parse::ParseOptions};
use unspool::{FileKind, Meter, OpenSteps, OpenedSteps, open_steps};

use self::reject_unused_options::reject_unused_options;
use crate::args::{AstfLevel, ImageArgs, To, assumed};
use crate::diagnostic::diagnostic;
use crate::file::{
    TarmacArgs, dialect, end_verdict, open, report_astf, report_lines, report_stf, stf_verdict, tarmac_verdict,
};
use crate::output::is_same;
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Write a trace in another format, or its records in another container, and tell what was lost
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A capture, an ASTF or STF file or a Tarmac log ('-': standard input)
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// Where the result goes ('-': standard output); a file that is there is replaced when the new one is complete
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// The format, and how it is stored (if not said, the name of OUT tells)
    #[arg(long, value_name = "FORMAT", value_enum)]
    to: Option<To>,

    /// The format of IN (found out, if not said)
    #[arg(long, value_name = "FORMAT", value_enum)]
    from: Option<From>,

    /// The source of a capture: its trace id or its name
    #[arg(long, value_name = "ID", help_heading = "Another format")]
    source: Option<String>,

    /// Only this core, counted from 0 in the order in which they appear
    #[arg(long, value_name = "N", help_heading = "Another format")]
    core: Option<u32>,

    /// Another trace of the same run, which tells the addresses of accesses and what else IN cannot tell
    #[arg(long, value_name = "TRACE", help_heading = "Another format")]
    accesses: Option<PathBuf>,

    /// The core of the other trace
    #[arg(long, value_name = "N", default_value_t = 0, requires = "accesses", help_heading = "Another format")]
    accesses_core: u32,

    /// What IN does not say, and you know: el=0 to 3, security=secure or nonsecure, sp=0 or x (SP_EL0 or
    /// SP_ELx), vl=BITS (vectors)
    #[arg(long, value_name = "KEY=VALUE,...", value_parser = assumed, help_heading = "Another format")]
    assume: Option<unspool::model::Context>,

    /// The level of an ASTF trace (if not said, basicplus where IN tells of exceptions)
    #[arg(long, value_name = "LEVEL", value_enum, help_heading = "Another format")]
    astf_level: Option<AstfLevel>,

    /// Leave out the disassembly in a Tarmac log
    #[arg(long, help_heading = "Another format")]
    no_disassembly: bool,

    #[command(flatten)]
    images: ImageArgs,

    /// Write this version of STF
    #[arg(long, value_name = "VERSION", value_enum)]
    stf_version: Option<StfVersion>,

    /// Write a Tarmac log in this style (rev3, if not said and IN is no log)
    #[arg(long, value_name = "STYLE", value_enum, help_heading = "Tarmac")]
    dialect: Option<ToStyle>,

    /// Who wrote the Tarmac log (found out, if not said): rev3, fast-models, gem5, cortex-m0, cortex-m3, cortex-r5 or other
    #[arg(long, value_name = "NAME", value_parser = dialect, help_heading = "Tarmac")]
    from_dialect: Option<Dialect>,

    /// Instructions whose line does not name an instruction set are Thumb
    #[arg(long, help_heading = "Tarmac")]
    implicit_thumb: bool,

    /// Data of accesses in the Tarmac log is that of a big endian core
    #[arg(long, help_heading = "Tarmac")]
    big_endian: bool,

    /// Pictures of one access have LD or ST in the first line only
    #[arg(long, help_heading = "Tarmac")]
    continuations: bool,

    /// Tell what was lost or left out as JSON, on the standard error
    #[arg(long)]
    json: bool,

    /// Keep nothing if something would be lost, on the way or since the format cannot say it: exit code 1
    #[arg(long)]
    deny_loss: bool,

    /// Keep what was written before the place at which IN is damaged
    #[arg(long)]
    keep_damaged: bool,

    /// Threads (all cores, if not said)
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// How hard to compress: 0 is fast, 9 is small (zstd: up to 19)
    #[arg(long, value_name = "L", value_parser = clap::value_parser!(u32).range(0..=19))]
    level: Option<u32>,

    /// How many instructions a chunk of a .zstf file has (100000, if not said)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    chunk: Option<u64>,
}

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum From {
    /// A capture package
    Capture,
    /// ASTF
    Astf,
    /// STF
    Stf,
    /// Tarmac
    Tarmac,
}

/// A style that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ToStyle {
    /// Tarmac Text Rev 3: ES lines and pictures of memory
    Rev3,
    /// As Fast Models print it: IT lines and accesses
    FastModels,
}

impl convert::From<ToStyle> for Style {
    fn from(style: ToStyle) -> Self {
        match style {
            ToStyle::Rev3 => Self::Rev3,
            ToStyle::FastModels => Self::FastModels,
        }
    }
}

/// A version of STF that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum StfVersion {
    /// The published text
    #[value(name = "1.3")]
    V1_3,
    /// What tools write
    #[value(name = "1.6")]
    V1_6,
}

impl convert::From<StfVersion> for builder::StfVersion {
    fn from(version: StfVersion) -> Self {
        match version {
            StfVersion::V1_3 => Self::V1_3,
            StfVersion::V1_6 => Self::V1_6,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  unspool convert trace.astf trace.astf.xz
  unspool convert trace.astf.xz trace.astf.gz --level 9
  unspool convert small.astf - --to raw | unspool dump -
  unspool convert trace.stf trace.zstf
  unspool convert trace.zstf trace.stf.xz -j 2
  unspool convert trace.zstf old.stf --stf-version 1.3 --deny-loss
  unspool convert model.tarmac rev3.tarmac.xz --dialect rev3
  unspool convert run.tarmac run.astf.xz
  unspool convert run.astf run.zstf
  unspool convert snapshot/ run.tarmac --source 0x10
  unspool convert snapshot/ run.astf --accesses model.tarmac

Without --to the name of OUT tells. Of ASTF, .astf or .raw is RAW; .xz or .lzma is LZMA; .gz, .zz, .z or .zlib is zlib.
The header stays uncompressed whatever the name is, as the format wants it, so xz and gzip do not open such files.
Of STF, .stf is the plain records; .zstf has chunks and an index; .gz, .xz and .zst are files of gzip, xz and zstd.
Records stay as they are, byte for byte, and so does the header of ASTF but for the flags that tell how records are
stored. An STF file in the container that it is in already is copied. With --stf-version, the version, the width of
event numbers and what the version cannot say are changed; what is lost is counted, and the header says who did it.
Lines of a Tarmac log stay as they are, unless --dialect wants another style: then what the style cannot say is counted,
and lines that it has no word for stay as they are. .gz, .xz and .zst are files of gzip, xz and zstd.
Into another format a trace goes step by step. FileKind the format has no word for is counted and told; what it could only
say untruly is refused, with the place. docs/conversions.md lists all pairs.
Of a damaged file nothing is written, unless --keep-damaged. FileKind goes through a pipe cannot be taken back: the exit code
tells whether it is all.
Exit codes: 0 all is well, 1 IN is damaged, has lines that cannot be read, or a loss was denied, 2 it could not be done.";

/// Converts.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let others = [Some(&args.input), args.accesses.as_ref()];
    if let Some(same) = others.into_iter().flatten().find(|input| is_same(input, &args.output)) {
        bail!("{}: the trace is read from this file; write to another one", same.display());
    }
    let (tarmac, threads) = (args.tarmac(), args.jobs.map(usize::from));
    let open_as = |kind| TraceFile::open_as(kind, &args.input, &tarmac.options(threads));
    let file = match args.from {
        Some(From::Capture) => return convert_capture(args),
        Some(From::Astf) => open_as(FileKind::Astf)?,
        Some(From::Stf) => open_as(FileKind::Stf)?,
        Some(From::Tarmac) => open_as(FileKind::Tarmac)?,
        None if !tarmac.is_given() && is_capture(&args.input) => return convert_capture(args),
        None => open(&args.input, threads, &tarmac)?,
    };
    let own = match &file {
        TraceFile::Astf(_) => Format::Astf,
        TraceFile::Stf(_) => Format::Stf,
        TraceFile::Tarmac(_) => Format::Tarmac,
    };
    let to = args.format(Some(own))?;
    reject_unused_options(args, Some(own), to)?;
    match file {
        file if to != own => {
            let (source, steps) = Source::file(args, file)?;
            source.convert(args, steps, to)
        }
        TraceFile::Astf(file) => convert_astf(args, file),
        TraceFile::Stf(file) => convert_stf(args, file),
        TraceFile::Tarmac(file) => convert_tarmac(args, file),
    }
}

fn convert_capture(args: &Args) -> anyhow::Result<Verdict> {
    let to = args.format(None)?;
    reject_unused_options(args, None, to)?;
    let (source, steps) = Source::capture(args)?;
    source.convert(args, steps, to)
}

impl Args {
    /// What the user knows about a log.
    fn tarmac(&self) -> TarmacArgs {
        TarmacArgs { dialect: self.from_dialect, implicit_thumb: self.implicit_thumb, hint: "--from tarmac" }
    }

    fn native(&self) -> NativeOutput<'_> {
        NativeOutput { path: &self.output, keep_damaged: self.keep_damaged, deny_loss: self.deny_loss }
    }

    /// The format that is written: as given, by the name of OUT, or that of IN.
    fn format(&self, own: Option<Format>) -> anyhow::Result<Format> {
        let format = self.to.map(To::format).or_else(|| Format::from_path(&self.output)).or(own);
        format.with_context(|| {
            let name = self.output.display();
            format!("{name}: the name does not tell the format; say --to astf, stf, zstf or tarmac")
        })
    }

    /// Storage of ASTF records.
    fn storage(&self) -> anyhow::Result<Storage> {
        self.to.map_or_else(|| astf_storage(&self.output), To::astf).with_context(|| {
            let name = self.output.display();
            format!("{name}: the name does not tell how records are stored; say --to raw, lzma or zlib")
        })
    }

    fn astf_options(&self) -> anyhow::Result<WriteOptions> {
        if let Some(level) = self.level.filter(|level| *level > 9) {
            bail!("--level {level}: LZMA and zlib have levels from 0 to 9");
        }
        let usual = WriteOptions::default();
        let threads = self.jobs.map_or(usual.threads, usize::from);
        Ok(WriteOptions { threads, level: self.level.unwrap_or(usual.level), ..usual })
    }

    /// How a log is compressed.
    fn log_options(&self) -> CompressOptions {
        let default = CompressOptions::default();
        CompressOptions { threads: self.jobs.map_or(default.threads, usize::from), level: self.level, ..default }
    }

    /// How STF is written.
    fn stf_options(&self) -> stf::write::WriteOptions {
        let usual = stf::write::WriteOptions::default();
        stf::write::WriteOptions {
            threads: self.jobs.map_or(usual.threads, usize::from),
            level: self.level,
            chunk_markers: self.chunk.unwrap_or(usual.chunk_markers),
        }
    }

    fn refuse_level(&self, container: Container) -> anyhow::Result<()> {
        match self.level {
            Some(level) if level > 9 && matches!(container, Container::Gzip | Container::Xz) => {
                bail!("--level {level}: gzip and xz have levels from 0 to 9")
            }
            _ => Ok(()),
        }
    }

    /// What became of what was written and is not kept.
    fn unkept(&self) -> &'static str {
        if is_stream(&self.output) { "what went through the pipe so far is not all" } else { "nothing was written" }
    }
}

fn convert_astf(args: &Args, mut file: AstfFile) -> anyhow::Result<Verdict> {
    let storage = args.storage()?;
    report_astf(&file);
    let options = args.astf_options()?;
    let end = store_astf(&mut file, storage, options, args.native(), &mut Progress::new(false).callback())?;
    Ok(end_verdict(&end))
}

fn convert_stf(args: &Args, mut file: StfFile) -> anyhow::Result<Verdict> {
    let Some(storage) = args.to.map_or_else(|| stf::Storage::from_path(&args.output), To::stf) else {
        let name = args.output.display();
        bail!("{name}: the name does not tell how records are stored; say --to stf, zstf, stf.gz, stf.xz or stf.zst");
    };
    if let stf::Storage::Stream(container) = storage {
        args.refuse_level(container)?;
    }
    let mut progress = Progress::new(false);
    let Some(version) = args.stf_version else {
        let read = args.tarmac().options(args.jobs.map(usize::from));
        let is_anew = args.level.is_some() || args.chunk.is_some();
        let write = (args.stf_options(), is_anew);
        let input = (args.input.as_path(), &read);
        let end = store_stf(&mut file, input, storage, write, args.native(), &mut progress.callback())?;
        return Ok(stf_verdict(&mut file, &end));
    };
    let rewriter = Rewriter::new(version.into());
    let rewritten =
        rewrite_stf(&mut file, rewriter, storage, args.stf_options(), args.native(), &mut progress.callback());
    match rewritten {
        Ok((report, end)) => {
            let name = file.name().to_string();
            report_native(args, &name, &report, &end, || stf_verdict(&mut file, &end))
        }
        Err(error @ NativeError::NoTransactions(_)) => bail!("{}: {error}", file.name()),
        Err(error) => Err(error.into()),
    }
}

fn convert_tarmac(args: &Args, mut file: TarmacFile) -> anyhow::Result<Verdict> {
    let container = args.to.and_then(To::tarmac).unwrap_or_else(|| log_container(&args.output));
    args.refuse_level(container)?;
    let (from, mut progress) = (file.dialect(), Progress::new(false));
    let Some(to) = args.dialect.map(Style::from).filter(|to| !Restyler::is_copy(from, *to)) else {
        let end = store_tarmac(&mut file, container, args.log_options(), args.native(), &mut progress.callback())?;
        return Ok(end_verdict(&end));
    };
    let restyler = Restyler::new(from, to).with_big_endian(args.big_endian).with_continuations(args.continuations);
    let write = (container, args.log_options());
    let (report, end) = restyle_tarmac(&mut file, restyler, to, write, args.native(), &mut progress.callback())?;
    report_lines(&mut file);
    let name = file.name().to_string();
    report_native(args, &name, &report, &end, || tarmac_verdict(&mut file, &end))
}

/// Reports the losses of a conversion within a format.
fn report_native(
    args: &Args,
    name: &str,
    report: &LossReport,
    end: &End,
    verdict: impl FnOnce() -> Verdict,
) -> anyhow::Result<Verdict> {
    let output = args.native();
    if output.is_denied(report) {
        print_denial(args, name, report);
        return Ok(Verdict::Problems);
    }
    if output.is_kept(end) {
        print_losses(args, name, report);
    }
    Ok(verdict())
}

/// What is converted into another format.
struct Source {
    kind: FileKind,
    origin: Origin,
    name: String,
    /// What positions are.
    unit: &'static str,
    meter: Meter,
}

impl Source {
    /// A file that is open, and its steps.
    fn file(args: &Args, mut file: TraceFile) -> anyhow::Result<(Self, OpenedSteps)> {
        let (kind, name) = (file.kind(), file.name().to_string());
        let (origin, unit) = match &mut file {
            TraceFile::Astf(file) => {
                report_astf(file);
                (Origin::Astf, "record")
            }
            TraceFile::Stf(file) => {
                report_stf(file);
                (if file.is_arm() { Origin::StfArm } else { Origin::StfRiscv }, "record")
            }
            TraceFile::Tarmac(_) => (Origin::Tarmac, "line"),
        };
        let (steps, meter) = file.into_steps(args.big_endian);
        Ok((Self { kind, origin, name, unit, meter }, completed(args, kind, steps)?))
    }

    /// A source of a capture, and its steps.
    fn capture(args: &Args) -> anyhow::Result<(Self, OpenedSteps)> {
        let kind = FileKind::Capture;
        let steps = open_steps(&args.input, &open_options(args, Some(kind))?)?;
        let name = args.input.display().to_string();
        let source = Self { kind, origin: Origin::Capture, name, unit: "offset", meter: Meter::default() };
        Ok((source, completed(args, kind, steps)?))
    }

    fn convert(&self, args: &Args, steps: OpenedSteps, to: Format) -> anyhow::Result<Verdict> {
        if let ConversionPlan::Refused { why, unless } = plan(self.origin, to)
            && (unless.is_none() || args.accesses.is_none())
        {
            let unless = unless.map_or(String::new(), |unless| format!(", unless {unless}"));
            bail!("{}: {why}{unless}", self.name);
        }
        let options = sink_options(args, to)?;
        let sink = FileSink::open(&args.output, steps.coverage(), steps.time_unit(), &options);
        let sink = sink.map_err(|error| match error {
            OpenSinkError::Write(error) => error.into(),
            OpenSinkError::Sink(error) => self.refusal(error),
        })?;
        self.transfer(args, steps, to, sink)
    }

    /// Hands the steps over, keeps what was written, and reports what was lost.
    fn transfer(&self, args: &Args, steps: OpenedSteps, to: Format, mut sink: FileSink) -> anyhow::Result<Verdict> {
        let stops = args.native().stops_at_loss();
        let (mut progress, mut count) = (Progress::new(false), 0_u64);
        let done = transfer(steps, args.core, &mut sink, |_, sink| {
            count += 1;
            if count.is_multiple_of(STRIDE) {
                self.meter.report(&mut progress.callback());
            }
            if stops && !sink.losses().is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        drop(progress);
        let done = done.map_err(|error| self.failure(args, error))?;
        if let Some(damage) = &done.damage {
            diagnostic(format_args!("{}: {damage}", self.name));
            if args.keep_damaged {
                sink.finish().map_err(|error| self.refusal(error))?;
            }
        }
        let report = LossReport::new(self.unit, to.name()).with_steps(&done.not_in_steps, sink.losses());
        print_other_cores(args, &self.name, done.other_cores);
        if args.native().is_denied(&report) {
            print_denial(args, &self.name, &report);
            return Ok(Verdict::Problems);
        }
        if done.damage.is_some() && !args.keep_damaged {
            if is_stream(&args.output) {
                diagnostic(format_args!("{}: {}", self.name, args.unkept()));
            }
            return Ok(Verdict::Problems);
        }
        sink.keep().map_err(|error| WriteError::new(&args.output, error))?;
        print_losses(args, &self.name, &report);
        Ok(Verdict::of(done.damage.is_some() || report.is_unreadable()))
    }

    /// Why not all steps were handed over.
    fn failure(&self, args: &Args, error: TransferError) -> anyhow::Error {
        match error {
            TransferError::NoCore { .. } => anyhow!("{}: {error}; see --core", self.name),
            TransferError::Sink(SinkError::Io(error)) => self.refusal(error.into()),
            TransferError::Sink(error) => self.unpaired(args).unwrap_or_else(|| self.refusal(error)),
            TransferError::Source(error) => {
                self.unpaired(args).unwrap_or_else(|| anyhow!(error).context(self.name.clone()))
            }
        }
    }

    /// What keeps a sink from taking a step.
    fn refusal(&self, error: SinkError) -> anyhow::Error {
        match error {
            SinkError::Io(error) => anyhow!(error).context("cannot write the trace"),
            SinkError::Refused { position: Some(position), reason } => {
                anyhow!("{}: {}: {reason}", self.name, describe_position(self.unit, position))
            }
            SinkError::Refused { position: None, reason } => anyhow!("{}: {reason}", self.name),
        }
    }

    /// Why the other trace is of no help, if that is so.
    fn unpaired(&self, args: &Args) -> Option<anyhow::Error> {
        let path = args.accesses.as_deref()?;
        let steps = [again(args, self.kind).ok()?, open_other(args, path).ok()?];
        let (name, core) = (path.display(), args.accesses_core);
        match common(steps, pairing(args))? {
            Common::Instructions => None,
            Common::NoSuchCore => Some(anyhow!("{name}: there is no instruction of core {core}; see --accesses-core")),
            Common::Nothing => Some(anyhow!(
                "{name}: it has no instruction in common with {}; --accesses takes a trace of the same run",
                self.name
            )),
        }
    }
}

/// How steps are written.
fn sink_options(args: &Args, to: Format) -> anyhow::Result<SinkOptions> {
    Ok(match to {
        Format::Astf => {
            let lower = astf::lower::LowerOptions {
                level: args.astf_level.map(Into::into),
                storage: args.storage()?,
                assumed: args.assume.unwrap_or_default(),
                ..astf::lower::LowerOptions::default()
            };
            SinkOptions::Astf { lower, write: args.astf_options()? }
        }
        Format::Stf => {
            let version = args.stf_version.map_or(builder::StfVersion::default(), Into::into);
            let storage = args.to.map_or_else(|| stf::Storage::from_path(&args.output), To::stf);
            let storage = storage.unwrap_or(stf::Storage::PLAIN);
            SinkOptions::Stf { lower: stf::lower::LowerOptions { version }, storage, write: args.stf_options() }
        }
        Format::Tarmac => {
            let style = args.dialect.map_or(Style::Rev3, Into::into);
            let lower = tarmac::lower::LowerOptions { style, disassemble: !args.no_disassembly };
            let container = args.to.and_then(To::tarmac).unwrap_or_else(|| log_container(&args.output));
            SinkOptions::Tarmac { lower, container, write: args.log_options() }
        }
    })
}

/// Steps between two looks at the progress bar.
const STRIDE: u64 = 1 << 14;

fn open_options(args: &Args, kind: Option<FileKind>) -> anyhow::Result<OpenSteps> {
    Ok(OpenSteps {
        kind,
        source: args.source.clone(),
        codes: args.images.load()?,
        tarmac: tarmac::read::ReadOptions { parse: ParseOptions { implicit_thumb: args.implicit_thumb } },
        big_endian: args.big_endian,
        threads: args.jobs.map(usize::from),
        ..OpenSteps::default()
    })
}

/// The steps with what another trace of the same run adds to them.
fn completed(args: &Args, kind: FileKind, steps: OpenedSteps) -> anyhow::Result<OpenedSteps> {
    let Some(other) = &args.accesses else { return Ok(steps) };
    if is_standard(&args.input) || is_standard(other) {
        bail!("--accesses needs files: traces are aligned by reading one of them twice");
    }
    Ok(Box::new(Join::new([steps, again(args, kind)?], open_other(args, other)?, pairing(args))))
}

/// The trace once more.
fn again(args: &Args, kind: FileKind) -> anyhow::Result<OpenedSteps> {
    match kind {
        FileKind::Tarmac => {
            Ok(TarmacFile::open(&args.input, &args.tarmac().options(None))?.into_steps(args.big_endian).0)
        }
        kind => Ok(open_steps(&args.input, &open_options(args, Some(kind))?)?),
    }
}

/// The trace that completes it.
fn open_other(args: &Args, path: &Path) -> anyhow::Result<OpenedSteps> {
    Ok(open_steps(path, &OpenSteps { source: None, ..open_options(args, None)? })?)
}

fn pairing(args: &Args) -> diff::Options {
    diff::Options { cores: [args.core.unwrap_or(0), args.accesses_core], ..diff::Options::default() }
}

/// Prints what was lost or left unchanged, on the standard error: the standard output may be the trace.
fn print_losses(args: &Args, name: &str, report: &LossReport) {
    if args.json {
        let mut text = String::new();
        report.push_json(&mut text);
        return print_json(&text);
    }
    report.lines().iter().for_each(|line| diagnostic(format_args!("{name}: {line}")));
}

/// Prints that nothing is kept, since something would be lost.
fn print_denial(args: &Args, name: &str, report: &LossReport) {
    if args.json {
        print_losses(args, name, report);
        let written = if is_stream(&args.output) { "part" } else { "nothing" };
        let mut line = String::new();
        Object::new(&mut line).string("kind", "denied").string("written", written).end();
        return print_json(&line);
    }
    diagnostic(format_args!("{name}: {}; {}", report.refusal(), args.unkept()));
}

/// Prints that other cores were left out.
fn print_other_cores(args: &Args, name: &str, steps: u64) {
    if steps > 0 && args.json {
        let mut line = String::new();
        Object::new(&mut line).string("kind", "left_out").string("what", "other-cores").plain("count", steps).end();
        print_json(&line);
    } else if steps > 0 {
        diagnostic(format_args!("{name}: {} of other cores left out", many(steps, "step")));
    }
}

fn print_json(text: &str) {
    // A closed error stream leaves no place for messages.
    let _ = io::stderr().write_all(text.as_bytes());
}
