//! Windows of the instruction list.
//!
//! number ─▶ chunk of rows, kept for a while ─▶ **rows** as JSON
//!
//! Reading starts before the wanted chunk anyway, and the page scrolls on: neighbours are kept too.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use unspool::SeekableSteps;
use unspool::isa::Disassembler;
use unspool::model::{Context, Event, Instruction, RegisterWrite, Step};

use crate::Refusal;
use crate::job::locked;
use crate::parameters::Parameters;
use crate::source::Source;

/// Instructions of a chunk.
const CHUNK: u64 = 1 << 10;
/// Chunks that are read at once: before the wanted one, and from it on.
const BEFORE: u64 = 2;
const AFTER: u64 = 6;
/// Chunks that are kept: some tens of megabytes.
const KEPT: usize = 48;
/// Steps between two instructions that are shown.
const EVENTS: usize = 100;
/// Instructions of a request.
const MAX_ROWS: u64 = 1000;

/// An instruction of the list.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// The instruction, with what it wrote and accessed.
    pub(crate) step: Step,
    /// What happened since the instruction before.
    pub(crate) events: Vec<Step>,
    pub(crate) process: Option<u64>,
}

/// Some rows in order.
#[derive(Debug, Default)]
struct Chunk {
    rows: Vec<Row>,
    /// What comes after the last instruction of the trace.
    tail: Vec<Step>,
    /// The trace ends in it.
    is_last: bool,
    /// Why it ends.
    damage: Option<String>,
}

/// The steps of a source, and the rows that were read last.
pub(crate) struct Reader {
    pub(crate) steps: SeekableSteps,
    chunks: HashMap<u64, Arc<Chunk>>,
    used: VecDeque<u64>,
}

impl Reader {
    pub(crate) fn new(steps: SeekableSteps) -> Self {
        Self { steps, chunks: HashMap::new(), used: VecDeque::new() }
    }

    /// The row of an instruction. `None`: the trace has fewer.
    pub(crate) fn row(&mut self, number: u64) -> Result<Option<Row>, Refusal> {
        let chunk = self.chunk((number - 1) / CHUNK)?;
        Ok(chunk.rows.get(((number - 1) % CHUNK) as usize).cloned())
    }

    fn chunk(&mut self, wanted: u64) -> Result<Arc<Chunk>, Refusal> {
        if !self.chunks.contains_key(&wanted) {
            let first = wanted.saturating_sub(BEFORE);
            for (chunk, number) in self.read(first, wanted + AFTER)?.into_iter().zip(first..) {
                self.keep(number, chunk);
            }
        }
        self.used.retain(|number| *number != wanted);
        self.used.push_back(wanted);
        Ok(self.chunks.get(&wanted).cloned().unwrap_or_default())
    }

    fn keep(&mut self, number: u64, chunk: Chunk) {
        self.chunks.insert(number, Arc::new(chunk));
        self.used.retain(|used| *used != number);
        self.used.push_back(number);
        while self.used.len() > KEPT {
            if let Some(oldest) = self.used.pop_front() {
                self.chunks.remove(&oldest);
            }
        }
    }

    /// Reads chunks `first..end`; those after the end of the trace are empty.
    fn read(&mut self, first: u64, end: u64) -> Result<Vec<Chunk>, Refusal> {
        let mut chunks: Vec<Chunk> = (first..end).map(|_| Chunk::default()).collect();
        let (start, stop) = (first * CHUNK, end * CHUNK);
        let (mut events, mut processes): (Vec<Step>, HashMap<u32, u64>) = (Vec::new(), HashMap::new());
        let mut is_stopped = false;
        // What is between two instructions is known if the first of them was read.
        let ended = self.steps.each_from(start.max(1), &mut |number, step| {
            if let Event::Context(Context { process: Some(process), .. }) = step.event {
                processes.insert(step.core, process);
            }
            let is_instruction = step.event.instruction().is_some();
            if number > stop || (number == stop && !is_instruction) {
                is_stopped = true;
                return ControlFlow::Break(());
            }
            if !is_instruction {
                if number >= start && events.len() < EVENTS {
                    events.push(step.clone());
                }
                return ControlFlow::Continue(());
            }
            let events = std::mem::take(&mut events);
            if number > start {
                let chunk = ((number - start - 1) / CHUNK) as usize;
                let process = processes.get(&step.core).copied();
                chunks[chunk].rows.push(Row { step: step.clone(), events, process });
            }
            ControlFlow::Continue(())
        });
        let damage = match ended {
            Ok(()) => None,
            Err(error) if error.is_damage => Some(error.text),
            Err(error) => return Err(Refusal::unreadable(error)),
        };
        if !is_stopped {
            let last = chunks.iter().rposition(|chunk| !chunk.rows.is_empty()).unwrap_or(0);
            for chunk in &mut chunks[last..] {
                chunk.is_last = true;
            }
            (chunks[last].tail, chunks[last].damage) = (events, damage);
        }
        Ok(chunks)
    }
}

/// Answers a request for rows.
pub(crate) fn answer(source: &Source, parameters: &mut Parameters) -> Result<Value, Refusal> {
    let from = parameters.instruction("from")?;
    let count = parameters.number("count", 1..=MAX_ROWS)?;
    let mut reader = locked(&source.reader);
    let (mut rows, mut tail, mut is_end) = (Vec::new(), Vec::new(), false);
    let mut number = from;
    while number < from + count && !is_end {
        let chunk = reader.chunk((number - 1) / CHUNK)?;
        let within = ((number - 1) % CHUNK) as usize;
        let wanted = (from + count - number) as usize;
        for row in chunk.rows.iter().skip(within).take(wanted) {
            rows.push(json(source, number, row));
            number += 1;
        }
        // The window is full, or this was the last chunk that has something.
        if (number - 1) % CHUNK != 0 || chunk.rows.is_empty() || number >= from + count {
            is_end = chunk.is_last && within + wanted >= chunk.rows.len();
            if is_end {
                tail = events(&chunk.tail);
                tail.extend(chunk.damage.iter().map(|text| json!({"kind": "damage", "text": text})));
            }
            break;
        }
    }
    let files = locked(&source.files).paths();
    Ok(json!({"rows": rows, "tail": tail, "end": is_end, "files": files}))
}

fn json(source: &Source, number: u64, row: &Row) -> Value {
    let Row { step, process, .. } = row;
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| fields.insert(name.to_string(), value);
    put("n", json!(number));
    put("core", json!(step.core));
    put("time", json!(step.time.map(|time| time.to_string())));
    if let Event::Instruction(instruction) = &step.event {
        let (opcode, text) = code(instruction);
        let address = instruction.address;
        put("address", json!(hex(address)));
        put("opcode", json!(opcode));
        put("text", json!(text));
        let function = source.function(*process, address);
        put("function", json!(function.map(|(name, _)| name)));
        put("offset", json!(function.map_or(0, |(_, offset)| offset)));
        let frames = source.lines.find_of_process(&source.program, *process, address);
        let position = frames.first().and_then(|frame| frame.position.clone());
        let file = position.as_ref().map(|position| locked(&source.files).number(&position.file));
        put("file", json!(file));
        put("line", json!(position.map(|position| position.line)));
        if instruction.is_executed == Some(false) {
            put("not_executed", json!(true));
        }
        if let Some(branch) = instruction.branch {
            put("taken", json!(branch.taken));
        }
    }
    let accesses: Vec<Value> = step
        .accesses()
        .map(|access| {
            let value = (!access.bytes.is_empty()).then(|| digits(access.bytes));
            json!({"kind": access.direction.name(), "address": hex(access.address), "size": access.size, "value": value})
        })
        .collect();
    put("accesses", json!(accesses));
    let writes: Vec<Value> =
        step.registers().map(|write| json!({"name": write.name, "value": register(&write)})).collect();
    put("registers", json!(writes));
    put("events", json!(events(&row.events)));
    Value::Object(fields)
}

thread_local! {
    static DISASSEMBLER: RefCell<Disassembler> = RefCell::new(Disassembler::new());
}

/// Opcode and text of an instruction.
pub(crate) fn code(instruction: &Instruction) -> (String, String) {
    let width = if instruction.length == 2 { 4 } else { 8 };
    match instruction.opcode {
        Some(opcode) => {
            let text = DISASSEMBLER.with_borrow_mut(|all| all.text(instruction.isa, instruction.address, opcode));
            (format!("{opcode:0width$x}"), text)
        }
        None => ("-".repeat(width), "(opcode unknown)".to_string()),
    }
}

/// Steps other than instructions.
fn events(steps: &[Step]) -> Vec<Value> {
    let event = |step: &Step| event(step).map(|(kind, text)| json!({"kind": kind, "text": text}));
    steps.iter().filter_map(event).collect()
}

/// Kind and words of a step other than an instruction.
pub(crate) fn event(step: &Step) -> Option<(&'static str, String)> {
    Some(match &step.event {
        Event::Instruction(_) | Event::State => return None,
        Event::Exception(exception) => {
            let mut text = exception.kind.name().to_string();
            exception.return_address.iter().for_each(|address| text += &format!(", returns to {}", hex(*address)));
            exception.target.iter().for_each(|address| text += &format!(", handler at {}", hex(*address)));
            ("exception", text)
        }
        Event::ExceptionReturn { target } => {
            ("return", target.map_or_else(|| "exception return".to_string(), |to| format!("returns to {}", hex(to))))
        }
        Event::Context(context) => ("context", context_text(context)),
        Event::Gap(gap) => ("gap", format!("gap: {}", gap.name())),
        Event::Note => ("note", step.note().to_string()),
    })
}

fn context_text(context: &Context) -> String {
    let number = |name: &str, value: Option<u64>| value.map(|value| format!("{name} {value}"));
    let parts = [
        number("level", context.level.map(u64::from)),
        context.security.map(|state| state.name().to_string()),
        number("process", context.process),
        number("thread", context.thread),
        number("VM", context.vmid.map(u64::from)),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "context".to_string() } else { parts.join(", ") }
}

fn register(write: &RegisterWrite<'_>) -> String {
    digits(write.bytes)
}

/// Number of bytes with the lowest first, `x` where unknown.
fn digits(bytes: &[(u8, u8)]) -> String {
    let mut text = "0x".to_string();
    for (byte, known) in bytes.iter().rev() {
        for shift in [4, 0] {
            let is_known = known >> shift & 0xf == 0xf;
            let digit = char::from_digit(u32::from(byte >> shift & 0xf), 16).filter(|_| is_known);
            text.push(digit.unwrap_or('x'));
        }
    }
    text
}

/// A number in hexadecimal.
pub(crate) fn hex(number: u64) -> String {
    format!("{number:#x}")
}
