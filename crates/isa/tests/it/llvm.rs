//! Compares the decoders with LLVM.
//!
//! opcodes ─▶ `llvm-mc --disassemble` ─▶ text ─▶ effect of a branch of that name ─▶ compared with **the decoders**
//!
//! Memory accesses of A64 are compared in the same way, and everything that is decoded from RISC-V: all halfwords, and words.
//!
//! Needs `llvm-mc` of LLVM 22, which has Armv9.7, and Q and Zalasr of RISC-V (A64 branches: 20; A32, T32: 14).
//! `UNSPOOL_LLVM_MC` names it; the default is the newest in `PATH`. `UNSPOOL_LLVM_SAMPLES` sets the number of random words
//! per sample (default 40,000; 400,000 were compared when this was written, with LLVM 22).
//!
//! Where the two may differ, and the decision:
//!
//! | class | decision |
//! |---|---|
//! | LLVM refuses the opcode | `FallThrough`, without exception |
//! | LLVM warns that the opcode is unpredictable | `FallThrough`, or as the text |
//! | TSTART | LLVM 22 prints MRS, as FEAT_TME was withdrawn; trace units know it |
//! | MCR p15, 0, Rt, c7, c5, 4 | a barrier to trace units, a coprocessor write to LLVM |
//! | loads of less than a word, LDRT, MOVW, MRS, multiplications, shifts by register and such, to the PC | `FallThrough`: LLVM accepts them without a warning, the architecture calls them unpredictable |
//! | T32 LDM with the PC as base | `FallThrough`: the same, and one half of it is CLRM on Armv8.1-M |
//! | A32 RFE with other bits than 0x0a00 below | `FallThrough`: the same |
//! | branch futures (BF and its kin) | `FallThrough`: they announce a branch and do not branch |
//! | accesses: LLVM refuses the opcode | `None`, without exception |
//! | accesses: SYS that is IC IALLU, TLBI VMALLE1 and such, but names a register | what it is without the register: LLVM gives it no name, the architecture may ignore the register |
//! | accesses: SYSP that is TLBIP without XS | an invalidation: LLVM 22 gives it no name |
//! | accesses: CPY and SET with the zero register as length | copies and fills of nothing, as LLVM reads them |
//! | RISC-V: LLVM refuses the opcode | no class, and nothing else, but for the next four |
//! | RISC-V: fences with fields that have no meaning yet | fences: the specification has implementations ignore them |
//! | RISC-V: uret | a return from a trap: the draft was withdrawn, traces of it remain |
//! | RISC-V: fcvt.h.q, fcvt.q.h | instructions: Zfh has them where Q is there, LLVM 22 has not |
//! | RISC-V: ssamoswap | an atomic operation: LLVM has it as an experiment, with which it refuses what Zimop allows |
//! | RISC-V: aes64ks1i of a round above ten | nothing: reserved, and LLVM takes it |
//! | RISC-V: c.unimp, the halfword of zeros | nothing: it is defined to be illegal |
//! | RISC-V: Zcmp, Zcmt, Zclsd, Zfinx | not compared: they take encodings of C and F, which are read instead |

#![allow(clippy::expect_used, reason = "a test stops at what it does not expect")]

mod access;
mod oracle;
mod reading;
mod riscv;
mod riscv_classes;
mod samples;

use oracle::{Machine, Text};
use reading::Reading;
use unspool_isa::{ControlFlow, Decoded, Isa, decode};
use unspool_testing::{Random, note};

/// Address of every opcode. LLVM prints offsets, so that any address is fine that is not too round.
const ADDRESS: u64 = 0x1234_5676;

#[test]
fn a64_agrees_with_llvm() {
    let Some(machine) = Machine::find(&["-triple=aarch64", "-mattr=+all"]) else { return };
    if !machine.knows(Isa::A64, 0x7400_0000) {
        return;
    }
    compare(Isa::A64, &[machine], &samples::a64(&mut Random::new(64)));
}

#[test]
fn a64_access_agrees_with_llvm() {
    let Some(machine) = Machine::find(&["-triple=aarch64", "-mattr=+all"]) else { return };
    // LDAP, of Armv9.7
    if !machine.knows(Isa::A64, 0xd940_5800) {
        return;
    }
    access::compare(&machine, &samples::a64_memory(&mut Random::new(46)));
}

#[test]
fn a32_agrees_with_llvm() {
    let Some(machine) = Machine::find(&["-triple=armv8a", "-mattr=+v8.6a,+mp,+trustzone,+virtualization"]) else {
        return;
    };
    compare(Isa::A32, &[machine], &samples::a32(&mut Random::new(32)));
}

#[test]
fn t32_agrees_with_llvm() {
    let a_profile = Machine::find(&["-triple=thumbv8a", "-mattr=+v8.6a,+mp,+trustzone,+virtualization"]);
    let m_profile = Machine::find(&["-triple=thumbv8.1m.main", "-mattr=+8msecext,+lob,+mve.fp,+pacbti,+fp64"]);
    let (Some(a_profile), Some(m_profile)) = (a_profile, m_profile) else { return };
    if !m_profile.knows(Isa::T32, 0xfb5e_cf1d) {
        return;
    }
    compare(Isa::T32, &[a_profile, m_profile], &samples::t32(&mut Random::new(16)));
}

#[test]
fn rv64_agrees_with_llvm() {
    riscv::compare(Isa::Rv64, &samples::riscv(&mut Random::new(5)));
}

#[test]
fn rv32_agrees_with_llvm() {
    riscv::compare(Isa::Rv32, &samples::riscv(&mut Random::new(50)));
}

/// Compares every opcode.
fn compare(isa: Isa, machines: &[Machine], opcodes: &[u32]) {
    let texts: Vec<Vec<Text>> = machines.iter().map(|machine| machine.disassemble(isa, opcodes)).collect();
    let mut wrong = Vec::new();
    let mut branches = 0;
    for (index, &opcode) in opcodes.iter().enumerate() {
        let ours = decode(isa, address(isa), opcode);
        branches += usize::from(ours.flow != ControlFlow::FallThrough);
        let readings: Vec<&Text> = texts.iter().map(|texts| &texts[index]).collect();
        if !agrees(isa, opcode, &ours, &readings) {
            wrong.push(format!("{opcode:08x} {readings:?}: {ours:?}"));
        }
    }
    note(format_args!("{isa:?}: {} opcodes, {branches} not fall-through, {} wrong", opcodes.len(), wrong.len()));
    assert_none(wrong);
}

/// Fails with the first opcodes that are decoded wrong.
fn assert_none(mut wrong: Vec<String>) {
    wrong.truncate(40);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The name and the operands of a text without its comment.
fn split<'t>(text: &'t str, comment: &str) -> (&'t str, &'t str) {
    let text = text.split(comment).next().unwrap_or_default().trim();
    let (name, operands) = text.split_once('\t').unwrap_or((text, ""));
    (name.trim(), operands.trim())
}

/// Number of bytes that the last letter of a name means.
fn bytes_of_last_letter(name: &str) -> u8 {
    match name.chars().last() {
        Some('b') => 1,
        Some('h') => 2,
        Some('w' | 's') => 4,
        Some('d') => 8,
        Some('q') => 16,
        other => unreachable!("no size is called {other:?}"),
    }
}

/// The aligned address of an instruction.
fn address(isa: Isa) -> u64 {
    if isa == Isa::T32 { ADDRESS } else { ADDRESS & !0b11 }
}

/// Whether the decoded instruction agrees with any of the texts, or is none where no text is valid.
fn agrees(isa: Isa, opcode: u32, ours: &Decoded, texts: &[&Text]) -> bool {
    let nothing = Reading::default();
    let fits = |reading: &Reading| reading.fits(isa, address(isa), ours);
    let mut valid = texts.iter().filter_map(|text| match text {
        Text::Valid(line) => Some(line),
        _ => None,
    });
    if let Some(line) = valid.next() {
        return fits(&reading::read(isa, opcode, line));
    }
    let unpredictable = texts.iter().filter_map(|text| match text {
        Text::Unpredictable(line) => Some(line),
        _ => None,
    });
    // Armv8, which LLVM knows, has no ThumbEE.
    let is_thumb_ee = matches!(opcode, 0xf3bf_8f0f | 0xf3bf_8f1f)
        && matches!(ours.flow, ControlFlow::EnterThumbEe | ControlFlow::LeaveThumbEe);
    fits(&nothing) || is_thumb_ee || unpredictable.into_iter().any(|line| fits(&reading::read(isa, opcode, line)))
}
