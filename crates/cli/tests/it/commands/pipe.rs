//! Output to closed pipes, unwritable files, and the input itself.

use std::fs;
use std::io::{self, BufRead as _};
use std::path::Path;
use std::process::Stdio;

use super::{example, example_file};
use crate::run::{Folder, command, read_part, text, text_of, unspool, wait};

#[test]
fn a_closed_pipe_is_not_an_error() {
    let verbs: &[&[&str]] = &[
        &["info"],
        &["frames"],
        &["packets"],
        &["elements", "--json"],
        &["frames", "--stream", "0x10"],
        &["decode"],
        &["decode", "--json", "--emit", "ranges"],
    ];
    for verb in verbs {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut command = command();
        let mut child = command.args(*verb).arg(example()).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let (code, _) = wait(&mut child);
        assert_eq!((code, text_of(child.stderr.take().unwrap()).as_str()), (0, ""), "{verb:?}");
    }
}

#[test]
fn a_reader_may_leave_in_the_middle() {
    let folder = Folder::new();
    let file = folder.path("long.bin");
    // Synchronization, trace info, trace on; then more atoms than fit into a pipe.
    let start = [&[0; 11][..], &[0x80, 0x01, 0x01, 0x00, 0x04]].concat();
    fs::write(&file, [&start[..], &vec![0xf7; 4 << 20]].concat()).unwrap();
    let args = ["packets", text(&file), "--protocol", "ete", "--raw"];
    let left = read_part(&args, |out| {
        assert_eq!(out.lines().nth(4).unwrap().unwrap(), "0x00000010  atoms E");
    });
    assert_eq!(left, (0, String::new()));
}

#[test]
fn a_reader_may_leave_in_the_middle_of_a_loop() {
    let folder = Folder::new();
    let [file, image] = ["long.bin", "code.bin"].map(|name| folder.path(name));
    // Synchronization, trace info, trace on, an address at EL0 in AArch64; then more lines than fit into a pipe.
    let start = [&[0; 11][..], &[0x80, 0x01, 0x01, 0x00, 0x04, 0x85, 0, 0, 0, 0, 0, 0, 0, 0, 0x30]].concat();
    fs::write(&file, [&start[..], &vec![0xf7; 1 << 20]].concat()).unwrap();
    // A branch to itself.
    fs::write(&image, 0x1400_0000_u32.to_le_bytes()).unwrap();
    let image = format!("{}@0", text(&image));
    let args = ["decode", text(&file), "--protocol", "ete", "--raw", "--register", "TRCIDR8=0", "--image", &image];
    let (code, messages) = read_part(&args, |out| {
        let line = out.lines().nth(2000).unwrap().unwrap();
        assert!(line.contains("0x0000000000000000  14000000  b 0x0  ") && line.ends_with("; taken -> 0x0"), "{line}");
    });
    assert!(code == 0 && !messages.contains("instructions in"), "{messages}");
}

#[test]
fn unwritable_files_are_reported() {
    let folder = Folder::new();
    let example = example();
    let mut positions = vec![folder.path("no/such/folder/out"), folder.root().to_path_buf()];
    // A disk that is full.
    positions.extend([Path::new("/dev/full")].into_iter().filter(|path| path.exists()).map(Path::to_path_buf));
    for position in &positions {
        for verb in ["info", "frames", "packets", "elements", "decode"] {
            let run = unspool(&[verb, text(&example), "-o", text(position)]);
            let run = run.expect(2, &[&format!("cannot write {}", position.display()), "os error"]);
            assert_eq!(run.out, "");
        }
    }
}

#[test]
fn the_trace_is_never_overwritten() {
    let folder = super::example_copy();
    let file = folder.path("trace.bin");
    let linked = folder.path("./trace.bin");
    let [capture, bare, target] = [folder.root(), &file, &linked].map(text);
    let ini = folder.path("snapshot.ini");
    let rows: &[&[&str]] = &[&[capture], &[text(&ini)], &[bare, "--protocol", "ete"], &["--stream", "0x10", capture]];
    for row in rows {
        unspool(&[&["frames", "-o", target], *row].concat()).expect(2, &["trace.bin", "write to another one"]);
    }
    let zip = folder.path("capture.zip");
    super::write_zip(&zip, &super::example_files());
    unspool(&["packets", text(&zip), "-o", text(&zip)]).expect(2, &["capture.zip", "write to another one"]);
    unspool(&["packets", text(&zip)]).clean();
    assert_eq!(fs::read(&file).unwrap(), example_file("trace.bin"));
}
