//! Records: header and body, as a borrowed view.
//!
//! bytes ─▶ [`Header`] ─▶ body without trailer ─▶ [`Body`]
//!
//! A body that is too short for its type is `None`. Does not know what records mean for processes or trace, nor how
//! they are stored.

use super::bytes::{ByteOrder, text};
use crate::clock::TimeConversion;

/// Numbers of the record types that are read.
pub(crate) mod kind {
    pub(crate) const MMAP: u32 = 1;
    pub(crate) const LOST: u32 = 2;
    pub(crate) const COMM: u32 = 3;
    pub(crate) const EXIT: u32 = 4;
    pub(crate) const FORK: u32 = 7;
    pub(crate) const SAMPLE: u32 = 9;
    pub(crate) const MMAP2: u32 = 10;
    pub(crate) const AUX: u32 = 11;
    pub(crate) const ITRACE_START: u32 = 12;
    pub(crate) const SWITCH: u32 = 14;
    pub(crate) const SWITCH_CPU_WIDE: u32 = 15;
    pub(crate) const KSYMBOL: u32 = 17;
    pub(crate) const TEXT_POKE: u32 = 20;
    pub(crate) const HW_ID: u32 = 21;
    /// The first type that tools write; they have no trailer.
    pub(crate) const FIRST_OF_TOOLS: u32 = 64;
    pub(crate) const HEADER_ATTR: u32 = 64;
    pub(crate) const TRACING_DATA: u32 = 66;
    pub(crate) const BUILD_ID: u32 = 67;
    pub(crate) const AUXTRACE_INFO: u32 = 70;
    pub(crate) const AUXTRACE: u32 = 71;
    pub(crate) const TIME_CONV: u32 = 79;
    pub(crate) const HEADER_FEATURE: u32 = 80;
    pub(crate) const COMPRESSED: u32 = 81;
    pub(crate) const COMPRESSED2: u32 = 83;
    /// The first type of simpleperf; their sizes have 32 bits.
    pub(crate) const FIRST_OF_SIMPLEPERF: u32 = 32768;
}

/// Size of a header.
pub(crate) const HEADER: usize = 8;

/// The header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: u32,
    pub(crate) misc: u16,
    /// Size of the record with its header, without a payload after it.
    pub(crate) size: u32,
}

impl Header {
    /// `None`: cut short, or a size that no record has.
    pub(crate) fn parse(bytes: &[u8], order: ByteOrder) -> Option<Self> {
        let (kind, misc, size) = (order.u32(bytes, 0)?, order.u16(bytes, 4)?, order.u16(bytes, 6)?);
        let header = match kind {
            kind::FIRST_OF_SIMPLEPERF.. => Self { kind, misc: 0, size: u32::from(misc) << 16 | u32::from(size) },
            _ => Self { kind, misc, size: size.into() },
        };
        (header.size as usize >= HEADER).then_some(header)
    }
}

/// The mode of the CPU that a record is about, in the misc field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Unknown,
    Kernel,
    User,
    Hypervisor,
    Guest,
}

/// Flag of MMAP: the mapping is not executable. Flag of COMM: exec. Flag of SWITCH: out. Flag of FORK: the task existed,
/// and its maps are not those of its parent.
const FLAG: u16 = 0x2000;
/// Flag of MMAP2: there is a build ID.
const HAS_BUILD_ID: u16 = 0x4000;
/// Protection bit of memory that can be executed.
const EXECUTABLE: u32 = 4;

/// A record without its trailer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) kind: u32,
    pub(crate) misc: u16,
    pub(crate) bytes: &'a [u8],
    pub(crate) order: ByteOrder,
}

/// The contents of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    Mmap(Mmap<'a>),
    Comm {
        pid: u32,
        tid: u32,
        is_exec: bool,
    },
    Fork {
        task: Task,
        existed: bool,
    },
    Exit(Task),
    Lost {
        count: u64,
    },
    Aux {
        offset: u64,
        size: u64,
        flags: u64,
    },
    ItraceStart {
        pid: u32,
        tid: u32,
    },
    Switch {
        is_out: bool,
    },
    /// The next thread if out, else the previous one.
    SwitchCpuWide {
        is_out: bool,
        pid: u32,
        tid: u32,
    },
    /// A function of the kernel that is not in its image: a BPF program or a trampoline.
    Ksymbol {
        address: u64,
        length: u32,
        is_removed: bool,
        name: String,
    },
    TextPoke {
        address: u64,
        /// Number of bytes before it.
        old: u16,
        new: &'a [u8],
    },
    HwId(u64),
    Auxtrace(Auxtrace),
    TimeConv(TimeConversion),
    Other,
}

/// A mapping of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mmap<'a> {
    pub(crate) pid: u32,
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) offset: u64,
    pub(crate) is_executable: bool,
    /// The build ID in 20 bytes, and how many are valid.
    pub(crate) build_id: Option<(&'a [u8], u8)>,
    pub(crate) name: String,
}

/// A thread that starts or ends, and its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) tid: u32,
    pub(crate) time: u64,
}

/// Trace bytes that follow the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Auxtrace {
    pub(crate) size: u64,
    pub(crate) offset: u64,
    pub(crate) tid: u32,
    /// `None`: a buffer of a thread.
    pub(crate) cpu: Option<u32>,
}

impl<'a> Record<'a> {
    fn u32(&self, at: usize) -> Option<u32> {
        self.order.u32(self.bytes, at)
    }

    fn u64(&self, at: usize) -> Option<u64> {
        self.order.u64(self.bytes, at)
    }

    pub(crate) fn mode(&self) -> Mode {
        match self.misc & 7 {
            1 => Mode::Kernel,
            2 => Mode::User,
            3 => Mode::Hypervisor,
            4 | 5 => Mode::Guest,
            _ => Mode::Unknown,
        }
    }

    fn has(&self, flag: u16) -> bool {
        self.misc & flag != 0
    }

    /// The contents; `None` if the record is too short for its type.
    pub(crate) fn body(&self) -> Option<Body<'a>> {
        Some(match self.kind {
            kind::MMAP => Body::Mmap(self.mmap()?),
            kind::MMAP2 => Body::Mmap(self.mmap2()?),
            kind::COMM => Body::Comm { pid: self.u32(0)?, tid: self.u32(4)?, is_exec: self.has(FLAG) },
            kind::FORK => Body::Fork { task: self.task()?, existed: self.has(FLAG) },
            kind::EXIT => Body::Exit(self.task()?),
            kind::LOST => Body::Lost { count: self.u64(8)? },
            kind::AUX => Body::Aux { offset: self.u64(0)?, size: self.u64(8)?, flags: self.u64(16)? },
            kind::ITRACE_START => Body::ItraceStart { pid: self.u32(0)?, tid: self.u32(4)? },
            kind::SWITCH => Body::Switch { is_out: self.has(FLAG) },
            kind::SWITCH_CPU_WIDE => {
                Body::SwitchCpuWide { is_out: self.has(FLAG), pid: self.u32(0)?, tid: self.u32(4)? }
            }
            kind::KSYMBOL => self.ksymbol()?,
            kind::TEXT_POKE => self.text_poke()?,
            kind::HW_ID => Body::HwId(self.u64(0)?),
            kind::AUXTRACE => Body::Auxtrace(self.auxtrace()?),
            kind::TIME_CONV => Body::TimeConv(self.time_conversion()?),
            _ => Body::Other,
        })
    }

    fn mmap(&self) -> Option<Mmap<'a>> {
        Some(Mmap {
            pid: self.u32(0)?,
            address: self.u64(8)?,
            length: self.u64(16)?,
            offset: self.u64(24)?,
            is_executable: !self.has(FLAG),
            build_id: None,
            name: text(self.bytes.get(32..)?),
        })
    }

    fn mmap2(&self) -> Option<Mmap<'a>> {
        let id = self.bytes.get(36..56)?;
        let size = self.bytes.get(32).copied()?;
        Some(Mmap {
            is_executable: self.u32(56)? & EXECUTABLE != 0,
            build_id: (self.has(HAS_BUILD_ID) && size > 0).then_some((id, size)),
            name: text(self.bytes.get(64..)?),
            ..self.mmap()?
        })
    }

    fn task(&self) -> Option<Task> {
        Some(Task { pid: self.u32(0)?, parent: self.u32(4)?, tid: self.u32(8)?, time: self.u64(16)? })
    }

    fn ksymbol(&self) -> Option<Body<'a>> {
        let is_removed = self.order.u16(self.bytes, 14)? & 1 != 0;
        let name = text(self.bytes.get(16..)?);
        Some(Body::Ksymbol { address: self.u64(0)?, length: self.u32(8)?, is_removed, name })
    }

    fn text_poke(&self) -> Option<Body<'a>> {
        let (old, new) = (self.order.u16(self.bytes, 8)?, self.order.u16(self.bytes, 10)?);
        let new = self.bytes.get(12..)?.get(old.into()..)?.get(..new.into())?;
        Some(Body::TextPoke { address: self.u64(0)?, old, new })
    }

    fn auxtrace(&self) -> Option<Auxtrace> {
        let cpu = self.u32(32)?;
        let cpu = (cpu != u32::MAX).then_some(cpu);
        Some(Auxtrace { size: self.u64(0)?, offset: self.u64(8)?, tid: self.u32(28)?, cpu })
    }

    fn time_conversion(&self) -> Option<TimeConversion> {
        let is_short = self.bytes.get(41).is_some_and(|flag| *flag != 0);
        let short = self.u64(24).zip(self.u64(32)).filter(|_| is_short).unwrap_or((0, 0));
        Some(TimeConversion { shift: self.u64(0)?, mult: self.u64(8)?, zero: self.u64(16)?, short })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LITTLE: ByteOrder = ByteOrder::Little;

    fn body(kind: u32, misc: u16, bytes: &[u8]) -> Option<Body<'_>> {
        Record { kind, misc, bytes, order: LITTLE }.body()
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn headers_of_every_kind() {
        type Row<'a> = (&'a [u8], Option<(u32, u16, u32)>);
        let rows: &[Row<'_>] = &[
            (&[11, 0, 0, 0, 0, 0, 64, 0], Some((11, 0, 64))),
            (&[10, 0, 0, 0, 2, 0x20, 0x88, 0], Some((10, 0x2002, 0x88))),
            (&[4, 0x80, 0, 0, 1, 0, 8, 0], Some((0x8004, 0, 0x1_0008))),
            (&[11, 0, 0, 0, 0, 0, 7, 0], None),
            (&[11, 0, 0, 0, 0, 0, 64], None),
        ];
        for (bytes, expected) in rows {
            let found = Header::parse(bytes, LITTLE).map(|header| (header.kind, header.misc, header.size));
            assert_eq!(found, *expected, "{bytes:?}");
        }
    }

    #[test]
    fn mappings() {
        let pids = 0x4353_0000_4353_u64;
        let start = words(&[pids, 0x5500_0000, 0x1000, 0x2000]);
        let mmap = [&start[..], b"/bin/ls\0"].concat();
        let mapping = |is_executable, build_id| {
            let name = "/bin/ls".to_string();
            let (address, length, offset) = (0x5500_0000, 0x1000, 0x2000);
            Some(Body::Mmap(Mmap { pid: 0x4353, address, length, offset, is_executable, build_id, name }))
        };
        assert_eq!(body(kind::MMAP, 2, &mmap), mapping(true, None));
        assert_eq!(body(kind::MMAP, 0x2002, &mmap), mapping(false, None), "data");
        let mmap2 = |prot: u8, middle: &[u8]| [&start[..], middle, &[prot, 0, 0, 0, 2, 0, 0, 0], b"/bin/ls\0"].concat();
        let id: Vec<u8> = [&[16, 0, 0, 0][..], &[7; 20]].concat();
        assert_eq!(body(kind::MMAP2, 2, &mmap2(4, &id)), mapping(true, None), "execute-only, with an inode");
        assert_eq!(body(kind::MMAP2, 0x4002, &mmap2(5, &id)), mapping(true, Some((&[7; 20][..], 16))));
        assert_eq!(body(kind::MMAP2, 0x2002, &mmap2(3, &id)), mapping(false, None));
        assert_eq!(body(kind::MMAP2, 2, &mmap2(4, &id)[..63]), None, "cut short");
    }

    #[test]
    fn tasks_and_switches() {
        let pair = words(&[0x7_0000_0005]);
        let task = words(&[0x1_0000_0005, 0x1_0000_0007, 99]);
        let expected = Task { pid: 5, parent: 1, tid: 7, time: 99 };
        let rows: &[(u32, u16, &[u8], Body<'_>)] = &[
            (kind::COMM, 0x2000, &pair, Body::Comm { pid: 5, tid: 7, is_exec: true }),
            (kind::COMM, 0, &pair, Body::Comm { pid: 5, tid: 7, is_exec: false }),
            (kind::FORK, 0, &task, Body::Fork { task: expected, existed: false }),
            (kind::FORK, 0x2000, &task, Body::Fork { task: expected, existed: true }),
            (kind::EXIT, 0, &task, Body::Exit(expected)),
            (kind::ITRACE_START, 0, &pair, Body::ItraceStart { pid: 5, tid: 7 }),
            (kind::SWITCH, 0x2000, &[], Body::Switch { is_out: true }),
            (kind::SWITCH, 0, &[], Body::Switch { is_out: false }),
            (kind::SWITCH_CPU_WIDE, 0x6000, &pair, Body::SwitchCpuWide { is_out: true, pid: 5, tid: 7 }),
            (68, 0, &[], Body::Other),
        ];
        for (kind, misc, bytes, expected) in rows {
            assert_eq!(body(*kind, *misc, bytes).as_ref(), Some(expected), "{kind} {misc:#x}");
            let is_fixed = !bytes.is_empty();
            assert!(!is_fixed || body(*kind, *misc, &bytes[..bytes.len() - 1]).is_none(), "{kind} cut short");
        }
    }

    #[test]
    fn trace_records() {
        let aux = words(&[0x50, 0x90, 0x101]);
        assert_eq!(body(kind::AUX, 0, &aux), Some(Body::Aux { offset: 0x50, size: 0x90, flags: 0x101 }));
        let auxtrace = |cpu: u64| words(&[0x180, 0x50, 9, 0x4353_0000_0007, cpu]);
        let expected = |cpu| Some(Body::Auxtrace(Auxtrace { size: 0x180, offset: 0x50, tid: 0x4353, cpu }));
        assert_eq!(body(kind::AUXTRACE, 0, &auxtrace(7)), expected(Some(7)));
        assert_eq!(body(kind::AUXTRACE, 0, &auxtrace(0xffff_ffff)), expected(None));
        assert_eq!(body(kind::HW_ID, 0, &words(&[0x1e])), Some(Body::HwId(0x1e)));
        assert_eq!(body(kind::LOST, 0, &words(&[78, 12])), Some(Body::Lost { count: 12 }));
        let poke = [&words(&[0xffff_8000])[..], &[4, 0, 8, 0], &[1, 2, 3, 4], &[5, 6, 7, 8, 9, 10, 11, 12]].concat();
        let new = &[5, 6, 7, 8, 9, 10, 11, 12];
        assert_eq!(body(kind::TEXT_POKE, 1, &poke), Some(Body::TextPoke { address: 0xffff_8000, old: 4, new }));
        assert_eq!(body(kind::TEXT_POKE, 1, &poke[..22]), None, "cut short");
        let symbol = |flags: u8| [&words(&[0xffff_8000])[..], &[16, 0, 0, 0, 1, 0, flags, 0], b"bpf_prog\0"].concat();
        for (flags, is_removed) in [(0, false), (1, true)] {
            let name = "bpf_prog".to_string();
            let expected = Body::Ksymbol { address: 0xffff_8000, length: 16, is_removed, name };
            assert_eq!(body(kind::KSYMBOL, 0, &symbol(flags)), Some(expected));
        }
        assert_eq!(body(kind::KSYMBOL, 0, &symbol(0)[..15]), None, "cut short");
    }

    #[test]
    fn conversion_of_times() {
        // 24 MHz: 41.67 ns per tick, in 2^-10 ns.
        let old = TimeConversion { shift: 10, mult: 42667, zero: 5, short: (0, 0) };
        assert_eq!(body(kind::TIME_CONV, 0, &words(&[10, 42667, 5])), Some(Body::TimeConv(old)));
        assert_eq!(old.nanoseconds(24_000_000), 5 + 1_000_007_812);
        let new = [&words(&[10, 42667, 5, 0x1000, 0xfff])[..], &[0, 1, 0, 0, 0, 0, 0, 0]].concat();
        let short = TimeConversion { short: (0x1000, 0xfff), ..old };
        assert_eq!(body(kind::TIME_CONV, 0, &new), Some(Body::TimeConv(short)));
        assert_eq!(short.nanoseconds(0x10), old.nanoseconds(0x1010));
    }
}
