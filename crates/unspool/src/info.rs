//! Summaries of captures and trace files.
//!
//! Takes an open file or capture; produces a value, also as JSON. Knows nothing of terminals.

mod astf;
mod capture;
mod stf;
mod tarmac;

pub use self::astf::{AstfInfo, features, level_name, storage_name};
pub use self::capture::{CaptureInfo, SourceTotals, images, is_sound};
pub use self::stf::StfInfo;
pub use self::tarmac::TarmacInfo;
