//! The Header: there is one, it is the first record, and its flags mean something.

use super::super::record::{Header, HeaderView};
use super::{Checker, Out, RuleId};

impl Checker {
    pub(super) fn header(&mut self, record: HeaderView<'_>, out: &mut Out<'_>) {
        if self.records != 1 {
            return out.add(RuleId::HeaderOnce, format_args!("a Header is no first record"));
        }
        let header = record.get();
        self.level = Some(header.level());
        self.time.announce(header.timestamps);
        check(&header, out);
    }
}

fn check(header: &Header, out: &mut Out<'_>) {
    if header.magic != Header::MAGIC {
        let magic = header.magic.escape_ascii();
        return out.add(RuleId::HeaderMagic, format_args!("the first characters are A{magic}"));
    }
    let (major, minor) = (header.version_major, header.version_minor);
    if !matches!((major, minor), (0, 10 | 11)) {
        out.add(RuleId::Version, format_args!("the version is {major}.{minor}"));
    }
    if header.use_zlib && !header.compressed {
        out.add(RuleId::StorageFlags, format_args!("use_zlib is set, and compressed is not"));
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
