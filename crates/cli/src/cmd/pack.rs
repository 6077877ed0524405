//! `pack`: writes a capture and everything that decoding it needs as one package.
//!
//! capture + files of this machine ─▶ OUT.zip or OUT/

use std::path::{Path, PathBuf};

use anyhow::bail;
use unspool::capture::{Capture, MissingImage, Note, NoteKind, Saved};
use unspool::model::json::Object;
use unspool::number::many;
use unspool::pack::{PackOptions, pack};

use crate::args::{CaptureArgs, ForceArgs, ImageArgs, OutputArgs};
use crate::diagnostic;
use crate::json::write_summary;
use crate::listing::{report_assumptions, report_images};
use crate::output::{Output, is_read_from, is_same};
use crate::process_args::ProcessArgs;
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Collect trace, registers, system events and programs of a capture in one package, which can be decoded anywhere
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    capture: CaptureArgs,

    /// Package to write: a zip archive if the name ends in .zip, otherwise a new or empty directory
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    #[command(flatten)]
    force: ForceArgs,

    /// Print JSON, one object per line; docs/json.md describes them
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    images: ImageArgs,

    #[command(flatten)]
    processes: ProcessArgs,
}

/// Missing images that are reported.
const MAX_MISSING: usize = 10;

const EXAMPLES: &str = "\
Examples:
  unspool pack perf.data -o run.zip
  unspool pack perf.data -o run.zip --sysroot target/ --debug-dir ~/.debug
  unspool pack snapshot/ -o run/ --image vmlinux
  unspool pack trbe.bin --protocol ete --register TRCIDR8=6 --image app.elf -o run.zip

The package is the one of Arm's 'CoreSight trace decode metadata requirements'. Programs and libraries that system events name are \
found as by 'decode', in the same places and by the same build IDs; those of --image are stored where 'decode' would place them. \
'unspool decode OUT' gives the same instructions as 'unspool decode CAPTURE' with the options of this command.
A package that exists is replaced with --force, if all files of the directory belong to it.
Exit codes: 0 even if programs are missing, which are listed; 1 trace is damaged or absent from the recording; 2 the command failed.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let capture = args.capture.open()?;
    check_output(args, &capture)?;
    report_assumptions(&capture);
    let mut progress = Progress::new(false);
    let saved = pack(&capture, &args.output, &options(args)?, &mut progress.callback())?;
    drop(progress);
    report_images(&saved.notes, &mut std::collections::BTreeSet::new());
    report_missing(&saved.missing);
    diagnostic::note(format_args!(
        "wrote {}: {}, {}; {}, {}, {}",
        args.output.display(),
        many(saved.files as u64, "file"),
        many(saved.bytes, "byte"),
        many(capture.buffers.len() as u64, "buffer"),
        many(saved.events as u64, "system event"),
        many(saved.images as u64, "image"),
    ));
    let is_incomplete = |note: &Note| matches!(note.kind, NoteKind::Damaged | NoteKind::TraceAbsent);
    let verdict = Verdict::of(capture.notes.iter().any(is_incomplete));
    if args.json {
        print_json(args, &capture, &saved, verdict)?;
    }
    Ok(verdict)
}

fn options(args: &Args) -> anyhow::Result<PackOptions> {
    let (images, symbols) = args.images.arguments();
    let memory = args.processes.kernel_memory(args.processes.kernel()?.as_ref())?;
    Ok(PackOptions {
        images: images.to_vec(),
        symbols: symbols.to_vec(),
        memory: memory.into_iter().collect(),
        kernel_symbols: args.processes.kallsyms_path().map(Path::to_path_buf),
        spaces: args.processes.load()?,
        replace: args.force.is_given(),
    })
}

/// Rejects a package in whose place an input is.
fn check_output(args: &Args, capture: &Capture) -> anyhow::Result<()> {
    let output = &args.output;
    let is_image = |image: &&Path| is_same(output, image);
    if is_same(output, &capture.path) || is_read_from(output, capture) || args.images.paths().iter().any(is_image) {
        bail!("{}: an input is read from there; write to another path", output.display());
    }
    let inside = |path: &Path| match (path.canonicalize(), output.canonicalize()) {
        (Ok(path), Ok(output)) => path.starts_with(output),
        _ => false,
    };
    if output.is_dir() && (inside(&capture.path) || args.images.paths().into_iter().any(inside)) {
        bail!("{}: an input is read from this directory; write to another one", output.display());
    }
    Ok(())
}

/// Reports images that are not in the package. Those after the tenth are counted, unless all were asked for.
fn report_missing(missing: &[MissingImage]) {
    let limit = if diagnostic::is_verbose() { usize::MAX } else { MAX_MISSING };
    for MissingImage { build_id, reason, .. } in missing.iter().take(limit) {
        let build_id = if build_id.is_empty() { String::new() } else { format!("; its build ID is {build_id}") };
        diagnostic::warning(format_args!("{reason}{build_id}"));
    }
    if missing.len() > limit {
        diagnostic::warning(format_args!("and {} more missing images; -v shows all of them", missing.len() - limit));
    }
    if !missing.is_empty() {
        diagnostic::note(
            "images are missing from the package: name them with --image FILE, their root folder with --sysroot FOLDER \
             (/ for this machine), or a folder of files by build ID with --debug-dir FOLDER",
        );
    }
}

fn print_json(args: &Args, capture: &Capture, saved: &Saved, verdict: Verdict) -> anyhow::Result<()> {
    let mut output = Output::open(&OutputArgs { json: true, output: None, force: args.force }, capture)?;
    let mut line = String::new();
    for MissingImage { image, build_id, reason } in &saved.missing {
        let mut object = Object::new(&mut line);
        object.string("kind", "missing_image").string("image", image);
        object.nullable_string("build_id", Some(build_id).filter(|id| !id.is_empty())).string("what", reason);
        output.write(|out| object.write_line(out));
    }
    write_summary(&mut output, "pack", verdict, |object| {
        object.string("file", args.output.display()).plain("files", saved.files).plain("bytes", saved.bytes);
        object.plain("buffers", capture.buffers.len()).plain("events", saved.events);
        object.plain("images", saved.images).plain("missing", saved.missing.len());
    });
    output.finish()
}
