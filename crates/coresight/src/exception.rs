//! Exception types as trace units number them, and their names.

/// The exception type of a PE reset.
pub const PE_RESET: u16 = 0;
/// The exception type that reports a failed transaction (ETE).
pub const TRANSACTION_FAILURE: u16 = 0x18;

/// The name of an A-profile exception type.
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
