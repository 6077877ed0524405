//! Settings of a PTM: register values, and behavior that no register controls.

use alloc::string::String;
use alloc::vec::Vec;

use crate::ptm::{Config, Registers};
use crate::unit::UnitRegisters;

/// The registers of a PTM, and its behavior where the architecture leaves a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub(super) registers: UnitRegisters,
    /// Seed of overflows.
    pub overflow_seed: Option<u64>,
}

impl Default for Settings {
    /// The PTM of a Cortex-A15, which traces the program flow of everything and nothing else.
    fn default() -> Self {
        Self { registers: UnitRegisters::new(0x411c_f312, 0x34c0_1ac2), overflow_seed: None }
    }
}

impl Settings {
    /// Sets a register by its architectural name. False: the model does not have the register.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        self.registers.set(name, value)
    }

    /// The value of a register, if the model has it.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.registers.get(name)
    }

    /// All registers.
    pub fn registers(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.registers.iter()
    }

    /// The configuration for decoding the trace.
    pub fn config(&self) -> Config {
        let mut registers = Registers::default();
        self.registers().for_each(|(name, value)| {
            registers.set(name, value as u32);
        });
        Config::new(&registers).0
    }

    /// ETMCR: are targets of direct branches traced?
    pub(super) fn broadcasts(&self) -> bool {
        self.registers.field("ETMCR", 8, 1) == 1
    }

    /// Does every barrier that is a waypoint request a timestamp? ISB does; ETMCCER has whether DMB and DSB do.
    pub(super) fn barriers_request_time(&self) -> bool {
        self.registers.field("ETMCCER", 24, 2) != 1
    }

    /// Features that the registers enable and the model does not implement, each with its register.
    pub fn unmodeled(&self) -> Vec<(&'static str, &'static str)> {
        self.registers.unmodeled()
    }

    /// The reason why there is no such trace unit, or why its trace could not be decoded.
    pub fn refusal(&self) -> Option<String> {
        let field = |name, low, width| self.registers.field(name, low, width);
        let reason = match () {
            () if field("ETMIDR", 8, 4) != 3 => "ETMIDR is not that of a PTM",
            () if field("ETMIDR", 4, 4) > 1 => "ETMIDR has a version of PTM that does not exist",
            () if field("ETMIDR", 4, 4) == 0 && field("ETMCCER", 26, 4) != 0 => {
                "ETMCCER has features that version 1.0 does not have"
            }
            () if self.broadcasts() && field("ETMCR", 29, 1) == 1 => {
                "ETMCR asks for branch broadcast and for a return stack, which exclude each other"
            }
            () => return None,
        };
        Some(reason.into())
    }
}
