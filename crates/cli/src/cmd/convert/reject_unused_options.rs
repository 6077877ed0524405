//! Rejects options that have no effect on the selected conversion.

use anyhow::bail;
use unspool::convert::Format;
use unspool::stf::Storage;

use super::args::Args;
use crate::args::OutputFormat;

/// Rejects options without effect; a capture has no format `from`.
pub(super) fn reject_unused_options(args: &Args, from: Option<Format>, to: Format) -> anyhow::Result<()> {
    let (is_capture, is_log) = (from.is_none(), from == Some(Format::Tarmac));
    let (is_native, has_other) = (args.is_native(from, to), args.accesses.is_some());
    let has_function = !args.selection.function.is_empty();
    let is_restyled = is_log && is_native && args.to_dialect.is_some();
    let is_chunked = match args.to {
        Some(to) => to == OutputFormat::Stf(Storage::Zstf),
        None => to == Format::Stf && Storage::from_path(args.output()) == Some(Storage::Zstf),
    };
    let (to_astf, to_tarmac) = (to == Format::Astf && !is_native, to == Format::Tarmac && !is_native);
    let astf_only = "applies to conversions from another format to ASTF";
    let tarmac_only = "applies to conversions from another format to Tarmac";
    let log_only = "applies to Tarmac, and IN is not a log";
    let rows = [
        ("--source", args.source.is_some(), is_capture, "selects a source of a capture, and IN is not a capture"),
        (
            "--image",
            args.images.is_given(),
            is_capture || has_other || has_function,
            "adds code to a capture, and IN is not a capture",
        ),
        (
            "--core",
            args.core.is_some(),
            !is_native,
            "applies to conversions to another format (see 'unspool slice --core')",
        ),
        ("--accesses", has_other, !is_native, "applies to conversions to another format"),
        ("--assume", args.assume.is_some(), to_astf, astf_only),
        ("--astf-level", args.astf_level.is_some(), to_astf, astf_only),
        ("--no-disassembly", args.no_disassembly, to_tarmac, tarmac_only),
        ("--stf-version", args.stf_version.is_some(), to == Format::Stf, "applies to STF; use --to stf or zstf"),
        (
            "--to-dialect",
            args.to_dialect.is_some(),
            to == Format::Tarmac,
            "selects the style of Tarmac output; use --dialect for IN",
        ),
        ("--dialect", args.dialect.is_some(), is_log, log_only),
        ("--split", args.split, !is_native, "applies to conversions to another format (see 'unspool slice --split')"),
        ("--strict", args.strict, is_log || has_other, log_only),
        ("--implicit-thumb", args.implicit_thumb, is_log || has_other, log_only),
        (
            "--big-endian",
            args.big_endian,
            is_log && !is_native || is_restyled || has_other,
            "applies to conversions of Tarmac to another format or style",
        ),
        ("--continuations", args.continuations, is_restyled, "applies to Tarmac in another style (--to-dialect)"),
        ("--chunk", args.chunk.is_some(), is_chunked, "applies to zstf"),
    ];
    match rows.iter().find(|(_, is_given, has_effect, _)| *is_given && !has_effect) {
        Some((option, _, _, why)) => bail!("{option} {why}"),
        None => Ok(()),
    }
}
