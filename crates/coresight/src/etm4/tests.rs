//! Tables and properties of the ETE and ETMv4 stages.

mod any_packet;
mod elements;
mod packets;
mod speculation;

use crate::{Profile, Protocol};

use super::{Config, Registers};

/// ETE with every feature, commit mode 0.
pub(super) fn ete() -> Config {
    let mut registers = Registers::default();
    registers.set("TRCIDR0", 0x08c1_8ea1);
    Config::new(Protocol::Ete, Profile::Unknown, &registers).0
}

/// ETMv4 of a microcontroller, with every feature, commit mode 0.
pub(super) fn etm4_m() -> Config {
    let mut registers = Registers::default();
    registers.set("TRCIDR0", 0x0801_8ee1);
    Config::new(Protocol::Etm4, Profile::Microcontroller, &registers).0
}

/// ETMv4 with every feature, commit mode 0.
pub(super) fn etm4() -> Config {
    let mut registers = Registers::default();
    registers.set("TRCIDR0", 0x0801_8ee1);
    Config::new(Protocol::Etm4, Profile::Unknown, &registers).0
}
