//! Exception types as trace units number them, and their names.

use core::fmt;

/// The exception type of a PE reset.
pub const PE_RESET: u16 = 0;
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

    /// Its name.
    pub fn name(self) -> Option<&'static str> {
        match self.numbering {
            Numbering::Etm4 => exception_name(self.value),
            Numbering::Armv7 => armv7::exception_name(self.value),
            Numbering::Armv7M => armv7_m::exception_name(self.value),
        }
    }

    /// Is it a reset: nothing is known about what was executed before it?
    pub fn is_reset(self) -> bool {
        match self.numbering {
            Numbering::Etm4 => self.value == PE_RESET,
            Numbering::Armv7 => self.value == armv7::RESET,
            Numbering::Armv7M => self.value == armv7_m::RESET,
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

/// The name of an A-profile exception type of ETMv4 or ETE.
pub fn exception_name(number: u16) -> Option<&'static str> {
    Some(match number {
        PE_RESET => "PE reset",
        1 => "debug halt",
        2 => "call",
        3 => "trap",
        4 => "system error",
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
