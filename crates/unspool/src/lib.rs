//! Decode, convert and analyze processor instruction traces.
//!
//! A complete program: which functions did this capture execute, and how many instructions of each?
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//! #   let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hello-qemu");
//! #   /*
//!     let path = "examples/hello-qemu";
//! #   */
//!     let trace = unspool::open(path)?;
//!     let mut functions: BTreeMap<&str, u32> = BTreeMap::new();
//!     for block in trace.blocks()? {
//!         let block = block?;
//!         *functions.entry(trace.function(block.start).unwrap_or("?")).or_default() += block.instructions;
//!     }
//!     for (name, instructions) in &functions {
//!         println!("{instructions:6} {name}");
//!     }
//! #   assert_eq!(functions.keys().copied().collect::<Vec<_>>(), ["_start", "say", "way", "ways"]);
//!     Ok(())
//! }
//! ```
//!
//! [`open`] takes a capture (a directory or zip archive of CoreSight trace), an ASTF file, an STF file or a Tarmac log, and
//! finds out which. [`Opened`] iterates over it at five levels:
//!
//! | method | item | of |
//! |---|---|---|
//! | [`packets`](Opened::packets) | [`SourcePacket`]: what a trace unit sent | captures |
//! | [`blocks`](Opened::blocks) | [`ExecutedBlock`]: straight-line code with one exit | all |
//! | [`instructions`](Opened::instructions) | [`ExecutedInstruction`]: address, opcode, branch outcome | all |
//! | [`calls`](Opened::calls) | [`ExecutedCall`]: function, depth, positions, instructions | all |
//! | [`steps`](Opened::steps) | [`Step`](model::Step): instructions with accesses and register writes, exceptions, gaps | all |
//!
//! The folder `examples/` of this crate has ten short programs, one per task.
//!
//! # The crates
//!
//! ```text
//! capture ─▶ frames ─▶ packets ─▶ elements ─▶ committed ─▶ ranges, instructions ─▶ steps
//!                                                          ASTF, STF, Tarmac ──────┘
//! ```
//!
//! Everything that [`Opened`] uses is public, for programs that want one stage, other options or the last bit of speed:
//!
//! | module | contents |
//! |---|---|
//! | [`capture`] | packages on disk: buffers, trace-unit registers, program images |
//! | [`coresight`] | frames, packets, elements of ETE and ETMv4, and the model of a trace unit; `no_std` |
//! | [`flow`] | from elements and code to executed instructions |
//! | [`isa`] | control flow, accesses and registers of A64, A32, T32 and RISC-V opcodes; `no_std` |
//! | [`model`] | steps and blocks, which all formats share |
//! | [`astf`], [`stf`], [`tarmac`] | trace files: readers, writers, checks |
//! | [`analyze`] | differences, statistics, calls, profiles, checks of steps |
//! | [`container`] | gzip, xz and zstd streams |
//! | `record` | programs run under QEMU (on Unix) |
//!
//! This crate joins them. [`Trace`] is the pipeline over one source of a capture, in constant memory and on several cores;
//! [`Program`] is the code that ran; [`open_steps`] opens the steps of anything for [`convert`], [`encode`] and
//! [`check`]; [`TraceFile`] reads native records; [`Identity`] names any other file. Knows nothing of terminals. With the
//! feature `text`, [`isa`] has a `Disassembler`, and records have text.

mod bare;
mod calls;
#[cfg(feature = "text")]
pub mod champsim;
mod channel_events;
mod channels;
pub mod check;
mod code_log;
pub mod convert;
pub mod coverage;
mod demangle;
pub mod doctor;
pub mod edit;
pub mod encode;
mod error;
mod event_meanings;
mod executed_image;
pub mod file;
#[cfg(feature = "text")]
pub mod fusion;
mod identify;
pub mod indexed_log;
pub mod indexed_steps;
pub mod info;
pub mod item_selection;
pub mod line_profile;
pub mod lines;
mod meter;
pub mod number;
mod opened;
pub mod order;
mod overview;
pub mod pack;
mod parallel;
pub mod place;
mod placement;
mod present;
mod program;
mod reconfigured;
mod resume;
pub mod slice;
mod sniff;
pub mod software_marks;
pub mod state;
#[cfg(feature = "text")]
mod stats;
mod steps;
pub mod target;
mod tee;
mod trace;
mod watch;
mod window;

pub use bare::{Bare, open_bare};
pub use calls::{
    CallForest, CallMarks, FollowedCalls, Spill, TarmacCalls, call_forest, call_marks, cost_forest, follow_calls,
};
pub use channel_events::{EventChannel, channel_events};
pub use channels::{ChannelNames, ChannelNamesError};
pub use code_log::{CodeLog, Events};
pub use demangle::demangle;
pub use error::Error;
pub use event_meanings::EventMeanings;
pub use executed_image::{ExecutedImage, ImageTotals};
pub use file::{FileError, FileOptions, OpenedSteps, TraceFile};
pub use identify::{Identity, Wanted, WrongKind};
pub use meter::{Meter, OnProgress};
pub use opened::{
    ExecutedBlock, ExecutedCall, ExecutedInstruction, Items, NamedSteps, Opened, SeekableSteps, SourcePacket, open,
};
pub use overview::{BufferOverview, Overview, SyncSpacing, TraceOverview, overview};
pub use parallel::{Parts, Progress};
pub use placement::{place_images, place_images_by_steps};
pub use present::{PresentIds, PresentInBuffers};
pub use program::{Program, SpaceOptions};
pub use sniff::{FileKind, Peeked};
#[cfg(feature = "text")]
pub use stats::{Counted, count_steps, step_statistics};
pub use steps::{
    CaptureShard, CaptureSteps, Carried, CountedCycles, OpenSteps, ShardEnd, open_capture, open_steps, open_steps_of,
};
pub use trace::{Trace, read_frames};
pub use watch::Watch;

pub use unspool_analyze as analyze;
pub use unspool_astf as astf;
pub use unspool_capture as capture;
pub use unspool_container as container;
pub use unspool_coresight as coresight;
pub use unspool_export as export;
pub use unspool_flow as flow;
pub use unspool_isa as isa;
pub use unspool_model as model;
#[cfg(unix)]
pub use unspool_record as record;
pub use unspool_stf as stf;
pub use unspool_tarmac as tarmac;
pub use unspool_tarmac::clock::Clock;
