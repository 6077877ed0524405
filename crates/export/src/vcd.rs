//! Value change dumps: program counter, Exception level, registers and events over time, for viewers of waveforms.
//!
//! steps of any source ─▶ [`VcdWriter`] ─▶ changes in a temporary file ─▶ variables, changes
//!
//! A file names its variables before their first change, and registers are known when they are first written: so changes wait in
//! a file that the caller gives. Bits that the trace does not have are `x`; after a gap, all of the core are, and the event `gap`
//! occurs. Knows neither programs nor symbols. Specification: IEEE 1364, "Value change dump (VCD) files".

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;

use unspool_model::{BlockSink, Event, Instruction, RegisterWrite, Step, TimeUnit};

/// Maximum number of variables; changes of further ones are left out.
const VARIABLE_LIMIT: usize = 1 << 14;

/// Largest register in bits; larger ones are left out.
const BIT_LIMIT: usize = 2048;

/// What the time of a dump is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The time of the trace, in this unit.
    Times(TimeUnit),
    /// The number of the instruction.
    Instructions,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Instructions.
    pub instructions: u64,
    /// Variables.
    pub variables: u64,
    /// Changes of values, and events.
    pub changes: u64,
    /// How often part of the execution is missing.
    pub gaps: u64,
    /// Writes of registers that are too many or too large.
    pub left_out: u64,
}

/// Writer of a dump. `S` is a temporary file.
#[derive(Debug)]
pub struct VcdWriter<S: Write> {
    clock: Clock,
    changes: BufWriter<S>,
    variables: Vec<Variable>,
    /// Variables of registers by core and name.
    numbers: HashMap<u32, HashMap<String, usize>>,
    /// The variables that every core has, by core.
    cores: BTreeMap<u32, Fixed>,
    now: u64,
    /// Whether the time was written.
    is_marked: bool,
    text: Vec<u8>,
    line: Vec<u8>,
    written: Written,
    /// Bytes of changes.
    size: u64,
    failed: Option<io::Error>,
}

#[derive(Debug)]
struct Variable {
    core: u32,
    name: String,
    kind: Kind,
    /// Its value with the highest bit first, as it was last written, unless it is a number.
    value: Vec<u8>,
    number: Option<u64>,
    bits: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Register,
    Event,
}

/// Numbers of variables.
#[derive(Debug, Clone, Copy)]
struct Fixed {
    pc: usize,
    opcode: usize,
    level: usize,
    process: usize,
    thread: usize,
    exception: usize,
    exception_return: usize,
    gap: usize,
    has_started: bool,
}

impl<S: Read + Write + Seek> VcdWriter<S> {
    /// A dump whose changes wait in `spill`.
    pub fn new(clock: Clock, spill: S) -> Self {
        Self {
            clock,
            changes: BufWriter::new(spill),
            variables: Vec::new(),
            numbers: HashMap::new(),
            cores: BTreeMap::new(),
            now: 0,
            is_marked: false,
            text: Vec::new(),
            line: Vec::new(),
            written: Written::default(),
            size: 0,
            failed: None,
        }
    }

    /// The size of the dump so far, without its variables.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Writes the dump.
    pub fn finish(mut self, out: &mut dyn Write) -> io::Result<Written> {
        // The last values last until here.
        self.advance(self.now.saturating_add(1));
        self.mark();
        if let Some(error) = self.failed {
            return Err(error);
        }
        write_header(self.clock, &self.variables, out)?;
        let mut spill = self.changes.into_inner().map_err(io::IntoInnerError::into_error)?;
        spill.seek(SeekFrom::Start(0))?;
        io::copy(&mut spill, out)?;
        Ok(Written { variables: self.variables.len() as u64, ..self.written })
    }

    fn core(&mut self, core: u32) -> Fixed {
        if let Some(known) = self.cores.get(&core) {
            return *known;
        }
        let mut variable = |name: &str, kind, bits| {
            self.variables.push(Variable { core, name: name.to_string(), kind, value: Vec::new(), number: None, bits });
            self.variables.len() - 1
        };
        let fixed = Fixed {
            pc: variable("pc", Kind::Register, 64),
            opcode: variable("opcode", Kind::Register, 32),
            level: variable("el", Kind::Register, 2),
            process: variable("process", Kind::Register, 64),
            thread: variable("thread", Kind::Register, 64),
            exception: variable("exception", Kind::Event, 1),
            exception_return: variable("exception_return", Kind::Event, 1),
            gap: variable("gap", Kind::Event, 1),
            has_started: false,
        };
        self.cores.insert(core, fixed);
        fixed
    }

    fn advance(&mut self, time: u64) {
        if time > self.now {
            (self.now, self.is_marked) = (time, false);
        }
    }

    /// Writes the time, before the first change at it.
    fn mark(&mut self) {
        if !std::mem::replace(&mut self.is_marked, true) {
            let now = self.now;
            self.put(&format!("#{now}\n"));
        }
    }

    fn put(&mut self, text: &str) {
        self.size += text.len() as u64;
        if self.failed.is_none() {
            self.failed = self.changes.write_all(text.as_bytes()).err();
        }
    }

    fn event(&mut self, variable: usize) {
        self.mark();
        self.put(&format!("1{}\n", Identifier(variable)));
        self.written.changes += 1;
    }

    /// Writes a number as the value of a variable, unless it has it already.
    fn number(&mut self, number: usize, value: u64) {
        let Some(variable) = self.variables.get_mut(number).filter(|variable| variable.number != Some(value)) else {
            return;
        };
        variable.number = Some(value);
        variable.value.clear();
        let digits = (u64::BITS - value.leading_zeros()).max(1);
        variable.bits = variable.bits.max(digits as usize);
        self.mark();
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        // Zeros in front are implied.
        text.extend((0..digits).rev().map(|bit| b'0' + (value >> bit & 1) as u8));
        self.change(number, &text);
        self.text = text;
    }

    fn unknown(&mut self, variable: usize) {
        self.value(variable, b"x");
    }

    /// Writes bits as the value of a variable, unless it has them already.
    fn value(&mut self, number: usize, value: &[u8]) {
        let Some(variable) = self.variables.get_mut(number).filter(|variable| variable.value != value) else { return };
        variable.value.clear();
        variable.value.extend_from_slice(value);
        variable.number = None;
        self.mark();
        // Zeros in front are implied, but not in front of an x.
        let zeros = value.iter().take_while(|bit| **bit == b'0').count().min(value.len().saturating_sub(1));
        let is_implied = value.get(zeros).is_some_and(|bit| *bit != b'x');
        let start = if is_implied { zeros } else { zeros.saturating_sub(1) };
        self.change(number, value.get(start..).unwrap_or_default());
    }

    fn change(&mut self, number: usize, digits: &[u8]) {
        self.line.clear();
        self.line.push(b'b');
        self.line.extend_from_slice(digits);
        self.line.push(b' ');
        self.line.extend(Identifier(number).bytes());
        self.line.push(b'\n');
        self.size += self.line.len() as u64;
        if self.failed.is_none() {
            self.failed = self.changes.write_all(&self.line).err();
        }
        self.written.changes += 1;
    }

    fn instruction(&mut self, core: u32, instruction: &Instruction) {
        let fixed = self.core(core);
        self.cores.entry(core).and_modify(|core| core.has_started = true);
        self.number(fixed.pc, instruction.address);
        match instruction.opcode {
            Some(opcode) => self.number(fixed.opcode, u64::from(opcode)),
            None => self.unknown(fixed.opcode),
        }
        self.written.instructions += 1;
    }

    fn gap(&mut self, core: u32) {
        let fixed = self.core(core);
        if !fixed.has_started {
            return;
        }
        self.written.gaps += 1;
        self.event(fixed.gap);
        for number in 0..self.variables.len() {
            let is_known = self.variables.get(number).is_some_and(|variable| {
                variable.core == core && (variable.number.is_some() || !variable.value.is_empty())
            });
            if is_known {
                self.unknown(number);
            }
        }
    }

    fn register(&mut self, core: u32, write: &RegisterWrite<'_>) {
        let (low, bits) = (usize::from(write.low), write.bytes.len() * 8);
        let end = low + bits;
        let Some(number) = self.register_number(core, write.name).filter(|_| end <= BIT_LIMIT && bits > 0) else {
            self.written.left_out += 1;
            return;
        };
        let Some(variable) = self.variables.get_mut(number) else { return };
        variable.bits = variable.bits.max(end);
        // The old value, as far as it is known, under the bytes that were written.
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        text.resize(variable.bits, b'x');
        let known = variable.value.len();
        if known > 1 {
            let start = variable.bits.saturating_sub(known);
            text.iter_mut().skip(start).zip(&variable.value).for_each(|(to, from)| *to = *from);
        }
        let digits = text.iter_mut().rev().skip(low);
        for (digit, bit) in digits.zip(0..bits) {
            let (value, mask) = write.bytes.get(bit / 8).copied().unwrap_or_default();
            *digit = match (mask >> (bit % 8) & 1, value >> (bit % 8) & 1) {
                (0, _) => b'x',
                (_, 0) => b'0',
                _ => b'1',
            };
        }
        self.value(number, &text);
        self.text = text;
    }

    /// The variable of a register.
    fn register_number(&mut self, core: u32, name: &str) -> Option<usize> {
        let known = self.numbers.entry(core).or_default();
        if let Some(number) = known.get(name) {
            return Some(*number);
        }
        if self.variables.len() >= VARIABLE_LIMIT {
            return None;
        }
        let number = self.variables.len();
        self.variables.push(Variable {
            core,
            name: name.to_string(),
            kind: Kind::Register,
            value: Vec::new(),
            number: None,
            bits: 0,
        });
        known.insert(name.to_string(), number);
        Some(number)
    }
}

impl<S: Read + Write + Seek> BlockSink for VcdWriter<S> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        let time = match self.clock {
            Clock::Times(_) => step.time,
            Clock::Instructions => Some(self.written.instructions),
        };
        time.into_iter().for_each(|time| self.advance(time));
        let fixed = self.core(step.core);
        match &step.event {
            Event::Instruction(instruction) => self.instruction(step.core, instruction),
            Event::Exception(_) => self.event(fixed.exception),
            Event::ExceptionReturn { .. } => self.event(fixed.exception_return),
            Event::Gap(_) => self.gap(step.core),
            Event::Context(context) => {
                context.level.into_iter().for_each(|level| self.number(fixed.level, u64::from(level)));
                context.process.into_iter().for_each(|process| self.number(fixed.process, process));
                context.thread.into_iter().for_each(|thread| self.number(fixed.thread, thread));
            }
            Event::State | Event::Note => {}
        }
        step.registers().for_each(|write| self.register(step.core, &write));
        if self.failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The name of a variable in changes: a number whose digits are printable characters.
struct Identifier(usize);

impl Identifier {
    fn bytes(self) -> impl Iterator<Item = u8> {
        const FIRST: u8 = b'!';
        const DIGITS: usize = (b'~' - b'!') as usize + 1;
        let mut rest = Some(self.0);
        std::iter::from_fn(move || {
            let now = rest?;
            // Longer names follow the shorter ones.
            rest = (now / DIGITS).checked_sub(1);
            Some(FIRST + (now % DIGITS) as u8)
        })
    }
}

impl std::fmt::Display for Identifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Self(self.0).bytes().try_for_each(|byte| write!(f, "{}", char::from(byte)))
    }
}

fn write_header(clock: Clock, variables: &[Variable], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "$version unspool $end")?;
    let (scale, comment) = timescale(clock);
    if let Some(comment) = comment {
        writeln!(out, "$comment {comment} $end")?;
    }
    writeln!(out, "$timescale {scale} $end")?;
    let mut order: Vec<usize> = (0..variables.len()).collect();
    order.sort_by_key(|number| variables.get(*number).map(|variable| variable.core));
    let mut scope = None;
    for number in order {
        let Some(variable) = variables.get(number) else { continue };
        let before = scope.replace(variable.core);
        if before != Some(variable.core) {
            if before.is_some() {
                writeln!(out, "$upscope $end")?;
            }
            writeln!(out, "$scope module core{} $end", variable.core)?;
        }
        let (kind, bits) = match variable.kind {
            Kind::Register => ("reg", variable.bits.max(1)),
            Kind::Event => ("event", 1),
        };
        let range = if bits > 1 { format!(" [{}:0]", bits - 1) } else { String::new() };
        writeln!(out, "$var {kind} {bits} {} {}{range} $end", Identifier(number), word(&variable.name))?;
    }
    if scope.is_some() {
        writeln!(out, "$upscope $end")?;
    }
    writeln!(out, "$enddefinitions $end")
}

/// The unit of times, and what they are if they have no such unit.
fn timescale(clock: Clock) -> (String, Option<&'static str>) {
    match clock {
        Clock::Instructions => ("1 ns".to_string(), Some("Times are numbers of instructions.")),
        Clock::Times(TimeUnit::Cycles) => ("1 ns".to_string(), Some("Times are cycles.")),
        Clock::Times(TimeUnit::Seconds(power @ -15..=2)) => {
            let units = ["fs", "ps", "ns", "us", "ms", "s"];
            let above = i32::from(power) + 15;
            let unit = units.get((above / 3) as usize).unwrap_or(&"s");
            (format!("{} {unit}", 10_u32.pow((above % 3) as u32)), None)
        }
        Clock::Times(_) => ("1 ns".to_string(), Some("Times are in a unit that the trace does not name.")),
    }
}

/// A name without characters that end it.
fn word(name: &str) -> String {
    let name: String = name
        .chars()
        .map(|character| if character.is_ascii_graphic() && character != '$' { character } else { '_' })
        .collect();
    if name.is_empty() { "_".to_string() } else { name }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use unspool_model::{Context, Gap};

    use super::*;

    fn dump(clock: Clock, steps: &[Step]) -> (String, Written) {
        let mut writer = VcdWriter::new(clock, Cursor::new(Vec::new()));
        steps.iter().for_each(|step| assert!(writer.step(step).is_continue()));
        let mut text = Vec::new();
        let written = writer.finish(&mut text).unwrap();
        (String::from_utf8(text).unwrap(), written)
    }

    fn step(time: u64, event: Event) -> Step {
        let mut step = Step::default();
        (step.time, step.event) = (Some(time), event);
        step
    }

    fn instruction(address: u64) -> Event {
        Event::Instruction(Instruction { address, opcode: Some(3), length: 4, ..Instruction::default() })
    }

    /// By the specification; `!` to `(` are the identifiers of the eight variables of each core, `)` is that of the register.
    #[test]
    fn changes_at_their_times() {
        let mut first = step(5, instruction(0x10));
        first.write_register("x0", 0, &[1, 0, 0, 0, 0, 0, 0, 0x80]);
        let mut second = step(7, instruction(0x14));
        second.write_register_known("x0", 8, [(0xf1, 0x0f)]);
        let context = step(6, Event::Context(Context { level: Some(1), ..Context::default() }));
        let gap = step(9, Event::Gap(Gap::Overflow));
        let (text, written) = dump(Clock::Times(TimeUnit::Seconds(-8)), &[first, context, second, gap]);
        let (header, changes) = text.split_once("$enddefinitions $end\n").unwrap();
        let one = format!("1{}1", "0".repeat(62));
        let two = format!("1{}xxxx000100000001", "0".repeat(47));
        assert_eq!(
            changes,
            format!(
                "#5\nb10000 !\nb11 \"\nb{one} )\n#6\nb1 #\n#7\nb10100 !\nb{two} )\n#9\n1(\nbx !\nbx \"\nbx #\nbx )\n#10\n"
            )
        );
        assert!(
            header.contains("$timescale 10 ns $end\n$scope module core0 $end\n$var reg 64 ! pc [63:0] $end\n"),
            "{header}"
        );
        assert!(header.ends_with("$var event 1 ( gap $end\n$var reg 64 ) x0 [63:0] $end\n$upscope $end\n"), "{header}");
        assert_eq!(written, Written { instructions: 2, variables: 9, changes: 11, gaps: 1, left_out: 0 });
    }

    #[test]
    fn identifiers_differ() {
        let all: std::collections::HashSet<String> = (0..20_000).map(|number| Identifier(number).to_string()).collect();
        assert_eq!(all.len(), 20_000);
        assert!(all.iter().all(|text| text.bytes().all(|byte| (33..=126).contains(&byte))));
    }

    #[test]
    fn odd_registers_do_no_harm() {
        let mut odd = step(1, instruction(0));
        odd.write_register("two words$", 0, &[1]);
        odd.write_register("huge", 0, &[0; 4096]);
        odd.write_register("empty", 0, &[]);
        let (text, written) = dump(Clock::Instructions, &[odd]);
        assert!(text.contains(" two_words_ [7:0] $end"), "{text}");
        assert_eq!(written.left_out, 2);
    }
}
