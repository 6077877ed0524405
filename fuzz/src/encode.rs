//! The trace unit and the encoder: any settings and any steps become a capture, which decodes to the same steps.
//!
//! Input: byte 0 selects options (see [`Choice`]), byte 1 is the number of registers that follow: each is a byte that selects
//! a name, and a word. Then sixteen instructions, each a byte that selects an opcode or, after 0xff, a word that is one; then
//! the execution, one byte per step, see [`Script`].
//!
//! Checked: steps that cannot be encoded are refused with a reason; the decoded instructions were executed, in order, and the
//! decoder reports no problem; no instruction is missing except those that a filter excludes, that a Q element counts, or that
//! the encoder itself was not sure of.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use unspool::encode::{EncodeOptions, Encoded, Encoder};
use unspool::{Program, Trace, Watch};
use unspool_capture::Capture;
use unspool_coresight::etm4::unit::Settings;
use unspool_coresight::{Protocol, Transactions};
use unspool_flow::{Around, FlowItem, Instruction as Decoded, InstructionSink, Item};
use unspool_isa::decode;
use unspool_model::{
    Branch, Context, Event, Exception, ExceptionKind, Gap, Instruction, Isa, Security, SinkError, Step, TimeUnit,
};

use crate::setup::{byte, word};
use crate::walk::scratch;

/// Options of a capture. Bit 0: the protocol.
#[derive(Debug, Clone, Copy)]
pub struct Choice(pub u8);

impl Choice {
    fn has(self, bit: u8) -> bool {
        self.0 >> bit & 1 != 0
    }

    /// Bits 1 and 2: A64, A32, T32, or the last two in turn.
    fn isa(self, slot: usize) -> Isa {
        match self.0 >> 1 & 3 {
            0 => Isa::A64,
            1 => Isa::A32,
            2 => Isa::T32,
            _ if slot % 8 < 4 => Isa::A32,
            _ => Isa::T32,
        }
    }

    /// Bits 3 to 5: guesses, Q elements, source addresses. Bit 6: frames. Bit 7: times are cycles.
    fn options(self, settings: Settings) -> EncodeOptions {
        let mut settings = settings;
        settings.guess_seed = self.has(3).then_some(7);
        settings.q_seed = self.has(4).then_some(9);
        settings.source_addresses = self.has(5);
        let time_unit = if self.has(7) { TimeUnit::Cycles } else { TimeUnit::Unknown };
        let settings = settings.into();
        EncodeOptions { settings, formatted: self.has(6), buffer: None, time_unit, replace: false, events: None }
    }
}

/// Registers without a number; the numbered ones follow them.
const SINGLE: &str = "TRCCONFIGR TRCVICTLR TRCVIIECTLR TRCVISSCTLR TRCSYNCPR TRCCCCTLR TRCBBCTLR TRCTSCTLR TRCQCTLR \
                      TRCEVENTCTL0R TRCEVENTCTL1R TRCTRACEIDR TRCIDR0 TRCIDR1 TRCIDR2 TRCIDR8 TRCDEVARCH TRCIDR3";
const NUMBERED: [(&str, u8); 9] = [
    ("TRCACVR", 16),
    ("TRCACATR", 16),
    ("TRCRSCTLR", 32),
    ("TRCCIDCVR", 8),
    ("TRCCIDCCTLR", 2),
    ("TRCVMIDCVR", 8),
    ("TRCVMIDCCTLR", 2),
    ("TRCSSCCR", 8),
    ("TRCSSCSR", 8),
];
const SLOTS: usize = 16;
/// Address of the instructions; the last four of A64 are far away.
const BASE: u64 = 0x40_0000;
const FAR: u64 = 0xffff_8000_0008_0000;

/// The name of the register that a byte selects.
pub fn register(choice: u8) -> String {
    let single: Vec<&str> = SINGLE.split_whitespace().collect();
    if let Some(name) = single.get(usize::from(choice)) {
        return (*name).to_string();
    }
    let mut number = choice - single.len() as u8;
    for (name, count) in NUMBERED {
        if number < count {
            return format!("{name}{number}");
        }
        number -= count;
    }
    single[usize::from(number) % single.len()].to_string()
}

/// Checks all properties for these bytes.
pub fn check(mut data: &[u8]) {
    let choice = Choice(byte(&mut data));
    let Some(settings) = settings(choice, &mut data) else { return };
    let silent = has_bits(&settings, "TRCCONFIGR", 0x4000) && choice.has(4);
    let filters = filters(&settings);
    let slots = slots(choice, &mut data);
    let steps = Script { slots: &slots, data, at: 0, time: 0 }.steps();
    let directory = directory();
    let _ = fs::remove_dir_all(directory);
    let encoded = match encode(directory, choice.options(settings), &steps) {
        Ok(encoded) => encoded,
        Err(SinkError::Refused { reason, .. }) => return assert!(!reason.is_empty()),
        Err(error) => panic!("{error}"),
    };
    let decoded = decode_capture(directory);
    let mut executed = steps.iter().filter_map(|step| step.event.instruction());
    for (number, (address, opcode)) in decoded.instructions.iter().enumerate() {
        let is_it = |step: &Instruction| (step.address, step.opcode) == (*address, Some(*opcode));
        assert!(executed.any(is_it), "instruction {number} at {address:#x} was not executed");
    }
    assert_eq!(decoded.problem, None, "after {} instructions", decoded.instructions.len());
    let found = decoded.instructions.len() as u64 + decoded.counted;
    assert!(found <= encoded.instructions, "{found} of {}", encoded.instructions);
    if !filters && !silent {
        assert_eq!(found, encoded.instructions, "instructions are missing");
    }
}

fn settings(choice: Choice, data: &mut &[u8]) -> Option<Settings> {
    let mut settings = Settings::new(if choice.has(0) { Protocol::Etm4 } else { Protocol::Ete });
    for _ in 0..byte(data) % 32 {
        let (name, value) = (register(byte(data)), word(data));
        let is_comparator = name.starts_with("TRCACVR") && value >> 31 == 0;
        let value = if is_comparator { BASE + u64::from(value & 0x3f) } else { u64::from(value) };
        settings.set(&name, value);
    }
    // The trace of other versions is another one.
    settings.get("TRCTRACEIDR").is_some_and(|id| (1..0x70).contains(&(id & 0x7f))).then_some(settings)
}

fn has_bits(settings: &Settings, register: &str, bits: u64) -> bool {
    settings.get(register).unwrap_or(0) & bits != 0
}

fn filters(settings: &Settings) -> bool {
    let view = settings.get("TRCVICTLR").unwrap_or(0);
    view & 0xff != 1
        || view & 0x07ff_0200 != 0x200
        || has_bits(settings, "TRCVIIECTLR", u64::MAX)
        || has_bits(settings, "TRCVISSCTLR", u64::MAX)
}

/// An instruction: address, opcode, length, instruction set.
type Slot = (u64, u32, u8, Isa);

fn slots(choice: Choice, data: &mut &[u8]) -> Vec<Slot> {
    let mut slots: Vec<Slot> = vec![];
    let mut address = BASE;
    for number in 0..SLOTS {
        let isa = choice.isa(number);
        if number == 12 && isa == Isa::A64 {
            address = FAR;
        }
        let kind = byte(data);
        let opcode = if kind == 0xff { word(data) } else { opcode(isa, kind) };
        // Only the first halfword encodes the length of an instruction.
        let opcode = if isa == Isa::T32 && opcode >> 16 < 0xe800 { opcode & 0xffff } else { opcode };
        let opcode = if isa == Isa::T32 && opcode >> 16 == 0 && opcode >= 0xe800 { 0xbf00 } else { opcode };
        address = address.next_multiple_of(if isa == Isa::T32 { 2 } else { 4 });
        let length = decode(isa, address, opcode).length;
        slots.push((address, opcode, length, isa));
        address += u64::from(length);
    }
    slots
}

/// Nops, branches to near addresses, calls, returns, barriers, exception returns.
fn opcode(isa: Isa, kind: u8) -> u32 {
    let back = u32::from(kind >> 4);
    let choose = |opcodes: &[u32]| opcodes[usize::from(kind & 15) % opcodes.len()];
    match isa {
        Isa::A64 => choose(&[
            0xd503_201f,
            0x5400_0001 | (0x7_ffff & back.wrapping_sub(8)) << 5,
            0x1400_0000 | 0x3ff_ffff & back.wrapping_sub(8),
            0x9400_0000 | back,
            0xd63f_0020,
            0xd61f_0020,
            0xd65f_03c0,
            0xd69f_03e0,
            0xd503_3fdf,
            0xd400_0001,
            0xd503_207f,
        ]),
        Isa::A32 => choose(&[
            0xe320_f000,
            0x1a00_0000 | 0xff_ffff & back.wrapping_sub(8),
            0xea00_0000 | 0xff_ffff & back.wrapping_sub(8),
            0xeb00_0000 | back,
            0xe12f_ff31,
            0xe12f_ff11,
            0xe12f_ff1e,
            0xe1b0_f00e,
            0xf57f_f06f,
            0x0a00_0001,
            0xfa00_0000 | back,
        ]),
        _ => choose(&[
            0xbf00,
            0xd100 | 0xff & back.wrapping_sub(8),
            0xe000 | 0x7ff & back.wrapping_sub(8),
            0xf000_f800 | back,
            0x4788,
            0x4708,
            0x4770,
            0xf3de_8f00,
            0xf3bf_8f6f,
            0xbf08,
            0xf3af_8000,
            0xb100 | back << 3,
        ]),
    }
}

/// The execution. The highest two bits of a byte define it: 0: this instruction, and the next one follows; 1: the one of the
/// low four bits follows; 2: the same, and the step has a branch (bit 4: taken, bit 5: its target); 3: anything else.
struct Script<'d> {
    slots: &'d [Slot],
    data: &'d [u8],
    at: usize,
    time: u64,
}

impl Script<'_> {
    fn steps(mut self) -> Vec<Step> {
        let mut steps = vec![];
        while !self.data.is_empty() {
            let code = byte(&mut self.data);
            let event = self.event(code);
            let mut step = Step::default();
            (step.event, step.time) = (event, (self.time != 0).then_some(self.time));
            step.position = steps.len() as u64;
            steps.push(step);
        }
        steps
    }

    fn event(&mut self, code: u8) -> Event {
        let (address, opcode, length, isa) = self.slots[self.at];
        let to = usize::from(code & 15);
        let target = (code >> 5 & 1 == 1).then_some(self.slots[to].0);
        let branch = (code >> 6 == 2).then_some(Branch { taken: code >> 4 & 1 == 1, target });
        self.at = match code >> 6 {
            0 => (self.at + 1) % SLOTS,
            1 | 2 => to,
            _ => return self.other(code & 0x3f),
        };
        let opcode = Some(opcode);
        Event::Instruction(Instruction { address, opcode, length, isa, is_executed: None, branch, za_index: None })
    }

    fn other(&mut self, code: u8) -> Event {
        let more = byte(&mut self.data);
        match code >> 3 {
            0 | 1 => self.exception(code & 7, more),
            2 | 3 => Event::Context(Context {
                level: (code & 1 == 0).then_some(more & 3),
                security: (code & 2 == 0).then_some(
                    [Security::Secure, Security::NonSecure, Security::Root, Security::Realm]
                        [usize::from(more >> 2 & 3)],
                ),
                process: (code & 4 == 0).then_some(u64::from(more >> 4)),
                vmid: (code & 4 != 0).then_some(u32::from(more >> 5)),
                ..Context::default()
            }),
            4 => Event::Gap([Gap::Start, Gap::Overflow, Gap::Discard, Gap::Damaged][usize::from(code & 3)]),
            5 => {
                self.time = self.time.wrapping_add(u64::from(more));
                Event::State
            }
            6 => {
                self.time = u64::from(more) << (8 * u32::from(code & 7));
                Event::State
            }
            _ => Event::ExceptionReturn { target: None },
        }
    }

    fn exception(&mut self, kind: u8, more: u8) -> Event {
        let kind = [
            ExceptionKind::Unknown,
            ExceptionKind::Reset,
            ExceptionKind::Synchronous,
            ExceptionKind::Irq,
            ExceptionKind::Fiq,
            ExceptionKind::SError,
            ExceptionKind::Debug,
            ExceptionKind::Synchronous,
        ][usize::from(kind)];
        let position = if more & 0x40 == 0 { self.at } else { usize::from(more & 15) };
        let return_address = (more >> 7 == 0).then_some(self.slots[position].0);
        self.at = usize::from(more >> 2 & 15);
        Event::Exception(Exception { kind, return_address, ..Exception::default() })
    }
}

fn directory() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| scratch("encode").join("capture"))
}

fn encode(directory: &Path, options: EncodeOptions, steps: &[Step]) -> Result<Encoded, SinkError> {
    let mut encoder = Encoder::new(directory, options)?;
    steps.iter().try_for_each(|step| encoder.push(step))?;
    encoder.finish()
}

#[derive(Default)]
struct DecodedTrace {
    /// Addresses and opcodes.
    instructions: Vec<(u64, u32)>,
    /// Instructions of Q elements.
    counted: u64,
    problem: Option<String>,
}

impl InstructionSink for DecodedTrace {
    fn instruction(&mut self, instruction: &Decoded, _: &Around) {
        self.instructions.push((instruction.address, instruction.opcode));
    }

    fn item(&mut self, item: FlowItem) {
        match item {
            Ok(item) => match item.value {
                Item::Q { instructions, .. } => self.counted += u64::from(instructions.unwrap_or(0)),
                Item::NoCode { .. } | Item::Lost { .. } | Item::Finding(_) => {
                    self.problem.get_or_insert_with(|| format!("{:?} at {:#x}", item.value, item.offset));
                }
                _ => {}
            },
            Err(error) => {
                self.problem.get_or_insert_with(|| error.to_string());
            }
        }
    }
}

impl Watch for DecodedTrace {}

fn decode_capture(directory: &Path) -> DecodedTrace {
    let capture = Capture::open(directory).expect("an encoded capture opens");
    let traces = Trace::all(&capture);
    let (program, _) = Program::of(&capture, traces[0].source().core, &[]);
    let mut decoded = DecodedTrace::default();
    traces[0].instructions(Transactions::Show, &program, &mut decoded).expect("an encoded trace can be read");
    decoded
}
