//! Addresses that no source reports, since nothing is accessed there: an opcode and registers ─▶ **accesses**.

//! In ASTF, prefetches, cache and TLB maintenance, address translations, and empty fills and copies have addresses. Not
//! handled: invalidations by something other than a virtual address, which need none; those with a pair of registers;
//! and DC ZVA and its variants, whose writes the source reports.
//! Specification: Arm DDI 0487, "A64 System instructions for TLB maintenance" and "Memory Copy and Memory Set
//! instructions".

use unspool_isa::{Operation, Stage};

use super::super::access::{Access, Extent};
use super::opcode_info::is_range_prefetch;
use super::registers::{Missing, Registers};

/// An instruction and its operands.
#[derive(Debug)]
pub(super) struct Operands<'a> {
    pub(super) opcode: u32,
    pub(super) pc: u64,
    pub(super) registers: &'a Registers,
    /// The Exception level, and the one whose stack pointer is in use.
    pub(super) level: Option<u8>,
    pub(super) stack: Option<u8>,
}

impl Operands<'_> {
    /// The accesses of an instruction that touches no memory, or what is missing to derive them.
    pub(super) fn accesses(&self, operation: Operation, found: &mut Vec<Access>) -> Result<(), Missing> {
        match operation {
            Operation::Prefetch if !is_range_prefetch(self.opcode) => found.push(at(self.prefetched()?)),
            Operation::CacheMaintenance | Operation::AddressTranslation => found.push(at(self.x(RD)?)),
            Operation::TlbInvalidate if self.is_virtual() => found.push(at(self.page()?)),
            Operation::TlbInvalidateRange if self.is_virtual() => found.push(self.pages()?),
            Operation::Set { stage, .. } => {
                found.push(empty_range(self.x(RD)?.wrapping_add(self.offset_of_rest(stage)?), true));
            }
            Operation::Copy { stage } => {
                let offset_of_rest = self.offset_of_rest(stage)?;
                found.push(empty_range(self.x(RM)?.wrapping_add(offset_of_rest), false));
                found.push(empty_range(self.x(RD)?.wrapping_add(offset_of_rest), true));
            }
            _ => {}
        }
        Ok(())
    }

    fn field(&self, low: u32, width: u32) -> u32 {
        self.opcode >> low & ((1 << width) - 1)
    }

    /// A field with a sign.
    fn signed(&self, low: u32, width: u32) -> i64 {
        i64::from((self.opcode << (u32::BITS - low - width)).cast_signed() >> (u32::BITS - width))
    }

    /// The register whose number is in this field, or zero.
    fn x(&self, low: u32) -> Result<u64, Missing> {
        self.registers.x(self.field(low, 5))
    }

    /// The address that PRFM and PRFUM prefetch.
    fn prefetched(&self) -> Result<u64, Missing> {
        if self.opcode >> 24 == LITERAL {
            return Ok(self.pc.wrapping_add_signed(self.signed(5, 19) * 4));
        }
        let base = self.registers.base(self.field(RN, 5), self.stack)?;
        Ok(match (self.opcode >> 24, self.field(21, 1)) {
            (SCALED, _) => base.wrapping_add(u64::from(self.field(10, 12)) * 8),
            (_, 0) => base.wrapping_add_signed(self.signed(12, 9)),
            _ => base.wrapping_add(self.index()?),
        })
    }

    /// Index of a prefetch by two registers: UXTW, LSL, SXTW or SXTX.
    fn index(&self) -> Result<u64, Missing> {
        let (number, is_signed, is_whole) = (self.field(RM, 5), self.field(15, 1) != 0, self.field(13, 1) != 0);
        let index = match is_signed {
            _ if is_whole => self.registers.x(number)?,
            true => sign_extended(self.registers.w(number)?.into(), 32),
            false => self.registers.w(number)?.into(),
        };
        Ok(index << (self.field(12, 1) * 3))
    }

    /// Whether a TLBI is by virtual address, with one register.
    fn is_virtual(&self) -> bool {
        const BY_PAIR: u32 = 1 << 22;
        !matches!(self.field(8, 4), 0 | 4) && self.opcode & BY_PAIR == 0
    }

    /// The page whose translation TLBI invalidates: VA[55:12] are the lowest bits of the register.
    fn page(&self) -> Result<u64, Missing> {
        Ok(self.upper((self.x(RD)? & ((1 << 44) - 1)) << 12, 56))
    }

    /// The pages of a range: BaseADDR, TG, SCALE and NUM.
    fn pages(&self) -> Result<Access, Missing> {
        let operand = self.x(RD)?;
        let field = |low: u32, width: u32| operand >> low & ((1 << width) - 1);
        let granule = match field(46, 2) {
            0b01 => 12,
            0b10 => 14,
            0b11 => 16,
            _ => return Err(Missing("a granule")),
        };
        let unit = if granule == 16 || self.has_wide_addresses()? { 16 } else { granule };
        let pages = (field(39, 5) + 1) << (5 * field(44, 2) + 1);
        let address = self.upper(field(0, 37) << unit, 37 + unit);
        Ok(Access { extent: Extent::Range(pages << granule), ..at(address) })
    }

    /// TCR_ELx.DS: the base of a range is then in units of 64 KB for any granule.
    fn has_wide_addresses(&self) -> Result<bool, Missing> {
        match (self.field(OP1, 3), self.level) {
            (0, Some(1)) => Ok(self.registers.tcr_el1()? >> 59 & 1 != 0),
            _ => Err(Missing("TCR_ELx.DS")),
        }
    }

    /// An address of this many bits. There is an upper range, but not at EL3.
    fn upper(&self, address: u64, bits: u32) -> u64 {
        if self.field(OP1, 3) == 6 { address } else { sign_extended(address, bits) }
    }

    /// Offset from the registers of a fill or a copy to its address.
    ///
    /// After the prologue, a negative length counts up, and the registers point after the remaining bytes. Otherwise
    /// they point to the remaining bytes or, for a copy downwards, after them. The epilogue leaves nothing.
    fn offset_of_rest(&self, stage: Stage) -> Result<u64, Missing> {
        const IS_CPY: u32 = 1 << 26;
        let is_copy_down = || self.field(22, 2) != 0b11 && self.opcode & IS_CPY != 0;
        match stage {
            Stage::Prologue => Ok(0),
            Stage::Main | Stage::Epilogue => match self.x(RN)? {
                0 => Ok(0),
                _ if stage == Stage::Epilogue => Err(Missing("accesses to the rest")),
                length if length.cast_signed() < 0 => Ok(length),
                _ if is_copy_down() => Err(Missing("the direction of the copy")),
                _ => Ok(0),
            },
        }
    }
}

/// Offsets of register numbers in opcodes; Rt of system instructions is where Rd is.
const RD: u32 = 0;
const RN: u32 = 5;
const RM: u32 = 16;
/// Offset of op1 in system instructions.
const OP1: u32 = 16;

/// PRFM of a label, and of a base with a 12-bit offset.
const LITERAL: u32 = 0xd8;
const SCALED: u32 = 0xf9;

/// An access without direction and size.
fn at(address: u64) -> Access {
    Access { address, extent: Extent::Bytes(1), read: false, write: false, tagged: false }
}

/// A range of no bytes.
fn empty_range(address: u64, write: bool) -> Access {
    Access { address, extent: Extent::Range(0), read: !write, write, tagged: false }
}

/// Extends the highest of these bits as a sign.
fn sign_extended(value: u64, bits: u32) -> u64 {
    ((value << (u64::BITS - bits)).cast_signed() >> (u64::BITS - bits)).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use unspool_isa::{Isa, access};
    use unspool_model::Step;

    use super::super::opcode_info::has_address;
    use super::super::registers::Reported;
    use super::*;

    fn registers(writes: &[(&str, u64)]) -> Registers {
        let mut step = Step::default();
        writes.iter().for_each(|(name, value)| step.write_register(name, 0, &value.to_le_bytes()));
        let mut registers = Registers::new(Reported::All);
        step.registers().for_each(|write| registers.learn(&write));
        registers
    }

    /// `40`: an address; `40+8`: a range; `r`, `w`: a read, a write. Otherwise what is missing.
    fn found(opcode: u32, writes: &[(&str, u64)], level: u8) -> String {
        let (registers, level) = (registers(writes), Some(level));
        let operands = Operands { opcode, pc: 0x4000, registers: &registers, level, stack: level };
        let (operation, mut found) = (access(Isa::A64, opcode).operation, Vec::new());
        assert!(has_address(operation), "{opcode:#x}");
        if let Err(missing) = operands.accesses(operation, &mut found) {
            return format!("without {}", missing.0);
        }
        let direction = |access: &Access| match (access.read, access.write) {
            (false, false) => "",
            (true, false) => "r",
            (false, true) => "w",
            (true, true) => "?",
        };
        let text = |access: &Access| match access.extent {
            Extent::Range(bytes) => format!("{}{:x}+{bytes:x}", direction(access), access.address),
            _ => format!("{}{:x}", direction(access), access.address),
        };
        found.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    type Row<'a> = (&'static str, u32, &'a [(&'static str, u64)], u8, &'static str);

    #[test]
    fn prefetch_addresses() {
        let minus_16 = 16_u64.wrapping_neg();
        let rows: &[Row<'_>] = &[
            ("[x1]", 0xf980_0020, &[("x1", 0x1000)], 0, "1000"),
            ("[x1, #64]", 0xf980_2020, &[("x1", 0x1000)], 0, "1040"),
            ("[sp, #32760] at EL0", 0xf9bf_ffe0, &[("sp_el0", 0x8000), ("sp_el1", 0)], 0, "fff8"),
            ("[sp, #32760] at EL1", 0xf9bf_ffe0, &[("sp_el0", 0), ("sp_el1", 0x9000)], 1, "10ff8"),
            ("[x2, #-8]", 0xf89f_8040, &[("x2", 0x1000)], 0, "ff8"),
            ("[x2, #255]", 0xf88f_f040, &[("x2", 0x1000)], 0, "10ff"),
            ("[x1, x2]", 0xf8a2_6820, &[("x1", 0x1000), ("x2", 0x10)], 0, "1010"),
            ("[x1, x2, lsl #3]", 0xf8a2_7820, &[("x1", 0x1000), ("x2", 0x10)], 0, "1080"),
            ("[x1, w2, uxtw]", 0xf8a2_4820, &[("x1", 0x1000), ("x2", 0xffff_ffff_0000_0020)], 0, "1020"),
            ("[x1, w2, uxtw #3]", 0xf8a2_5820, &[("x1", 0x1000), ("x2", 0xffff_ffff_8000_0020)], 0, "400001100"),
            ("[x1, w2, sxtw]", 0xf8a2_c820, &[("x1", 0x1000), ("x2", 0xffff_fff0)], 0, "ff0"),
            ("[x1, w2, sxtw #3]", 0xf8a2_d820, &[("x1", 0x1000), ("x2", 0xffff_fff0)], 0, "f80"),
            ("[x1, x2, sxtx]", 0xf8a2_e820, &[("x1", 0x1000), ("x2", minus_16)], 0, "ff0"),
            ("[x1, xzr]", 0xf8bf_6820, &[("x1", 0x1000)], 0, "1000"),
            ("wrapping around", 0xf980_2020, &[("x1", minus_16)], 0, "30"),
            (".+8", 0xd800_0040, &[], 0, "4008"),
            (".-4", 0xd8ff_ffe0, &[], 0, "3ffc"),
            ("unknown base", 0xf8a2_6820, &[("x2", 0x10)], 0, "without x1"),
            ("unknown index", 0xf8a2_4820, &[("x1", 0x1000)], 0, "without x2"),
            ("unknown stack pointer", 0xf980_03e0, &[("sp_el0", 0)], 1, "without sp_el1"),
            ("a range, which needs no address", 0xf8a2_4838, &[], 0, ""),
        ];
        check(rows);
    }

    #[test]
    fn maintenance_addresses() {
        let upper = 0x0007_4ff8_0001_2345;
        let rows: &[Row<'_>] = &[
            ("dc cvac, x0", 0xd50b_7a20, &[("x0", 0x1238)], 0, "1238"),
            ("dc civac, x5", 0xd50b_7e25, &[("x5", 0x1238)], 1, "1238"),
            ("dc ivac, x3", 0xd508_7623, &[("x3", 0x1238)], 1, "1238"),
            ("dc cvau, x1", 0xd50b_7b21, &[("x1", 0x1238)], 0, "1238"),
            ("dc cvap, x1", 0xd50b_7c21, &[("x1", 0x1238)], 0, "1238"),
            ("dc cvac, xzr", 0xd50b_7a3f, &[], 0, "0"),
            ("dc cvac, unknown x30", 0xd50b_7a3e, &[], 0, "without x30"),
            ("ic ivau, x4", 0xd50b_7524, &[("x4", 0x1238)], 0, "1238"),
            ("at s1e1r, x2", 0xd508_7802, &[("x2", 0xffff_8000_0000_1234)], 1, "ffff800000001234"),
            ("at s12e1w, x2", 0xd50c_78a2, &[("x2", 0x1234)], 2, "1234"),
            ("tlbi vae1is, x0", 0xd508_8320, &[("x0", 0x0005_0000_0001_2345)], 1, "12345000"),
            ("tlbi vae1is, an upper address", 0xd508_8320, &[("x0", upper)], 1, "ffff800012345000"),
            ("tlbi vaale1, the same", 0xd508_87e0, &[("x0", upper)], 1, "ffff800012345000"),
            ("tlbi vae1isnxs, the same", 0xd508_9320, &[("x0", upper)], 1, "ffff800012345000"),
            ("tlbi vale3, which has no upper ones", 0xd50e_87a0, &[("x0", upper)], 3, "ff800012345000"),
            ("tlbi vae1is, unknown x0", 0xd508_8320, &[], 1, "without x0"),
            ("tlbi ipas2e1, no virtual address", 0xd50c_8420, &[("x0", 5)], 2, ""),
        ];
        check(rows);
    }

    #[test]
    fn tlb_range_addresses() {
        const SMALL: u64 = 1 << 46;
        const MIDDLE: u64 = 2 << 46;
        const LARGE: u64 = 3 << 46;
        let wide = ("tcr_el1", 1 << 59);
        let narrow = ("tcr_el1", 0);
        let many = LARGE | 1 << 44 | 2 << 39 | 0x123;
        let rvae1is = 0xd508_8220;
        let rows: &[Row<'_>] = &[
            ("64KB, 3 times 64 pages", rvae1is, &[("x0", many)], 1, "1230000+c00000"),
            ("4KB", rvae1is, &[("x0", SMALL | 0x12345), narrow], 1, "12345000+2000"),
            ("4KB, ASID ignored", rvae1is, &[("x0", 9 << 48 | SMALL | 1), narrow], 1, "1000+2000"),
            ("4KB, an upper address", rvae1is, &[("x0", SMALL | 0x1f_ffff_0000), narrow], 1, "fffffffff0000000+2000"),
            ("16KB", rvae1is, &[("x0", MIDDLE | 3 << 44 | 31 << 39 | 1), narrow], 1, "4000+800000000"),
            ("4KB of 52 bits", rvae1is, &[("x0", SMALL | 0x12345), wide], 1, "123450000+2000"),
            ("unknown address size", rvae1is, &[("x0", SMALL | 1)], 1, "without tcr_el1"),
            ("unknown at EL2", rvae1is, &[("x0", SMALL | 1), narrow], 2, "without TCR_ELx.DS"),
            ("reserved", rvae1is, &[("x0", 1), narrow], 1, "without a granule"),
            ("tlbi ripas2e1, no virtual address", 0xd50c_8440, &[("x0", many)], 2, ""),
        ];
        check(rows);
    }

    #[test]
    fn empty_fills_and_copies() {
        let minus_16 = 16_u64.wrapping_neg();
        let (to, from) = (("x0", 0x2000), ("x1", 0x3000));
        let rows: &[Row<'_>] = &[
            ("setp", 0x19c2_0420, &[to], 0, "w2000+0"),
            ("setm, nothing left", 0x19c2_4420, &[to, ("x1", 0)], 0, "w2000+0"),
            ("setm, 16 left, counted up", 0x19c2_4420, &[to, ("x1", minus_16)], 0, "w1ff0+0"),
            ("setm, 16 left, counted down", 0x19c2_4420, &[to, ("x1", 16)], 0, "w2000+0"),
            ("sete, nothing left", 0x19c2_8420, &[to, ("x1", 0)], 0, "w2000+0"),
            ("sete, 16 left", 0x19c2_8420, &[to, ("x1", 16)], 0, "without accesses to the rest"),
            ("setm, unknown length", 0x19c2_4420, &[to], 0, "without x1"),
            ("cpyfp", 0x1901_0440, &[to, from], 0, "r3000+0 w2000+0"),
            ("cpyp", 0x1d01_0440, &[to, from], 0, "r3000+0 w2000+0"),
            ("cpyfm, counted up", 0x1941_0440, &[to, from, ("x2", minus_16)], 0, "r2ff0+0 w1ff0+0"),
            ("cpyfm, counted down", 0x1941_0440, &[to, from, ("x2", 16)], 0, "r3000+0 w2000+0"),
            ("cpye, nothing left", 0x1d81_0440, &[to, from, ("x2", 0)], 0, "r3000+0 w2000+0"),
            ("cpym, counted up", 0x1d41_0440, &[to, from, ("x2", minus_16)], 0, "r2ff0+0 w1ff0+0"),
            ("cpym, up or down", 0x1d41_0440, &[to, from, ("x2", 16)], 0, "without the direction of the copy"),
            ("cpyp, unknown source", 0x1d01_0440, &[to], 0, "without x1"),
        ];
        check(rows);
    }

    fn check(rows: &[Row<'_>]) {
        for (name, opcode, writes, level, expected) in rows {
            assert_eq!(found(*opcode, writes, *level), *expected, "{name}");
        }
    }
}
