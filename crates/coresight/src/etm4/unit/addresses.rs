//! Compression of addresses against the last three.

use crate::Target;
use crate::etm4::packet::Address;

/// The last three traced addresses, youngest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Addresses([Target; 3]);

impl Addresses {
    /// The shortest form.
    pub(super) fn shortest(&mut self, at: Target) -> Address {
        let address = match self.0.iter().position(|old| *old == at) {
            Some(entry) => Address::same_as(entry as u8),
            None => self.with_new_bits(at),
        };
        self.remember(at);
        address
    }

    /// Do 32 new bits suffice?
    pub(super) fn is_near(&self, at: Target) -> bool {
        self.0.contains(&at) || (at.address ^ self.0[0].address) >> 32 == 0
    }

    /// The shorter of the long forms.
    pub(super) fn long(&mut self, at: Target) -> Address {
        let address = long(at, self.0[0].address);
        self.remember(at);
        address
    }

    /// An address that is not known.
    pub(super) fn unknown(&mut self) {
        self.remember(Target::default());
    }

    fn with_new_bits(&self, at: Target) -> Address {
        let old = self.0[0].address;
        let shift = at.isa.shift();
        let fits = |bits: &u8| (at.address ^ old) >> *bits == 0;
        match [7 + shift, 15 + shift].into_iter().find(fits) {
            Some(bits) => Address::low(at.isa, bits, at.address & ((1 << bits) - 1)),
            None => long(at, old),
        }
    }

    fn remember(&mut self, at: Target) {
        self.0 = [at, self.0[0], self.0[1]];
    }
}

fn long(at: Target, old: u64) -> Address {
    if (at.address ^ old) >> 32 == 0 {
        Address::low(at.isa, 32, at.address & 0xffff_ffff)
    } else {
        Address::full(at.isa, at.address)
    }
}
