//! Answers of the index compared with a scan of the whole log.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;

use proptest::prelude::*;
use unspool_isa::{Isa, Operation};
use unspool_tarmac::dialect::Dialect;
use unspool_tarmac::index::{Fingerprint, Index, IndexOptions, Indexed, Position, Scanner, Totals, build};
use unspool_tarmac::read::{self, lines};
use unspool_tarmac::record::{Record, Stamp, Time, Unit};
use unspool_tarmac::state::{Known, Machine, Registers};

use crate::fixtures::{each_line, machine};

type Opened<'a> = Indexed<Cursor<&'a [u8]>, Cursor<Vec<u8>>>;

fn options(segment_size: usize, threads: usize) -> IndexOptions {
    IndexOptions { segment_size, threads, ..IndexOptions::of(Dialect::FastModels) }
}

fn index_of(log: &[u8], options: &IndexOptions) -> (Vec<u8>, Totals) {
    let mut input = Cursor::new(log);
    let fingerprint = Fingerprint::of(&mut input, 7).unwrap();
    let mut file = Cursor::new(Vec::new());
    let totals = build(&mut input, &mut file, fingerprint, options, |_| {}).unwrap();
    (file.into_inner(), totals)
}

fn indexed<'a>(log: &'a [u8], options: &IndexOptions) -> Opened<'a> {
    let (file, _) = index_of(log, options);
    Indexed::new(Cursor::new(log), Index::open(Cursor::new(file)).unwrap())
}

/// History of a byte of memory: its values by line, and whether a write or a read revealed each.
#[derive(Debug, Clone, Default)]
struct History(Vec<Epoch>);

#[derive(Debug, Clone, Copy)]
struct Epoch {
    line: u64,
    value: Option<u8>,
    is_seen: bool,
}

impl History {
    fn write(&mut self, line: u64, value: Option<u8>) {
        self.0.push(Epoch { line, value, is_seen: false });
    }

    fn read(&mut self, line: u64, value: u8) {
        match self.0.last_mut() {
            None => self.0.push(Epoch { line: 0, value: Some(value), is_seen: false }),
            Some(Epoch { value: now @ None, .. }) => *now = Some(value),
            Some(Epoch { value: Some(now), .. }) if *now == value => {}
            _ => self.0.push(Epoch { line, value: Some(value), is_seen: true }),
        }
    }

    fn at(&self, line: u64) -> Option<Known> {
        let epoch = self.0.iter().rfind(|epoch| epoch.line <= line)?;
        epoch.value.map(|value| Known { value, line: epoch.line, is_seen: epoch.is_seen })
    }
}

/// A log, and the history of memory in it.
#[derive(Debug, Default)]
struct Log {
    text: String,
    lines: u64,
    memory: BTreeMap<(String, u64), History>,
    /// Cores whose last instruction is a load: the log may call its accesses writes.
    loading: BTreeSet<String>,
    corrected: u64,
}

impl Log {
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
        self.lines += 1;
        if let [_, _, core, "E", ..] = text.split(' ').collect::<Vec<_>>()[..] {
            self.loading.remove(core);
        }
        if let [_, _, core, "IT", _, _, opcode, set, ..] = text.split(' ').collect::<Vec<_>>()[..] {
            let isa =
                [("O", Isa::A64), ("A", Isa::A32), ("T", Isa::T32)].into_iter().find(|row| row.0 == set).unwrap().1;
            let opcode = u32::from_str_radix(opcode, 16).unwrap();
            match unspool_isa::access(isa, opcode).operation == Operation::Load {
                true => self.loading.insert(core.to_string()),
                false => self.loading.remove(core),
            };
        }
    }

    /// All memory is unknown, until it is read or written again.
    fn gap(&mut self, core: &str) {
        self.line(&format!("# unspool gap start core={core}"));
        self.loading.remove(core);
        for address in 0x1000..0x1030 {
            self.memory.entry((core.to_string(), address)).or_default().write(self.lines, None);
        }
    }

    fn access(&mut self, core: &str, is_write: bool, address: u64, size: u64, value: u64, is_unknown: bool) {
        let (digits, mask) = ((size * 2) as usize, if size == 8 { u64::MAX } else { (1 << (size * 8)) - 1 });
        let data = if is_unknown { "x".repeat(digits) } else { format!("{:0digits$x}", value & mask) };
        let tag = if is_write { 'W' } else { 'R' };
        self.line(&format!("{} clk {core} M{tag}{size} {address:08x} {data}", self.lines));
        let is_corrected = is_write && self.loading.contains(core);
        self.corrected += u64::from(is_corrected);
        let is_write = is_write && !is_corrected;
        for at in 0..size {
            let history = self.memory.entry((core.to_string(), address + at)).or_default();
            let byte = (value >> (at * 8)) as u8;
            match (is_write, is_unknown) {
                (true, _) => history.write(self.lines, (!is_unknown).then_some(byte)),
                (false, false) => history.read(self.lines, byte),
                (false, true) => {}
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Action {
    /// A line, with `@` for its number.
    Line(String),
    /// Part of the execution of a core is missing.
    Gap(u8),
    Access {
        core: u8,
        is_write: bool,
        address: u64,
        size: u8,
        value: u64,
        is_unknown: bool,
    },
}

fn action() -> impl Strategy<Value = Action> {
    let instruction = |(core, pc, mode): (u8, u64, usize)| {
        let (set, mode) = [("O", "EL3h_s"), ("O", "EL0t_ns"), ("A", "svc_s"), ("T", "irq")][mode];
        // A branch with link, a return, a NOP and LDP.
        let opcode = [0x9400_0000_u32, 0xd65f_03c0, 0xd503_201f, 0xa940_7be1][(pc % 4) as usize];
        Action::Line(format!("@ clk cpu{core} IT (@) {:08x} {opcode:08x} {set} {mode} : NOP", pc * 4))
    };
    let register = |(core, name, value, shape): (u8, usize, u64, u8)| {
        let value = match shape {
            0 => format!("{value:016x}"),
            1 => format!("{:08x}", value as u32),
            2 => format!("{value:016x}_{value:016x}"),
            3 => format!("{:04x}xxxx", value as u16),
            _ => format!("--------_{:08x}", value as u32),
        };
        Action::Line(format!("@ clk cpu{core} R {} {value}", NAMES[name]))
    };
    // Few values, so that reads often confirm known ones.
    let access = |(core, is_write, address, size, value, unknown): (u8, bool, u64, u8, u64, u8)| {
        let (address, value) = (0x1000 + address, value * 0x0101_0101_0101_0101);
        Action::Access { core, is_write, address, size, value, is_unknown: unknown == 0 }
    };
    let exception = |core: u8| Action::Line(format!("@ clk cpu{core} E 0000a20c 00000084 CoreEvent_CURRENT_SPx_SYNC"));
    let junk = ["", "# a comment", "garbage here", "5 clk CADI E stopped", "R"];
    prop_oneof![
        4 => (0..3_u8, 0..40_u64, 0..4_usize).prop_map(instruction),
        4 => (0..3_u8, 0..NAMES.len(), any::<u64>(), 0..5_u8).prop_map(register),
        6 => (0..3_u8, any::<bool>(), 0..40_u64, 0..4_u8, 0..3_u64, 0..8_u8).prop_map(access),
        1 => (0..3_u8).prop_map(exception),
        1 => (0..3_u8).prop_map(Action::Gap),
        1 => prop::sample::select(junk.to_vec()).prop_map(|line| Action::Line(line.to_string())),
    ]
}

const NAMES: [&str; 30] = [
    "X0", "X1", "w1", "r2", "SP", "SP_EL1", "SP_EL3", "X30", "lr", "cpsr", "V1", "d1", "s3", "q1", "Z1", "r13", "r14",
    "r13_svc", "TCR_EL1", "ELR_EL3", "FPCR", "MSP", "P2", "r8", "d2", "v1", "E9", "sp_usr", "SCTLR", "xpsr",
];

fn log_of(actions: &[Action]) -> Log {
    let mut log = Log::default();
    for action in actions {
        match action {
            Action::Line(line) => log.line(&line.replace('@', &log.lines.to_string())),
            Action::Gap(core) => log.gap(&format!("cpu{core}")),
            Action::Access { core, is_write, address, size, value, is_unknown } => {
                log.access(&format!("cpu{core}"), *is_write, *address, 1 << size, *value, *is_unknown);
            }
        }
    }
    log
}

fn contents(registers: &Registers) -> Vec<(String, String, u64, Vec<u64>)> {
    let mut all = Vec::new();
    registers.each(|_, name, contents| {
        let lines: Vec<u64> = (0..contents.bits / 32).map(|half| contents.line_of(half * 32, 32)).collect();
        all.push((name.to_string(), contents.text(), contents.line, lines));
    });
    all.sort();
    all
}

/// The call depth of a core, by scanning from the start.
fn depths(log: &[u8], last: u64, core: &[u8]) -> u64 {
    let mut scanner = Scanner::new(options(1, 1), Position::Line(last), None, 0);
    each_line(log, |position, line| scanner.line(position.line, line));
    scanner.finish().unwrap().core(core).unwrap().depth
}

fn scan(log: &[u8], last: u64) -> Machine {
    let end = lines(log).nth(last as usize).map_or(log.len(), |(offset, _)| offset);
    machine(false, &log[..end])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// With any segment size, registers and memory equal those of a scan.
    #[test]
    fn state_is_as_by_scanning(
        actions in prop::collection::vec(action(), 1..250),
        segment_size in 60..3000_usize,
        threads in 1..3_usize,
        positions in prop::collection::vec(any::<prop::sample::Index>(), 4),
    ) {
        let log = log_of(&actions);
        let bytes = log.text.as_bytes();
        let mut indexed = indexed(bytes, &options(segment_size, threads));
        prop_assert_eq!(indexed.index().totals().lines, log.lines);
        prop_assert_eq!(indexed.index().totals().corrected_loads.count, log.corrected);
        for position in positions {
            let line = position.index(log.lines as usize) as u64 + 1;
            let machine = scan(bytes, line);
            let state = indexed.state(line, &[0..=u64::MAX]).unwrap();
            prop_assert_eq!(state.cores.len(), machine.cores().len());
            for (core, other) in state.cores.iter().zip(machine.cores()) {
                prop_assert_eq!(&core.name, &other.name);
                prop_assert_eq!(contents(&core.registers), contents(&other.registers), "line {}", line);
                prop_assert_eq!(core.registers.sp(), other.registers.sp());
                prop_assert_eq!(core.depth, depths(bytes, line, &core.name), "line {}", line);
                for ((name, address), history) in &log.memory {
                    if name.as_bytes() == core.name {
                        prop_assert_eq!(core.memory.byte(*address), history.at(line), "line {} {:x}", line, address);
                    }
                }
                let some = indexed.state(line, &[0x1004..=0x1013]).unwrap();
                let some = some.core(&core.name).unwrap();
                for address in 0x1004..0x1014 {
                    prop_assert_eq!(some.memory.byte(address), core.memory.byte(address));
                }
            }
        }
    }

    /// Seeking finds the same lines as a search.
    #[test]
    fn seeking(
        actions in prop::collection::vec(action(), 1..250),
        segment_size in 60..3000_usize,
        position in any::<prop::sample::Index>(),
        pc in 0..40_u64,
        number in 0..100_u64,
    ) {
        let log = log_of(&actions);
        let bytes = log.text.as_bytes();
        let mut indexed = indexed(bytes, &options(segment_size, 2));
        let at = position.index(log.lines as usize) as u64 + 1;
        let mut instructions: Vec<(u64, String, u64)> = Vec::new();
        let (mut exceptions, mut times) = (Vec::new(), Vec::new());
        each_line(bytes, |read::Position { line, .. }, parsed| {
            let core = || String::from_utf8(parsed.core.unwrap().to_vec()).unwrap();
            match &parsed.record {
                Record::Instruction(instruction) => instructions.push((line, core(), instruction.address.unwrap())),
                Record::Event(event) if event.is_exception => exceptions.push(line),
                _ => {}
            }
            if let Stamp::At(time) = parsed.stamp {
                times.push((line, time.value));
            }
        });
        let pc = pc * 4;
        let line_of = |found: Option<unspool_tarmac::index::Found>| found.map(|found| found.line);
        let next = instructions.iter().find(|(line, _, other)| *line > at && *other == pc).map(|(line, ..)| *line);
        prop_assert_eq!(line_of(indexed.next_at(pc, at).unwrap()), next);
        let previous = instructions.iter().rfind(|(line, _, other)| *line < at && *other == pc).map(|(line, ..)| *line);
        prop_assert_eq!(line_of(indexed.previous_at(pc, at).unwrap()), previous);
        let next = exceptions.iter().find(|line| **line > at).copied();
        prop_assert_eq!(line_of(indexed.next_exception(at).unwrap()), next);
        let previous = exceptions.iter().rfind(|line| **line < at).copied();
        prop_assert_eq!(line_of(indexed.previous_exception(at).unwrap()), previous);
        let nth = |core: Option<&str>| {
            let mut own = instructions.iter().filter(|(_, other, _)| core.is_none_or(|core| core == other));
            number.checked_sub(1).and_then(|at| own.nth(at as usize)).map(|(line, ..)| *line)
        };
        prop_assert_eq!(line_of(indexed.instruction(None, number).unwrap()), nth(None));
        prop_assert_eq!(line_of(indexed.instruction(Some(b"cpu1"), number).unwrap()), nth(Some("cpu1")));
        let time = Time { value: at, decimals: 0, unit: Unit::Clk };
        let later = times.iter().find(|(_, time)| *time > at).map_or(log.lines, |(line, _)| line - 1);
        let expected = if times.is_empty() { None } else { Some(later).filter(|line| *line > 0) };
        prop_assert_eq!(indexed.line_at(time).unwrap(), expected);
    }

    /// An index with changed bytes is rejected, or gives answers without a panic.
    #[test]
    fn damage(
        actions in prop::collection::vec(action(), 1..120),
        positions in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        length in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let log = log_of(&actions);
        let bytes = log.text.as_bytes();
        let (mut file, _) = index_of(bytes, &options(400, 1));
        if is_cut {
            file.truncate(length.index(file.len()));
        }
        for (position, value) in positions {
            if !file.is_empty() {
                let position = position.index(file.len());
                file[position] = value;
            }
        }
        if let Ok(index) = Index::open(Cursor::new(file)) {
            let mut indexed = Indexed::new(Cursor::new(bytes), index);
            for line in [0, 1, log.lines / 2, log.lines, u64::MAX] {
                let _ = indexed.state(line, &[0..=u64::MAX]);
                let _ = (indexed.next_at(8, line), indexed.previous_at(8, line));
                let _ = (indexed.next_exception(line), indexed.previous_exception(line));
                let _ = (indexed.instruction(None, line), indexed.instruction(Some(b"cpu1"), line));
            }
        }
    }
}

/// A semihosting call is interpreted in whichever segment its parameters were written.
#[test]
fn semihosting_across_segments() {
    let mut text = String::from(
        "1 clk IT (1) 00008000 d2800000 O EL1h_ns : NOP\n\
         1 clk R X1 0000000000001000\n1 clk R X0 0000000000000006\n1 clk MW8 00001008 0000000000002000\n\
         1 clk MW8 00001010 0000000000000004\n1 clk MW8 00002000 1111111111111111\n",
    );
    let filler = |text: &mut String| {
        for number in 0..60 {
            *text += &format!("2 clk IT ({number}) {:08x} d503201f O EL1h_ns : NOP\n", 0x9000 + number * 4);
        }
    };
    filler(&mut text);
    text += "3 clk IT (9) 0000a000 d45e0000 O EL1h_ns : HLT #0xf000\n";
    let call = text.lines().count() as u64;
    filler(&mut text);
    text += "4 clk IT (9) 0000b000 d503201f O EL1h_ns : NOP\n4 clk MR1 00002001 77\n";
    for segment_size in [200, 1000, 1 << 20] {
        let mut indexed = indexed(text.as_bytes(), &options(segment_size, 2));
        let mut byte = |line, address| {
            let state = indexed.state(line, &[0x2000..=0x2007]).unwrap();
            state.byte(address).map(|byte| (byte.value, byte.line))
        };
        assert_eq!([byte(call - 1, 0x2000), byte(call - 1, 0x2001)], [Some((0x11, 6)); 2], "{segment_size}");
        for line in [call, call + 5, call + 62] {
            assert_eq!(byte(line, 0x2000), None, "{segment_size}");
            assert_eq!(byte(line, 0x2001), Some((0x77, call)), "{segment_size}");
            assert_eq!(byte(line, 0x2004), Some((0x11, 6)), "{segment_size}");
        }
    }
}

/// A host fills a large buffer repeatedly, with reads and writes in between: with any segment size, memory equals that
/// of a scan.
#[test]
fn large_buffers_across_segments() {
    let mut text = String::from(
        "1 clk IT (1) 00008000 d2800000 O EL1h_ns : NOP\n\
         1 clk R X1 0000000000001000\n1 clk R X0 0000000000000006\n1 clk MW8 00001008 0000000000020003\n\
         1 clk MW8 00001010 00000000000a0000\n",
    );
    for number in 0..300_u64 {
        text += &format!("{number} clk IT (9) {:08x} d503201f O EL1h_ns : NOP\n", 0x9000 + number % 7 * 4);
        match number % 5 {
            0 => text += &format!("{number} clk IT (9) 0000a000 d45e0000 O EL1h_ns : HLT #0xf000\n"),
            1 => text += &format!("{number} clk MR4 {:08x} {number:08x}\n", 0x20000 + number * 3 % 64),
            2 => text += &format!("{number} clk MW2 {:08x} {number:04x}\n", 0x20000 + number * 7 % 64),
            3 => text += &format!("{number} clk MW1 {:08x} xx\n", 0x20000 + number * 5 % 64),
            // A smaller buffer within, or the whole.
            _ => text += &format!("{number} clk MW8 00001010 {:016x}\n", if number % 2 == 0 { 21 } else { 0xa0000 }),
        }
    }
    let count = text.lines().count() as u64;
    for segment_size in [100, 700, 5000, 1 << 20] {
        let mut indexed = indexed(text.as_bytes(), &options(segment_size, 2));
        for line in (1..=count).step_by(23) {
            let machine = scan(text.as_bytes(), line);
            let (some, all) = ([0x1fff0..=0x2005f], [0..=u64::MAX]);
            let few = indexed.state(line, &some).unwrap();
            let state = indexed.state(line, &all).unwrap();
            for address in (0x20000..0x20048).chain([0x1ffff, 0x30000, 0x5ffff, 0xc0002, 0xc0003]) {
                let expected = machine.cores()[0].memory.last_write(address);
                // A later read before any write applies to earlier lines as well.
                let is_same = |found| found == expected || expected.is_none_or(|write| write.value.is_none());
                let found = state.last_write(address);
                assert!(is_same(found), "{segment_size} {line} {address:x}: {found:?} {expected:?}");
                let (line_of, expected_line) =
                    (found.map_or(0, |write| write.line), expected.map_or(0, |write| write.line));
                assert_eq!(line_of, expected_line, "{segment_size} {line} {address:x}");
                if some[0].contains(&address) {
                    assert_eq!(few.last_write(address), found, "{segment_size} {line} {address:x}");
                }
            }
        }
    }
}

fn step(instruction: &str, effect: &str) -> String {
    format!("1 clk IT (1) {instruction} O EL1h_ns : -\n1 clk R {effect}\n")
}

/// A stack pointer or link register that is written with an unknown value does not keep its old one.
#[test]
fn call_depth_with_unknown_pointers() {
    let mut text = String::new();
    let mut line = |instruction: &str, effect: &str| text += &step(instruction, effect);
    line("00001000 d503201f", "SP_EL1 0000000000007000");
    line("00001004 94000400", "X30 0000000000001008");
    line("00002000 d10043ff", "SP_EL1 000000000000xxxx");
    line("00002004 94000400", "X30 0000000000002008");
    line("00003000 d503201f", "SP_EL1 ------------7000");
    // This may be another stack or not, so it returns.
    line("00003004 d65f03c0", "X30 xxxxxxxxxxxxxxxx");
    // Not a call, although the link register once had this address.
    line("00002008 14000400", "X9 0000000000000000");
    line("00004000 d65f03c0", "X9 0000000000000000");
    line("00001008 d503201f", "X9 0000000000000000");
    let count = text.lines().count() as u64;
    for segment_size in [60, 90, 150, 1 << 20] {
        let mut indexed = indexed(text.as_bytes(), &options(segment_size, 1));
        for line in 1..=count {
            let depth = indexed.state(line, &[]).unwrap().cores[0].depth;
            assert_eq!(depth, depths(text.as_bytes(), line, b""), "{segment_size} {line}");
        }
    }
    assert_eq!([8, 9, 17].map(|line| depths(text.as_bytes(), line, b"")), [1, 2, 0]);
}

/// The call depth at every line, with any segment size.
#[test]
fn call_depth() {
    let mut text = String::new();
    let mut line = |instruction: &str, effect: &str| text += &step(instruction, effect);
    let mut sp = 0x9000_u64;
    // A function at 0x2000 that calls itself and returns from all levels.
    line("00001000 94000400", "X30 0000000000001004");
    for _ in 0..5 {
        sp -= 16;
        line("00002000 d10043ff", &format!("SP_EL1 {sp:016x}"));
        line("00002004 97ffffff", "X30 0000000000002008");
    }
    line("00002000 d65f03c0", "X9 0000000000000000");
    for _ in 0..4 {
        line("00002008 910043ff", &format!("SP_EL1 {:016x}", sp + 16));
        sp += 16;
        line("0000200c d65f03c0", "X9 0000000000000000");
    }
    line("00002008 910043ff", &format!("SP_EL1 {:016x}", sp + 16));
    line("0000200c d65f03c0", "X9 0000000000000000");
    line("00001004 d503201f", "X9 0000000000000000");
    let depths = |segment_size: usize| -> Vec<u64> {
        let mut indexed = indexed(text.as_bytes(), &options(segment_size, 1));
        // Instructions are on every other line.
        (1..=indexed.index().totals().lines)
            .map(|line| indexed.state(line, &[]).unwrap().cores[0].depth)
            .step_by(2)
            .collect()
    };
    let expected = [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0];
    for segment_size in [60, 150, 400, 1 << 20] {
        assert_eq!(depths(segment_size), expected, "{segment_size}");
    }
}

/// Comments between lines of a core: the core continues after them, with an index and without.
#[test]
fn core_continues_after_a_segment_of_comments() {
    let mut text = String::from("1 clk cpu0 IT (1) 00001000 d503201f O EL1h_n : NOP\n");
    text += "2 clk cpu1 IT (1) 00001000 d503201f O EL1h_n : NOP\n";
    text += &"# a comment that is longer than a segment\n".repeat(10);
    text += "R X0 0000000000000001\n";
    let last = text.lines().count() as u64;
    let mut indexed = indexed(text.as_bytes(), &options(60, 1));
    let state = indexed.state(last, &[]).unwrap();
    let found: Vec<_> = state.cores.iter().map(|core| (&core.name[..], contents(&core.registers).len())).collect();
    let machine = scan(text.as_bytes(), last);
    let cores = machine.cores().iter();
    let expected: Vec<_> = cores.map(|core| (&core.name[..], contents(&core.registers).len())).collect();
    assert_eq!(found, expected);
}

#[test]
fn scanner_keeps_to_the_limit_and_the_end() {
    let text = "\
1 clk IT (1) 00001000 d503201f O EL1h_n : NOP
1 clk MR4 00002000 00000001
1 clk MR4 00003000 00000002
";
    let finish = |line, limit| {
        let mut scanner = Scanner::new(options(1, 1), Position::Line(line), None, limit);
        each_line(text.as_bytes(), |position, line| scanner.line(position.line, line));
        scanner.finish()
    };
    let known = |limit| [0x2000, 0x3000].map(|address| finish(1, limit).unwrap().byte(address).is_some());
    assert_eq!([known(0), known(1)], [[true, true], [true, false]]);
    assert!(finish(3, 0).is_some() && finish(4, 0).is_none());
}

/// A stack pointer that is written at the start of a segment, before the first instruction of its core there.
#[test]
fn depth_depends_on_registers_before_the_first_instruction_of_a_segment() {
    let mut log = Log::default();
    let call = |core: &str, address: &str| format!("@ clk {core} IT (@) {address} 94000000 O EL3h_s : BL");
    let other = || "@ clk cpu0 R X0 0000000000000000".to_string();
    let sp = |value: u8| format!("@ clk cpu1 R SP 000000000000000{value}");
    let mut lines = vec![call("cpu0", "00000000"); 4];
    lines.push(call("cpu1", "00000080"));
    lines.extend(vec![other(); 6]);
    let early = lines.len();
    lines.extend([other(), other(), sp(0), call("cpu0", "00000000"), call("cpu1", "00000000"), sp(1)]);
    let opcode = |address: &str, opcode: &str| format!("@ clk cpu1 IT (@) {address} {opcode} O EL3h_s : RET");
    lines.extend([opcode("00000014", "d65f03c0"), opcode("00000084", "d65f03c0"), other()]);
    for (at, line) in lines.iter().enumerate() {
        if at == early {
            // A segment with a load that the log calls a write is scanned again, with the state at its start.
            log.line(&format!("{} clk cpu0 R X1 1f22586463043374_1f22586463043374", log.lines));
            log.access("cpu0", true, 4096, 1, 0, true);
        }
        log.line(&line.replace('@', &log.lines.to_string()));
    }
    let bytes = log.text.as_bytes();
    for (segment_size, threads) in (60..1000).flat_map(|size| [(size, 1), (size, 2)]) {
        let mut indexed = indexed(bytes, &options(segment_size, threads));
        for line in 1..=log.lines {
            for core in indexed.state(line, &[]).unwrap().cores {
                let expected = depths(bytes, line, &core.name);
                assert_eq!(core.depth, expected, "line {line}, segments of {segment_size} bytes");
            }
        }
    }
}
