//! The group of an instruction: checked, and encoded in order.

use unspool_isa::{ControlFlow, Decoded, Isa, Operation, access, decode};

use super::super::record::{self, MemAccess, PageTableWalk, Record, Register};
use super::{BuildError, Builder, Cause, Event, Features, Iem, Mode, RecordSink, Step, StfVersion, even};

impl<S: RecordSink> Builder<S> {
    /// Checks a group. Returns the features that it uses, and the length of the instruction.
    pub(super) fn check(&self, step: &Step<'_>) -> Result<(Features, u8), BuildError> {
        even("an instruction", step.pc)?;
        let isa = if self.iem == Iem::Rv64 { Isa::Rv64 } else { Isa::Rv32 };
        let decoded = decode(isa, step.pc, step.opcode);
        let effect = |what| Err(BuildError::Effect { opcode: step.opcode, pc: step.pc, what });
        if decoded.length == 2 && step.opcode > 0xffff {
            return effect("has two bytes by its lowest bits, and more were given");
        }
        if let Some(what) = wrong_flow(step, &decoded) {
            return effect(what);
        }
        if let Some(target) = step.target {
            even("a target", target)?;
        }
        if let Some(what) = wrong_accesses(isa, step, self.accesses) {
            return effect(what);
        }
        step.accesses.iter().try_for_each(|access| check_contents(access.bytes, access.contents))?;
        for (access, contents) in step.bus {
            check_contents(access.size, contents)?;
            if !matches!(access.kind, 1 | 2) {
                return Err(BuildError::Access("of another master either reads (1) or writes (2)"));
            }
        }
        step.walks.iter().try_for_each(check_walk)?;
        step.registers.iter().try_for_each(|register| self.check_register(register))?;
        step.events.iter().try_for_each(|event| self.check_event(event))?;
        if let Some((size, _)) = step.microops.iter().find(|(size, _)| !matches!(size, 2 | 4)) {
            return Err(BuildError::MicroOp(*size));
        }
        Ok((self.features_of(step)?, decoded.length))
    }

    fn check_register(&self, register: &Register<'_>) -> Result<(), BuildError> {
        let Some(max) = register.max_number() else {
            return Err(BuildError::Register("is integer (1), floating-point (2), vector (3) or CSR (4)"));
        };
        let is_vector = register.kind() == Register::VECTOR;
        let bytes = if is_vector { self.layout.vector_bytes() } else { Some(8) };
        match bytes {
            _ if register.number > max => Err(BuildError::Register("has a number that does not exist")),
            _ if !register.has_known_operand() => {
                Err(BuildError::Register("is state (1), source (2) or destination (3)"))
            }
            _ if is_vector && self.version == StfVersion::V1_3 => {
                Err(BuildError::Version { minor: 3, what: "length of vector registers" })
            }
            None => Err(BuildError::Register("of a vector needs a length in the header")),
            Some(bytes) if register.value.len() != bytes => Err(BuildError::Register("has a value of another length")),
            Some(_) => Ok(()),
        }
    }

    fn check_event(&self, event: &Event<'_>) -> Result<(), BuildError> {
        if let Some(target) = event.target {
            even("the target of an event", target)?;
        }
        match event.cause {
            Cause::Mode(_) if !event.data.is_empty() || event.target.is_some() => {
                Err(BuildError::Event("that changes the mode has no data of its own and no target"))
            }
            Cause::Fault(code) | Cause::Interrupt(code) if code >= 1 << 30 => {
                Err(BuildError::Event("has a number below 2^30"))
            }
            _ if event.data.len() > 255 => Err(BuildError::Event("has at most 255 words of data")),
            _ => Ok(()),
        }
    }

    /// The features that a group uses.
    fn features_of(&self, step: &Step<'_>) -> Result<Features, BuildError> {
        let operands = step.registers.iter().any(|register| register.operand() != Register::STATE);
        let states = step.registers.iter().any(|register| register.operand() == Register::STATE);
        let vectors = step.registers.iter().any(|register| register.kind() == Register::VECTOR);
        let events = step.events.iter().any(|event| !matches!(event.cause, Cause::Mode(_)));
        let rows = [
            (operands, Features::OPERAND_VALUE, "a register that is read or written"),
            (states, Features::REG_STATE, "the state of a register"),
            (vectors, Features::VEC, "a vector register"),
            (events, Features::EVENT, "an exception or interrupt"),
            (!step.walks.is_empty(), Features::PTE, "a page table walk"),
            (!step.microops.is_empty(), Features::MICROOP, "a micro-operation"),
        ];
        let mut used = Features::NONE;
        for (_, feature, what) in rows.into_iter().filter(|row| row.0) {
            self.declared(feature, what)?;
            used = used | feature;
        }
        // Page table walks have the only physical addresses in the format.
        Ok(if step.walks.is_empty() { used } else { used | Features::PHYSICAL_ADDRESS })
    }

    /// Encodes a group that was checked.
    pub(super) fn lay_out(&mut self, step: &Step<'_>) {
        let is_wide = self.layout.has_wide_events();
        let bytes = &mut self.group;
        let mut put = |record: Record<'_>| record.encode(bytes);
        if step.pc != self.next {
            put(Record::ForcePc(step.pc));
        }
        step.target.into_iter().for_each(|target| put(Record::InstPcTarget(target)));
        step.registers.iter().for_each(|register| put(Record::InstReg(*register)));
        step.ready.iter().for_each(|number| put(Record::InstReadyReg(*number)));
        step.walks.iter().for_each(|walk| put(Record::PageTableWalk(*walk)));
        for access in step.accesses {
            put(Record::InstMemAccess(MemAccess {
                address: access.address,
                size: access.bytes,
                attributes: access.attributes,
                kind: if access.is_write { 2 } else { 1 },
            }));
            access.contents.iter().for_each(|word| put(Record::InstMemContent(*word)));
        }
        for (access, contents) in step.bus {
            put(Record::BusMasterAccess(*access));
            contents.iter().for_each(|word| put(Record::BusMasterContent(*word)));
        }
        for event in self.mode.map(Event::mode).iter().chain(step.events) {
            let data: Vec<u8> = match event.cause {
                Cause::Mode(mode) => (mode as u64).to_le_bytes().to_vec(),
                _ => event.data.iter().flat_map(|word| word.to_le_bytes()).collect(),
            };
            put(Record::Event(record::Event { raw: number(event.cause, is_wide), is_wide, data: &data }));
            event.target.into_iter().for_each(|target| put(Record::EventPcTarget(target)));
        }
        step.microops.iter().for_each(|&(size, encoding)| put(Record::InstMicroop { size, encoding }));
        put(if step.opcode & 3 == 3 {
            Record::InstOpcode32(step.opcode)
        } else {
            Record::InstOpcode16(step.opcode as u16)
        });
    }
}

/// The number of an event in a file.
pub(super) fn number(cause: Cause, is_wide: bool) -> u64 {
    let (interrupt, special) = if is_wide { (1 << 63, 1 << 62) } else { (1 << 31, 1 << 30) };
    match cause {
        Cause::Fault(code) => code.into(),
        Cause::Interrupt(code) => interrupt | u64::from(code),
        Cause::Mode(Mode::User | Mode::Supervisor | Mode::Hypervisor | Mode::Machine) => special,
    }
}

/// Contradiction between the target and the opcode.
fn wrong_flow(step: &Step<'_>, decoded: &Decoded) -> Option<&'static str> {
    use ControlFlow::{Direct, FallThrough};
    let is_redirected = step.events.iter().any(|event| !matches!(event.cause, Cause::Mode(_)));
    match (decoded.flow, step.target) {
        (Direct, target @ Some(_)) if decoded.target_address() != target => Some("goes elsewhere"),
        (FallThrough, Some(_)) => Some("is no branch, and has no target"),
        (flow, Some(_)) if flow.is_exception() => Some("has no target of its own: an event leads on"),
        (flow, None) if flow.is_branch() && !decoded.conditional && !is_redirected => {
            Some("always branches: a target is needed")
        }
        _ => None,
    }
}

/// Contradiction between the accesses and the opcode.
fn wrong_accesses(isa: Isa, step: &Step<'_>, has_accesses: bool) -> Option<&'static str> {
    let faulted = step.events.iter().any(|event| !matches!(event.cause, Cause::Mode(_)));
    let total = |is_write: bool| -> Option<u32> {
        let mut sizes = step.accesses.iter().filter(|access| access.is_write == is_write).peekable();
        sizes.peek()?;
        Some(sizes.map(|access| u32::from(access.bytes)).sum())
    };
    let (read, written) = (total(false), total(true));
    let access = access(isa, step.opcode);
    let is_open = matches!(access.operation, Operation::Prefetch | Operation::CacheMaintenance | Operation::Unknown);
    if !has_accesses {
        return (!step.accesses.is_empty()).then_some("has accesses, but the header announces none");
    }
    // A replaced or unknown instruction may do anything.
    if is_open || !step.microops.is_empty() {
        return None;
    }
    let may_lack = faulted || access.vector || access.may_not_write;
    let is_wrong = |total: Option<u32>| total.zip(access.bytes).is_some_and(|(total, bytes)| total != u32::from(bytes));
    let (reads, writes) = (access.reads(), access.writes());
    let mistakes = [
        (read.is_some() && !reads, "reads no memory"),
        (written.is_some() && !writes, "writes no memory"),
        (read.is_none() && reads && !may_lack, "reads memory: an access is needed"),
        (written.is_none() && writes && !may_lack, "writes memory: an access is needed"),
        (!faulted && (is_wrong(read) || is_wrong(written)), "accesses another number of bytes"),
    ];
    mistakes.iter().find(|mistake| mistake.0).map(|mistake| mistake.1)
}

fn check_contents(bytes: u16, contents: &[u64]) -> Result<(), BuildError> {
    let needed = usize::from(bytes).div_ceil(8);
    let last_bits = u32::from(bytes % 8) * 8;
    match contents.last() {
        _ if bytes == 0 => Err(BuildError::Access("has at least one byte")),
        _ if contents.len() != needed => Err(BuildError::Access("has a word of content for each eight bytes")),
        Some(last) if last_bits > 0 && last >> last_bits != 0 => {
            Err(BuildError::Access("has content with bits above its size"))
        }
        _ => Ok(()),
    }
}

fn check_walk(walk: &PageTableWalk<'_>) -> Result<(), BuildError> {
    match walk.entries.len() {
        _ if !walk.page_size.is_power_of_two() => Err(BuildError::Walk("is for a page of a power of two bytes")),
        0 => Err(BuildError::Walk("ends with a leaf: it has at least one entry")),
        bytes if bytes % 16 != 0 || bytes > 255 * 16 => Err(BuildError::Walk("has up to 255 entries of 16 bytes")),
        _ => Ok(()),
    }
}
