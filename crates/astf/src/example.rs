//! A small trace that shows most of the format, made by [`builder`](super::builder).
//!
//! Eleven instructions at two Exception levels: a branch that is not taken and one that is, a merged and a split access,
//! ranges with tags, an exception, streaming mode. The trace is the example of the specification; where that contradicts
//! itself, one of its values is used.

use super::access::{Access, Extent};
use super::builder::{BuildError, Builder, Effect, Exception, Process, RecordSink, State, Step};
use super::layout::Bytes;
use super::record::{Header, Level, Storage};

/// The string at its start.
const TITLE: &[u8] = b"An example that has records of several kinds";

/// Its header, stored with LZMA.
pub fn header() -> Header {
    Header::new(Level::BasicPlus, true, Storage::Lzma)
}

/// All of its records, header first.
pub fn records() -> Vec<Bytes> {
    let mut records = Vec::new();
    // A vector accepts every record, and the trace breaks no rule; the tests see all records.
    let _ = Builder::new(&mut records, &header()).map_err(BuildError::from).and_then(|mut trace| build(&mut trace));
    records
}

/// Builds the trace after its header.
pub fn build(trace: &mut Builder<impl RecordSink>) -> Result<(), BuildError> {
    trace.string(TITLE)?;
    trace.timestamp(100)?;
    let process = Some(Process { pid: 29192, tid: Some(29197) });
    trace.context(&State { tag_check_fault: 1, ssbs: true, process, ..State::default() })?;
    user(trace)?;
    trace.timestamp(102)?;
    let kernel = State { el: 1, handler: true, evl: 1, tag_check_fault: 3, ..State::default() };
    trace.context(&kernel)?;
    // smstart sm
    trace.instruction(&Step::plain(0xffff_7dff_fe7f_c400, 0xd503_437f))?;
    trace.context(&State { evl: 3, streaming: true, ..kernel })?;
    // ldr za[w12, 4], [x0, #4, mul vl]
    let loaded = [access(0xffff_8000_053b_d500, 64, Access { read: true, ..NEITHER })];
    let load = Step::plain(0xffff_7dff_fe7f_c404, 0xe100_0004);
    trace.instruction(&Step { effect: Effect::Accesses(&loaded), sme_index: Some(5), ..load })
}

/// Instructions at EL0.
fn user(trace: &mut Builder<impl RecordSink>) -> Result<(), BuildError> {
    // cmp w3, w0
    trace.instruction(&Step::plain(0x836_e128, 0x6b00_007f))?;
    // b.ne 0x836e0e8
    trace.instruction(&Step { effect: Effect::NotTaken, ..Step::plain(0x836_e12c, 0x54ff_fde1) })?;
    // ldp x19, x20, [sp, #0x10]
    let pair = [access(0xffff_e762_4250, 16, Access { read: true, ..NEITHER })];
    trace.instruction(&Step { effect: Effect::Accesses(&pair), ..Step::plain(0x836_e130, 0xa941_53f3) })?;
    // setgp, setgm, setge [x19]!, x20!, x0
    set(trace, 0x836_e134, 0x1dc0_0693, 0xa433_0b76_5010, 0x10)?;
    set(trace, 0x836_e138, 0x1dc0_4693, 0xa433_0b76_5020, 0x60)?;
    set(trace, 0x836_e13c, 0x1dc0_8693, 0xa433_0b76_5080, 0)?;
    // blr x2
    trace.instruction(&Step { effect: Effect::Taken(0xffff_83ff_b2f0), ..Step::plain(0x836_e140, 0xd63f_0040) })?;
    // ldp w11, w12, [x6, #0x4c], across the end of a page
    let tagged = Access { read: true, tagged: true, ..NEITHER };
    let halves = [access(0xa433_0b76_5ffc, 4, tagged), access(0xa433_0b76_6000, 4, tagged)];
    trace.instruction(&Step { effect: Effect::Accesses(&halves), ..Step::plain(0xffff_83ff_b2f0, 0x2949_b0cb) })?;
    // stp x11, x12, [x7], #0x10, which fails its tag check
    let tried = [access(0xffff_95ce_b000, 16, Access { tagged: true, ..NEITHER })];
    let exception = Some(Exception { class: 0x24, call: None, target: 0xffff_7dff_fe7f_c400 });
    let store = Step::plain(0xffff_83ff_b2f4, 0xa881_30eb);
    trace.instruction(&Step { effect: Effect::Accesses(&tried), exception, ..store })
}

/// Memory is set, with its tags unless it is empty.
fn set(trace: &mut Builder<impl RecordSink>, pc: u64, opcode: u32, address: u64, bytes: u64) -> Result<(), BuildError> {
    let written = [Access { address, extent: Extent::Range(bytes), read: false, write: true, tagged: bytes > 0 }];
    trace.instruction(&Step { effect: Effect::Accesses(&written), ..Step::plain(pc, opcode) })
}

/// Neither reads nor writes.
const NEITHER: Access = Access { address: 0, extent: Extent::Bytes(1), read: false, write: false, tagged: false };

fn access(address: u64, bytes: u16, like: Access) -> Access {
    Access { address, extent: Extent::Bytes(bytes), ..like }
}
