//! The effect of an instruction, from its text alone. Knows names of instructions, no encodings.

use unspool_isa::{ControlFlow, Decoded, Isa};

use super::split as split_comment;

/// Control flow of an instruction, as its text defines it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Reading {
    /// Effect on control flow.
    pub(crate) flow: ControlFlow,
    /// The condition can fail. `None`: not compared.
    pub(crate) conditional: Option<bool>,
    /// See [`Decoded::link`].
    pub(crate) link: bool,
    /// See [`Decoded::ret`].
    pub(crate) ret: bool,
    /// Offset of a direct branch from the value of the PC.
    pub(crate) offset: Option<i64>,
    /// The direct branch changes between A32 and T32.
    pub(crate) exchanges: bool,
    /// See [`Decoded::it`].
    pub(crate) it: u8,
}

impl Reading {
    /// Whether an instruction with this text is decoded so.
    pub(crate) fn fits(&self, isa: Isa, address: u64, facts: &Decoded) -> bool {
        let target = facts.target.map(|target| (target.address, target.isa));
        (self.flow, self.link, self.ret) == (facts.flow, facts.link, facts.ret)
            && self.conditional.is_none_or(|conditional| conditional == facts.conditional)
            && self.it == facts.it
            && self.target(isa, address) == target
    }

    fn target(&self, isa: Isa, address: u64) -> Option<(u64, Isa)> {
        let offset = self.offset?;
        let (pc, mask) = match isa {
            Isa::A64 | Isa::Rv32 | Isa::Rv64 => (address, u64::MAX),
            Isa::A32 => (address + 8, 0xffff_ffff),
            Isa::T32 if self.exchanges => ((address + 4) & !0b11, 0xffff_ffff),
            Isa::T32 => (address + 4, 0xffff_ffff),
        };
        let there = match isa {
            Isa::A32 if self.exchanges => Isa::T32,
            Isa::T32 if self.exchanges => Isa::A32,
            _ => isa,
        };
        Some((pc.wrapping_add_signed(offset) & mask, there))
    }
}

/// Reads the text of `opcode`, which is used only where LLVM [differs](differs).
pub(crate) fn read(isa: Isa, opcode: u32, text: &str) -> Reading {
    let (name, operands) = split_comment(text.split("//").next().unwrap_or_default(), "@");
    if let Some(flow) = differs(isa, opcode) {
        return Reading { flow, ..Reading::default() };
    }
    match isa {
        Isa::A64 => a64(name, operands),
        _ => aarch32(isa, opcode, name, operands),
    }
}

/// The instructions that LLVM prints by another name than a trace unit would.
fn differs(isa: Isa, opcode: u32) -> Option<ControlFlow> {
    match isa {
        Isa::A64 if opcode & !0x1f == 0xd523_3060 => Some(ControlFlow::TransactionStart),
        Isa::A32 if opcode & 0x0fff_0fff == 0x0e07_0f95 && opcode >> 28 != 0b1111 => Some(ControlFlow::Isb),
        Isa::T32 if opcode & 0xffff_0fff == 0xee07_0f95 => Some(ControlFlow::Isb),
        Isa::A32 if is_old_data_barrier(opcode & 0x0fff_0fff) && opcode >> 28 != 0b1111 => {
            Some(ControlFlow::DataBarrier)
        }
        Isa::T32 if opcode >> 28 == 0b1110 && is_old_data_barrier(opcode & 0x0fff_0fff) => {
            Some(ControlFlow::DataBarrier)
        }
        _ => None,
    }
}

/// DSB and DMB as operations of the system coprocessor.
fn is_old_data_barrier(opcode: u32) -> bool {
    matches!(opcode, 0x0e07_0f9a | 0x0e07_0fba)
}

fn a64(name: &str, operands: &str) -> Reading {
    let never_fails = name.ends_with(".al") || name.ends_with(".nv");
    let conditional = Some(false);
    let indirect = Reading { flow: ControlFlow::Indirect, conditional, ..Reading::default() };
    let direct = Reading { flow: ControlFlow::Direct, conditional, offset: offset(operands), ..Reading::default() };
    match name {
        "b" => direct,
        "bl" => Reading { link: true, ..direct },
        _ if name.starts_with("b.") || name.starts_with("bc.") => Reading { conditional: Some(!never_fails), ..direct },
        _ if name.starts_with("cb")
            || name.starts_with("tb") && name != "tbl" && name != "tblq" && !name.starts_with("tbx") =>
        {
            Reading { conditional: Some(true), ..direct }
        }
        "br" | "braa" | "brab" | "braaz" | "brabz" => indirect,
        "blr" | "blraa" | "blrab" | "blraaz" | "blrabz" => Reading { link: true, ..indirect },
        "ret" | "retaa" | "retab" | "retaasppc" | "retabsppc" | "retaasppcr" | "retabsppcr" => {
            Reading { ret: true, ..indirect }
        }
        "eret" | "eretaa" | "eretab" | "drps" => Reading { flow: ControlFlow::ExceptionReturn, ..indirect },
        "isb" => Reading { flow: ControlFlow::Isb, conditional, ..Reading::default() },
        "wfi" | "wfe" | "wfit" | "wfet" => Reading { flow: ControlFlow::Wfx, conditional, ..Reading::default() },
        "svc" => Reading { flow: ControlFlow::SupervisorCall, conditional, ..Reading::default() },
        "hvc" => Reading { flow: ControlFlow::HypervisorCall, conditional, ..Reading::default() },
        "smc" => Reading { flow: ControlFlow::SecureMonitorCall, conditional, ..Reading::default() },
        "brk" => Reading { flow: ControlFlow::Breakpoint, conditional, ..Reading::default() },
        "hlt" => Reading { flow: ControlFlow::Halt, conditional, ..Reading::default() },
        "dcps1" | "dcps2" | "dcps3" => {
            Reading { flow: ControlFlow::DebugChangeState, conditional, ..Reading::default() }
        }
        "udf" => Reading { flow: ControlFlow::Undefined, conditional, ..Reading::default() },
        _ => Reading { conditional, ..Reading::default() },
    }
}

/// The last operand, a number.
fn offset(operands: &str) -> Option<i64> {
    let number = operands.rsplit(',').next()?.trim().strip_prefix('#')?;
    number.parse().ok()
}

/// Instructions with a first operand that they read, or use as an address, and do not write (but for the address).
const READERS: [&str; 36] = [
    "cmp", "cmn", "tst", "teq", "str", "strb", "strh", "strd", "strt", "strbt", "strht", "stm", "stmda", "stmdb",
    "stmib", "stl", "stlb", "stlh", "mcr", "mcrr", "mcr2", "mcrr2", "msr", "pld", "pldw", "pli", "vldmia", "vldmdb",
    "vstmia", "vstmdb", "fldmiax", "fldmdbx", "fstmiax", "fstmdbx", "dls", "tt",
];

/// Instructions that LLVM accepts with the PC as destination and that the architecture calls unpredictable.
const UNPREDICTABLE_TO_PC: [&str; 39] = [
    "ldrb", "ldrt", "ldrbt", "ldrh", "ldrht", "ldrsb", "ldrsbt", "ldrsh", "ldrsht", "ldrd", "lda", "ldab", "ldah",
    "movw", "movt", "mrs", "vmrs", "swp", "swpb", "mrrc", "mrrc2", "bfc", "bfi", "udiv", "sdiv", "sel", "clz", "rbit",
    "rev", "rev16", "revsh", "pkhbt", "pkhtb", "ssat", "ssat16", "qadd", "sbfx", "autg", "pacg",
];

/// Starts of the names of more such instructions: multiplications, exclusive accesses, moves from vectors.
const UNPREDICTABLE_FAMILIES: [&str; 12] =
    ["sm", "um", "us", "ub", "mul", "mla", "mls", "ldrex", "ldaex", "strex", "stlex", "vmov"];

/// Whether LLVM accepts the instruction although the architecture calls it unpredictable: then it is not decoded.
fn unpredictable(isa: Isa, opcode: u32, base: &str, operands: &str) -> bool {
    let names_pc = operands.starts_with("pc,");
    let family = UNPREDICTABLE_FAMILIES.iter().any(|start| base.starts_with(start));
    match base {
        _ if names_pc && (family || UNPREDICTABLE_TO_PC.contains(&base) || shifts_by_register(operands)) => true,
        // With the PC as base.
        "ldm" | "ldmdb" if isa == Isa::T32 => names_pc,
        // With anything but zeros and ones where zeros and ones should be.
        "rfeda" | "rfedb" | "rfeia" | "rfeib" if isa == Isa::A32 => opcode & 0xffff != 0x0a00,
        _ => false,
    }
}

/// Whether a register is the amount of a shift: `r1, lsl r2`, and `lsl pc, r1, r2`, which LLVM prints as MOV.
fn shifts_by_register(operands: &str) -> bool {
    let last = operands.rsplit(", ").next().unwrap_or_default();
    let amount = ["lsl ", "lsr ", "asr ", "ror "].iter().find_map(|shift| last.strip_prefix(shift));
    amount.is_some_and(|amount| !amount.starts_with('#'))
}

fn aarch32(isa: Isa, opcode: u32, name: &str, operands: &str) -> Reading {
    let name = name.trim_end_matches(".w").trim_end_matches(".n");
    let (base, sets_flags, condition) = split(name);
    let conditional = match isa {
        Isa::A32 => Some(condition.is_some()),
        _ => Some(condition.is_some() && base == "b"),
    };
    // The name of an instruction that is not looked for may end like a condition (SMLALS), so its condition is not
    // compared.
    let other = Reading::default();
    let something = Reading { conditional, ..Reading::default() };
    let indirect = Reading { flow: ControlFlow::Indirect, ..something.clone() };
    let direct = Reading { flow: ControlFlow::Direct, offset: offset(operands), ..something.clone() };
    let first = operands.split([',', ' ']).next().unwrap_or_default();
    match base {
        _ if unpredictable(isa, opcode, base, operands) => other,
        "b" => direct,
        "bl" => Reading { link: true, ..direct },
        "blx" if operands.starts_with('#') => Reading { link: true, exchanges: true, ..direct },
        "blx" | "blxns" => Reading { link: true, ..indirect },
        "bx" | "bxns" => Reading { ret: operands == "lr", ..indirect },
        "bxaut" => Reading { ret: operands.split(", ").nth(1) == Some("lr"), ..indirect },
        "bxj" | "tbb" | "tbh" => indirect,
        "cbz" | "cbnz" | "wls" | "wlstp.8" | "wlstp.16" | "wlstp.32" | "wlstp.64" | "letp" => {
            Reading { conditional: Some(true), ..direct }
        }
        "le" => Reading { conditional: Some(operands.starts_with("lr")), ..direct },
        "it" | "itt" | "ite" | "ittt" | "itte" | "itet" | "itee" => Reading { it: name.len() as u8 - 1, ..other },
        _ if name.len() == 5 && name.starts_with("it") => Reading { it: 4, ..other },
        "isb" => Reading { flow: ControlFlow::Isb, ..something },
        // Some options of DSB have names of their own.
        "dmb" | "dsb" | "ssbb" | "pssbb" | "dfb" => Reading { flow: ControlFlow::DataBarrier, ..something },
        "wfi" | "wfe" => Reading { flow: ControlFlow::Wfx, ..something },
        "svc" => Reading { flow: ControlFlow::SupervisorCall, ..something },
        "eret" | "rfeda" | "rfedb" | "rfeia" | "rfeib" => Reading { flow: ControlFlow::ExceptionReturn, ..indirect },
        "pop" | "ldm" | "ldmda" | "ldmdb" | "ldmib" => load_multiple(base, first, operands, &something),
        _ if first != "pc" || READERS.contains(&base) => other,
        _ if sets_flags => Reading { flow: ControlFlow::ExceptionReturn, ..indirect },
        "ldr" => Reading { ret: operands.starts_with("pc, [sp") && !by_register(operands), ..indirect },
        "mov" => Reading { ret: operands == "pc, lr", ..indirect },
        _ => indirect,
    }
}

/// An index that is a register and not a number.
fn by_register(operands: &str) -> bool {
    let index = operands.split(", ").nth(2);
    index.is_some_and(|index| !index.starts_with('#'))
}

fn load_multiple(base: &str, first: &str, operands: &str, something: &Reading) -> Reading {
    let indirect = Reading { flow: ControlFlow::Indirect, ..something.clone() };
    let from_stack = base == "pop" || first.trim_end_matches('!') == "sp";
    match operands.trim_end_matches([' ', '^']).ends_with("pc}") {
        false => something.clone(),
        true if operands.ends_with('^') => Reading { flow: ControlFlow::ExceptionReturn, ..indirect },
        true => Reading { ret: from_stack, ..indirect },
    }
}

const CONDITIONS: [&str; 14] = ["eq", "ne", "hs", "lo", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le"];
/// Names that end like a condition but have none.
const WHOLE: [&str; 5] = ["dls", "wls", "mls", "svc", "teq"];

/// Splits a name into the instruction, whether it sets flags, and its condition.
fn split(name: &str) -> (&str, bool, Option<&str>) {
    if WHOLE.contains(&name) {
        return (name, false, None);
    }
    if let Some(base) = name.strip_suffix('s').filter(|base| FLAG_SETTERS.contains(base)) {
        return (base, true, None);
    }
    let condition = CONDITIONS.into_iter().find(|condition| name.len() > 2 && name.ends_with(condition));
    let rest = &name[..name.len() - condition.map_or(0, str::len)];
    match rest.strip_suffix('s') {
        Some(base) if FLAG_SETTERS.contains(&base) => (base, true, condition),
        _ => (rest, false, condition),
    }
}

const FLAG_SETTERS: [&str; 18] = [
    "and", "eor", "sub", "rsb", "add", "adc", "sbc", "rsc", "orr", "mov", "bic", "mvn", "lsl", "lsr", "asr", "ror",
    "rrx", "orn",
];
