//! Saving a capture and opening the saved package.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;
use unspool_capture::{BareOptions, Capture, Error, NoteKind, PackageFormat};
use unspool_coresight::Protocol;

use super::{bytes, cpu, etm, folder, has_note, notes, open, put, snapshot_ini};

/// Saves the capture, opens the result and compares.
fn round_trip(capture: &Capture) -> (TempDir, Capture) {
    let dir = tempfile::tempdir().unwrap();
    let saved = capture.save(dir.path().join("new")).unwrap();
    let read = Capture::open(dir.path().join("new")).unwrap();
    assert_same(capture, &read);
    assert_eq!(saved.files, files_below(&dir.path().join("new")));
    (dir, read)
}

fn files_below(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files_below(&path) } else { 1 }).sum()
}

/// Compares the parts of a capture that saving preserves.
fn assert_same(one: &Capture, two: &Capture) {
    assert_eq!(one.sources, two.sources);
    assert_eq!(one.cores, two.cores);
    assert_eq!(one.devices, two.devices);
    assert_eq!(one.streams(), two.streams());
    assert_eq!(one.version, two.version);
    assert_eq!(one.event_log, two.event_log);
    assert_eq!(one.buffers.len(), two.buffers.len());
    for (index, (a, b)) in one.buffers.iter().zip(&two.buffers).enumerate() {
        assert_eq!((&a.name, &a.vendor, &a.component, a.len()), (&b.name, &b.vendor, &b.component, b.len()));
        assert_eq!(a.format.is_formatted(), b.format.is_formatted());
        match one.reader(index) {
            Ok(_) => assert_eq!(bytes(one, index), bytes(two, index)),
            Err(_) => assert!(matches!(two.reader(index), Err(Error::MissingFile { .. }))),
        }
    }
    for image in one.cores.iter().flat_map(|core| &core.images).filter(|image| image.size.is_some()) {
        assert_eq!(one.read_file(&image.file, 1 << 20).unwrap(), two.read_file(&image.file, 1 << 20).unwrap());
    }
}

#[test]
fn a_snapshot_is_preserved_as_a_package() {
    let core = cpu("cpu_0")
        + "[dump]\nfile=trace.ini\naddress=0\n[dump]\nfile=img\\a.bin\noffset=2\naddress=1\nspace=S\n\
           [dump3]\nfile=gone.bin\naddress=0\nlength=3\n";
    let trace = "[timestamp]\nfrequency=25\n[trace_buffers]\nbuffers=b2,b1,b3\n\
                 [b1]\nname=ETB_1\nfile=one\nformat=dstream_coresight\n\
                 [b2]\nname=ETB/2\nfile=two,gone\nformat=coresight\nwrapped=1\nwrite_pointer=3\n\
                 [b3]\nname=ETB_3\nfile=gone\nformat=raw\n\
                 [source_buffers]\nS1=ETB/2\nS2=ETB_1\nS3=ETB_1,ETB/2\n[core_trace_sources]\ncpu_0=S1\ncpu_0=S3\n";
    let (_dir, capture) = open(&[
        ("snapshot.ini", snapshot_ini(&["cpu.ini", "s1.ini", "s2.ini", "s3.ini", "s4.ini", "s5.ini", "cti.ini"])),
        ("cpu.ini", core),
        ("s1.ini", etm("S1", 1) + "TRCCONFIGR(id:0x4)(size:32)=0x1\nlower=2\n"),
        ("s2.ini", etm("S2", 1)),
        ("s3.ini", etm("S3", 3)),
        ("s4.ini", etm("S4", 3)),
        ("s5.ini", "[device]\nname=S5\nclass=trace_source\ntype=ETM3.5\n".to_string()),
        ("cti.ini", "[device]\nname=CTI\nclass=cti\ntype=CTI\nplace=AP0\n[regs]\nA=0x10\n".to_string()),
        ("trace.ini", trace.to_string()),
        ("one", "x".repeat(1024)),
        ("two", "345012".to_string()),
        ("img/a.bin", "image".to_string()),
        ("system-event-log", "# nothing\n".to_string()),
    ]);
    let (_saved, read) = round_trip(&capture);
    assert_eq!(bytes(&read, 0).len(), 1008);
    assert_eq!(bytes(&read, 1), b"012345");
    let timestamp = read.extras.iter().find(|extra| extra.section == "timestamp").unwrap();
    assert_eq!(timestamp.pairs, [("frequency".to_string(), "25".to_string())]);
    let dir = tempfile::tempdir().unwrap();
    let kinds: Vec<NoteKind> = capture.save(dir.path()).unwrap().notes.iter().map(|note| note.kind).collect();
    assert_eq!(kinds, [NoteKind::MissingFile, NoteKind::MissingFile, NoteKind::Dropped]);
    assert!(matches!(capture.save(dir.path()), Err(Error::NotEmpty { .. })));
    round_trip(&read);
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_out_of_the_package_is_neither_read_nor_copied() {
    use std::os::unix::fs::symlink;
    let outside = folder(&[("secret", "of this machine")]);
    let core = cpu("cpu_0") + "[dump1]\nfile=image\naddress=0\n";
    let dir = folder(&[("snapshot.ini", snapshot_ini(&["cpu.ini"])), ("cpu.ini", core)]);
    symlink(outside.path().join("secret"), dir.path().join("image")).unwrap();
    let capture = Capture::open(dir.path()).unwrap();
    assert!(has_note(&capture, NoteKind::OutsidePackage, "`image` points outside the package"), "{}", notes(&capture));
    assert_eq!(capture.cores[0].images[0].size, None);
    assert!(capture.read_file("image", 100).is_err());
    let saved = tempfile::tempdir().unwrap();
    capture.save(saved.path()).unwrap();
    assert!(!saved.path().join("image").exists());
    // The user may name a package, or its main file, through a link.
    let link = outside.path().join("link.ini");
    symlink(dir.path().join("snapshot.ini"), &link).unwrap();
    assert_eq!(Capture::open(link).unwrap().cores.len(), 1);
}

#[test]
fn the_smallest_package_has_the_published_format() {
    let dir = folder(&[("a.bin", "bytes")]);
    let mut options = BareOptions::formatted(Protocol::Etm3);
    options.id = Some(16);
    let capture = Capture::bare(&[dir.path().join("a.bin")], options).unwrap();
    capture.save(dir.path().join("new")).unwrap();
    let text = |name: &str| fs::read_to_string(dir.path().join("new").join(name)).unwrap();
    assert_eq!(text("contents.ini"), "[trace]\nmetadata=trace.ini\nbuffer0=a.bin\n");
    let trace = "[buffer]\nname: a\nformat: coresight\n\n[trace_16]\nformat: ETM3\nname: etm3\nsource_index: 0\n";
    assert_eq!(text("trace.ini"), trace);
    assert_eq!(notes(&round_trip(&capture).1), "");
}

#[test]
fn an_unknown_start_stays_unknown() {
    let dir = folder(&[("a.bin", "bytes")]);
    let options = BareOptions { wrapped: Some(true), ..BareOptions::raw(Protocol::Ete) };
    let capture = Capture::bare(&[dir.path().join("a.bin")], options).unwrap();
    assert_eq!(round_trip(&capture).1.notes[0].kind, NoteKind::StartUnknown);
}

#[test]
fn names_that_ini_cannot_represent_are_refused() {
    let dir = folder(&[("a.bin", "")]);
    let mut capture = Capture::bare(&[dir.path().join("a.bin")], BareOptions::raw(Protocol::Ete)).unwrap();
    for name in ["two\nlines", "comment ;", " blank"] {
        capture.sources[0].name = name.to_string();
        let fresh = tempfile::tempdir().unwrap();
        assert!(matches!(capture.save(fresh.path()), Err(Error::Unwritable { .. })), "{name:?}");
    }
}

/// Names and sections of the capture must not acquire another meaning in the saved package.
#[test]
fn names_that_are_special_in_a_package_are_preserved() {
    let rows = [
        ("a version in another file", "[snapshot]\nversion=2.0\n", cpu("cpu_0")),
        ("a core named like a main file", "", cpu("snapshot")),
        ("a core named like the other main file", "", cpu("contents")),
        ("a missing image named like a generated file", "", cpu("c") + "[dump]\nfile=trace.ini\naddress=0\n"),
        ("a missing image, spelled differently", "", cpu("c") + "[dump]\nfile=x\\..\\TRACE_1.ini\naddress=0\n"),
        ("registers named like keys", "", etm("S", 1) + "NAME=1\nFormat=2\nCORE=3\nSOURCE_INDEX=4\n"),
    ];
    for (name, trace, device) in rows {
        let list = "[snapshot]\nversion=1.0\n[device_list]\nd=d.ini\ne=e.ini\n[trace]\nmetadata=t.ini\n";
        let trace = format!("{trace}{}", "[buffer0]\nname=trace\nfile=e.ini\nformat=raw\n");
        let files = [("snapshot.ini", list.into()), ("t.ini", trace), ("d.ini", device), ("e.ini", etm("E", 2))];
        let (_dir, capture) = open(&files);
        let (_saved, read) = round_trip(&capture);
        assert_eq!(read.format, PackageFormat::Package, "{name}");
    }
}

/// Trace ID, registers, buffers and core of a generated source.
type Parts = (u8, Vec<(String, u64, Option<u64>, Option<u32>)>, Vec<usize>, Option<usize>);

fn parts() -> impl Strategy<Value = Vec<Parts>> {
    let register = ("[A-Za-z][A-Za-z0-9_]{0,8}", any::<u64>(), any::<Option<u64>>(), any::<Option<u32>>());
    let source = (0..4_u8, prop::collection::vec(register, 0..4), prop::collection::vec(0..3_usize, 0..3));
    let source = (source, prop::option::of(0..2_usize)).prop_map(|((id, regs, bufs), core)| (id, regs, bufs, core));
    prop::collection::vec(source, 0..5)
}

/// A snapshot directory of generated parts.
fn write_snapshot(dir: &Path, sources: &[Parts], buffers: &[Vec<u8>]) {
    let mut trace = "[trace_buffers]\nbuffers=b0,b1,b2\n".to_string();
    for (n, bytes) in buffers.iter().enumerate() {
        put(dir, &format!("b{n}.bin"), bytes);
        trace += &format!("[b{n}]\nname=B {n}\nfile=b{n}.bin\nformat=raw\n");
    }
    let mut files: Vec<String> = Vec::new();
    for n in 0..2 {
        put(dir, &format!("c{n}.ini"), cpu(&format!("cpu:{n}")) + &format!("[dump]\nfile=b{n}.bin\naddress={n}\n"));
        files.push(format!("c{n}.ini"));
    }
    let (mut links, mut cores) = ("[source_buffers]\nunknown=B 0\n".to_string(), "[core_trace_sources]\n".to_string());
    for (n, (id, registers, buffers, core)) in sources.iter().enumerate() {
        let mut text = etm(&format!("S{n}"), *id);
        for (name, value, number, size) in registers {
            let number = number.map_or(String::new(), |number| format!("(id:{number:#x})"));
            let size = size.map_or(String::new(), |size| format!("(size:{size})"));
            text += &format!("{name}{number}{size}={value}\n");
        }
        put(dir, &format!("s{n}.ini"), text);
        files.push(format!("s{n}.ini"));
        links.extend(buffers.iter().map(|buffer| format!("S{n}=B {buffer}\n")));
        cores.extend(core.iter().map(|core| format!("cpu:{core}=S{n}\n")));
    }
    put(dir, "trace.ini", trace + &links + &cores);
    put(dir, "snapshot.ini", snapshot_ini(&files.iter().map(String::as_str).collect::<Vec<_>>()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_capture_survives_saving(
        sources in parts(),
        buffers in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 3),
    ) {
        let dir = tempfile::tempdir().unwrap();
        write_snapshot(dir.path(), &sources, &buffers);
        let capture = Capture::open(dir.path()).unwrap();
        prop_assert_eq!(capture.sources.len(), sources.len());
        prop_assert_eq!(capture.buffers.len(), 3);
        round_trip(&capture);
    }
}
