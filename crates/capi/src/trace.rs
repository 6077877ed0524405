//! Open captures and trace files: what they are, their sources, images and functions.

use std::ffi::c_char;
use std::ptr;

use unspool::capture::Registers;
use unspool::coresight::Protocol;
use unspool::{Bare, FileKind, Opened, Trace, open_bare};

use crate::failure::{Failure, guard};
use crate::pointer::{borrow, borrow_mut, free, handle, output, path, text};
use crate::status::UnspoolStatus;
use crate::text::UnspoolText;

/// Format of a trace.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnspoolKind {
    /// A format that this header does not name.
    Other = 0,
    /// A capture: CoreSight trace in a directory, an archive, a perf.data file or a bare buffer.
    Capture = 1,
    /// An ASTF file.
    Astf = 2,
    /// An STF file.
    Stf = 3,
    /// A Tarmac log.
    Tarmac = 4,
}

/// Open capture or trace file.
pub struct UnspoolTrace {
    pub(crate) opened: Opened,
    sources: Vec<String>,
}

impl From<Opened> for UnspoolTrace {
    fn from(opened: Opened) -> Self {
        let sources = opened.sources().into_iter().map(String::from).collect();
        Self { opened, sources }
    }
}

impl UnspoolTrace {
    /// Bytes of a buffer without metadata.
    fn of_buffer(path: &std::path::Path, protocol: &str) -> Result<Self, Failure> {
        let unknown = || Failure::new(UnspoolStatus::InvalidArgument, format!("unknown protocol '{protocol}'"));
        let protocol = Protocol::from_name(protocol).ok_or_else(unknown)?;
        let (registers, core) = (Registers::default(), None);
        let bare = Bare { protocol, id: None, format: None, registers, write_pointer: None, wrapped: None, core };
        Ok(Opened::from(open_bare(&[path], bare)?).into())
    }

    fn source(&self, index: usize) -> Result<UnspoolText, Failure> {
        let count = self.sources.len();
        let missing = || Failure::new(UnspoolStatus::InvalidArgument, format!("no source {index}: there are {count}"));
        self.sources.get(index).map(|name| UnspoolText::new(name)).ok_or_else(missing)
    }

    fn select(&mut self, source: &str) -> Result<(), Failure> {
        let Some(capture) = self.opened.capture() else {
            let kind = self.opened.kind().with_article();
            return Err(Failure::new(UnspoolStatus::WrongKind, format!("{kind} has no sources")));
        };
        Trace::named(capture, source)?;
        self.opened.select_source(source);
        Ok(())
    }
}

/// Opens a capture, an ASTF file, an STF file or a Tarmac log; its first bytes decide which. Images and symbols are those
/// of the capture, or found beside the file. Free it with unspool_trace_free.
///
/// # Safety
///
/// The pointers are NULL or valid; `path` ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_open(path: *const c_char, trace: *mut *mut UnspoolTrace) -> UnspoolStatus {
    guard(|| {
        // SAFETY: as required of the caller.
        let trace = unsafe { output(trace, ptr::null_mut(), "memory for the trace") }?;
        // SAFETY: as required of the caller.
        let path = unsafe { self::path(path, "path") }?;
        *trace = handle(unspool::open(path)?.into());
        Ok(UnspoolStatus::Ok)
    })
}

/// Opens a trace buffer without metadata as a capture. The protocol is "ete", "etm4", "etm3", "ptm", "itm" or "stm", in any
/// case. Whether the buffer consists of formatter frames is detected. Free it with unspool_trace_free.
///
/// # Safety
///
/// The pointers are NULL or valid; the texts end with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_open_buffer(
    path: *const c_char,
    protocol: *const c_char,
    trace: *mut *mut UnspoolTrace,
) -> UnspoolStatus {
    guard(|| {
        // SAFETY: as required of the caller.
        let trace = unsafe { output(trace, ptr::null_mut(), "memory for the trace") }?;
        // SAFETY: as required of the caller.
        let (path, protocol) = unsafe { (self::path(path, "path")?, text(protocol, "protocol")?) };
        *trace = handle(UnspoolTrace::of_buffer(path, protocol)?);
        Ok(UnspoolStatus::Ok)
    })
}

/// Frees a trace; NULL is allowed. Its iterators can still be used.
///
/// # Safety
///
/// It was not freed before, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_trace_free(trace: *mut UnspoolTrace) {
    // SAFETY: as required of the caller.
    unsafe { free(trace) };
}

/// Returns the format of a trace in `kind`.
///
/// # Safety
///
/// The pointers are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_trace_kind(trace: *const UnspoolTrace, kind: *mut UnspoolKind) -> UnspoolStatus {
    guard(|| {
        // SAFETY: as required of the caller.
        let kind = unsafe { output(kind, UnspoolKind::Other, "kind") }?;
        // SAFETY: as required of the caller.
        *kind = match unsafe { borrow(trace, "trace") }?.opened.kind() {
            FileKind::Capture => UnspoolKind::Capture,
            FileKind::Astf => UnspoolKind::Astf,
            FileKind::Stf => UnspoolKind::Stf,
            FileKind::Tarmac => UnspoolKind::Tarmac,
            _ => UnspoolKind::Other,
        };
        Ok(UnspoolStatus::Ok)
    })
}

/// Counts the sources of a capture that have trace. A trace file has none.
///
/// # Safety
///
/// The pointers are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_trace_source_count(trace: *const UnspoolTrace, count: *mut usize) -> UnspoolStatus {
    guard(|| {
        // SAFETY: as required of the caller.
        let count = unsafe { output(count, 0, "count") }?;
        // SAFETY: as required of the caller.
        *count = unsafe { borrow(trace, "trace") }?.sources.len();
        Ok(UnspoolStatus::Ok)
    })
}

/// Returns the name of a source. It is valid until the trace is freed.
///
/// # Safety
///
/// The pointers are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_trace_source_name(
    trace: *const UnspoolTrace,
    index: usize,
    name: *mut UnspoolText,
) -> UnspoolStatus {
    guard(|| {
        // SAFETY: as required of the caller.
        let name = unsafe { output(name, UnspoolText::ABSENT, "name") }?;
        // SAFETY: as required of the caller.
        *name = unsafe { borrow(trace, "trace") }?.source(index)?;
        Ok(UnspoolStatus::Ok)
    })
}

/// Selects one source of a capture by name or trace id ("0x10"), for iterators that are opened from now on. Without a
/// selection, all sources are read, one after the other.
///
/// # Safety
///
/// The pointers are NULL or valid; `source` ends with NUL; no other thread uses the trace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_trace_select_source(trace: *mut UnspoolTrace, source: *const c_char) -> UnspoolStatus {
    guard(|| {
        // SAFETY: as required of the caller.
        let source = unsafe { text(source, "source") }?;
        // SAFETY: as required of the caller.
        unsafe { borrow_mut(trace, "trace") }?.select(source)?;
        Ok(UnspoolStatus::Ok)
    })
}

/// Adds the code and symbols of an ELF file, for iterators that are opened from now on. It takes precedence over the images
/// of the capture. Names of functions that were returned before are no longer valid.
///
/// # Safety
///
/// The pointers are NULL or valid; `path` ends with NUL; no other thread uses the trace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_trace_add_image(trace: *mut UnspoolTrace, path: *const c_char) -> UnspoolStatus {
    guard(|| {
        // SAFETY: as required of the caller.
        let path = unsafe { self::path(path, "path") }?;
        // SAFETY: as required of the caller.
        unsafe { borrow_mut(trace, "trace") }?.opened.add_image(path)?;
        Ok(UnspoolStatus::Ok)
    })
}

/// Returns the name of the function at an address: UNSPOOL_STATUS_ABSENT and no text if no image has one there. The name
/// is valid until an image is added or the trace is freed.
///
/// # Safety
///
/// The pointers are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_trace_function(
    trace: *const UnspoolTrace,
    address: u64,
    name: *mut UnspoolText,
) -> UnspoolStatus {
    guard(|| {
        // SAFETY: as required of the caller.
        let name = unsafe { output(name, UnspoolText::ABSENT, "name") }?;
        // SAFETY: as required of the caller.
        let Some(function) = unsafe { borrow(trace, "trace") }?.opened.function(address) else {
            return Ok(UnspoolStatus::Absent);
        };
        *name = UnspoolText::new(function);
        Ok(UnspoolStatus::Ok)
    })
}
