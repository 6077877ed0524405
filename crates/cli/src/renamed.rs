//! Spellings that are not ours: names that options had before, and verbs that other tools have.
//!
//! Takes the error of the parser of the command line; ends the program with a message that names the right spelling, if
//! there is one, and otherwise with the message of the parser.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::diagnostic;

/// Verbs that people try, and ours.
const VERBS: &[(&str, &str)] = &[
    ("analyze", "stats"),
    ("callgraph", "calls"),
    ("cat", "dump"),
    ("compare", "diff"),
    ("cut", "slice"),
    ("demux", "frames"),
    ("disasm", "decode"),
    ("disassemble", "decode"),
    ("extract", "slice"),
    ("identify", "info"),
    ("lint", "check"),
    ("list", "dump"),
    ("ls", "info"),
    ("objdump", "decode"),
    ("perf", "profile"),
    ("print", "dump"),
    ("registers", "state"),
    ("report", "profile"),
    ("run", "record"),
    ("script", "decode"),
    ("show", "info"),
    ("stat", "stats"),
    ("trace", "record"),
    ("validate", "check"),
    ("verify", "check"),
];

/// Options that were renamed: verb, old spelling, new spelling. An empty verb is any verb.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("", "--reg", "--register NAME=VALUE"),
    ("check", "--deny-warnings", "--strict"),
    ("convert", "--from-dialect", "--dialect"),
    ("info", "--registers", "--explain"),
    ("diff", "--implicit-thumb", "--implicit-thumb-a or --implicit-thumb-b"),
    ("diff", "--big-endian", "--big-endian-a or --big-endian-b"),
    ("diff", "--source", "--source-a or --source-b"),
    ("diff", "--core", "--core-a or --core-b"),
    ("diff", "--dialect", "--dialect-a or --dialect-b"),
];

/// Reports an error of the command line, and ends the program with the exit code of the parser.
pub(crate) fn exit(error: &clap::Error) -> ! {
    match suggestion(error, std::env::args().skip(1)) {
        Some(text) => {
            diagnostic::error(text);
            std::process::exit(error.exit_code())
        }
        None => error.exit(),
    }
}

/// Message about an old or foreign spelling.
fn suggestion(error: &clap::Error, arguments: impl Iterator<Item = String>) -> Option<String> {
    let found = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let tried = found(ContextKind::InvalidSubcommand)?;
            let (_, verb) = VERBS.iter().find(|(foreign, _)| *foreign == tried)?;
            Some(format!("there is no command '{tried}'; use 'unspool {verb}'"))
        }
        ErrorKind::UnknownArgument => {
            let tried = found(ContextKind::InvalidArg)?;
            let tried = tried.split_once('=').map_or(tried, |(name, _)| name);
            let verb = arguments.filter(|argument| !argument.starts_with('-')).find(|argument| is_verb(argument));
            let verb = verb.unwrap_or_default();
            let is_meant = |row: &&(&str, &str, &str)| row.1 == tried && (row.0.is_empty() || row.0 == verb);
            let (_, _, new) = OPTIONS.iter().find(is_meant)?;
            Some(format!("{tried} is now {new}; 'unspool {verb} --help' lists all options"))
        }
        _ => None,
    }
}

fn is_verb(name: &str) -> bool {
    use clap::CommandFactory;
    crate::Cli::command().find_subcommand(name).is_some()
}
