//! Exception types as trace units number them, and their names.

use core::fmt;

use crate::fields::{Fields, Value};

/// The exception type of a PE reset.
pub const PE_RESET: u16 = 0;
/// The exception type of a System Error.
pub const SYSTEM_ERROR: u16 = 4;
/// The exception type that reports a failed transaction (ETE).
pub const TRANSACTION_FAILURE: u16 = 0x18;

/// The type of an exception: its number, and the architecture that numbers it so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExceptionNumber {
    /// The number.
    pub value: u16,
    /// The architecture.
    pub numbering: Numbering,
}

/// Who numbers the types of exceptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Numbering {
    /// ETMv4 and ETE, for the A profile.
    Etm4,
    /// PTM and ETMv3, for Armv7-A and Armv7-R.
    Armv7,
    /// ETMv3, for Armv7-M.
    Armv7M,
    /// ETMv4, for the M profile.
    Etm4M,
}

impl ExceptionNumber {
    /// An exception type of ETMv4 or ETE.
    pub const fn etm4(value: u16) -> Self {
        Self { value, numbering: Numbering::Etm4 }
    }

    /// An exception type of PTM or ETMv3.
    pub const fn armv7(value: u16) -> Self {
        Self { value, numbering: Numbering::Armv7 }
    }

    /// An exception type of ETMv3 on the M profile.
    pub const fn armv7_m(value: u16) -> Self {
        Self { value, numbering: Numbering::Armv7M }
    }

    /// An exception type of ETMv4 on the M profile.
    pub const fn etm4_m(value: u16) -> Self {
        Self { value, numbering: Numbering::Etm4M }
    }

    /// Its name.
    pub fn name(self) -> Option<&'static str> {
        match self.numbering {
            Numbering::Etm4 => exception_name(self.value),
            Numbering::Armv7 => armv7::exception_name(self.value),
            Numbering::Armv7M => armv7_m::exception_name(self.value),
            Numbering::Etm4M => etm4_m::exception_name(self.value),
        }
    }

    /// The number of the interrupt, if it is one and its type has the number.
    pub fn interrupt(self) -> Option<u16> {
        match self.numbering {
            Numbering::Etm4M => etm4_m::interrupt(self.value),
            Numbering::Etm4 | Numbering::Armv7 | Numbering::Armv7M => None,
        }
    }

    /// Does this return address stand for none: was the exception taken right after another one, before execution
    /// returned anywhere? Only the M profile does that.
    pub fn is_tail_chained(self, return_address: Option<u64>) -> bool {
        self.numbering == Numbering::Etm4M && return_address == Some(etm4_m::NO_RETURN)
    }

    /// Lists the fields of an exception: its number and name, and its preferred return address.
    pub fn fields(self, return_address: Option<u64>, out: &mut impl Fields) {
        out.field("number", Value::Number(self.value.into()));
        out.field("name", Value::Text(&self.name().unwrap_or("unknown")));
        out.optional("interrupt", self.interrupt());
        let is_tail_chained = self.is_tail_chained(return_address);
        out.nullable_address("return", return_address.filter(|_| !is_tail_chained));
        if is_tail_chained {
            out.field("tail_chained", Value::Flag(true));
        }
    }

    /// Is it a reset: nothing is known about what was executed before it?
    pub fn is_reset(self) -> bool {
        match self.numbering {
            Numbering::Etm4 => self.value == PE_RESET,
            Numbering::Armv7 => self.value == armv7::RESET,
            Numbering::Armv7M => self.value == armv7_m::RESET,
            Numbering::Etm4M => self.value == etm4_m::RESET,
        }
    }
}

impl fmt::Display for ExceptionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl fmt::LowerHex for ExceptionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.value, f)
    }
}

/// The exception types of PTM and ETMv3, for Armv7-A and Armv7-R.
pub mod armv7 {
    /// The PE enters Debug state.
    pub const DEBUG_ENTRY: u16 = 1;
    /// A reset.
    pub const RESET: u16 = 8;
    /// An undefined instruction.
    pub const UNDEFINED: u16 = 9;

    /// The name of an exception type.
    pub fn exception_name(number: u16) -> Option<&'static str> {
        Some(match number {
            DEBUG_ENTRY => "debug entry",
            2 => "SMC",
            3 => "Hyp entry",
            4 => "asynchronous abort",
            5 => "Jazelle or ThumbEE check",
            RESET => "reset",
            UNDEFINED => "undefined instruction",
            10 => "SVC",
            11 => "prefetch abort",
            12 => "data abort",
            13 => "generic",
            14 => "IRQ",
            15 => "FIQ",
            _ => return None,
        })
    }
}

/// The exception types of ETMv3 on Armv7-M.
pub mod armv7_m {
    /// A reset.
    pub const RESET: u16 = 17;

    /// The name of an exception type.
    pub fn exception_name(number: u16) -> Option<&'static str> {
        Some(match number {
            1..=8 | 24.. => "external interrupt",
            9 => "UsageFault",
            10 => "NMI",
            11 => "SVC",
            12 => "DebugMonitor",
            13 => "MemManage",
            14 => "PendSV",
            15 => "SysTick",
            RESET => "reset",
            19 => "HardFault",
            21 => "BusFault",
            _ => return None,
        })
    }
}

/// The exception types of ETMv4 on the M profile: the numbers of the architecture up to 15, and others above.
pub mod etm4_m {
    /// A reset.
    pub const RESET: u16 = 1;
    /// The PE halts for a debugger.
    pub const DEBUG_HALT: u16 = 24;
    /// The return address that stands for none.
    pub const NO_RETURN: u64 = 0xffff_fffe;

    /// The name of an exception type.
    pub fn exception_name(number: u16) -> Option<&'static str> {
        Some(match number {
            RESET => "reset",
            2 => "NMI",
            3 => "HardFault",
            4 => "MemManage",
            5 => "BusFault",
            6 => "UsageFault",
            7 => "SecureFault",
            11 => "SVC",
            12 => "DebugMonitor",
            14 => "PendSV",
            15 => "SysTick",
            DEBUG_HALT => "debug halt",
            25 => "lazy floating-point state push",
            26 => "lockup",
            _ if interrupt(number).is_some() => "external interrupt",
            _ => return None,
        })
    }

    /// The number of the external interrupt. The first eight have types below 32, which fit into one byte of a packet.
    pub fn interrupt(number: u16) -> Option<u16> {
        match number {
            16..=23 => Some(number - 16),
            0x208..=0x3ef => Some(number - 0x200),
            _ => None,
        }
    }
}

/// The name of an A-profile exception type of ETMv4 or ETE.
pub fn exception_name(number: u16) -> Option<&'static str> {
    Some(match number {
        PE_RESET => "PE reset",
        1 => "debug halt",
        2 => "call",
        3 => "trap",
        SYSTEM_ERROR => "system error",
        6 => "instruction debug",
        7 => "data debug",
        10 => "alignment",
        11 => "instruction fault",
        12 => "data fault",
        14 => "IRQ",
        15 => "FIQ",
        16..=23 => "implementation defined",
        TRANSACTION_FAILURE => "transaction failure",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m_profile_exceptions_have_names_and_interrupt_numbers() {
        let rows: &[(u16, Option<&str>, Option<u16>)] = &[
            (0, None, None),
            (1, Some("reset"), None),
            (2, Some("NMI"), None),
            (3, Some("HardFault"), None),
            (6, Some("UsageFault"), None),
            (8, None, None),
            (11, Some("SVC"), None),
            (14, Some("PendSV"), None),
            (15, Some("SysTick"), None),
            (16, Some("external interrupt"), Some(0)),
            (23, Some("external interrupt"), Some(7)),
            (24, Some("debug halt"), None),
            (25, Some("lazy floating-point state push"), None),
            (26, Some("lockup"), None),
            (27, None, None),
            (0x207, None, None),
            (0x208, Some("external interrupt"), Some(8)),
            (0x3ef, Some("external interrupt"), Some(495)),
            (0x3f0, None, None),
        ];
        for &(value, name, interrupt) in rows {
            let number = ExceptionNumber::etm4_m(value);
            assert_eq!((number.name(), number.interrupt()), (name, interrupt), "{value:#x}");
        }
    }

    #[test]
    fn resets_differ_between_profiles() {
        let [m, a] = [ExceptionNumber::etm4_m, ExceptionNumber::etm4];
        assert!(m(1).is_reset() && !m(0).is_reset() && a(0).is_reset() && !a(1).is_reset());
    }

    #[test]
    fn only_the_m_profile_chains_tails() {
        assert!(ExceptionNumber::etm4_m(15).is_tail_chained(Some(0xffff_fffe)));
        assert!(!ExceptionNumber::etm4_m(15).is_tail_chained(Some(0x1000)));
        assert!(!ExceptionNumber::etm4_m(15).is_tail_chained(None));
        assert!(!ExceptionNumber::etm4(15).is_tail_chained(Some(0xffff_fffe)));
    }
}
