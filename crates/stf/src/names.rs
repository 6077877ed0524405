//! Names of numbers in records: events, features, tools, registers and others.
//!
//! number ─▶ **name**
//!
//! The numbers are those of files in circulation. The specification omits many of them, and two of its tables differ
//! from what is written. A number without a name is not an error: it is shown as a number.

use std::fmt;

use super::record::{Event, Register, descriptor};

/// The name of a record, in lower case: `inst_reg`. `None` if there is no such record.
pub const fn record(descriptor: u8) -> Option<&'static str> {
    Some(match descriptor {
        descriptor::IDENTIFIER => "identifier",
        descriptor::VERSION => "version",
        descriptor::COMMENT => "comment",
        descriptor::ISA => "isa",
        descriptor::INST_IEM => "inst_iem",
        descriptor::TRACE_INFO => "trace_info",
        descriptor::TRACE_INFO_FEATURE => "trace_info_feature",
        descriptor::PROCESS_ID_EXT => "process_id_ext",
        descriptor::FORCE_PC => "force_pc",
        descriptor::VLEN_CONFIG => "vlen_config",
        descriptor::PROTOCOL_ID => "protocol_id",
        descriptor::CLOCK_ID => "clock_id",
        descriptor::ISA_EXTENDED => "isa_extended",
        descriptor::END_HEADER => "end_header",
        descriptor::INST_PC_TARGET => "inst_pc_target",
        descriptor::INST_REG => "inst_reg",
        descriptor::INST_READY_REG => "inst_ready_reg",
        descriptor::PAGE_TABLE_WALK => "page_table_walk",
        descriptor::INST_MEM_ACCESS => "inst_mem_access",
        descriptor::INST_MEM_CONTENT => "inst_mem_content",
        descriptor::BUS_MASTER_ACCESS => "bus_master_access",
        descriptor::BUS_MASTER_CONTENT => "bus_master_content",
        descriptor::EVENT => "event",
        descriptor::EVENT_PC_TARGET => "event_pc_target",
        descriptor::INST_MICROOP => "inst_microop",
        descriptor::INST_OPCODE32 => "inst_opcode32",
        descriptor::INST_OPCODE16 => "inst_opcode16",
        descriptor::TRANSACTION => "transaction",
        descriptor::TRANSACTION_DEPENDENCY => "transaction_dependency",
        descriptor::RESERVE_END => "reserve_end",
        _ => return None,
    })
}

/// The name of a number, if the names start with `first`.
fn name(names: &[&'static str], first: u64, number: u64) -> Option<&'static str> {
    names.get(usize::try_from(number.checked_sub(first)?).ok()?).copied()
}

/// The name of an instruction set.
pub fn isa(isa: u16) -> Option<&'static str> {
    name(&["RISC-V", "Arm", "x86", "Power"], 1, isa.into())
}

/// The name of an instruction encoding mode.
pub fn iem(iem: u16) -> Option<&'static str> {
    name(&["RV32", "RV64"], 1, iem.into())
}

/// The name of a privilege mode.
pub fn mode(mode: u64) -> Option<&'static str> {
    name(&["user", "supervisor", "hypervisor", "machine"], 0, mode)
}

/// The direction of an access to memory or to the bus.
pub fn access(kind: u8) -> Option<&'static str> {
    name(&["read", "write"], 1, kind.into())
}

/// The role of a register operand.
pub fn operand(operand: u8) -> Option<&'static str> {
    name(&["state", "source", "destination"], 1, operand.into())
}

/// The name of a protocol of transactions.
pub fn protocol(protocol: u8) -> Option<&'static str> {
    name(&["TileLink"], 1, protocol.into())
}

/// Names of feature bits. The format has the prefix `STF_CONTAIN_` for all but `NEED_POST_PROCESS`.
pub const FEATURES: [(u64, &str); 21] = [
    (0x1, "PHYSICAL_ADDRESS"),
    (0x2, "DATA_ATTRIBUTE"),
    (0x4, "OPERAND_VALUE"),
    (0x8, "EVENT"),
    (0x10, "SYSTEMCALL_VALUE"),
    (0x20, "RV64"),
    (0x40, "INT_DIV_OPERAND_VALUE"),
    (0x80, "SAMPLING"),
    (0x100, "PTE"),
    (0x200, "SIMPOINT"),
    (0x400, "PROCESS_ID"),
    (0x800, "PTE_ONLY"),
    (0x1000, "NEED_POST_PROCESS"),
    (0x2000, "REG_STATE"),
    (0x4000, "MICROOP"),
    (0x8000, "MULTI_THREAD"),
    (0x1_0000, "MULTI_CORE"),
    (0x2_0000, "PTE_HW_AD"),
    (0x4_0000, "VEC"),
    (0x8_0000, "EVENT64"),
    (0x10_0000, "TRANSACTIONS"),
];

/// The features that are set, lowest bit first; those without a name as a number.
pub fn features(bits: u64) -> impl Iterator<Item = FeatureName> {
    let set = (0..u64::BITS).map(move |position| bits & 1 << position).filter(|&bit| bit != 0);
    set.map(|bit| match FEATURES.iter().find(|(known, _)| *known == bit) {
        Some((_, name)) => FeatureName::Known(name),
        None => FeatureName::Unknown(bit),
    })
}

/// Text of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureName {
    /// A named feature.
    Known(&'static str),
    /// A bit without a name.
    Unknown(u64),
}

impl fmt::Display for FeatureName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(name) => f.write_str(name),
            Self::Unknown(bit) => write!(f, "{bit:#x}"),
        }
    }
}

/// The name of a tool that writes or changes traces.
pub const fn generator(generator: u8) -> Option<&'static str> {
    Some(match generator {
        0 | 0xff => "reserved",
        1 => "QEMU",
        2 => "Android Emulator",
        3 => "GEM5",
        4 => "PTE_GEN",
        5 => "Imperas",
        6 => "Spike",
        7 => "stf_extract",
        8 => "stf_merge",
        9 => "stf_filter_evt",
        10 => "Athena",
        11 => "stf_morph",
        12 => "Dromajo",
        13 => "Pegasus",
        14 => "stf_transaction_extract",
        0x40 => "stf_transaction_example",
        _ => return None,
    })
}

/// The kind of a bus master, in the numbering of the library that writes traces, which starts at 1.
pub fn initiator(initiator: u8) -> Option<&'static str> {
    name(&["core", "GPU", "DMA", "PCIe", "SRIO", "ICN"], 1, initiator.into())
}

/// The kind of a bus master, in the numbering of the specification, which starts at 0.
pub fn specified_initiator(initiator: u8) -> Option<&'static str> {
    name(&["core", "GPU", "DMA", "PCIe", "SRIO", "ICN", "accelerator"], 0, initiator.into())
}

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A call to a higher mode.
    Syscall,
    /// An exception: the instruction could not be executed.
    Fault,
    /// An interrupt.
    Interrupt,
    /// The privilege mode changes after the instruction.
    ModeChange,
    /// Any other event.
    Special,
}

impl EventKind {
    /// The kind of an event.
    pub fn of(event: &Event<'_>) -> Self {
        match (event.is_interrupt(), event.is_special(), event.id()) {
            _ if event.is_mode_change() => Self::ModeChange,
            (_, true, _) => Self::Special,
            (true, false, _) => Self::Interrupt,
            (false, false, 8..=11) => Self::Syscall,
            (false, false, _) => Self::Fault,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Syscall => "syscall",
            Self::Fault => "fault",
            Self::Interrupt => "interrupt",
            Self::ModeChange => "mode",
            Self::Special => "special",
        }
    }
}

/// The name of an event in the format: `LOAD_PAGE_FAULT`, `INT_SUPERVISOR_TIMER`.
pub fn event(event: &Event<'_>) -> EventName {
    use EventName::{Known, Numbered};
    let id = event.id();
    match EventKind::of(event) {
        EventKind::ModeChange => Known("MODE_CHANGE"),
        EventKind::Special => Numbered("SPECIAL_", id),
        EventKind::Interrupt => interrupt(id),
        EventKind::Syscall | EventKind::Fault => exception(id),
    }
}

/// Text of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventName {
    /// A named event.
    Known(&'static str),
    /// An event with a number.
    Numbered(&'static str, u64),
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(name) => f.write_str(name),
            Self::Numbered(stem, number) => write!(f, "{stem}{number}"),
        }
    }
}

fn exception(code: u64) -> EventName {
    const NAMES: [&str; 24] = [
        "INST_ADDR_MISALIGN",
        "INST_ADDR_FAULT",
        "ILLEGAL_INST",
        "BREAKPOINT",
        "LOAD_ADDR_MISALIGN",
        "LOAD_ACCESS_FAULT",
        "STORE_ADDR_MISALIGN",
        "STORE_ACCESS_FAULT",
        "USER_ECALL",
        "SUPERVISOR_ECALL",
        "HYPERVISOR_ECALL",
        "MACHINE_ECALL",
        "INST_PAGE_FAULT",
        "LOAD_PAGE_FAULT",
        "RESERVED_14",
        "STORE_PAGE_FAULT",
        "DOUBLE_TRAP_FAULT",
        "RESERVED_17",
        "SOFTWARE_CHECK_FAULT",
        "HARDWARE_ERROR_FAULT",
        "GUEST_INST_PAGE_FAULT",
        "GUEST_LOAD_PAGE_FAULT",
        "VIRTUAL_INST",
        "GUEST_STORE_PAGE_FAULT",
    ];
    match name(&NAMES, 0, code) {
        Some(name) => EventName::Known(name),
        None if matches!(code, 24..=31 | 48..=63) => EventName::Numbered("CUSTOM_FAULT_", code),
        None => EventName::Numbered("RESERVED_", code),
    }
}

fn interrupt(code: u64) -> EventName {
    const NAMES: [&str; 14] = [
        "INT_USER_SOFTWARE",
        "INT_SUPERVISOR_SOFTWARE",
        "INT_HYPERVISOR_SOFTWARE",
        "INT_MACHINE_SOFTWARE",
        "INT_USER_TIMER",
        "INT_SUPERVISOR_TIMER",
        "INT_HYPERVISOR_TIMER",
        "INT_MACHINE_TIMER",
        "INT_USER_EXT",
        "INT_SUPERVISOR_EXT",
        "INT_HYPERVISOR_EXT",
        "INT_MACHINE_EXT",
        "INT_COPROCESSOR",
        // INT_HOST until the end of 2025.
        "INT_COUNTER_OVERFLOW",
    ];
    match name(&NAMES, 0, code) {
        Some(name) => EventName::Known(name),
        None if code < 16 => EventName::Numbered("INT_RESERVED_", code),
        None => EventName::Numbered("INT_PLATFORM_", code - 16),
    }
}

/// The name of a register: `x5`, `pc`, `f31`, `v7`, `satp`.
pub fn register(register: &Register<'_>) -> RegisterName {
    register_of(register.kind(), register.number)
}

/// The name of the register with this number of this [type](Register::kind).
pub fn register_of(kind: u8, number: u16) -> RegisterName {
    use RegisterName::{Numbered, Plain};
    match (kind, number) {
        (Register::INTEGER, Register::PC) => Plain("pc"),
        (Register::INTEGER, number) => Numbered("x", number),
        (Register::FLOAT, number) => Numbered("f", number),
        (Register::VECTOR, number) => Numbered("v", number),
        (Register::CSR, number) => csr(number).unwrap_or(RegisterName::UnknownCsr(number)),
        (kind, number) => RegisterName::UnknownKind(kind, number),
    }
}

/// Text of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegisterName {
    /// A register with a name of its own.
    Plain(&'static str),
    /// A numbered register.
    Numbered(&'static str, u16),
    /// A CSR without a name.
    UnknownCsr(u16),
    /// A register of an unknown type.
    UnknownKind(u8, u16),
}

impl fmt::Display for RegisterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(name) => f.write_str(name),
            Self::Numbered(stem, number) => write!(f, "{stem}{number}"),
            Self::UnknownCsr(number) => write!(f, "csr_{number:#05x}"),
            Self::UnknownKind(kind, number) => write!(f, "type{kind}_{number}"),
        }
    }
}

fn csr(number: u16) -> Option<RegisterName> {
    let numbered = |stem, number| Some(RegisterName::Numbered(stem, number));
    match number {
        0x323..=0x33f => numbered("mhpmevent", number - 0x320),
        0x3a0..=0x3af => numbered("pmpcfg", number - 0x3a0),
        0x3b0..=0x3ef => numbered("pmpaddr", number - 0x3b0),
        0x7a1..=0x7a3 => numbered("tdata", number - 0x7a0),
        0xb03..=0xb1f => numbered("mhpmcounter", number - 0xb00),
        0xc03..=0xc1f => numbered("hpmcounter", number - 0xc00),
        _ => {
            let following = CSRS.partition_point(|(first, _)| *first <= number);
            let (first, names) = CSRS.get(following.checked_sub(1)?)?;
            names.get(usize::from(number - first)).map(|name| RegisterName::Plain(name))
        }
    }
}

/// Names of other CSRs: the number of the first, and names of consecutive ones, sorted by number.
const CSRS: [(u16, &[&str]); 46] = [
    (0x000, &["ustatus", "fflags", "frm", "fcsr", "uie", "utvec"]),
    (0x007, &["utvt", "vstart", "vxsat", "vxrm"]),
    (0x00f, &["vcsr", "dmcontrol", "dmstatus"]),
    (0x040, &["uscratch", "uepc", "ucause", "utval", "uip", "unxti", "uintstatus"]),
    (0x048, &["uscratchcsw", "uscratchcswl"]),
    (0x100, &["sstatus"]),
    (0x102, &["sedeleg", "sideleg", "sie", "stvec", "scounteren", "stvt"]),
    (0x10a, &["senvcfg"]),
    (0x140, &["sscratch", "sepc", "scause", "stval", "sip", "snxti", "sintstatus"]),
    (0x148, &["sscratchcsw", "sscratchcswl"]),
    (0x180, &["satp"]),
    (0x19a, &["senvcfg"]),
    (0x200, &["vsstatus"]),
    (0x204, &["vsie", "vstvec"]),
    (0x240, &["vsscratch", "vsepc", "vscause", "vstval", "vsip"]),
    (0x280, &["vsatp"]),
    (0x300, &["mstatus", "misa", "medeleg", "mideleg", "mie", "mtvec", "mcounteren", "mtvt"]),
    (0x30a, &["menvcfg"]),
    (0x310, &["mstatush"]),
    (0x31a, &["menvcfgh"]),
    (0x320, &["mcountinhibit"]),
    (0x340, &["mscratch", "mepc", "mcause", "mtval", "mip", "mnxti", "mintstatus"]),
    (0x348, &["mscratchcsw", "mscratchcswl", "mtinst", "mtval2"]),
    (0x600, &["hstatus"]),
    (0x602, &["hedeleg", "hideleg", "hie", "htimedelta", "hcounteren", "hgeie"]),
    (0x60a, &["henvcfg"]),
    (0x643, &["htval", "hip", "hvip"]),
    (0x64a, &["htinst"]),
    (0x680, &["hgatp"]),
    (0x6a8, &["hcontext"]),
    (0x747, &["mseccfg"]),
    (0x757, &["mseccfgh"]),
    (0x7a0, &["tselect"]),
    (0x7a4, &["tinfo", "tcontrol"]),
    (0x7a8, &["mcontext"]),
    (0x7aa, &["scontext"]),
    (0x7b0, &["dcsr", "dpc", "dscratch0", "dscratch1"]),
    (0xb00, &["mcycle"]),
    (0xb02, &["minstret"]),
    (0xb80, &["mcycleh"]),
    (0xb82, &["minstreth"]),
    (0xc00, &["cycle", "time", "instret"]),
    (0xc20, &["vl", "vtype", "vlenb"]),
    (0xc80, &["cycleh", "timeh", "instreth"]),
    (0xe12, &["hgeip"]),
    (0xf11, &["mvendorid", "marchid", "mimpid", "mhartid", "mconfigptr"]),
];
