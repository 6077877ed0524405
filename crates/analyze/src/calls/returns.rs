//! Return addresses of the calls in progress, and the call sites seen last.
//!
//! Two small tables with a fixed size: a counting filter that answers at once for the most frequent question, whether an
//! indirect branch may be a return; and a cache of call sites, which shows who called when execution continues after a call that
//! has long returned (`longjmp`). An entry that was evicted is unknown.

/// Sizes, as powers of two.
const COUNT_BITS: u32 = 10;
const SITE_BITS: u32 = 10;

#[derive(Debug, Clone, Default)]
pub(super) struct Returns {
    /// Number of calls in progress per hash of their return address. Empty before the first call, as is `sites`.
    counts: Box<[u32]>,
    sites: Box<[CallSite]>,
}

/// The caller of a call that was made.
#[derive(Debug, Clone, Copy, Default)]
struct CallSite {
    ret: u64,
    /// Index and ordinal of the frame that called. The ordinal is truncated.
    index: u32,
    ordinal: u32,
}

impl Returns {
    /// Whether a call in progress may have this return address.
    #[inline]
    pub(super) fn may_have(&self, ret: u64) -> bool {
        self.counts.get(slot(ret, COUNT_BITS)).is_some_and(|count| *count > 0)
    }

    /// Adds the return address of a call.
    #[inline]
    pub(super) fn add(&mut self, ret: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; 1 << COUNT_BITS].into();
            self.sites = vec![CallSite::default(); 1 << SITE_BITS].into();
        }
        if let Some(count) = self.counts.get_mut(slot(ret, COUNT_BITS)) {
            *count += 1;
        }
    }

    /// Removes a return address that was added.
    #[inline]
    pub(super) fn remove(&mut self, ret: u64) {
        if let Some(count) = self.counts.get_mut(slot(ret, COUNT_BITS)) {
            *count = count.saturating_sub(1);
        }
    }

    /// Records that the frame with this index and ordinal made a call.
    #[inline]
    pub(super) fn record(&mut self, ret: u64, (index, ordinal): (usize, u64)) {
        if let Some(site) = self.sites.get_mut(slot(ret, SITE_BITS)) {
            *site = CallSite { ret, index: index as u32, ordinal: ordinal as u32 };
        }
    }

    /// Index of the frame that last made a call with this return address; `is_it` checks its truncated ordinal.
    pub(super) fn caller(&self, ret: u64, is_it: impl Fn(usize, u32) -> bool) -> Option<usize> {
        let site = self.sites.get(slot(ret, SITE_BITS)).filter(|site| site.ret == ret)?;
        Some(site.index as usize).filter(|index| is_it(*index, site.ordinal))
    }
}

/// Fibonacci hashing.
#[inline]
fn slot(address: u64, bits: u32) -> usize {
    ((address >> 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - bits)) as usize
}
