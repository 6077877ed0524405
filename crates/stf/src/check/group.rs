//! The current group: each record by itself, their order, and the opcode.

use super::super::read::Position;
use super::super::record::{BusAccess, MemAccess, PageTableWalk, Record, Register, descriptor};
use super::Out;
use super::events::Events;
use super::header::{Header, name};
use super::opcode::Opcode;
use super::rules::RuleId;

/// Maximum number of accesses of an instruction: that of elements in the longest vectors.
const MAX_ACCESSES: usize = 1 << 16;

/// An access of a group, with the data that followed it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    pub(super) position: Position,
    pub(super) access: MemAccess,
    /// Number of content records.
    pub(super) contents: u32,
    pub(super) content: u64,
}

/// Properties of the records of a group so far.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// The first record that needs a following instruction.
    pub(super) open: Option<Position>,
    /// Descriptors of the previous record, and of the previous one whose order counts.
    before: u8,
    ordered: u8,
    pub(super) forced: Option<u64>,
    pub(super) target: Option<(Position, u64)>,
    pub(super) events: Events,
    pub(super) has_microop: bool,
    /// An annotation has the outcome of the instruction or its accesses.
    pub(super) is_annotated: bool,
    /// Annotations from here on are about steps after the instruction.
    pub(super) is_after: bool,
    /// An annotation has an exception between the previous instruction and this one.
    pub(super) follows_exception: bool,
    pub(super) accesses: Vec<Access>,
    /// There were more accesses than the maximum.
    has_too_many: bool,
    /// An access of another bus master: position, expected and actual number of content records.
    bus: Option<(Position, u32, u32)>,
    leafless: Option<Position>,
}

impl Group {
    /// Has the group no records but the opcode?
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.open.is_none() && !self.is_annotated
    }

    pub(super) fn clear(&mut self) {
        let mut accesses = std::mem::take(&mut self.accesses);
        accesses.clear();
        *self = Self { accesses, ..Self::default() };
    }

    /// Is the outcome of the instruction unchecked? It trapped, was replaced, or is annotated.
    pub(super) fn is_excused(&self) -> bool {
        self.events.has_trap || self.has_microop || self.has_too_many || self.is_annotated
    }

    /// Checks a record other than the opcode.
    #[inline]
    pub(super) fn record(&mut self, record: &Record<'_>, header: &mut Header, out: &mut Out<'_>) {
        self.open.get_or_insert(out.position);
        let descriptor = record.descriptor();
        self.check_order(descriptor, out);
        match record {
            Record::InstMemContent(word) => self.content(*word, out),
            Record::InstMemAccess(access) => self.access(access, out),
            Record::InstReg(register) => check_register(register, header, out),
            Record::InstPcTarget(target) => self.target(*target, header, out),
            other => self.rarer(other, header, out),
        }
        self.before = descriptor;
    }

    fn rarer(&mut self, record: &Record<'_>, header: &mut Header, out: &mut Out<'_>) {
        match record {
            Record::ForcePc(pc) => self.force(*pc, header, out),
            Record::InstIem(iem) => header.encoding(*iem, out),
            Record::PageTableWalk(walk) => self.walk(walk, header, out),
            Record::BusMasterAccess(access) => self.bus_access(access, out),
            Record::BusMasterContent(_) => self.bus_content(out),
            Record::Event(event) => self.events.event(event, header, out),
            Record::EventPcTarget(target) => self.events.target(*target, header, out),
            Record::InstMicroop { size, .. } => {
                self.has_microop = true;
                if !matches!(size, 2 | 4) {
                    out.add(RuleId::MicroOpSize, format_args!("a micro-operation has {size} bytes"));
                }
            }
            _ => {}
        }
    }

    #[inline]
    fn check_order(&mut self, descriptor: u8, out: &mut Out<'_>) {
        if self.bus.is_some() && descriptor != descriptor::BUS_MASTER_CONTENT {
            self.close_bus(out);
        }
        if matches!(descriptor, descriptor::PROCESS_ID_EXT | descriptor::FORCE_PC) {
            return;
        }
        if descriptor < self.ordered && !may_follow(self.ordered, descriptor) {
            let (this, other) = (name(descriptor), name(self.ordered));
            out.add(RuleId::RecordOrder, format_args!("{this} follows {other}"));
        }
        self.ordered = descriptor;
    }

    fn force(&mut self, pc: u64, header: &Header, out: &mut Out<'_>) {
        header.check_address("the forced address", pc, out);
        if let Some(other) = self.forced.filter(|other| *other != pc) {
            out.add(RuleId::ForcePcOnce, format_args!("{pc:#x} is forced after {other:#x}"));
        }
        self.forced = Some(pc);
    }

    fn target(&mut self, target: u64, header: &Header, out: &mut Out<'_>) {
        header.check_address("the target", target, out);
        if let Some((_, other)) = self.target.filter(|(_, other)| *other != target) {
            out.add(RuleId::TargetOnce, format_args!("the target {target:#x} follows {other:#x}"));
        }
        self.target = Some((out.position, target));
    }

    fn access(&mut self, access: &MemAccess, out: &mut Out<'_>) {
        if !matches!(access.kind, 1 | 2) {
            out.add(RuleId::AccessKind, format_args!("the access has the type {}", access.kind));
        }
        if self.accesses.len() == MAX_ACCESSES {
            self.has_too_many = true;
            self.accesses.pop();
        }
        self.accesses.push(Access { position: out.position, access: *access, contents: 0, content: 0 });
    }

    fn content(&mut self, word: u64, out: &mut Out<'_>) {
        let follows_access = matches!(self.before, descriptor::INST_MEM_ACCESS | descriptor::INST_MEM_CONTENT);
        match self.accesses.last_mut() {
            Some(access) if follows_access => {
                access.contents += 1;
                access.content = word;
            }
            _ => out.add(RuleId::ContentAlone, format_args!("no access before the content")),
        }
    }

    fn bus_access(&mut self, access: &BusAccess, out: &mut Out<'_>) {
        if !matches!(access.kind, 1 | 2) {
            out.add(RuleId::BusKind, format_args!("the access has the type {}", access.kind));
        }
        if access.initiator > 6 {
            out.add(RuleId::BusInitiator, format_args!("the initiator is {}", access.initiator));
        }
        self.bus = Some((out.position, u32::from(access.size).div_ceil(8).max(1), 0));
    }

    /// Checks the number of content records at their end.
    fn close_bus(&mut self, out: &mut Out<'_>) {
        match self.bus.take() {
            Some((position, _, 0)) => {
                out.add_in(position, RuleId::BusContent, format_args!("no content follows the access"));
            }
            Some((position, needed, have)) if have != needed => {
                let detail = format_args!("the access has {have} content records, but needs {needed}");
                out.add_in(position, RuleId::BusContentCount, detail);
            }
            _ => {}
        }
    }

    fn bus_content(&mut self, out: &mut Out<'_>) {
        match &mut self.bus {
            Some((_, _, have)) => *have += 1,
            None => out.add(RuleId::BusContent, format_args!("no access before the content")),
        }
    }

    fn walk(&mut self, walk: &PageTableWalk<'_>, header: &Header, out: &mut Out<'_>) {
        if let Some(access) = self.accesses.first() {
            let record = access.position.record;
            out.add(RuleId::WalkBeforeAccess, format_args!("the access in record {record} precedes the walk"));
        }
        if walk.page_size < 4096 || !walk.page_size.is_power_of_two() {
            out.add(RuleId::WalkPageSize, format_args!("the page has {} bytes", walk.page_size));
        }
        // Valid, and readable or executable: bits 0, 1 and 3.
        let is_leaf = walk.pairs().last().is_some_and(|(_, entry)| entry & 1 == 1 && entry & 0b1010 != 0);
        if !is_leaf && header.is_riscv() {
            self.leafless = Some(out.position);
        }
    }

    /// Checks the complete group, apart from control flow and accesses.
    pub(super) fn check(&mut self, opcode: u32, length: u8, known: &Opcode, is_first: bool, out: &mut Out<'_>) {
        self.check_opcode(opcode, length, known, out);
        self.close_bus(out);
        if let Some(position) = self.leafless.filter(|_| !self.events.has_trap) {
            out.add_in(position, RuleId::WalkLeaf, format_args!("its last entry is not a leaf, and there is no event"));
        }
        if is_first && self.events.mode.is_none() {
            out.add(RuleId::ModeStart, format_args!("the first instruction has no event with the mode"));
        }
    }

    fn check_opcode(&self, opcode: u32, length: u8, known: &Opcode, out: &mut Out<'_>) {
        if self.events.has_fetch_fault && known.is_no_nop(opcode) {
            out.add(RuleId::FetchFault, format_args!("the opcode is {opcode:#x}, but it could not be fetched"));
        } else if self.events.has_trap {
            // An instruction that trapped may have any opcode.
        } else if known.is_illegal {
            out.add(RuleId::OpcodeIllegal, format_args!("the opcode is {opcode:#x}, and there is no event"));
        } else if known.is_misfit {
            out.add(RuleId::OpcodeLength, format_args!("the opcode {opcode:#x} is in a record of {length} bytes"));
        } else if known.is_of_rv64 {
            out.add(RuleId::OpcodeMode, format_args!("only RV64 has the opcode {opcode:#x}, but the mode is RV32"));
        }
    }
}

/// May a record follow one with a higher descriptor?
fn may_follow(before: u8, after: u8) -> bool {
    use super::super::record::descriptor as d;
    match after {
        d::INST_MEM_ACCESS => before == d::INST_MEM_CONTENT,
        d::BUS_MASTER_ACCESS => before == d::BUS_MASTER_CONTENT,
        d::EVENT => before == d::EVENT_PC_TARGET,
        d::INST_PC_TARGET => matches!(before, d::PAGE_TABLE_WALK | d::INST_REG),
        d::INST_REG => matches!(before, d::PAGE_TABLE_WALK | d::INST_MEM_CONTENT | d::BUS_MASTER_CONTENT),
        // The specification has a rule of its own for these.
        d::PAGE_TABLE_WALK => matches!(before, d::INST_MEM_ACCESS | d::INST_MEM_CONTENT),
        _ => false,
    }
}

fn check_register(register: &Register<'_>, header: &Header, out: &mut Out<'_>) {
    let Some(max) = register.max_number().filter(|_| register.has_known_operand()) else {
        return out.add(RuleId::RegisterMeta, format_args!("the type of the register is {:#04x}", register.meta));
    };
    if register.number > max && !header.is_other_isa() {
        out.add(RuleId::RegisterNumber, format_args!("its number is {}, but the last is {max}", register.number));
    }
}
