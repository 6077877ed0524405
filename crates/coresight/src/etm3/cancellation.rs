//! Elements to committed elements: the last atom may still be canceled.
//!
//! elements ─▶ **committed**
//!
//! An exception can cancel the instruction of the last atom, with its data and its target. So the last atoms are held
//! back, with the elements after them, until a newer atom, an exception without a cancel or a break settles them.
//! Specification: Arm IHI 0014.

use alloc::vec::Vec;

use super::Config;
use super::element::OwnElement;
use crate::decode::Plain;
use crate::{Atoms, Broken, Element, ElementError, ElementItem, Extent, Located, Sink};

/// Greatest number of elements that wait after an atom.
const MAX_WAITING: usize = 1 << 12;

/// Holds the last atoms back. Feed it with [`push`](Self::push), end with [`finish`](Self::finish).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancellation {
    is_m_profile: bool,
    held: Option<(Extent, Atoms)>,
    /// The elements after the held atoms.
    waiting: Vec<Located<Element>>,
    /// Some of them are not cycles.
    holds_others: bool,
}

impl Cancellation {
    /// Nothing is held.
    pub fn new(config: &Config) -> Self {
        Self { is_m_profile: config.is_m_profile, held: None, waiting: Vec::new(), holds_others: false }
    }

    /// Takes the next element, or passes on the error in its place.
    #[inline]
    pub fn push(&mut self, item: ElementItem, sink: &mut impl Sink<ElementItem>) {
        match item {
            Ok(Located { offset, length, value: Element::Atoms(atoms) }) => {
                self.settle(sink);
                self.held = Some((Extent { offset, length }, atoms));
            }
            Ok(element) => self.other(element, sink),
            Err(_) => {
                self.settle(sink);
                sink.item(item);
            }
        }
    }

    /// Takes cycles and the atoms after them. Only while [nothing but those is held](Self::is_plain).
    #[inline(always)]
    pub(super) fn plain(
        &mut self,
        extent: Extent,
        cycles: Option<u32>,
        atoms: Atoms,
        sink: &mut impl Sink<Located<Plain>>,
    ) {
        if atoms.is_empty() && self.held.is_some() {
            self.waiting.extend(cycles.map(|_| extent.locate(Element::CycleCount(cycles))));
            return;
        }
        if !atoms.is_empty()
            && let Some((earlier, settled)) = self.held.replace((extent, atoms))
        {
            sink.item(earlier.locate(Plain::Atoms(settled)));
            for waiting in &self.waiting {
                if let Element::CycleCount(cycles) = waiting.value {
                    sink.item(waiting.map(|_| Plain::Cycles(cycles)));
                }
            }
            self.waiting.clear();
        }
        if cycles.is_some() {
            sink.item(extent.locate(Plain::Cycles(cycles)));
        }
    }

    /// Is nothing but atoms and cycles held?
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        !self.holds_others && self.waiting.len() < MAX_WAITING
    }

    /// Is nothing held?
    pub(super) fn is_settled(&self) -> bool {
        self.held.is_none()
    }

    /// Ends the stream.
    pub fn finish(&mut self, sink: &mut impl Sink<ElementItem>) {
        self.settle(sink);
    }

    fn other(&mut self, element: Located<Element>, sink: &mut impl Sink<ElementItem>) {
        match element.value {
            Element::Cancel(count) => return self.cancel(&element, count, sink),
            Element::TraceOn | Element::Overflow | Element::Exception { .. } => self.settle(sink),
            _ if self.waiting.len() >= MAX_WAITING => self.settle(sink),
            _ => {}
        }
        if self.held.is_some() {
            self.holds_others |= !matches!(element.value, Element::CycleCount(_));
            self.waiting.push(element);
        } else {
            sink.item(Ok(element));
        }
    }

    /// Releases what is held: it happened.
    #[inline]
    fn settle(&mut self, sink: &mut impl Sink<ElementItem>) {
        if let Some((extent, atoms)) = self.held.take() {
            sink.item(Ok(extent.locate(Element::Atoms(atoms))));
            self.waiting.drain(..).for_each(|element| sink.item(Ok(element)));
            self.holds_others = false;
        }
    }

    /// Drops the last atom, its data and its target.
    fn cancel(&mut self, element: &Located<Element>, count: u32, sink: &mut impl Sink<ElementItem>) {
        let Some((extent, atoms)) = self.held.take() else {
            let kind = Broken::CancelOfNothing(count);
            return sink.item(Err(ElementError { offset: element.offset, skipped: 0, kind }));
        };
        // On the M profile, the return instruction itself is complete.
        let is_exit = |element: &Located<Element>| element.value == Element::ExceptionReturn;
        let cancels_exit_only = self.is_m_profile && self.waiting.iter().any(is_exit);
        let kept = if cancels_exit_only { atoms } else { atoms.split_at(atoms.count().saturating_sub(1)).0 };
        if !kept.is_empty() {
            sink.item(Ok(extent.locate(Element::Atoms(kept))));
        }
        let survives = |element: &Located<Element>| survives(&element.value);
        self.waiting.drain(..).filter(survives).for_each(|element| sink.item(Ok(element)));
        self.holds_others = false;
    }
}

/// Does the element not belong to the canceled instruction?
fn survives(element: &Element) -> bool {
    use OwnElement as Own;
    !matches!(
        element,
        Element::ExceptionReturn
            | Element::TargetAddress(_)
            | Element::OtherCode { .. }
            | Element::Etm3(Own::NewAddress | Own::Transfer(_) | Own::LateValue { .. } | Own::StoreFailed)
    )
}
