//! The Header: its magic number, version and flags.

use super::super::record::Header;
use super::report::Report;
use super::rules::RuleId;
pub(super) fn check(header: &Header, out: &mut Report<'_>) {
    if header.magic != Header::MAGIC {
        let magic = header.magic.escape_ascii();
        return out.add(RuleId::HeaderMagic, format_args!("the first characters are A{magic}"));
    }
    let (major, minor) = (header.version_major, header.version_minor);
    if !matches!((major, minor), (0, 10 | 11)) {
        out.add(RuleId::Version, format_args!("the version is {major}.{minor}"));
    }
    if header.use_zlib && !header.compressed {
        out.add(RuleId::StorageFlags, format_args!("use_zlib is set, but compressed is not"));
    }
    let future = [
        ("reginfo", header.reginfo),
        ("meminfo", header.meminfo),
        ("addrinfo_d", header.addrinfo_d),
        ("addrinfo_i", header.addrinfo_i),
        ("pseudo", header.pseudo),
    ];
    if let Some((name, _)) = future.iter().find(|(_, is_set)| *is_set) {
        out.add(RuleId::FutureFlagZero, format_args!("{name} is set"));
    }
}
