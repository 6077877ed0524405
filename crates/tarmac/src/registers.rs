//! Names of registers: which of them alias the same register, and which part of it.
//!
//! name, context, mode ─▶ **slot**, part
//!
//! `X1`, `w1`, `r1` and `E1` are one register; so are `r13_main_s` and `MSP_S`, and `V2`, `q2` and `Z2`. `r13_svc` and
//! `r13_irq` are two, and what `SP` means depends on the mode. Any other name is a register of its own, in any case.
//! Knows no values.

mod mode;

pub use mode::{Level, Mode};
use unspool_model::Security;

use super::record::Register;
use super::short_text::ShortText;

/// A register, independent of its names. Slots from [`Slot::NAMED`] on are allocated to other names in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u16);

impl Slot {
    /// X0, also r0.
    pub const X0: Self = Self(0);
    /// X30, the link register of AArch64.
    pub const X30: Self = Self(30);
    /// The program counter.
    pub const PC: Self = Self(31);
    /// The stack pointer of a mode that is not known.
    pub const SP: Self = Self(32);
    /// SP_EL0, followed by those of the other levels.
    pub const SP_EL0: Self = Self(33);
    /// sp_usr, followed by those of the other [`BANKS`].
    pub const SP_USR: Self = Self(37);
    /// MSP, followed by the other [`STACKS`].
    pub const MSP: Self = Self(45);
    /// The link register of M-profile, or of a mode that is not known.
    pub const LR: Self = Self(51);
    /// lr_usr, followed by those of the other [`BANKS`].
    pub const LR_USR: Self = Self(52);
    /// r8_fiq, followed by those up to r12_fiq.
    pub const R8_FIQ: Self = Self(60);
    /// V0, also q0 and Z0.
    pub const V0: Self = Self(65);
    /// P0.
    pub const P0: Self = Self(97);
    /// CPSR, also PSR and XPSR.
    pub const CPSR: Self = Self(129);
    /// FPCR.
    pub const FPCR: Self = Self(130);
    /// FPSR.
    pub const FPSR: Self = Self(131);
    /// The first slot that is allocated to other names.
    pub const NAMED: Self = Self(132);

    pub(super) const fn at(self, number: u8) -> Self {
        Self(self.0 + number as u16)
    }

    /// Whether this is a stack pointer.
    pub fn is_stack_pointer(self) -> bool {
        (Self::SP..Self::LR).contains(&self)
    }

    /// Whether this is an AArch32 link register.
    pub fn is_link(self) -> bool {
        (Self::LR..Self::R8_FIQ).contains(&self)
    }

    /// Name of the register in AArch64 or AArch32. `None`: its slot is allocated.
    pub fn name(self, is_a64: bool) -> Option<String> {
        let offset_from = |first: Self| usize::from(self.0.saturating_sub(first.0));
        Some(match self {
            slot if slot < Self::PC => format!("{}{}", if is_a64 { 'x' } else { 'r' }, slot.0),
            Self::PC => "pc".into(),
            Self::SP => "sp".into(),
            slot if slot < Self::SP_USR => format!("sp_el{}", offset_from(Self::SP_EL0)),
            slot if slot < Self::MSP => format!("sp_{}", BANKS[offset_from(Self::SP_USR)]),
            slot if slot < Self::LR => STACKS[offset_from(Self::MSP)].into(),
            Self::LR => "lr".into(),
            slot if slot < Self::R8_FIQ => format!("lr_{}", BANKS[offset_from(Self::LR_USR)]),
            slot if slot < Self::V0 => format!("r{}_fiq", offset_from(Self::R8_FIQ) + 8),
            slot if slot < Self::P0 => format!("{}{}", if is_a64 { 'v' } else { 'q' }, offset_from(Self::V0)),
            slot if slot < Self::CPSR => format!("p{}", offset_from(Self::P0)),
            Self::CPSR => "cpsr".into(),
            Self::FPCR => "fpcr".into(),
            Self::FPSR => "fpsr".into(),
            _ => return None,
        })
    }
}

/// The AArch32 modes with banked registers.
pub const BANKS: [&str; 8] = ["usr", "svc", "abt", "und", "irq", "fiq", "hyp", "mon"];

/// The stack pointers of M-profile.
pub const STACKS: [&str; 6] = ["msp", "psp", "msp_s", "psp_s", "msp_ns", "psp_ns"];

/// Maximum number of bits of a register.
pub(super) const MAX_BITS: usize = 1 << 14;

/// The part of a register that a name refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// The register.
    pub(super) slot: Slot,
    /// The lowest bit.
    pub(super) low: u16,
    /// Number of bits, unless more are given; 0: as many as are given.
    pub(super) bits: u16,
    /// Whether further bits that are given are ignored.
    pub(super) is_fixed: bool,
    /// Whether bits that are not written become zero.
    pub(super) clears: bool,
}

impl Part {
    fn whole(slot: Slot, bits: u16) -> Self {
        Self { slot, low: 0, bits, is_fixed: false, clears: true }
    }

    fn kept(slot: Slot, low: u16, bits: u16) -> Self {
        Self { slot, low, bits, is_fixed: true, clears: false }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A register with a slot of its own.
    Part(Part),
    /// Any other register, by its lower-case name with its bank.
    Named(Name),
}

/// A lower-case name; no register has a longer one.
pub(super) type Name = ShortText<48>;

/// The state that the meaning of a name depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct NameContext {
    pub(super) mode: Mode,
    /// Whether the core is in AArch64; `None`: unknown.
    pub(super) is_a64: Option<bool>,
}

impl NameContext {
    /// Whether the core is in AArch64 or may be.
    fn is_a64(&self) -> bool {
        self.is_a64 != Some(false)
    }

    /// The register that SP means. On M-profile it is the current stack, which the mode alone does not determine.
    pub(super) fn sp(&self) -> Slot {
        match self.mode.level {
            Level::El { el, own_stack: Some(true) | None } => Slot::SP_EL0.at(el),
            Level::El { own_stack: Some(false), .. } => Slot::SP_EL0,
            level => bank_of(level).map_or(Slot::SP, |bank| Slot::SP_USR.at(bank)),
        }
    }

    /// The current M-profile stack, given whether CONTROL selects the process stack.
    pub(super) fn stack(&self, is_process: bool) -> Slot {
        let security = match self.mode.security {
            Some(Security::Secure) => 2,
            Some(_) => 4,
            None => 0,
        };
        Slot::MSP.at(security + u8::from(is_process && self.mode.level == Level::Thread))
    }

    /// The register that LR means.
    pub(super) fn lr(&self) -> Slot {
        match (self.is_a64, self.mode.level) {
            (Some(true), _) | (_, Level::El { .. }) => Slot::X30,
            // Hyp mode has no link register of its own.
            (_, Level::Hyp) => Slot::LR_USR,
            (_, level) => bank_of(level).map_or(Slot::LR, |bank| Slot::LR_USR.at(bank)),
        }
    }

    #[inline]
    pub(super) fn meaning(&self, register: &Register<'_>) -> Meaning {
        if let [first, digits @ ..] = register.name
            && let Some(number) = small(digits)
            && let Some(part) = self.numbered(*first | 0x20, number, register)
        {
            return Meaning::Part(part);
        }
        self.other_name(register)
    }

    #[inline]
    fn numbered(&self, letter: u8, number: u8, register: &Register<'_>) -> Option<Part> {
        Some(match (letter, number) {
            (b'x' | b'e', 0..=30) => Part::whole(Slot::X0.at(number), 64),
            (b'w', 0..=30) => Part { is_fixed: true, ..Part::whole(Slot::X0.at(number), 32) },
            (b'r', 0..=7) => self.general(Slot::X0.at(number)),
            (b'r', 8..=30) => self.banked(number, register)?,
            (b'v' | b'q', 0..=31) => Part::whole(Slot::V0.at(number), 128),
            (b'z', 0..=31) => Part::whole(Slot::V0.at(number), 0),
            (b'd', 0..=31) => self.scalar(number, 64),
            (b's', 0..=31) => self.scalar(number, 32),
            (b'h', 0..=31) if self.is_a64() => self.scalar(number, 16),
            (b'h', 0..=31) => Part::kept(Slot::V0.at(number / 4), u16::from(number % 4) * 32, 16),
            (b'b', 0..=31) => self.scalar(number, 8),
            (b'p', 0..=31) => Part::whole(Slot::P0.at(number), 0),
            _ => return None,
        })
    }

    /// A general-purpose register by its AArch32 name: the upper half of the AArch64 one is unchanged.
    fn general(&self, slot: Slot) -> Part {
        match self.is_a64 {
            Some(true) => Part::whole(slot, 64),
            _ => Part { slot, low: 0, bits: 32, is_fixed: false, clears: false },
        }
    }

    /// r8 and above, some of which are banked.
    fn banked(&self, number: u8, register: &Register<'_>) -> Option<Part> {
        if self.is_a64 == Some(true) {
            return Some(Part::whole(Slot::X0.at(number), 64));
        }
        let bank = if register.context.is_empty() { None } else { bank_named(register.context) };
        let is_fiq = if bank.is_some() { bank == Some(FIQ) } else { self.mode.level == Level::Fiq };
        Some(self.general(match number {
            8..=12 if is_fiq => Slot::R8_FIQ.at(number - 8),
            13 => self.sp_of(bank, register),
            14 => self.lr_of(bank),
            15 => Slot::PC,
            8..=12 => Slot::X0.at(number),
            // Not an Arm register.
            _ => return None,
        }))
    }

    /// A scalar in a vector register.
    fn scalar(&self, number: u8, bits: u16) -> Part {
        let each = (128 / bits) as u8;
        if self.is_a64() || bits < 32 {
            return Part { is_fixed: true, ..Part::whole(Slot::V0.at(number), bits) };
        }
        Part::kept(Slot::V0.at(number / each), u16::from(number % each) * bits, bits)
    }

    fn other_name(&self, register: &Register<'_>) -> Meaning {
        let mut name = Name::of(register.name);
        name.make_lowercase();
        if let Some(part) = self.special(name.as_bytes(), register) {
            return Meaning::Part(part);
        }
        let context = register.context;
        if !context.is_empty() && !context.to_ascii_lowercase().starts_with(b"aarch") {
            name.push(b"_");
            name.push(context);
            name.make_lowercase();
        }
        Meaning::Named(name)
    }

    fn special(&self, name: &[u8], register: &Register<'_>) -> Option<Part> {
        let status = |slot| Part { is_fixed: true, ..Part::whole(slot, 32) };
        let bank = bank_named(register.context);
        Some(match name {
            b"sp" | b"xsp" | b"wsp" => self.pointer(self.sp_of(bank, register)),
            b"lr" => match self.lr_of(bank) {
                Slot::X30 => Part::whole(Slot::X30, 64),
                slot => self.pointer(slot),
            },
            b"pc" => Part::whole(Slot::PC, 0),
            b"fp" if self.is_a64() => Part::whole(Slot::X0.at(29), 64),
            b"fp" => self.general(Slot::X0.at(11)),
            b"ip" => self.general(Slot::X0.at(12)),
            b"cpsr" | b"psr" | b"xpsr" => status(Slot::CPSR),
            b"fpcr" => status(Slot::FPCR),
            b"fpsr" => status(Slot::FPSR),
            [b's', b'p', b'_', b'e', b'l', el @ b'0'..=b'3'] => Part::whole(Slot::SP_EL0.at(el - b'0'), 64),
            _ => self.pointer(stack_named(name).or_else(|| bank_suffix(name))?),
        })
    }

    /// The stack pointer of a bank, or else the one that a note names, or the current one.
    fn sp_of(&self, bank: Option<u8>, register: &Register<'_>) -> Slot {
        let banked = bank.map(|bank| Slot::SP_USR.at(bank));
        banked.or_else(|| stack_noted(register)).unwrap_or_else(|| self.sp())
    }

    /// The link register of a bank, or else the current one.
    fn lr_of(&self, bank: Option<u8>) -> Slot {
        bank.map_or_else(|| self.lr(), |bank| Slot::LR_USR.at(bank))
    }

    /// A stack pointer or link register; any other banked register is a general-purpose one.
    fn pointer(&self, slot: Slot) -> Part {
        if slot.is_stack_pointer() || slot.is_link() { Part::whole(slot, 0) } else { self.general(slot) }
    }
}

/// Index of FIQ in [`BANKS`].
const FIQ: u8 = 5;

/// Index of the bank of a mode in [`BANKS`].
fn bank_of(level: Level) -> Option<u8> {
    Some(match level {
        Level::Usr | Level::Sys => 0,
        Level::Svc => 1,
        Level::Abt => 2,
        Level::Und => 3,
        Level::Irq => 4,
        Level::Fiq => FIQ,
        Level::Hyp => 6,
        Level::Mon => 7,
        _ => return None,
    })
}

fn bank_named(name: &[u8]) -> Option<u8> {
    if name.eq_ignore_ascii_case(b"sys") {
        return Some(0);
    }
    BANKS.iter().position(|bank| name.eq_ignore_ascii_case(bank.as_bytes())).map(|bank| bank as u8)
}

/// The stack that a note names: `(MSP)`.
fn stack_noted(register: &Register<'_>) -> Option<Slot> {
    let note = match register.context {
        b"" => register.notes.strip_prefix(b"(")?.split(|byte| *byte == b')').next()?,
        context => context,
    };
    stack_named(&note.to_ascii_lowercase())
}

fn stack_named(name: &[u8]) -> Option<Slot> {
    STACKS.iter().position(|stack| name == stack.as_bytes()).map(|stack| Slot::MSP.at(stack as u8))
}

/// A register with its bank: `r13_svc`, `lr_usr`, `r13_main_s`, `r8_fiq`.
fn bank_suffix(name: &[u8]) -> Option<Slot> {
    let at = name.iter().position(|byte| *byte == b'_')?;
    let (base, bank) = (&name[..at], &name[at + 1..]);
    match base {
        b"sp" | b"r13" => bank_named(bank).map(|bank| Slot::SP_USR.at(bank)).or_else(|| stack_suffix(bank)),
        b"lr" | b"r14" => bank_named(bank).map(|bank| Slot::LR_USR.at(bank)),
        [b'r', digits @ ..] => {
            let number = small(digits).filter(|number| (8..=12).contains(number))?;
            match bank_named(bank)? {
                FIQ => Some(Slot::R8_FIQ.at(number - 8)),
                _ => Some(Slot::X0.at(number)),
            }
        }
        _ => None,
    }
}

/// The M-profile stacks as models name them.
fn stack_suffix(bank: &[u8]) -> Option<Slot> {
    let (stack, security) = match bank.iter().position(|byte| *byte == b'_') {
        Some(at) => (&bank[..at], &bank[at + 1..]),
        None => (bank, &bank[bank.len()..]),
    };
    let stack = match stack {
        b"main" | b"mn" => 0,
        b"process" | b"proc" | b"ps" | b"pr" => 1,
        _ => return None,
    };
    match security {
        b"" => Some(Slot::MSP.at(stack)),
        b"s" => Some(Slot::MSP.at(stack + 2)),
        b"ns" | b"n" => Some(Slot::MSP.at(stack + 4)),
        _ => None,
    }
}

/// A number of one or two decimal digits.
#[inline(always)]
fn small(digits: &[u8]) -> Option<u8> {
    match digits {
        [a @ b'0'..=b'9'] => Some(a - b'0'),
        [a @ b'1'..=b'9', b @ b'0'..=b'9'] => Some((a - b'0') * 10 + b - b'0'),
        _ => None,
    }
}
