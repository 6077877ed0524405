//! Reasons why a program or system cannot be recorded.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Reason why a program or system cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The program cannot be read.
    #[error("{}: {source}", path.display())]
    Program {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// There is no known emulator for it.
    #[error("{}: {what}", path.display())]
    NotSupported {
        /// The file.
        path: PathBuf,
        /// Its kind.
        what: String,
    },
    /// There is no such function in the program.
    #[error("{}: no function '{name}'; give an address, or record from the start", path.display())]
    NoSymbol {
        /// The file.
        path: PathBuf,
        /// The name or argument.
        name: String,
    },
    /// The emulator is missing.
    #[error(
        "'{name}' not found: install the package {package} (Debian, Ubuntu: apt install {package}), or name another \
         emulator with --emulator"
    )]
    NoEmulator {
        /// Its name.
        name: String,
        /// The package of Debian that contains it.
        package: &'static str,
    },
    /// This version of the emulator does not report facts that are needed.
    #[error("{name}: QEMU {version} does not report {what}")]
    NotReported {
        /// Its name.
        name: String,
        /// Its version.
        version: String,
        /// The facts, and the versions that report them.
        what: &'static str,
    },
    /// An argument of the emulator that redirects its log.
    #[error("'{argument}' cannot be used: recording a system needs the log of the emulator")]
    LogInUse {
        /// The name or argument.
        argument: String,
    },
    /// A function name, where only addresses are known.
    #[error("'{name}' is not an address: a system has no function names")]
    NoFunctions {
        /// The name or argument.
        name: String,
    },
    /// The plugin is missing.
    #[error(
        "plugin {name} not found beside {}: build it (cargo build --release -p unspool-plugin), and name it with --plugin",
        beside.display()
    )]
    NoPlugin {
        /// Its name.
        name: String,
        /// The directory of the executable.
        beside: PathBuf,
    },
    /// The emulator ended before the plugin connected.
    #[error(
        "{name} did not start recording ({status}); does it support plugins? The dynamically linked packages of Debian 12 \
         do, static ones do not"
    )]
    NotConnected {
        /// The emulator.
        name: String,
        /// Its exit status.
        status: ExitStatus,
    },
    /// Another system error.
    #[error("{what}: {source}")]
    System {
        /// The file or action.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl RecordError {
    /// An error of the system, with the file or action that it is about.
    pub(crate) fn system(what: &str, source: io::Error) -> Self {
        Self::System { what: what.into(), source }
    }
}
