//! Converting Tarmac: between containers as bytes, between styles line by line.

use std::io;
use std::path::Path;

use anyhow::{Context, bail};
use unspool::formats::stf::read::Container;
use unspool::formats::stf::write::{WriteOptions, Writer};
use unspool::formats::tarmac::convert::{Converter, Loss, Losses, Style};

use super::super::many;
use super::{Args, To, container_by_name};
use crate::Verdict;
use crate::args::tell;
use crate::astf::End;
use crate::json::Object;
use crate::progress::Progress;
use crate::target::Target;
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
    if args.stf_version.is_some() {
        bail!("{}: --stf-version is for STF; say --to stf or zstf", file.name());
    }
    let container = args.to.and_then(To::tarmac).unwrap_or_else(|| by_name(&args.output));
    if let Some(level) = args.level.filter(|level| *level > 9 && matches!(container, Container::Gzip | Container::Xz)) {
        bail!("--level {level}: gzip and xz have levels from 0 to 9");
    }
    let mut writer = open_writer(args, container)?;
    let from = file.dialect();
    match args.dialect.map(Style::from).filter(|to| !Converter::is_copy(from, *to)) {
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
    let mut converter =
        Converter::new(file.dialect(), to).with_big_endian(args.big_endian).with_continuations(args.continuations);
    let cannot = || format!("cannot write {}", args.output.display());
    let (mut lines, mut failed) = (Vec::new(), None);
    let end = file.each(&mut Progress::new(false), |place, line| {
        converter.line(place, line, &mut lines);
        if lines.len() >= MANY {
            failed = writer.write(&lines).err();
            lines.clear();
        }
        failed.is_none()
    })?;
    converter.finish(&mut lines);
    if let Some(error) = failed.or_else(|| writer.write(&lines).err()) {
        return Err(error).with_context(cannot);
    }
    let losses = converter.losses();
    if args.deny_loss && !losses.is_empty() {
        tell(format_args!("{}: {} cannot say {losses}; nothing was written", file.name(), to.name()));
        return Ok(Verdict::Problems);
    }
    close(args, writer, &end)?;
    report(args, file.name(), to, losses);
    Ok(file.verdict(&end))
}

/// What was lost, and what was left as it was.
fn report(args: &Args, name: &str, to: Style, losses: &Losses) {
    if args.json {
        return report_json(losses);
    }
    if !losses.is_empty() {
        tell(format_args!("{name}: lost, since {} cannot say it: {losses}", to.name()));
    }
    let kept: Vec<String> =
        losses.iter().filter(|(loss, _)| loss.is_kept()).map(|(loss, count)| kept(loss, count.count)).collect();
    if !kept.is_empty() {
        tell(format_args!("{name}: kept as they are: {}", kept.join(", ")));
    }
}

/// The same for programs, on the standard error: the standard output may be the log.
fn report_json(losses: &Losses) {
    let mut line = String::new();
    for (loss, count) in losses.iter() {
        let mut object = Object::new(&mut line);
        object.string("kind", if loss.is_kept() { "kept" } else { "lost" }).string("what", loss.name());
        object.plain("count", count.count).plain("line", count.first.line);
        // A closed error stream leaves nobody to tell.
        let _ = object.finish(&mut io::stderr());
    }
}

fn kept(loss: Loss, count: u64) -> String {
    match loss {
        Loss::Told => many(count, "line") + " of text",
        Loss::Unknown => many(count, "line") + " not understood",
        loss => many(count, loss.name()),
    }
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
