//! Exceptions: which ones are traced, and how.
//!
//! Takes exceptions with their return address, and halts for a debugger. Produces their packets. Whether an exception is
//! traced depends on what was traced before it, not on the filters.
//! Specification: DDI 0487, Rules for tracing Exceptional occurrences (D4.5.9.5) and Forced tracing (D4.5.9.6).

use super::Unit;
use crate::etm4::packet::{ExceptionAddress, Packet};
use crate::exception::PE_RESET;
use crate::{SubIsa, Target};

/// The exception type of a PE that halts for a debugger.
pub const DEBUG_HALT: u16 = 1;

impl Unit {
    /// Traces an exception: execution ran up to the return address and continues at the next instruction.
    pub fn exception(&mut self, number: u16, return_address: Target) {
        if self.is_prohibited {
            // Exceptions that are taken from there are not traced, even those that leave it (DDI 0487, R_FFVYM).
            return;
        }
        self.inputs.exception();
        let return_address = self.encodable(return_address);
        if !self.traces_exception(number, return_address) {
            self.is_active = false;
            return self.stop_if_on();
        }
        if !self.is_on {
            self.turn_on();
        }
        if number == PE_RESET && self.is_ete && self.in_block {
            // Of a reset, readers of ETE take no address: the rest of the block needs an exception of its own.
            self.exception(DEBUG_HALT, return_address);
        }
        self.q_elements.arrive(return_address);
        self.flush_q();
        if self.needs_address && self.config.return_stack {
            // One packet for target and return address would suffice, but the reference decoder pops its return stack then.
            self.address_is_forced = true;
            self.locate(return_address);
        } else if !self.needs_address && !self.in_block {
            // The context that the exception was taken from, if the last P0 element changed it (DDI 0487, R_XGXKK).
            self.locate(return_address);
        }
        if number == PE_RESET && self.is_ete {
            self.locate(return_address);
            self.exception_without_address(number);
        } else {
            self.exception_with_address(number, return_address);
        }
        self.guesses.element(1);
        self.require_address();
        self.time_due = true;
    }

    fn exception_with_address(&mut self, number: u16, return_address: Target) {
        let is_target_too = self.needs_address;
        let address = if is_target_too { ExceptionAddress::TargetAndReturn } else { ExceptionAddress::Return };
        self.flush();
        self.emit(&Packet::Exception { number, address, fault_pending: None });
        // Nothing may come between an exception packet and its address.
        self.address(return_address, is_target_too);
    }

    /// Emits an exception packet whose return address is unknown, which the history of addresses takes for zero (DDI 0487, R_FPDFJ).
    pub(super) fn exception_without_address(&mut self, number: u16) {
        self.flush();
        self.emit(&Packet::Exception { number, address: ExceptionAddress::Return, fault_pending: None });
        self.emit(&Packet::Ignore);
        self.addresses.unknown();
    }

    /// Is an exception outside of a prohibited region traced? That depends on what preceded it, not on the filters, except
    /// for types that are always traced (DDI 0487, R_DPMBQ, R_LTLBB, R_GPKSH).
    fn traces_exception(&self, number: u16, return_address: Target) -> bool {
        let follows_traced = match self.is_ete {
            true => self.is_active,
            false => self.is_on && (!self.needs_address || self.view.shows(return_address, &self.whole_context)),
        };
        follows_traced || self.view.always_traces(number)
    }

    /// A return address without the low bits that packets cannot encode.
    fn encodable(&self, at: Target) -> Target {
        let is_t32 = !self.context.aarch64 && at.address & 3 == 2;
        let isa = if is_t32 { SubIsa::Is1 } else { at.isa };
        let all = if self.context.aarch64 { u64::MAX } else { 0xffff_ffff };
        Target { address: at.address & all & (u64::MAX << isa.shift()), isa }
    }

    /// Stops after all instructions up to this address: a debug halt traces the rest of a block.
    pub fn halt(&mut self, at: Target) {
        if self.is_on && self.in_block {
            self.exception(DEBUG_HALT, at);
        }
        self.stop();
    }
}
