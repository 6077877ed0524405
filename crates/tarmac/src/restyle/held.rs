//! Lines that wait for the next instruction of their core.

use super::super::parse::{ParseOptions, Parser};
use super::super::read::Position;
use super::super::record::{Line, Stamp};

/// Lines of one core that wait.
#[derive(Debug, Default)]
pub(super) struct HeldEffects {
    /// Effects of the next instruction.
    pub(super) effects: Vec<Held>,
    /// Number of bytes of the effects.
    pub(super) length: usize,
    /// Instructions, each with the effects above it.
    pub(super) group: Vec<(Held, Vec<Held>)>,
}

/// A line that is written later.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) raw: Vec<u8>,
    pub(super) position: Position,
    pub(super) stamp: Stamp,
    pub(super) is_thumb: bool,
}

impl Held {
    pub(super) fn line(&self) -> Line<'_> {
        Parser::new(ParseOptions { implicit_thumb: self.is_thumb }).parse(&self.raw)
    }
}
