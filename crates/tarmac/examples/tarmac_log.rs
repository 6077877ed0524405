//! Generator of large Tarmac logs on standard output: `cargo run --release --example tarmac_log MEGABYTES [STYLE]
//! [SEED]`.
//!
//! A small A64 machine runs a program of nested and recursive functions: opcodes are real, registers and memory are
//! consistent, and branches lead to the next instruction. Styles: `fast-models`, `rev3`. The same seed gives the same
//! log.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::io::{self, BufWriter, Write};

/// Address of the program.
const CODE: u64 = 0x8000_0000;
/// Address of its table of numbers.
const TABLE: u64 = 0x8010_0000;
/// Number of words in the table.
const WORDS: usize = 1 << 14;
/// Top of the stack.
const STACK: u64 = 0x8040_0000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let megabytes: u64 = arguments.next().ok_or("how many megabytes?")?.parse()?;
    let is_rev3 = match arguments.next().as_deref() {
        None | Some("fast-models") => false,
        Some("rev3") => true,
        Some(other) => return Err(format!("no such style: {other} (fast-models, rev3)").into()),
    };
    let seed = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    let mut log = Log { out: BufWriter::with_capacity(1 << 20, io::stdout().lock()), written: 0, is_rev3 };
    log.start()?;
    let program = program();
    let mut machine = Machine::new(seed);
    while log.written < megabytes * 1_000_000 {
        machine.step(&program, &mut log)?;
    }
    log.out.flush()?;
    Ok(())
}

/// One instruction: operation, opcode and disassembly.
#[derive(Debug, Clone)]
struct Code {
    operation: Operation,
    opcode: u32,
    text: String,
}

/// Operation of an instruction; numbers are register numbers, and 31 is the stack pointer or zero.
#[derive(Debug, Clone, Copy)]
enum Operation {
    /// MOVZ: a register, an immediate.
    Move(usize, u64),
    /// MOV of registers.
    Copy(usize, usize),
    /// ADD immediate.
    Add(usize, usize, u64),
    /// SUB immediate.
    Sub(usize, usize, u64),
    /// SUBS immediate.
    SubFlags(usize, usize, u64),
    /// ADD of registers.
    AddRegister(usize, usize, usize),
    /// EOR of registers.
    Exclusive(usize, usize, usize),
    /// AND with a mask of low bits.
    Low(usize, usize, u32),
    /// CMP immediate.
    Compare(usize, u64),
    /// LDR of 8 bytes from a base and a scaled index.
    LoadIndex(usize, usize, usize),
    /// STR of 8 bytes, likewise.
    StoreIndex(usize, usize, usize),
    /// LDR from the stack.
    Load(usize, u64),
    /// STR to the stack.
    Store(usize, u64),
    /// LDRB from a base and an offset.
    LoadByte(usize, usize, u64),
    /// STP of the frame pointer and the link register, allocating the frame.
    Enter(u64),
    /// LDP of both, freeing the frame.
    Leave(u64),
    /// BL to an instruction of the program.
    Call(usize),
    /// B.cond to an instruction.
    Branch(Condition, usize),
    /// B to an instruction.
    Jump(usize),
    /// RET.
    Return,
}

#[derive(Debug, Clone, Copy)]
enum Condition {
    Equal,
    NotEqual,
    NotAbove,
}

/// Assembler with labels.
#[derive(Default)]
struct Assembler {
    code: Vec<Operation>,
    /// Instructions with a label as their target.
    unresolved: Vec<(usize, &'static str)>,
    labels: Vec<(&'static str, usize)>,
}

impl Assembler {
    fn label(&mut self, name: &'static str) {
        self.labels.push((name, self.code.len()));
    }

    fn push(&mut self, operation: Operation) {
        self.code.push(operation);
    }

    fn push_to(&mut self, operation: Operation, label: &'static str) {
        self.unresolved.push((self.code.len(), label));
        self.code.push(operation);
    }

    fn finish(mut self) -> Vec<Code> {
        for (at, label) in &self.unresolved {
            let target = self.labels.iter().find(|(name, _)| name == label).map_or(0, |(_, target)| *target);
            if let Operation::Call(to) | Operation::Jump(to) | Operation::Branch(_, to) = &mut self.code[*at] {
                *to = target;
            }
        }
        self.code.iter().enumerate().map(|(at, operation)| encode(at, *operation)).collect()
    }
}

/// An endless loop over four tasks: a recursion, a sum over the table, a permutation of it, and a count.
fn program() -> Vec<Code> {
    let mut a = Assembler::default();
    a.label("start");
    for (times, function) in [(11, "fib"), (40, "sum"), (25, "mix"), (30, "count")] {
        a.push(Operation::Move(0, times));
        a.push_to(Operation::Call(0), function);
        a.push(Operation::AddRegister(20, 20, 0));
    }
    a.push_to(Operation::Jump(0), "start");
    // fib(n): n < 2 ? n : fib(n - 1) + fib(n - 2)
    a.label("fib");
    a.push(Operation::Compare(0, 1));
    a.push_to(Operation::Branch(Condition::NotAbove, 0), "fib_end");
    a.push(Operation::Enter(0x20));
    a.push(Operation::Store(0, 0x10));
    a.push(Operation::Sub(0, 0, 1));
    a.push_to(Operation::Call(0), "fib");
    a.push(Operation::Load(1, 0x10));
    a.push(Operation::Store(0, 0x18));
    a.push(Operation::Sub(0, 1, 2));
    a.push_to(Operation::Call(0), "fib");
    a.push(Operation::Load(1, 0x18));
    a.push(Operation::AddRegister(0, 0, 1));
    a.push(Operation::Leave(0x20));
    a.label("fib_end");
    a.push(Operation::Return);
    // sum(n): adds table entries from the current index on, and counts odd bytes by a call.
    a.label("sum");
    a.push(Operation::Enter(0x20));
    a.push(Operation::Copy(3, 0));
    a.push(Operation::Move(4, 0));
    a.label("sum_loop");
    a.push(Operation::Low(5, 21, 14));
    a.push(Operation::LoadIndex(6, 22, 5));
    a.push(Operation::AddRegister(4, 4, 6));
    a.push(Operation::Copy(0, 6));
    a.push_to(Operation::Call(0), "odd");
    a.push(Operation::AddRegister(4, 4, 0));
    a.push(Operation::Add(21, 21, 7));
    a.push(Operation::SubFlags(3, 3, 1));
    a.push_to(Operation::Branch(Condition::NotEqual, 0), "sum_loop");
    a.push(Operation::Copy(0, 4));
    a.push(Operation::Leave(0x20));
    a.push(Operation::Return);
    a.label("odd");
    a.push(Operation::Low(0, 0, 1));
    a.push(Operation::Compare(0, 0));
    a.push_to(Operation::Branch(Condition::Equal, 0), "odd_end");
    a.push(Operation::LoadByte(7, 22, 3));
    a.push(Operation::Low(0, 7, 3));
    a.label("odd_end");
    a.push(Operation::Return);
    // mix(n): swaps and changes table entries.
    a.label("mix");
    a.push(Operation::Enter(0x30));
    a.push(Operation::Store(19, 0x10));
    a.push(Operation::Copy(19, 0));
    a.label("mix_loop");
    a.push(Operation::Low(5, 23, 14));
    a.push(Operation::LoadIndex(6, 22, 5));
    a.push(Operation::Exclusive(6, 6, 23));
    a.push(Operation::StoreIndex(6, 22, 5));
    a.push(Operation::AddRegister(23, 23, 6));
    a.push(Operation::Move(0, 2));
    a.push_to(Operation::Call(0), "count");
    a.push(Operation::SubFlags(19, 19, 1));
    a.push_to(Operation::Branch(Condition::NotEqual, 0), "mix_loop");
    a.push(Operation::Load(19, 0x10));
    a.push(Operation::Leave(0x30));
    a.push(Operation::Return);
    // count(n): a plain loop.
    a.label("count");
    a.push(Operation::Move(1, 0));
    a.label("count_loop");
    a.push(Operation::Add(1, 1, 3));
    a.push(Operation::SubFlags(0, 0, 1));
    a.push_to(Operation::Branch(Condition::NotEqual, 0), "count_loop");
    a.push(Operation::Copy(0, 1));
    a.push(Operation::Return);
    a.finish()
}

fn name(register: usize) -> String {
    if register == 31 { "sp".into() } else { format!("x{register}") }
}

/// Opcode and disassembly of an instruction.
fn encode(at: usize, operation: Operation) -> Code {
    let r = |register: usize| register as u32;
    let away = |to: usize| (to as i64 - at as i64) as u32;
    let to = |to: usize| {
        let bytes = 4 * (to as i64 - at as i64);
        let sign = if bytes < 0 { '-' } else { '+' };
        format!("{{pc}}{sign}{:#x} ; {:#x}", bytes.abs(), CODE + 4 * to as u64)
    };
    let immediate = |base: u32, d, n, number: u64| base | (number as u32) << 10 | r(n) << 5 | r(d);
    let (opcode, text) = match operation {
        Operation::Move(d, number) => {
            (0xd280_0000 | (number as u32) << 5 | r(d), format!("MOV      x{d},#{number:#x}"))
        }
        Operation::Copy(d, m) => (0xaa00_03e0 | r(m) << 16 | r(d), format!("MOV      x{d},x{m}")),
        Operation::Add(d, n, i) => {
            (immediate(0x9100_0000, d, n, i), format!("ADD      {},{},#{i:#x}", name(d), name(n)))
        }
        Operation::Sub(d, n, i) => {
            (immediate(0xd100_0000, d, n, i), format!("SUB      {},{},#{i:#x}", name(d), name(n)))
        }
        Operation::SubFlags(d, n, i) => (immediate(0xf100_0000, d, n, i), format!("SUBS     x{d},x{n},#{i:#x}")),
        Operation::AddRegister(d, n, m) => {
            (0x8b00_0000 | r(m) << 16 | r(n) << 5 | r(d), format!("ADD      x{d},x{n},x{m}"))
        }
        Operation::Exclusive(d, n, m) => {
            (0xca00_0000 | r(m) << 16 | r(n) << 5 | r(d), format!("EOR      x{d},x{n},x{m}"))
        }
        Operation::Low(d, n, bits) => (
            0x9240_0000 | (bits - 1) << 10 | r(n) << 5 | r(d),
            format!("AND      x{d},x{n},#{:#x}", (1_u64 << bits) - 1),
        ),
        Operation::Compare(n, i) => (immediate(0xf100_0000, 31, n, i), format!("CMP      x{n},#{i:#x}")),
        Operation::LoadIndex(t, n, m) => {
            (0xf860_7800 | r(m) << 16 | r(n) << 5 | r(t), format!("LDR      x{t},[x{n},x{m},LSL #3]"))
        }
        Operation::StoreIndex(t, n, m) => {
            (0xf820_7800 | r(m) << 16 | r(n) << 5 | r(t), format!("STR      x{t},[x{n},x{m},LSL #3]"))
        }
        Operation::Load(t, offset) => {
            (immediate(0xf940_0000, t, 31, offset / 8), format!("LDR      x{t},[sp,#{offset:#x}]"))
        }
        Operation::Store(t, offset) => {
            (immediate(0xf900_0000, t, 31, offset / 8), format!("STR      x{t},[sp,#{offset:#x}]"))
        }
        Operation::LoadByte(t, n, offset) => {
            (immediate(0x3940_0000, t, n, offset), format!("LDRB     w{t},[x{n},#{offset:#x}]"))
        }
        Operation::Enter(size) => {
            let pairs = (128 - size as u32 / 8) & 0x7f;
            (0xa980_7bfd | pairs << 15, format!("STP      x29,x30,[sp,#-{size:#x}]!"))
        }
        Operation::Leave(size) => (0xa8c0_7bfd | (size as u32 / 8) << 15, format!("LDP      x29,x30,[sp],#{size:#x}")),
        Operation::Call(target) => (0x9400_0000 | away(target) & 0x3ff_ffff, format!("BL       {}", to(target))),
        Operation::Jump(target) => (0x1400_0000 | away(target) & 0x3ff_ffff, format!("B        {}", to(target))),
        Operation::Branch(condition, target) => {
            let (code, name) = match condition {
                Condition::Equal => (0, "B.EQ"),
                Condition::NotEqual => (1, "B.NE"),
                Condition::NotAbove => (9, "B.LS"),
            };
            (0x5400_0000 | (away(target) & 0x7_ffff) << 5 | code, format!("{name}     {}", to(target)))
        }
        Operation::Return => (0xd65f_03c0, "RET".into()),
    };
    Code { operation, opcode, text }
}

/// State of the machine.
struct Machine {
    x: [u64; 32],
    at: usize,
    /// N, Z and C; V is never set here.
    flags: (bool, bool, bool),
    table: Vec<u64>,
    stack: Vec<u64>,
    count: u64,
}

/// Effects of an instruction, in the order of a log.
#[derive(Default)]
struct Effects {
    /// Accesses: whether it reads, address, 1 or 8 bytes, data.
    memory: Vec<(bool, u64, u8, u64)>,
    registers: Vec<(usize, u64)>,
    flags: Option<u64>,
    is_skipped: bool,
    branch: Option<u64>,
}

impl Machine {
    fn new(seed: u64) -> Self {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let table = (0..WORDS).map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        });
        let table: Vec<u64> = table.collect();
        let mut x = [0; 32];
        (x[22], x[23], x[31]) = (TABLE, seed, STACK);
        Self { x, at: 0, flags: (false, false, false), table, stack: vec![0; 1 << 10], count: 0 }
    }

    fn memory(&mut self, address: u64) -> &mut u64 {
        if address >= TABLE + 8 * WORDS as u64 {
            let from_top = ((STACK - address) / 8) as usize;
            let length = self.stack.len();
            &mut self.stack[from_top % length]
        } else {
            &mut self.table[((address - TABLE) / 8) as usize % WORDS]
        }
    }

    fn load(&mut self, register: usize, address: u64, effects: &mut Effects) {
        let value = *self.memory(address);
        effects.memory.push((true, address, 8, value));
        self.set(register, value, effects);
    }

    fn store(&mut self, register: usize, address: u64, effects: &mut Effects) {
        let value = self.x[register];
        *self.memory(address) = value;
        effects.memory.push((false, address, 8, value));
    }

    fn set(&mut self, register: usize, value: u64, effects: &mut Effects) {
        self.x[register] = value;
        effects.registers.push((register, value));
    }

    fn compare(&mut self, left: u64, right: u64, effects: &mut Effects) {
        let result = left.wrapping_sub(right);
        self.flags = ((result as i64) < 0, result == 0, left >= right);
        let (n, z, c) = self.flags;
        effects.flags = Some(u64::from(n) << 31 | u64::from(z) << 30 | u64::from(c) << 29 | 0x3cd);
    }

    /// Executes one instruction and writes its lines.
    fn step(&mut self, program: &[Code], log: &mut Log<impl Write>) -> io::Result<()> {
        let at = self.at;
        let code = &program[at];
        let mut effects = Effects::default();
        self.at += 1;
        self.execute(code.operation, &mut effects);
        log.instruction(self.count, CODE + 4 * at as u64, code, &effects)?;
        self.count += 1;
        Ok(())
    }

    fn execute(&mut self, operation: Operation, effects: &mut Effects) {
        match operation {
            Operation::Move(d, number) => self.set(d, number, effects),
            Operation::Copy(d, m) => self.set(d, self.x[m], effects),
            Operation::Add(d, n, number) => self.set(d, self.x[n].wrapping_add(number), effects),
            Operation::Sub(d, n, number) => self.set(d, self.x[n].wrapping_sub(number), effects),
            Operation::SubFlags(d, n, number) => {
                let left = self.x[n];
                self.set(d, left.wrapping_sub(number), effects);
                self.compare(left, number, effects);
            }
            Operation::AddRegister(d, n, m) => self.set(d, self.x[n].wrapping_add(self.x[m]), effects),
            Operation::Exclusive(d, n, m) => self.set(d, self.x[n] ^ self.x[m], effects),
            Operation::Low(d, n, bits) => self.set(d, self.x[n] & ((1 << bits) - 1), effects),
            Operation::Compare(n, number) => self.compare(self.x[n], number, effects),
            Operation::LoadIndex(t, n, m) => self.load(t, self.x[n] + 8 * self.x[m], effects),
            Operation::StoreIndex(t, n, m) => self.store(t, self.x[n] + 8 * self.x[m], effects),
            Operation::Load(t, offset) => self.load(t, self.x[31] + offset, effects),
            Operation::Store(t, offset) => self.store(t, self.x[31] + offset, effects),
            Operation::LoadByte(t, n, offset) => {
                let address = self.x[n] + offset;
                let byte = *self.memory(address & !7) >> (8 * (address & 7)) & 0xff;
                effects.memory.push((true, address, 1, byte));
                self.set(t, byte, effects);
            }
            Operation::Enter(size) => {
                let base = self.x[31] - size;
                self.store(29, base, effects);
                self.store(30, base + 8, effects);
                self.set(31, base, effects);
            }
            Operation::Leave(size) => {
                let base = self.x[31];
                self.load(29, base, effects);
                self.load(30, base + 8, effects);
                self.set(31, base + size, effects);
            }
            Operation::Call(_) | Operation::Jump(_) | Operation::Branch(..) | Operation::Return => {
                self.go(operation, effects);
            }
        }
    }

    fn go(&mut self, operation: Operation, effects: &mut Effects) {
        let target = match operation {
            Operation::Call(target) => {
                self.set(30, CODE + 4 * self.at as u64, effects);
                Some(target)
            }
            Operation::Branch(condition, target) => {
                let (_, z, c) = self.flags;
                let is_taken = match condition {
                    Condition::Equal => z,
                    Condition::NotEqual => !z,
                    Condition::NotAbove => z || !c,
                };
                is_taken.then_some(target)
            }
            Operation::Jump(target) => Some(target),
            _ => Some(((self.x[30] - CODE) / 4) as usize),
        };
        effects.is_skipped = target.is_none();
        if let Some(target) = target {
            self.at = target;
            effects.branch = Some(CODE + 4 * target as u64);
        }
    }
}

/// Writer of the log.
struct Log<W: Write> {
    out: W,
    written: u64,
    is_rev3: bool,
}

impl<W: Write> Log<W> {
    fn line(&mut self, line: &str) -> io::Result<()> {
        self.written += line.len() as u64 + 1;
        self.out.write_all(line.as_bytes())?;
        self.out.write_all(b"\n")
    }

    fn start(&mut self) -> io::Result<()> {
        if self.is_rev3 {
            self.line("Tarmac Text Rev 3t")?;
            self.line("          0 ns  ES  EXC Reset")?;
            self.line(&format!("                    R SP_EL3 {STACK:016x}"))?;
            return self.line(&format!("                    BR ({CODE:016x}) O"));
        }
        self.line(&format!("0 clk E {CODE:08x} 00000001 CoreEvent_RESET"))?;
        self.line(&format!("0 clk R SP_EL3 {STACK:016x}"))
    }

    fn instruction(&mut self, count: u64, pc: u64, code: &Code, effects: &Effects) -> io::Result<()> {
        if self.is_rev3 { self.rev3(count, pc, code, effects) } else { self.fast_models(count, pc, code, effects) }
    }

    fn fast_models(&mut self, count: u64, pc: u64, code: &Code, effects: &Effects) -> io::Result<()> {
        let tag = if effects.is_skipped { "IS" } else { "IT" };
        let Code { opcode, text, .. } = code;
        self.line(&format!("{count} clk {tag} ({count}) {pc:08x}:0000{pc:08x} {opcode:08x} O EL3h_s : {text}"))?;
        for (is_read, address, size, value) in &effects.memory {
            let letter = if *is_read { 'R' } else { 'W' };
            let data = match size {
                8 => format!("{:08x}_{:08x}", value >> 32, *value as u32),
                _ => format!("{value:02x}"),
            };
            self.line(&format!("{count} clk M{letter}{size} {address:08x}:0000{address:08x} {data}"))?;
        }
        for (register, value) in &effects.registers {
            match register {
                31 => self.line(&format!("{count} clk R SP_EL3 {value:016x}"))?,
                _ => self.line(&format!("{count} clk R X{register} {value:016x}"))?,
            }
        }
        effects.flags.map_or(Ok(()), |flags| self.line(&format!("{count} clk R cpsr {flags:08x}")))
    }

    fn rev3(&mut self, count: u64, pc: u64, code: &Code, effects: &Effects) -> io::Result<()> {
        let Code { opcode, text, .. } = code;
        self.line(&format!("{:>11} ns  ES  ({pc:016x}:{opcode:08x}) O el3h_s:         {text}", 10 * count))?;
        let mut pictures: Vec<(bool, u64, [Option<u8>; 16])> = Vec::new();
        for (is_read, address, size, value) in &effects.memory {
            let base = address & !15;
            if pictures.last().is_none_or(|last| (last.0, last.1) != (*is_read, base)) {
                pictures.push((*is_read, base, [None; 16]));
            }
            if let Some((_, _, bytes)) = pictures.last_mut() {
                for byte in 0..usize::from(*size) {
                    bytes[(address & 15) as usize + byte] = Some((value >> (8 * byte)) as u8);
                }
            }
        }
        for (is_read, base, bytes) in pictures {
            let tag = if is_read { "LD" } else { "ST" };
            let groups: Vec<String> = bytes
                .rchunks(4)
                .map(|group| {
                    group.iter().rev().map(|byte| byte.map_or("..".into(), |byte| format!("{byte:02x}"))).collect()
                })
                .collect();
            let groups = groups.join(" ");
            self.line(&format!(
                "                    {tag} {base:016x} {groups}    S:{base:010x}    NM ISH IWBRWA OWBRWA"
            ))?;
        }
        for (register, value) in &effects.registers {
            match register {
                31 => self.line(&format!("                    R SP_EL3 {value:016x}"))?,
                _ => self.line(&format!("                    R X{register} {value:016x}"))?,
            }
        }
        if let Some(flags) = effects.flags {
            self.line(&format!("                    R CPSR {flags:08x}"))?;
        }
        effects.branch.map_or(Ok(()), |target| self.line(&format!("                    BR ({target:016x}) O")))
    }
}
