//! What C gets is what the library has, and what C does wrong is a status. `tests/*.c` do the same from C, and more.

use std::ffi::{CStr, CString, c_char};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::slice;

use unspool::convert::{FileSink, Format, SinkOptions, transfer};
use unspool::model::Event;
use unspool_testing::example;

use super::*;

/// Calls a function with a handle in place of its last argument, and returns both.
macro_rules! opened {
    ($function:ident($($argument:expr),*)) => {{
        let mut handle = null_mut();
        // SAFETY: all pointers are valid, and texts end with NUL.
        let status = unsafe { $function($($argument,)* &raw mut handle) };
        (status, handle)
    }};
}

fn path(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

fn open(file: &Path) -> *mut UnspoolTrace {
    let file = path(file);
    let (status, trace) = opened!(unspool_open(file.as_ptr()));
    assert_eq!(status, UnspoolStatus::Ok, "{}", message());
    trace
}

fn message() -> String {
    // SAFETY: the text ends with NUL, and no call fails while it is read.
    unsafe { CStr::from_ptr(unspool_error_message()) }.to_str().unwrap().to_string()
}

fn text(text: UnspoolText) -> String {
    // SAFETY: texts have this length, and their handle was not freed.
    let bytes = unsafe { slice::from_raw_parts(text.data.cast::<u8>(), text.length) };
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// An array of C.
fn items<'a, T>(start: *const T, length: usize) -> &'a [T] {
    // SAFETY: arrays have this length, and NULL is an empty one.
    if start.is_null() { &[] } else { unsafe { slice::from_raw_parts(start, length) } }
}

/// One file of each format: the shipped ones, and STF.
fn traces(folder: &Path) -> Vec<PathBuf> {
    let stf = folder.join("hello.stf");
    let steps = unspool::open(example("hello-qemu")).unwrap().open_steps().unwrap();
    let options = SinkOptions::for_path(Format::Stf, &stf);
    let mut sink = FileSink::open(&stf, steps.coverage(), steps.time_unit(), &options).unwrap();
    transfer(steps, None, &mut sink, |_, _| std::ops::ControlFlow::Continue(())).unwrap();
    sink.keep().unwrap();
    let shipped = ["hello-qemu", "hello-ete", "example.astf", "sum.tarmac"];
    shipped.iter().map(|name| example(name)).chain([stf]).collect()
}

/// Reads an iterator to its end, in batches of three.
macro_rules! read_all {
    ($trace:expr, $open:ident, $read:ident, $free:ident, $item:ty) => {{
        let (status, iterator) = opened!($open($trace));
        assert_eq!(status, UnspoolStatus::Ok, "{}", message());
        let mut all: Vec<$item> = Vec::new();
        loop {
            let (mut batch, mut count) = (Vec::with_capacity(3), 7);
            // SAFETY: all pointers are valid, the array has room for three items, and `count` of them were written.
            unsafe {
                match $read(iterator, batch.as_mut_ptr(), 3, &raw mut count) {
                    UnspoolStatus::Ok => batch.set_len(count),
                    status => break assert_eq!((status, count), (UnspoolStatus::End, 0), "{}", message()),
                }
            }
            assert!((1..=3).contains(&count));
            all.extend(batch);
        }
        // SAFETY: it is used no more.
        unsafe { $free(iterator) };
        all
    }};
}

#[test]
fn instructions_blocks_and_packets_are_those_of_the_library() {
    let folder = tempfile::tempdir().unwrap();
    for file in traces(folder.path()) {
        let (trace, opened) = (open(&file), unspool::open(&file).unwrap());
        let found = read_all!(
            trace,
            unspool_instructions_open,
            unspool_instructions_read,
            unspool_instructions_free,
            UnspoolExecutedInstruction
        );
        let expected = opened.instructions().unwrap().map(|item| UnspoolExecutedInstruction::from(item.unwrap()));
        assert_eq!(format!("{found:?}"), format!("{:?}", expected.collect::<Vec<_>>()), "{file:?}");
        let found = read_all!(trace, unspool_blocks_open, unspool_blocks_read, unspool_blocks_free, UnspoolBlock);
        let expected = opened.blocks().unwrap().map(|item| UnspoolBlock::from(item.unwrap()));
        assert_eq!(format!("{found:?}"), format!("{:?}", expected.collect::<Vec<_>>()), "{file:?}");
        if opened.capture().is_some() {
            let found =
                read_all!(trace, unspool_packets_open, unspool_packets_read, unspool_packets_free, UnspoolPacket);
            let expected = opened.packets().unwrap().map(|item| UnspoolPacket::from(item.unwrap()));
            assert_eq!(format!("{found:?}"), format!("{:?}", expected.collect::<Vec<_>>()), "{file:?}");
        }
        // SAFETY: it is used no more.
        unsafe { unspool_trace_free(trace) };
    }
}

/// A step in words, from the library.
fn described(step: &unspool::model::Step) -> String {
    let accesses: Vec<_> = step.accesses().map(|it| (it.address, it.size, it.is_tagged, it.bytes.to_vec())).collect();
    let registers: Vec<_> = step.registers().map(|it| (it.name, it.low, it.bytes.to_vec())).collect();
    let gap = matches!(step.event, Event::Gap(_));
    let (address, note) = (step.event.instruction().map(|it| it.address), step.note());
    format!("{} {} {:?} {address:x?} {gap} {note:?} {accesses:?} {registers:?}", step.core, step.position, step.time)
}

/// The same from C.
fn lent(step: &UnspoolStep) -> String {
    let bytes = |bytes, known, length| -> Vec<(u8, u8)> {
        items(bytes, length).iter().copied().zip(items(known, length).iter().copied()).collect()
    };
    let accesses = items(step.accesses, step.access_count).iter();
    let accesses: Vec<_> =
        accesses.map(|it| (it.address, it.size, it.is_tagged, bytes(it.bytes, it.known_bits, it.length))).collect();
    let registers = items(step.registers, step.register_count).iter();
    let registers: Vec<_> =
        registers.map(|it| (text(it.name), it.low, bytes(it.bytes, it.known_bits, it.length))).collect();
    let gap = step.gap.kind != UnspoolGapKind::None;
    let address = (step.event == UnspoolEvent::Instruction).then_some(step.instruction.address);
    let note = if step.note.data.is_null() { String::new() } else { text(step.note) };
    let time = (step.known & UNSPOOL_KNOWN_TIME != 0).then_some(step.time);
    format!("{} {} {time:?} {address:x?} {gap} {note:?} {accesses:?} {registers:?}", step.core, step.position)
}

#[test]
fn steps_are_those_of_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let mut effects = 0;
    for file in traces(folder.path()) {
        let trace = open(&file);
        let (status, steps) = opened!(unspool_steps_open(trace));
        assert_eq!(status, UnspoolStatus::Ok);
        // SAFETY: it is used no more: iterators do not need it.
        unsafe { unspool_trace_free(trace) };
        for expected in unspool::open(&file).unwrap().steps().unwrap() {
            let mut step = null();
            // SAFETY: the pointers are valid, and the step is read before the next call.
            let found = unsafe {
                assert_eq!(unspool_steps_next(steps, &raw mut step), UnspoolStatus::Ok);
                lent(&*step)
            };
            assert_eq!(found, described(&expected.unwrap()));
            effects += found.matches("[(").count();
        }
        let mut step = null();
        // SAFETY: the pointers are valid, and the iterator is used no more.
        unsafe {
            assert_eq!(unspool_steps_next(steps, &raw mut step), UnspoolStatus::End);
            unspool_steps_free(steps);
        }
        assert!(step.is_null());
    }
    assert!(effects > 20, "{effects}");
}

#[test]
fn absent_is_not_zero() {
    use unspool::model::{Branch, Context, Exception, ExceptionKind, Gap, Instruction, Modes, Security};
    let unknown = UnspoolInstruction::from(&Instruction::default());
    assert_eq!((unknown.known, unknown.opcode), (0, 0));
    let branch = Some(Branch { taken: true, target: None });
    let instruction = UnspoolInstruction::from(&Instruction { branch, opcode: Some(0), ..Instruction::default() });
    assert_eq!(instruction.known, UNSPOOL_KNOWN_OPCODE | UNSPOOL_KNOWN_TAKEN);
    let exception = Exception { kind: ExceptionKind::Irq, class: Some(0), call: Some(7), ..Exception::default() };
    let exception = UnspoolException::from(&exception);
    assert_eq!((exception.kind, exception.call), (UnspoolExceptionKind::Irq, 7));
    assert_eq!(exception.known, UNSPOOL_KNOWN_EXCEPTION_CLASS | UNSPOOL_KNOWN_CALL);
    let modes = Some(Modes { vector_length: 3, ..Modes::default() });
    let context = Context { level: Some(0), security: Some(Security::Realm), modes, ..Context::default() };
    let context = UnspoolContext::from(&context);
    assert_eq!((context.security, context.vector_length), (UnspoolSecurity::Realm, 3));
    assert_eq!(context.known, UNSPOOL_KNOWN_LEVEL | UNSPOOL_KNOWN_MODES);
    let gap = UnspoolGap::from(Some(Gap::NoCode(0)));
    assert_eq!((gap.kind, gap.known), (UnspoolGapKind::NoCode, UNSPOOL_KNOWN_ADDRESS));
    assert_eq!(UnspoolGap::from(Some(Gap::Damaged)).known, 0);
}

#[test]
fn what_cannot_be_opened_is_a_status() {
    let folder = tempfile::tempdir().unwrap();
    let rows: [(PathBuf, UnspoolStatus, &str); 4] = [
        (folder.path().join("absent"), UnspoolStatus::NotFound, "absent"),
        (example("hello-qemu/hello"), UnspoolStatus::WrongKind, "ELF program"),
        (example("hello-qemu/trace_0.bin"), UnspoolStatus::WrongKind, "protocol"),
        (folder.path().to_path_buf(), UnspoolStatus::WrongKind, "an empty directory"),
    ];
    for (file, expected, reason) in rows {
        let file = path(&file);
        let (status, trace) = opened!(unspool_open(file.as_ptr()));
        assert_eq!((status, trace), (expected, null_mut()), "{}", message());
        assert!(message().contains(reason), "{}", message());
    }
    let buffer = path(&example("hello-qemu/trace_0.bin"));
    let (status, trace) = opened!(unspool_open_buffer(buffer.as_ptr(), c"ETE".as_ptr()));
    assert_eq!(status, UnspoolStatus::Ok, "{}", message());
    // SAFETY: it is used no more.
    unsafe { unspool_trace_free(trace) };
    let (status, _) = opened!(unspool_open_buffer(buffer.as_ptr(), c"morse".as_ptr()));
    assert_eq!((status, &*message()), (UnspoolStatus::InvalidArgument, "unknown protocol 'morse'"));
    let not_utf8: [u8; 2] = [0xff, 0];
    let (status, _) = opened!(unspool_open_buffer(buffer.as_ptr(), not_utf8.as_ptr().cast::<c_char>()));
    assert_eq!(status, UnspoolStatus::InvalidText);
    // SAFETY: NULL is allowed everywhere.
    assert_eq!(unsafe { unspool_open(null(), null_mut()) }, UnspoolStatus::NullArgument);
}

#[test]
fn the_version_is_that_of_the_package() {
    // SAFETY: the text ends with NUL.
    let version = unsafe { CStr::from_ptr(unspool_version()) };
    assert_eq!(version.to_str(), Ok(env!("CARGO_PKG_VERSION")));
}

/// Traces are shared by the threads of C.
#[test]
fn traces_can_be_shared_by_threads() {
    fn assert_shared<T: Send + Sync>() {}
    fn assert_sent<T: Send>() {}
    assert_shared::<UnspoolTrace>();
    assert_sent::<UnspoolInstructions>();
    assert_sent::<UnspoolBlocks>();
    assert_sent::<UnspoolPackets>();
}
