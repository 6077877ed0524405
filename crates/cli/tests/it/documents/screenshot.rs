//! The picture of the README: a terminal with commands and what they print, in color.
//!
//! `tools/screenshot` draws it again.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anstyle_svg::Term;
use unspool_testing::{assert_document, repository};

use crate::run::UNSPOOL;

/// The commands that the picture shows.
const COMMANDS: [&str; 2] =
    ["unspool decode examples/hello-qemu --skip 87 --limit 18", "unspool stats examples/hello-qemu --by branch"];

#[test]
fn the_picture_of_the_readme_is_up_to_date() {
    let mut screen = String::new();
    for command in COMMANDS {
        writeln!(screen, "\x1b[1m$ {command}\x1b[0m\n{}", colored(command)).unwrap();
    }
    let svg = Term::new().render_svg(screen.trim_end());
    assert_document("docs/screenshot.svg", &(svg + "\n"), "tools/screenshot");
}

/// What a command prints on a terminal.
fn colored(command: &str) -> String {
    let tool = Path::new(UNSPOOL).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("exec 2>&1\n{command}")).current_dir(repository("")).stdin(Stdio::null());
    shell.env("PATH", format!("{}:{path}", tool.display())).env("CLICOLOR_FORCE", "1").env_remove("NO_COLOR");
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{command}");
    String::from_utf8(output.stdout).unwrap()
}
