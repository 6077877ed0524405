//! Where output goes when it cannot go where it should.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use super::{example, example_file, text, text_of, unspool, wait};

#[test]
fn a_closed_pipe_is_no_error() {
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_unspool"));
        let mut child = command.args(*verb).arg(example()).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let (code, _) = wait(&mut child);
        assert_eq!((code, text_of(child.stderr.take().unwrap()).as_str()), (0, ""), "{verb:?}");
    }
}

#[test]
fn a_reader_may_leave_in_the_middle() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("long.bin");
    // Synchronisation, trace info, trace on; then more atoms than a pipe holds.
    let start = [&[0; 11][..], &[0x80, 0x01, 0x01, 0x00, 0x04]].concat();
    fs::write(&file, [&start[..], &vec![0xf7; 4 << 20]].concat()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_unspool"));
    command.args(["packets", text(&file), "--protocol", "ete", "--raw"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.nth(4).unwrap().unwrap(), "0x00000010  atoms E");
    drop(lines);
    let (code, _) = wait(&mut child);
    assert_eq!((code, text_of(child.stderr.take().unwrap()).as_str()), (0, ""));
}

#[test]
fn a_reader_may_leave_in_the_middle_of_a_loop() {
    let dir = tempfile::tempdir().unwrap();
    let [file, image] = ["long.bin", "code.bin"].map(|name| dir.path().join(name));
    // Synchronisation, trace info, trace on, an address at EL0 in AArch64; then more atoms than a pipe holds lines.
    let start = [&[0; 11][..], &[0x80, 0x01, 0x01, 0x00, 0x04, 0x85, 0, 0, 0, 0, 0, 0, 0, 0, 0x30]].concat();
    fs::write(&file, [&start[..], &vec![0xf7; 1 << 20]].concat()).unwrap();
    // A branch to itself.
    fs::write(&image, 0x1400_0000_u32.to_le_bytes()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_unspool"));
    command.args(["decode", text(&file), "--protocol", "ete", "--raw", "--reg", "TRCIDR8=0"]);
    command.args(["--image", &format!("{}@0", text(&image))]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.nth(2000).unwrap().unwrap();
    assert!(line.contains("0x0000000000000000  14000000  b 0x0  ") && line.ends_with("; taken -> 0x0"), "{line}");
    drop(lines);
    let (code, _) = wait(&mut child);
    let said = text_of(child.stderr.take().unwrap());
    assert!(code == 0 && !said.contains("instructions in"), "{said}");
}

#[test]
fn a_file_that_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let example = example();
    let mut positions = vec![dir.path().join("no/such/folder/out"), dir.path().to_path_buf()];
    // A disk that is always full.
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
fn the_trace_is_never_written_over() {
    let dir = super::example_copy();
    let file = dir.path().join("trace.bin");
    let linked = dir.path().join("./trace.bin");
    let [capture, bare, target] = [dir.path(), &file, &linked].map(text);
    let ini = dir.path().join("snapshot.ini");
    let rows: &[&[&str]] = &[&[capture], &[text(&ini)], &[bare, "--protocol", "ete"], &["--stream", "0x10", capture]];
    for row in rows {
        unspool(&[&["frames", "-o", target], *row].concat()).expect(2, &["trace.bin", "write to another one"]);
    }
    let zip = dir.path().join("capture.zip");
    super::write_zip(&zip, &super::example_files());
    unspool(&["packets", text(&zip), "-o", text(&zip)]).expect(2, &["capture.zip", "write to another one"]);
    unspool(&["packets", text(&zip)]).clean();
    assert_eq!(fs::read(&file).unwrap(), example_file("trace.bin"));
}
