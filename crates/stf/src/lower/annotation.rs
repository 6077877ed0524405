//! Annotations: comments of ours that contain the parts of steps that no record has.
//!
//! comment ─▶ **annotation** ─▶ its effect on steps
//!
//! An annotation starts with `unspool`. A word after it may set the part of the group: from `now` on, annotations are
//! about the instruction and no longer about steps before it; from `then` on, they are about steps after the
//! instruction. Annotations count only if the header announces them. The input may be any bytes: a comment that cannot
//! be parsed is not an annotation.
//!
//! | text | meaning |
//! |-------|---------|
//! | `time 12`, `time unknown`, `+3` | from here on |
//! | `isa t32` | from here on |
//! | `executed yes`, `branch not-taken`, `za 3` | of the instruction |
//! | `read 0x1000 8`, `write`, `both`, `neither`, optionally with `tagged` and data | an access |
//! | `tagged` | of the last access |
//! | `reg v0 64 00112233` | a register, starting at this bit; the lowest byte first, `..` is unknown, `01/0f` in part |
//! | `state`, `instruction`, `exception`, `return`, `context`, `gap`, `note` | a step of its own |

use std::str::SplitAsciiWhitespace;

use unspool_isa::{Decoded, decode, is_a64_branch_or_system};
use unspool_model::{
    Branch, Context, Coverage, Direction, Exception, ExceptionKind, Facet, Gap, Instruction, Isa, Modes, Security,
    TimeUnit,
};

/// Prefix of annotations.
pub(crate) const PREFIX: &str = "unspool";

/// Prefix of the comment that announces annotations.
pub(super) const ANNOUNCEMENT: &str = "unspool steps 1: covers ";

/// Part of a group that an annotation belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The same as the previous annotation.
    Same,
    /// The instruction.
    Now,
    /// Steps after the instruction.
    Then,
}

/// Content of an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Annotation<'t> {
    /// Only a change of the part.
    PartOnly,
    Time(Option<u64>),
    TimeDelta(u64),
    Isa(Isa),
    Executed(Option<bool>),
    Branch(Option<Branch>),
    ZaIndex(u8),
    Tagged,
    Access(AnnotatedAccess<'t>),
    Register {
        name: &'t str,
        low: u16,
        data: Data<'t>,
    },
    State,
    Instruction(Instruction),
    Exception(Exception),
    Return {
        target: Option<u64>,
    },
    Context(Context),
    Gap(Gap),
    Note(&'t str),
}

/// An access that records cannot contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnnotatedAccess<'t> {
    pub(crate) direction: Direction,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) is_tagged: bool,
    pub(crate) data: Data<'t>,
}

/// Bytes as hexadecimal text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Data<'t>(&'t [u8]);

impl<'t> Data<'t> {
    fn new(text: &'t str) -> Option<Self> {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            rest = byte(rest)?.1;
        }
        Some(Self(text.as_bytes()))
    }

    /// Each byte with a mask of its known bits.
    pub(crate) fn bytes(self) -> impl Iterator<Item = (u8, u8)> + use<'t> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (value, after) = byte(rest)?;
            rest = after;
            Some(value)
        })
    }
}

/// The first byte of the text, and the rest.
fn byte(text: &[u8]) -> Option<((u8, u8), &[u8])> {
    match text {
        [b'.', b'.', rest @ ..] => Some(((0, 0), rest)),
        [a, b, b'/', c, d, rest @ ..] => Some(((pair(*a, *b)?, pair(*c, *d)?), rest)),
        [a, b, rest @ ..] => Some(((pair(*a, *b)?, 0xff), rest)),
        _ => None,
    }
}

fn pair(high: u8, low: u8) -> Option<u8> {
    Some(digit(high)? << 4 | digit(low)?)
}

fn digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// Coverage and unit of time, if the comment announces annotations.
pub(crate) fn parse_announcement(comment: &[u8]) -> Option<(Coverage, TimeUnit)> {
    let rest = str::from_utf8(comment).ok()?.strip_prefix(ANNOUNCEMENT)?;
    let (facets, unit) = rest.split_once("; time ")?;
    let mut coverage = Coverage::default();
    for name in facets.split(", ").filter(|name| !name.is_empty()) {
        coverage = coverage.with(Facet::ALL.into_iter().find(|facet| facet.name() == name)?);
    }
    let unit = match unit {
        "ticks" => TimeUnit::Unknown,
        "cycles" => TimeUnit::Cycles,
        power => TimeUnit::Seconds(power.strip_prefix("10^")?.strip_suffix(" s")?.parse().ok()?),
    };
    Some((coverage, unit))
}

/// Is the comment the signature that this tool leaves in every header?
pub(crate) fn is_signature(comment: &[u8]) -> bool {
    let version = comment.strip_prefix(PREFIX.as_bytes()).and_then(|rest| rest.strip_prefix(b" "));
    version.is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit))
}

/// The annotation in a comment.
pub(crate) fn parse(comment: &[u8]) -> Option<(Part, Annotation<'_>)> {
    // Fast path: in many traces every instruction has a time.
    if let [b'u', b'n', b's', b'p', b'o', b'o', b'l', b' ', b'+', digit @ b'0'..=b'9'] = comment {
        return Some((Part::Same, Annotation::TimeDelta(u64::from(digit - b'0'))));
    }
    let text = str::from_utf8(comment.strip_prefix(PREFIX.as_bytes())?.strip_prefix(b" ")?).ok()?;
    let (part, text) = match text.split_once(' ').unwrap_or((text, "")) {
        ("now", rest) => (Part::Now, rest),
        ("then", rest) => (Part::Then, rest),
        _ => (Part::Same, text),
    };
    if part != Part::Same && text.is_empty() {
        return Some((part, Annotation::PartOnly));
    }
    Some((part, parse_content(text)?))
}

fn parse_content(text: &str) -> Option<Annotation<'_>> {
    if let Some(delta) = text.strip_prefix('+') {
        return delta.parse().ok().map(Annotation::TimeDelta);
    }
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    if first == "note" {
        return Some(Annotation::Note(rest));
    }
    let tokens = &mut rest.split_ascii_whitespace();
    let annotation = match first {
        "time" => Annotation::Time(unless_unknown(tokens.next()?, |time| time.parse().ok())?),
        "isa" => Annotation::Isa(isa(tokens.next()?)?),
        "executed" => Annotation::Executed(unless_unknown(tokens.next()?, yes_or_no)?),
        "branch" => Annotation::Branch(branch(tokens)?),
        "za" => Annotation::ZaIndex(tokens.next()?.parse().ok()?),
        "tagged" => Annotation::Tagged,
        "read" => Annotation::Access(access(Direction::Read, tokens)?),
        "write" => Annotation::Access(access(Direction::Write, tokens)?),
        "both" => Annotation::Access(access(Direction::Both, tokens)?),
        "neither" => Annotation::Access(access(Direction::Neither, tokens)?),
        "reg" => register(tokens)?,
        "state" => Annotation::State,
        "instruction" => Annotation::Instruction(instruction(tokens)?),
        "exception" => Annotation::Exception(exception(tokens)?),
        "return" => Annotation::Return { target: optional(tokens.next(), hex)? },
        "context" => Annotation::Context(context(tokens)?),
        "gap" => Annotation::Gap(gap(tokens)?),
        _ => return None,
    };
    // Unknown additions make the whole annotation unknown.
    tokens.next().is_none().then_some(annotation)
}

type Tokens<'t> = SplitAsciiWhitespace<'t>;

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn yes_or_no(text: &str) -> Option<bool> {
    match text {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

/// A value that may be absent, but not invalid.
fn optional<T>(text: Option<&str>, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    match text {
        None => Some(None),
        Some(text) => parse(text).map(Some),
    }
}

fn unless_unknown<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    optional(Some(text).filter(|text| *text != "unknown"), parse)
}

fn isa(text: &str) -> Option<Isa> {
    Isa::ALL.into_iter().find(|isa| isa.name() == text)
}

fn branch(tokens: &mut Tokens<'_>) -> Option<Option<Branch>> {
    let taken = match tokens.next()? {
        "unknown" => return Some(None),
        "taken" => true,
        "not-taken" => false,
        _ => return None,
    };
    Some(Some(Branch { taken, target: optional(tokens.next(), hex)? }))
}

fn access<'t>(direction: Direction, tokens: &mut Tokens<'t>) -> Option<AnnotatedAccess<'t>> {
    let (address, size) = (hex(tokens.next()?)?, tokens.next()?.parse().ok()?);
    let mut next = tokens.next();
    let is_tagged = next == Some("tagged");
    if is_tagged {
        next = tokens.next();
    }
    Some(AnnotatedAccess { direction, address, size, is_tagged, data: Data::new(next.unwrap_or(""))? })
}

fn register<'t>(tokens: &mut Tokens<'t>) -> Option<Annotation<'t>> {
    let (name, low) = (tokens.next()?, tokens.next()?.parse().ok()?);
    Some(Annotation::Register { name, low, data: Data::new(tokens.next().unwrap_or(""))? })
}

fn instruction(tokens: &mut Tokens<'_>) -> Option<Instruction> {
    let mut instruction = Instruction { address: hex(tokens.next()?)?, ..Instruction::default() };
    let (mut taken, mut target) = (None, None);
    for token in tokens {
        let (name, value) = token.split_once('=')?;
        match name {
            "isa" => instruction.isa = isa(value)?,
            "length" => instruction.length = value.parse().ok()?,
            "opcode" => instruction.opcode = Some(u32::try_from(hex(value)?).ok()?),
            "executed" => instruction.is_executed = Some(yes_or_no(value)?),
            "taken" => taken = Some(yes_or_no(value)?),
            "target" => target = Some(hex(value)?),
            "za" => instruction.za_index = Some(value.parse().ok()?),
            _ => return None,
        }
    }
    instruction.branch = taken.map(|taken| Branch { taken, target });
    Some(instruction)
}

/// Names of exception kinds.
pub(super) const EXCEPTION_KINDS: [(ExceptionKind, &str); 7] = [
    (ExceptionKind::Unknown, "unknown"),
    (ExceptionKind::Reset, "reset"),
    (ExceptionKind::Synchronous, "synchronous"),
    (ExceptionKind::Irq, "irq"),
    (ExceptionKind::Fiq, "fiq"),
    (ExceptionKind::SError, "serror"),
    (ExceptionKind::Debug, "debug"),
];

fn exception(tokens: &mut Tokens<'_>) -> Option<Exception> {
    let name = tokens.next()?;
    let kind = EXCEPTION_KINDS.iter().find(|kind| kind.1 == name)?.0;
    let mut exception = Exception { kind, ..Exception::default() };
    for token in tokens {
        let (name, value) = token.split_once('=')?;
        match name {
            "class" => exception.class = Some(u8::try_from(hex(value)?).ok()?),
            "call" => exception.call = Some(value.parse().ok()?),
            "virtual" => exception.is_virtual = Some(yes_or_no(value)?),
            "return" => exception.return_address = Some(hex(value)?),
            "target" => exception.target = Some(hex(value)?),
            _ => return None,
        }
    }
    Some(exception)
}

/// Names of Security states.
pub(super) const SECURITY_STATES: [(Security, &str); 4] = [
    (Security::Secure, "secure"),
    (Security::NonSecure, "nonsecure"),
    (Security::Root, "root"),
    (Security::Realm, "realm"),
];

fn context(tokens: &mut Tokens<'_>) -> Option<Context> {
    let (mut context, mut modes) = (Context::default(), None);
    for token in tokens {
        let (name, value) = token.split_once('=')?;
        match mode(modes.unwrap_or_default(), name, value) {
            Some(changed) => modes = Some(changed),
            None => state(&mut context, name, value)?,
        }
    }
    Some(Context { modes, ..context })
}

/// The modes with this one changed, if it is the name of one.
fn mode(modes: Modes, name: &str, value: &str) -> Option<Modes> {
    Some(match name {
        "streaming" => Modes { streaming: yes_or_no(value)?, ..modes },
        "dit" => Modes { dit: yes_or_no(value)?, ..modes },
        "ssbs" => Modes { ssbs: yes_or_no(value)?, ..modes },
        "vl" => Modes { vector_length: value.parse().ok()?, ..modes },
        "tcf" => Modes { tag_check_fault: value.parse().ok()?, ..modes },
        _ => return None,
    })
}

fn state(context: &mut Context, name: &str, value: &str) -> Option<()> {
    match name {
        "el" => context.level = Some(value.parse().ok()?),
        "security" => context.security = Some(SECURITY_STATES.iter().find(|security| security.1 == value)?.0),
        "aarch64" => context.is_aarch64 = Some(yes_or_no(value)?),
        "handler" => context.is_handler = Some(yes_or_no(value)?),
        "pid" => context.process = Some(value.parse().ok()?),
        "tid" => context.thread = Some(value.parse().ok()?),
        "vmid" => context.vmid = Some(value.parse().ok()?),
        _ => return None,
    }
    Some(())
}

fn gap(tokens: &mut Tokens<'_>) -> Option<Gap> {
    Some(match tokens.next()? {
        "start" => Gap::Start,
        "overflow" => Gap::Overflow,
        "discard" => Gap::Discard,
        "no-code" => Gap::NoCode(hex(tokens.next()?)?),
        "damaged" => Gap::Damaged,
        "contradiction" => Gap::Contradiction,
        "transaction-failed" => Gap::TransactionFailed,
        _ => return None,
    })
}

/// Outcome of an instruction that has neither a target record nor a branch annotation: a conditional branch is not
/// taken.
#[inline]
pub(crate) fn default_branch(isa: Isa, address: u64, opcode: u32) -> Option<Branch> {
    let decoded = decode_branch(isa, address, opcode)?;
    decoded.conditional.then_some(Branch { taken: false, target: None })
}

/// Decodes an instruction, if it is a branch.
#[inline]
pub(super) fn decode_branch(isa: Isa, address: u64, opcode: u32) -> Option<Decoded> {
    if isa == Isa::A64 && !is_a64_branch_or_system(opcode) {
        return None;
    }
    Some(decode(isa, address, opcode)).filter(|decoded| decoded.flow.is_branch())
}

/// Outcome of the condition of an instruction without an annotation. With coverage of conditions, nearly every
/// instruction has one.
#[inline]
pub(crate) fn default_condition(coverage: Coverage, branch: Option<Branch>) -> Option<bool> {
    coverage.has(Facet::Conditions).then_some(branch.is_none_or(|branch| branch.taken))
}
