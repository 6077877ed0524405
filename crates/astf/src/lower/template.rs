//! Executions of templates: the records of each are made once, and only addresses are filled in.
//!
//! template trace ─▶ the **form** of each execution, made on first use ─▶ addresses filled in ─▶ records
//!
//! The records are those that the same steps give. Where that is not certain (an instruction may raise an exception, or
//! needs the rules that steps are checked by) the sink stops, and the execution has to be pushed as steps.

use unspool_isa::ControlFlow;
use unspool_model::{
    BlockExecution, Direction, Instruction, Isa, SinkError, StoppedAt, Template, TemplateAccess, TemplateTrace,
};

use super::super::builder::{Builder, RecordSink};
use super::super::layout::Bytes;
use super::super::record;
use super::super::write::{Executions, Patterns};
use super::Lowerer;
use super::opcode_info::{OpcodeInfo, OpcodeInfos};
use super::state::Due;

/// Templates with a higher number have no form.
const MAX_TEMPLATES: usize = 1 << 24;

/// Forms of executions: each is the pattern with the index of the execution.
#[derive(Debug, Default)]
pub(super) struct Forms {
    /// Indexed by execution.
    forms: Vec<Form>,
    patterns: Patterns,
}

/// The form of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Form {
    #[default]
    Unknown,
    Known,
    /// Always pushed as steps.
    Never,
}

impl<S: RecordSink> Lowerer<S> {
    /// Writes executions of templates, of the same core as steps; or stops where steps are needed.
    pub fn push_templates(&mut self, trace: &TemplateTrace<'_>) -> Result<Option<StoppedAt>, SinkError> {
        let stopped = match self.may_take(trace)? {
            true => self.forms.check(&mut self.builder, &mut self.infos, trace),
            false => Some(StoppedAt { executions: 0, addresses: 0, is_final: false }),
        };
        let (executions, addresses, records) = match stopped {
            Some(StoppedAt { executions, addresses, .. }) => (
                trace.executions.get(..executions).unwrap_or_default(),
                trace.addresses.get(..addresses).unwrap_or_default(),
                trace.instructions_of(executions),
            ),
            None => (trace.executions, trace.addresses, trace.instructions),
        };
        self.builder.patterns(&mut self.forms.patterns, Executions { executions, addresses, record_count: records })?;
        if let Some((last, next)) = self.forms.end(trace.templates, executions, addresses) {
            self.builder.passed(records, last, next);
            self.after_instruction();
        }
        Ok(stopped)
    }

    /// Whether templates can be written now, and these start where execution continues.
    fn may_take(&mut self, trace: &TemplateTrace<'_>) -> Result<bool, SinkError> {
        let is_plain = self.hold.is_empty() && self.is_basic && !self.has_times && !self.registers.is_tracking();
        if !is_plain {
            return Ok(false);
        }
        self.close()?;
        let is_settled = self.known.due == Due::No && self.known.is_aarch64() && !self.is_unsupported;
        let odd = trace.addresses.iter().fold(0, |odd, address| odd | odd_bits(*address));
        let first = trace.executions.first().and_then(|execution| trace.templates.get(execution.number()));
        let start = first.and_then(|template| template.instructions.first()).map(|first| first.address);
        let is_here = start.is_some() && self.builder.pattern_start() == start;
        Ok(is_settled && is_here && !self.syndrome.is_known() && odd == 0)
    }
}

impl Forms {
    /// The first execution that never has a form; `None`: all have one.
    fn check<S: RecordSink>(
        &mut self,
        builder: &mut Builder<S>,
        infos: &mut OpcodeInfos,
        trace: &TemplateTrace<'_>,
    ) -> Option<StoppedAt> {
        let is_known = |forms: &[Form], one: &BlockExecution| forms.get(one.index()) == Some(&Form::Known);
        for (executions, one) in trace.executions.iter().enumerate() {
            if !is_known(&self.forms, one) && self.learn(builder, infos, trace.templates, *one) == Form::Never {
                let before = trace.executions.get(..executions).unwrap_or_default();
                let addresses = before.iter().map(|one| self.patterns.slot_count(one.index())).sum();
                return Some(StoppedAt { executions, addresses, is_final: true });
            }
        }
        None
    }

    /// The last record of these executions, and where execution continues.
    fn end(
        &mut self,
        templates: &[Template],
        executions: &[BlockExecution],
        addresses: &[u64],
    ) -> Option<(&Bytes, u64)> {
        let last = executions.last()?;
        let template = templates.get(last.number())?;
        let after = template.instructions.last()?.address.wrapping_add(4);
        let next = match template.end.target_address() {
            Some(target) if last.is_taken() => target,
            None if template.end.flow.is_indirect() => *addresses.last()?,
            _ => after,
        };
        let of_others = addresses.len().checked_sub(self.patterns.slot_count(last.index()))?;
        Some((self.patterns.fill(last.index(), addresses.get(of_others..)?).last()?, next))
    }

    /// Makes the form of an execution, if it has none.
    #[cold]
    fn learn<S: RecordSink>(
        &mut self,
        builder: &mut Builder<S>,
        infos: &mut OpcodeInfos,
        templates: &[Template],
        execution: BlockExecution,
    ) -> Form {
        let (index, number) = (execution.index(), execution.number());
        let Some(template) = templates.get(number).filter(|_| number < MAX_TEMPLATES) else { return Form::Never };
        if self.forms.len() <= index {
            self.forms.resize(index + 1, Form::Unknown);
        }
        let Some(form) = self.forms.get_mut(index) else { return Form::Never };
        if *form == Form::Unknown {
            *form = match pattern(builder, infos, template, execution.is_taken()) {
                Some((records, slots)) => {
                    self.patterns.set(index, &records, &slots);
                    Form::Known
                }
                None => Form::Never,
            };
        }
        *form
    }
}

/// Records of an execution, and the indexes of those with an address; `None`: they may break a rule for some addresses.
fn pattern<S: RecordSink>(
    builder: &mut Builder<S>,
    infos: &mut OpcodeInfos,
    template: &Template,
    is_taken: bool,
) -> Option<(Vec<Bytes>, Vec<usize>)> {
    let target = target(infos, template, is_taken)?;
    let (mut records, mut slots) = plain_records(infos, template)?;
    if template.end.flow.is_branch() {
        let branch = records.last_mut().filter(|record| !record.ea_valid)?;
        (branch.is_branch, branch.ea_valid, branch.ea) = (true, is_taken, target.unwrap_or(0));
    }
    if template.end.flow.is_indirect() {
        slots.push(records.len().checked_sub(1)?);
    }
    let records: Vec<Bytes> = records.iter().map(record::Instruction::to_bytes).collect();
    records.iter().all(|record| builder.is_certain(record)).then_some((records, slots))
}

/// Target of the branch at the end, if it is taken and direct. `None`: the opcode contradicts the template.
fn target(infos: &mut OpcodeInfos, template: &Template, is_taken: bool) -> Option<Option<u64>> {
    let last = template.instructions.last()?;
    let info = infos.of(last.opcode?);
    let target = info.target(last.address);
    let end = &template.end;
    let is_same = (end.flow, end.conditional) == (info.flow, info.conditional);
    match info.flow {
        ControlFlow::Direct if is_same && is_taken => {
            let is_ambiguous = end.conditional && target == Some(last.address.wrapping_add(4));
            (target == end.target_address() && !is_ambiguous).then_some(target)
        }
        ControlFlow::Direct if is_same => end.conditional.then_some(None),
        ControlFlow::Indirect if is_same && is_taken => Some(None),
        flow => (!flow.is_branch() && !end.flow.is_branch() && !is_taken).then_some(None),
    }
}

/// Records of a template, and the indexes of those with an address.
fn plain_records(infos: &mut OpcodeInfos, template: &Template) -> Option<(Vec<record::Instruction>, Vec<usize>)> {
    let (mut records, mut slots) = (Vec::new(), Vec::new());
    let mut accesses = template.accesses.iter().peekable();
    let mut address = template.instructions.first()?.address;
    for (index, instruction) in template.instructions.iter().enumerate() {
        let access = accesses.next_if(|access| usize::from(access.index) == index);
        slots.extend(access.map(|_| index));
        records.push(plain_record(instruction, infos.of(instruction.opcode?), access)?);
        if instruction.address != address || address % 4 != 0 {
            return None;
        }
        address = address.wrapping_add(4);
    }
    accesses.next().is_none().then_some((records, slots))
}

/// The record of an instruction that does nothing but this access, without its address.
fn plain_record(
    instruction: &Instruction,
    info: &OpcodeInfo,
    access: Option<&TemplateAccess>,
) -> Option<record::Instruction> {
    let is_plain = instruction.isa == Isa::A64
        && instruction.za_index.is_none()
        && instruction.is_executed != Some(false)
        && !info.access.vector
        && is_address(instruction.address);
    let record = record::Instruction { iword: instruction.opcode?, pc: instruction.address, ..Default::default() };
    match access {
        _ if !is_plain => None,
        None => (!info.has_address).then_some(record),
        Some(access) => Some(record::Instruction {
            ea_valid: true,
            is_read: access.direction == Direction::Read,
            is_write: access.direction == Direction::Write,
            ea_size: u8::try_from(access.size.checked_sub(1)?).ok()?,
            ..record
        }),
    }
}

/// Bits of an address that do not fit the record.
#[inline]
fn odd_bits(address: u64) -> u64 {
    // The highest nine bits are all the same.
    ((address >> 55) + 1) & 0x1fe
}

/// Whether an address fits the record.
fn is_address(address: u64) -> bool {
    address >> 56 == 0 || address >> 55 == 0x1ff
}
