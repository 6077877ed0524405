//! A small trace that shows most of the format, made by [`builder`](super::builder).
//!
//! Eleven instructions at two Exception levels: a branch that is not taken and one that is, a merged and a split access,
//! ranges with tags, an exception, streaming mode. The trace follows the example of the specification, with a title of
//! our own. Where that example contradicts itself:
//!
//! - the process ID is that of the field tables, not of the overview;
//! - the split load is at the target of the branch before it and the store follows it, as in the overview, which also
//!   has the addresses of the load; the field tables have other ones;
//! - the store fails its tag check; the overview has another reason;
//! - EL0 uses its only stack pointer, so `handler` is not set;
//! - tag check faults at EL1 are asymmetric, which is the meaning of the field's value;
//! - an opcode and the address of the exception handler are completed where digits are missing.

use std::ops::Range;

use super::access::{Access, Extent};
use super::builder::{BuildError, Builder, Effect, Exception, Process, RecordSink, State, Step};
use super::layout::Bytes;
use super::record::{Header, Level, Storage};

/// The string at its start.
const TITLE: &[u8] = b"An example that has records of several kinds";

/// First instruction of the exception handler.
const HANDLER: u64 = 0xffff_7dff_fe7f_c400;

/// ESR_ELx.EC of a Data Abort from a lower Exception level.
const DATA_ABORT_FROM_LOWER: u8 = 0x24;

/// SCTLR_ELx.TCF: tag check faults are synchronous; or only those of reads, and those of writes asynchronous.
const SYNCHRONOUS: u8 = 1;
const ASYMMETRIC: u8 = 3;

/// ZCR_ELx.LEN and SMCR_ELx.LEN: one less than the vector length in units of 128 bits.
const LEN_256_BITS: u8 = 1;
const LEN_512_BITS: u8 = 3;

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
    trace.context(&State { tag_check_fault: SYNCHRONOUS, ssbs: true, process, ..State::default() })?;
    user(trace)?;
    trace.timestamp(102)?;
    let kernel = State { el: 1, handler: true, evl: LEN_256_BITS, tag_check_fault: ASYMMETRIC, ..State::default() };
    trace.context(&kernel)?;
    // smstart sm
    trace.instruction(&Step::plain(HANDLER, 0xd503_437f))?;
    trace.context(&State { evl: LEN_512_BITS, streaming: true, ..kernel })?;
    // ldr za[w12, 4], [x0, #4, mul vl], with 1 in w12; it loads a vector of 512 bits
    let loaded = [access(0xffff_8000_053b_d500, 64, Access { read: true, ..NEITHER })];
    let load = Step::plain(HANDLER + 4, 0xe100_0004);
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
    set(trace, Step::plain(0x836_e134, 0x1dc0_0693), 0xa433_0b76_5010..0xa433_0b76_5020)?;
    set(trace, Step::plain(0x836_e138, 0x1dc0_4693), 0xa433_0b76_5020..0xa433_0b76_5080)?;
    set(trace, Step::plain(0x836_e13c, 0x1dc0_8693), 0xa433_0b76_5080..0xa433_0b76_5080)?;
    // blr x2
    trace.instruction(&Step { effect: Effect::Taken(0xffff_83ff_b2f0), ..Step::plain(0x836_e140, 0xd63f_0040) })?;
    // ldp w11, w12, [x6, #0x4c], across the end of a page
    let tag_checked = Access { read: true, tagged: true, ..NEITHER };
    let halves = [access(0xa433_0b76_5ffc, 4, tag_checked), access(0xa433_0b76_6000, 4, tag_checked)];
    trace.instruction(&Step { effect: Effect::Accesses(&halves), ..Step::plain(0xffff_83ff_b2f0, 0x2949_b0cb) })?;
    // stp x11, x12, [x7], #0x10, which fails its tag check
    let tried = [access(0xffff_95ce_b000, 16, Access { tagged: true, ..NEITHER })];
    let exception = Some(Exception { class: DATA_ABORT_FROM_LOWER, call: None, target: HANDLER });
    let store = Step::plain(0xffff_83ff_b2f4, 0xa881_30eb);
    trace.instruction(&Step { effect: Effect::Accesses(&tried), exception, ..store })
}

/// An instruction that sets a range of memory and its Allocation Tags. An empty range writes no tags.
fn set(trace: &mut Builder<impl RecordSink>, step: Step<'_>, range: Range<u64>) -> Result<(), BuildError> {
    let extent = Extent::Range(range.end - range.start);
    let written = [Access { address: range.start, extent, write: true, tagged: !range.is_empty(), ..NEITHER }];
    trace.instruction(&Step { effect: Effect::Accesses(&written), ..step })
}

/// Neither reads nor writes.
const NEITHER: Access = Access { address: 0, extent: Extent::Bytes(1), read: false, write: false, tagged: false };

fn access(address: u64, bytes: u16, like: Access) -> Access {
    Access { address, extent: Extent::Bytes(bytes), ..like }
}
