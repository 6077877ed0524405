//! Data trace: the transfers of an instruction, and values that come later.
//!
//! Takes the accesses of one instruction at a time. Produces a packet for each word that is transferred. Does not know the size of an
//! access: readers have it from the instruction.
//! Specification: Arm IHI 0014, data tracing.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::emit;
use crate::etm3::Config;
use crate::etm3::packet::{DataAddress, Packet};
use crate::unit::random;

/// A word, or less, that an instruction loads or stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// Its address.
    pub address: u32,
    /// Its value, if known: the low bytes, as many as the access has.
    pub value: Option<u32>,
}

/// The state of data trace.
#[derive(Debug, Clone)]
pub(super) struct Data {
    /// The last address sent; `None`: the next one is sent whole.
    address: Option<u32>,
    /// Chooses values that come later. Never zero; `None`: none do.
    seed: Option<u64>,
    /// The values that have not been sent yet, oldest first, and their tags.
    late: VecDeque<(u8, u32)>,
}

/// Greatest number of values that have not been sent yet.
const MAX_LATE: usize = 6;

impl Data {
    pub(super) fn new(seed: Option<u64>) -> Self {
        let seed = seed.map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Self { address: None, seed, late: VecDeque::new() }
    }

    /// The next address is sent whole.
    pub(super) fn forget_address(&mut self) {
        self.address = None;
    }

    /// Emits the transfers of an instruction.
    pub(super) fn trace(&mut self, accesses: impl Iterator<Item = Access>, config: &Config, out: &mut Vec<u8>) {
        let mut before = None;
        for access in accesses {
            // After the first transfer, an address that is not the next one has to be sent.
            let follows = before.is_some_and(|before: u32| access.address == before.wrapping_add(4));
            let first = before.is_none() || (!follows && config.data_addresses);
            let address = (first && config.data_addresses).then(|| self.compress(access.address));
            let packet = self.packet(first, address, access.value, config);
            emit(&packet, config, out);
            before = Some(access.address);
        }
        let waits = self.seed.as_mut().is_some_and(|seed| random(seed) & 3 > 0);
        if !waits || self.late.len() > MAX_LATE {
            self.finish(config, out);
        }
    }

    fn packet(&mut self, first: bool, address: Option<DataAddress>, value: Option<u32>, config: &Config) -> Packet {
        let tag = self.seed.as_mut().map_or(0, |seed| (random(seed) & 3) as u8);
        match value {
            Some(value) if config.data_values && tag > 0 => {
                self.late.push_back((tag, value));
                Packet::Placeholder { tag, first, address }
            }
            None if config.data_values => Packet::ValueNotTraced { first, address },
            value => Packet::Data { first, address, value: value.filter(|_| config.data_values) },
        }
    }

    /// Emits the values that have not been sent yet. Those with the same tag keep their order.
    pub(super) fn finish(&mut self, config: &Config, out: &mut Vec<u8>) {
        for tag in [2, 3, 1] {
            for (_, value) in self.late.iter().filter(|late| late.0 == tag) {
                emit(&Packet::OutOfOrderData { tag, value: Some(*value) }, config, out);
            }
        }
        self.late.clear();
    }

    /// The shortest form of an address. The first one has the byte order too.
    fn compress(&mut self, address: u32) -> DataAddress {
        let changed = self.address.replace(address).map(|before| before ^ address);
        let fits = |bits: &u8| changed.is_some_and(|changed| changed >> bits == 0);
        match [7, 14, 21, 28].into_iter().find(fits) {
            Some(bits) => DataAddress { value: address & ((1 << bits) - 1), bits, big_endian: None },
            None => DataAddress { value: address, bits: 32, big_endian: Some(false) },
        }
    }
}
