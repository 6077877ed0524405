//! How the first bytes of an input set up a room: registers of a trace unit, and where a stream is cut.

use unspool_coresight::{Profile, Protocol};
use unspool_coresight::etm4::{Config, Registers};

/// Takes the first byte off an input that may be empty.
pub fn byte(data: &mut &[u8]) -> u8 {
    let Some((&first, rest)) = data.split_first() else { return 0 };
    *data = rest;
    first
}

/// Takes a little-endian word off an input that may be too short.
pub fn word(data: &mut &[u8]) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|_| byte(data)))
}

/// The registers that reading depends on, in the order in which an input gives them.
pub const REGISTERS: [&str; 7] =
    ["TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8", "TRCCONFIGR", "TRCDEVARCH", "TRCTRACEIDR"];

/// Bit of the first byte: ETMv4 rather than ETE.
pub const ETM4: u8 = 0x01;

/// A configuration. The first byte says the protocol (bit 0) and the profile (bits 1 and 2), the second which
/// registers are known (one bit each); their values follow.
pub fn config(data: &mut &[u8]) -> Config {
    let (what, known) = (byte(data), byte(data));
    let protocol = if what & ETM4 == 0 { Protocol::Ete } else { Protocol::Etm4 };
    let profile = match what >> 1 & 3 {
        0 | 1 => Profile::Unknown,
        2 => Profile::Application,
        _ => Profile::Microcontroller,
    };
    let mut registers = Registers::default();
    for (bit, name) in REGISTERS.iter().enumerate() {
        if known >> bit & 1 == 1 {
            assert!(registers.set(name, word(data)), "{name} is no register of a trace unit");
        }
    }
    Config::new(protocol, profile, &registers).0
}

/// The pieces that `bytes` are cut into: all of one byte for seed 0, else of sizes that the seed tells.
pub fn pieces(mut bytes: &[u8], seed: u8) -> impl Iterator<Item = &[u8]> {
    let mut state = u32::from(seed);
    std::iter::from_fn(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(u32::from(seed));
        let length = 1 + (state >> 16) as usize % (1 + usize::from(seed));
        let (piece, rest) = bytes.split_at(length.min(bytes.len()));
        bytes = rest;
        (!piece.is_empty()).then_some(piece)
    })
}
