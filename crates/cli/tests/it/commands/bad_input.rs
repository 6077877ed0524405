//! Captures that are missing, truncated, hostile or huge: a clear message or an empty result, and the right exit code.

use std::fs::{self, File};
use std::path::Path;

use super::{example, example_copy, example_file, example_files, write_zip};
use crate::run::{Folder, text, unspool};

const VERBS: [&[&str]; 4] = [&["info"], &["frames"], &["packets"], &["elements", "--committed"]];

/// Asserts that every verb rejects this path with each of these messages and its name.
#[track_caller]
fn assert_rejected(path: &Path, options: &[&str], words: &[&str]) {
    let name = path.file_name().unwrap().to_str().unwrap();
    for verb in VERBS {
        let run = unspool(&[verb, &[text(path)], options].concat()).expect(2, words).expect(2, &[name]);
        assert_eq!(run.out, "", "{verb:?}");
    }
}

#[test]
fn other_paths_are_rejected() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name);
    fs::create_dir(path("empty")).unwrap();
    fs::create_dir_all(path("other/folder")).unwrap();
    fs::write(path("other/notes.txt"), "x").unwrap();
    fs::write(path("text.bin"), TEXT).unwrap();
    fs::write(path("nothing.bin"), "").unwrap();
    fs::write(path("fake.zip"), TEXT).unwrap();
    fs::write(path("nothing.zip"), "").unwrap();
    fs::write(path("odd.ini"), "[odd]\na=b\n").unwrap();
    write_zip(&path("photos.zip"), &[("a.jpg".to_string(), vec![1, 2, 3])]);
    let rows: &[(&str, &[&str])] = &[
        ("empty", &["an empty directory", "snapshot.ini or contents.ini"]),
        ("other", &["no snapshot.ini or contents.ini among 1 files and 1 folders"]),
        ("absent", &["(os error "]),
        ("text.bin", &["this is text, but not a Tarmac log"]),
        ("nothing.bin", &["this is an empty file"]),
        ("fake.zip", &["not a zip archive, or damaged or truncated"]),
        ("nothing.zip", &["not a zip archive, or damaged or truncated"]),
        ("photos.zip", &["neither snapshot.ini nor contents.ini among 1 members"]),
        ("odd.ini", &["not the main file of a capture"]),
    ];
    for (name, words) in rows {
        assert_rejected(&path(name), &[], words);
    }
    // A cause that the message contains is not repeated.
    let run = unspool(&["packets", text(&path("absent"))]).expect(2, &[]);
    assert_eq!(run.err.matches("(os error ").count(), 1, "{}", run.err);
}

const TEXT: &str = "These are the notes of a meeting, not trace.\n";

#[test]
fn invalid_bare_options_are_rejected() {
    let trace = example().join("trace.bin");
    let rows: &[(&[&str], &[&str])] = &[
        (&["--protocol", "morse"], &["'morse'", "ete", "etm4"]),
        (&["--protocol", "ete", "--register", "TRCIDR8"], &["'TRCIDR8' is not NAME=VALUE"]),
        (&["--protocol", "ete", "--register", "TRCIDR8=four"], &["`four` is not a number"]),
        (&["--protocol", "ete", "--register", "TRCIDR8=0x10000000000000000"], &["is not a number of at most 64 bits"]),
        (&["--protocol", "ete", "--id", "0x80"], &["0x80 is not a trace id"]),
        (&["--protocol", "ete", "--id", "ten"], &["'ten' is not a number"]),
        (&["--protocol", "ete", "--raw", "--formatted"], &["cannot be used with"]),
        (&["--protocol", "ete", "--write-pointer", "end"], &["--write-pointer", "'end' is not a number"]),
        (&["--raw"], &["--protocol"]),
        (&["--limit", "some"], &["some"]),
    ];
    for (options, words) in rows {
        let run = unspool(&[&["packets", text(&trace)], *options].concat()).expect(2, words);
        assert_eq!(run.out, "", "{options:?}");
    }
    let example = example();
    let directory = text(&example);
    unspool(&["packets", directory, "--protocol", "ete"]).expect(2, &["hello-ete", "omit --protocol"]);
    unspool(&["packets", directory, text(&trace)]).expect(2, &["--protocol"]);
    unspool(&["packets", "-"]).expect(2, &["standard input", "--protocol"]);
    let absent = "no/such/dump.bin";
    unspool(&["packets", absent, "--protocol", "ete"]).expect(2, &[absent, "(os error "]);
    unspool(&["packets", text(&trace), absent, "--protocol", "ete"]).expect(2, &[absent, "(os error "]);
}

#[test]
fn text_is_not_trace() {
    let folder = Folder::new();
    let file = folder.file("text.bin", TEXT);
    let unsynchronized = "no alignment synchronization in 45 bytes";
    let rows: &[(&[&str], &[&str])] = &[
        (&[], &["looks raw", "use --formatted", unsynchronized]),
        (&["--raw"], &[unsynchronized]),
        (&["--formatted", "--id", "1"], &["no trace id 0x01 in the first 45 bytes", "ends inside a frame"]),
    ];
    for (options, words) in rows {
        for verb in ["packets", "elements"] {
            unspool(&[&[verb, text(&file), "--protocol", "ete"], *options].concat()).expect(1, words);
        }
        unspool(&[&["info", text(&file), "--protocol", "ete"], *options].concat()).expect(1, &[]);
    }
    unspool(&["frames", text(&file), "--protocol", "ete"]).expect(2, &["text.bin", "no buffer has formatter frames"]);
    unspool(&["frames", text(&file), "--protocol", "ete", "--formatted"]).expect(1, &["belong to no frame"]);
}

#[test]
fn a_snapshot_without_its_buffer() {
    let folder = example_copy();
    fs::remove_file(folder.path("trace.bin")).unwrap();
    let path = text(folder.root());
    for verb in &VERBS[1..] {
        let run = unspool(&[verb, &[path][..]].concat()).expect(2, &["trace.bin: not in the capture"]);
        assert_eq!(run.err.matches("trace.bin").count(), 1, "once is enough: {}", run.err);
    }
    unspool(&["packets", path]).expect(2, &[path, "no trace source could be read", "unspool info"]);
    // The description is still summarized.
    let lines =
        ["1 file missing", "trace.bin (missing)", "trace.ini:6: `trace.bin` is not in the package", "ETE_1 (ETE)"];
    unspool(&["info", path]).expect(1, &[]).shows(&lines);
}

/// The example with one buffer per source; that of ETE_1 is `gone.bin`.
fn two_buffers() -> Folder {
    let folder = example_copy();
    let trace = "[trace_buffers]\nbuffers=buffer0,buffer1\n\
                 [buffer0]\nname=TMC_0\nfile=trace.bin\nformat=coresight\n\
                 [buffer1]\nname=TMC_1\nfile=gone.bin\nformat=coresight\n\
                 [source_buffers]\nETE_0=TMC_0\nETE_1=TMC_1\n";
    folder.file("trace.ini", trace);
    folder
}

#[test]
fn a_snapshot_without_one_of_two_buffers() {
    let folder = two_buffers();
    let path = text(folder.root());
    for (verb, last) in [("packets", "event 0"), ("elements", "event 0"), ("frames", "id 0x10")] {
        let run = unspool(&[verb, path]).expect(1, &["gone.bin: not in the capture"]);
        assert!(run.out.contains(last), "{}", run.out);
    }
    unspool(&["packets", path, "--source", "ETE_0"]).clean();
    unspool(&["packets", path, "--source", "ETE_1"]).expect(2, &["gone.bin: not in the capture"]);
    unspool(&["info", path]).expect(1, &[]).shows(&["1 file missing", "28 packets in 115 bytes"]);
    // With the file, the capture is complete.
    folder.file("gone.bin", example_file("trace.bin"));
    assert_eq!(unspool(&["packets", path, "--source", "ETE_1"]).clean().items().len(), 16);
}

#[test]
fn an_empty_buffer() {
    let folder = example_copy();
    let file = folder.file("trace.bin", "");
    for verb in VERBS {
        let run = unspool(&[verb, &[text(folder.root())]].concat()).clean();
        assert!(run.out.lines().all(|line| !line.starts_with("0x")), "{verb:?}: {}", run.out);
        let json = unspool(&[verb, &[text(folder.root()), "--json"]].concat()).clean();
        assert_eq!(json.json().is_empty(), verb != ["info"], "{verb:?}: {}", json.out);
    }
    for options in [&[][..], &["--raw"], &["--formatted"], &["--formatted", "--id", "1"]] {
        let bare = [&["--json", text(&file), "--protocol", "ete"], options].concat();
        for verb in ["packets", "elements"] {
            let run = unspool(&[&[verb], &bare[..]].concat()).expect(0, &["trace: the buffer is empty"]);
            assert_eq!((run.json().len(), &run.json_summary()["items"]), (0, &0.into()), "{verb} {options:?}");
        }
        unspool(&[&["info"], &bare[..]].concat()).clean().shows(&["the buffer is empty"]);
    }
}

#[test]
fn truncated_zip_files_are_rejected() {
    let folder = Folder::new();
    let whole = folder.path("whole.zip");
    write_zip(&whole, &example_files());
    let bytes = fs::read(&whole).unwrap();
    unspool(&["packets", text(&whole)]).clean();
    let cut = folder.path("cut.zip");
    let unnamed = folder.path("cut");
    for length in [1, 4, 30, 100, bytes.len() / 2, bytes.len() - 100, bytes.len() - 22, bytes.len() - 1] {
        fs::write(&cut, &bytes[..length]).unwrap();
        assert_rejected(&cut, &[], &["damaged or truncated"]);
    }
    // Without the extension, the first bytes identify the archive.
    fs::write(&unnamed, &bytes[..bytes.len() / 2]).unwrap();
    assert_rejected(&unnamed, &[], &["damaged or truncated"]);
}

#[test]
fn damaged_zip_members_are_reported() {
    let folder = Folder::new();
    let path = folder.path("damaged.zip");
    write_zip(&path, &example_files());
    let mut bytes = fs::read(&path).unwrap();
    // The bytes of the member follow its name.
    let name = b"trace.bin";
    let start = bytes.windows(name.len()).position(|window| window == name).unwrap() + name.len();
    bytes[start + 40] ^= 0x55;
    fs::write(&path, bytes).unwrap();
    for verb in &VERBS[1..] {
        unspool(&[verb, &[text(&path)][..]].concat()).expect(2, &["TMC_0: reading stopped at byte"]);
    }
    unspool(&["info", text(&path)]).expect(1, &[]).shows(&["cannot be read: TMC_0: reading stopped"]);
}

#[test]
fn paths_outside_a_package_are_rejected() {
    let folder = Folder::new();
    // A valid trace outside the package, which must not be read.
    folder.file("trace.bin", example_file("trace.bin"));
    let zip = folder.path("climbs.zip");
    let climb = |(name, bytes): (String, Vec<u8>)| match name.as_str() {
        "trace.bin" => ("../trace.bin".to_string(), bytes),
        _ => (name, bytes),
    };
    write_zip(&zip, &example_files().into_iter().map(climb).collect::<Vec<_>>());
    unspool(&["packets", text(&zip)]).expect(2, &["trace.bin: not in the capture"]);
    unspool(&["info", text(&zip)])
        .expect(1, &[])
        .shows(&["../trace.bin: the name points outside the archive; the member is ignored"]);

    let folder = folder.path("folder");
    fs::create_dir(&folder).unwrap();
    for (name, bytes) in example_files().iter().filter(|(name, _)| name != "trace.bin") {
        let ini = String::from_utf8_lossy(bytes).replace("file=trace.bin", "file=../trace.bin");
        fs::write(folder.join(name), ini).unwrap();
    }
    unspool(&["packets", text(&folder)]).expect(2, &["../trace.bin"]);
    unspool(&["info", text(&folder)])
        .expect(1, &[])
        .shows(&["`../trace.bin` points outside the package and is not opened"]);
}

/// Limit for any size of input.
const MEMORY: u64 = 64 << 20;

#[track_caller]
fn stays_small(peak: Option<u64>) {
    assert!(peak.unwrap_or(0) < MEMORY, "{peak:?} bytes");
}

/// As [`stays_small`], for a run that is long enough to be measured.
#[track_caller]
fn stays_small_for_long(peak: Option<u64>) {
    stays_small(peak);
    assert!(!cfg!(target_os = "linux") || peak > Some(1 << 20), "{peak:?} bytes: not measured");
}

/// Writes a long sparse file.
fn sparse(path: &Path, start: &[u8], length: u64) {
    fs::write(path, start).unwrap();
    File::options().write(true).open(path).unwrap().set_len(length).unwrap();
}

#[test]
fn ten_gigabytes_take_little_memory() {
    let folder = example_copy();
    let file = folder.path("trace.bin");
    sparse(&file, &example_file("trace.bin"), 10 << 30);
    let run = unspool(&["info", "--quick", text(folder.root())]).clean();
    assert!(run.out.contains("10,737,418,240 bytes"), "{}", run.out);
    stays_small(run.peak);
    let run = unspool(&["packets", text(&file), "--protocol", "ete", "--limit", "5"]).expect(0, &["0x10 0x12"]);
    assert_eq!(run.items().len(), 5, "{}", run.out);
    stays_small(run.peak);
}

/// Enough to be noticed in memory. Ten gigabytes are too slow for a debug build.
const RAW: u64 = 1 << 30;
const FORMATTED: u64 = 256 << 20;

#[test]
fn a_gigabyte_of_zeros_takes_little_memory() {
    let folder = Folder::new();
    let file = folder.path("sparse.bin");
    sparse(&file, b"", RAW);
    let run = unspool(&["packets", text(&file), "--protocol", "ete", "--raw"]);
    stays_small_for_long(run.peak);
    let run = run.expect(1, &["no alignment synchronization in 1,073,741,824 bytes"]);
    assert_eq!(run.items(), ["! not synchronized yet, 1,073,741,824 bytes skipped"]);
    unspool(&["packets", text(&file), "--protocol", "ete", "--formatted"]).expect(2, &["no trace id", "--id"]);
}

#[test]
fn trailing_zeros_take_little_memory() {
    let folder = example_copy();
    sparse(&folder.path("trace.bin"), &example_file("trace.bin"), FORMATTED);
    // The zeros are bytes of the last id; the other source is complete.
    let run = unspool(&["packets", text(folder.root())]);
    stays_small_for_long(run.peak);
    let run = run.expect(1, &["ETE_0: 1 problem", "trace.bin at 0xc0"]);
    assert_eq!(run.items().len(), 28 + 1 + 16, "{}", run.out);
}
