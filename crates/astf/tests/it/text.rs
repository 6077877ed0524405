//! Records as text: the example line by line, and what it does not show.
#![allow(clippy::unwrap_used)]

use unspool_astf::json::Json;
use unspool_astf::record::{
    Context, ExtraEa, Header, Instruction, Level, Storage, StringContinuation, StringStart, Timestamp, Trap, xattr_mode,
};
use unspool_astf::text::{Before, Lines};
use unspool_astf::{Bytes, example};
use unspool_testing::Random;

/// The lines of these records, as records of one file.
fn lines(records: &[Bytes]) -> Vec<String> {
    let mut lines = Lines::new();
    let mut text = String::new();
    for record in records {
        lines.write(record, &mut text);
        text.push('\n');
    }
    text.lines().map(str::to_string).collect()
}

/// The line of a single record, without its number.
fn line(record: &Bytes) -> String {
    lines(&[*record])[0].strip_prefix("1 ").unwrap().to_string()
}

fn instruction(pc: u64, iword: u32) -> Instruction {
    Instruction { pc, iword, ..Default::default() }
}

fn access(pc: u64, iword: u32, ea: u64, bytes: u64) -> Instruction {
    Instruction { ea_valid: true, ea, ea_size: (bytes - 1) as u8, ..instruction(pc, iword) }
}

fn string(text: &[u8], size: u16) -> Bytes {
    let mut string = [0; 28];
    string[..text.len()].copy_from_slice(text);
    StringStart { size, string, ..Default::default() }.to_bytes()
}

fn more(text: &[u8]) -> Bytes {
    let mut string = [0; 31];
    string[..text.len()].copy_from_slice(text);
    StringContinuation { string }.to_bytes()
}

fn time(value: u64) -> Bytes {
    Timestamp { unit: 1, value, ..Default::default() }.to_bytes()
}

#[test]
fn the_example_reads_as_expected() {
    let expected: Vec<&str> = include_str!("data/example.txt").lines().collect();
    let found = lines(&example::records());
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected);
    }
}

#[test]
fn other_records_read_as_expected() {
    let context = Context::default();
    let trap = Trap { target_pc: 0x1000, ..Default::default() };
    let nop = instruction(0x1000, 0xd503_201f);
    // Without an instruction before it, no direction is expected.
    let extra = ExtraEa { mem0_addr: 0x2000, ..Default::default() };
    let basic = Header::new(Level::Basic, false, Storage::Raw);
    let rows: &[(Bytes, &str)] = &[
        (basic.to_bytes(), "fileheader: ASTF trace, version 0.11 compression mode : RAW - Basic level trace"),
        (
            basic.stored(Storage::Zlib).to_bytes(),
            "fileheader: ASTF trace, version 0.11 compression mode : Zlib - Basic level trace",
        ),
        (
            Header { reginfo: true, reserved64: 0x10, ..basic }.to_bytes(),
            "fileheader: ASTF trace, version 0.11 compression mode : RAW - Basic level trace \
             reserved reginfo reserved64=0x10",
        ),
        (extra.to_bytes(), "extra_ea  : v[0x0000000000002000]"),
        (
            ExtraEa { mem1_valid: true, mem1_addr: 0x3000, mem1_tagged: true, ..extra }.to_bytes(),
            "extra_ea  : v[0x0000000000002000] v[0x0000000000003000]t",
        ),
        (
            ExtraEa { mem1_addr_range: true, mem1_addr: 0x40, mem0_tagged: true, ..extra }.to_bytes(),
            "extra_ea  : v[0x0000000000002000]t..[0x0000000000002040]",
        ),
        (ExtraEa { mem1_addr: 0x40, ..extra }.to_bytes(), "extra_ea  : v[0x0000000000002000] reserved mem1_addr=0x40"),
        (
            Context { secure: true, el: 3, pstate_dit: true, unsupported: true, mte_tcf: 2, ..context }.to_bytes(),
            "context   : CPU in EL3, secure, thread-mode SVE128, TC-async, DIT, unsupported",
        ),
        (
            Context { pid: 7, evl: 15, ..context }.to_bytes(),
            "context   : CPU in EL0, non-secure, thread-mode SVE2048 reserved pid=0x7",
        ),
        (
            Trap { ec: 0x15, syscall_type: 1, syscall_index: 0x10, ..trap }.to_bytes(),
            "trap      : Synchronous Exception to <0x0000000000001000> : 010101 SVC, SVC #0x10",
        ),
        (Trap { trap_type: 2, ..trap }.to_bytes(), "trap      : IRQ to <0x0000000000001000>"),
        (Trap { trap_type: 3, is_virtual: true, ..trap }.to_bytes(), "trap      : Virtual FIQ to <0x0000000000001000>"),
        (
            Trap { trap_type: 1, ec: 0x2f, ..trap }.to_bytes(),
            "trap      : SError to <0x0000000000001000> : 101111 SError",
        ),
        (Trap { trap_type: 4, ..trap }.to_bytes(), "trap      : Exception Return to <0x0000000000001000>"),
        (Trap { trap_type: 5, ..trap }.to_bytes(), "trap      : PE Reset to <0x0000000000001000>"),
        (
            Trap { trap_type: 6, ec: 0x3f, reserved128_high: 1, ..trap }.to_bytes(),
            "trap      : Reserved to <0x0000000000001000> : 111111 reserved class reserved reserved128_high=0x1",
        ),
        (time(u64::MAX), "timestamp : Value: 18446744073709551615"),
        (
            Timestamp { unit: 2, value: 1, value1: 3, ..Default::default() }.to_bytes(),
            "timestamp : Value: 1 reserved unit=0x2 value1=0x3",
        ),
        ([0x99; 32], "unknown   : type 0x99 9999999999999999999999999999999999999999999999999999999999999999"),
    ];
    for (record, expected) in rows {
        assert_eq!(line(record), *expected);
    }
    let instructions: &[(Instruction, &str)] = &[
        (nop, "NOP"),
        (Instruction { trap: true, ..nop }, "NOP tr"),
        (Instruction { iword: 0x0000_0001, ..nop }, "UDF      #0x1"),
        (Instruction { iword: 0xffff_ffff, ..nop }, ".inst    0xffffffff"),
        (Instruction { reserved6: 1, xattr: 2, ..nop }, "NOP reserved reserved6=0x1 xattr=0x2"),
        (Instruction { is_write: true, ea: 0x30, ..nop }, "NOP reserved is_write ea=0x30"),
        (Instruction { xattr_mode: 3, ..nop }, "NOP reserved xattr_mode=0x3"),
        (Instruction { xattr_mode: xattr_mode::SME, xattr: 0x1ff, ..nop }, "NOP i{255} reserved xattr=0x1ff"),
    ];
    for (record, expected) in instructions {
        assert_eq!(line(&record.to_bytes()), format!("instr     : el?? [0x0000000000001000] {expected}"));
    }
}

#[test]
fn unusual_directions_are_shown() {
    // stxr, cas, ldr, str, prfm, cpym: opcode, flags of the access, its mark in the line
    let rows: &[(u32, bool, bool, &str)] = &[
        (0xc800_7c20, false, true, ""),
        (0xc800_7c20, false, false, " -"),
        (0xc8a0_7c41, true, true, ""),
        (0xc8a0_7c41, true, false, " r"),
        (0xf940_0020, true, false, ""),
        (0xf940_0020, true, true, " rw"),
        (0xf900_0020, true, false, " r"),
        (0xf980_0000, false, false, ""),
        (0xf980_0000, false, true, " w"),
        (0x1d41_0440, true, false, ""),
        (0x1d41_0440, false, true, ""),
        (0x1d41_0440, true, true, " rw"),
    ];
    for (iword, is_read, is_write, expected) in rows {
        let (is_read, is_write) = (*is_read, *is_write);
        let record = Instruction { is_read, is_write, ..access(0x1000, *iword, 0x2000, 8) };
        let extra = ExtraEa { mem0_is_read: is_read, mem0_is_write: is_write, ..Default::default() };
        let found = lines(&[record.to_bytes(), extra.to_bytes()]);
        assert!(found[0].ends_with(&format!(" v[0x0000000000002000]{expected}")), "{}", found[0]);
        assert_eq!(found[1], format!("2 extra_ea  : v[0x0000000000000000]{expected}"));
        // A failed attempt did nothing.
        let record = Instruction { is_read: false, is_write: false, trap: true, ..record };
        assert!(line(&record.to_bytes()).ends_with(" v[0x0000000000002000] tr"));
    }
}

#[test]
fn strings_are_joined_and_escaped() {
    let rows: &[(&[Bytes], &[&str])] = &[
        (&[string(b"short", 5)], &["1 string    : \"short\""]),
        (&[string(b"", 0)], &["1 string    : \"\""]),
        (
            &[string(b"a\"\\\n\0\x1b[31m\xff\xe2\x80\xae", 15)],
            &["1 string    : \"a\\\"\\\\\\n\\0\\u{1b}[31m\\xff\\u{202e}\\0\""],
        ),
        (
            &[string(b"x", 30), more(b""), more(b"lost")],
            &[
                "1 string    : ..",
                "2 string    : \"x\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\"",
                "3 string    : \"lost\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\" continues no string",
            ],
        ),
        (
            &[string(&[b'a'; 28], 60), time(1), string(b"next", 4)],
            &[
                "1 string    : ..",
                "2 timestamp : Value: 1 after a truncated string: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
                "3 string    : \"next\"",
            ],
        ),
        (&[string(b"more than said", 4)], &["1 string    : \"more\" reserved string=0x207468616e2073616964"]),
    ];
    for (records, expected) in rows {
        assert_eq!(lines(records), *expected);
    }
    // A long one is cut off.
    let mut records = vec![string(&[b'a'; 28], u16::MAX)];
    records.resize(1 + (65535_usize - 28).div_ceil(31), more(&[b'a'; 31]));
    let found = lines(&records);
    let (last, before) = found.split_last().unwrap();
    assert!(before.iter().all(|line| line.ends_with(" string    : ..")));
    assert!(last.contains("aaa\".. (65535 bytes)") && last.len() < 5000, "{last}");
}

#[test]
fn passed_records_are_followed() {
    let records = example::records();
    let expected = lines(&records);
    for start in 0..records.len() {
        let mut lines = Lines::new();
        records[..start].iter().for_each(|record| lines.pass(record));
        let mut text = String::new();
        lines.write(&records[start], &mut text);
        assert_eq!(text, expected[start]);
    }
}

#[test]
fn lines_can_be_made_from_any_record_on() {
    let mut numbers = Random::new(2);
    // Instructions, and in places nothing but contexts, extra addresses and long strings.
    let types = [1, 1, 7, 5, 0x43, 0x44, 0x44, 0x44];
    let records: Vec<Bytes> = (0..3000)
        .map(|number| {
            let mut record = [0; 32];
            record.fill_with(|| numbers.bits() as u8);
            let some = if number / 100 % 2 == 0 { 3 } else { types.len() };
            record[0] = types[numbers.bits() as usize % some];
            // Half of the strings are short.
            record[2] = if numbers.bits().is_multiple_of(2) { 0 } else { record[2] % 4 };
            record
        })
        .chain(example::records())
        .collect();
    let (expected, expected_json) = (lines(&records), json_lines(&records));
    let (mut before, mut lines, mut json) = (Before::default(), Lines::new(), Json::new());
    for (number, record) in (1..).zip(&records) {
        let (mut text, mut object) = (String::new(), String::new());
        lines.resume(number, &before);
        lines.write(record, &mut text);
        assert_eq!(text, expected[number as usize - 1]);
        json.resume(&before);
        json.line(number, record, false, &mut object);
        assert_eq!(object, expected_json[number as usize - 1]);
        before.push(record);
    }
}

/// The JSON lines of these records, as records of one file.
fn json_lines(records: &[Bytes]) -> Vec<String> {
    let mut json = Json::new();
    let line = |(number, record)| {
        let mut line = String::new();
        json.line(number, record, false, &mut line);
        line
    };
    (1..).zip(records).map(line).collect()
}

#[test]
fn any_bytes_have_one_line() {
    let mut numbers = Random::new(1);
    let mut lines = Lines::new();
    let types = [0x41, 1, 5, 7, 8, 0x43, 0x44, 0x45, 0x99];
    for kind in types.iter().cycle().take(20_000) {
        let mut record = [0; 32];
        record.fill_with(|| numbers.bits() as u8);
        record[0] = *kind;
        let mut text = String::new();
        lines.write(&record, &mut text);
        assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
    }
}
