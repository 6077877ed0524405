//! Disassembled opcodes in a cache: programs run in loops, and disassembly is slow.
//!
//! (address, opcode) ─▶ **text**, in two styles

use unspool_isa::{Disassembler, Isa, Operation, RelativeTarget, RelativeText, TextCache, access};

use super::figure::styled;
use unspool_model::digits::push_short_hex;

#[derive(Debug)]
pub(super) struct Opcodes {
    disassembler: Disassembler,
    cache: TextCache<u32, Box<OpcodeText>>,
}

/// Text of an opcode.
#[derive(Debug)]
pub(super) struct OpcodeText {
    /// As the disassembler has it.
    pub(super) plain: String,
    /// In the style of the figure.
    pub(super) figure: String,
    /// Direction of accesses that is not shown.
    pub(super) direction: Direction,
    /// The last operand is an address.
    target: Option<RelativeTarget>,
}

/// Direction of the accesses of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// All have this direction.
    Each {
        /// They read.
        read: bool,
        /// They write.
        write: bool,
    },
    /// One reads and one writes.
    Either,
}

impl Direction {
    fn of(opcode: u32) -> Self {
        use Operation::{Copy, TagLoad, TagStore, TagZero};
        let operation = access(Isa::A64, opcode).operation;
        match operation {
            Copy { .. } => Self::Either,
            operation => Self::Each {
                read: operation.reads() || operation == TagLoad,
                write: operation.writes() || matches!(operation, TagStore | TagZero),
            },
        }
    }

    /// Whether the opcode implies this direction.
    #[inline]
    pub(super) fn is(self, read: bool, write: bool) -> bool {
        match self {
            Self::Each { read: reads, write: writes } => (reads, writes) == (read, write),
            Self::Either => read != write,
        }
    }
}

impl OpcodeText {
    /// Adds the operand that depends on the address, if there is one.
    #[inline]
    pub(super) fn push_target(&self, pc: u64, out: &mut String) {
        if let Some(target) = self.target {
            push_short_hex(out, target.at(pc));
        }
    }
}

impl Opcodes {
    pub(super) fn new() -> Self {
        Self { disassembler: Disassembler::new(), cache: TextCache::new() }
    }

    /// The text of the opcode.
    #[inline]
    pub(super) fn text(&mut self, pc: u64, opcode: u32) -> &OpcodeText {
        let Self { disassembler, cache } = self;
        cache.get_or_insert_with(opcode, || Box::new(find(disassembler, pc, opcode)))
    }
}

fn find(disassembler: &mut Disassembler, pc: u64, opcode: u32) -> OpcodeText {
    let found = disassembler.relative_text(Isa::A64, pc, opcode);
    let RelativeText { text: plain, target } =
        found.unwrap_or_else(|| RelativeText { text: disassembler.text(Isa::A64, pc, opcode), target: None });
    let offset = target.map_or(String::new(), |target| from_pc(target.offset));
    OpcodeText { figure: styled(&plain) + &offset, plain, direction: Direction::of(opcode), target }
}

/// `{pc}-0x44; `, which precedes the address.
fn from_pc(offset: u64) -> String {
    let offset = offset as i64;
    let sign = if offset < 0 { '-' } else { '+' };
    format!("{{pc}}{sign}{:#x}; ", offset.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reads(opcodes: &mut Opcodes, pc: u64, opcode: u32) -> (String, String) {
        let text = opcodes.text(pc, opcode);
        let [mut plain, mut figure] = [text.plain.clone(), text.figure.clone()];
        text.push_target(pc, &mut plain);
        text.push_target(pc, &mut figure);
        (plain, figure)
    }

    #[test]
    fn operands_that_depend_on_the_address() {
        let rows: &[(u32, &str, &str)] = &[
            (0x54ff_fde1, "b.ne 0x836e0e8", "B.NE     {pc}-0x44; 0x836e0e8"),
            (0x1400_0000, "b 0x836e12c", "B        {pc}+0x0; 0x836e12c"),
            (0xb400_0040, "cbz x0, 0x836e134", "CBZ      x0,{pc}+0x8; 0x836e134"),
            (0x3700_0040, "tbnz w0, #0x0, 0x836e134", "TBNZ     w0,#0x0,{pc}+0x8; 0x836e134"),
            (0x1000_0081, "adr x1, 0x836e13c", "ADR      x1,{pc}+0x10; 0x836e13c"),
            (0xb000_0001, "adrp x1, 0x836f000", "ADRP     x1,{pc}+0x1000; 0x836f000"),
            (0x5800_0040, "ldr x0, 0x836e134", "LDR      x0,{pc}+0x8; 0x836e134"),
            (0xd800_0040, "prfm pldl1keep, 0x836e134", "PRFM     PLDL1KEEP,{pc}+0x8; 0x836e134"),
        ];
        let mut opcodes = Opcodes::new();
        for (opcode, plain, figure) in rows {
            assert_eq!(reads(&mut opcodes, 0x836_e12c, *opcode), (plain.to_string(), figure.to_string()));
        }
        // The same opcode at another address.
        let (plain, figure) = reads(&mut opcodes, 0xffff_8000_0000_0044, 0x54ff_fde1);
        assert_eq!(plain, "b.ne 0xffff800000000000");
        assert_eq!(figure, "B.NE     {pc}-0x44; 0xffff800000000000");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// Text that was made at one address is right at any other, for any opcode.
        #[test]
        fn cached_text_is_right_at_any_address(opcode: u32, branch: bool, first: u64, second: u64) {
            let opcode = if branch { opcode & 0x83ff_ffff | 0x1400_0000 } else { opcode };
            let mut opcodes = Opcodes::new();
            let mut disassembler = Disassembler::new();
            for pc in [first & !3, second & !3] {
                let (plain, figure) = reads(&mut opcodes, pc, opcode);
                prop_assert_eq!(plain, disassembler.text(Isa::A64, pc, opcode));
                prop_assert!(figure.is_ascii() && !figure.ends_with(' '));
            }
        }
    }
}
