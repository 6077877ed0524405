//! Completions, manual pages and the version.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use unspool_testing::{repository, tool};

use crate::run::{Folder, Run, text, unspool};

const VERBS: [&str; 6] = ["info", "decode", "dump", "convert", "diff", "completions"];

#[test]
fn completions_name_the_verbs() {
    for shell in ["bash", "zsh", "fish"] {
        let script = unspool(&["completions", shell]).clean().shows(&VERBS).out;
        // Help does not list `man`, so completion does not offer it.
        let mut words = script.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-');
        assert!(
            !words.any(|word| word == "man" || word == "unspool__man" || word == "unspool__subcmd__man"),
            "{shell}"
        );
        assert!(["--quiet", "--color"].iter().all(|option| script.contains(option) || shell == "fish"), "{shell}");
    }
    unspool(&["completions", "tcsh"]).expect(2, &["bash", "zsh", "fish"]);
}

/// Bash itself completes a verb and an option.
#[test]
fn bash_completes_verbs_and_options() {
    let Some(bash) = tool("bash", "bash") else { return };
    let script = unspool(&["completions", "bash"]).clean().out;
    let rows = [("unspool deco", "decode"), ("unspool decode --emi", "--emit"), ("unspool decode --emit ra", "ranges")];
    for (line, expected) in rows {
        let words: Vec<&str> = line.split(' ').collect();
        let ask = format!(
            "{script}\nCOMP_WORDS=({line}); COMP_CWORD={}; _unspool unspool '{}' '{}'; echo \"${{COMPREPLY[@]}}\"\n",
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        let mut child = Command::new(&bash)
            .arg("-s")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(ask.as_bytes()).unwrap();
        let run = Run::from(child.wait_with_output().unwrap());
        assert_eq!((run.out.trim(), run.err.as_str()), (expected, ""), "{line}");
    }
}

#[test]
fn every_verb_has_a_manual_page() {
    let folder = Folder::new();
    unspool(&["man", text(folder.root())]).expect(0, &["manual pages"]);
    let names = folder.names();
    for verb in VERBS {
        assert!(names.contains(&format!("unspool-{verb}.1")), "{names:?}");
    }
    assert!(names.contains(&"unspool.1".to_string()) && !names.contains(&"unspool-man.1".to_string()), "{names:?}");
    let decode = fs::read_to_string(folder.path("unspool-decode.1")).unwrap();
    // Examples keep their lines.
    assert!(decode.contains(".SH EXAMPLES\n.nf\n"), "{decode}");
    assert!(decode.contains(".SH NOTES"), "{decode}");
}

#[test]
fn manual_pages_are_rendered_without_warnings() {
    let Some(man) = tool("man", "man-db") else { return };
    let folder = Folder::new();
    unspool(&["man", text(folder.root())]).expect(0, &[]);
    for name in folder.names() {
        let mut command = Command::new(&man);
        command.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", text(&folder.path(&name))]);
        command.env("LC_ALL", "C.UTF-8").env("MANWIDTH", "80").env("MANPAGER", "cat");
        let page = Run::from(command.output().unwrap());
        assert_eq!((page.code, page.err.as_str()), (0, ""), "{name}");
        // The last line names the page.
        assert!(page.out.contains(&name.replace(".1", "(1)")), "{name}: {}", page.out);
    }
}

#[test]
fn the_version_has_the_commit() {
    let version = unspool(&["--version"]).clean().out;
    let number = env!("CARGO_PKG_VERSION");
    let commit = Command::new("git").args(["rev-parse", "--short=9", "HEAD"]).current_dir(repository(".")).output();
    let expected = match commit {
        Ok(commit) if repository(".git").exists() && commit.status.success() => {
            format!("unspool {number} ({})\n", String::from_utf8_lossy(&commit.stdout).trim())
        }
        _ => format!("unspool {number}\n"),
    };
    assert_eq!(version, expected);
}
