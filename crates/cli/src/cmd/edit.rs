//! `edit`, `strip` and `merge`: STF files with another header, with fewer records, or joined.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use unspool::edit::{EditOutput, edit_stf, merge_stf};
use unspool::file::{StfFile, TraceFile, is_standard};
use unspool::number::many;
use unspool::stf::Storage;
use unspool::stf::edit::{Edit, HeaderEdit};

use crate::args::{ForceArgs, JobsArgs, OutputFormat, one_of};
use crate::diagnostic;
use crate::file::{TarmacArgs, open, report_stf, stf_verdict};
use crate::output::{is_same, report_written};
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Change the header of an STF file
#[derive(Debug, clap::Args)]
#[command(after_help = EDIT_EXAMPLES)]
pub(crate) struct EditArgs {
    #[command(flatten)]
    file: FileArgs,

    /// Instruction set: riscv, arm, x86 or power
    #[arg(long, value_name = "NAME", value_parser = parse_isa)]
    isa: Option<u16>,

    /// Extensions of the instruction set, such as rv64gcv
    #[arg(long, value_name = "TEXT")]
    extensions: Option<String>,

    /// Set a feature of the header, such as PTE. Can be repeated
    #[arg(long, value_name = "NAME")]
    set_feature: Vec<String>,

    /// Clear a feature of the header. Can be repeated
    #[arg(long, value_name = "NAME")]
    clear_feature: Vec<String>,

    /// Hardware thread, process and thread at the start
    #[arg(long, value_name = "HART,PID,TID", value_parser = parse_process)]
    process: Option<[u32; 3]>,

    /// Add a comment to the header. Can be repeated
    #[arg(long, value_name = "TEXT")]
    comment: Vec<String>,
}

const EDIT_EXAMPLES: &str = "\
Examples:
  unspool edit trace.zstf fixed.zstf --extensions rv64gc_zba_zbb
  unspool edit trace.stf fixed.stf --clear-feature SAMPLING --comment 'features corrected'

Only the header changes; 'unspool info' shows it. EVENT64, which determines the length of records, cannot be changed: use \
'unspool convert --stf-version'.";

/// Remove records from an STF file
#[derive(Debug, clap::Args)]
#[command(after_help = STRIP_EXAMPLES)]
pub(crate) struct StripArgs {
    #[command(flatten)]
    file: FileArgs,

    /// Type of the records to remove, such as inst_reg. Can be repeated
    #[arg(short, long, value_name = "TYPE", required = true)]
    record: Vec<String>,
}

const STRIP_EXAMPLES: &str = "\
Examples:
  unspool strip trace.zstf small.zstf --record inst_reg
  unspool strip trace.stf small.zstf -r STF_INST_MEM_CONTENT -r STF_COMMENT

Types: comment, trace_info, process_id_ext, isa_extended, inst_reg, inst_ready_reg, page_table_walk, inst_mem_access, \
inst_mem_content, bus_master_access, bus_master_content, event, inst_microop. A trace cannot be read without the others. \
The data of an access is removed with it, and the target of an event with the event: the address of the next instruction is then forced. \
Features of the header that only these records had are cleared.";

/// Join STF files to one
#[derive(Debug, clap::Args)]
#[command(after_help = MERGE_EXAMPLES)]
pub(crate) struct MergeArgs {
    /// STF files, in the order in which they are joined
    #[arg(value_name = "IN", required = true, num_args = 1..)]
    inputs: Vec<PathBuf>,

    /// Output file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    #[command(flatten)]
    write: WriteArgs,
}

const MERGE_EXAMPLES: &str = "\
Examples:
  unspool merge first.zstf second.zstf -o both.zstf
  unspool slice trace.zstf part.zstf --skip 1000 --limit 500
  unspool merge part.zstf part.zstf part.zstf -o repeated.zstf

The header is that of the first file, with the features of all. Each further file starts with a FORCE_PC record; page table walks, which count \
instructions, are renumbered. All files need the same instruction set, width of event numbers and length of vector registers.";

/// Arguments of verbs with one input.
#[derive(Debug, clap::Args)]
struct FileArgs {
    /// STF file ('-': standard input)
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// Output file ('-': standard output)
    #[arg(value_name = "OUT", required_unless_present = "file")]
    out: Option<PathBuf>,

    /// Output file; the same as OUT
    #[arg(short = 'o', long = "output", value_name = "FILE", conflicts_with = "out")]
    file: Option<PathBuf>,

    #[command(flatten)]
    write: WriteArgs,
}

/// How the output is written.
#[derive(Debug, clap::Args)]
struct WriteArgs {
    #[command(flatten)]
    force: ForceArgs,

    /// Storage of the output [default: by its name, otherwise as IN]
    #[arg(long, value_name = "FORMAT", value_parser = one_of(OutputFormat::CHOICES))]
    to: Option<OutputFormat>,

    /// Do not record unspool in a comment and the trace info
    #[arg(long)]
    unsigned: bool,

    #[command(flatten)]
    jobs: JobsArgs,
}

impl FileArgs {
    fn output(&self) -> &Path {
        self.out.as_deref().or(self.file.as_deref()).unwrap_or(Path::new("-"))
    }
}

impl WriteArgs {
    /// Rejects an output that is an input, or that exists.
    fn check(&self, inputs: &[PathBuf], out: &Path) -> anyhow::Result<()> {
        if inputs.iter().any(|input| is_same(input, out)) {
            bail!("{}: the trace is read from this file; write to another one", out.display());
        }
        self.force.check(out)
    }

    fn output<'p>(&self, out: &'p Path, first: Storage) -> anyhow::Result<EditOutput<'p>> {
        let storage = match self.to {
            Some(to) => to.stf().context("the result is STF; use --to stf, zstf, stf.gz, ..")?,
            None => Storage::from_path(out).unwrap_or(first),
        };
        Ok(EditOutput { path: out, storage, threads: self.jobs.threads() })
    }
}

pub(crate) fn run_edit(args: &EditArgs) -> anyhow::Result<Verdict> {
    let mut edit = Edit::new(HeaderEdit {
        isa: args.isa,
        extensions: args.extensions.clone(),
        process: args.process,
        comments: args.comment.clone(),
        unsigned: args.file.write.unsigned,
    });
    let features = args.set_feature.iter().map(|name| (name, true));
    for (name, is_set) in features.chain(args.clear_feature.iter().map(|name| (name, false))) {
        edit.change_feature(name, is_set).map_err(anyhow::Error::msg)?;
    }
    if edit.is_empty() {
        bail!("nothing to change: use --isa, --extensions, --set-feature, --clear-feature, --process or --comment");
    }
    apply(&args.file, edit)
}

pub(crate) fn run_strip(args: &StripArgs) -> anyhow::Result<Verdict> {
    let unsigned = args.file.write.unsigned;
    let mut edit = Edit::new(HeaderEdit { unsigned, ..HeaderEdit::default() });
    args.record.iter().try_for_each(|name| edit.leave_out(name)).map_err(anyhow::Error::msg)?;
    apply(&args.file, edit)
}

fn apply(args: &FileArgs, edit: Edit) -> anyhow::Result<Verdict> {
    let out = args.output();
    args.write.check(std::slice::from_ref(&args.input), out)?;
    let mut file = open_stf(&args.input, args.write.jobs.threads())?;
    let output = args.write.output(out, file.storage())?;
    report_stf(&mut file);
    let progress = Progress::follow(file.meter());
    let edited = edit_stf(&mut file, edit, output);
    drop(progress);
    let (left_out, end) = edited?;
    let verdict = stf_verdict(&mut file, &end);
    if left_out > 0 {
        diagnostic::note(format_args!("removed {}", many(left_out, "record")));
    }
    if !is_standard(out) {
        report_written(out);
    }
    Ok(verdict)
}

pub(crate) fn run_merge(args: &MergeArgs) -> anyhow::Result<Verdict> {
    args.write.check(&args.inputs, &args.output)?;
    if args.inputs.iter().any(|path| is_standard(path)) {
        bail!("the headers are read first, so standard input cannot be merged: use files");
    }
    let threads = args.write.jobs.threads();
    let mut first = None;
    for path in &args.inputs {
        let storage = open_stf(path, threads)?.storage();
        first.get_or_insert(storage);
    }
    let output = args.write.output(&args.output, first.context("no input")?)?;
    let options = TarmacArgs::default().options(threads);
    let mut verdict = Verdict::Clean;
    let is_signed = !args.write.unsigned;
    let instructions = merge_stf(&args.inputs, &options, is_signed, output, |file, end| {
        verdict = verdict.or(stf_verdict(file, end));
    })?;
    diagnostic::note(format_args!(
        "{} of {}",
        many(instructions, "instruction"),
        many(args.inputs.len() as u64, "file")
    ));
    if !is_standard(&args.output) {
        report_written(&args.output);
    }
    Ok(verdict)
}

fn open_stf(path: &Path, threads: Option<usize>) -> anyhow::Result<StfFile> {
    match open(path, threads, &TarmacArgs::default())? {
        TraceFile::Stf(file) => Ok(file),
        other => bail!("{}: not an STF file; 'unspool convert' makes one of other traces", other.name()),
    }
}

fn parse_isa(text: &str) -> Result<u16, String> {
    let names = ["riscv", "arm", "x86", "power"];
    let found = (1..).zip(names).find(|(_, name)| name.eq_ignore_ascii_case(text));
    found.map(|(number, _)| number).ok_or_else(|| format!("use {}", names.join(", ")))
}

fn parse_process(text: &str) -> Result<[u32; 3], String> {
    let ids: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
    ids.ok().and_then(|ids| ids.try_into().ok()).ok_or_else(|| "use three numbers: HART,PID,TID".to_string())
}

#[cfg(test)]
mod tests {
    use unspool::stf::edit::optional_names;

    use super::*;

    #[test]
    fn the_help_lists_all_types() {
        let list = optional_names().join(", ");
        assert!(STRIP_EXAMPLES.contains(&format!("Types: {list}.")), "{list}");
    }
}
