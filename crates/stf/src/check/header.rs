//! The header: required records, their order, and properties that affect the body.

use unspool_isa::{Isa, RiscvExtensions};

use super::super::builder::{Features, GENERATOR, SIGNATURE};
use super::super::isa::is_unallocated_in_a64;
use super::super::layout::TILELINK;
use super::super::lower::annotation;
use super::super::names;
use super::super::read::Position;
use super::super::record::{Record, TraceInfo, descriptor};
use super::Out;
use super::rules::RuleId;

/// Properties of the header so far.
#[derive(Debug, Default)]
pub(super) struct Header {
    is_ended: bool,
    /// One bit per descriptor that was present.
    seen: u64,
    /// Greatest descriptor so far among those whose order counts.
    greatest: u8,
    minor: Option<u32>,
    /// Address of the first instruction.
    pub(super) pc: u64,
    isa: Option<u16>,
    /// The current encoding mode.
    iem: Option<u16>,
    /// The features, and their position.
    pub(super) features: Option<(Position, Features)>,
    extensions: Option<(Position, [u8; 4])>,
    /// Some opcodes may have unusual meanings.
    pub(super) is_unusual: bool,
    /// Extensions that give them these meanings.
    pub(super) riscv: RiscvExtensions,
    /// The trace is of Arm, but not A64.
    is_aarch32: bool,
    pub(super) has_annotations: bool,
    clocks: [u64; 4],
}

impl Header {
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// The instruction set of the opcodes; `None`: unknown here.
    #[inline]
    pub(super) fn set(&self) -> Option<Isa> {
        match (self.isa, self.iem) {
            (Some(1), Some(1)) => Some(Isa::Rv32),
            (Some(1), Some(2)) => Some(Isa::Rv64),
            _ => (self.is_arm() && !self.is_aarch32).then_some(Isa::A64),
        }
    }

    /// Follows an opcode of the body. One that is not A64 selects another instruction set of Arm from here on: the
    /// header has no number for it.
    #[inline]
    pub(super) fn opcode(&mut self, opcode: u32, length: u8) {
        if self.is_arm() && !self.has_annotations {
            self.is_aarch32 |= length == 2 || is_unallocated_in_a64(opcode);
        }
    }

    /// Follows an annotation of the instruction set.
    pub(super) fn instruction_set(&mut self, isa: Isa) {
        self.is_aarch32 = isa != Isa::A64;
    }

    pub(super) fn has_process(&self) -> bool {
        self.has(descriptor::PROCESS_ID_EXT)
    }

    pub(super) fn is_riscv(&self) -> bool {
        self.isa == Some(1)
    }

    /// Is the instruction set known and not RISC-V? Then the numbers of registers are not specified.
    pub(super) fn is_other_isa(&self) -> bool {
        self.isa.is_some_and(|isa| isa != 1)
    }

    fn is_arm(&self) -> bool {
        self.isa == Some(2)
    }

    /// Checks a record of the header. `number`: that of records before it.
    pub(super) fn record(&mut self, record: &Record<'_>, number: u64, out: &mut Out<'_>) {
        check_start(record, number, out);
        let descriptor = record.descriptor();
        if descriptor > descriptor::END_HEADER {
            return out.add(RuleId::BodyInHeader, format_args!("{} in the header", name(descriptor)));
        }
        self.check_place(descriptor, number, out);
        self.seen |= 1 << descriptor;
        match record {
            Record::Version { major, minor } => self.version(*major, *minor, out),
            Record::Comment(text) => {
                self.has_annotations |= annotation::parse_announcement(text).is_some();
                comment(text, out);
            }
            Record::Isa(isa) => {
                self.isa = Some(*isa);
                if !(1..=4).contains(isa) {
                    out.add(RuleId::IsaKnown, format_args!("the instruction set is {isa}"));
                }
            }
            Record::InstIem(iem) => self.encoding(*iem, out),
            Record::TraceInfo(info) => check_generator(info, out),
            Record::TraceInfoFeature(features) => self.set_features(Features(*features), out),
            Record::ForcePc(pc) => {
                self.pc = *pc;
                self.check_address("the start", *pc, out);
            }
            Record::VlenConfig(bits) => self.vector_length(*bits, out),
            Record::ProtocolId(protocol) if *protocol != TILELINK => {
                out.add(RuleId::ProtocolKnown, format_args!("the protocol is {protocol}"));
            }
            Record::ClockId { id, .. } => self.clock(*id, out),
            Record::IsaExtended(text) => self.extensions(text, out),
            Record::EndHeader => self.end(out),
            _ => {}
        }
    }

    /// Checks the order and repetition of records.
    fn check_place(&mut self, descriptor: u8, number: u64, out: &mut Out<'_>) {
        let may_repeat = matches!(descriptor, descriptor::COMMENT | descriptor::TRACE_INFO | descriptor::CLOCK_ID);
        if self.has(descriptor) && !may_repeat {
            return out.add(RuleId::HeaderOnce, format_args!("{} is repeated", name(descriptor)));
        }
        if descriptor == descriptor::ISA && self.has(descriptor::INST_IEM) {
            return out.add(RuleId::IsaBeforeIem, format_args!("the instruction set follows the encoding mode"));
        }
        if descriptor == descriptor::COMMENT || number < 2 {
            return;
        }
        if descriptor < self.greatest {
            let (this, other) = (name(descriptor), name(self.greatest));
            out.add(RuleId::HeaderOrder, format_args!("{this} follows {other}"));
        }
        self.greatest = self.greatest.max(descriptor);
    }

    fn has(&self, descriptor: u8) -> bool {
        self.seen >> descriptor & 1 == 1
    }

    fn version(&mut self, major: u32, minor: u32, out: &mut Out<'_>) {
        self.minor = Some(minor).filter(|_| major == 1);
        if major != 1 || minor < 2 {
            out.add(RuleId::VersionReadable, format_args!("the version is {major}.{minor}"));
        } else if minor > 6 {
            out.add(RuleId::VersionKnown, format_args!("the version is {major}.{minor}"));
        }
    }

    /// Checks an encoding mode, in the header or in the body.
    pub(super) fn encoding(&mut self, iem: u16, out: &mut Out<'_>) {
        self.iem = Some(iem);
        let is_known =
            if self.isa.is_none_or(|isa| isa == 1) { matches!(iem, 1 | 2) } else { iem != 0 && iem != 0xffff };
        if !is_known {
            out.add(RuleId::IemKnown, format_args!("the encoding mode is {iem}"));
        }
    }

    fn set_features(&mut self, features: Features, out: &mut Out<'_>) {
        self.features = Some((out.position, features));
        if features.has(Features::EVENT64) {
            self.needs(5, "wide events", out);
        }
        if features.has(Features::TRANSACTIONS) {
            self.needs(5, "transactions", out);
        }
    }

    fn vector_length(&mut self, bits: u32, out: &mut Out<'_>) {
        self.needs(4, "a vector length", out);
        if !(64..=65536).contains(&bits) {
            out.add(RuleId::VlenRange, format_args!("a vector register has {bits} bits"));
        } else if !bits.is_power_of_two() {
            out.add(RuleId::VlenPower, format_args!("a vector register has {bits} bits"));
        }
    }

    fn clock(&mut self, id: u8, out: &mut Out<'_>) {
        let (word, bit) = (usize::from(id / 64), 1 << (id % 64));
        if id == 0 || self.clocks[word] & bit != 0 {
            out.add(RuleId::ClockNumber, format_args!("the clock number {id} is zero or in use"));
        }
        self.clocks[word] |= bit;
    }

    pub(super) fn check_clock(&self, id: u8, out: &mut Out<'_>) {
        // A header without any clock was reported already.
        if self.clocks != [0; 4] && self.clocks[usize::from(id / 64)] >> (id % 64) & 1 == 0 {
            out.add(RuleId::ClockKnown, format_args!("the header has no clock {id}"));
        }
    }

    fn extensions(&mut self, text: &[u8], out: &mut Out<'_>) {
        self.needs(6, "extensions", out);
        let text = text.to_ascii_lowercase();
        let start = text.first_chunk().copied().unwrap_or_default();
        self.extensions = Some((out.position, start));
        self.riscv = RiscvExtensions::of(&text);
        let others: [&[u8]; 5] = [b"zcmp", b"zcmt", b"zce", b"zclsd", b"inx"];
        self.is_unusual = others.iter().any(|other| text.windows(other.len()).any(|part| part == *other));
    }

    fn needs(&self, minor: u32, what: &str, out: &mut Out<'_>) {
        if let Some(have) = self.minor.filter(|have| *have < minor && *have >= 2) {
            out.add(RuleId::RecordVersion, format_args!("{what} need version 1.{minor}, but the version is 1.{have}"));
        }
    }

    /// Checks the complete header.
    pub(super) fn end(&mut self, out: &mut Out<'_>) {
        self.is_ended = true;
        let features = self.features.unwrap_or_default().1;
        let has_transactions =
            features.has(Features::TRANSACTIONS) || self.has(descriptor::PROTOCOL_ID) || self.has(descriptor::CLOCK_ID);
        let mut needed = vec![
            (descriptor::COMMENT, RuleId::CommentMissing),
            (descriptor::TRACE_INFO, RuleId::TraceInfoMissing),
            (descriptor::TRACE_INFO_FEATURE, RuleId::FeatureMissing),
        ];
        needed.extend(if has_transactions {
            vec![(descriptor::PROTOCOL_ID, RuleId::ProtocolMissing), (descriptor::CLOCK_ID, RuleId::ClockMissing)]
        } else {
            vec![
                (descriptor::ISA, RuleId::IsaMissing),
                (descriptor::INST_IEM, RuleId::IemMissing),
                (descriptor::FORCE_PC, RuleId::ForcePcMissing),
            ]
        });
        for (descriptor, rule) in needed.into_iter().filter(|(descriptor, _)| !self.has(*descriptor)) {
            out.add(rule, format_args!("the header ends without {}", name(descriptor)));
        }
        self.compare_modes(out);
    }

    /// Checks redundant fields for contradictions.
    fn compare_modes(&self, out: &mut Out<'_>) {
        let Some(isa) = self.set().filter(|isa| isa.is_riscv()) else { return };
        let is_wide = isa == Isa::Rv64;
        let mode = if is_wide { "RV64" } else { "RV32" };
        if let Some((position, features)) = self.features
            && features.has(Features::RV64) != is_wide
        {
            let state = if is_wide { "not set" } else { "set" };
            let detail = format_args!("the feature RV64 is {state}, but the encoding mode is {mode}");
            out.add_in(position, RuleId::FeatureRv64, detail);
        }
        if let Some((position, start)) = self.extensions
            && start != if is_wide { *b"rv64" } else { *b"rv32" }
        {
            let start = start.escape_ascii();
            out.add_in(
                position,
                RuleId::ExtensionsMode,
                format_args!("they start with {start}, but the mode is {mode}"),
            );
        }
    }

    /// Checks the address of an instruction.
    #[inline]
    pub(super) fn check_address(&self, what: &str, address: u64, out: &mut Out<'_>) {
        if address & 1 == 1 && self.is_riscv() {
            out.add(RuleId::PcOdd, format_args!("{what} is {address:#x}"));
        }
        let (high, sign) = (address >> 32, address >> 31 & 1);
        if high != 0 && !(high == 0xffff_ffff && sign == 1) && self.set() == Some(Isa::Rv32) {
            out.add(RuleId::PcWidth, format_args!("{what} is {address:#x}"));
        }
    }
}

fn check_start(record: &Record<'_>, number: u64, out: &mut Out<'_>) {
    match (number, record) {
        (0, Record::Identifier([b'S', b'T', b'F'])) => {}
        (0, Record::Identifier(letters)) => {
            out.add(RuleId::IdentifierFirst, format_args!("the identifier is {}", letters.escape_ascii()));
        }
        (0, other) => {
            out.add(RuleId::IdentifierFirst, format_args!("the first record is {}", name(other.descriptor())));
        }
        (1, Record::Version { .. }) => {}
        (1, other) => {
            out.add(RuleId::VersionSecond, format_args!("the second record is {}", name(other.descriptor())));
        }
        _ => {}
    }
}

/// Checks a comment, in the header or in the body.
pub(super) fn comment(text: &[u8], out: &mut Out<'_>) {
    if text.last() == Some(&0) {
        out.add(RuleId::CommentNul, format_args!("a comment of {} bytes ends with a zero byte", text.len()));
    }
}

fn check_generator(info: &TraceInfo<'_>, out: &mut Out<'_>) {
    let ours = SIGNATURE.split(' ').next().unwrap_or_default();
    let is_ours = info.generator == GENERATOR && info.comment.starts_with(ours.as_bytes());
    // 15 is a tool of 2026, and numbers from 0x40 on are for examples.
    if !is_ours && !matches!(info.generator, 1..=15 | 0x40) {
        out.add(RuleId::GeneratorKnown, format_args!("the generator number is {}", info.generator));
    }
}

/// Is the record allowed only in the header?
pub(super) fn is_only_there(descriptor: u8) -> bool {
    descriptor <= descriptor::END_HEADER
        && !matches!(
            descriptor,
            descriptor::COMMENT | descriptor::INST_IEM | descriptor::PROCESS_ID_EXT | descriptor::FORCE_PC
        )
}

pub(super) fn name(descriptor: u8) -> &'static str {
    names::record(descriptor).unwrap_or("an unknown record")
}
