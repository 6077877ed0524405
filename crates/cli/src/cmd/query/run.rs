//! From a question to its answer.

use std::io::{IsTerminal, stdout};

use anyhow::bail;
use unspool_tables::views;

use super::Args;
use super::cache::tables_of;
use super::engine::Engine;
use crate::json::write_summary;
use crate::output::Output;
use crate::verdict::Verdict;

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    // Before the tables are written, which may take long.
    Engine::find(String::new())?;
    let Some(sql) = &args.sql else { return shell(args) };
    let mut output = Output::open_for(&args.output, &args.trace)?;
    let (folder, verdict) = tables_of(args, &views::tables_in(sql))?;
    let engine = Engine::find(views::of(&folder))?;
    let options: &[&str] = match (args.csv, args.output.json) {
        (true, _) => &["-csv", "-nullvalue", ""],
        (false, true) => &["-jsonlines"],
        (false, false) => &["-box", "-nullvalue", "", "-cmd", ".maxrows -1"],
    };
    let mut rows: u64 = 0;
    engine.ask(sql, options, |line| {
        rows += 1;
        output.write(|out| match args.output.json {
            true => writeln!(out, "{{\"kind\":\"row\",\"values\":{line}}}"),
            false => writeln!(out, "{line}"),
        });
        Ok(())
    })?;
    if args.output.json {
        write_summary(&mut output, "query", verdict, |object| {
            object.plain("rows", rows);
        });
    }
    output.finish()?;
    Ok(verdict)
}

/// Lets the user ask in a shell, with all tables.
fn shell(args: &Args) -> anyhow::Result<Verdict> {
    if !stdout().is_terminal() {
        bail!("there is no question, and a shell needs a terminal: add the SQL in quotes");
    }
    let (folder, verdict) = tables_of(args, &unspool_tables::Table::ALL.into())?;
    match Engine::find(views::of(&folder))?.shell()? {
        true => Ok(verdict),
        false => bail!("DuckDB ended with an error"),
    }
}
