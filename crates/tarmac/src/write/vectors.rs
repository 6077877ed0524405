//! The exceptions of Rev 3 with the equivalent events of Fast Models.
//!
//! Specification: ARM-EPM-041435, "Exception entry line"; event numbers as documented for Fast Models.

/// An exception in the notation of both styles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Vector {
    /// Offset of the vector, or exception number on M-profile.
    pub(in super::super) value: i64,
    pub(in super::super) name: &'static str,
    /// Number and name of the Fast Models event; number 0: there is none.
    pub(in super::super) event: (u32, &'static str),
    /// Whether no instruction causes it.
    pub(in super::super) is_asynchronous: bool,
}

const fn of(value: i64, name: &'static str, event: (u32, &'static str), is_asynchronous: bool) -> Vector {
    Vector { value, name, event, is_asynchronous }
}

/// AArch32: Armv7-A, Armv7-R and Armv8. Fast Models have no event for Hyp traps and ThumbEE checks.
pub(in super::super) static AARCH32: &[Vector] = &[
    of(0x00, "Reset", (0x1, "CoreEvent_Reset"), true),
    of(0x04, "Undefined Instruction", (0x2, "CoreEvent_UndefinedInstr"), false),
    of(0x08, "System Call", (0x3, "CoreEvent_SWI"), false),
    of(0x0c, "Prefetch Abort", (0x4, "CoreEvent_PrefetchAbort"), false),
    of(0x10, "Data Abort", (0x5, "CoreEvent_handleDataAbort"), false),
    of(0x14, "Hypervisor Trap", (0, ""), false),
    of(0x18, "IRQ Interrupt", (0x7, "CoreEvent_IRQ"), true),
    of(0x1c, "FIQ Interrupt", (0x8, "CoreEvent_FIQ"), true),
    of(-8, "Array Bound Check", (0, ""), false),
    of(-4, "Null Pointer Check", (0, ""), false),
];

/// AArch64.
pub(in super::super) static AARCH64: &[Vector] = &[
    of(0x000, "Synchronous Current EL with SP_EL0", (0x80, "CoreEvent_CURRENT_SP0_SYNC"), false),
    of(0x080, "IRQ/vIRQ Current EL with SP_EL0", (0x81, "CoreEvent_CURRENT_SP0_IRQ"), true),
    of(0x100, "FIQ/vFIQ Current EL with SP_EL0", (0x82, "CoreEvent_CURRENT_SP0_FIQ"), true),
    of(0x180, "SError/vSError Current EL with SP_EL0", (0x83, "CoreEvent_CURRENT_SP0_ABORT"), true),
    of(0x200, "Synchronous Current EL with SP_ELx", (0x84, "CoreEvent_CURRENT_SPx_SYNC"), false),
    of(0x280, "IRQ/vIRQ Current EL with SP_ELx", (0x85, "CoreEvent_CURRENT_SPx_IRQ"), true),
    of(0x300, "FIQ/vFIQ Current EL with SP_ELx", (0x86, "CoreEvent_CURRENT_SPx_FIQ"), true),
    of(0x380, "SError/vSError Current EL with SP_ELx", (0x87, "CoreEvent_CURRENT_SPx_ABORT"), true),
    of(0x400, "Synchronous Lower EL using AArch64", (0x88, "CoreEvent_LOWER_64_SYNC"), false),
    of(0x480, "IRQ/vIRQ Lower EL using AArch64", (0x89, "CoreEvent_LOWER_64_IRQ"), true),
    of(0x500, "FIQ/vFIQ Lower EL using AArch64", (0x8a, "CoreEvent_LOWER_64_FIQ"), true),
    of(0x580, "SError/vSError Lower EL using AArch64", (0x8b, "CoreEvent_LOWER_64_ABORT"), true),
    of(0x600, "Synchronous Lower EL using AArch32", (0x8c, "CoreEvent_LOWER_32_SYNC"), false),
    of(0x680, "IRQ/vIRQ Lower EL using AArch32", (0x8d, "CoreEvent_LOWER_32_IRQ"), true),
    of(0x700, "FIQ/vFIQ Lower EL using AArch32", (0x8e, "CoreEvent_LOWER_32_FIQ"), true),
    of(0x780, "SError/vSError Lower EL using AArch32", (0x8f, "CoreEvent_LOWER_32_ABORT"), true),
];

/// M-profile, by exception number. Numbers from 16 on are external interrupts.
pub(in super::super) static M_PROFILE: &[Vector] = &[
    of(1, "Reset", (1, "CoreEvent_RESET"), true),
    of(2, "NMI", (2, "CoreEvent_NMI"), true),
    of(3, "HardFault", (3, "CoreEvent_HARDFAULT"), false),
    of(4, "MemManage", (4, "CoreEvent_MEMMANAGE"), false),
    of(5, "BusFault", (5, "CoreEvent_BUSFAULT"), false),
    of(6, "UsageFault", (6, "CoreEvent_USAGEFAULT"), false),
    of(11, "SVCall", (11, "CoreEvent_SVCALL"), false),
    of(12, "Debug Monitor", (12, "CoreEvent_DEBUGMONITOR"), false),
    of(14, "PendSV", (14, "CoreEvent_PENDSV"), true),
    of(15, "SysTick", (15, "CoreEvent_SYSTICK"), true),
];

/// Name of the M-profile exceptions from 16 on.
pub(in super::super) const EXTERNAL: &str = "External Interrupt";

/// Name of the Fast Models events for M-profile external interrupts, without their number.
pub(in super::super) const EXTERNAL_EVENT: &str = "CoreEvent_EXT_INT";

/// Whether the vector of this exception is an M-profile number and not an offset.
pub(in super::super) fn is_m_profile(value: i64, name: &[u8]) -> bool {
    let is = |vector: &Vector| vector.value == value && name.eq_ignore_ascii_case(vector.name.as_bytes());
    M_PROFILE.iter().any(is) || name.eq_ignore_ascii_case(EXTERNAL.as_bytes())
}
