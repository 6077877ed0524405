//! Facts about opcodes that the rules need, in a cache.
//!
//! Unknown words have no class, so that nothing is reported about newer instructions.

use unspool_isa::{Access, ControlFlow, Decoded, Isa, OpcodeCache, Operation, access, decode, is_a64_branch_or_system};

use super::super::record::{Context, Instruction, InstructionView};

/// Facts about an opcode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opcode {
    pub(super) access: Access,
    pub(super) flow: ControlFlow,
    /// A branch that need not be taken.
    pub(super) conditional: bool,
    /// May affect control flow in another way: nothing is claimed of it.
    pub(super) is_open: bool,
    /// Offset from a direct branch to its target.
    offset: i32,
    /// Certainly accesses no memory.
    pub(super) is_memoryless: bool,
    /// The field of PSTATE that it sets.
    pub(super) sets: Option<Sets>,
    /// Flags and size of its ordinary record.
    usual: Usual,
}

/// The first four bytes of an ordinary Instruction, without its type.
#[derive(Debug, Clone, Copy)]
enum Usual {
    /// No record is ordinary.
    None,
    /// Without an address.
    WithoutAddress(u32),
    /// With an address, tagged or not.
    WithAddress(u32),
}

/// A field of PSTATE that an instruction sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sets {
    field: Field,
    pub(super) value: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Sp,
    Sm,
    Dit,
    Ssbs,
}

/// Cache of recent opcodes.
#[derive(Debug, Clone)]
pub(super) struct Opcodes(OpcodeCache<u32, Opcode>);

impl Default for Opcodes {
    /// Large enough for the loops of most programs, and small enough for a first-level data cache.
    fn default() -> Self {
        Self(OpcodeCache::new(10))
    }
}

impl Opcodes {
    #[inline]
    pub(super) fn of(&mut self, word: u32) -> &Opcode {
        self.0.get_or_insert_with(word, || Opcode::new(word))
    }
}

impl Opcode {
    pub(super) fn new(word: u32) -> Self {
        let (access, decoded) = (access(Isa::A64, word), decode(Isa::A64, 0, word));
        let is_open = is_open(word, decoded.flow);
        let never_accesses = decoded.flow == ControlFlow::ExceptionReturn || decoded.flow.is_exception() && !is_open;
        Self {
            access,
            flow: decoded.flow,
            conditional: decoded.conditional,
            is_open,
            offset: decoded.target_address().unwrap_or(0) as i32,
            is_memoryless: is_memoryless(word) || never_accesses,
            sets: sets(word),
            usual: if sets(word).is_some() { Usual::None } else { usual(&access, &decoded, is_open) },
        }
    }

    /// Whether the record is ordinary, so that it breaks no rule.
    #[inline]
    pub(super) fn is_usual(&self, record: InstructionView<'_>) -> bool {
        const TYPE: u32 = 0xff;
        const TAGGED: u32 = 1 << 17;
        let (words, _) = record.bytes().as_chunks::<4>();
        let start = u32::from_le_bytes(words[0]);
        let is_usual = match self.usual {
            Usual::None => false,
            Usual::WithoutAddress(usual) => start & !TYPE == usual && record.ea() == 0,
            Usual::WithAddress(usual) => start & !TYPE & !TAGGED == usual && is_sanitized(record.ea()),
        };
        is_usual && record.xattr() == 0
    }

    /// Whether the record is nothing but a taken branch.
    pub(super) fn is_taken(&self, record: InstructionView<'_>) -> bool {
        let taken = Instruction {
            is_branch: true,
            ea_valid: true,
            iword: record.iword(),
            pc: record.pc(),
            ea: record.ea(),
            ..Instruction::default()
        };
        let leads = self.target(record.pc()).is_none_or(|target| target == record.ea());
        self.is_branch() && leads && record.get() == taken && is_sanitized(record.ea())
    }

    /// Whether its memory accesses are known.
    pub(super) fn is_known(&self) -> bool {
        self.is_memoryless || self.access.operation != Operation::None || self.flow.is_exception()
    }

    /// Whether it is a branch; exception returns are not.
    #[inline]
    pub(super) fn is_branch(&self) -> bool {
        matches!(self.flow, ControlFlow::Direct | ControlFlow::Indirect)
    }

    /// Whether it always raises an exception.
    #[inline]
    pub(super) fn must_trap(&self) -> bool {
        self.flow.is_exception() && !self.is_open
    }

    /// Target of a direct branch at `pc`.
    pub(super) fn target(&self, pc: u64) -> Option<u64> {
        (self.flow == ControlFlow::Direct).then(|| pc.wrapping_add_signed(i64::from(self.offset)))
    }

    /// Whether it is a range prefetch, which has a register for the size; the specification does not mention it.
    pub(super) fn is_range_prefetch(word: u32) -> bool {
        word & 0xffe0_0c18 == 0xf8a0_0818
    }

    /// Whether it is a TLBI by intermediate physical address.
    pub(super) fn is_stage_2_invalidate(word: u32) -> bool {
        word >> 16 & 0b111 == 4 && matches!(word >> 8 & 0b1111, 0 | 4)
    }

    /// Whether it is a load or store with a known number of bytes; those of vectors access memory by elements.
    pub(super) fn is_plain_access(&self) -> bool {
        matches!(self.access.operation, Operation::Load | Operation::Store) && !self.access.vector
    }
}

/// Whether an address has no tag, as far as it shows.
///
/// The number of address bits is not in the trace; 56 is the maximum of the architecture, in one range or in two.
#[inline]
pub(super) fn is_sanitized(address: u64) -> bool {
    address >> 56 == 0 || address >> 55 == 0x1ff
}

/// No record of a vector, tag, range or conditional access is ordinary.
fn usual(access: &Access, decoded: &Decoded, is_open: bool) -> Usual {
    let is_access = matches!(access.operation, Operation::Load | Operation::Store | Operation::LoadStore);
    let is_certain = is_access && !access.predicated && !access.vector && !access.may_not_write;
    let is_without = access.operation == Operation::None && !access.sme_index;
    match (decoded.flow, access.bytes) {
        (ControlFlow::Direct, _) if decoded.conditional => {
            Usual::WithoutAddress(start(&Instruction { is_branch: true, ..Instruction::default() }))
        }
        (flow, _) if flow.is_branch() || flow.is_exception() => Usual::None,
        (_, Some(bytes @ 1..=256)) if is_certain && !is_open => {
            let (is_read, is_write, ea_size) = (access.reads(), access.writes(), (bytes - 1) as u8);
            let record = Instruction { is_read, is_write, ea_size, ea_valid: true, ..Instruction::default() };
            Usual::WithAddress(start(&record))
        }
        _ if is_without => Usual::WithoutAddress(0),
        _ => Usual::None,
    }
}

/// The first bytes of such a record.
fn start(record: &Instruction) -> u32 {
    let bytes = record.to_bytes();
    u32::from_le_bytes([0, bytes[1], bytes[2], bytes[3]])
}

/// Parts of the encoding that work on registers only.
fn is_memoryless(word: u32) -> bool {
    match word >> 25 & 0b1111 {
        // Immediates, general registers, SIMD registers.
        0b1000 | 0b1001 | 0b0101 | 0b1101 | 0b0111 | 0b1111 => true,
        // SVE has its loads and stores in the upper half.
        0b0010 => word >> 31 == 0,
        0b0000 => is_matrix_processing(word),
        0b1010 => is_system_processing(word),
        _ => false,
    }
}

/// SME: outer products, moves, and work on groups of vectors.
fn is_matrix_processing(word: u32) -> bool {
    match word >> 24 {
        0x80 | 0x81 | 0xc0 | 0xc1 => true,
        0xa0 | 0xa1 => word >> 23 & 1 != 0,
        _ => false,
    }
}

/// Hints, barriers, MSR of an immediate, and registers of EL0. With nested virtualization others may be in memory.
fn is_system_processing(word: u32) -> bool {
    let (crm, op2) = (word >> 8 & 0b1111, word >> 5 & 0b111);
    match word & 0xffff_f01f {
        0xd503_201f => crm <= 4,
        0xd503_301f => matches!(op2, 1 | 2 | 4..=7),
        _ => word & 0xfff8_f01f == 0xd500_401f || word & 0xffdf_0000 == 0xd51b_0000,
    }
}

/// Unallocated branches and system instructions may be anything; how a debugger or a transaction continues is unknown.
fn is_open(word: u32, flow: ControlFlow) -> bool {
    match flow {
        ControlFlow::Halt | ControlFlow::DebugChangeState | ControlFlow::TransactionStart => true,
        ControlFlow::FallThrough => is_a64_branch_or_system(word),
        _ => false,
    }
}

/// MSR of an immediate, SMSTART and SMSTOP.
fn sets(word: u32) -> Option<Sets> {
    let immediate = word >> 8 & 0b1111;
    let field = match (word & 0xffff_f0ff, immediate >> 1) {
        (0xd500_40bf, _) => Field::Sp,
        (0xd503_405f, _) => Field::Dit,
        (0xd503_403f, _) => Field::Ssbs,
        (0xd503_407f, 0b001 | 0b011) => Field::Sm,
        _ => return None,
    };
    Some(Sets { field, value: immediate & 1 != 0 })
}

impl Sets {
    /// Whether the Context has this value.
    pub(super) fn holds(self, context: &Context) -> bool {
        let value = match self.field {
            Field::Sp => context.handler,
            Field::Sm => context.pstate_sm,
            Field::Dit => context.pstate_dit,
            Field::Ssbs => context.pstate_ssbs,
        };
        value == self.value
    }

    /// Name of the field.
    pub(super) fn field(self) -> &'static str {
        match self.field {
            Field::Sp => "PSTATE.SP",
            Field::Sm => "PSTATE.SM",
            Field::Dit => "PSTATE.DIT",
            Field::Ssbs => "PSTATE.SSBS",
        }
    }
}
