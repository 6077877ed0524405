//! The log of the emulator, read by the thread that writes it.
//!
//! what `-d int` says in the file of a thread ─▶ **what it says of each CPU**
//!
//! The emulator logs an exception before it executes what follows. So what is new when a block starts happened between
//! that block and the one before, and nothing has to be paired later. Whether there is something new is one look at
//! memory: the file is mapped and longer than what is in it, so that the byte behind the last one is zero until then.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use crate::qemu::Window;

/// The log of one thread of the emulator.
pub(crate) struct Log {
    file: File,
    window: Window,
    /// Where what is new will be.
    at: u64,
    /// What is before has been given back.
    freed: u64,
    /// The CPU that this thread executes.
    cpu: u32,
    /// All that it executed.
    pub(crate) cpus: BTreeSet<u32>,
}

/// So much may be read before it is given back.
const WORN: u64 = 1 << 20;

/// Exceptions have the number of their CPU in their first line.
const TAKEN: &str = "Taking exception ";
const CPU: &str = " on CPU ";
/// What else is said of them follows in lines that start like this.
const MORE: &str = "...";

impl Log {
    /// That of this thread, which has written to it. `pattern` has `%d` for the number of the thread.
    pub(crate) fn open(pattern: &str, cpu: u32) -> io::Result<Self> {
        let link = fs::read_link("/proc/thread-self")?;
        let thread = link.file_name().unwrap_or_default().to_string_lossy();
        let file = OpenOptions::new().read(true).write(true).open(pattern.replace("%d", &thread))?;
        let window = Window::new(&file, 0)?;
        Ok(Self { file, window, at: 0, freed: 0, cpu, cpus: BTreeSet::from([cpu]) })
    }

    /// Was something written?
    #[inline(always)]
    pub(crate) fn has_news(&self) -> bool {
        self.window.byte(self.at) != Some(0)
    }

    /// This CPU is executed from now on.
    #[inline(always)]
    pub(crate) fn execute(&mut self, cpu: u32) {
        if self.cpu != cpu {
            self.cpu = cpu;
            self.cpus.insert(cpu);
        }
    }

    /// Tells what was written, each part with its CPU.
    #[cold]
    pub(crate) fn take(&mut self, mut tell: impl FnMut(u32, &str)) -> io::Result<()> {
        let news = self.read()?;
        let mut rest = &*String::from_utf8_lossy(&news);
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(length_of_part(rest));
            tell(cpu_of(part).unwrap_or(self.cpu), part);
            rest = behind;
        }
        if self.at - self.freed > WORN {
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

/// A line, and those that say more of it.
fn length_of_part(text: &str) -> usize {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().map_or(0, str::len);
    first + lines.take_while(|line| line.starts_with(MORE)).map(str::len).sum::<usize>()
}

fn cpu_of(part: &str) -> Option<u32> {
    let line = part.lines().next()?.strip_prefix(TAKEN)?;
    line.split_once(CPU)?.1.trim().parse().ok()
}
