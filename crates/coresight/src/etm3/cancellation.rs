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
}

impl Cancellation {
    /// Nothing is held.
    pub fn new(config: &Config) -> Self {
        Self { is_m_profile: config.is_m_profile, held: None, waiting: Vec::new() }
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

    /// Holds atoms instead of those before, which are settled. Only while [nothing else is held](Self::holds_only_atoms).
    #[inline(always)]
    pub(super) fn replace_held(&mut self, extent: Extent, atoms: Atoms) -> Option<(Extent, Atoms)> {
        self.held.replace((extent, atoms))
    }

    /// Are atoms held, and nothing after them?
    #[inline(always)]
    pub(super) fn holds_only_atoms(&self) -> bool {
        self.held.is_some() && self.waiting.is_empty()
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
