//! Elements to committed elements: resolves speculation and transactions.
//!
//! elements ─▶ **committed** ─▶ steps
//!
//! Holds elements back until they are committed, drops those that are canceled or discarded, and holds those of a
//! transaction until it has succeeded. No uncertain element leaves this stage. Elements of a trace unit that traces no
//! speculation, as most do, pass straight through.
//! Specification: Arm DDI 0487, trace analyzer, stage 2.
//!
//! Where the text is silent or contradicts itself, we decided: cancels take the youngest elements first, and those from
//! before the first trace info last; an element with no speculative P0 element before it is not held back; surviving
//! elements keep their position; cycle counts survive a discard as they survive a cancel; a transaction failure is not a
//! P0 element; commits and failures of transactions wait for their turn like other elements; only the first trace info
//! can report a transaction that is under way. The elements of a stream that never resolves anything are released
//! unresolved: [`Broken::EndlessSpeculation`] and [`Broken::EndlessTransaction`] report it.

use alloc::vec::Vec;

use super::Config;
use super::p0::{p0_count, survives_cancel};
use super::waiting::Waiting;
use crate::{Atoms, Broken, Element, ElementError, ElementItem, Located, Sink, Transactions};

/// Resolves speculation and transactions. Feed it with [`push`](Self::push), end with [`finish`](Self::finish).
///
/// Committed elements are never [`Element::Commit`] or [`Element::Cancel`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speculation {
    config: Config,
    transactions: Transactions,
    /// P0 elements from before the first trace info that are not resolved yet; `None` before one was seen.
    unseen: Option<u32>,
    queue: Waiting,
    /// The elements of the transaction that is under way.
    transaction: Option<Vec<Located<Element>>>,
    /// The next trace info is the first since the start or a break: it may report a transaction whose start was not traced.
    fresh: bool,
}

/// Greatest number of elements held back: more than any trace unit needs. Longer queues are damaged or hostile.
const MAX_WAITING: usize = 1 << 16;

impl Speculation {
    /// The stage at the start of a stream.
    pub fn new(config: &Config, transactions: Transactions) -> Self {
        Self { config: *config, transactions, unseen: None, queue: Waiting::default(), transaction: None, fresh: true }
    }

    /// Do atoms and addresses pass unchanged?
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.config.max_speculation == 0 && self.transaction.is_none()
    }

    /// Number of P0 elements that are held back.
    pub fn outstanding(&self) -> u64 {
        self.queue.iter().map(|entry| u64::from(p0_count(&entry.value, &self.config))).sum()
    }

    /// Processes the next element, or the error in its place.
    #[inline(always)]
    pub fn push(&mut self, item: ElementItem, sink: &mut impl Sink<ElementItem>) {
        // Nearly all elements are of these two kinds, and most trace units show no speculation.
        let common = matches!(item, Ok(Located { value: Element::Atoms(_) | Element::TargetAddress(_), .. }));
        if common && self.is_plain() {
            sink.item(item);
        } else {
            self.resolve(item, sink);
        }
    }

    #[inline(never)]
    fn resolve(&mut self, item: ElementItem, sink: &mut impl Sink<ElementItem>) {
        match item {
            Ok(element) if self.config.max_speculation == 0 => self.without_speculation(element, sink),
            Ok(element) => self.element(element, sink),
            Err(error) => {
                if error.kind.breaks_flow() {
                    self.forget(sink);
                    self.unseen = None;
                    self.fresh = true;
                }
                sink.item(Err(error));
            }
        }
    }

    /// Ends the stream and drops speculative elements. Returns the number of P0 elements among them.
    pub fn finish(&mut self, sink: &mut impl Sink<ElementItem>) -> u64 {
        let outstanding = self.outstanding();
        self.forget(sink);
        outstanding
    }

    fn without_speculation(&mut self, element: Located<Element>, sink: &mut impl Sink<ElementItem>) {
        match element.value {
            Element::Commit(_) => {}
            Element::Cancel(count) => sink.item(Err(error_at(&element, Broken::CancelOfNothing(count)))),
            _ => self.release(element, sink),
        }
    }

    fn element(&mut self, element: Located<Element>, sink: &mut impl Sink<ElementItem>) {
        match element.value {
            Element::Commit(count) => self.commit(&element, count, sink),
            Element::Cancel(count) => self.cancel(&element, count, sink),
            Element::Discard => {
                self.cancel_all(sink);
                self.release(element, sink);
            }
            Element::TraceInfo { speculation, .. } if self.unseen.is_none() => {
                self.unseen = Some(speculation);
                self.hold(element, sink);
            }
            _ => self.hold(element, sink),
        }
    }

    fn hold(&mut self, element: Located<Element>, sink: &mut impl Sink<ElementItem>) {
        self.queue.push_back(element);
        if self.queue.len() > MAX_WAITING {
            sink.item(Err(error_at(&element, Broken::EndlessSpeculation)));
            while let Some(oldest) = self.queue.pop_front() {
                self.release(oldest, sink);
            }
        }
        self.release_certain(sink);
    }

    /// Elements with no speculative P0 element before them cannot be canceled any more.
    fn release_certain(&mut self, sink: &mut impl Sink<ElementItem>) {
        if self.unseen.unwrap_or(0) > 0 {
            return;
        }
        while let Some(front) = self.queue.front().copied() {
            if p0_count(&front.value, &self.config) > 0 {
                break;
            }
            self.queue.pop_front();
            self.release(front, sink);
        }
    }

    fn commit(&mut self, commit: &Located<Element>, count: u32, sink: &mut impl Sink<ElementItem>) {
        let mut left = self.resolve_unseen(count);
        while left > 0 {
            let Some(front) = self.queue.front().copied() else {
                sink.item(Err(error_at(commit, Broken::CommitOfNothing(left))));
                break;
            };
            let (committed, waiting) = split_oldest(front, left);
            left -= p0_count(&committed.value, &self.config);
            match waiting {
                Some(waiting) => self.queue.replace_front(waiting),
                None => drop(self.queue.pop_front()),
            }
            self.release(committed, sink);
        }
        self.release_certain(sink);
    }

    fn cancel(&mut self, cancel: &Located<Element>, count: u32, sink: &mut impl Sink<ElementItem>) {
        let mut left = count;
        while left > 0 {
            let Some(youngest) = self.queue.youngest() else { break };
            let p0 = p0_count(&youngest.value, &self.config);
            if p0 > left {
                *youngest = split_oldest(*youngest, p0 - left).0;
            } else {
                self.queue.drop_youngest();
            }
            left -= p0.min(left);
        }
        left = self.resolve_unseen(left);
        if left > 0 {
            sink.item(Err(error_at(cancel, Broken::CancelOfNothing(left))));
        }
        self.release_certain(sink);
    }

    /// Resolves P0 elements that were traced before the first trace info. Returns the number left to resolve.
    fn resolve_unseen(&mut self, count: u32) -> u32 {
        let unseen = self.unseen.unwrap_or(0);
        let resolved = unseen.min(count);
        self.unseen = self.unseen.map(|unseen| unseen - resolved);
        count - resolved
    }

    /// Drops all speculative elements but those that survive a cancel.
    fn cancel_all(&mut self, sink: &mut impl Sink<ElementItem>) {
        self.unseen = self.unseen.map(|_| 0);
        while let Some(element) = self.queue.pop_front() {
            if survives_cancel(&element.value) {
                self.release(element, sink);
            }
        }
    }

    /// Ends speculation and transactions at a break in the trace.
    fn forget(&mut self, sink: &mut impl Sink<ElementItem>) {
        self.cancel_all(sink);
        self.end_transaction(false, sink);
    }

    /// Emits an element, or holds it until its transaction succeeds.
    fn release(&mut self, element: Located<Element>, sink: &mut impl Sink<ElementItem>) {
        if self.transactions == Transactions::Show {
            return sink.item(Ok(element));
        }
        match element.value {
            Element::TransactionCommit => self.end_transaction(true, sink),
            Element::TransactionFailure | Element::Discard => self.end_transaction(false, sink),
            _ => {}
        }
        match &mut self.transaction {
            Some(held) => {
                held.push(element);
                if held.len() > MAX_WAITING {
                    sink.item(Err(error_at(&element, Broken::EndlessTransaction)));
                    self.end_transaction(true, sink);
                }
            }
            None => sink.item(Ok(element)),
        }
        self.start_transaction(&element.value);
    }

    fn start_transaction(&mut self, element: &Element) {
        let starts = match element {
            Element::TransactionStart => true,
            Element::TraceInfo { in_transaction, .. } => core::mem::take(&mut self.fresh) && *in_transaction,
            _ => false,
        };
        if starts {
            self.transaction.get_or_insert_default();
        }
    }

    fn end_transaction(&mut self, succeeded: bool, sink: &mut impl Sink<ElementItem>) {
        let Some(held) = self.transaction.take() else { return };
        held.into_iter().filter(|element| succeeded || survives_cancel(&element.value)).for_each(|e| sink.item(Ok(e)));
    }
}

/// Splits an element after `count` P0 elements.
fn split_oldest(element: Located<Element>, count: u32) -> (Located<Element>, Option<Located<Element>>) {
    let Element::Atoms(atoms) = element.value else { return (element, None) };
    if atoms.count() <= count {
        return (element, None);
    }
    let (oldest, rest) = atoms.split_at(count);
    let with = |atoms: Atoms| Located { value: Element::Atoms(atoms), ..element };
    (with(oldest), Some(with(rest)))
}

fn error_at(element: &Located<Element>, kind: Broken) -> ElementError {
    ElementError { offset: element.offset, skipped: 0, kind }
}
