//! Architectural traces in the formats that people keep them in.
//!
//! bytes ─▶ **records** ─▶ views of them, findings, text; and back
//!
//! Each format is a module of the same shape: `record` (the words), `read` and `write` (the container), `lift` and
//! `build` (records as instructions, both ways), `check` (is it right?), `text` (how it reads). Native records are the
//! truth: reading a file and writing it back changes no byte. Knows nothing of CoreSight, and opens no file.

pub mod astf;
pub mod hold;
mod note;
#[cfg(feature = "text")]
mod push;
mod rule;
pub mod slice;
pub mod stf;
pub mod tarmac;
