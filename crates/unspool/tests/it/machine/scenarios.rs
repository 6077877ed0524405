//! Short traces of two or three processes, packet by packet, and what is decoded of each.
//!
//! Image `a` has one instruction before its return, `b` two, and so on. A row lists what is executed: `7a` is image `a` in
//! process 7, `-` is missing code, `?` ambiguous code.

use unspool::capture::SystemLog;
use unspool::coresight::etm4::Packet;
use unspool::coresight::etm4::packet::{Address, TraceInfo};
use unspool::coresight::etm4::unit::Settings;
use unspool::coresight::{Atoms, Context, Protocol, Security, SubIsa};

use super::image::{CODE, Image, RET, mark};
use super::package::write_capture;
use super::{Decoded, decode};
use Part::{At, Execute, Move, Process, Time};

/// The base of all programs, of a library, and of the kernel.
pub(super) const HERE: u64 = 0x40_0000;
pub(super) const LIBRARY: u64 = 0x7f80_0000_0000;
pub(super) const KERNEL_BASE: u64 = 0xffff_8000_8000_0000;

/// A part of a trace.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Time(u64),
    /// A context packet: the context identifier, at EL0.
    Process(u32),
    /// An address packet, for the code of an image at a base.
    Move(u64),
    /// An address with its context: base, level, context identifier.
    At(u64, u8, u32),
    /// The code up to its return is executed.
    Execute,
}

fn context(el: u8, id: u32) -> Context {
    Context { el, aarch64: true, security: Security::NonSecure, vmid: None, context_id: Some(id) }
}

pub(super) fn images() -> Vec<Image> {
    let image = |number: u32| {
        let marks = (0..=number).map(|at| mark(number << 8 | at)).chain([RET]);
        Image::new(["a", "b", "c", "d"][number as usize], marks.collect(), &[0])
    };
    (0..4).map(image).collect()
}

pub(super) fn trace(settings: &Settings, parts: &[Part]) -> Vec<u8> {
    let to = |base: u64| Address::full(SubIsa::Is0, base + CODE);
    let info = TraceInfo { info: Some(0), key: None, speculation: None, cycle_threshold: None };
    let head = [Packet::AlignmentSync, Packet::TraceInfo(info), Packet::TraceOn];
    let packets = parts.iter().map(|part| match *part {
        Time(value) => Packet::Timestamp { value, bits: 14, cycles: None },
        Process(id) => Packet::Context(Some(context(0, id))),
        Move(base) => Packet::Address(to(base)),
        At(base, el, id) => Packet::AddressContext { address: to(base), context: context(el, id) },
        Execute => Packet::Atoms(Atoms::new(1, 1)),
    });
    let mut bytes = Vec::new();
    head.into_iter().chain(packets).for_each(|packet| packet.encode(&settings.config(), &mut bytes).unwrap());
    bytes
}

/// What is decoded of a trace with a log.
fn decoded(log: Option<&str>, parts: &[Part]) -> String {
    let mut settings = Settings::new(Protocol::Ete);
    settings.set("TRCCONFIGR", 0x841);
    let log = log.map(|log| SystemLog::read(log.as_bytes()));
    assert!(log.iter().all(|log| log.problems.is_empty()), "{log:?}");
    let events = log.as_ref().map(|log| log.events.as_slice());
    let folder = write_capture(&settings, &[&trace(&settings, parts)], &images(), events, None);
    words(decode(folder.path()).remove(0))
}

/// What was executed, in the form of the rows.
pub(super) fn words(decoded: Vec<Decoded>) -> String {
    let (mut words, mut marks) = (Vec::new(), 0);
    for item in decoded {
        match item {
            Decoded::Shown(_, (_, RET, pid)) => {
                words.push(format!("{pid}{}", ["", "a", "b", "c", "d"][marks]));
                marks = 0;
            }
            Decoded::Shown(..) => marks += 1,
            Decoded::Named("no_code") => words.push("-".to_string()),
            Decoded::Named("ambiguous_image") => words.push("?".to_string()),
            Decoded::Named(_) | Decoded::Exception => {}
            Decoded::Wrong(what) => panic!("{what}"),
        }
    }
    words.join(" ")
}

/// The procedure for context identifiers that are process identifiers.
#[test]
fn procedure_for_process_identifiers() {
    let log = "- declare_process(CURRENT, 310, 0x400000, \"d\")\n\
               10 declare_process(START, 307, 0x400000, \"a\")\n10 declare_process(START, 308, 0x400000, \"b\")\n\
               30 declare_thread(START, 409, 308)\n75 declare_thread(END, 409, 308)\n30 declare_library(START, 307, 0x7f8000000000, \"c\")\n\
               50 declare_library(END, 307, 0x7f8000000000, \"c\")\n\
               70 patch_code(307, 0x400100, 8, hex\"e91f80d2c0035fd6\")\n\
               90 declare_process(END, 308, 0x400000, \"b\")\n100 declare_process(START, 308, 0x400000, \"d\")";
    let parts = [
        [Time(20), At(HERE, 0, 307), Execute, At(HERE, 0, 308), Execute, At(HERE, 0, 310), Execute].as_slice(),
        // A thread, and a library of the other process only.
        &[Time(40), At(HERE, 0, 409), Execute, At(LIBRARY, 0, 307), Execute, At(LIBRARY, 0, 308), Execute],
        // The library is gone.
        &[Time(60), At(LIBRARY, 0, 307), Execute, At(HERE, 0, 307), Execute, Time(65)],
        // Other code of the same size, the end of the thread, then another process with a number that was in use.
        &[Time(80), At(HERE, 0, 307), Execute, At(HERE, 0, 409), Execute, Time(110), At(HERE, 0, 308), Execute],
        // A thread that was never declared.
        &[At(HERE, 0, 999), Execute, At(HERE, 0, 307), Execute, Time(120)],
    ]
    .concat();
    assert_eq!(decoded(Some(log), &parts), "307a 308b 310d 308b 307c - - 307a 307a - 308d - 307a");
}

/// The procedure for context identifiers that are address space identifiers.
#[test]
fn procedure_for_address_space_identifiers() {
    let log = "- declare_process(CURRENT, 310, 0x400000, \"d\")\n- declare_asid(CURRENT, 9, 310)\n\
               10 declare_process(START, 307, 0x400000, \"a\")\n10 declare_process(START, 308, 0x400000, \"b\")\n\
               10 declare_library(START, 307, 0x7f8000000000, \"c\")\n50 declare_library(END, 307, 0x7f8000000000, \"c\")\n\
               75 patch_code(308, 0x400100, 8, hex\"e91f80d2c0035fd6\")\n10 declare_asid(START, 5, 307)\n30 declare_asid(START, 6, 308)\n50 declare_asid(END, 5, 307)\n\
               60 declare_asid(START, 5, 308)\n60 declare_asid(START, 6, 307)\n80 declare_asid(END, 6, 307)";
    let parts = [
        [Time(20), At(HERE, 0, 5), Execute, At(LIBRARY, 0, 5), Execute, At(HERE, 0, 6), Execute].as_slice(),
        &[At(HERE, 0, 9), Execute, Time(20)],
        &[Time(40), At(HERE, 0, 5), Execute, At(HERE, 0, 6), Execute, Time(40)],
        // The identifiers are exchanged, and the library is gone.
        &[Time(70), At(HERE, 0, 5), Execute, At(HERE, 0, 6), Execute, At(LIBRARY, 0, 6), Execute, Time(70)],
        // One is not assigned any more, and the code of the other process is as short as that of image a.
        &[Time(90), At(HERE, 0, 6), Execute, At(HERE, 0, 5), Execute, Time(90)],
    ]
    .concat();
    assert_eq!(decoded(Some(log), &parts), "307a 307c - 310d 307a 308b 308b 307a - - 308a");
}

/// Context, address and time may come in any order before the code that they are for.
#[test]
fn any_order_of_context_address_and_time() {
    let log = "10 declare_process(START, 307, 0x400000, \"a\")\n10 declare_process(START, 308, 0x400000, \"b\")\n\
               30 declare_process(END, 308, 0x400000, \"b\")\n31 declare_process(START, 308, 0x400000, \"c\")";
    let all = [Process(308), Move(HERE), Time(40)];
    for [a, b, c] in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let parts = [Time(20), At(HERE, 0, 307), Execute, all[a], all[b], all[c], Execute, Move(HERE), Execute];
        assert_eq!(decoded(Some(log), &parts), "307a 308c 308c", "{parts:?}");
    }
}

/// Where code is replaced between two timestamps, neither is shown; what is only added or removed is.
#[test]
fn code_in_the_window_of_an_event() {
    let log = "10 declare_process(START, 307, 0x400000, \"a\")\n30 exec_process(307)\n\
               31 declare_process(START, 307, 0x400000, \"b\")\n32 declare_library(START, 307, 0x7f8000000000, \"c\")";
    let parts = [
        [Time(20), At(HERE, 0, 307), Execute, At(LIBRARY, 0, 307), Execute].as_slice(),
        &[Time(40), At(HERE, 0, 307), Execute, At(LIBRARY, 0, 307), Execute],
    ]
    .concat();
    assert_eq!(decoded(Some(log), &parts), "? 307c 307b 307c");
}

/// Two programs at one address, without a log and without context identifiers.
#[test]
fn two_programs_at_one_address() {
    let mut settings = Settings::new(Protocol::Ete);
    settings.set("TRCCONFIGR", 0x1);
    let images = images();
    let bytes = trace(&settings, &[At(HERE, 0, 0), Execute, At(HERE, 0, 0), Execute]);
    let folder = write_capture(&settings, &[&bytes], &images, None, None);
    let dump = |number: usize| format!("[dump{number}]\nfile={}\naddress={HERE:#x}\n", images[number].name);
    let core = format!("[device]\nname=cpu_0\nclass=core\ntype=ARM-AA64\n{}{}", dump(1), dump(2));
    std::fs::write(folder.path().join("cpu_0.ini"), core).unwrap();
    let found = decode(folder.path()).remove(0);
    assert!(found.contains(&Decoded::Named("ambiguous_image")), "{found:?}");
    assert!(found.iter().all(|item| matches!(item, Decoded::Named("ambiguous_image" | "lost"))), "{found:?}");
}

/// The kernel is process 0, whatever the context identifier is, and the process is the same after it.
#[test]
fn the_kernel_in_between() {
    let log = "- declare_process(CURRENT, 0, 0xffff800080000000, \"d\")\n10 declare_process(START, 307, 0x400000, \"a\")\n\
               10 declare_process(START, 308, 0x400000, \"b\")";
    let kernel = At(KERNEL_BASE, 1, 307);
    let parts = [Time(20), At(HERE, 0, 307), Execute, kernel, Execute, At(HERE, 0, 307), Execute];
    assert_eq!(decoded(Some(log), &parts), "307a 0d 307a");
    // The kernel executes another process before it returns.
    let parts = [Time(20), At(HERE, 0, 307), Execute, kernel, Execute, At(HERE, 0, 308), Execute];
    assert_eq!(decoded(Some(log), &parts), "307a 0d 308b");
}
