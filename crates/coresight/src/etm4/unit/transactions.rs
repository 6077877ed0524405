//! Transactions of the PE (FEAT_TME): their start, success and failure.
//!
//! Takes TSTART and TCOMMIT instructions and failures. Produces the elements of the outermost transaction, as far as it
//! was traced. Does not know whether an instruction fails a transaction: the caller reports that.
//! Specification: DDI 0487, Transaction elements (D4.3.11 and D4.5.10.9).

use super::{Executed, Unit};
use crate::Target;
use crate::etm4::packet::Packet;
use crate::exception::TRANSACTION_FAILURE;

/// The transaction that the PE is in.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Transaction {
    /// Number of transactions around the next instruction.
    depth: u32,
    /// The start of the outermost one was traced, and neither its success nor its failure.
    is_traced: bool,
    /// Where execution continues if it fails.
    restart: Target,
    /// State of the start/stop function at its start.
    is_started: bool,
    /// Number of P0 elements before its first one.
    elements_before: u64,
}

impl Transaction {
    /// The bit of a trace info element (R_WJJNK).
    pub(super) fn info(&self) -> u32 {
        u32::from(self.is_traced) << 6
    }

    /// What the transaction did is lost, for readers too (R_YTKLN).
    pub(super) fn overflow(&mut self) {
        self.is_traced = false;
    }
}

impl Unit {
    /// The address where execution continues if the transaction fails that the PE is in.
    pub fn transaction_restart(&self) -> Option<Target> {
        (self.transaction.depth > 0).then_some(self.transaction.restart)
    }

    /// The transaction fails, with execution at this address. It continues after the TSTART instruction.
    pub fn transaction_failure(&mut self, at: Target) {
        self.view.set_started(self.transaction.is_started);
        self.fail(at);
        self.transaction.depth = 0;
        if self.is_on {
            self.stack.clear();
            self.require_address();
        }
    }

    /// What happens to the transaction is not known: readers cannot rely on what it did.
    pub fn transaction_end(&mut self) {
        if core::mem::take(&mut self.transaction).is_traced {
            self.commit_all();
            self.emit(&Packet::Discard);
        }
    }

    /// A TSTART instruction, after its own element.
    pub(super) fn enter_transaction(&mut self, executed: &Executed) {
        self.transaction.depth += 1;
        if self.transaction.depth > 1 {
            // The trace does not show how they are nested (I_GWZDH).
            return;
        }
        let address = executed.address.wrapping_add(u64::from(executed.length));
        self.transaction.restart = Target { address, isa: executed.isa };
        self.transaction.is_started = self.view.is_started();
        if self.is_on {
            self.start_transaction();
        }
    }

    /// Emits the start of the transaction, if tracing starts inside of it or with it (R_CYHKB, R_RKGLY).
    pub(super) fn start_transaction(&mut self) {
        if self.transaction.depth == 0 || self.transaction.is_traced {
            return;
        }
        self.flush();
        self.emit(&Packet::TransactionStart);
        self.guesses.element(u32::from(!self.config.transaction_start_not_p0));
        (self.transaction.is_traced, self.transaction.elements_before) = (true, self.guesses.elements());
    }

    /// A TCOMMIT instruction. The element may precede that of the block that it is in (I_LVPTL).
    pub(super) fn leave_transaction(&mut self) {
        self.transaction.depth = self.transaction.depth.saturating_sub(1);
        if self.transaction.depth == 0 && core::mem::take(&mut self.transaction.is_traced) {
            self.flush();
            self.emit(&Packet::TransactionCommit);
        }
    }

    /// Emits the failure of a transaction whose start was traced.
    pub(super) fn fail(&mut self, at: Target) {
        if !core::mem::take(&mut self.transaction.is_traced) {
            return;
        }
        self.flush();
        if self.is_on && !self.in_block {
            // Nothing was executed after the last P0 element: its target is known.
            self.address(at, false);
        }
        if let Some(count) = self.guesses.cancels(self.transaction.elements_before) {
            self.emit(&Packet::CancelFormat1 { count, mispredict: false });
            self.guesses.cancel(count);
        }
        self.exception_without_address(TRANSACTION_FAILURE);
    }
}
