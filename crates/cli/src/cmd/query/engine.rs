//! DuckDB, as a program: where it is, and how it is asked.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

/// The program that answers.
const NAME: &str = if cfg!(windows) { "duckdb.exe" } else { "duckdb" };

/// The program, and what it is to know before a question.
pub(super) struct Engine {
    program: PathBuf,
    views: String,
}

impl Engine {
    /// Finds the program: `$UNSPOOL_DUCKDB`, beside unspool, in the PATH.
    pub(super) fn find(views: String) -> anyhow::Result<Self> {
        if let Some(named) = env::var_os("UNSPOOL_DUCKDB").filter(|path| !path.is_empty()) {
            return Ok(Self { program: named.into(), views });
        }
        let beside = env::current_exe().ok().map(|path| path.with_file_name(NAME));
        let path = env::var_os("PATH").unwrap_or_default();
        let in_path = env::split_paths(&path).map(|folder| folder.join(NAME)).collect::<Vec<_>>();
        let Some(program) = beside.into_iter().chain(in_path).find(|path| path.is_file()) else {
            bail!(
                "DuckDB answers queries, and it is not installed: 'pip install duckdb-cli' or https://duckdb.org/install"
            );
        };
        Ok(Self { program, views })
    }

    /// A shell, on the terminal of the user.
    pub(super) fn shell(&self) -> anyhow::Result<bool> {
        let status = self.command(&["-cmd", &self.views]).status().with_context(|| self.failed())?;
        Ok(status.success())
    }

    /// Passes each line of an answer to `take`. `options` choose its form.
    pub(super) fn ask(
        &self,
        sql: &str,
        options: &[&str],
        mut take: impl FnMut(&str) -> std::io::Result<()>,
    ) -> anyhow::Result<()> {
        let mut command = self.command(options);
        command.args(["-bail", "-batch", "-cmd", &self.views, "-c", sql]).stdin(Stdio::null());
        let mut running = Running(command.stdout(Stdio::piped()).spawn().with_context(|| self.failed())?);
        let answer = running.0.stdout.take().context("no output of DuckDB")?;
        for line in BufReader::new(answer).lines() {
            take(&line?)?;
        }
        if !running.0.wait()?.success() {
            bail!("DuckDB could not answer: its message is above; docs/queries.md lists tables and views");
        }
        Ok(())
    }

    fn command(&self, options: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("-no-init").args(options);
        command
    }

    fn failed(&self) -> String {
        format!("cannot start {}", Path::new(&self.program).display())
    }
}

/// A program that ends with its user.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
