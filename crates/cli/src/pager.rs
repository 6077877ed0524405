//! Pager for text on a terminal, as in git.
//!
//! Takes the bytes of a listing; writes them to the standard input of `$UNSPOOL_PAGER`, `$PAGER` or `less`, which
//! starts at the first byte, so that a command that fails early shows no pager. Where none can be started the bytes go to
//! standard output. Messages are held back until the pager has ended.

use std::env;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::diagnostic;

/// Set by `--no-pager`.
static IS_OFF: AtomicBool = AtomicBool::new(false);

/// Does a pager have the terminal?
static IS_RUNNING: AtomicBool = AtomicBool::new(false);

/// Whether Ctrl-C is for the pager, which has the terminal and decides for itself when to end.
#[cfg(unix)]
pub(crate) fn is_running() -> bool {
    IS_RUNNING.load(Ordering::Relaxed)
}

/// Writes to standard output directly from now on.
pub(crate) fn turn_off() {
    IS_OFF.store(true, Ordering::Relaxed);
}

/// Standard output, through a pager if it is a terminal.
pub(crate) fn standard_output() -> Box<dyn Write + Send> {
    let is_allowed = !IS_OFF.load(Ordering::Relaxed) && io::stdout().is_terminal();
    match is_allowed.then(command).flatten() {
        Some(words) => Box::new(Pager::Waiting(words)),
        None => Box::new(io::stdout()),
    }
}

/// Words of the pager command; `None`: no pager is wanted.
fn command() -> Option<Vec<String>> {
    let wanted = ["UNSPOOL_PAGER", "PAGER"].into_iter().find_map(|name| env::var(name).ok());
    let is_dumb = env::var("TERM").is_ok_and(|terminal| terminal == "dumb");
    let wanted = wanted.unwrap_or_else(|| if is_dumb { String::new() } else { "less".into() });
    match shell_words::split(&wanted) {
        Ok(words) if words.is_empty() || words == ["cat"] => None,
        Ok(words) => Some(words),
        Err(_) => {
            diagnostic::warning(format_args!("the pager '{wanted}' has an unclosed quote and is not used"));
            None
        }
    }
}

enum Pager {
    /// Not started; these are the words of its command.
    Waiting(Vec<String>),
    Running(Running),
    /// It could not be started.
    Direct(io::Stdout),
}

struct Running {
    child: Child,
    /// `None` once it is closed.
    input: Option<ChildStdin>,
    /// Has Ctrl-C been pressed? The pager has received it too, and decides for itself when to end.
    interrupted: Arc<AtomicBool>,
}

impl Pager {
    fn start(words: &[String]) -> Self {
        match Running::start(words) {
            Ok(running) => Self::Running(running),
            Err(error) => {
                // Without `less`, there is no pager, unless one was asked for.
                if words != ["less"] {
                    diagnostic::warning(format_args!("cannot start the pager '{}': {error}", words.join(" ")));
                }
                Self::Direct(io::stdout())
            }
        }
    }
}

impl Running {
    fn start(words: &[String]) -> io::Result<Self> {
        let (program, arguments) = words.split_first().ok_or(ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped());
        // F: end at once if all fits on the screen; R: show colors; X: leave the text on the screen.
        for (name, value) in [("LESS", "FRX"), ("LV", "-c")] {
            if env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        let mut child = command.spawn()?;
        IS_RUNNING.store(true, Ordering::Relaxed);
        let interrupted = Arc::new(AtomicBool::new(false));
        // If it fails, the rest is written to the pager after Ctrl-C too.
        #[cfg(unix)]
        let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted));
        diagnostic::hold();
        Ok(Self { input: child.stdin.take(), child, interrupted })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.input.take());
        // Without its exit code: ending a pager early is no error.
        let _ = self.child.wait();
        IS_RUNNING.store(false, Ordering::Relaxed);
        diagnostic::release();
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Self::Waiting(words) = self {
            *self = Self::start(words);
        }
        match self {
            Self::Running(running) if running.interrupted.load(Ordering::Relaxed) => Err(ErrorKind::BrokenPipe.into()),
            Self::Running(Running { input: Some(input), .. }) => input.write(bytes),
            Self::Direct(out) => out.write(bytes),
            _ => Err(ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Running(Running { input: Some(input), .. }) => input.flush(),
            Self::Direct(out) => out.flush(),
            _ => Ok(()),
        }
    }
}
