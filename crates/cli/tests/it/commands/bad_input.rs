//! Input that is missing, cut short, hostile or enormous: a clear word or an empty result, and the right exit code.

use std::fs::{self, File};
use std::path::Path;

use tempfile::TempDir;

use super::{example, example_copy, example_file, example_files, text, unspool, write_zip};

const VERBS: [&[&str]; 4] = [&["info"], &["frames"], &["packets"], &["elements", "--committed"]];

/// Every verb on this path ends with 2, prints nothing, and says each of these words and the name.
#[track_caller]
fn refused(path: &Path, options: &[&str], words: &[&str]) {
    let name = path.file_name().unwrap().to_str().unwrap();
    for verb in VERBS {
        let run = unspool(&[verb, &[text(path)], options].concat()).expect(2, words).expect(2, &[name]);
        assert_eq!(run.out, "", "{verb:?}");
    }
}

#[test]
fn what_is_no_capture_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
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
        ("absent", &["No such file"]),
        ("text.bin", &["--protocol ete"]),
        ("nothing.bin", &["--protocol ete"]),
        ("fake.zip", &["not a zip archive, or damaged or truncated"]),
        ("nothing.zip", &["not a zip archive, or damaged or truncated"]),
        ("photos.zip", &["neither snapshot.ini nor contents.ini among 1 members"]),
        ("odd.ini", &["not the main file of a capture"]),
    ];
    for (name, words) in rows {
        refused(&path(name), &[], words);
    }
    // A cause that the message has already told is not told again.
    let run = unspool(&["packets", text(&path("absent"))]).expect(2, &[]);
    assert_eq!(run.err.matches("No such file").count(), 1, "{}", run.err);
}

/// Not trace, though some editors like the extension.
const TEXT: &str = "These are the notes of a meeting, not trace.\n";

#[test]
fn bare_options_that_make_no_sense() {
    let trace = example().join("trace.bin");
    let rows: &[(&[&str], &[&str])] = &[
        (&["--protocol", "morse"], &["'morse'", "ete", "etm4"]),
        (&["--protocol", "stm"], &["stm trace cannot be read by this version yet"]),
        (&["--protocol", "ete", "--reg", "TRCIDR8"], &["'TRCIDR8' is not NAME=VALUE"]),
        (&["--protocol", "ete", "--reg", "TRCIDR8=four"], &["`four` is not a number"]),
        (&["--protocol", "ete", "--reg", "TRCIDR8=0x10000000000000000"], &["is not a number of at most 64 bits"]),
        (&["--protocol", "ete", "--id", "0x80"], &["0x80 is no trace id"]),
        (&["--protocol", "ete", "--id", "ten"], &["'ten' is no number"]),
        (&["--protocol", "ete", "--raw", "--formatted"], &["cannot be used with"]),
        (&["--protocol", "ete", "--write-pointer", "end"], &["--write-pointer", "'end' is no number"]),
        (&["--raw"], &["--protocol"]),
        (&["--limit", "some"], &["some"]),
    ];
    for (options, words) in rows {
        let run = unspool(&[&["packets", text(&trace)], *options].concat()).expect(2, words);
        assert_eq!(run.out, "", "{options:?}");
    }
    let example = example();
    let directory = text(&example);
    unspool(&["packets", directory, "--protocol", "ete"]).expect(2, &["hello-ete", "leave --protocol out"]);
    unspool(&["packets", directory, text(&trace)]).expect(2, &["--protocol"]);
    unspool(&["packets", "-"]).expect(2, &["standard input", "--protocol"]);
    let absent = "no/such/dump.bin";
    unspool(&["packets", absent, "--protocol", "ete"]).expect(2, &[absent, "No such file"]);
    unspool(&["packets", text(&trace), absent, "--protocol", "ete"]).expect(2, &[absent, "No such file"]);
}

#[test]
fn text_is_no_trace_whatever_it_is_called() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("text.bin");
    fs::write(&file, TEXT).unwrap();
    let unsynchronised = "no alignment synchronisation in 45 bytes";
    let rows: &[(&[&str], &[&str])] = &[
        (&[], &["looks raw", "say --formatted", unsynchronised]),
        (&["--raw"], &[unsynchronised]),
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
    let dir = example_copy();
    fs::remove_file(dir.path().join("trace.bin")).unwrap();
    let path = text(dir.path());
    for verb in &VERBS[1..] {
        let run = unspool(&[verb, &[path][..]].concat()).expect(2, &["trace.bin: not in the capture"]);
        assert_eq!(run.err.matches("trace.bin").count(), 1, "once is enough: {}", run.err);
    }
    unspool(&["packets", path]).expect(2, &[path, "no trace source could be read", "unspool info"]);
    // There still is something to tell about it.
    let page = unspool(&["info", path]).expect(1, &[]).out;
    let words =
        ["1 file missing", "trace.bin (missing)", "trace.ini:6: `trace.bin` is not in the package", "ETE_1 (ETE)"];
    words.iter().for_each(|word| assert!(page.contains(word), "no {word:?} in {page}"));
}

/// The example with each source in a buffer of its own; that of ETE_1 is `gone.bin`.
fn two_buffers() -> TempDir {
    let dir = example_copy();
    let trace = "[trace_buffers]\nbuffers=buffer0,buffer1\n\
                 [buffer0]\nname=TMC_0\nfile=trace.bin\nformat=coresight\n\
                 [buffer1]\nname=TMC_1\nfile=gone.bin\nformat=coresight\n\
                 [source_buffers]\nETE_0=TMC_0\nETE_1=TMC_1\n";
    fs::write(dir.path().join("trace.ini"), trace).unwrap();
    dir
}

#[test]
fn a_snapshot_without_one_of_two_buffers() {
    let dir = two_buffers();
    let path = text(dir.path());
    for (verb, last) in [("packets", "event 0"), ("elements", "event 0"), ("frames", "id 0x10")] {
        let run = unspool(&[verb, path]).expect(1, &["gone.bin: not in the capture"]);
        assert!(run.out.contains(last), "{}", run.out);
    }
    unspool(&["packets", path, "--source", "ETE_0"]).clean();
    unspool(&["packets", path, "--source", "ETE_1"]).expect(2, &["gone.bin: not in the capture"]);
    let page = unspool(&["info", path]).expect(1, &[]).out;
    assert!(page.contains("1 file missing") && page.contains("28 packets in 115 bytes"), "{page}");
    // With the file, it is whole.
    fs::write(dir.path().join("gone.bin"), example_file("trace.bin")).unwrap();
    assert_eq!(unspool(&["packets", path, "--source", "ETE_1"]).clean().items().len(), 16);
}

#[test]
fn a_buffer_of_no_bytes() {
    let dir = example_copy();
    let file = dir.path().join("trace.bin");
    fs::write(&file, "").unwrap();
    for verb in VERBS {
        let run = unspool(&[verb, &[text(dir.path())]].concat()).clean();
        assert!(run.out.lines().all(|line| !line.starts_with("0x")), "{verb:?}: {}", run.out);
        let json = unspool(&[verb, &[text(dir.path()), "--json"]].concat()).clean();
        assert_eq!(json.out.is_empty(), verb != ["info"], "{verb:?}: {}", json.out);
    }
    for options in [&[][..], &["--raw"], &["--formatted"], &["--formatted", "--id", "1"]] {
        let bare = [&["--json", text(&file), "--protocol", "ete"], options].concat();
        for verb in ["packets", "elements"] {
            let run = unspool(&[&[verb], &bare[..]].concat()).expect(0, &["trace: the buffer is empty"]);
            assert_eq!(run.out, "", "{verb} {options:?}");
        }
        let page = unspool(&[&["info"], &bare[..]].concat()).clean().out;
        assert!(page.contains("the buffer is empty"), "{page}");
    }
}

#[test]
fn a_zip_that_was_cut() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole.zip");
    write_zip(&whole, &example_files());
    let bytes = fs::read(&whole).unwrap();
    unspool(&["packets", text(&whole)]).clean();
    let cut = dir.path().join("cut.zip");
    let unnamed = dir.path().join("cut");
    for length in [1, 4, 30, 100, bytes.len() / 2, bytes.len() - 100, bytes.len() - 22, bytes.len() - 1] {
        fs::write(&cut, &bytes[..length]).unwrap();
        refused(&cut, &[], &["damaged or truncated"]);
    }
    // Without the extension, the first bytes tell what it was meant to be.
    fs::write(&unnamed, &bytes[..bytes.len() / 2]).unwrap();
    refused(&unnamed, &[], &["damaged or truncated"]);
}

#[test]
fn a_zip_with_a_damaged_member() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged.zip");
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
    let page = unspool(&["info", text(&path)]).expect(1, &[]).out;
    assert!(page.contains("cannot be read: TMC_0: reading stopped"), "{page}");
}

#[test]
fn nothing_leads_out_of_a_package() {
    let dir = tempfile::tempdir().unwrap();
    // What must not be read is there, and is good trace.
    fs::write(dir.path().join("trace.bin"), example_file("trace.bin")).unwrap();
    let zip = dir.path().join("climbs.zip");
    let climb = |(name, bytes): (String, Vec<u8>)| match name.as_str() {
        "trace.bin" => ("../trace.bin".to_string(), bytes),
        _ => (name, bytes),
    };
    write_zip(&zip, &example_files().into_iter().map(climb).collect::<Vec<_>>());
    unspool(&["packets", text(&zip)]).expect(2, &["trace.bin: not in the capture"]);
    let page = unspool(&["info", text(&zip)]).expect(1, &[]).out;
    assert!(page.contains("../trace.bin: the name points outside the archive; the member is ignored"), "{page}");

    let folder = dir.path().join("folder");
    fs::create_dir(&folder).unwrap();
    for (name, bytes) in example_files().iter().filter(|(name, _)| name != "trace.bin") {
        let ini = String::from_utf8_lossy(bytes).replace("file=trace.bin", "file=../trace.bin");
        fs::write(folder.join(name), ini).unwrap();
    }
    unspool(&["packets", text(&folder)]).expect(2, &["../trace.bin"]);
    let page = unspool(&["info", text(&folder)]).expect(1, &[]).out;
    assert!(page.contains("`../trace.bin` points outside the package and is not opened"), "{page}");
}

/// What a run may take, however large its input is.
const MEMORY: u64 = 64 << 20;

#[track_caller]
fn stays_small(peak: Option<u64>) {
    assert!(peak.unwrap_or(0) < MEMORY, "{peak:?} bytes");
}

/// As [`stays_small`], for a run that is long enough to be watched.
#[track_caller]
fn stays_small_for_long(peak: Option<u64>) {
    stays_small(peak);
    assert!(!cfg!(target_os = "linux") || peak > Some(1 << 20), "{peak:?} bytes: nobody looked");
}

/// A file that is long and takes no room.
fn sparse(path: &Path, start: &[u8], length: u64) {
    fs::write(path, start).unwrap();
    File::options().write(true).open(path).unwrap().set_len(length).unwrap();
}

#[test]
fn a_look_at_ten_gigabytes() {
    let dir = example_copy();
    let file = dir.path().join("trace.bin");
    sparse(&file, &example_file("trace.bin"), 10 << 30);
    let run = unspool(&["info", "--quick", text(dir.path())]).clean();
    assert!(run.out.contains("10,737,418,240 bytes"), "{}", run.out);
    stays_small(run.peak);
    let run = unspool(&["packets", text(&file), "--protocol", "ete", "--limit", "5"]).expect(0, &["0x10 0x12"]);
    assert_eq!(run.items().len(), 10, "{}", run.out);
    stays_small(run.peak);
}

/// Enough to be seen if it were kept. Ten gigabytes are only for a release build.
const RAW: u64 = 1 << 30;
const FORMATTED: u64 = 256 << 20;

#[test]
fn a_gigabyte_of_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sparse.bin");
    sparse(&file, b"", RAW);
    let run = unspool(&["packets", text(&file), "--protocol", "ete", "--raw"]);
    stays_small_for_long(run.peak);
    let run = run.expect(1, &["no alignment synchronisation in 1073741824 bytes"]);
    assert_eq!(run.items(), ["! not synchronised yet, 1073741824 bytes skipped"]);
    unspool(&["packets", text(&file), "--protocol", "ete", "--formatted"]).expect(2, &["no trace id", "--id"]);
}

#[test]
fn frames_that_end_in_a_sea_of_zeros() {
    let dir = example_copy();
    sparse(&dir.path().join("trace.bin"), &example_file("trace.bin"), FORMATTED);
    // The last id stays in force, so all the zeros are bytes of that source; the other one is whole.
    let run = unspool(&["packets", text(dir.path())]);
    stays_small_for_long(run.peak);
    let run = run.expect(1, &["ETE_0: 1 problem", "trace.bin at 0xc0"]);
    assert_eq!(run.items().len(), 28 + 1 + 16, "{}", run.out);
}
