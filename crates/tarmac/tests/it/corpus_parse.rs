//! Corpus lines against the reference tool: runs where `UNSPOOL_CORPUS` names the folder.
//!
//! The reference prints each line as events. Ours are printed in the same format and compared, except for lines where
//! the reference is known to be wrong or incomplete: those are listed here, with the right result.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use unspool_tarmac::parse::{ParseOptions, Parser};
use unspool_tarmac::read::lines;
use unspool_tarmac::record::{
    Access, Byte, Direction, InstructionSet, Line, Order, Picture, PictureKind, Purpose, Record, Register, Stamp,
};
use unspool_tarmac::value::Digit;
use unspool_testing::corpus;

/// Lines where the reference is wrong or silent: identifying text, and our event.
const BETTER: &[(&str, &str)] = &[
    // An aborted access is an access with a known address and size, without data.
    ("(ABORTED)", "Access read addr=dfdfdfcf size=4 aborted"),
    // System operations.
    ("R DC", "Operation DC CISW 00000000:00000000"),
    ("R IC", "Operation IC IALLU 00000000:0000000"),
    ("R TLBI", "Operation TLBI ALLE3 00000000:00000000"),
    ("R AT", "Operation AT S12E1W 00000000:00000004"),
    // Registers that the reference has no name for.
    ("R SCTLR", "Register sctlr 00:c5:08:78"),
    ("R SPSR_EL3", "Register spsr_el3 00:00:00:00:00:00:01:cd"),
    ("R XPSR", "Register xpsr f9:00:00:00"),
    ("R CONTROL", "Register control 00:00:00:00"),
    ("R PRIMASK", "Register primask 00:00:00:00"),
    // Unknown bits are not zeros. (The second digit that is known is a digit of a byte of which the other is not.)
    ("R psr", "Register psr xx:0x:xx:xx"),
    ("R fpscr", "Register fpscr xx:x0:00:xx"),
    // Nothing is updated.
    ("R X0 --------", "Register x0 --:--:--:--:--:--:--:--"),
    ("R X1 --------", "Register x1 --:--:--:--"),
    // A fetch is an access of its own, not text; on bus lanes, the upper half belongs to address 0x10a.
    ("MNR4O__I", "Access fetch addr=22ae4 size=4 contents=f7ffffcb"),
    ("MR2_I", "Access fetch addr=10a size=2 contents=b510"),
    ("MR4_I", "Access fetch addr=10c size=4 contents=ffdaf7ff"),
    // A coprocessor transfer.
    ("MCW4___R", "Transfer write size=4 contents=0"),
    // Signal levels and readiness are no exceptions.
    ("E HRESETn 0", "Event HRESETn 0"),
    ("E LOCKUP 0", "Event LOCKUP 0"),
    ("E HALTED 0", "Event HALTED 0"),
    ("E INT_READY 0", "Event INT_READY 0"),
    ("E ATOMIC 1", "Event ATOMIC 1"),
    ("E HRESETn 1", "Event HRESETn 1"),
    ("E ATOMIC 0", "Event ATOMIC 0"),
    // The header has a revision.
    ("Tarmac Text", "Header 3 t"),
];

#[test]
fn lines_match_the_reference() {
    let Some(corpus) = corpus("tarmac") else { return };
    compare(&corpus, "parsertest", false);
}

#[test]
fn lines_with_implicit_thumb_match_the_reference() {
    let Some(corpus) = corpus("tarmac") else { return };
    compare(&corpus, "parsertest-implicit-thumb", true);
}

#[test]
fn no_line_of_a_log_is_unknown() {
    let Some(corpus) = corpus("tarmac") else { return };
    let mut paths: Vec<PathBuf> = ["", "calltests", "truncate"]
        .iter()
        .flat_map(|folder| fs::read_dir(corpus.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "tarmac"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 10, "{paths:?}");
    for path in paths {
        let log = fs::read(&path).unwrap();
        let mut parser = Parser::new(ParseOptions::default());
        for (number, (_, raw)) in lines(&log).enumerate() {
            if let Record::Unknown(problem) = parser.parse(raw).record {
                panic!("{}:{}: {problem}: {}", path.display(), number + 1, String::from_utf8_lossy(raw));
            }
        }
    }
}

/// Compares every line of a file with the output of the reference.
fn compare(corpus: &Path, name: &str, implicit_thumb: bool) {
    let expected = fs::read_to_string(corpus.join(format!("expected/{name}.ref"))).unwrap();
    let mut parser = Parser::new(ParseOptions { implicit_thumb });
    let mut time = 0;
    let (mut used, mut compared) = (Vec::new(), 0);
    let blocks = expected.split("--- Tarmac line: ").filter(|block| !block.is_empty());
    for block in blocks {
        let (text, events) = block.split_once('\n').unwrap();
        let line = parser.parse(text.as_bytes());
        assert_eq!(line.raw, text.as_bytes());
        if let Stamp::At(at) = line.stamp {
            time = at.value;
        }
        let better = BETTER.iter().position(|(words, _)| format!(" {text} ").contains(&format!(" {words} ")));
        let (expected_events, ours) = match better {
            Some(at) => {
                used.push(at);
                (format!("{}\n", BETTER[at].1), own_words(&line))
            }
            None => (events.to_owned(), reference_words(&line, time)),
        };
        assert_eq!(expected_events, ours, "{text}\n{:?}", line.record);
        compared += 1;
    }
    // Every line of the test is in the output of the reference, except for blank ones and comments.
    let tested = fs::read(corpus.join(format!("{name}.txt"))).unwrap();
    let records =
        lines(&tested).filter(|(_, raw)| !matches!(parser.parse(raw).record, Record::Blank | Record::Comment(_)));
    assert_eq!(compared, records.count());
    assert!(!used.is_empty());
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A record in the format of the reference.
fn reference_words(line: &Line<'_>, time: u64) -> String {
    match &line.record {
        Record::Instruction(instruction) => {
            let effect = match (instruction.opcode, instruction.is_executed) {
                (None, _) => "fetchfail",
                (_, true) => "executed",
                (_, false) => "ccfail",
            };
            let set = match instruction.set {
                Some(InstructionSet::A) => "ARM",
                Some(InstructionSet::T) => "Thumb",
                Some(InstructionSet::O) => "A64",
                other => panic!("{other:?}"),
            };
            format!(
                "* InstructionEvent time={time} effect={effect} pc={:x} iset={set} width={} instruction={:x} disassembly=\"{}\"\n",
                instruction.address.unwrap(),
                8 * instruction.length,
                instruction.opcode.unwrap_or(0),
                text(instruction.text)
            )
        }
        Record::Register(register) => register_words(register, time),
        Record::Access(access) => access_words(access, time),
        Record::Picture(picture) => picture_words(picture, time),
        Record::Exception(_) | Record::Asynchronous(_) => format!("* ExceptionEvent time={time}\n"),
        Record::Event(event) if event.is_exception => format!("* ExceptionEvent time={time}\n"),
        Record::Event(event) => format!("* TextOnlyEvent time={time} type=\"E\" text=\"{}\"\n", text(event.name)),
        Record::Opaque(opaque) => {
            format!("* TextOnlyEvent time={time} type=\"{}\" text=\"{}\"\n", text(opaque.tag), text(opaque.text))
        }
        Record::Branch(_) => {
            let rest = text(line.raw).trim().trim_start_matches("BR ").to_owned();
            format!("* TextOnlyEvent time={time} type=\"BR\" text=\"{rest}\"\n")
        }
        other => panic!("{other:?}"),
    }
}

/// A register write: the name, offset and known bytes as the reference prints them.
fn register_words(register: &Register<'_>, time: u64) -> String {
    let name = text(register.name).to_lowercase();
    let digits: Vec<Digit> = register.value.digits().collect();
    let name = match name.as_str() {
        "r14_svc" => "r14",
        "r13_main_s" | "msp_s" | "msp" => "r13",
        "cpsr" => "psr",
        "e15" => "x15",
        "sp_el3" | "sp_el2" => "xsp",
        "sp" if digits.len() == 8 => "r13",
        "sp" => "xsp",
        name => name,
    };
    let mut bytes: Vec<Option<u8>> = digits
        .rchunks(2)
        .rev()
        .map(|pair| {
            pair.iter().try_fold(0, |byte, digit| match digit {
                Digit::Known(bits) => Some(byte << 4 | bits),
                _ => None,
            })
        })
        .collect();
    // The reference has these as 32-bit registers, and half a vector as 64 bits.
    if matches!(name, "psr" | "fpcr") {
        bytes.drain(..bytes.len() - 4);
    }
    let mut offset = 0;
    if let Some((high, low)) = register.bits {
        offset = usize::from(low) / 8;
        while bytes.len() < usize::from(high - low + 1) / 8 {
            bytes.insert(0, Some(0));
        }
    }
    let unchanged = bytes.iter().rev().take_while(|byte| byte.is_none()).count();
    let known: Vec<String> = bytes.iter().flatten().map(|byte| format!("{byte:02x}")).collect();
    format!("* RegisterEvent time={time} reg={name} offset={} bytes={}\n", offset + unchanged, known.join(":"))
}

/// The data in little-endian order; `None`: unknown.
fn number(access: &Access<'_>) -> Option<Vec<u8>> {
    let digits: Vec<Digit> = access.data?.digits().collect();
    let mut bytes = Vec::new();
    for pair in digits.chunks(2) {
        let (Digit::Known(high), Digit::Known(low)) = (pair[0], pair[1]) else { return None };
        bytes.push(high << 4 | low);
    }
    match access.order {
        Order::Number => bytes.reverse(),
        Order::Memory => {}
        Order::Lanes => {
            bytes.reverse();
            let lane = access.address.unwrap() as usize % bytes.len();
            bytes = bytes[lane..lane + usize::from(access.size)].to_vec();
        }
    }
    Some(bytes)
}

fn access_words(access: &Access<'_>, time: u64) -> String {
    let is_read = access.direction == Direction::Read;
    let (address, bytes) = (access.address.unwrap(), number(access));
    let mut words = String::new();
    // The reference prints at most eight bytes per event.
    for at in (0..u64::from(access.size)).step_by(8) {
        let size = (u64::from(access.size) - at).min(8);
        let some = bytes.as_ref().map(|bytes| &bytes[at as usize..(at + size) as usize]);
        event(&mut words, time, is_read, address + at, size, some);
    }
    words
}

fn event(words: &mut String, time: u64, is_read: bool, address: u64, size: u64, bytes: Option<&[u8]>) {
    let contents = bytes.map_or(0, |bytes| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)));
    let known = bytes.is_some();
    writeln!(
        words,
        "* MemoryEvent time={time} read={is_read} known={known} addr={address:x} size={size} contents={contents:x}"
    )
    .unwrap();
}

/// Runs of bytes from the highest address down, at most eight per event.
fn picture_words(picture: &Picture<'_>, time: u64) -> String {
    let is_read = picture.kind == PictureKind::Load;
    let mut words = String::new();
    let mut end = 16;
    while end > 0 {
        let mut start = end - 1;
        let class = |at: usize| std::mem::discriminant(&picture.bytes[at]);
        while start > 0 && class(start - 1) == class(end - 1) && end - start < 8 {
            start -= 1;
        }
        let bytes: Vec<u8> = picture.bytes[start..end]
            .iter()
            .filter_map(|byte| if let Byte::Known(byte) = byte { Some(*byte) } else { None })
            .collect();
        let size = (end - start) as u64;
        match picture.bytes[start] {
            Byte::Untouched => {}
            Byte::Unknown => event(&mut words, time, is_read, picture.address + start as u64, size, None),
            Byte::Known(_) => event(&mut words, time, is_read, picture.address + start as u64, size, Some(&bytes)),
        }
        end = start;
    }
    words
}

/// A record in a format of our own, for lines that the reference does not handle.
fn own_words(line: &Line<'_>) -> String {
    let contents = |access: &Access<'_>| {
        number(access).map(|bytes| bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    match &line.record {
        Record::Header(header) => format!("Header {} {}\n", header.revision, text(header.flags)),
        Record::Operation(operation) => {
            format!("Operation {} {} {}\n", text(operation.kind), text(operation.name), text(operation.value.0))
        }
        Record::Register(register) => {
            let digits: Vec<String> = register
                .value
                .digits()
                .map(|digit| match digit {
                    Digit::Known(bits) => format!("{bits:x}"),
                    Digit::Unknown => "x".into(),
                    Digit::Unchanged => "-".into(),
                })
                .collect();
            let bytes: Vec<String> = digits.chunks(2).map(<[String]>::concat).collect();
            format!("Register {} {}\n", text(register.name).to_lowercase(), bytes.join(":"))
        }
        Record::Access(access) if access.is_aborted => {
            assert_eq!((access.data, access.direction), (None, Direction::Read));
            format!("Access read addr={:x} size={} aborted\n", access.address.unwrap(), access.size)
        }
        Record::Access(access) => {
            assert_eq!(access.purpose, Purpose::Fetch);
            let contents = contents(access).unwrap();
            format!("Access fetch addr={:x} size={} contents={contents:x}\n", access.address.unwrap(), access.size)
        }
        Record::Transfer(access) => {
            assert_eq!((access.owner, access.address), (Some((0x0100_0250, 0xbb)), None));
            format!("Transfer write size={} contents={:x}\n", access.size, contents(access).unwrap())
        }
        Record::Event(event) => {
            assert!(!event.is_exception);
            format!("Event {}\n", text(event.name))
        }
        other => panic!("{other:?}"),
    }
}
