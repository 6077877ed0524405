//! Annotations written as comment records: the counterpart of [`super::annotation`].
//!
//! part of a step ─▶ **annotation** ─▶ comment record

use unspool_model::digits::{push_decimal, push_hex, push_short_hex};
use unspool_model::{Access, Branch, Context, Direction, Event, Exception, Gap, Instruction, Isa, RegisterWrite, Step};

use super::super::record::descriptor;
use super::annotation::{EXCEPTION_KINDS, PREFIX, Part, SECURITY_STATES};

/// Appends annotations to records. Each needs the part that it belongs to, which the next one then shares.
#[derive(Debug, Default)]
pub(super) struct AnnotationWriter {
    /// The current annotation; kept for its memory.
    text: Text,
}

impl AnnotationWriter {
    #[inline]
    fn write(&mut self, out: &mut Vec<u8>, part: &mut Part, content: impl FnOnce(&mut Text)) {
        self.text.0.clear();
        self.text.0.push_str(PREFIX);
        match std::mem::replace(part, Part::Same) {
            Part::Same => {}
            Part::Now => self.text.word("now"),
            Part::Then => self.text.word("then"),
        }
        content(&mut self.text);
        push_comment(out, &self.text.0);
    }

    /// Starts a part of a group.
    pub(super) fn part(&mut self, out: &mut Vec<u8>, mut part: Part) {
        self.write(out, &mut part, |_| {});
    }

    /// Changes the time, by `delta` if it is given.
    #[inline]
    pub(super) fn time(&mut self, out: &mut Vec<u8>, part: &mut Part, time: Option<u64>, delta: Option<u64>) {
        self.write(out, part, |text| match (time, delta) {
            (_, Some(delta)) => text.decimal("+", delta),
            (Some(time), None) => text.decimal("time ", time),
            (None, None) => text.word("time unknown"),
        });
    }

    pub(super) fn isa(&mut self, out: &mut Vec<u8>, part: &mut Part, isa: Isa) {
        self.write(out, part, |text| text.named("isa ", isa.name()));
    }

    pub(super) fn executed(&mut self, out: &mut Vec<u8>, part: &mut Part, is_executed: Option<bool>) {
        self.write(out, part, |text| match is_executed {
            Some(is_executed) => text.yes_or_no("executed ", is_executed),
            None => text.word("executed unknown"),
        });
    }

    pub(super) fn branch(&mut self, out: &mut Vec<u8>, part: &mut Part, branch: Option<Branch>) {
        self.write(out, part, |text| match branch {
            None => text.word("branch unknown"),
            Some(Branch { taken, target }) => {
                text.word(if taken { "branch taken" } else { "branch not-taken" });
                target.into_iter().for_each(|target| text.hex("", target));
            }
        });
    }

    pub(super) fn za(&mut self, out: &mut Vec<u8>, part: &mut Part, index: u8) {
        self.write(out, part, |text| text.decimal("za ", index.into()));
    }

    pub(super) fn tagged(&mut self, out: &mut Vec<u8>, part: &mut Part) {
        self.write(out, part, |text| text.word("tagged"));
    }

    #[inline]
    pub(super) fn access(&mut self, out: &mut Vec<u8>, part: &mut Part, access: &Access<'_>) {
        let direction = match access.direction {
            Direction::Read => "read ",
            Direction::Write => "write ",
            Direction::Both => "both ",
            Direction::Neither => "neither ",
        };
        self.write(out, part, |text| {
            text.hex(direction, access.address);
            text.decimal("", access.size);
            if access.is_tagged {
                text.word("tagged");
            }
            text.data(access.bytes);
        });
    }

    #[inline]
    pub(super) fn register(&mut self, out: &mut Vec<u8>, part: &mut Part, write: &RegisterWrite<'_>) {
        self.write(out, part, |text| {
            text.word("reg ");
            text.escaped(if write.name.is_empty() { "\0" } else { write.name });
            text.decimal("", write.low.into());
            text.data(write.bytes);
        });
    }

    /// Writes all registers and accesses of a step.
    pub(super) fn effects(&mut self, out: &mut Vec<u8>, step: &Step) {
        let part = &mut Part::Same;
        step.registers().for_each(|write| self.register(out, part, &write));
        step.accesses().for_each(|access| self.access(out, part, &access));
    }

    /// Writes a step of its own, without its effects.
    pub(super) fn step(&mut self, out: &mut Vec<u8>, part: &mut Part, step: &Step) {
        if step.event == Event::Note && *part == Part::Same && !step.note().starts_with(PREFIX) {
            return push_comment(out, step.note());
        }
        self.write(out, part, |text| match &step.event {
            Event::State => text.word("state"),
            Event::Instruction(instruction) => text.instruction(instruction),
            Event::Exception(exception) => {
                text.exception(exception);
                exception.target.into_iter().for_each(|target| text.hex("target=", target));
            }
            Event::ExceptionReturn { target } => {
                text.word("return");
                target.iter().for_each(|target| text.hex("", *target));
            }
            Event::Context(context) => text.context(context),
            Event::Gap(gap) => text.gap(*gap),
            Event::Note => text.named("note ", step.note()),
        });
    }

    /// Writes an exception whose target is in a record.
    pub(super) fn exception(&mut self, out: &mut Vec<u8>, part: &mut Part, exception: &Exception) {
        self.write(out, part, |text| text.exception(exception));
    }
}

#[inline]
fn push_comment(out: &mut Vec<u8>, text: &str) {
    out.push(descriptor::COMMENT);
    // Text of more than four gigabytes is refused long before.
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// The text of an annotation: words, each preceded by a space.
#[derive(Debug, Default)]
struct Text(String);

impl Text {
    #[inline]
    fn word(&mut self, word: &str) {
        self.0.push(' ');
        self.0.push_str(word);
    }

    fn named(&mut self, name: &str, value: &str) {
        self.word(name);
        self.0.push_str(value);
    }

    #[inline]
    fn decimal(&mut self, name: &str, number: u64) {
        self.word(name);
        push_decimal(&mut self.0, number);
    }

    #[inline]
    fn hex(&mut self, name: &str, number: u64) {
        self.word(name);
        push_short_hex(&mut self.0, number);
    }

    fn yes_or_no(&mut self, name: &str, value: bool) {
        self.named(name, if value { "yes" } else { "no" });
    }

    /// Appends a name without spaces: escapes everything but printable characters. An empty name is a zero byte.
    fn escaped(&mut self, name: &str) {
        for byte in name.bytes() {
            match byte {
                b'!'..=b'~' if byte != b'%' => self.0.push(char::from(byte)),
                _ => {
                    self.0.push('%');
                    push_hex(&mut self.0, &[byte]);
                }
            }
        }
    }

    /// Appends bytes with masks of their known bits, the lowest byte first.
    #[inline]
    fn data(&mut self, bytes: &[(u8, u8)]) {
        if bytes.is_empty() {
            return;
        }
        self.0.push(' ');
        for (value, known) in bytes {
            match (value, known) {
                (_, 0xff) => push_hex(&mut self.0, &[*value]),
                (0, 0) => self.0.push_str(".."),
                _ => {
                    push_hex(&mut self.0, &[*value]);
                    self.0.push('/');
                    push_hex(&mut self.0, &[*known]);
                }
            }
        }
    }

    fn exception(&mut self, exception: &Exception) {
        let name = EXCEPTION_KINDS.iter().find(|kind| kind.0 == exception.kind).map_or("unknown", |kind| kind.1);
        self.named("exception ", name);
        exception.class.into_iter().for_each(|class| self.hex("class=", class.into()));
        exception.call.into_iter().for_each(|call| self.decimal("call=", call.into()));
        exception.is_virtual.into_iter().for_each(|is_virtual| self.yes_or_no("virtual=", is_virtual));
        exception.return_address.into_iter().for_each(|address| self.hex("return=", address));
    }

    fn instruction(&mut self, instruction: &Instruction) {
        self.hex("instruction ", instruction.address);
        self.named("isa=", instruction.isa.name());
        self.decimal("length=", instruction.length.into());
        instruction.opcode.into_iter().for_each(|opcode| self.hex("opcode=", opcode.into()));
        instruction.is_executed.into_iter().for_each(|is_executed| self.yes_or_no("executed=", is_executed));
        if let Some(Branch { taken, target }) = instruction.branch {
            self.yes_or_no("taken=", taken);
            target.into_iter().for_each(|target| self.hex("target=", target));
        }
        instruction.za_index.into_iter().for_each(|index| self.decimal("za=", index.into()));
    }

    fn context(&mut self, context: &Context) {
        self.word("context");
        context.level.into_iter().for_each(|level| self.decimal("el=", level.into()));
        if let Some((_, name)) = SECURITY_STATES.iter().find(|security| Some(security.0) == context.security) {
            self.named("security=", name);
        }
        context.is_aarch64.into_iter().for_each(|is_aarch64| self.yes_or_no("aarch64=", is_aarch64));
        context.is_handler.into_iter().for_each(|is_handler| self.yes_or_no("handler=", is_handler));
        context.process.into_iter().for_each(|process| self.decimal("pid=", process));
        context.thread.into_iter().for_each(|thread| self.decimal("tid=", thread));
        context.vmid.into_iter().for_each(|vmid| self.decimal("vmid=", vmid.into()));
        if let Some(modes) = context.modes {
            self.yes_or_no("streaming=", modes.streaming);
            self.yes_or_no("dit=", modes.dit);
            self.yes_or_no("ssbs=", modes.ssbs);
            self.decimal("vl=", modes.vector_length.into());
            self.decimal("tcf=", modes.tag_check_fault.into());
        }
    }

    fn gap(&mut self, gap: Gap) {
        match gap {
            Gap::Start => self.word("gap start"),
            Gap::Overflow => self.word("gap overflow"),
            Gap::Discard => self.word("gap discard"),
            Gap::NoCode(address) => self.hex("gap no-code ", address),
            Gap::Damaged => self.word("gap damaged"),
            Gap::Contradiction => self.word("gap contradiction"),
            Gap::TransactionFailed => self.word("gap transaction-failed"),
        }
    }
}
