//! Tables and properties of the PTM stages.

mod any_packet;
mod elements;
mod packets;

use super::Config;

fn config(cr: u64, idr: u64, ccer: u64) -> Config {
    Config::described([("ETMCR", cr), ("ETMIDR", idr), ("ETMCCER", ccer)], []).0
}

/// Version 1.1 with context identifiers, without cycle counts.
pub(super) fn plain() -> Config {
    config(0xc000, 0x411c_f312, 0x34c0_1ac2)
}

/// Version 1.1 with context identifiers, cycle counts and timestamps.
pub(super) fn cycle_accurate() -> Config {
    config(0x1000_d000, 0x411c_f312, 0x34c0_1ac2)
}

/// Version 1.0 with Gray-coded timestamps of 48 bits.
pub(super) fn first_version() -> Config {
    config(0x1000_0000, 0x411c_f301, 0x00c0_18ea)
}
