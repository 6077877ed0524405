//! The emulator's log of exceptions (`-d int`).
//!
//! a line, and those after it that start with dots ─▶ **an entry**
//!
//! The text is that of QEMU for Arm. Text that is not understood is an entry too: it must not be ignored.

use unspool_model::ExceptionKind;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// An exception was taken.
    Taken(Taken),
    /// An exception returned, within AArch64.
    Return { from: u8, to: u8, target: u64 },
    /// An exception returned to AArch32.
    ReturnToAarch32 { from: u8 },
    /// The emulator served a call itself, as a semihosting host or as firmware (PSCI). Firmware is called by an exception of
    /// this class.
    Served { from: u8, by: &'static str, class: Option<u8> },
    /// Any other text.
    Other(String),
}

/// An exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) kind: ExceptionKind,
    pub(super) is_virtual: bool,
    /// Exception levels.
    pub(super) from: u8,
    pub(super) to: u8,
    /// ESR_ELx, which only synchronous exceptions and system errors write.
    pub(super) syndrome: Option<u32>,
    /// FAR_ELx, if it was written.
    pub(super) fault: Option<u64>,
    /// ELR_ELx.
    pub(super) returns_to: u64,
    /// Address at which execution continues.
    pub(super) target: u64,
}

impl Taken {
    pub(super) fn class(&self) -> Option<u8> {
        self.syndrome.map(|syndrome| (syndrome >> 26) as u8)
    }

    /// Whether it came between instructions: an interrupt, or an instruction that could not be fetched or must not be
    /// executed yet.
    pub(super) fn is_between(&self) -> bool {
        // Instruction Aborts, PC alignment, Breakpoints and Software Steps.
        self.kind != ExceptionKind::Synchronous || matches!(self.class(), Some(0x20..=0x22 | 0x30..=0x33))
    }

    /// Whether it was taken with the stack pointer of the level; `None`: the vector does not show it.
    pub(super) fn stack_before(&self) -> Option<bool> {
        (self.from == self.to).then_some(self.target & 0x600 == 0x200)
    }
}

impl Entry {
    /// Parses an entry; `None`: the plugin wrote it.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let first = lines.next()?;
        if first == "recorded by unspool" {
            return None;
        }
        let entry = match first.strip_prefix("Taking exception ") {
            Some(rest) => taken(rest, lines),
            None => returned(first),
        };
        Some(entry.unwrap_or_else(|| Self::Other(first.into())))
    }

    /// The level that it comes from, if the entry contains it.
    pub(super) fn from(&self) -> Option<u8> {
        match self {
            Self::Taken(Taken { from, .. })
            | Self::Return { from, .. }
            | Self::ReturnToAarch32 { from }
            | Self::Served { from, .. } => Some(*from),
            Self::Other(_) => None,
        }
    }
}

/// `5 [IRQ] on CPU 0`, and what follows.
fn taken<'a>(first: &str, lines: impl Iterator<Item = &'a str>) -> Option<Entry> {
    let (number, _) = first.split_once(' ')?;
    let (kind, is_virtual) = match number.parse().ok()? {
        5 => (ExceptionKind::Irq, false),
        6 => (ExceptionKind::Fiq, false),
        14 => (ExceptionKind::Irq, true),
        15 => (ExceptionKind::Fiq, true),
        24 => (ExceptionKind::SError, true),
        1_u32.. => (ExceptionKind::Synchronous, false),
        0 => return None,
    };
    let (mut levels, mut syndrome, mut fault, mut returns_to, mut target) = (None, None, None, None, None);
    for line in lines {
        let line = line.strip_prefix("...")?;
        if let Some(rest) = line.strip_prefix("from ") {
            let (from, to) = rest.split_once(" to ")?;
            levels = Some((level(from)?, level(to)?));
        } else if let Some(rest) = line.strip_prefix("with ESR ") {
            syndrome = Some(u32::try_from(hexadecimal(rest.split_once('/')?.1)?).ok()?);
        } else if let Some(rest) = line.strip_prefix("with FAR ") {
            fault = Some(hexadecimal(rest)?);
        } else if let Some(rest) = line.strip_prefix("with ELR ") {
            returns_to = Some(hexadecimal(rest)?);
        } else if let Some(rest) = line.strip_prefix("to ") {
            target = Some(hexadecimal(rest.split_once(" PC ")?.1.split_whitespace().next()?)?);
        } else if line.starts_with("handl") {
            let by =
                if line.contains("PSCI") { "the firmware of the emulator (PSCI)" } else { "the host (semihosting)" };
            let class = syndrome.map(|syndrome| (syndrome >> 26) as u8);
            return Some(Entry::Served { from: levels?.0, by, class });
        }
    }
    let (from, to) = levels?;
    // An interrupt does not write the register.
    let is_written = matches!(kind, ExceptionKind::Synchronous | ExceptionKind::SError);
    Some(Entry::Taken(Taken {
        kind,
        is_virtual,
        from,
        to,
        syndrome: syndrome.filter(|_| is_written),
        fault,
        returns_to: returns_to?,
        target: target?,
    }))
}

/// `Exception return from AArch64 EL1 to AArch64 EL0 PC 0x401`
fn returned(line: &str) -> Option<Entry> {
    let rest = line.strip_prefix("Exception return from AArch64 ")?;
    if let Some((from, _)) = rest.split_once(" to AArch32 ") {
        return Some(Entry::ReturnToAarch32 { from: level(from)? });
    }
    let (from, rest) = rest.split_once(" to AArch64 ")?;
    let (to, target) = rest.split_once(" PC ")?;
    Some(Entry::Return { from: level(from)?, to: level(to)?, target: hexadecimal(target)? })
}

fn level(text: &str) -> Option<u8> {
    text.strip_prefix("EL")?.parse().ok().filter(|level| *level <= 3)
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read() {
        let call = Taken {
            kind: ExceptionKind::Synchronous,
            is_virtual: false,
            from: 0,
            to: 1,
            syndrome: Some(0x5600_0001),
            fault: None,
            returns_to: 0x118,
            target: 0xc00,
        };
        let rows = [
            (
                "Taking exception 2 [SVC] on CPU 0\n...from EL0 to EL1\n...with ESR 0x15/0x56000001\n\
                 ...with ELR 0x118\n...to EL1 PC 0xc00 PSTATE 0x3c5\n",
                Some(Entry::Taken(call)),
            ),
            (
                "Taking exception 4 [Data Abort] on CPU 0\n...from EL0 to EL1\n...with ESR 0x24/0x92000050\n\
                 ...with FAR 0x5000\n...with ELR 0x118\n...to EL1 PC 0xc00 PSTATE 0x3c5\n",
                Some(Entry::Taken(Taken { syndrome: Some(0x9200_0050), fault: Some(0x5000), ..call })),
            ),
            (
                "Taking exception 5 [IRQ] on CPU 1\n...from EL0 to EL1\n...with ESR 0x15/0x56000005\n\
                 ...with ELR 0x118\n...to EL1 PC 0xc00 PSTATE 0x3c5\n",
                Some(Entry::Taken(Taken { kind: ExceptionKind::Irq, syndrome: None, ..call })),
            ),
            (
                "Taking exception 16 [Semihosting call] on CPU 0\n...from EL1 to EL1\n\
                 ...handling as semihosting call 0x18\n",
                Some(Entry::Served { from: 1, by: "the host (semihosting)", class: None }),
            ),
            (
                "Taking exception 11 [Hypervisor Call] on CPU 0\n...from EL1 to EL2\n...with ESR 0x16/0x5a000000\n\
                 ...handled as PSCI call\n",
                Some(Entry::Served { from: 1, by: "the firmware of the emulator (PSCI)", class: Some(0x16) }),
            ),
            (
                "Exception return from AArch64 EL3 to AArch64 EL2 PC 0x40100058\n",
                Some(Entry::Return { from: 3, to: 2, target: 0x4010_0058 }),
            ),
            ("Exception return from AArch64 EL1 to AArch32 EL0 PC 0x10\n", Some(Entry::ReturnToAarch32 { from: 1 })),
            ("Taking exception 2 [SVC] on CPU 0\n", Some(Entry::Other("Taking exception 2 [SVC] on CPU 0".into()))),
            ("recorded by unspool\n", None),
        ];
        for (text, expected) in rows {
            assert_eq!(Entry::read(text), expected, "{text}");
        }
    }
}
