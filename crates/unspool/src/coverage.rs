//! Coverage: which instructions, functions, branches and source lines of the images a trace executed, and how often.
//!
//! ```text
//! AddressCounts (analyze), Program ─▶ ExecutedImages: counts by image, at link addresses
//!                                     └─▶ code.rs: all instructions of its functions ┐
//!                                         Lines: source lines of addresses ──────────┴─▶ Report
//! ```
//!
//! Several runs are added to the same images, wherever each of them was loaded. Nothing is covered that the trace does not show:
//! where part of the execution is missing, all numbers are lower bounds, and [`ExecutedImages::is_lower_bound`] says so.

mod code;
mod images;
mod report;

pub use self::code::StaticInstruction;
pub use self::images::{ExecutedImages, ImageCounts};
pub use self::report::{BranchCoverage, FunctionCoverage, ImageReport, LineCoverage, Ratio, Report};
