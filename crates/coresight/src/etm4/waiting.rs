//! Queue of speculative elements.
//!
//! Takes elements. Produces the oldest, or the youngest of those that a cancel drops. Elements that survive a cancel are
//! not visited by it: a trace could otherwise make each of its cancels walk a full queue.

use alloc::collections::VecDeque;

use super::p0::survives_cancel;
use crate::{Element, Located};

/// Elements that wait, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    /// `None` was dropped by a cancel; the first and the last are never `None`.
    elements: VecDeque<Option<Located<Element>>>,
    /// The number of the first element. Elements keep their numbers.
    first: u64,
    /// The numbers of the elements that a cancel drops, in order.
    cancelable: VecDeque<u64>,
}

impl Waiting {
    /// Number of elements in memory, dropped ones between others included.
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
            self.cancelable.push_back(self.first + self.elements.len() as u64);
        }
        self.elements.push_back(Some(element));
    }

    pub(super) fn pop_front(&mut self) -> Option<Located<Element>> {
        let element = self.elements.pop_front()??;
        if self.cancelable.front() == Some(&self.first) {
            self.cancelable.pop_front();
        }
        self.first += 1;
        self.trim();
        Some(element)
    }

    /// Replaces the oldest element by its rest.
    pub(super) fn replace_front(&mut self, element: Located<Element>) {
        if let Some(front) = self.elements.front_mut() {
            *front = Some(element);
        }
    }

    /// The youngest element that a cancel drops.
    pub(super) fn youngest(&mut self) -> Option<&mut Located<Element>> {
        let index = self.cancelable.back()? - self.first;
        self.elements.get_mut(index as usize)?.as_mut()
    }

    /// Drops the youngest element that a cancel drops.
    pub(super) fn drop_youngest(&mut self) {
        let Some(number) = self.cancelable.pop_back() else { return };
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
