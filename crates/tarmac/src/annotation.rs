//! Annotations: comments of a lowered log for what Tarmac lines have no field for.
//!
//! `# unspool covers ...` opens such a log and records the coverage of its source. The others precede the lines that
//! they describe: a step that begins (`exception`, `context`, `gap`, ...), or the next instruction or access. A tool
//! that ignores comments still reads a valid log with less in it. An annotation applies to the core of the previous
//! line, or to the one that `# unspool core 1` selects.

pub(crate) mod escape;

use std::io::Write as _;

use unspool_model::{
    Branch, Context, Coverage, Direction, Event, Exception, ExceptionKind, Facet, Gap, Modes, Security, TimeUnit,
};

use escape::escape;

/// Prefix of every annotation.
const PREFIX: &str = "# unspool ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Annotation<'a> {
    /// Coverage of the source, and its unit of time.
    Covers(Coverage, TimeUnit),
    /// The core that the following lines apply to, unless they name another.
    Core(u32),
    /// The following lines have no time until one has a timestamp.
    NoTime,
    /// A step begins that is no instruction. `time`: its time, if it differs from the previous line. `text`: that of a
    /// note.
    Step { event: Event, time: Option<Option<u64>>, text: &'a str },
    /// A first part of the text of the next note.
    NoteStart(&'a str),
    /// Properties of the next instruction.
    Instruction(Outcome),
    /// Outcome of the previous instruction.
    Outcome(Outcome),
    /// The following lines are one access.
    Access(AnnotatedAccess<'a>),
}

/// Outcome of an instruction; `None` is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Outcome {
    /// Opcode and length, if the line cannot represent them.
    pub(crate) irregular: Option<(Option<u32>, u8)>,
    pub(crate) is_executed: Option<bool>,
    pub(crate) branch: Option<Branch>,
    pub(crate) za_index: Option<u8>,
}

/// Properties of a memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnnotatedAccess<'a> {
    pub(crate) direction: Direction,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) is_tagged: bool,
    /// Number of following lines that belong to it.
    pub(crate) lines: u32,
    /// The bytes, lowest address first, if the lines do not contain them.
    pub(crate) data: &'a str,
}

impl<'a> Annotation<'a> {
    /// Writes the comment and a line end.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFIX.as_bytes());
        match self {
            Self::Covers(coverage, unit) => {
                out.extend_from_slice(b"covers");
                push_field(out, "times", &unit_name(*unit));
                coverage.iter().for_each(|facet| push_word(out, facet.name()));
            }
            Self::Core(core) => {
                out.extend_from_slice(b"core");
                push_word(out, &core.to_string());
            }
            Self::NoTime => out.extend_from_slice(b"no-time"),
            Self::Step { event, time, text } => write_step(event, *time, text, out),
            Self::NoteStart(text) => {
                out.extend_from_slice(b"more text=");
                escape(text, out);
            }
            Self::Instruction(outcome) => write_outcome("instruction", outcome, out),
            Self::Outcome(outcome) => write_outcome("went", outcome, out),
            Self::Access(access) => write_access(access, out),
        }
        out.push(b'\n');
    }

    /// Parses a comment; `None`: it is not an annotation, or not a valid one.
    pub(crate) fn parse(comment: &'a [u8]) -> Option<Self> {
        let text = str::from_utf8(comment).ok()?.strip_prefix(PREFIX)?;
        let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some(match kind {
            "covers" => parse_covers(rest)?,
            "core" => Self::Core(rest.parse().ok()?),
            "no-time" => Self::NoTime,
            "more" => Self::NoteStart(rest.strip_prefix("text=")?),
            "instruction" => Self::Instruction(parse_outcome(rest)?),
            "went" => Self::Outcome(parse_outcome(rest)?),
            "access" => Self::Access(parse_access(rest)?),
            kind => parse_step(kind, rest)?,
        })
    }
}

/// Writes the annotation that marks a cut: lines were left out before it. `core`: the name of the core that it applies
/// to, where the log has several.
pub(crate) fn write_cut(core: Option<&[u8]>, out: &mut Vec<u8>) {
    out.extend_from_slice(PREFIX.as_bytes());
    out.extend_from_slice(b"gap start");
    if let Some(core) = core {
        out.extend_from_slice(b" core=");
        out.extend_from_slice(core);
    }
}

/// Whether a comment is the annotation of a gap.
#[inline]
pub(crate) fn is_gap(comment: &[u8]) -> bool {
    comment.starts_with(GAP)
}

/// Start of the annotation of a gap.
pub(crate) const GAP: &[u8] = b"# unspool gap";

/// Comment of a write to so much memory that none of it is known afterwards. No log has it.
pub(crate) const LARGE_WRITE: &[u8] = b"# unspool large write";

/// The name of the core that a cut mark applies to, if the comment is one and names a core.
pub(crate) fn cut_core(comment: &[u8]) -> Option<&[u8]> {
    comment.strip_prefix(PREFIX.as_bytes())?.strip_prefix(b"gap start core=")
}

/// The name of the core that a comment selects: a cut mark, or the annotation of a core.
pub(crate) fn selected_core(comment: &[u8]) -> Option<Vec<u8>> {
    let rest = comment.strip_prefix(PREFIX.as_bytes())?;
    let number = rest.strip_prefix(b"core ").and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
    number.map(|number| core_name(number).into_bytes()).or_else(|| cut_core(comment).map(<[u8]>::to_vec))
}

/// The name of a core in lines; empty for core 0.
pub(crate) fn core_name(core: u32) -> String {
    if core == 0 { String::new() } else { format!("cpu{core}") }
}

fn push_word(out: &mut Vec<u8>, text: &str) {
    out.push(b' ');
    out.extend_from_slice(text.as_bytes());
}

fn push_field(out: &mut Vec<u8>, key: &str, value: &str) {
    push_word(out, key);
    out.push(b'=');
    out.extend_from_slice(value.as_bytes());
}

fn push_hex(out: &mut Vec<u8>, key: &str, number: u64) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, " {key}={number:#x}");
}

fn push_flag(out: &mut Vec<u8>, key: &str, value: bool) {
    push_field(out, key, if value { "yes" } else { "no" });
}

/// The fields of an annotation: `key=value`, or a word alone.
fn fields(rest: &str) -> impl Iterator<Item = (&str, &str)> {
    rest.split(' ').filter(|word| !word.is_empty()).map(|word| word.split_once('=').unwrap_or((word, "")))
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn is_yes(text: &str) -> Option<bool> {
    match text {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

fn name_of<T: PartialEq>(table: &[(T, &'static str)], value: &T) -> &'static str {
    table.iter().find(|(other, _)| other == value).map_or("", |(_, name)| name)
}

fn named<T: Copy>(table: &[(T, &str)], name: &str) -> Option<T> {
    table.iter().find(|(_, other)| *other == name).map(|(value, _)| *value)
}

/// `1e-9s`, `cycles`, `ticks`.
fn unit_name(unit: TimeUnit) -> String {
    match unit {
        TimeUnit::Unknown => "ticks".into(),
        TimeUnit::Cycles => "cycles".into(),
        TimeUnit::Seconds(power) => format!("1e{power}s"),
    }
}

fn parse_unit(text: &str) -> Option<TimeUnit> {
    Some(match text {
        "ticks" => TimeUnit::Unknown,
        "cycles" => TimeUnit::Cycles,
        text => TimeUnit::Seconds(text.strip_prefix("1e")?.strip_suffix('s')?.parse().ok()?),
    })
}

fn parse_covers(rest: &str) -> Option<Annotation<'_>> {
    let (mut coverage, mut unit) = (Coverage::default(), TimeUnit::Unknown);
    for (key, value) in fields(rest) {
        if key == "times" && !value.is_empty() {
            unit = parse_unit(value)?;
            continue;
        }
        coverage = coverage.with(Facet::ALL.into_iter().find(|facet| facet.name() == key)?);
    }
    Some(Annotation::Covers(coverage, unit))
}

fn write_step(event: &Event, time: Option<Option<u64>>, text: &str, out: &mut Vec<u8>) {
    match event {
        Event::State | Event::Instruction(_) => out.extend_from_slice(b"state"),
        Event::Exception(exception) => write_exception(exception, out),
        Event::ExceptionReturn { target } => {
            out.extend_from_slice(b"return");
            target.iter().for_each(|target| push_hex(out, "target", *target));
        }
        Event::Context(context) => write_context(context, out),
        Event::Gap(gap) => {
            out.extend_from_slice(b"gap");
            match gap {
                Gap::NoCode(address) => push_hex(out, "no-code", *address),
                gap => push_word(out, name_of(&GAPS, gap)),
            }
        }
        Event::Note => out.extend_from_slice(b"note"),
    }
    match time {
        None => {}
        Some(None) => push_field(out, "time", "none"),
        Some(Some(time)) => push_field(out, "time", &time.to_string()),
    }
    if *event == Event::Note {
        out.extend_from_slice(b" text=");
        escape(text, out);
    }
}

fn parse_step<'a>(kind: &str, rest: &'a str) -> Option<Annotation<'a>> {
    let (rest, text) = match kind {
        "note" => rest.strip_prefix("text=").map(|text| ("", text)).or_else(|| rest.split_once(" text="))?,
        _ => (rest, ""),
    };
    let event = match kind {
        "state" => Event::State,
        "exception" => Event::Exception(parse_exception(rest)?),
        "return" => {
            Event::ExceptionReturn { target: get(rest, "target").map(|text| number(text).ok_or(())).transpose().ok()? }
        }
        "context" => Event::Context(parse_context(rest)?),
        "gap" => Event::Gap(parse_gap(rest)?),
        "note" => Event::Note,
        _ => return None,
    };
    let time = match get(rest, "time") {
        None => None,
        Some("none") => Some(None),
        Some(time) => Some(Some(time.parse().ok()?)),
    };
    Some(Annotation::Step { event, time, text })
}

fn get<'a>(rest: &'a str, wanted: &str) -> Option<&'a str> {
    fields(rest).find(|(key, _)| *key == wanted).map(|(_, value)| value)
}

const KINDS: [(ExceptionKind, &str); 7] = {
    use ExceptionKind::{Debug, Fiq, Irq, Reset, SError, Synchronous, Unknown};
    let [sync, serror] = [(Synchronous, "synchronous"), (SError, "serror")];
    [(Unknown, "unknown"), (Reset, "reset"), sync, (Irq, "irq"), (Fiq, "fiq"), serror, (Debug, "debug")]
};

fn write_exception(exception: &Exception, out: &mut Vec<u8>) {
    out.extend_from_slice(b"exception");
    push_word(out, name_of(&KINDS, &exception.kind));
    exception.class.iter().for_each(|class| push_hex(out, "class", u64::from(*class)));
    exception.call.iter().for_each(|call| push_hex(out, "call", u64::from(*call)));
    exception.is_virtual.iter().for_each(|is_virtual| push_flag(out, "virtual", *is_virtual));
    exception.return_address.iter().for_each(|address| push_hex(out, "return", *address));
    exception.target.iter().for_each(|target| push_hex(out, "target", *target));
}

fn parse_exception(rest: &str) -> Option<Exception> {
    let mut exception = Exception::default();
    for (key, value) in fields(rest) {
        match key {
            "class" => exception.class = Some(u8::try_from(number(value)?).ok()?),
            "call" => exception.call = Some(u16::try_from(number(value)?).ok()?),
            "virtual" => exception.is_virtual = Some(is_yes(value)?),
            "return" => exception.return_address = Some(number(value)?),
            "target" => exception.target = Some(number(value)?),
            "time" => {}
            key => exception.kind = named(&KINDS, key)?,
        }
    }
    Some(exception)
}

const SECURITY: [(Security, &str); 4] = {
    use Security::{NonSecure, Realm, Root, Secure};
    [(Secure, "secure"), (NonSecure, "non-secure"), (Root, "root"), (Realm, "realm")]
};

fn write_context(context: &Context, out: &mut Vec<u8>) {
    let &Context { level, security, is_aarch64, is_handler, process, thread, vmid, modes } = context;
    out.extend_from_slice(b"context");
    level.iter().for_each(|level| push_field(out, "level", &level.to_string()));
    security.iter().for_each(|security| push_field(out, "security", name_of(&SECURITY, security)));
    is_aarch64.iter().for_each(|is_aarch64| push_flag(out, "aarch64", *is_aarch64));
    is_handler.iter().for_each(|is_handler| push_flag(out, "handler", *is_handler));
    process.iter().for_each(|process| push_hex(out, "process", *process));
    thread.iter().for_each(|thread| push_hex(out, "thread", *thread));
    vmid.iter().for_each(|vmid| push_hex(out, "vmid", u64::from(*vmid)));
    if let Some(modes) = modes {
        push_flag(out, "streaming", modes.streaming);
        push_flag(out, "dit", modes.dit);
        push_flag(out, "ssbs", modes.ssbs);
        push_field(out, "vector-length", &modes.vector_length.to_string());
        push_field(out, "tag-check-fault", &modes.tag_check_fault.to_string());
    }
}

fn parse_context(rest: &str) -> Option<Context> {
    let mut context = Context::default();
    for (key, value) in fields(rest) {
        let modes = context.modes;
        match key {
            "level" => context.level = Some(value.parse().ok()?),
            "security" => context.security = Some(named(&SECURITY, value)?),
            "aarch64" => context.is_aarch64 = Some(is_yes(value)?),
            "handler" => context.is_handler = Some(is_yes(value)?),
            "process" => context.process = Some(number(value)?),
            "thread" => context.thread = Some(number(value)?),
            "vmid" => context.vmid = Some(u32::try_from(number(value)?).ok()?),
            "time" => {}
            _ => context.modes = Some(parse_mode(modes.unwrap_or_default(), key, value)?),
        }
    }
    Some(context)
}

fn parse_mode(mut modes: Modes, key: &str, value: &str) -> Option<Modes> {
    match key {
        "streaming" => modes.streaming = is_yes(value)?,
        "dit" => modes.dit = is_yes(value)?,
        "ssbs" => modes.ssbs = is_yes(value)?,
        "vector-length" => modes.vector_length = value.parse().ok()?,
        "tag-check-fault" => modes.tag_check_fault = value.parse().ok()?,
        _ => return None,
    }
    Some(modes)
}

const GAPS: [(Gap, &str); 6] = [
    (Gap::Start, "start"),
    (Gap::Overflow, "overflow"),
    (Gap::Discard, "discard"),
    (Gap::Damaged, "damaged"),
    (Gap::Contradiction, "contradiction"),
    (Gap::TransactionFailed, "transaction-failed"),
];

fn parse_gap(rest: &str) -> Option<Gap> {
    match fields(rest).next()? {
        ("no-code", address) => Some(Gap::NoCode(number(address)?)),
        (name, _) => named(&GAPS, name),
    }
}

fn write_outcome(kind: &str, outcome: &Outcome, out: &mut Vec<u8>) {
    out.extend_from_slice(kind.as_bytes());
    if let Some((opcode, length)) = outcome.irregular {
        push_field(out, "length", &length.to_string());
        opcode.iter().for_each(|opcode| push_hex(out, "opcode", u64::from(*opcode)));
    }
    outcome.is_executed.iter().for_each(|is_executed| push_flag(out, "executed", *is_executed));
    if let Some(Branch { taken, target }) = outcome.branch {
        push_flag(out, "taken", taken);
        target.iter().for_each(|target| push_hex(out, "target", *target));
    }
    outcome.za_index.iter().for_each(|index| push_field(out, "za-index", &index.to_string()));
}

fn parse_outcome(rest: &str) -> Option<Outcome> {
    let mut outcome = Outcome::default();
    let (mut opcode, mut target) = (None, None);
    for (key, value) in fields(rest) {
        match key {
            "length" => outcome.irregular = Some((None, value.parse().ok()?)),
            "opcode" => opcode = Some(u32::try_from(number(value)?).ok()?),
            "executed" => outcome.is_executed = Some(is_yes(value)?),
            "taken" => outcome.branch = Some(Branch { taken: is_yes(value)?, target: None }),
            "target" => target = Some(number(value)?),
            "za-index" => outcome.za_index = Some(value.parse().ok()?),
            _ => return None,
        }
    }
    outcome.irregular = outcome.irregular.map(|(_, length)| (opcode, length));
    outcome.branch = outcome.branch.map(|branch| Branch { target, ..branch });
    Some(outcome)
}

const DIRECTIONS: [(Direction, &str); 4] = {
    use Direction::{Both, Neither, Read, Write};
    [(Read, "read"), (Write, "write"), (Both, "both"), (Neither, "neither")]
};

fn write_access(access: &AnnotatedAccess<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"access");
    push_word(out, name_of(&DIRECTIONS, &access.direction));
    push_hex(out, "address", access.address);
    push_field(out, "size", &access.size.to_string());
    if access.is_tagged {
        push_word(out, "tagged");
    }
    push_field(out, "lines", &access.lines.to_string());
    if !access.data.is_empty() {
        push_field(out, "data", access.data);
    }
}

fn parse_access(rest: &str) -> Option<AnnotatedAccess<'_>> {
    let mut access =
        AnnotatedAccess { direction: Direction::Read, address: 0, size: 0, is_tagged: false, lines: 0, data: "" };
    for (key, value) in fields(rest) {
        match key {
            "address" => access.address = number(value)?,
            "size" => access.size = value.parse().ok()?,
            "tagged" => access.is_tagged = true,
            "lines" => access.lines = value.parse().ok()?,
            "data" => access.data = value,
            key => access.direction = named(&DIRECTIONS, key)?,
        }
    }
    Some(access)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_round_trip() {
        let step = |event| Annotation::Step { event, time: None, text: "" };
        let covered = Coverage::of(&[Facet::Opcodes, Facet::Times]);
        let exception = Event::Exception(Exception {
            kind: ExceptionKind::Irq,
            class: Some(0x15),
            call: Some(7),
            is_virtual: Some(true),
            return_address: Some(0x1000),
            target: Some(0x2000),
        });
        let context = Context {
            level: Some(1),
            security: Some(Security::Realm),
            is_aarch64: Some(true),
            is_handler: Some(false),
            process: Some(7),
            thread: Some(8),
            vmid: Some(9),
            modes: Some(Modes { streaming: true, vector_length: 3, ..Modes::default() }),
        };
        let direction = Direction::Both;
        let access = AnnotatedAccess { direction, address: 0x10, size: 0, is_tagged: true, lines: 2, data: "12xx" };
        let note = Annotation::Step { event: Event::Note, time: Some(None), text: "a text=b" };
        let taken = Branch { taken: true, target: Some(0x40) };
        let outcome =
            Outcome { irregular: Some((Some(1), 3)), is_executed: Some(false), branch: Some(taken), za_index: Some(4) };
        let went = Annotation::Instruction(outcome);
        let rows = [
            (Annotation::Covers(covered, TimeUnit::Seconds(-9)), "covers times=1e-9s opcodes times"),
            (Annotation::Covers(Coverage::default(), TimeUnit::Cycles), "covers times=cycles"),
            (Annotation::Core(3), "core 3"),
            (Annotation::NoTime, "no-time"),
            (Annotation::Step { event: Event::State, time: Some(Some(5)), text: "" }, "state time=5"),
            (step(exception), "exception irq class=0x15 call=0x7 virtual=yes return=0x1000 target=0x2000"),
            (step(Event::ExceptionReturn { target: None }), "return"),
            (step(Event::ExceptionReturn { target: Some(4) }), "return target=0x4"),
            (
                step(Event::Context(context)),
                "context level=1 security=realm aarch64=yes handler=no process=0x7 thread=0x8 vmid=0x9 \
                 streaming=yes dit=no ssbs=no vector-length=3 tag-check-fault=0",
            ),
            (step(Event::Gap(Gap::Overflow)), "gap overflow"),
            (step(Event::Gap(Gap::NoCode(0x20))), "gap no-code=0x20"),
            (step(Event::Gap(Gap::TransactionFailed)), "gap transaction-failed"),
            (note, "note time=none text=a text=b"),
            (Annotation::NoteStart("x"), "more text=x"),
            (went, "instruction length=3 opcode=0x1 executed=no taken=yes target=0x40 za-index=4"),
            (Annotation::Outcome(Outcome::default()), "went"),
            (Annotation::Access(access), "access both address=0x10 size=0 tagged lines=2 data=12xx"),
        ];
        for (annotation, expected) in rows {
            let mut line = Vec::new();
            annotation.write(&mut line);
            assert_eq!(String::from_utf8_lossy(&line), format!("# unspool {expected}\n"));
            assert_eq!(Annotation::parse(line.trim_ascii_end()), Some(annotation), "{expected}");
        }
    }

    #[test]
    fn cuts_name_their_core() {
        for (core, expected) in [(None, "# unspool gap start"), (Some(&b"cpu1"[..]), "# unspool gap start core=cpu1")] {
            let mut line = Vec::new();
            write_cut(core, &mut line);
            assert_eq!(String::from_utf8_lossy(&line), expected);
            let gap = Annotation::Step { event: Event::Gap(Gap::Start), time: None, text: "" };
            assert_eq!(Annotation::parse(&line), Some(gap));
            assert_eq!(cut_core(&line), core);
        }
    }

    #[test]
    fn comments_that_are_no_annotations() {
        for line in ["# other", "# unspool", "# unspool gap sideways", "# unspool core x", "; unspool gap overflow"] {
            assert_eq!(Annotation::parse(line.as_bytes()), None, "{line}");
        }
    }
}
