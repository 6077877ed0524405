//! Starting the emulator: the plugin, its arguments, and the connection for its stream.
//!
//! The plugin connects to a socket in a folder of its own, so that the files and pipes of the program stay as they are. It
//! gets shared memory for the stream, if that is available.

use std::env;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use unspool_wire::{EmulatorCapabilities, Header};

use crate::chunks::{LiveChunks, SharedMemory};
use crate::error::RecordError;

/// The file name of the plugin.
const PLUGIN: &str = "libunspool_plugin.so";

/// Time between two checks whether the plugin has connected.
const POLL: Duration = Duration::from_millis(2);

/// Connection for a plugin, prepared before the emulator is started.
pub(crate) struct Launch {
    /// Holds the socket, and logs.
    pub(crate) folder: TempDir,
    /// The value of `-plugin`.
    pub(crate) argument: OsString,
    listener: UnixListener,
    memory: Option<SharedMemory>,
}

impl Launch {
    /// Prepares the connection for a plugin; `None`: the one beside the executable.
    pub(crate) fn new(plugin: Option<&Path>) -> Result<Self, RecordError> {
        let mut argument = escaped(&find_plugin(plugin)?);
        let folder = tempfile::tempdir().map_err(|source| RecordError::system("a folder for the socket", source))?;
        let socket = folder.path().join("stream");
        let listener = UnixListener::bind(&socket).map_err(socket_failed)?;
        let memory = SharedMemory::new();
        for (key, path) in [(",out=", Some(&*socket)), (",memory=", memory.as_ref().map(SharedMemory::path))] {
            if let Some(path) = path {
                argument.push(key);
                argument.push(escaped(path));
            }
        }
        Ok(Self { folder, argument, listener, memory })
    }

    /// Adds the options that select what is recorded.
    pub(crate) fn select(&mut self, skip: u64, data: bool, registers: bool) {
        self.argument.push(format!(",skip={skip}"));
        for (_, option) in [(data, ",data=on"), (registers, ",registers=on")].iter().filter(|(is_on, _)| *is_on) {
            self.argument.push(option);
        }
    }

    /// Waits until the plugin has connected, or the emulator has ended.
    pub(crate) fn connect(
        self,
        child: &mut Child,
        name: &Path,
    ) -> Result<(LiveChunks, EmulatorCapabilities, TempDir), RecordError> {
        let mut stream = accept(&self.listener, child, name)?;
        let header = Header::read(&mut stream);
        let header = header.map_err(|source| RecordError::system("the stream of the plugin", source))?;
        Ok((LiveChunks::new(stream, self.memory), header.capabilities, self.folder))
    }
}

fn accept(listener: &UnixListener, child: &mut Child, name: &Path) -> Result<UnixStream, RecordError> {
    listener.set_nonblocking(true).map_err(socket_failed)?;
    let mut ended = None;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).map_err(socket_failed)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(socket_failed(error)),
        }
        // An emulator that has ended may have connected just before.
        if let Some(status) = ended {
            return Err(RecordError::NotConnected { name: name.display().to_string(), status });
        }
        ended = child.try_wait().map_err(socket_failed)?;
        thread::sleep(POLL);
    }
}

fn socket_failed(source: io::Error) -> RecordError {
    RecordError::system("the socket of the plugin", source)
}

/// Starts the emulator, which is part of a package of Debian.
pub(crate) fn spawn(command: &mut Command, name: &Path, package: &'static str) -> Result<Child, RecordError> {
    let name = name.display().to_string();
    command.spawn().map_err(|source| match source.kind() {
        ErrorKind::NotFound => RecordError::NoEmulator { name, package },
        _ => RecordError::system(&name, source),
    })
}

/// The version of an emulator; `None`: it is missing, which is reported when it is started, or prints no version.
fn version_of(name: &Path) -> Option<String> {
    let printed = Command::new(name).arg("--version").output().ok()?;
    version_in(&String::from_utf8_lossy(&printed.stdout)).map(str::to_string)
}

fn version_in(text: &str) -> Option<&str> {
    text.split_once(" version ")?.1.split_whitespace().next()
}

/// Fails for an emulator whose version lacks facts that are needed.
pub(crate) fn require(name: &Path, lacks: impl Fn(&str) -> bool, what: &'static str) -> Result<(), RecordError> {
    match version_of(name).filter(|version| lacks(version)) {
        Some(version) => Err(RecordError::NotReported { name: name.display().to_string(), version, what }),
        None => Ok(()),
    }
}

/// Fails for an emulator without register values: plugins can read registers since QEMU 9.0.
pub(crate) fn require_registers(name: &Path) -> Result<(), RecordError> {
    let is_old = |version: &str| version.split('.').next().and_then(number).is_some_and(|major| major < 9);
    let what = "register values to plugins: --registers and --events need QEMU 9.0 or later with plugins (--emulator)";
    require(name, is_old, what)
}

/// A path in an argument: the emulator splits at commas, and reads a double comma as one.
pub(crate) fn escaped(path: &Path) -> OsString {
    match path.to_str() {
        Some(text) => text.replace(',', ",,").into(),
        None => path.into(),
    }
}

fn find_plugin(plugin: Option<&Path>) -> Result<PathBuf, RecordError> {
    if let Some(plugin) = plugin {
        let absolute = plugin.canonicalize();
        return absolute.map_err(|source| RecordError::Program { path: plugin.to_path_buf(), source });
    }
    let beside = folder_of_executable();
    plugin_beside_executable().ok_or(RecordError::NoPlugin { name: PLUGIN.into(), beside })
}

fn folder_of_executable() -> PathBuf {
    env::current_exe().unwrap_or_default().parent().unwrap_or(Path::new(".")).to_path_buf()
}

/// The plugin beside the executable, or where a package installs it.
pub fn plugin_beside_executable() -> Option<PathBuf> {
    let beside = folder_of_executable();
    // Installed, libraries are in a folder of their own; tests are in one below the plugin.
    let folders = [beside.clone(), beside.join("deps"), beside.join("../lib/unspool"), beside.join("..")];
    folders.iter().map(|folder| folder.join(PLUGIN)).find(|path| path.is_file())
}

/// A decimal number, or a hexadecimal one after 0x.
pub(crate) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found() {
        for version in ["7.2.22", "10.0.2"] {
            let text = format!("QEMU emulator version {version} (Debian 1:{version}+ds-1)\nCopyright");
            assert_eq!(version_in(&text), Some(version));
        }
        assert_eq!(version_in("an emulator"), None);
    }
}
