//! Packages with events and images: which files get into them, under which names, and what reading them finds.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use unspool_capture::{
    AddedImage, Capture, ContextFormat, ImageLoader, ImageNotFound, ImageRole, ImageSearch, Mapping, NoteKind,
    PackageKind, Placement, SaveOptions, Saved, SystemLog,
};

use super::{folder, has_note, notes, open, put};

/// A position-independent program with a build ID and this code at its end.
fn elf(id: &[u8], code: &[u8]) -> Vec<u8> {
    assert!(id.len().is_multiple_of(4));
    let long = |value: usize| (value as u64).to_le_bytes().to_vec();
    let word = |value: usize| (value as u32).to_le_bytes().to_vec();
    let half = |value: u16| value.to_le_bytes().to_vec();
    let note = [word(4), word(id.len()), word(3), b"GNU\0".to_vec(), id.to_vec()].concat();
    let headers = 64 + 2 * 56;
    let size = headers + note.len() + code.len();
    let segment = |kind: usize, flags: usize, at: usize, size: usize| {
        [word(kind), word(flags), long(at), long(at), long(at), long(size), long(size), long(4)].concat()
    };
    let ident = [&b"\x7fELF\x02\x01\x01"[..], &[0; 9]].concat();
    let sizes: Vec<u8> = [64, 56, 2, 64, 0, 0].into_iter().flat_map(half).collect();
    let header = [ident, half(3), half(183), word(1), long(0), long(64), long(0), word(0), sizes].concat();
    let segments = [segment(1, 5, 0, size), segment(4, 4, headers, note.len())].concat();
    [header, segments, note, code.to_vec()].concat()
}

const CONTENTS: &str = "[trace]\nmetadata=trace.ini\nbuffer0=b.bin\n";
const TRACE: &str = "[buffer]\nname: b\nformat: source_data\n\n[trace_16]\nformat: ETE\nname: e\nsource_index: 0\n";

/// A package with this log.
fn with_log(log: &str) -> (TempDir, Capture) {
    open(&[("contents.ini", CONTENTS), ("trace.ini", TRACE), ("b.bin", "bytes"), ("system-event-log", log)])
}

/// Events that name images: path and build ID.
fn log_of(images: &[(&str, &str)]) -> String {
    let event = |(index, (image, id)): (usize, &(&str, &str))| {
        let name = image.replace('\\', "\\\\");
        format!("{index} declare_library(START, 1, {:#x}, \"{name}\", \"{id}\")\n", 0x10_0000 * (index + 1))
    };
    images.iter().enumerate().map(event).collect()
}

/// Saves as a directory and as an archive, and opens both.
fn save(capture: &Capture, options: &SaveOptions) -> (TempDir, Saved, [Capture; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let saved = capture.save_with(dir.path().join("out"), options, &mut |_, _| {}).unwrap();
    let zip = SaveOptions { kind: PackageKind::Zip, ..options.clone() };
    let zipped = capture.save_with(dir.path().join("out.zip"), &zip, &mut |_, _| {}).unwrap();
    assert_eq!(saved, zipped);
    let read = [dir.path().join("out"), dir.path().join("out.zip")].map(|path| Capture::open(path).unwrap());
    assert!(read[1].in_zip);
    assert_eq!(read[0].event_images, read[1].event_images);
    assert_eq!(read[0].events, read[1].events);
    (dir, saved, read)
}

/// All files of a directory with their bytes.
fn files_in(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            match root.join(&path).is_dir() {
                true => folders.push(path),
                false => files.push((path.to_str().unwrap().to_string(), fs::read(root.join(&path)).unwrap())),
            }
        }
    }
    files.sort();
    files
}

/// The bytes that a decoder of the package uses for an image.
fn found(package: &Capture, image: &str, build_id: &str) -> Result<Vec<u8>, ImageNotFound> {
    let search = ImageSearch { package: Some(package.clone()), ..ImageSearch::default() };
    let mapping = Mapping {
        image: image.to_string(),
        build_id: build_id.to_string(),
        placement: Placement::Part { address: 0x1000, length: 1 << 20, offset: 0 },
    };
    let (code, _) = ImageLoader::new(search).load(&mapping)?;
    Ok(code.regions.first().map(|region| region.bytes.to_vec()).unwrap_or_default())
}

fn searching(given: &[PathBuf], sysroots: &[PathBuf], package: &Capture) -> SaveOptions {
    let (given, sysroots) = (given.to_vec(), sysroots.to_vec());
    let search = ImageSearch { given, sysroots, package: Some(package.clone()), ..ImageSearch::default() };
    SaveOptions { search: Some(search), ..SaveOptions::default() }
}

#[test]
fn images_are_found_again_whatever_their_names_are() {
    let [one, two] = [elf(&[1; 4], b"first"), elf(&[2; 4], b"second")];
    let machine = folder::<&[u8]>(&[
        ("usr/lib/x.so", &one),
        ("opt/lib/x.so", &two),
        ("bin/App", b"APP."),
        ("bin/app", b"app."),
        ("contents.ini", b"none"),
        ("plain/up", b"up.."),
    ]);
    let given = folder::<&[u8]>(&[("x.so", b"by name"), ("vdso.so", b"vdso"), ("y", b"from \\ and :")]);
    // The path, and what is found for it. The last ones have no place in a sysroot, and are found by name.
    let rows: &[(&str, &str, &[u8])] = &[
        ("/usr/lib/x.so", "01010101", &one),
        ("/opt/lib/x.so", "02020202", &two),
        ("/usr/../opt/lib/x.so", "02020202", &two),
        ("/bin/App", "", b"APP."),
        ("/bin/app", "", b"app."),
        ("/contents.ini", "", b"none"),
        ("/a #b;/../plain/up", "", b"up.."),
        ("../../y", "", b"from \\ and :"),
        ("C:\\dir\\y", "", b"from \\ and :"),
        ("\\\\host\\y", "", b"from \\ and :"),
        ("[vdso]", "", b"vdso"),
    ];
    let images: Vec<(&str, &str)> = rows.iter().map(|(image, id, _)| (*image, *id)).collect();
    let (_dir, capture) = with_log(&log_of(&images));
    assert_eq!(notes(&capture), "");
    let given = [given.path().join("vdso.so"), given.path().join("y")];
    let (_out, saved, packages) = save(&capture, &searching(&given, &[machine.path().to_path_buf()], &capture));
    assert_eq!((saved.missing.len(), saved.events), (0, rows.len()));
    // Files that several names lead to are stored once.
    assert_eq!(saved.images, 8, "{:?}", packages[0].event_images);
    for package in &packages {
        for (image, id, expected) in rows {
            assert_eq!(found(package, image, id).unwrap(), *expected, "{image}");
        }
        assert_eq!(notes(package), "");
        assert_eq!(package.events.len(), rows.len());
    }
    let names: Vec<&str> = packages[0].event_images.iter().flatten().map(|image| image.file.as_str()).collect();
    assert_eq!(names[..3], ["usr/lib/x.so", "opt/lib/x.so", "opt/lib/x.so"]);
    assert_eq!(names[3..6], ["bin/App", "images/bin/app", "images/contents.ini"]);
    assert_eq!(names[6..], ["plain/up", "y", "y", "y", "vdso.so"]);
}

#[test]
fn one_path_with_two_build_ids_is_two_files() {
    let [one, two] = [elf(&[1; 4], b"first"), elf(&[2; 4], b"second")];
    let machine = folder(&[("a/x.so", &one), ("b/other.so", &two)]);
    let (_dir, capture) = with_log(&log_of(&[("/lib/x.so", "01010101"), ("/lib/x.so", "02020202")]));
    let given = [machine.path().join("a/x.so"), machine.path().join("b/other.so")];
    let (_out, saved, packages) = save(&capture, &searching(&given, &[], &capture));
    assert_eq!((saved.images, saved.missing.len()), (2, 0));
    for package in &packages {
        assert_eq!(found(package, "/lib/x.so", "01010101").unwrap(), one);
        assert_eq!(found(package, "/lib/x.so", "02020202").unwrap(), two);
        // An image that was not packed has no file, even if one has its name.
        assert!(found(package, "/lib/x.so", "").is_err() && found(package, "lib/x.so", "").is_err());
    }
}

#[test]
fn missing_images_are_listed() {
    let wrong = folder(&[("x.so", elf(&[9; 4], b"other"))]);
    let images = [("/lib/x.so", "01010101"), ("/none", ""), ("//anon", ""), ("[heap]", ""), ("/none", "")];
    let (_dir, capture) = with_log(&log_of(&images));
    let mut options = searching(&[wrong.path().join("x.so")], &[], &capture);
    let (_out, saved, packages) = save(&capture, &options);
    let missing: Vec<(&str, &str)> =
        saved.missing.iter().map(|missing| (missing.image.as_str(), missing.build_id.as_str())).collect();
    assert_eq!(missing, [("/lib/x.so", "01010101"), ("/none", "")]);
    assert!(matches!(saved.missing[0].reason, ImageNotFound::BuildIdDiffers { .. }));
    assert_eq!(packages[0].event_images.as_deref(), Some(&[][..]), "a list without entries is a list");
    // A file that the user insists on is used by readers who do not.
    if let Some(search) = &mut options.search {
        search.ignore_build_ids = true;
    }
    let (_out, saved, packages) = save(&capture, &options);
    assert_eq!((saved.missing.len(), saved.notes.len()), (1, 1), "{:?}", saved.notes);
    packages
        .iter()
        .for_each(|package| assert_eq!(found(package, "/lib/x.so", "01010101").unwrap(), elf(&[9; 4], b"other")));
}

#[test]
fn a_package_packed_again_is_identical() {
    let machine = folder(&[("lib/x.so", elf(&[1; 4], b"first")), ("lib/y.so", elf(&[2; 4], b"second"))]);
    let added = folder(&[("b.bin", "dump"), ("app", "dump of app")]);
    let log = log_of(&[("/lib/x.so", "01010101"), ("/lib/y.so", ""), ("/none", "")]);
    let (_dir, capture) = with_log(&log);
    let image = |name: &str, address| AddedImage {
        path: added.path().join(name),
        bytes: None,
        address,
        load_address: None,
        role: ImageRole::Added,
    };
    let long = vec![0x5a; 100_000];
    let patch = format!("9 patch_code(1, 0x1000, 100000, hex\"{}\")\n", "5a".repeat(100_000));
    let options = SaveOptions {
        events: SystemLog::read(patch.as_bytes()).events,
        added: vec![image("b.bin", Some(0x1000)), image("app", Some(0x2000))],
        context_format: Some(ContextFormat::AsidPid),
        ..searching(&[], &[machine.path().to_path_buf()], &capture)
    };
    let (dir, _, packages) = save(&capture, &options);
    let expected = files_in(&dir.path().join("out"));
    assert!(expected.iter().any(|(name, bytes)| name == "patch.bin" && *bytes == long), "long code has its own file");
    for package in &packages {
        assert_eq!(notes(package), "");
        assert_eq!(package.context_format, Some(ContextFormat::AsidPid));
        assert_eq!(package.events.len(), 4);
        let (again, saved, _) = save(package, &SaveOptions::default());
        assert_eq!(files_in(&again.path().join("out")), expected);
        let [one, two] = [&again, &dir].map(|dir| fs::read(dir.path().join("out.zip")).unwrap());
        assert!(one == two, "the archives differ");
        assert_eq!(saved.files, expected.len());
        let code = package.code(None);
        assert_eq!((code.codes.len(), code.added), (2, 2));
        assert_eq!(code.codes[0].starting_at(0x1000), Some(&b"dump"[..]));
    }
    let files = packages[0].files();
    let known = |name: &str| name == "contents.ini" || files.contains(name);
    assert!(expected.iter().all(|(name, _)| known(name)), "{files:?}");
}

#[test]
fn images_of_a_user_become_images_of_all_cores() {
    let ini =
        |name: &str| format!("[device]\nname={name}\nclass=core\ntype=x\n[dump]\nfile={name}.mem\naddress=0x1000\n");
    let contents = format!("{CONTENTS}[device_list]\nd0=c0.ini\nd1=c1.ini\n");
    let (_dir, capture) = open(&[
        ("contents.ini", contents.as_str()),
        ("trace.ini", TRACE),
        ("b.bin", "bytes"),
        ("c0.ini", &ini("c0")),
        ("c1.ini", &ini("c1")),
        ("c0.mem", "core 0"),
        ("c1.mem", "core 1"),
    ]);
    let files = folder::<&[u8]>(&[("app", &elf(&[1; 4], b"moved")), ("list", b"1000 T f\n1010 T g\n")]);
    let image = |name: &str, load_address, role| AddedImage {
        path: files.path().join(name),
        bytes: None,
        address: None,
        load_address,
        role,
    };
    let added = vec![image("app", Some(0x70_0000), ImageRole::Added), image("list", None, ImageRole::KernelSymbols)];
    let (_out, _, packages) = save(&capture, &SaveOptions { added, ..SaveOptions::default() });
    for package in &packages {
        assert_eq!(notes(package), "");
        assert!(package.kernel_symbols().is_some_and(|kernel| kernel.address_of("g") == Some(0x1010)));
        for core in 0..2 {
            assert_eq!(package.cores[core].images.len(), 3);
            let loaded = package.code(Some(core));
            assert_eq!((loaded.added, loaded.of_core, loaded.codes.len()), (2, 1, 4), "{:?}", loaded.notes);
            assert_eq!((loaded.codes[0].regions[0].address, loaded.codes[0].bias), (0x70_0000, 0x70_0000));
            assert_eq!(loaded.codes[1].symbols.find(0x1010), Some(("g", 0)));
            assert_eq!(loaded.codes[2].starting_at(0x1000), Some(format!("core {core}").as_bytes()));
        }
    }
}

#[cfg(unix)]
#[test]
fn links_that_lead_out_of_a_package_are_not_packed() {
    use std::os::unix::fs::symlink;
    let outside = folder(&[("secret", "of this machine")]);
    let log = log_of(&[("/lib/x", ""), ("y", ""), ("../secret", "")]) + "9 patch_code(1, 0x1000, 4, \"patch\")\n";
    let (dir, capture) = with_log(&log);
    put(dir.path(), "lib/inside", "inside");
    for name in ["lib/x", "y", "patch"] {
        symlink(outside.path().join("secret"), dir.path().join(name)).unwrap();
    }
    let (out, saved, packages) = save(&capture, &SaveOptions::default());
    assert_eq!(saved.missing.len(), 3);
    let secret = b"of this machine".to_vec();
    assert!(files_in(&out.path().join("out")).iter().all(|(_, bytes)| *bytes != secret));
    assert!(packages.iter().all(|package| package.event_images.as_deref() == Some(&[])));
    // A list of images cannot lead out either.
    put(dir.path(), "contents.ini", format!("{CONTENTS}[event_image_0]\nimage=\"a\"\nfile=\"../secret\"\n"));
    let read = Capture::open(dir.path()).unwrap();
    assert!(has_note(&read, NoteKind::OutsidePackage, "../secret"), "{}", notes(&read));
    assert!(found(&read, "a", "").is_err());
}

#[test]
fn odd_descriptions_are_noted() {
    let rows = [
        ("[event_image_0]\nimage=x\nfile=\"y\"\n", "needs `image` and `file` in quotes"),
        ("[event_image_0]\nimage=\"x\"\nfile=\"gone\"\n", "`gone` is not in the package"),
        ("[recording_note_0]\nkind=trace_lost\n", "needs a known `kind`, and `text` in quotes"),
        ("[recording_note_0]\nkind=other\ntext=\"x\"\n", "needs a known `kind`"),
        ("[recording_note_0]\nkind=trace_lost\nfile=\"f\"\noffset=16\ntext=\"a \\u{23}1\"\n", "f: 0x10: a #1"),
        ("[trace]\ncontext_id_format=pids\n", "`pids` is not a format of context identifiers"),
    ];
    for (text, expected) in rows {
        let contents = format!("{CONTENTS}{text}");
        let (_dir, capture) = open(&[("contents.ini", contents.as_str()), ("trace.ini", TRACE), ("b.bin", "bytes")]);
        assert!(notes(&capture).contains(expected), "{text}: {}", notes(&capture));
        assert!(capture.extras.is_empty(), "{:?}", capture.extras);
    }
}

/// Buffers of several groups are in the order of their indexes, not of the groups.
#[test]
fn sessions_keep_their_order() {
    let group = |id: u8, buffers: &[(usize, &str)]| {
        let mut text =
            format!("[buffer]\nformat: source_data\n[trace_{id}]\nformat: ETE\nname: e{id}\nsource_index: {id}\n");
        for (index, keys) in buffers {
            text += &format!("[buffer{index}]\nname: session{index}\nbuffer_index: {index}\nrecorded: session\n{keys}");
        }
        text
    };
    let (_dir, capture) = open(&[
        (
            "contents.ini",
            "[trace]\nmetadata=a.ini\nbuffer0=f0\nbuffer2=f2\n[trace]\nmetadata=b.ini\nbuffer1=f1\n".to_string(),
        ),
        ("a.ini", group(1, &[(0, "recorded_until: 10\n"), (2, "recorded_after: 10\nrecorded_until: 30\n")])),
        ("b.ini", group(2, &[(1, "recorded_thread: 7\n")])),
        ("f0", "zero".to_string()),
        ("f1", "one".to_string()),
        ("f2", "two".to_string()),
    ]);
    assert_eq!(notes(&capture), "");
    let read = |capture: &Capture| {
        let names: Vec<String> = capture.buffers.iter().map(|buffer| buffer.name.clone()).collect();
        let recorded: Vec<_> = capture.buffers.iter().map(|buffer| buffer.recorded.unwrap()).collect();
        let recorded: Vec<_> = recorded.iter().map(|it| (it.after, it.until, it.thread)).collect();
        (names, recorded, super::sources(capture), super::bytes(capture, 1))
    };
    let expected = (
        ["session0", "session1", "session2"].map(str::to_string).to_vec(),
        vec![(None, Some(10), None), (None, None, Some(7)), (Some(10), Some(30), None)],
        vec!["e1:1:[0, 2]".to_string(), "e2:2:[1]".to_string()],
        b"one".to_vec(),
    );
    assert_eq!(read(&capture), expected);
    assert!(capture.has_sessions());
    let (_out, _, packages) = save(&capture, &SaveOptions::default());
    packages.iter().for_each(|package| assert_eq!(read(package), expected));
}
