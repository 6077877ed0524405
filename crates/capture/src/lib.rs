//! Captures: trace recordings on disk.
//!
//! package on disk ─▶ **capture** ─▶ trace bytes, source metadata, code images, system event log
//!
//! A package is a snapshot directory (`snapshot.ini`), a trace package (`contents.ini`), either of them in a zip
//! archive, a recording of perf, or bare trace bytes that the caller describes. This crate opens the files and locates their contents; it
//! does not interpret packets or instructions. Missing or invalid parts of a package are reported as [`Note`]s, not errors.
//! Programs that are not in the package are found, checked and placed by an [`ImageLoader`].
//!
//! ```
//! use std::fs;
//! use std::io::Read;
//! use unspool_capture::Capture;
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! fs::write(dir.join("snapshot.ini"), "[device_list]\ndevice0=etm.ini\n[trace]\nmetadata=trace.ini\n")?;
//! fs::write(dir.join("etm.ini"), "[device]\nname=ETM_0\nclass=trace_source\ntype=ETM4.2\n[regs]\nTRCTRACEIDR=0x10\n")?;
//! fs::write(dir.join("trace.ini"), "[trace_buffers]\nbuffers=buffer0\n\
//!     [buffer0]\nname=ETB\nfile=etb.bin\nformat=coresight\n[source_buffers]\nETM_0=ETB\n")?;
//! fs::write(dir.join("etb.bin"), [0; 32])?;
//!
//! let capture = Capture::open(dir)?;
//! for stream in capture.streams() {
//!     let source = &capture.sources[stream.source];
//!     assert_eq!((source.name.as_str(), source.id, stream.session), ("ETM_0", Some(0x10), 0));
//!     let mut bytes = Vec::new();
//!     capture.reader(stream.buffer)?.read_to_end(&mut bytes)?;
//!     assert_eq!(bytes.len(), 32);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod archive;
mod bare;
mod buffer;
mod capture;
mod clock;
mod code;
mod data_streams;
mod device;
mod error;
mod event;
mod ini;
mod log;
mod lookup;
mod metadata;
mod note;
mod open;
mod package;
pub mod perf;
mod reconfigured;
mod registers;
mod save;
mod snapshot;
mod store;
mod timeline;

pub use bare::BareOptions;
pub use buffer::{Buffer, BufferFile, BufferFormat, BufferReader, FileOffset, Recorded};
pub use capture::{
    Capture, Configured, Core, Device, EventImage, EventLog, Extra, Image, ImageRole, PackageFormat, Source, Stream,
};
pub use clock::{Clock, EventClock, EventTimes, Frequency, TimeConversion};
pub use code::{
    Bytes, Code, CodeKind, CodeMarker, ElfSections, FoundImage, ImageArgument, ImageFile, ImageLoader, ImageNotFound,
    ImageSearch, JitFunction, Jitdump, Kallsyms, Kcore, KernelSymbol, LoadedCode, Machine, ProcMaps, Region, Spaces,
    Symbol, Symbols,
};
pub use error::Error;
pub use event::{Call, KERNEL, Mapping, PatchCode, Pid, Placement, State, SystemEvent};
pub use log::{EventSummary, LogProblem, LogProblemKind, SystemLog};
pub use note::{Note, NoteKind};
pub use registers::{Register, Registers};
pub use save::{AddedImage, MissingImage, PackageKind, SaveOptions, Saved};
pub use store::FileReader;
pub use timeline::{
    Contents, ContextFormat, ContextGuess, ContextNumber, ContextProcess, ContextWidth, Direction, Extent, Hit,
    Inference, Inferred, Piece, Timeline, TraceConfiguration, Version, View,
};
