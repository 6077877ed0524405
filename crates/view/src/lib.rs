//! The viewer: a page in a browser that shows traces, served on the loopback interface.
//!
//! ```text
//! traces ─▶ sources, each with its index, calls and findings (in the background)
//! request of the page ─▶ checked address ─▶ parameters ─▶ **answer**: a window of a source as JSON
//! ```
//!
//! Nothing is decoded before it is asked for, but what the timeline needs. `docs/view.md` describes the page, and
//! `page/src/api.ts` the requests.

mod answer;
mod calls;
mod differences;
mod find;
mod findings;
mod job;
mod line_counts;
mod marks;
mod moves;
mod packets;
mod parameters;
mod request;
mod rows;
mod server;
mod slices;
mod source;
mod source_file;
mod state;
mod times;
mod tree;

pub use server::{StartError, Viewer};

/// Reason why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    status: u16,
    text: String,
}

impl Refusal {
    /// The request is malformed.
    #[allow(clippy::needless_pass_by_value, reason = "texts are made for it")]
    pub(crate) fn malformed(text: impl ToString) -> Self {
        Self { status: 400, text: text.to_string() }
    }

    /// There is no such thing.
    #[allow(clippy::needless_pass_by_value, reason = "texts are made for it")]
    pub(crate) fn absent(text: impl ToString) -> Self {
        Self { status: 404, text: text.to_string() }
    }

    /// The trace cannot be read.
    #[allow(clippy::needless_pass_by_value, reason = "it is what `map_err` passes on")]
    pub(crate) fn unreadable(error: impl ToString) -> Self {
        Self { status: 500, text: error.to_string() }
    }
}
