//! Exception types as trace units number them, and their names.

/// The exception type of a PE reset.
pub const PE_RESET: u16 = 0;
/// The exception type that reports a failed transaction (ETE).
pub const TRANSACTION_FAILURE: u16 = 0x18;

/// Added to the exception numbers of ETMv3, whose names differ.
pub const ETM3: u16 = 0x4000;
/// Added to the exception numbers of ETMv3 on the M profile.
pub const ETM3_M: u16 = 0x8000;

/// The exception number as the trace has it, without the mark of its protocol.
pub const fn number_in_trace(number: u16) -> u16 {
    number & 0x3ff
}

/// The name of an exception type.
pub fn exception_name(number: u16) -> Option<&'static str> {
    match number & !0x3ff {
        0 => a_profile_name(number),
        ETM3 => etm3_name(number_in_trace(number)),
        ETM3_M => etm3_m_profile_name(number_in_trace(number)),
        _ => None,
    }
}

fn etm3_name(number: u16) -> Option<&'static str> {
    Some(match number {
        1 => "halting debug",
        2 => "SMC",
        3 => "Hyp entry",
        4 => "asynchronous data abort",
        5 => "Jazelle or ThumbEE check",
        8 => "reset",
        9 => "undefined instruction",
        10 => "SVC",
        11 => "prefetch abort or breakpoint",
        12 => "data abort or watchpoint",
        13 => "generic exception",
        14 => "IRQ",
        15 => "FIQ",
        _ => return None,
    })
}

fn etm3_m_profile_name(number: u16) -> Option<&'static str> {
    Some(match number {
        1..=8 | 24.. => "external interrupt",
        9 => "UsageFault",
        10 => "NMI",
        11 => "SVC",
        12 => "DebugMonitor",
        13 => "MemManage",
        14 => "PendSV",
        15 => "SysTick",
        17 => "reset",
        19 => "HardFault",
        21 => "BusFault",
        _ => return None,
    })
}

fn a_profile_name(number: u16) -> Option<&'static str> {
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
