//! Comparators of addresses, address ranges and contexts, which filters and resources use.
//!
//! Takes register values, then addresses with their context. Produces matches, and the windows of addresses between which
//! no comparator changes its answer.

use alloc::vec::Vec;

use super::settings::Settings;
use crate::{Context, Protocol, Security, Target};

/// Greatest number of address comparators, and of comparators of each kind of identifier.
const ADDRESSES: usize = 16;
const CONTEXTS: usize = 8;

/// The comparators of a trace unit. Identifiers that a context does not have count as zero.
#[derive(Debug, Clone)]
pub(super) struct Comparators {
    addresses: [AddressComparator; ADDRESSES],
    context_ids: [Identifier; CONTEXTS],
    vmids: [Identifier; CONTEXTS],
    /// Start addresses of all windows but the first.
    bounds: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct AddressComparator {
    address: u64,
    attributes: u32,
    /// Loads and stores are not modeled: comparators of those match no instruction.
    looks_at_instructions: bool,
}

/// An identifier, and which of its bits are compared.
#[derive(Debug, Clone, Copy)]
struct Identifier {
    value: u64,
    compared: u64,
}

impl Identifier {
    fn matches(self, found: Option<u32>) -> bool {
        (u64::from(found.unwrap_or(0)) ^ self.value) & self.compared == 0
    }
}

impl Comparators {
    pub(super) fn new(settings: &Settings) -> Self {
        let is_ete = settings.protocol == Protocol::Ete;
        let address = |n| {
            let attributes = settings.numbered("TRCACATR", n) as u32;
            let looks_at_instructions = is_ete || attributes & 3 == 0;
            AddressComparator { address: settings.numbered("TRCACVR", n), attributes, looks_at_instructions }
        };
        // Eight bits per comparator, four comparators per register. A set bit masks a byte.
        let identifier = |values: &str, controls: &str, n: usize| {
            let ignored = settings.numbered(controls, n / 4) >> (8 * (n % 4));
            let bytes = (0..8).filter(|byte| ignored >> byte & 1 == 0);
            let compared = bytes.fold(0, |mask, byte| mask | 0xff << (8 * byte));
            Identifier { value: settings.numbered(values, n), compared }
        };
        let addresses = core::array::from_fn(address);
        Self {
            bounds: bounds(&addresses),
            addresses,
            context_ids: core::array::from_fn(|n| identifier("TRCCIDCVR", "TRCCIDCCTLR", n)),
            vmids: core::array::from_fn(|n| identifier("TRCVMIDCVR", "TRCVMIDCCTLR", n)),
        }
    }

    /// Number of windows: ranges of addresses in which no address comparator changes its answer.
    pub(super) fn windows(&self) -> usize {
        self.bounds.len() + 1
    }

    /// The number of the window that an address is in.
    pub(super) fn window(&self, address: u64) -> u16 {
        self.bounds.partition_point(|bound| *bound <= address) as u16
    }

    /// The first address of a window, and its size.
    pub(super) fn extent(&self, window: u16) -> (u64, u64) {
        let above = usize::from(window);
        let start = if above > 0 { self.bounds[above - 1] } else { 0 };
        (start, self.bounds.get(above).unwrap_or(&u64::MAX) - start)
    }

    /// Does one of these address comparators match?
    #[inline]
    pub(super) fn address(&self, which: u32, at: Target, context: &Context) -> bool {
        any(which & 0xffff, |n| self.addresses[n].address == at.address && self.is_in_context(n, context))
    }

    /// Does one of these ranges match? Pairs of comparators are ranges, both ends included.
    #[inline]
    pub(super) fn range(&self, pairs: u32, at: Target, context: &Context) -> bool {
        any(pairs & 0xff, |pair| {
            let (low, high) = (self.addresses[2 * pair].address, self.addresses[2 * pair + 1].address);
            (low..=high).contains(&at.address) && self.is_in_context(2 * pair, context)
        })
    }

    /// Does one of these context identifiers match?
    pub(super) fn context_id(&self, which: u32, context: &Context) -> bool {
        any(which & 0xff, |n| self.context_ids[n].matches(context.context_id))
    }

    /// Does one of these virtual context identifiers match?
    pub(super) fn vmid(&self, which: u32, context: &Context) -> bool {
        any(which & 0xff, |n| self.vmids[n].matches(context.vmid))
    }

    /// Does the context match the other conditions of an address comparator?
    fn is_in_context(&self, n: usize, context: &Context) -> bool {
        let AddressComparator { attributes, looks_at_instructions, .. } = self.addresses[n];
        let which = 1 << (attributes >> 4 & 7);
        let has_context_id = attributes & 1 << 2 == 0 || self.context_id(which, context);
        let has_vmid = attributes & 1 << 3 == 0 || self.vmid(which, context);
        looks_at_instructions && has_context_id && has_vmid && !excludes_level(attributes, context)
    }
}

/// Matches of an address or a range change only at the comparators' values and right after them.
fn bounds(addresses: &[AddressComparator]) -> Vec<u64> {
    let mut bounds: Vec<u64> = addresses.iter().flat_map(|one| [one.address, one.address.saturating_add(1)]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    bounds
}

/// Does an address comparator exclude the Exception level?
fn excludes_level(attributes: u32, context: &Context) -> bool {
    let bit = |low: u32| attributes >> (low + u32::from(context.el & 3)) & 1 == 1;
    match context.security {
        Security::Secure | Security::Root => bit(8),
        Security::NonSecure => bit(12),
        // The bit of a Realm level inverts that of the Non-secure one.
        Security::Realm => bit(12) != bit(16),
    }
}

/// Does this hold for one of the set bits?
#[inline]
pub(super) fn any(mut which: u32, mut holds: impl FnMut(usize) -> bool) -> bool {
    while which != 0 {
        if holds(which.trailing_zeros() as usize) {
            return true;
        }
        which &= which - 1;
    }
    false
}
