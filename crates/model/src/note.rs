//! Notes: text of a trace as steps. Bytes that are not text are counted as losses.

use std::borrow::Cow;

use crate::{Loss, Losses, Step};

/// Decodes text. Invalid UTF-8 is replaced and counted.
pub fn text<'b>(bytes: &'b [u8], position: u64, losses: &mut Losses) -> Cow<'b, str> {
    let text = String::from_utf8_lossy(bytes);
    if let Cow::Owned(_) = text {
        losses.add(Loss::Notes, position);
    }
    text
}

/// Makes the step a note with this text.
pub fn set(step: &mut Step, bytes: &[u8], losses: &mut Losses) {
    let text = text(bytes, step.position, losses);
    step.set_note(&text);
}
