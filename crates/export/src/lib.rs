//! Files of other tools: timelines, flame graphs and profiles.
//!
//! calls, counts and values of [`analyze`](unspool_analyze) ─▶ **writers** ─▶ bytes that a viewer opens
//!
//! Each file format is one module. A writer takes what an analysis emits and a [`Write`](std::io::Write), streams, and closes what it
//! opened when the trace ends, wherever that is. Names of functions and source lines come from the caller. No trace format
//! is known here, and no file is opened.

pub mod afdo;
pub mod bolt;
pub mod callgrind;
pub mod flamegraph;
pub mod folded;
pub mod html;
pub mod perfetto;
pub mod speedscope;
pub mod stacks;
pub mod vcd;
