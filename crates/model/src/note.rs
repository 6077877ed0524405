//! Text that a trace carries, as the note that a step is.
//!
//! bytes ─▶ **note**; what of them is no text is counted.

use std::borrow::Cow;

use crate::{Loss, Losses, Step};

/// The text of bytes. Where some of them are no UTF-8, others stand in their place, which is counted.
pub fn text<'b>(bytes: &'b [u8], position: u64, losses: &mut Losses) -> Cow<'b, str> {
    let text = String::from_utf8_lossy(bytes);
    if let Cow::Owned(_) = text {
        losses.add(Loss::Notes, position);
    }
    text
}

/// The step is a note, with this text.
pub fn set(step: &mut Step, bytes: &[u8], losses: &mut Losses) {
    let text = text(bytes, step.position, losses);
    step.set_note(&text);
}
