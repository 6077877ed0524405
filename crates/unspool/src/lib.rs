//! Decode, convert and analyze processor instruction traces.
//!
//! capture package ─▶ frames ─▶ packets ─▶ elements ─▶ committed ─▶ ranges ─▶ instructions
//!
//! [`Trace`] joins [`capture`], [`coresight`] and [`flow`] into a pipeline over one source of a capture, in constant
//! memory; [`Program`] is the code that ran; [`overview`] summarizes a capture. [`astf`], [`stf`] and [`tarmac`] are
//! formats of trace files, and [`FileKind`] distinguishes them from captures; [`open_steps`] opens the steps of any of
//! them. Knows nothing of terminals. With the feature `text`, [`isa`] has a `Disassembler`, and records have text.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use unspool::{Trace, capture::Capture};
//!
//! # let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hello-ete");
//! let capture = Capture::open(dir)?;
//! for trace in Trace::all(&capture) {
//!     let mut packets = 0;
//!     trace.packets(&mut (|_item| packets += 1, ()))?;
//!     println!("{}: {packets} packets", trace.source().name);
//!     # assert!(packets > 10);
//! }
//! # Ok(())
//! # }
//! ```

mod bare;
mod calls;
pub mod check;
pub mod convert;
pub mod encode;
mod error;
pub mod file;
mod identify;
pub mod indexed_log;
pub mod info;
mod meter;
pub mod number;
mod overview;
mod parallel;
mod program;
mod recording;
pub mod slice;
mod sniff;
#[cfg(feature = "text")]
mod stats;
mod steps;
pub mod target;
mod tee;
mod trace;
mod watch;
mod window;

pub use bare::{Bare, open_bare};
pub use calls::{CallForest, TarmacCalls, call_tree};
pub use error::Error;
pub use file::{FileError, FileOptions, OpenedSteps, TraceFile};
pub use identify::{Identity, Wanted, WrongKind};
pub use meter::{Meter, OnProgress};
pub use overview::{BufferOverview, Overview, TraceOverview, overview};
pub use parallel::{Parts, Progress};
pub use program::Program;
pub use recording::{Executed, ExecutedBlock, Items, Recording, SourcePacket, open};
pub use sniff::{FileKind, Peeked};
#[cfg(feature = "text")]
pub use stats::{Counted, count_steps};
pub use steps::{CaptureSteps, OpenSteps, open_capture, open_steps, open_steps_of};
pub use trace::{Trace, read_frames};
pub use watch::Watch;

pub use unspool_analyze as analyze;
pub use unspool_astf as astf;
pub use unspool_capture as capture;
pub use unspool_container as container;
pub use unspool_coresight as coresight;
pub use unspool_flow as flow;
pub use unspool_isa as isa;
pub use unspool_model as model;
#[cfg(unix)]
pub use unspool_record as record;
pub use unspool_stf as stf;
pub use unspool_tarmac as tarmac;
pub use unspool_tarmac::clock::Clock;
