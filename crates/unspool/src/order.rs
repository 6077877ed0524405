//! What several streams executed, in one order.
//!
//! ```text
//! buffers of a source ─▶ lane: segments, in order ┐
//! buffers of a source ─▶ lane: segments, in order ┼─▶ TimeMerge ─▶ segments by time, with what they overlap
//! buffers of a source ─▶ lane: segments, in order ┘                └─▶ GroupFile ─▶ segments by process or thread
//! ```
//!
//! A [segment](Segment) is what one source executed between two timestamps, for one [`Owner`]. Its time is known only as a
//! [`TimeWindow`]; of two segments whose windows overlap, neither is certainly first. [`run_lanes`] decodes lanes on
//! several threads; the queue of a lane is short, so that memory does not grow with the trace. What a segment contains
//! (text, JSON, counts) is the choice of the caller.

mod group_file;
mod lanes;
mod merge;
mod owner;
mod time;

pub use group_file::GroupFile;
pub use lanes::{LaneReceiver, LaneSender, OpenLanes, run_lanes};
pub use merge::{Merged, TimeMerge};
pub(crate) use owner::Owners;
pub use owner::{Owner, OwnerSink};
pub use time::{OrderClock, Segment, TimeWindow, have_same_clock, lanes_of};
