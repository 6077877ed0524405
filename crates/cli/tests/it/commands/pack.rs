//! `pack`: a package decodes as the capture that it was made of, and nothing is lost on the way.

use std::fs;
use std::path::{Path, PathBuf};

use unspool_testing::perf::{ETM4, Event, PerfWriter, Trailer};

use super::{elf, example, example_copy};
use crate::run::{Folder, Run, text, unspool};

fn qemu() -> PathBuf {
    unspool_testing::example("hello-qemu")
}

/// Packs with these options as a directory and as an archive.
fn packed(folder: &Folder, capture: &[&str], options: &[&str]) -> [PathBuf; 2] {
    ["package", "package.zip"].map(|name| {
        let path = folder.path(name);
        unspool(&[&["pack"], capture, options, &["-o", text(&path)]].concat()).expect(0, &["wrote "]);
        path
    })
}

fn decode(capture: &[&str], options: &[&str]) -> Run {
    unspool(&[&["decode"], capture, options, &["--json"]].concat())
}

/// The package has the same instructions without the options that made it, and is the same if it is packed again.
fn assert_same(capture: &[&str], options: &[&str]) -> Folder {
    let folder = Folder::new();
    for emit in ["instructions", "ranges"] {
        let expected = decode(capture, &[options, &["--emit", emit]].concat());
        assert!(expected.out.lines().count() > 4, "{}", expected.out);
        for path in packed(&folder, capture, &[options, &["--force"]].concat()) {
            let run = decode(&[text(&path)], &["--emit", emit]);
            assert!(run.out == expected.out, "{capture:?}: {}\n{}", run.out, expected.out);
            assert_eq!(run.code, expected.code, "{}", run.err);
        }
    }
    let again = folder.path("again.zip");
    for name in ["package", "package.zip"] {
        let run = unspool(&["pack", text(&folder.path(name)), "-o", text(&again), "--force"]);
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(fs::read(&again).unwrap() == fs::read(folder.path("package.zip")).unwrap(), "{capture:?}: {name}");
    }
    fs::remove_file(again).unwrap();
    folder
}

#[test]
fn examples_decode_alike() {
    assert_same(&[text(&example())], &[]);
    assert_same(&[text(&qemu())], &[]);
    let perf = unspool_testing::example("hello.perf.data");
    let hello = qemu().join("hello");
    assert_same(&[text(&perf)], &["--image", text(&hello)]);
}

#[test]
fn bare_buffers_and_images_decode_alike() {
    let folder = Folder::new();
    let code = fs::read(example().join("program.bin")).unwrap();
    let program = folder.file("app.elf", elf::program(0x40_0000, &code, &[("start", 0x40_0000, 0x28)]));
    let trace = example().join("trace.bin");
    let bare = [text(&trace), "--protocol", "ete", "--id", "0x12"];
    assert_same(&bare, &["--image", text(&program)]);
    let dump = format!("{}@0x400000", text(&example().join("program.bin")));
    assert_same(&bare, &["--image", &dump, "--symbols", text(&program)]);
    // An image of the user takes precedence in the package too.
    let mut other = code.clone();
    other[..4].copy_from_slice(&0xd280_0020_u32.to_le_bytes());
    let other = folder.file("other.bin", other);
    let other = format!("{}@0x400000", text(&other));
    let made = assert_same(&[text(&example())], &["--image", &other]);
    assert!(decode(&[text(&made.path("package"))], &[]).out.contains("d2800020"));
}

/// A package of the recorded example whose log names its program.
#[test]
fn a_package_with_a_log_decodes_alike() {
    let folder = Folder::new();
    folder.file("contents.ini", "[trace]\nmetadata=trace.ini\nbuffer0=trace_0.bin\n");
    let registers =
        "TRCCONFIGR: 0x1001\nTRCDEVARCH: 0x47705a13\nTRCIDR0: 0x28000ea1\nTRCIDR2: 0xc0001088\nTRCIDR8: 0\n";
    folder.file("trace.ini", format!("[buffer]\nformat: coresight\n\n[trace_0x10]\nformat: ETE\n{registers}"));
    folder.file("trace_0.bin", fs::read(qemu().join("trace_0.bin")).unwrap());
    folder.file("system-event-log", "- declare_process(CURRENT, 7, 0x400000, \"/opt/hello\", \"\")\n");
    fs::create_dir_all(folder.path("sysroot/opt")).unwrap();
    folder.file("sysroot/opt/hello", fs::read(qemu().join("hello")).unwrap());
    let sysroot = folder.path("sysroot");
    let made = assert_same(&[text(folder.root())], &["--sysroot", text(&sysroot)]);
    assert!(made.path("package/opt/hello").exists());
    let maps = folder.file("maps-7", "");
    drop(assert_same(&[text(folder.root())], &["--sysroot", text(&sysroot), "--maps", text(&maps)]));
}

/// Sessions of two CPUs that alternate, some with lost trace.
fn recording(sessions: u64) -> Vec<u8> {
    let trailer = |cpu: u32, time| Trailer { event: 0, thread: (100, 101), time, cpu, id: 78 + u64::from(cpu) };
    let mut file = PerfWriter::new(false, &[Event::trace(&[78, 79]), Event::dummy(&[80, 81])]);
    let unit = |id: u64| [0x40, id, 0x2800_0ea1, 0x4100_f422, 0x2000_1088, 0, 0x8c];
    file.info(1, &[(ETM4, 0, &unit(0x10)), (ETM4, 1, &unit(0x11))]);
    file.mmap2(100, 0x40_0000, 0x1000, 0, "/bin/none", Trailer { event: 1, id: 80, ..trailer(0, 1) });
    let mut stream = vec![0; 11];
    stream.extend([0x80, 0x01, 0x00, 0x04, 0x9d, 0, 0, 0x40, 0, 0, 0, 0, 0, 0xf7, 0xf6]);
    let mut formatter = unspool::coresight::frame::Formatter::new();
    formatter.push(0x10, &stream);
    let frames = formatter.finish();
    let size = frames.len() as u64;
    for session in 0..sessions {
        file.aux(session / 2 * size, size, u64::from(session == 3), trailer((session % 2) as u32, 10 + session));
    }
    for cpu in 0..2 {
        let count = (sessions + 1 - u64::from(cpu)) / 2;
        file.auxtrace(cpu, u32::MAX, 0, &frames.repeat(count as usize));
        file.tool(68, 0, &[]);
    }
    file.file()
}

#[test]
fn sessions_of_a_recording_decode_alike() {
    let folder = Folder::new();
    let perf = folder.file("perf.data", recording(7));
    let expected = decode(&[text(&perf)], &[]);
    for path in packed(&folder, &[text(&perf)], &[]) {
        let run = decode(&[text(&path)], &[]);
        assert!(run.out == expected.out, "{}\n{}", run.out, expected.out);
        assert!(run.err.contains("the buffer was full, and trace was lost"), "{}", run.err);
        let info = |path: &Path| unspool(&["info", text(path), "--json"]).json()[0].clone();
        assert_eq!(info(&path)["notes"], info(&perf)["notes"]);
        assert_eq!(info(&path)["sources"], info(&perf)["sources"]);
        assert_eq!(info(&path)["events"], info(&perf)["events"]);
    }
}

#[test]
fn info_of_many_sessions_is_short() {
    let folder = Folder::new();
    let perf = folder.file("perf.data", recording(4001));
    let made = packed(&folder, &[text(&perf)], &[]);
    for path in [&perf, &made[0], &made[1]] {
        let run = unspool(&["info", text(path)]).clean();
        let lines = run.out.lines().count();
        assert!(lines < 120, "{lines}");
        let totals = ["and 3,993 more buffers with ", "and 3,993 more sessions; -v shows all of them:"];
        let totals = [&totals[..], &["0x10  cpu0 (ETMv4), 3,993 sessions", "3,993 synchronizations"]].concat();
        totals.iter().for_each(|words| assert!(run.out.contains(words), "{words}: {}", run.out));
        assert!(unspool(&["info", "-v", text(path)]).out.lines().count() > 8000);
        assert_eq!(unspool(&["info", "--json", text(path)]).json()[0]["buffers"].as_array().unwrap().len(), 4001);
    }
}

#[test]
fn missing_images_are_listed() {
    let folder = Folder::new();
    let perf = folder.file("perf.data", recording(2));
    let out = folder.path("a.zip");
    let run = unspool(&["pack", text(&perf), "-o", text(&out), "--json"]);
    let run = run.expect(0, &["/bin/none: not found", "--sysroot FOLDER", "2 buffers, 1 system event, 0 images"]);
    let missing = &run.json()[0];
    assert!(missing["kind"] == "missing_image" && missing["image"] == "/bin/none", "{missing}");
    assert!(missing["build_id"].is_null() && missing["what"].is_string(), "{missing}");
    let summary = run.json_summary();
    assert!(summary["missing"] == 1 && summary["buffers"] == 2 && summary["events"] == 1, "{summary}");
}

#[test]
fn nothing_is_replaced_unless_it_is_a_package() {
    let folder = Folder::new();
    let capture = example();
    let pack = |out: &Path, options: &[&str]| unspool(&[&["pack", text(&capture), "-o", text(out)], options].concat());
    let (dir, zip) = (folder.path("d"), folder.path("d.zip"));
    let names = |path: &Path| {
        let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    for out in [&dir, &zip] {
        pack(out, &[]).expect(0, &[]);
        pack(out, &[]).expect(2, &["use --force to replace it"]);
        pack(out, &["--force"]).expect(0, &[]);
    }
    let before = names(&dir);
    assert_eq!(before.len(), 7);
    fs::create_dir(dir.join("extra")).unwrap();
    folder.file("d/extra/notes.txt", "mine");
    pack(&dir, &["--force"]).expect(2, &["it has 'extra/notes.txt', which is not a file of the package"]);
    assert_eq!(fs::read(dir.join("extra/notes.txt")).unwrap(), b"mine");
    fs::remove_dir_all(dir.join("extra")).unwrap();
    // Inputs, files, other directories.
    unspool(&["pack", text(&dir), "-o", text(&dir), "--force"]).expect(2, &["an input is read from"]);
    unspool(&["pack", text(&zip), "-o", text(&zip), "--force"]).expect(2, &["an input is read from"]);
    let file = folder.file("file", "mine");
    pack(&file, &["--force"]).expect(2, &["a file; write to a directory, or to a file that ends in .zip"]);
    fs::create_dir(folder.path("e.zip")).unwrap();
    pack(&folder.path("e.zip"), &["--force"]).expect(2, &["a directory; an archive is a file"]);
    let copy = example_copy();
    pack(copy.root(), &["--force"]).expect(2, &["the directory is not empty, and has no package"]);
    // A package that fails leaves what was there.
    pack(&dir, &["--force", "--image", text(&folder.path("none"))]).expect(2, &["none"]);
    assert_eq!(names(&dir), before);
    // An empty directory is filled.
    fs::create_dir(folder.path("empty")).unwrap();
    pack(&folder.path("empty"), &[]).expect(0, &[]);
    assert_eq!(names(&folder.path("empty")), before);
    folder.assert_no_partial_file();
}

/// A large capture, and Ctrl-C.
#[cfg(unix)]
#[test]
fn interrupted_packing_leaves_nothing() {
    use std::time::{Duration, Instant};
    let folder = Folder::new();
    let trace = folder.file("t.bin", "");
    fs::File::options().write(true).open(&trace).unwrap().set_len(8 << 30).unwrap();
    for out in [folder.path("new.zip"), folder.path("new")] {
        let mut command = crate::run::with_signals();
        command.args(["pack", text(&trace), "--protocol", "ete", "--raw", "-o", text(&out)]);
        let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
        let has_part = || folder.names().iter().any(|name| name.ends_with(".part"));
        let deadline = Instant::now() + Duration::from_secs(60);
        while !has_part() {
            assert!(Instant::now() < deadline, "no temporary file");
        }
        crate::run::send_signal("-INT", child.id() as i32);
        assert_eq!(child.wait().unwrap().code(), None, "it ended before the signal");
        assert!(!has_part() && !out.exists(), "{:?}", folder.names());
    }
}

/// Recordings of the corpus.
#[test]
fn corpus_recordings_decode_alike() {
    let Some(corpus) = unspool_testing::corpus("perf") else { return };
    let program = corpus.join("etm_test_loop");
    assert_same(&[text(&corpus.join("perf_etm.data"))], &["--image", text(&program)]);
    let folder = Folder::new();
    let (capture, out) = (corpus.join("perf_with_missing_aux_data.data"), folder.path("a.zip"));
    unspool(&["pack", text(&capture), "-o", text(&out)]).expect(1, &["bytes of trace are announced"]);
    let [one, two] = [&capture, &out].map(|path| unspool(&["decode", text(path)]));
    assert_eq!((one.code, &one.out), (two.code, &two.out));
    let absent =
        |run: &Run| run.err.lines().filter(|line| line.contains("are announced")).map(str::to_string).collect();
    let [one, two]: [Vec<String>; 2] = [absent(&one), absent(&two)];
    assert_eq!((one.len(), &one), (6, &two));
}
