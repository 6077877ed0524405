//! Starting the emulator: which one, with which plugin, and how the stream comes back.
//!
//! The plugin connects to a socket in a folder of our own, so that the program's files and pipes stay as they are. It is
//! lent memory to put the stream into, where that can be had.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use super::chunks::Memory;
use super::machine::is_usual;
use super::{Machine, Options, RecordError};

/// A program that runs.
pub(super) struct Launched {
    pub(super) machine: Machine,
    pub(super) child: Child,
    pub(super) stream: UnixStream,
    pub(super) memory: Option<Memory>,
    pub(super) place: tempfile::TempDir,
}

/// What the plugin is called.
const PLUGIN: &str = "libunspool_plugin.so";

/// The header of a program has no more bytes.
const HEADER: u64 = 64;

/// How long to wait before looking again whether the plugin is there.
const PATIENCE: Duration = Duration::from_millis(2);

pub(super) fn launch(options: &Options) -> Result<Launched, RecordError> {
    let path = in_path(&options.program);
    let image = std::fs::read(&path).map_err(|source| RecordError::Program { path: path.clone(), source })?;
    let machine = Machine::of(&path, &image)?;
    let from = options.from.as_deref().map(|from| start_of(&path, &image, from)).transpose()?;
    let plugin = plugin(options)?;
    let place = tempfile::tempdir().map_err(|source| system("a folder for the socket", source))?;
    let socket = place.path().join("stream");
    let listener = UnixListener::bind(&socket).map_err(|source| system("the socket of the plugin", source))?;

    let name = options.emulator.clone().unwrap_or_else(|| machine.emulator().into());
    if options.registers {
        refuse_without_registers(&name)?;
    }
    let mut command = Command::new(&name);
    let mut argument = escaped(&plugin);
    argument.push(",out=");
    argument.push(escaped(&socket));
    let memory = Memory::new();
    memory.iter().for_each(|memory| lend(memory, &mut argument));
    from.iter().for_each(|from| argument.push(format!(",{from}")));
    argument.push(format!(",skip={}", options.skip));
    options.limit.iter().for_each(|limit| argument.push(format!(",limit={limit}")));
    argument.push(wishes(options.data, options.registers));
    if is_usual() {
        command.args(machine.settings());
    }
    if env::var_os("QEMU_LD_PREFIX").is_none() && Path::new(machine.libraries()).is_dir() {
        command.args(["-L", machine.libraries()]);
    }
    command.arg("-plugin").arg(argument).arg(&path).args(&options.arguments);
    let mut child = command.spawn().map_err(|source| match source.kind() {
        ErrorKind::NotFound => RecordError::NoEmulator { name: name.display().to_string() },
        _ => system(&name.display().to_string(), source),
    })?;
    match accept(&listener, &mut child, &name) {
        Ok(stream) => Ok(Launched { machine, child, stream, memory, place }),
        Err(error) => {
            // It has ended, or is of no use.
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

/// What a program is made for, which is looked for as the shell would do.
pub(super) fn machine_of(program: &Path) -> Result<Machine, RecordError> {
    let path = in_path(program);
    let mut header = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(HEADER).read_to_end(&mut header));
    read.map_err(|source| RecordError::Program { path: path.clone(), source })?;
    Machine::of(&path, &header)
}

/// What the plugin is told of what is wanted besides.
pub(super) fn wishes(data: bool, registers: bool) -> &'static str {
    match (data, registers) {
        (false, false) => "",
        (true, false) => ",data=on",
        (false, true) => ",registers=on",
        (true, true) => ",data=on,registers=on",
    }
}

/// The version that an emulator says it has; `None`: it is missing, which is told later, or says nothing of the kind.
pub(super) fn version_of(name: &Path) -> Option<String> {
    let said = Command::new(name).arg("--version").output().ok()?;
    version_in(&String::from_utf8_lossy(&said.stdout)).map(str::to_string)
}

pub(super) fn version_in(said: &str) -> Option<&str> {
    said.split_once(" version ")?.1.split_whitespace().next()
}

/// Plugins can read registers since QEMU 9.0.
pub(super) fn refuse_without_registers(name: &Path) -> Result<(), RecordError> {
    let is_old = |version: &String| version.split('.').next().and_then(number).is_some_and(|major| major < 9);
    match version_of(name).filter(is_old) {
        Some(version) => Err(RecordError::NoRegisters { name: name.display().to_string(), version }),
        None => Ok(()),
    }
}

/// Waits until the plugin is there, or the emulator is not.
pub(super) fn accept(listener: &UnixListener, child: &mut Child, name: &Path) -> Result<UnixStream, RecordError> {
    let failed = |source| system("the socket of the plugin", source);
    listener.set_nonblocking(true).map_err(failed)?;
    let mut ended = None;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).map_err(failed)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(failed(error)),
        }
        // One that ends may have connected just before.
        if let Some(status) = ended {
            return Err(RecordError::Silent { name: name.display().to_string(), status });
        }
        ended = child.try_wait().map_err(failed)?;
        thread::sleep(PATIENCE);
    }
}

pub(super) fn system(what: &str, source: std::io::Error) -> RecordError {
    RecordError::System { what: what.into(), source }
}

/// A name without a folder is looked for as the shell would do.
fn in_path(program: &Path) -> PathBuf {
    if program.components().count() != 1 || program.is_file() {
        return program.to_path_buf();
    }
    let paths = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&paths).map(|folder| folder.join(program)).find(|path| path.is_file());
    found.unwrap_or_else(|| program.to_path_buf())
}

/// Tells the plugin of memory.
pub(super) fn lend(memory: &Memory, argument: &mut OsString) {
    argument.push(",memory=");
    argument.push(escaped(memory.path()));
}

/// The emulator splits at commas, and takes two of them for one.
pub(super) fn escaped(path: &Path) -> OsString {
    match path.to_str() {
        Some(text) => text.replace(',', ",,").into(),
        None => path.into(),
    }
}

/// The plugin: where it was said to be, or beside the executable.
pub(super) fn plugin(options: &Options) -> Result<PathBuf, RecordError> {
    if let Some(plugin) = &options.plugin {
        let absolute = plugin.canonicalize();
        return absolute.map_err(|source| RecordError::Program { path: plugin.clone(), source });
    }
    let executable = env::current_exe().unwrap_or_default();
    let beside = executable.parent().unwrap_or(Path::new(".")).to_path_buf();
    // Installed, libraries are in a folder of their own; tests are in one below the plugin.
    let places = [beside.clone(), beside.join("deps"), beside.join("../lib/unspool"), beside.join("..")];
    let found = places.iter().map(|place| place.join(PLUGIN)).find(|path| path.is_file());
    found.ok_or(RecordError::NoPlugin { name: PLUGIN.into(), beside })
}

/// What the plugin is told of where recording starts.
fn start_of(path: &Path, image: &[u8], from: &str) -> Result<String, RecordError> {
    if let Some(address) = number(from) {
        return Ok(format!("from={address:#x}"));
    }
    let missing = || RecordError::NoSymbol { path: path.to_path_buf(), name: from.into() };
    let offset = unspool_capture::function_offset(image, from).ok_or_else(missing)?;
    Ok(format!("from-code={offset:#x}"))
}

/// Decimal, or hexadecimal behind 0x.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
