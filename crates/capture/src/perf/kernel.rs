//! The memory of the kernel that `perf record --kcore` keeps beside the records.
//!
//! `kcore_dir/kcore`, `kcore_dir/kallsyms` ─▶ **kernel** ─▶ [`KernelMemory`]
//!
//! It is the code that was executed, with all that the kernel patches when it starts; a `vmlinux` has none of that. The
//! list of modules is not read: the records have their addresses.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::capture::{Capture, PackageFormat};
use crate::code::{Code, Kallsyms, Kcore};
use crate::note::{Location, Note, NoteKind};
use crate::store::Store;

/// The folder of the files, and their names.
const FOLDER: &str = "kcore_dir";
const MEMORY: &str = "kcore";
const SYMBOLS: &str = "kallsyms";

/// Maximum size of the list of symbols.
const SYMBOLS_LIMIT: u64 = 1 << 30;

/// The kernel at the end of a recording.
#[derive(Debug, Clone, Default)]
pub struct KernelMemory {
    /// Its code, with names.
    pub code: Option<Code>,
    /// Its symbols.
    pub symbols: Option<Arc<Kallsyms>>,
    /// The file of the symbols.
    pub symbols_file: Option<PathBuf>,
    /// Files that are missing or damaged.
    pub notes: Vec<Note>,
}

impl Capture {
    /// The memory of the kernel, if the capture is a recording that has it.
    pub fn kernel_memory(&self) -> KernelMemory {
        match &*self.store {
            Store::Directory(path) if self.format == PackageFormat::Perf => KernelMemory::read(&path.join(FOLDER)),
            _ => KernelMemory::default(),
        }
    }
}

impl KernelMemory {
    fn read(folder: &Path) -> Self {
        let mut kernel = Self::default();
        // A link would lead out of the recording.
        let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
        if !fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir()) {
            return kernel;
        }
        let [memory, symbols] = [MEMORY, SYMBOLS].map(|name| folder.join(name));
        if is_file(&symbols) {
            kernel.read_symbols(&symbols);
        }
        if !is_file(&memory) {
            kernel.note(&memory, "is missing: the code of the kernel is that of its file");
        } else {
            match Kcore::open(&memory) {
                Ok(mut file) => {
                    let (code, notes) = match &kernel.symbols {
                        Some(symbols) => file.code(symbols, Kcore::DEFAULT_LIMIT),
                        None => file.read_all(Kcore::DEFAULT_LIMIT),
                    };
                    kernel.code = Some(code);
                    kernel.notes.extend(notes);
                }
                Err(error) => kernel.note(&memory, &error.to_string()),
            }
        }
        kernel
    }

    fn read_symbols(&mut self, path: &Path) {
        let name = path.to_string_lossy();
        let is_small = fs::metadata(path).is_ok_and(|found| found.len() <= SYMBOLS_LIMIT);
        if !is_small {
            return self.note(path, "is too large");
        }
        match fs::read(path) {
            Ok(text) => {
                let mut symbols = Kallsyms::parse(&name, text);
                self.notes.append(&mut symbols.notes);
                self.symbols_file = (!symbols.is_empty()).then(|| path.to_path_buf());
                self.symbols = Some(Arc::new(symbols)).filter(|symbols| !symbols.is_empty());
            }
            Err(error) => self.note(path, &error.to_string()),
        }
    }

    fn note(&mut self, path: &Path, text: &str) {
        self.notes.push(Location::file(&path.to_string_lossy()).note(NoteKind::MissingFile, text));
    }
}
