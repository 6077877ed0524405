//! The log of the emulator, read by the thread that writes it.
//!
//! log file of a thread (`-d int`) ─▶ **entries of each CPU**
//!
//! The emulator logs an exception before it executes what follows. Text that is new when a block starts was logged between
//! that block and the one before, so that nothing has to be paired later. To look for new text is one load from memory: the
//! file is mapped and longer than its text, so that the byte after the text is zero until there is more.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use super::window::Window;

/// The log of one thread of the emulator.
pub(super) struct Log {
    file: File,
    window: Window,
    /// The offset of new text.
    at: u64,
    /// Disk space before this offset was freed.
    freed: u64,
    /// The CPU that this thread executes.
    cpu: u32,
    /// All CPUs that it has executed.
    pub(super) cpus: BTreeSet<u32>,
}

/// Number of bytes that are read before their disk space is freed.
const CHUNK: u64 = 1 << 20;

/// Exceptions have the number of their CPU in their first line.
const TAKEN: &str = "Taking exception ";
const CPU: &str = " on CPU ";
/// Further lines of an exception start like this.
const MORE: &str = "...";

impl Log {
    /// Opens the log of this thread, which has written to it. `pattern` has `%d` for the number of the thread.
    pub(super) fn open(pattern: &str, cpu: u32) -> io::Result<Self> {
        let link = fs::read_link("/proc/thread-self")?;
        let thread = link.file_name().unwrap_or_default().to_string_lossy();
        let file = OpenOptions::new().read(true).write(true).open(pattern.replace("%d", &thread))?;
        let window = Window::new(&file, 0)?;
        Ok(Self { file, window, at: 0, freed: 0, cpu, cpus: BTreeSet::from([cpu]) })
    }

    /// Whether there is new text.
    #[inline(always)]
    pub(super) fn has_news(&self) -> bool {
        self.window.byte(self.at) != Some(0)
    }

    /// Notes that this CPU is executed from now on.
    #[inline(always)]
    pub(super) fn execute(&mut self, cpu: u32) {
        if self.cpu != cpu {
            self.cpu = cpu;
            self.cpus.insert(cpu);
        }
    }

    /// Passes the new entries to `sink`, each with its CPU.
    #[cold]
    pub(super) fn drain(&mut self, mut sink: impl FnMut(u32, &str)) -> io::Result<()> {
        let news = self.read()?;
        let mut rest = &*String::from_utf8_lossy(&news);
        while !rest.is_empty() {
            let (entry, later) = rest.split_at(length_of_entry(rest));
            sink(cpu_of(entry).unwrap_or(self.cpu), entry);
            rest = later;
        }
        if self.at - self.freed > CHUNK {
            self.window.free(&self.file, self.at);
            self.freed = self.at;
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut news = Vec::new();
        loop {
            let mut bytes = [0; 4096];
            let count = self.file.read_at(&mut bytes, self.at)?;
            let written = bytes.iter().take(count).take_while(|byte| **byte != 0).count();
            news.extend_from_slice(bytes.get(..written).unwrap_or_default());
            self.at += written as u64;
            if written < bytes.len() {
                break;
            }
        }
        if self.window.byte(self.at).is_none() {
            self.window = Window::new(&self.file, self.at)?;
        }
        Ok(news)
    }
}

/// The length of an entry: a line, and its further lines.
fn length_of_entry(text: &str) -> usize {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().map_or(0, str::len);
    first + lines.take_while(|line| line.starts_with(MORE)).map(str::len).sum::<usize>()
}

fn cpu_of(entry: &str) -> Option<u32> {
    let line = entry.lines().next()?.strip_prefix(TAKEN)?;
    line.split_once(CPU)?.1.trim().parse().ok()
}
