//! Settings of an ETMv3: register values, and behavior that no register controls.

use alloc::string::String;
use alloc::vec::Vec;

use crate::Profile;
use crate::etm3::{Config, Registers};
use crate::unit::UnitRegisters;

/// The registers of an ETMv3, and its behavior where the architecture leaves a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub(super) registers: UnitRegisters,
    /// Seed of overflows.
    pub overflow_seed: Option<u64>,
    /// Seed of values that are traced later than their transfers.
    pub late_seed: Option<u64>,
}

impl Default for Settings {
    /// The ETM of a Cortex-A7, which traces the program flow of everything and nothing else.
    fn default() -> Self {
        Self { registers: UnitRegisters::new(0x410c_f250, 0x3440_08f2), overflow_seed: None, late_seed: None }
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
        Config::new(Profile::Application, &registers).0
    }

    /// ETMCR: are targets of direct branches traced?
    pub(super) fn broadcasts(&self) -> bool {
        self.registers.field("ETMCR", 8, 1) == 1
    }

    /// Features that the registers enable and the model does not implement, each with its register.
    pub fn unmodeled(&self) -> Vec<(&'static str, &'static str)> {
        let transfers = self.registers.field("ETMCR", 1, 1) == 1;
        let transfers = transfers.then_some(("ETMCR", "data of coprocessor register transfers"));
        self.registers.unmodeled().into_iter().chain(transfers).collect()
    }

    /// The reason why there is no such trace unit, or why the model cannot be one.
    pub fn refusal(&self) -> Option<String> {
        let field = |name, low, width| self.registers.field(name, low, width);
        let reason = match () {
            () if field("ETMIDR", 8, 4) != 2 => "ETMIDR is not that of an ETMv3",
            () if field("ETMIDR", 4, 4) > 5 => "ETMIDR has a version of ETMv3 that does not exist",
            () if self.config().data_only => {
                "ETMCR asks for data trace without instructions, which the trace unit model does not support"
            }
            () => return None,
        };
        Some(reason.into())
    }
}
