//! Refuses options that have no effect on the conversion that was chosen: whoever gives one expects something of it.

use anyhow::bail;
use unspool::convert::Format;
use unspool::stf::Storage;

use super::Args;
use crate::args::To;

/// Refuses options without effect; a capture has no format `from`.
pub(super) fn reject_unused_options(args: &Args, from: Option<Format>, to: Format) -> anyhow::Result<()> {
    let (is_capture, is_log) = (from.is_none(), from == Some(Format::Tarmac));
    let (is_native, has_other) = (from == Some(to), args.accesses.is_some());
    let is_restyled = is_log && is_native && args.dialect.is_some();
    let is_chunked = match args.to {
        Some(to) => to == To::Zstf,
        None => to == Format::Stf && Storage::from_path(&args.output) == Some(Storage::Zstf),
    };
    let rows = [
        ("--source", args.source.is_some(), is_capture, "picks a source of a capture, and IN is none"),
        ("--image", args.images.is_given(), is_capture || has_other, "is the code of a capture, and IN is none"),
        (
            "--core",
            args.core.is_some(),
            !is_native,
            "is for another format: within one, everything stays as it is (see 'unspool slice')",
        ),
        ("--accesses", has_other, !is_native, "is for another format: within one, records stay as they are"),
        (
            "--assume",
            args.assume.is_some(),
            to == Format::Astf && !is_native,
            "is for another format that becomes ASTF",
        ),
        (
            "--astf-level",
            args.astf_level.is_some(),
            to == Format::Astf && !is_native,
            "is for another format that becomes ASTF",
        ),
        (
            "--no-disassembly",
            args.no_disassembly,
            to == Format::Tarmac && !is_native,
            "is for another format that becomes Tarmac",
        ),
        ("--stf-version", args.stf_version.is_some(), to == Format::Stf, "is for STF; say --to stf or zstf"),
        (
            "--dialect",
            args.dialect.is_some(),
            to == Format::Tarmac,
            "is the style in which Tarmac is written; who wrote IN is said with --from-dialect",
        ),
        ("--from-dialect", args.from_dialect.is_some(), is_log, "is for Tarmac, and IN is read as something else"),
        (
            "--implicit-thumb",
            args.implicit_thumb,
            is_log || has_other,
            "is for Tarmac, and IN is read as something else",
        ),
        (
            "--big-endian",
            args.big_endian,
            is_log && !is_native || is_restyled || has_other,
            "is for Tarmac that becomes another format or style",
        ),
        ("--continuations", args.continuations, is_restyled, "is for Tarmac that becomes another style (--dialect)"),
        ("--chunk", args.chunk.is_some(), is_chunked, "is for zstf"),
    ];
    match rows.iter().find(|(_, is_given, has_effect, _)| *is_given && !has_effect) {
        Some((option, _, _, why)) => bail!("{option} {why}"),
        None => Ok(()),
    }
}
