//! Items between a taken indirect branch and the address where execution continues.
//!
//! items after the branch ─▶ **held back** ─▶ the same items, once the target is known
//!
//! The context, the time or an exception return may come between the two. An item which shows that execution did not
//! simply continue ends the wait.

use unspool_coresight::Located;

use crate::item::{FlowItem, Item, Transaction};

/// Greatest number of items that are held back. Real trace has a handful there.
const MAX_WAITING: usize = 16;

/// Items that wait for the target of a branch.
#[derive(Debug, Default)]
pub struct Between {
    items: Vec<Located<Item>>,
}

impl Between {
    /// Holds an item back, if execution continues after it as before.
    ///
    /// # Errors
    ///
    /// The wait is over: the error is the target of the branch, if the item shows it.
    pub fn hold(&mut self, item: &FlowItem) -> Result<(), Option<u64>> {
        match item {
            Ok(item) if preserves_flow(&item.value) && self.items.len() < MAX_WAITING => {
                self.items.push(*item);
                Ok(())
            }
            // A trace unit that counts every cycle has many counts while an instruction waits.
            Ok(item) if self.adds_cycles(&item.value) => Ok(()),
            Ok(item) => Err(start_of(&item.value)),
            Err(_) => Err(None),
        }
    }

    /// Returns the items, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = Located<Item>> {
        self.items.drain(..)
    }

    /// Adds cycles to the last item, if that is a cycle count too.
    fn adds_cycles(&mut self, item: &Item) -> bool {
        let Some(Located { value: Item::CycleCount(Some(total)), .. }) = self.items.last_mut() else { return false };
        let Item::CycleCount(Some(cycles)) = item else { return false };
        let sum = total.checked_add(*cycles);
        *total = sum.unwrap_or(*total);
        sum.is_some()
    }
}

/// Does execution after the item continue where it was before?
fn preserves_flow(item: &Item) -> bool {
    match item {
        Item::Context(_)
        | Item::Map(_)
        | Item::ExceptionReturn
        | Item::FunctionReturn
        | Item::Timestamp { .. }
        | Item::CycleCount(_)
        | Item::Event { .. }
        | Item::Marker
        | Item::Trigger
        | Item::Condition { .. }
        | Item::Etm3(_)
        | Item::Instrumentation { .. }
        | Item::Transaction(Transaction::Start | Transaction::Commit) => true,
        Item::Q { .. }
        | Item::Exception { .. }
        | Item::TraceOn
        | Item::Overflow
        | Item::Discard { .. }
        | Item::NoCode { .. }
        | Item::Lost { .. }
        | Item::Finding(_)
        | Item::Transaction(Transaction::Failure)
        | Item::End => false,
    }
}

/// The start of the instructions that an item represents.
fn start_of(item: &Item) -> Option<u64> {
    match item {
        Item::Q { start, .. } => *start,
        Item::NoCode { address, .. } => Some(*address),
        _ => None,
    }
}
