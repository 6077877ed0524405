//! Records from instructions: a writer that enforces the rules.
//!
//! execution of a hart ─▶ **records**, header first, in the order of the reference writer
//!
//! The builder follows the address of each instruction and forces it where execution does not lead. Input that would
//! make a wrong trace is refused and writes nothing, so that the caller can correct it and continue. The allowed
//! records depend on the features in the header. They cannot be changed later, so they are declared at the start. No
//! end mark is written: no tool writes one, and the reference cannot read it.
//! Specification: STF 1.3, "Specification of Records", and the output of tools of version 1.6.

mod error;
mod group;
mod input;

use std::io::{self, Write};

pub use self::error::BuildError;
pub use self::input::{Access, Cause, Event, Features, Header, Iem, Mode, Step, StfVersion};
use super::isa::RISCV;
use super::layout::Layout;
use super::record::{Record, TraceInfo};
use super::write::Writer;

/// Generator number in our trace info.
///
/// The library has a closed list of generators and throws when it prints another number. It accepts this one, which it
/// calls reserved. The comment of the record names this tool.
pub const GENERATOR: u8 = 0;

/// Comment of our trace info; the checker recognizes this tool by its start.
pub const SIGNATURE: &str = concat!("unspool ", env!("CARGO_PKG_VERSION"));

/// The trace info of this tool.
pub fn our_trace_info() -> TraceInfo<'static> {
    let number = |text: &str| text.parse().unwrap_or(0);
    let version = [
        number(env!("CARGO_PKG_VERSION_MAJOR")),
        number(env!("CARGO_PKG_VERSION_MINOR")),
        number(env!("CARGO_PKG_VERSION_PATCH")),
    ];
    TraceInfo { generator: GENERATOR, version, comment: SIGNATURE.as_bytes() }
}

/// Sink of encoded records.
pub trait RecordSink {
    /// Writes whole records, in order.
    fn write_records(&mut self, records: &[u8]) -> io::Result<()>;
}

impl RecordSink for Vec<u8> {
    fn write_records(&mut self, records: &[u8]) -> io::Result<()> {
        self.extend_from_slice(records);
        Ok(())
    }
}

impl<W: Write> RecordSink for Writer<W> {
    fn write_records(&mut self, records: &[u8]) -> io::Result<()> {
        self.write(records)
    }
}

impl<S: RecordSink + ?Sized> RecordSink for &mut S {
    fn write_records(&mut self, records: &[u8]) -> io::Result<()> {
        (**self).write_records(records)
    }
}

/// Writes a trace, one instruction at a time.
///
/// ```
/// use unspool_stf::builder::{Builder, Header, Mode, Step};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let header = Header { mode: Some(Mode::Machine), ..Header::new(0x8000_0000) };
/// let mut trace = Builder::new(Vec::new(), &header)?;
/// trace.instruction(&Step::plain(0x8000_0000, 0x13))?; // nop
/// trace.instruction(&Step::taken(0x8000_0004, 0xbff5, 0x8000_0000))?; // c.j 0x80000000
/// // Impossible outcomes are refused.
/// assert!(trace.instruction(&Step::plain(0x8000_0000, 0xbff5)).is_err());
/// assert_eq!(trace.finish().instructions, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Builder<S> {
    sink: S,
    version: StfVersion,
    layout: Layout,
    features: Features,
    used: Features,
    iem: Iem,
    accesses: bool,
    next: u64,
    /// Mode to be recorded with the first instruction.
    mode: Option<Mode>,
    instructions: u64,
    /// Records that belong to the next instruction.
    waiting: Vec<u8>,
    group: Vec<u8>,
}

/// A finished trace.
#[derive(Debug)]
pub struct Built<S> {
    /// The sink.
    pub sink: S,
    /// Number of instructions.
    pub instructions: u64,
    /// Declared features that the trace does not use.
    pub unused: Features,
    /// Bytes of records after the last instruction. They belong to none, and so were not written: the reference drops
    /// the end of a trace that does not end with an opcode.
    pub left: usize,
}

impl<S: RecordSink> Builder<S> {
    /// Starts a trace: writes the header.
    pub fn new(mut sink: S, header: &Header<'_>) -> Result<Self, BuildError> {
        let features = all_features(header);
        check_header(header, features)?;
        let mut bytes = Vec::new();
        let mut layout = Layout::default();
        each_record(header, features, |record| {
            layout.follow(&record);
            record.encode(&mut bytes);
        });
        sink.write_records(&bytes)?;
        Ok(Self {
            sink,
            version: header.version,
            layout,
            features,
            used: if header.process.is_some() { Features::PROCESS_ID } else { Features::NONE },
            iem: header.iem,
            accesses: header.accesses,
            next: header.pc,
            mode: header.mode,
            instructions: 0,
            waiting: Vec::new(),
            group: Vec::new(),
        })
    }

    /// Adds a comment. It is written with the next instruction.
    pub fn comment(&mut self, text: &str) -> Result<(), BuildError> {
        check_length(text, u32::MAX as usize)?;
        Record::Comment(text.as_bytes()).encode(&mut self.waiting);
        Ok(())
    }

    /// Changes the process (hardware thread, process, thread), effective with the next instruction.
    pub fn process(&mut self, ids: [u32; 3]) -> Result<(), BuildError> {
        self.declared(Features::PROCESS_ID, "a process")?;
        self.used = self.used | Features::PROCESS_ID;
        Record::ProcessIdExt(ids).encode(&mut self.waiting);
        Ok(())
    }

    /// Changes the encoding mode, effective with the next instruction.
    pub fn encoding(&mut self, iem: Iem) -> Result<(), BuildError> {
        if iem == Iem::Rv64 {
            self.declared(Features::RV64, "the encoding mode RV64")?;
        }
        self.iem = iem;
        Record::InstIem(iem.number()).encode(&mut self.waiting);
        Ok(())
    }

    /// Writes an instruction and its records.
    pub fn instruction(&mut self, step: &Step<'_>) -> Result<(), BuildError> {
        let (used, length) = self.check(step)?;
        self.group.clone_from(&self.waiting);
        self.lay_out(step);
        self.sink.write_records(&self.group)?;
        self.waiting.clear();
        self.used = self.used | used;
        self.mode = None;
        self.instructions += 1;
        let redirected = step.events.iter().rev().find_map(|event| event.target);
        self.next = redirected.or(step.target).unwrap_or(step.pc.wrapping_add(u64::from(length)));
        Ok(())
    }

    /// Ends the trace.
    pub fn finish(self) -> Built<S> {
        let always = Features::RV64 | Features::EVENT64;
        let unused = self.features.without(self.used | always);
        Built { sink: self.sink, instructions: self.instructions, unused, left: self.waiting.len() }
    }

    fn declared(&self, features: Features, what: &'static str) -> Result<(), BuildError> {
        if self.features.has(features) { Ok(()) } else { Err(BuildError::NotDeclared { what, features }) }
    }
}

/// The declared features, and those that they imply.
fn all_features(header: &Header<'_>) -> Features {
    let mut features = header.features;
    if header.iem == Iem::Rv64 {
        features = features | Features::RV64;
        // The published specification has no wide events; all tools since 1.5 write them for RV64.
        if header.version == StfVersion::V1_6 {
            features = features | Features::EVENT64;
        }
    }
    features
}

fn check_header(header: &Header<'_>, features: Features) -> Result<(), BuildError> {
    let newer = [
        (header.vlen.is_some(), "length of vector registers"),
        (header.isa_extended.is_some(), "extensions of the instruction set"),
        (features.has(Features::EVENT64), "wide events"),
    ];
    if let (StfVersion::V1_3, Some((_, what))) = (header.version, newer.iter().find(|row| row.0)) {
        return Err(BuildError::Version { minor: header.version.minor(), what });
    }
    if features.has(Features::TRANSACTIONS) {
        return Err(BuildError::Event("is no transaction: a trace has either instructions or transactions"));
    }
    if let Some(vlen) = header.vlen.filter(|vlen| !vlen.is_power_of_two() || !(128..=65536).contains(vlen)) {
        return Err(BuildError::Vlen(vlen));
    }
    if header.process.is_some() && !features.has(Features::PROCESS_ID) {
        return Err(BuildError::NotDeclared { what: "a process", features: Features::PROCESS_ID });
    }
    if let Some(extensions) = header.isa_extended {
        let start = if header.iem == Iem::Rv64 { "rv64" } else { "rv32" };
        if !extensions.to_ascii_lowercase().starts_with(start) {
            return Err(BuildError::Extensions(extensions.into()));
        }
        check_length(extensions, u32::MAX as usize)?;
    }
    for comment in header.comments {
        check_length(comment, u32::MAX as usize)?;
    }
    match header.trace_infos.iter().find(|info| info.comment.len() > usize::from(u16::MAX)) {
        Some(info) => Err(BuildError::TooLong(info.comment.len())),
        None => even("the start", header.pc),
    }
}

/// Emits the records of the header, in the order of the reference writer.
fn each_record(header: &Header<'_>, features: Features, mut emit: impl FnMut(Record<'_>)) {
    emit(Record::Identifier(*b"STF"));
    emit(Record::Version { major: 1, minor: header.version.minor() });
    header.comments.iter().for_each(|comment| emit(Record::Comment(comment.as_bytes())));
    emit(Record::Comment(SIGNATURE.as_bytes()));
    emit(Record::Isa(RISCV));
    emit(Record::InstIem(header.iem.number()));
    header.trace_infos.iter().for_each(|info| emit(Record::TraceInfo(*info)));
    emit(Record::TraceInfo(our_trace_info()));
    emit(Record::TraceInfoFeature(features.0));
    header.process.into_iter().for_each(|ids| emit(Record::ProcessIdExt(ids)));
    emit(Record::ForcePc(header.pc));
    header.vlen.into_iter().for_each(|bits| emit(Record::VlenConfig(bits)));
    header.isa_extended.into_iter().for_each(|text| emit(Record::IsaExtended(text.as_bytes())));
    emit(Record::EndHeader);
}

fn check_length(text: &str, max: usize) -> Result<(), BuildError> {
    if text.len() > max { Err(BuildError::TooLong(text.len())) } else { Ok(()) }
}

fn even(what: &'static str, address: u64) -> Result<(), BuildError> {
    if address & 1 == 1 { Err(BuildError::Odd { what, address }) } else { Ok(()) }
}
