//! Converting Tarmac: between containers as bytes, between styles line by line.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};
use unspool::container::{CompressOptions, CompressedWriter, Container};
use unspool::tarmac::convert::{Converter, Style};

use super::report::Report;
use super::{Args, To};
use crate::Verdict;
use crate::astf::End;
use crate::progress::Progress;
use crate::target::{Target, is_stream};
use crate::tarmac::Tarmac;

/// A style that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(in super::super) enum ToStyle {
    /// Tarmac Text Rev 3: ES lines and pictures of memory
    Rev3,
    /// As Fast Models print it: IT lines and accesses
    FastModels,
}

impl From<ToStyle> for Style {
    fn from(style: ToStyle) -> Self {
        match style {
            ToStyle::Rev3 => Self::Rev3,
            ToStyle::FastModels => Self::FastModels,
        }
    }
}

/// Lines are written when there are so many bytes of them.
const MANY: usize = 1 << 16;

/// Converts a log.
pub(super) fn run(args: &Args, mut file: Tarmac) -> anyhow::Result<Verdict> {
    let container = args.to.and_then(To::tarmac).unwrap_or_else(|| log_container(&args.output));
    if let Some(level) = args.level.filter(|level| *level > 9 && matches!(container, Container::Gzip | Container::Xz)) {
        bail!("--level {level}: gzip and xz have levels from 0 to 9");
    }
    let mut writer = open_log(&args.output, container, options(args))?;
    let from = file.dialect();
    match args.dialect.map(Style::from).filter(|to| !Converter::is_copy(from, *to)) {
        None => {
            let cannot = || format!("cannot write {}", args.output.display());
            let end = file.each_run(&mut Progress::new(false), |_, run| writer.write_all(run).with_context(cannot))?;
            close(args, writer, &end)?;
            Ok(end.verdict())
        }
        Some(to) => translate(args, &mut file, writer, to),
    }
}

/// Lines in another style.
fn translate(
    args: &Args,
    file: &mut Tarmac,
    mut writer: CompressedWriter<Target>,
    to: Style,
) -> anyhow::Result<Verdict> {
    let mut converter =
        Converter::new(file.dialect(), to).with_big_endian(args.big_endian).with_continuations(args.continuations);
    let cannot = || format!("cannot write {}", args.output.display());
    let (mut lines, mut failed) = (Vec::new(), None);
    // What goes through a pipe cannot be taken back: the first loss is one too many.
    let stops = args.deny_loss && is_stream(&args.output);
    let end = file.each(&mut Progress::new(false), |place, line| {
        converter.line(place, line, &mut lines);
        if stops && !converter.losses().is_empty() {
            return false;
        }
        if lines.len() >= MANY {
            failed = writer.write_all(&lines).err();
            lines.clear();
        }
        failed.is_none()
    })?;
    let name = file.name().to_string();
    let mut report = Report::new(args, (&name, "line"), to.name());
    converter.finish(&mut lines);
    for (loss, count) in converter.losses().iter() {
        report.add(loss.name(), loss.is_kept(), count.count, Some(count.first.line));
    }
    if report.is_denied() {
        report.deny();
        return Ok(Verdict::Problems);
    }
    if let Some(error) = failed.or_else(|| writer.write_all(&lines).err()) {
        return Err(error).with_context(cannot);
    }
    close(args, writer, &end)?;
    if args.is_kept(&end) {
        report.tell();
    }
    Ok(file.verdict(&end))
}

/// How a log is compressed, by its name.
pub(in super::super) fn log_container(path: &Path) -> Container {
    match Container::from_path(path) {
        Some(container @ (Container::Gzip | Container::Xz | Container::Zstd)) => container,
        _ => Container::Plain,
    }
}

pub(super) fn options(args: &Args) -> CompressOptions {
    let default = CompressOptions::default();
    CompressOptions { threads: args.jobs.map_or(default.threads, usize::from), level: args.level, ..default }
}

/// Opens a writer of a log.
pub(in super::super) fn open_log(
    path: &Path,
    container: Container,
    options: CompressOptions,
) -> anyhow::Result<CompressedWriter<Target>> {
    CompressedWriter::new(Target::open(path)?, container, options)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Keeps what was written, if it is everything.
fn close(args: &Args, writer: CompressedWriter<Target>, end: &End) -> anyhow::Result<()> {
    if !args.is_kept(end) {
        return Ok(());
    }
    writer.finish().and_then(Target::keep).with_context(|| format!("cannot write {}", args.output.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell() {
        let rows = [
            ("a.tarmac", Container::Plain),
            ("a.log", Container::Plain),
            ("a.tarmac.gz", Container::Gzip),
            ("a.XZ", Container::Xz),
            ("a.tarmac.zst", Container::Zstd),
            ("-", Container::Plain),
        ];
        for (name, expected) in rows {
            assert_eq!(log_container(Path::new(name)), expected, "{name}");
        }
    }
}
