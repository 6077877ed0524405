//! Generator of large Tarmac logs on standard output: `cargo run --release --features measure --example tarmac_log MEGABYTES [STYLE]
//! [SEED]`.
//!
//! A small A64 machine runs a program of nested and recursive functions: opcodes are real, registers and memory are
//! consistent, and branches lead to the next instruction. Styles: `fast-models`, `rev3`. The same seed gives the same
//! log.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::io::{self, BufWriter, Write};

use Condition::{Equal, NotAbove, NotEqual};
use Operation::{
    Add, AddRegister, Assign, Branch, Call, Compare, Enter, Exclusive, Jump, Leave, Load, LoadByte, LoadIndex, Low,
    Move, Return, Store, StoreIndex, Sub, SubFlags,
};

/// Address of the program.
const CODE: u64 = 0x8000_0000;
/// Address of its table of numbers.
const TABLE: u64 = 0x8010_0000;
/// Number of words in the table.
const WORDS: usize = 1 << 14;
/// Top of the stack.
const STACK: u64 = 0x8040_0000;
/// Start of the effect lines of Rev 3.
const INDENT: &str = "                    ";

/// The program as labels and operations: an endless loop over four tasks.
const PROGRAM: &[(&str, &[Operation])] = &[
    ("start", &[Move(0, 11), Call("fib"), AddRegister(20, 20, 0)]),
    ("", &[Move(0, 40), Call("sum"), AddRegister(20, 20, 0)]),
    ("", &[Move(0, 25), Call("mix"), AddRegister(20, 20, 0)]),
    ("", &[Move(0, 30), Call("count"), AddRegister(20, 20, 0), Jump("start")]),
    // fib(n): n < 2 ? n : fib(n - 1) + fib(n - 2)
    ("fib", &[Compare(0, 1), Branch(NotAbove, "fib_end"), Enter(0x20), Store(0, 0x10), Sub(0, 0, 1), Call("fib")]),
    ("", &[Load(1, 0x10), Store(0, 0x18), Sub(0, 1, 2), Call("fib")]),
    ("", &[Load(1, 0x18), AddRegister(0, 0, 1), Leave(0x20)]),
    ("fib_end", &[Return]),
    // sum(n): adds table entries from the current index on, and counts odd bytes by a call.
    ("sum", &[Enter(0x20), Assign(3, 0), Move(4, 0)]),
    ("sum_loop", &[Low(5, 21, 14), LoadIndex(6, 22, 5), AddRegister(4, 4, 6), Assign(0, 6), Call("odd")]),
    ("", &[AddRegister(4, 4, 0), Add(21, 21, 7), SubFlags(3, 3, 1), Branch(NotEqual, "sum_loop")]),
    ("", &[Assign(0, 4), Leave(0x20), Return]),
    ("odd", &[Low(0, 0, 1), Compare(0, 0), Branch(Equal, "odd_end"), LoadByte(7, 22, 3), Low(0, 7, 3)]),
    ("odd_end", &[Return]),
    // mix(n): swaps and changes table entries.
    ("mix", &[Enter(0x30), Store(19, 0x10), Assign(19, 0)]),
    ("mix_loop", &[Low(5, 23, 14), LoadIndex(6, 22, 5), Exclusive(6, 6, 23), StoreIndex(6, 22, 5)]),
    ("", &[AddRegister(23, 23, 6), Move(0, 2), Call("count"), SubFlags(19, 19, 1), Branch(NotEqual, "mix_loop")]),
    ("", &[Load(19, 0x10), Leave(0x30), Return]),
    // count(n): a plain loop.
    ("count", &[Move(1, 0)]),
    ("count_loop", &[Add(1, 1, 3), SubFlags(0, 0, 1), Branch(NotEqual, "count_loop"), Assign(0, 1), Return]),
];

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

/// One instruction.
#[derive(Debug)]
struct Code {
    operation: Operation,
    /// Index of the branch target in the program.
    target: usize,
    opcode: u32,
    /// The disassembly.
    text: String,
}

/// Operation of an instruction; numbers are register numbers, immediates and offsets. Loads and stores without a base
/// register use the stack pointer.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Move(usize, u64),
    /// MOV of registers.
    Assign(usize, usize),
    Add(usize, usize, u64),
    Sub(usize, usize, u64),
    SubFlags(usize, usize, u64),
    AddRegister(usize, usize, usize),
    Exclusive(usize, usize, usize),
    /// AND with a mask of low bits.
    Low(usize, usize, u32),
    Compare(usize, u64),
    /// LDR of 8 bytes from a base and a scaled index.
    LoadIndex(usize, usize, usize),
    StoreIndex(usize, usize, usize),
    Load(usize, u64),
    Store(usize, u64),
    LoadByte(usize, usize, u64),
    /// STP of the frame pointer and the link register, allocating the frame.
    Enter(u64),
    /// LDP of both, freeing the frame.
    Leave(u64),
    Call(&'static str),
    Branch(Condition, &'static str),
    Jump(&'static str),
    Return,
}

#[derive(Debug, Clone, Copy)]
enum Condition {
    Equal,
    NotEqual,
    NotAbove,
}

fn program() -> Vec<Code> {
    let index_of = |label: &str| -> usize {
        PROGRAM.iter().take_while(|(name, _)| *name != label).map(|(_, operations)| operations.len()).sum()
    };
    let encoded = |(at, operation): (usize, &Operation)| {
        let target = if let Call(to) | Jump(to) | Branch(_, to) = operation { index_of(to) } else { 0 };
        let (opcode, mnemonic, operands) = encode(at, *operation, target);
        let text = format!("{mnemonic:<9}{operands}").trim_end().to_string();
        Code { operation: *operation, target, opcode, text }
    };
    PROGRAM.iter().flat_map(|(_, operations)| *operations).enumerate().map(encoded).collect()
}

/// Opcode, mnemonic and operands of the instruction at an index.
fn encode(at: usize, operation: Operation, target: usize) -> (u32, &'static str, String) {
    let immediate = |base: u32, d, n, number: u64| base | (number as u32) << 10 | (n as u32) << 5 | d as u32;
    let registers = |base: u32, d, n, m| base | (m as u32) << 16 | (n as u32) << 5 | d as u32;
    let distance = target as i64 - at as i64;
    let sign = if distance < 0 { '-' } else { '+' };
    let to = || format!("{{pc}}{sign}{:#x} ; {:#x}", 4 * distance.abs(), CODE + 4 * target as u64);
    match operation {
        Move(d, number) => (0xd280_0000 | (number as u32) << 5 | d as u32, "MOV", format!("x{d},#{number:#x}")),
        Assign(d, m) => (registers(0xaa00_0000, d, 31, m), "MOV", format!("x{d},x{m}")),
        Add(d, n, number) => (immediate(0x9100_0000, d, n, number), "ADD", format!("x{d},x{n},#{number:#x}")),
        Sub(d, n, number) => (immediate(0xd100_0000, d, n, number), "SUB", format!("x{d},x{n},#{number:#x}")),
        SubFlags(d, n, number) => (immediate(0xf100_0000, d, n, number), "SUBS", format!("x{d},x{n},#{number:#x}")),
        AddRegister(d, n, m) => (registers(0x8b00_0000, d, n, m), "ADD", format!("x{d},x{n},x{m}")),
        Exclusive(d, n, m) => (registers(0xca00_0000, d, n, m), "EOR", format!("x{d},x{n},x{m}")),
        Low(d, n, bits) => {
            (immediate(0x9240_0000, d, n, u64::from(bits - 1)), "AND", format!("x{d},x{n},#{:#x}", (1_u64 << bits) - 1))
        }
        Compare(n, number) => (immediate(0xf100_0000, 31, n, number), "CMP", format!("x{n},#{number:#x}")),
        LoadIndex(t, n, m) => (registers(0xf860_7800, t, n, m), "LDR", format!("x{t},[x{n},x{m},LSL #3]")),
        StoreIndex(t, n, m) => (registers(0xf820_7800, t, n, m), "STR", format!("x{t},[x{n},x{m},LSL #3]")),
        Load(t, offset) => (immediate(0xf940_0000, t, 31, offset / 8), "LDR", format!("x{t},[sp,#{offset:#x}]")),
        Store(t, offset) => (immediate(0xf900_0000, t, 31, offset / 8), "STR", format!("x{t},[sp,#{offset:#x}]")),
        LoadByte(t, n, offset) => (immediate(0x3940_0000, t, n, offset), "LDRB", format!("w{t},[x{n},#{offset:#x}]")),
        Enter(size) => {
            let pairs = (128 - size as u32 / 8) & 0x7f;
            (0xa980_7bfd | pairs << 15, "STP", format!("x29,x30,[sp,#-{size:#x}]!"))
        }
        Leave(size) => (0xa8c0_7bfd | (size as u32 / 8) << 15, "LDP", format!("x29,x30,[sp],#{size:#x}")),
        Call(_) => (0x9400_0000 | distance as u32 & 0x3ff_ffff, "BL", to()),
        Jump(_) => (0x1400_0000 | distance as u32 & 0x3ff_ffff, "B", to()),
        Branch(condition, _) => {
            let (code, name) = match condition {
                Equal => (0, "B.EQ"),
                NotEqual => (1, "B.NE"),
                NotAbove => (9, "B.LS"),
            };
            (0x5400_0000 | (distance as u32 & 0x7_ffff) << 5 | code, name, to())
        }
        Return => (0xd65f_03c0, "RET", String::new()),
    }
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
        let table = table.collect();
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
        let mut effects = Effects::default();
        self.at += 1;
        self.execute(&program[at], &mut effects);
        log.instruction(self.count, CODE + 4 * at as u64, &program[at], &effects)?;
        self.count += 1;
        Ok(())
    }

    fn execute(&mut self, code: &Code, effects: &mut Effects) {
        match code.operation {
            Move(d, number) => self.set(d, number, effects),
            Assign(d, m) => self.set(d, self.x[m], effects),
            Add(d, n, number) => self.set(d, self.x[n].wrapping_add(number), effects),
            Sub(d, n, number) => self.set(d, self.x[n].wrapping_sub(number), effects),
            SubFlags(d, n, number) => {
                let left = self.x[n];
                self.set(d, left.wrapping_sub(number), effects);
                self.compare(left, number, effects);
            }
            AddRegister(d, n, m) => self.set(d, self.x[n].wrapping_add(self.x[m]), effects),
            Exclusive(d, n, m) => self.set(d, self.x[n] ^ self.x[m], effects),
            Low(d, n, bits) => self.set(d, self.x[n] & ((1 << bits) - 1), effects),
            Compare(n, number) => self.compare(self.x[n], number, effects),
            LoadIndex(t, n, m) => self.load(t, self.x[n] + 8 * self.x[m], effects),
            StoreIndex(t, n, m) => self.store(t, self.x[n] + 8 * self.x[m], effects),
            Load(t, offset) => self.load(t, self.x[31] + offset, effects),
            Store(t, offset) => self.store(t, self.x[31] + offset, effects),
            LoadByte(t, n, offset) => {
                let address = self.x[n] + offset;
                let byte = *self.memory(address & !7) >> (8 * (address & 7)) & 0xff;
                effects.memory.push((true, address, 1, byte));
                self.set(t, byte, effects);
            }
            Enter(size) => {
                let base = self.x[31] - size;
                self.store(29, base, effects);
                self.store(30, base + 8, effects);
                self.set(31, base, effects);
            }
            Leave(size) => {
                let base = self.x[31];
                self.load(29, base, effects);
                self.load(30, base + 8, effects);
                self.set(31, base + size, effects);
            }
            Call(_) => {
                self.set(30, CODE + 4 * self.at as u64, effects);
                self.go(code.target, effects);
            }
            Jump(_) => self.go(code.target, effects),
            Branch(condition, _) => {
                let (_, z, c) = self.flags;
                let is_taken = match condition {
                    Equal => z,
                    NotEqual => !z,
                    NotAbove => z || !c,
                };
                effects.is_skipped = !is_taken;
                if is_taken {
                    self.go(code.target, effects);
                }
            }
            Return => self.go(((self.x[30] - CODE) / 4) as usize, effects),
        }
    }

    fn go(&mut self, target: usize, effects: &mut Effects) {
        self.at = target;
        effects.branch = Some(CODE + 4 * target as u64);
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
            self.line(&format!("{INDENT}R SP_EL3 {STACK:016x}"))?;
            return self.line(&format!("{INDENT}BR ({CODE:016x}) O"));
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
        self.registers(&format!("{count} clk "), effects, "cpsr")
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
            let digits = |byte: &Option<u8>| byte.map_or("..".into(), |byte| format!("{byte:02x}"));
            let groups = bytes.rchunks(4).map(|group| group.iter().rev().map(digits).collect());
            let groups = groups.collect::<Vec<String>>().join(" ");
            self.line(&format!("{INDENT}{tag} {base:016x} {groups}    S:{base:010x}    NM ISH IWBRWA OWBRWA"))?;
        }
        self.registers(INDENT, effects, "CPSR")?;
        effects.branch.map_or(Ok(()), |target| self.line(&format!("{INDENT}BR ({target:016x}) O")))
    }

    fn registers(&mut self, start: &str, effects: &Effects, status: &str) -> io::Result<()> {
        for (register, value) in &effects.registers {
            match register {
                31 => self.line(&format!("{start}R SP_EL3 {value:016x}"))?,
                _ => self.line(&format!("{start}R X{register} {value:016x}"))?,
            }
        }
        effects.flags.map_or(Ok(()), |flags| self.line(&format!("{start}R {status} {flags:08x}")))
    }
}
