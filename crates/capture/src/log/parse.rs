//! One line of a system event log.
//!
//! text of a line ─▶ **parse** ─▶ time and call, or the offset of what is wrong
//!
//! White space between tokens is ignored. Arguments at the end of a call may be missing where the table of
//! [`call`] reads them with an `if`.

use super::LogProblemKind;
use crate::event::{Call, Mapping, PatchCode, Placement, State};

/// What is wrong, after a number of bytes.
type Wrong = (usize, LogProblemKind);

/// Maximum length of the name of an unknown call in a message.
const NAME_LIMIT: usize = 40;
/// The largest trace ID: they have seven bits.
const LAST_ID: u64 = 0x7f;

/// The event of a line; `None` if the line is empty or a comment. The time may be missing.
pub(super) fn line(text: &str) -> Result<Option<(Option<u64>, Call)>, Wrong> {
    let mut input = Cursor { text, at: 0 };
    if input.is_at_end() {
        return Ok(None);
    }
    let time = match input.peek() {
        Some('-') => {
            input.advance('-');
            None
        }
        Some('0'..='9') => Some(input.number(u64::MAX)?),
        _ => None,
    };
    let call = call(&mut input)?;
    if input.is_at_end() { Ok(Some((time, call))) } else { Err(input.expected("the end of the line, or a comment")) }
}

/// A string in quotes and nothing else; `None` if the text is something else.
pub(crate) fn quoted(text: &str) -> Option<String> {
    let mut input = Cursor { text, at: 0 };
    let string = input.string("a string in quotes").ok()?;
    input.is_at_end().then_some(string)
}

fn call(input: &mut Cursor<'_>) -> Result<Call, Wrong> {
    input.skip_space();
    let at = input.at;
    let name = input.word("a call")?;
    input.token('(', "`(`")?;
    let call = match name {
        "declare_process" => {
            let (state, pid, mapping) = mapped(input)?;
            Call::Process { state, pid, mapping }
        }
        "declare_library" => {
            let (state, pid, mapping) = mapped(input)?;
            Call::Library { state, pid, mapping }
        }
        "declare_thread" => {
            let (state, tid, pid) = (input.state()?, input.next_u32()?, input.next_u32()?);
            Call::Thread { state, tid, pid }
        }
        "patch_code" => patch(input)?,
        "declare_asid" => {
            let (state, asid, pid) = (input.state()?, input.next_u32()?, input.next_u32()?);
            Call::Asid { state, asid, pid }
        }
        "define_trace" => trace(input)?,
        "declare_running" => {
            input.skip_space();
            let at = input.at;
            if input.state()? != State::Current {
                return Err((at, LogProblemKind::Expected("CURRENT")));
            }
            Call::Switch { core: input.next_u32()?, tid: input.next_u32()? }
        }
        "fork_process" => Call::Fork { parent: input.u32()?, child: input.next_u32()? },
        "exec_process" => Call::Exec { pid: input.u32()? },
        name => return Err((at, LogProblemKind::UnknownCall(name.chars().take(NAME_LIMIT).collect()))),
    };
    input.token(')', "`)`")?;
    Ok(call)
}

/// State, process, address, file; then maybe its identifier, and maybe offset and length of the part in memory.
fn mapped(input: &mut Cursor<'_>) -> Result<(State, u32, Mapping), Wrong> {
    let state = input.state()?;
    let pid = input.next_u32()?;
    input.comma()?;
    let address = input.number(u64::MAX)?;
    input.comma()?;
    let image = input.string("the name of a file in quotes")?;
    let build_id = if input.next_is(',') { input.string("a build ID or UUID in quotes")? } else { String::new() };
    let placement = if input.next_is(',') {
        let offset = input.number(u64::MAX)?;
        input.comma()?;
        Placement::Part { address, length: input.number(u64::MAX)?, offset }
    } else {
        Placement::Base(address)
    };
    Ok((state, pid, Mapping { image, build_id, placement }))
}

fn patch(input: &mut Cursor<'_>) -> Result<Call, Wrong> {
    let pid = input.u32()?;
    input.comma()?;
    let address = input.number(u64::MAX)?;
    input.comma()?;
    let length = input.number(u64::MAX)?;
    input.comma()?;
    let (at, code) = (input.at, input.code()?);
    let name = if input.next_is(',') { input.string("the name of a function in quotes")? } else { String::new() };
    match &code {
        PatchCode::Bytes(bytes) if bytes.len() as u64 != length => {
            Err((at, LogProblemKind::CodeLength { length, found: bytes.len() as u64 }))
        }
        _ => Ok(Call::Patch { pid, address, length, code, name }),
    }
}

fn trace(input: &mut Cursor<'_>) -> Result<Call, Wrong> {
    let state = input.state()?;
    input.comma()?;
    let id = u8::try_from(input.number(LAST_ID)?).unwrap_or_default();
    input.comma()?;
    let source = input.name("the name of a trace source")?;
    let mut registers = Vec::new();
    while input.next_is(',') {
        let name = input.name("the name of a register")?;
        input.token('=', "`=`")?;
        registers.push((name, input.number(u64::MAX)?));
    }
    Ok(Call::Trace { state, id, source, registers })
}

/// A position in a line.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn advance(&mut self, character: char) {
        self.at += character.len_utf8();
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Whether nothing but white space and a comment follows.
    fn is_at_end(&mut self) -> bool {
        self.skip_space();
        matches!(self.peek(), None | Some('#'))
    }

    fn expected(&self, what: &'static str) -> Wrong {
        (self.at, LogProblemKind::Expected(what))
    }

    /// Whether this character follows; it is consumed.
    fn next_is(&mut self, character: char) -> bool {
        self.skip_space();
        let found = self.peek() == Some(character);
        if found {
            self.advance(character);
        }
        found
    }

    fn token(&mut self, character: char, what: &'static str) -> Result<(), Wrong> {
        if self.next_is(character) { Ok(()) } else { Err(self.expected(what)) }
    }

    fn comma(&mut self) -> Result<(), Wrong> {
        self.token(',', "`,`")
    }

    fn word(&mut self, what: &'static str) -> Result<&'a str, Wrong> {
        self.skip_space();
        let rest = self.rest();
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let word = rest.get(..end).filter(|word| !word.is_empty()).ok_or_else(|| self.expected(what))?;
        self.at += end;
        Ok(word)
    }

    fn state(&mut self) -> Result<State, Wrong> {
        const WHAT: &str = "START, END or CURRENT";
        self.skip_space();
        let at = self.at;
        match self.word(WHAT)?.to_ascii_uppercase().as_str() {
            "START" => Ok(State::Start),
            "END" => Ok(State::End),
            "CURRENT" => Ok(State::Current),
            _ => Err((at, LogProblemKind::Expected(WHAT))),
        }
    }

    /// A decimal or hexadecimal number.
    fn number(&mut self, limit: u64) -> Result<u64, Wrong> {
        self.skip_space();
        let at = self.at;
        let word = self.word("a number")?;
        let hexadecimal = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
        let (digits, radix) = hexadecimal.map_or((word, 10), |digits| (digits, 16));
        if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
            return Err((at, LogProblemKind::Expected("a number")));
        }
        let value = u64::from_str_radix(digits, radix).ok().filter(|value| *value <= limit);
        value.ok_or((at, LogProblemKind::TooLarge(limit)))
    }

    fn u32(&mut self) -> Result<u32, Wrong> {
        Ok(u32::try_from(self.number(u32::MAX.into())?).unwrap_or_default())
    }

    fn next_u32(&mut self) -> Result<u32, Wrong> {
        self.comma()?;
        self.u32()
    }

    /// A string in quotes, or a word.
    fn name(&mut self, what: &'static str) -> Result<String, Wrong> {
        self.skip_space();
        if self.peek() == Some('"') { self.string(what) } else { self.word(what).map(str::to_string) }
    }

    /// A string in quotes, with escapes.
    fn string(&mut self, what: &'static str) -> Result<String, Wrong> {
        self.token('"', what)?;
        let mut string = String::new();
        loop {
            let character = self.peek().ok_or_else(|| self.expected("the closing quote of a string"))?;
            let at = self.at;
            self.advance(character);
            match character {
                '"' => return Ok(string),
                '\\' => string.push(self.escape().ok_or((at, LogProblemKind::Expected("an escape sequence")))?),
                character => string.push(character),
            }
        }
    }

    /// The character of an escape sequence, after its backslash.
    fn escape(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.advance(character);
        match character {
            '"' | '\\' => Some(character),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'u' => {
                let digits = self.rest().strip_prefix('{')?.split_once('}')?.0;
                self.at += digits.len() + "{}".len();
                let is_plain = digits.len() <= 6 && digits.chars().all(|digit| digit.is_ascii_hexdigit());
                u32::from_str_radix(digits, 16).ok().filter(|_| is_plain).and_then(char::from_u32)
            }
            _ => None,
        }
    }

    /// `hex"1f2003d5"`, the name of a file in quotes, or `None`.
    fn code(&mut self) -> Result<PatchCode, Wrong> {
        const WHAT: &str = "code (hex\"...\"), its name in quotes, or None";
        self.skip_space();
        let at = self.at;
        if self.peek() == Some('"') {
            return self.string(WHAT).map(PatchCode::Id);
        }
        match self.word(WHAT)? {
            "None" => Ok(PatchCode::Absent),
            "hex" if self.peek() == Some('"') => self.hex().map(PatchCode::Bytes),
            _ => Err((at, LogProblemKind::Expected(WHAT))),
        }
    }

    /// Pairs of hexadecimal digits in quotes.
    fn hex(&mut self) -> Result<Vec<u8>, Wrong> {
        self.advance('"');
        let mut bytes = Vec::new();
        let mut high = None;
        loop {
            let character = self.peek().ok_or_else(|| self.expected("the closing quote of the code"))?;
            match (character.to_digit(16).and_then(|digit| u8::try_from(digit).ok()), high.take()) {
                (Some(digit), None) => high = Some(digit << 4),
                (Some(digit), Some(first)) => bytes.push(first | digit),
                (None, None) if character == '"' => break self.advance('"'),
                _ => return Err(self.expected("two hexadecimal digits")),
            }
            self.advance(character);
        }
        Ok(bytes)
    }
}

/// Whether a character is part of a name or number without quotes.
pub(super) fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | ':' | '/' | '-')
}
