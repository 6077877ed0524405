//! Comments with our words, written.
//!
//! what a step says ─▶ **comment** of [`super::words`]

use unspool_model::{Access, Branch, Context, Direction, Event, Exception, Gap, Instruction, Isa, RegisterWrite, Step};

use super::super::record::descriptor;
use super::words::{KINDS, OURS, Part, SECURITIES};

/// A comment that is being written.
pub(super) struct Saying<'v> {
    bytes: &'v mut Vec<u8>,
    /// Where its length is.
    length: usize,
}

impl<'v> Saying<'v> {
    /// Starts one. The next one of the same bytes counts when this does.
    #[inline]
    pub(super) fn new(bytes: &'v mut Vec<u8>, part: &mut Part) -> Self {
        bytes.push(descriptor::COMMENT);
        let length = bytes.len();
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(OURS.as_bytes());
        let mut saying = Self { bytes, length };
        match std::mem::replace(part, Part::Same) {
            Part::Same => {}
            Part::Now => saying.word("now"),
            Part::Then => saying.word("then"),
        }
        saying
    }

    /// Without our name before it.
    pub(super) fn plain(bytes: &'v mut Vec<u8>, text: &str) {
        bytes.push(descriptor::COMMENT);
        bytes.extend_from_slice(&length_of(text.len()).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }

    #[inline]
    pub(super) fn word(&mut self, word: &str) {
        self.bytes.push(b' ');
        self.bytes.extend_from_slice(word.as_bytes());
    }

    #[inline]
    pub(super) fn decimal(&mut self, name: &str, mut number: u64) {
        self.word(name);
        let mut text = [0; 20];
        let mut start = text.len();
        loop {
            start -= 1;
            text[start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.bytes.extend_from_slice(&text[start..]);
    }

    #[inline]
    fn hex(&mut self, name: &str, number: u64) {
        self.word(name);
        self.bytes.extend_from_slice(b"0x");
        let digits = (64 - number.leading_zeros()).div_ceil(4).max(1);
        let shifts = (0..digits).rev().map(|digit| digit * 4);
        self.bytes.extend(shifts.map(|shift| DIGITS[(number >> shift & 0xf) as usize]));
    }

    fn yes_or_no(&mut self, name: &str, is_so: bool) {
        self.word(name);
        self.bytes.extend_from_slice(if is_so { b"yes" } else { b"no" });
    }

    /// Bytes, the lowest first.
    #[inline]
    fn data(&mut self, bytes: &[(u8, u8)]) {
        if bytes.is_empty() {
            return;
        }
        self.bytes.push(b' ');
        for (value, known) in bytes {
            match (value, known) {
                (_, 0xff) => self.bytes.extend_from_slice(&digits(*value)),
                (0, 0) => self.bytes.extend_from_slice(b".."),
                _ => {
                    self.bytes.extend_from_slice(&digits(*value));
                    self.bytes.push(b'/');
                    self.bytes.extend_from_slice(&digits(*known));
                }
            }
        }
    }

    /// The comment is complete.
    #[inline]
    pub(super) fn end(self) {
        let length = length_of(self.bytes.len() - self.length - 4);
        self.bytes[self.length..self.length + 4].copy_from_slice(&length.to_le_bytes());
    }
}

/// What is longer than four gigabytes is refused long before.
fn length_of(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

#[inline]
fn digits(byte: u8) -> [u8; 2] {
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 0xf)]]
}

/// The time from here on. `later`: than the time before.
#[inline]
pub(super) fn time(bytes: &mut Vec<u8>, part: &mut Part, time: Option<u64>, later: Option<u64>) {
    let mut saying = Saying::new(bytes, part);
    match (time, later) {
        (_, Some(later)) => saying.decimal("+", later),
        (Some(time), None) => saying.decimal("time ", time),
        (None, None) => saying.word("time unknown"),
    }
    saying.end();
}

pub(super) fn isa(bytes: &mut Vec<u8>, part: &mut Part, isa: Isa) {
    let mut saying = Saying::new(bytes, part);
    saying.word("isa");
    saying.word(isa.name());
    saying.end();
}

pub(super) fn executed(bytes: &mut Vec<u8>, part: &mut Part, is_executed: Option<bool>) {
    let mut saying = Saying::new(bytes, part);
    match is_executed {
        Some(is_executed) => saying.yes_or_no("executed ", is_executed),
        None => saying.word("executed unknown"),
    }
    saying.end();
}

pub(super) fn branch(bytes: &mut Vec<u8>, part: &mut Part, branch: Option<Branch>) {
    let mut saying = Saying::new(bytes, part);
    match branch {
        None => saying.word("branch unknown"),
        Some(Branch { taken, target }) => {
            saying.word(if taken { "branch taken" } else { "branch not-taken" });
            target.into_iter().for_each(|target| saying.hex("", target));
        }
    }
    saying.end();
}

pub(super) fn za(bytes: &mut Vec<u8>, part: &mut Part, index: u8) {
    let mut saying = Saying::new(bytes, part);
    saying.decimal("za ", index.into());
    saying.end();
}

pub(super) fn tagged(bytes: &mut Vec<u8>, part: &mut Part) {
    let mut saying = Saying::new(bytes, part);
    saying.word("tagged");
    saying.end();
}

#[inline]
pub(super) fn access(bytes: &mut Vec<u8>, part: &mut Part, access: &Access<'_>) {
    let mut saying = Saying::new(bytes, part);
    let direction = match access.direction {
        Direction::Read => "read ",
        Direction::Write => "write ",
        Direction::Both => "both ",
        Direction::Neither => "neither ",
    };
    saying.hex(direction, access.address);
    saying.decimal("", access.size);
    if access.is_tagged {
        saying.word("tagged");
    }
    saying.data(access.bytes);
    saying.end();
}

#[inline]
pub(super) fn register(bytes: &mut Vec<u8>, part: &mut Part, write: &RegisterWrite<'_>) {
    let mut saying = Saying::new(bytes, part);
    saying.word("reg ");
    for byte in name_bytes(write.name) {
        match byte {
            b'!'..=b'~' if byte != b'%' => saying.bytes.push(byte),
            _ => {
                let [high, low] = digits(byte);
                saying.bytes.extend_from_slice(&[b'%', high, low]);
            }
        }
    }
    saying.decimal("", write.low.into());
    saying.data(write.bytes);
    saying.end();
}

/// A register without a name has one that no other has.
fn name_bytes(name: &str) -> impl Iterator<Item = u8> {
    let none: &[u8] = if name.is_empty() { b"\0" } else { b"" };
    none.iter().copied().chain(name.bytes())
}

/// All registers and accesses of a step.
pub(super) fn effects(bytes: &mut Vec<u8>, step: &Step) {
    let part = &mut Part::Same;
    step.registers().for_each(|write| register(bytes, part, &write));
    step.accesses().for_each(|touch| access(bytes, part, &touch));
}

/// A step of its own, without its effects.
pub(super) fn step(bytes: &mut Vec<u8>, part: &mut Part, step: &Step) {
    if step.event == Event::Note && *part == Part::Same && !step.note().starts_with(OURS) {
        return Saying::plain(bytes, step.note());
    }
    let mut saying = Saying::new(bytes, part);
    match &step.event {
        Event::State => saying.word("state"),
        Event::Instruction(instruction) => say_instruction(&mut saying, instruction),
        Event::Exception(exception) => {
            say_exception(&mut saying, exception);
            exception.target.into_iter().for_each(|target| saying.hex("target=", target));
        }
        Event::ExceptionReturn { target } => say_return(&mut saying, *target),
        Event::Context(context) => say_context(&mut saying, context),
        Event::Gap(gap) => say_gap(&mut saying, *gap),
        Event::Note => {
            saying.word("note ");
            saying.bytes.extend_from_slice(step.note().as_bytes());
        }
    }
    saying.end();
}

/// An exception whose target a record tells.
pub(super) fn exception(bytes: &mut Vec<u8>, part: &mut Part, exception: &Exception) {
    let mut saying = Saying::new(bytes, part);
    say_exception(&mut saying, exception);
    saying.end();
}

fn say_exception(saying: &mut Saying<'_>, exception: &Exception) {
    saying.word("exception");
    let name = KINDS.iter().find(|kind| kind.0 == exception.kind).map_or("unknown", |kind| kind.1);
    saying.word(name);
    exception.class.into_iter().for_each(|class| saying.hex("class=", class.into()));
    exception.call.into_iter().for_each(|call| saying.decimal("call=", call.into()));
    exception.is_virtual.into_iter().for_each(|is_virtual| saying.yes_or_no("virtual=", is_virtual));
    exception.return_address.into_iter().for_each(|address| saying.hex("return=", address));
}

fn say_return(saying: &mut Saying<'_>, target: Option<u64>) {
    saying.word("return");
    target.into_iter().for_each(|target| saying.hex("", target));
}

fn say_instruction(saying: &mut Saying<'_>, instruction: &Instruction) {
    saying.hex("instruction ", instruction.address);
    saying.word("isa=");
    saying.bytes.extend_from_slice(instruction.isa.name().as_bytes());
    saying.decimal("length=", instruction.length.into());
    instruction.opcode.into_iter().for_each(|opcode| saying.hex("opcode=", opcode.into()));
    instruction.is_executed.into_iter().for_each(|is_executed| saying.yes_or_no("executed=", is_executed));
    if let Some(Branch { taken, target }) = instruction.branch {
        saying.yes_or_no("taken=", taken);
        target.into_iter().for_each(|target| saying.hex("target=", target));
    }
    instruction.za_index.into_iter().for_each(|index| saying.decimal("za=", index.into()));
}

fn say_context(saying: &mut Saying<'_>, context: &Context) {
    saying.word("context");
    context.level.into_iter().for_each(|level| saying.decimal("el=", level.into()));
    if let Some((_, name)) = SECURITIES.iter().find(|security| Some(security.0) == context.security) {
        saying.word("security=");
        saying.bytes.extend_from_slice(name.as_bytes());
    }
    context.is_aarch64.into_iter().for_each(|is_aarch64| saying.yes_or_no("aarch64=", is_aarch64));
    context.is_handler.into_iter().for_each(|is_handler| saying.yes_or_no("handler=", is_handler));
    context.process.into_iter().for_each(|process| saying.decimal("pid=", process));
    context.thread.into_iter().for_each(|thread| saying.decimal("tid=", thread));
    context.vmid.into_iter().for_each(|vmid| saying.decimal("vmid=", vmid.into()));
    if let Some(modes) = context.modes {
        saying.yes_or_no("streaming=", modes.streaming);
        saying.yes_or_no("dit=", modes.dit);
        saying.yes_or_no("ssbs=", modes.ssbs);
        saying.decimal("vl=", modes.vector_length.into());
        saying.decimal("tcf=", modes.tag_check_fault.into());
    }
}

fn say_gap(saying: &mut Saying<'_>, gap: Gap) {
    saying.word("gap");
    match gap {
        Gap::Start => saying.word("start"),
        Gap::Overflow => saying.word("overflow"),
        Gap::Discard => saying.word("discard"),
        Gap::NoCode(address) => saying.hex("no-code ", address),
        Gap::Damaged => saying.word("damaged"),
        Gap::Contradiction => saying.word("contradiction"),
        Gap::TransactionFailed => saying.word("transaction-failed"),
    }
}
