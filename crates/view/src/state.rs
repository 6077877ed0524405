//! Registers and memory after an instruction.

use std::ops::RangeInclusive;

use serde_json::{Value, json};
use unspool::model::Facet;
use unspool::tarmac::index::{CoreState, MemoryQuery, State, StateView};

use crate::Refusal;
use crate::job::locked;
use crate::parameters::{Parameters, address};
use crate::rows::hex;
use crate::source::Source;

/// Limit of the bytes of memory in an answer.
const MAX_BYTES: u64 = 4096;

/// Answers a request for the state.
pub(crate) fn answer(source: &Source, parameters: &mut Parameters) -> Result<Value, Refusal> {
    let at = parameters.instruction("at")?;
    if !source.has_values() {
        parameters.text("memory");
        return Ok(json!({"cores": [], "why": "the trace has no values of registers or memory"}));
    }
    let memory = parameters.text("memory").map(|text| range(&text)).transpose()?;
    let ranges: Vec<RangeInclusive<u64>> = memory.iter().cloned().collect();
    let state = locked(&source.reader).steps.state_at(at, &ranges).map_err(Refusal::unreadable)?;
    let Some(state) = state else { return Ok(json!({"cores": [], "why": "the trace has no such instruction"})) };
    let why = (!source.coverage.has(Facet::Registers)).then_some("the trace has no values of registers");
    let memory: Vec<MemoryQuery> = memory.into_iter().map(MemoryQuery::Range).collect();
    let view =
        StateView { state: &state, core: None, memory: &memory, registers: &[], last_writes: &[], unit: "instruction" };
    let cores: Vec<Value> = state.cores.iter().map(|core| core_json(&view, core, &state, at)).collect();
    Ok(json!({"cores": cores, "why": why}))
}

fn core_json(view: &StateView<'_>, core: &CoreState, state: &State, at: u64) -> Value {
    let registers = view.registers_of(core).into_iter();
    let registers: Vec<Value> = registers
        .map(|register| json!({"name": register.name, "value": register.value, "changed": register.line == at}))
        .collect();
    let only = state.cores.len() > 1;
    let name = String::from_utf8_lossy(&core.name);
    let view = StateView { core: only.then_some(&*name), ..*view };
    let rows = view.memory.iter().flat_map(|query| view.memory_rows(query));
    let rows: Vec<Value> = rows
        .map(|(start, bytes)| {
            let bytes = bytes.iter().map(|byte| byte.map_or_else(|| "..".to_string(), |byte| format!("{byte:02x}")));
            json!({"address": hex(start), "bytes": bytes.collect::<Vec<_>>()})
        })
        .collect();
    json!({"name": name, "address": core.pc.map(hex), "registers": registers, "memory": rows})
}

/// An address with a length.
fn range(text: &str) -> Result<RangeInclusive<u64>, Refusal> {
    let malformed = || Refusal::malformed(format!("'memory' is an address and a length from 1 to {MAX_BYTES}"));
    let (start, length) = text.split_once('+').ok_or_else(malformed)?;
    let length = length.parse().ok().filter(|length| (1..=MAX_BYTES).contains(length)).ok_or_else(malformed)?;
    let start = address(start)?;
    Ok(start..=start.saturating_add(length - 1))
}
