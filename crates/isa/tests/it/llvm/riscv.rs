//! The effect of a RISC-V instruction, from its text alone. Knows names of instructions, no encodings.

use std::collections::{BTreeMap, HashSet};

use unspool_isa::{ControlFlow, Isa, Operation};
use unspool_testing::note;

use super::super::riscv::{Instruction, plain};
use super::oracle::{Machine, Text};
use super::{ADDRESS, assert_none, bytes_of_last_letter, riscv_classes, split};

/// Every ratified extension that takes no encoding from another.
const EXTENSIONS: &str = "+m,+a,+f,+d,+q,+c,+v,+h,+zcb,+zcmop,+zimop,+zba,+zbb,+zbc,+zbs,+zbkb,+zbkc,+zbkx,+zknd,\
    +zkne,+zknh,+zksed,+zksh,+zkr,+zfh,+zfa,+zfbfmin,+zvfh,+zvfbfmin,+zvfbfwma,+zvbb,+zvbc,+zvkg,+zvkned,+zvknhb,\
    +zvksed,+zvksh,+zicbom,+zicbop,+zicboz,+zicond,+zawrs,+zacas,+zabha,+zalasr,+svinval,+smrnmi,+ssctr,+zihintpause,\
    +zihintntl,+zicsr,+zifencei";

/// LLVM for RV32 or RV64, if it is new enough.
pub(crate) fn machine(isa: Isa) -> Option<Machine> {
    let (triple, more) = if isa == Isa::Rv64 { ("riscv64", "") } else { ("riscv32", ",+zilsd") };
    let (triple, attributes) = (format!("-triple={triple}"), format!("-mattr={EXTENSIONS}{more}"));
    let machine = Machine::find(&[&triple, &attributes, "-M", "no-aliases", "-M", "numeric"])?;
    // fadd.q, and lw.aq, which is of 2025
    [0x0600_0053, 0x3400_a02f].iter().all(|&opcode| machine.knows_riscv(opcode)).then_some(machine)
}

/// Compares every opcode.
pub(crate) fn compare(isa: Isa, opcodes: &[u32]) {
    let Some(machine) = machine(isa) else { return };
    let (mut wrong, mut names, mut valid, mut decided) = (Vec::new(), HashSet::new(), 0, BTreeMap::new());
    for (&opcode, text) in opcodes.iter().zip(machine.disassemble_riscv(opcodes)) {
        let ours = plain(isa, ADDRESS, opcode);
        if let Text::Valid(text) = &text {
            valid += 1;
            names.insert(split(text, "#").0.to_owned());
        }
        if agrees(isa, &ours, opcode, &text) {
            continue;
        }
        match decision(opcode, &text, &ours) {
            Some(class) => *decided.entry(class).or_insert(0) += 1,
            None => wrong.push(format!("{opcode:08x} {text:?}: {ours:?}")),
        }
    }
    let (all, names) = (opcodes.len(), names.len());
    note(format_args!(
        "{isa:?}: {all} opcodes, {valid} valid with {names} names, decided otherwise {decided:?}, {} wrong",
        wrong.len()
    ));
    assert_none(wrong);
}

/// Reason why LLVM is not followed here.
fn decision(opcode: u32, text: &Text, ours: &Instruction) -> Option<&'static str> {
    let is_nothing = ours.classes.is_empty() && ours.decoded.flow == ControlFlow::Unknown;
    match text {
        Text::Invalid if ours.access.operation == Operation::Fence => Some("fence with fields that are to be ignored"),
        Text::Invalid if ours.decoded.flow == ControlFlow::ExceptionReturn => Some("uret"),
        Text::Invalid if matches!(opcode & 0xfff0_007f, 0x4430_0053 | 0x4620_0053) => Some("fcvt.h.q, fcvt.q.h"),
        Text::Invalid if ours.access.operation == Operation::LoadStore && opcode >> 27 == 0b01001 => Some("ssamoswap"),
        Text::Valid(text) if is_nothing && text.starts_with("aes64ks1i") => Some("aes64ks1i of a round above ten"),
        Text::Valid(text) if is_nothing && text == "c.unimp" => Some("c.unimp"),
        _ => None,
    }
}

fn agrees(isa: Isa, ours: &Instruction, opcode: u32, text: &Text) -> bool {
    let is_right_length = ours.decoded.length == isa.length(opcode as u16);
    match text {
        Text::Invalid | Text::Unpredictable(_) => {
            let none = plain(isa, ADDRESS, if ours.decoded.length == 2 { 0 } else { 0xffff_ffff });
            is_right_length && *ours == none
        }
        Text::Valid(text) => {
            let (name, operands) = split(text, "#");
            let has_classes = riscv_classes::fit(ours, name, operands);
            is_right_length && has_classes && fits(isa, ours, name, operands) && is_called(isa, opcode, name)
        }
    }
}

fn fits(isa: Isa, ours: &Instruction, name: &str, operands: &str) -> bool {
    let (access, bytes) = access(name);
    let (link, ret) = links(name, operands);
    let Instruction { decoded, access: our_access, .. } = ours;
    (decoded.flow, decoded.conditional) == flow(name)
        && decoded.target_address() == target(isa, decoded.flow, operands)
        && (decoded.link, decoded.ret) == (link, ret)
        && (our_access.operation, our_access.bytes) == (access, bytes)
        && our_access.may_not_write == name.trim_start_matches("c.").starts_with("sc.")
        && our_access.vector == name.starts_with('v')
        && our_access.predicated == operands.ends_with("v0.t")
}

fn flow(name: &str) -> (ControlFlow, bool) {
    let flow = match name {
        "beq" | "bne" | "blt" | "bge" | "bltu" | "bgeu" | "c.beqz" | "c.bnez" => return (ControlFlow::Direct, true),
        "jal" | "c.j" | "c.jal" => ControlFlow::Direct,
        "jalr" | "c.jr" | "c.jalr" => ControlFlow::Indirect,
        "mret" | "sret" | "mnret" | "dret" | "uret" => ControlFlow::ExceptionReturn,
        "ecall" => ControlFlow::SupervisorCall,
        "ebreak" | "c.ebreak" => ControlFlow::Breakpoint,
        _ => ControlFlow::FallThrough,
    };
    (flow, false)
}

/// The offset is the last operand.
fn target(isa: Isa, flow: ControlFlow, operands: &str) -> Option<u64> {
    if flow != ControlFlow::Direct {
        return None;
    }
    let offset: i64 = operands.rsplit(", ").next()?.parse().ok()?;
    let target = ADDRESS.wrapping_add_signed(offset);
    Some(if isa == Isa::Rv32 { u64::from(target as u32) } else { target })
}

/// Whether it is a call, and whether it is a return.
fn links(name: &str, operands: &str) -> (bool, bool) {
    let registers: Vec<&str> = operands.split([',', ' ', '(', ')']).filter(|word| word.starts_with('x')).collect();
    let is_link = |register: &str| matches!(register, "x1" | "x5");
    match (name, registers.as_slice()) {
        ("jal", [link]) => (is_link(link), false),
        ("c.jal", _) => (true, false),
        ("jalr", [link, base]) => (is_link(link), is_link(base) && link != base),
        ("c.jr", [base]) => (false, is_link(base)),
        ("c.jalr", [base]) => (true, *base == "x5"),
        _ => (false, false),
    }
}

/// The memory operation, and its number of bytes.
fn access(name: &str) -> (Operation, Option<u16>) {
    use Operation::{CacheMaintenance, Fence, Load, LoadStore, Prefetch, Store, Zero};
    let name = name.trim_end_matches(".aqrl").trim_end_matches(".aq").trim_end_matches(".rl");
    let plain = name.strip_prefix("c.").unwrap_or(name);
    let plain = plain.strip_suffix("sp").unwrap_or(plain);
    match plain {
        "lb" | "lbu" | "hlv.b" | "hlv.bu" => (Load, Some(1)),
        "lh" | "lhu" | "flh" | "hlv.h" | "hlv.hu" | "hlvx.hu" => (Load, Some(2)),
        "lw" | "lwu" | "flw" | "hlv.w" | "hlv.wu" | "hlvx.wu" => (Load, Some(4)),
        "ld" | "fld" | "hlv.d" => (Load, Some(8)),
        "flq" => (Load, Some(16)),
        "sb" | "hsv.b" => (Store, Some(1)),
        "sh" | "fsh" | "hsv.h" => (Store, Some(2)),
        "sw" | "fsw" | "hsv.w" => (Store, Some(4)),
        "sd" | "fsd" | "hsv.d" => (Store, Some(8)),
        "fsq" => (Store, Some(16)),
        "cbo.zero" => (Zero, None),
        _ if plain.starts_with("amo") => (LoadStore, Some(bytes_of_last_letter(plain).into())),
        _ if plain.starts_with("lr.") => (Load, Some(bytes_of_last_letter(plain).into())),
        _ if plain.starts_with("sc.") => (Store, Some(bytes_of_last_letter(plain).into())),
        _ if plain.starts_with("prefetch.") => (Prefetch, None),
        _ if plain.starts_with("cbo.") => (CacheMaintenance, None),
        _ if ["fence", "sfence", "hfence", "sinval", "hinval"].iter().any(|start| plain.starts_with(start)) => {
            (Fence, None)
        }
        _ if is_vector_access(plain, 'l') => (Load, None),
        _ if is_vector_access(plain, 's') => (Store, None),
        _ => (Operation::None, None),
    }
}

/// vle8.v, vlse8.v, vlseg2e8.v, vluxei8.v, vloxseg2ei8.v, vl1re8.v, vlm.v and such.
fn is_vector_access(name: &str, direction: char) -> bool {
    let Some(rest) = name.strip_prefix('v').and_then(|rest| rest.strip_prefix(direction)) else { return false };
    let Some(rest) = rest.strip_suffix(".v") else { return false };
    let ends_as_one = rest.ends_with(['f', 'r']) || rest.ends_with(|last: char| last.is_ascii_digit());
    rest == "m" || rest.starts_with(['e', 's', 'u', 'o', '1', '2', '4', '8']) && ends_as_one
}

#[cfg(feature = "text")]
thread_local! {
    static MNEMONICS: std::cell::RefCell<unspool_isa::Disassembler> = unspool_isa::Disassembler::new().into();
}

/// Whether the mnemonic is that of the text, except for the aliases that are kept.
#[cfg(feature = "text")]
fn is_called(isa: Isa, opcode: u32, theirs: &str) -> bool {
    let plain = theirs.trim_end_matches(".aqrl").trim_end_matches(".aq").trim_end_matches(".rl");
    let Some(ours) = MNEMONICS.with_borrow_mut(|disassembler| disassembler.mnemonic(isa, opcode)) else { return false };
    match ours.as_ref() {
        "nop" | "li" | "mv" => plain == "addi",
        "pause" => plain == "fence",
        "csrrw" => plain == "csrrw" || plain == "unimp",
        _ if ours.starts_with("ntl.") => plain == "add",
        _ if ours.starts_with("c.ntl.") => plain == "c.add",
        // Zalasr has the ordering in the name.
        _ => plain == ours.trim_end_matches(".aq").trim_end_matches(".rl"),
    }
}

#[cfg(not(feature = "text"))]
fn is_called(_: Isa, _: u32, _: &str) -> bool {
    true
}
