//! The queue of what is not certain yet: elements in their order, and which of them a cancel takes.
//!
//! Comes in: elements. Goes out: the oldest, or the youngest of those that a cancel drops. What survives a cancel
//! stays where it is and is not walked over: a trace could otherwise make each of its cancels pass a full queue.

use alloc::collections::VecDeque;

use super::p0::survives_cancel;
use crate::{Element, Located};

/// Elements that wait, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    /// `None` was dropped by a cancel; the first and the last are never that.
    elements: VecDeque<Option<Located<Element>>>,
    /// The number of the first element. An element keeps its number while others leave.
    first: u64,
    /// The numbers of those that a cancel drops, in the order of the elements.
    cancellable: VecDeque<u64>,
}

impl Waiting {
    /// How much memory is in use, counted in elements: those that wait and those that were dropped between them.
    pub(super) fn len(&self) -> usize {
        self.elements.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Located<Element>> {
        self.elements.iter().flatten()
    }

    pub(super) fn front(&self) -> Option<&Located<Element>> {
        self.elements.front()?.as_ref()
    }

    pub(super) fn push_back(&mut self, element: Located<Element>) {
        if !survives_cancel(&element.value) {
            self.cancellable.push_back(self.first + self.elements.len() as u64);
        }
        self.elements.push_back(Some(element));
    }

    pub(super) fn pop_front(&mut self) -> Option<Located<Element>> {
        let element = self.elements.pop_front()??;
        if self.cancellable.front() == Some(&self.first) {
            self.cancellable.pop_front();
        }
        self.first += 1;
        self.trim();
        Some(element)
    }

    /// Replaces the oldest element by what is left of it.
    pub(super) fn replace_front(&mut self, element: Located<Element>) {
        if let Some(front) = self.elements.front_mut() {
            *front = Some(element);
        }
    }

    /// The youngest element that a cancel drops.
    pub(super) fn youngest(&mut self) -> Option<&mut Located<Element>> {
        let index = self.cancellable.back()? - self.first;
        self.elements.get_mut(index as usize)?.as_mut()
    }

    /// Drops it.
    pub(super) fn drop_youngest(&mut self) {
        let Some(number) = self.cancellable.pop_back() else { return };
        if let Some(element) = self.elements.get_mut((number - self.first) as usize) {
            *element = None;
        }
        self.trim();
    }

    fn trim(&mut self) {
        while let Some(None) = self.elements.back() {
            self.elements.pop_back();
        }
        while let Some(None) = self.elements.front() {
            self.elements.pop_front();
            self.first += 1;
        }
    }
}
