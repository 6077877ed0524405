//! Configuration from the first bytes of an input: registers of a trace unit, and the chunks of a stream. Also readers and
//! changes that several targets share.

use std::io::{self, Read};

use unspool_coresight::etm4::{Config, Registers};
use unspool_coresight::{Profile, Protocol};

/// Removes the first byte of an input; zero if that is empty.
pub fn byte(data: &mut &[u8]) -> u8 {
    let Some((&first, rest)) = data.split_first() else { return 0 };
    *data = rest;
    first
}

/// Removes a little-endian word from the front of an input; missing bytes are zero.
pub fn word(data: &mut &[u8]) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|_| byte(data)))
}

/// Registers that decoding depends on, in the order of an input.
pub const REGISTERS: [&str; 7] =
    ["TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8", "TRCCONFIGR", "TRCDEVARCH", "TRCTRACEIDR"];

/// Bit of the first byte: ETMv4 rather than ETE.
pub const ETM4: u8 = 0x01;

/// A configuration. The first byte selects the protocol (bit 0) and the profile (bits 1 and 2), the second the
/// registers that are known (one bit each); their values follow.
pub fn config(data: &mut &[u8]) -> Config {
    let (selected, known) = (byte(data), byte(data));
    let protocol = if selected & ETM4 == 0 { Protocol::Ete } else { Protocol::Etm4 };
    let profile = match selected >> 1 & 3 {
        0 | 1 => Profile::Unknown,
        2 => Profile::Application,
        _ => Profile::Microcontroller,
    };
    let mut registers = Registers::default();
    for (bit, name) in REGISTERS.iter().enumerate() {
        if known >> bit & 1 == 1 {
            assert!(registers.set(name, word(data)), "{name} is not a register of a trace unit");
        }
    }
    Config::new(protocol, profile, &registers).0
}

/// The chunks that `bytes` are split into: of one byte each for seed 0, otherwise of sizes that depend on the seed.
pub fn chunks(mut bytes: &[u8], seed: u8) -> impl Iterator<Item = &[u8]> {
    let mut state = u32::from(seed);
    std::iter::from_fn(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(u32::from(seed));
        let length = 1 + (state >> 16) as usize % (1 + usize::from(seed));
        let (chunk, rest) = bytes.split_at(length.min(bytes.len()));
        bytes = rest;
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// Changes bytes of a file. Three bytes per change: an offset (little-endian) and the number to add.
pub fn change(file: &mut [u8], changes: &[u8]) {
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % file.len();
        file[at] = file[at].wrapping_add(change[2]);
    }
}

/// A reader that returns at most this number of bytes per call.
pub struct SmallReads<R>(pub R, pub usize);

impl<R: Read> Read for SmallReads<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(self.1);
        self.0.read(&mut buffer[..length])
    }
}
