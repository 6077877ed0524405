//! Converting Tarmac: between containers as bytes, between styles line by line.

use std::path::Path;

use anyhow::{Context, bail};
use unspool::stf::read::Container;
use unspool::stf::write::{WriteOptions, Writer};
use unspool::tarmac::restyle::{Restyler, Style};

use super::report::Report;
use super::{Args, To, container_by_name};
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
    let container = args.to.and_then(To::tarmac).unwrap_or_else(|| by_name(&args.output));
    if let Some(level) = args.level.filter(|level| *level > 9 && matches!(container, Container::Gzip | Container::Xz)) {
        bail!("--level {level}: gzip and xz have levels from 0 to 9");
    }
    let mut writer = open_writer(args, container)?;
    let from = file.dialect();
    match args.dialect.map(Style::from).filter(|to| !Restyler::is_copy(from, *to)) {
        None => {
            let cannot = || format!("cannot write {}", args.output.display());
            let end = file.each_run(&mut Progress::new(false), |_, run| writer.write(run).with_context(cannot))?;
            close(args, writer, &end)?;
            Ok(end.verdict())
        }
        Some(to) => translate(args, &mut file, writer, to),
    }
}

/// Lines in another style.
fn translate(args: &Args, file: &mut Tarmac, mut writer: Writer<Target>, to: Style) -> anyhow::Result<Verdict> {
    let mut restyler =
        Restyler::new(file.dialect(), to).with_big_endian(args.big_endian).with_continuations(args.continuations);
    let cannot = || format!("cannot write {}", args.output.display());
    let (mut lines, mut failed) = (Vec::new(), None);
    // What goes through a pipe cannot be taken back: the first loss is one too many.
    let stops = args.deny_loss && is_stream(&args.output);
    let end = file.each(&mut Progress::new(false), |place, line| {
        restyler.line(place, line, &mut lines);
        if stops && !restyler.losses().is_empty() {
            return false;
        }
        if lines.len() >= MANY {
            failed = writer.write(&lines).err();
            lines.clear();
        }
        failed.is_none()
    })?;
    let name = file.name().to_string();
    let mut report = Report::new(args, (&name, "line"), to.name());
    restyler.finish(&mut lines);
    for (loss, count) in restyler.losses().iter() {
        report.add(loss.name(), loss.is_kept(), count.count, Some(count.first.line));
    }
    if report.is_denied() {
        report.deny();
        return Ok(Verdict::Problems);
    }
    if let Some(error) = failed.or_else(|| writer.write(&lines).err()) {
        return Err(error).with_context(cannot);
    }
    close(args, writer, &end)?;
    if args.is_kept(&end) {
        report.tell();
    }
    Ok(file.verdict(&end))
}

/// What the name of a log says about what it is stored in; a name that says nothing is that of plain text.
pub(super) fn by_name(path: &Path) -> Container {
    match container_by_name(path) {
        Some(container @ (Container::Gzip | Container::Xz | Container::Zstd)) => container,
        _ => Container::Plain,
    }
}

fn open_writer(args: &Args, container: Container) -> anyhow::Result<Writer<Target>> {
    let usual = WriteOptions::default();
    let options = WriteOptions { threads: args.jobs.map_or(usual.threads, usize::from), level: args.level, ..usual };
    super::open_writer(&args.output, container, options)
}

/// Keeps what was written, if it is everything.
fn close(args: &Args, writer: Writer<Target>, end: &End) -> anyhow::Result<()> {
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
            assert_eq!(by_name(Path::new(name)), expected, "{name}");
        }
    }
}
