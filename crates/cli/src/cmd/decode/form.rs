//! Lines of executed instructions, ranges and other items, as text or as JSON.

use unspool::Trace;
use unspool::coresight::Features;
use unspool::flow::{Around, FlowItem, Instruction, Range};

use super::code::CodeCache;
use super::json::Json;
use super::text::Text;
use crate::style::Palette;

pub(super) enum Form<'p> {
    Text(Box<Text<'p>>),
    Json(Box<Json<'p>>),
}

impl<'p> Form<'p> {
    pub(super) fn new(
        is_json: bool,
        trace: &Trace<'_>,
        features: &Features,
        cache: CodeCache<'p>,
        palette: Palette,
    ) -> Self {
        match is_json {
            true => Self::Json(Box::new(Json::new(trace, cache))),
            false => Self::Text(Box::new(Text::new(trace, features, cache, palette))),
        }
    }

    #[inline]
    pub(super) fn instruction(&mut self, instruction: &Instruction, around: &Around) -> &[u8] {
        match self {
            Self::Text(text) => text.instruction(instruction, around),
            Self::Json(json) => json.instruction(instruction),
        }
    }

    #[inline]
    pub(super) fn range(&mut self, range: &Range<'_>, around: &Around) -> &[u8] {
        match self {
            Self::Text(text) => text.range(range, around),
            Self::Json(json) => json.range(range),
        }
    }

    pub(super) fn item(&mut self, trace: &Trace<'_>, item: &FlowItem) -> &[u8] {
        match self {
            Self::Text(text) => text.item(item),
            Self::Json(json) => json.item(trace, item),
        }
    }

    /// Follows an item without a line of it.
    pub(super) fn follow(&mut self, item: &FlowItem) {
        match (self, item) {
            (Self::Text(text), item) => drop(text.item(item)),
            (Self::Json(json), Ok(item)) => drop(json.follow(item)),
            (Self::Json(_), Err(_)) => {}
        }
    }

    /// Continues after lines of other traces.
    pub(super) fn restart(&mut self) {
        if let Self::Text(text) = self {
            text.restart();
        }
    }
}
