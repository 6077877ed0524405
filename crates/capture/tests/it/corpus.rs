//! Real captures, in the folder that `UNSPOOL_CORPUS` names.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

use unspool_capture::{Capture, Image, LoadedCode, NoteKind, PackageFormat, Source, Spaces, Stream};
use unspool_coresight::Protocol;
use unspool_testing::corpus;
use zip::write::SimpleFileOptions;

use super::captures::bytes;

/// Numbers of sources, buffers and streams of each snapshot.
const COUNTS: &[(&str, [usize; 3])] = &[
    ("001-ack_test", [1, 1, 1]),
    ("TC2", [6, 1, 6]),
    ("a55-test-tpiu", [1, 1, 1]),
    ("a57_single_step", [1, 1, 1]),
    ("bugfix-exact-match", [6, 1, 6]),
    ("ete-bc-instr", [1, 1, 1]),
    ("ete-ite-instr", [2, 2, 2]),
    ("ete-wfet", [2, 2, 2]),
    ("ete_ip", [1, 1, 1]),
    ("ete_mem", [1, 1, 1]),
    ("ete_spec_1", [1, 1, 1]),
    ("ete_spec_2", [1, 1, 1]),
    ("event_test", [1, 1, 1]),
    ("feat_cmpbr", [6, 6, 6]),
    ("infrastructure", [7, 2, 7]),
    ("init-short-addr", [1, 1, 1]),
    ("itm_only_raw", [1, 1, 1]),
    ("juno-uname-001", [1, 1, 1]),
    ("juno_r1_1", [7, 2, 7]),
    ("maxspec0_commopt1", [1, 1, 1]),
    ("pauth_lr", [3, 3, 3]),
    ("q_elem", [2, 2, 2]),
    ("rme_test", [3, 3, 3]),
    ("s_9001", [2, 2, 2]),
    ("src_addr", [1, 1, 1]),
    ("stm-issue-27", [1, 1, 1]),
    ("stm_only", [1, 1, 1]),
    ("tc2-ptm-rstk-t32", [5, 1, 1]),
    ("test-file-mem-offsets", [1, 1, 1]),
    ("tme_simple", [1, 1, 1]),
    ("tme_test", [1, 1, 1]),
    ("trace_file_cid_vmid", [1, 1, 1]),
    ("ts_marker", [1, 1, 1]),
];

#[test]
fn every_snapshot_opens() {
    let Some(corpus) = corpus("coresight") else { return };
    for (name, counts) in COUNTS {
        let capture = Capture::open(corpus.join(name)).unwrap();
        let found = [capture.sources.len(), capture.buffers.len(), capture.streams().len()];
        assert_eq!((found, capture.format), (*counts, PackageFormat::Snapshot), "{name}");
        assert!(capture.sources.iter().all(|source| source.protocol.is_some() && source.id.is_some()), "{name}");
        check_expected(&capture, &corpus.join(name).join("expected"));
    }
}

/// The reference listings are named after session and trace id.
fn check_expected(capture: &Capture, expected: &Path) {
    let sessions = capture.streams().iter().map(|stream| stream.session).max().unwrap_or(0);
    let streams = capture.streams();
    let core_traces = streams.iter().filter(|stream| is_core_trace(capture.sources[stream.source].protocol));
    let listing = |session: usize, source: &Source| format!("s{session}.{:x}.txt.gz", source.id.unwrap());
    let session = |stream: &Stream| if sessions == 0 { 0 } else { stream.session + 1 };
    let ours: BTreeSet<String> =
        core_traces.map(|stream| listing(session(stream), &capture.sources[stream.source])).collect();
    let others = capture.sources.iter().filter(|source| !is_core_trace(source.protocol));
    let others: BTreeSet<String> = others.map(|source| listing(0, source)).collect();
    let names = fs::read_dir(expected).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let theirs: BTreeSet<String> = names.filter(|name| !others.contains(name)).collect();
    assert_eq!(ours, theirs, "{}", expected.display());
}

fn is_core_trace(protocol: Option<Protocol>) -> bool {
    matches!(protocol, Some(Protocol::Ete | Protocol::Etm4 | Protocol::Etm3 | Protocol::Ptm))
}

#[test]
fn a_zip_equals_the_directory() {
    let Some(corpus) = corpus("coresight") else { return };
    for (name, _) in COUNTS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("capture.zip");
        zip_directory(&corpus.join(name), name, &path);
        let (plain, zipped) = (Capture::open(corpus.join(name)).unwrap(), Capture::open(&path).unwrap());
        assert!(zipped.in_zip, "{name}");
        assert_same(&plain, &zipped, name);
        assert_eq!((&plain.buffers, &plain.extras, &plain.notes), (&zipped.buffers, &zipped.extras, &zipped.notes));
    }
}

#[test]
fn a_saved_package_equals_the_snapshot() {
    let Some(corpus) = corpus("coresight") else { return };
    for (name, _) in COUNTS {
        let dir = tempfile::tempdir().unwrap();
        let plain = Capture::open(corpus.join(name)).unwrap();
        let saved = plain.save(dir.path()).unwrap();
        assert!(saved.notes.iter().all(|note| note.kind == NoteKind::MissingFile), "{name}: {:?}", saved.notes);
        let package = Capture::open(dir.path()).unwrap();
        assert_eq!(package.format, PackageFormat::Package, "{name}");
        assert_same(&plain, &package, name);
        let kept = |capture: &Capture| capture.extras.iter().map(|extra| extra.pairs.clone()).collect::<BTreeSet<_>>();
        assert_eq!(kept(&plain), kept(&package), "{name}");
    }
}

#[test]
fn notes_are_of_known_kinds() {
    use NoteKind::{BadValue, MissingFile, NoBuffer, UnknownName};
    let Some(corpus) = corpus("coresight") else { return };
    for (name, _) in COUNTS {
        for note in &Capture::open(corpus.join(name)).unwrap().notes {
            eprintln!("{name}: {note}");
            assert!(matches!(note.kind, MissingFile | UnknownName | NoBuffer | BadValue), "{name}: {note}");
        }
    }
}

#[test]
fn every_existing_image_loads() {
    let Some(corpus) = corpus("coresight") else { return };
    let mut symbols = 0;
    for (name, _) in COUNTS {
        let capture = Capture::open(corpus.join(name)).unwrap();
        let all = capture.code(None);
        for index in 0..capture.cores.len() {
            let loaded = capture.code(Some(index));
            assert_eq!(loaded.codes.len(), all.codes.len(), "{name}");
            check_images(&capture, &capture.cores[index].images, &loaded, name);
        }
        for note in &all.notes {
            eprintln!("{name}: {note}");
            assert!(matches!(note.kind, NoteKind::MissingFile | NoteKind::Truncated), "{name}: {note}");
        }
        symbols += all.codes.iter().map(|code| code.symbols.len()).sum::<usize>();
        all.codes.iter().for_each(|code| eprintln!("{name}: {code}"));
    }
    assert!(symbols > 1000, "only {symbols} symbols in all programs");
}

/// Every byte of an image that its file contains is in memory.
fn check_images(capture: &Capture, images: &[Image], loaded: &LoadedCode, name: &str) {
    for image in images.iter().filter(|image| image.size.is_some_and(|size| size > image.offset)) {
        let address = image.address.unwrap();
        let file = &capture.read_file(&image.file, 1 << 30).unwrap()[image.offset as usize..];
        let listed = &file[..file.len().min(image.length.unwrap_or(u64::MAX) as usize)];
        let spaces = image.space.as_deref().map_or(Spaces::ANY, |space| Spaces::from_name(space).unwrap());
        let regions = loaded.codes.iter().flat_map(|code| &code.regions);
        let found = regions.filter(|region| region.address == address && region.spaces == spaces);
        assert!(found.into_iter().any(|region| region.bytes[..] == *listed), "{name}: {}", image.section);
    }
}

fn assert_same(one: &Capture, two: &Capture, name: &str) {
    assert_eq!(one.sources, two.sources, "{name}");
    assert_eq!(one.cores, two.cores, "{name}");
    assert_eq!(one.devices, two.devices, "{name}");
    assert_eq!(one.streams(), two.streams(), "{name}");
    for index in 0..one.buffers.len() {
        assert_eq!(one.buffers[index].name, two.buffers[index].name, "{name}");
        assert_eq!(bytes(one, index), bytes(two, index), "{name}");
    }
    for image in one.cores.iter().flat_map(|core| &core.images).filter(|image| image.size.is_some()) {
        let read = |capture: &Capture| capture.read_file(&image.file, 1 << 30).unwrap();
        assert!(read(one) == read(two), "{name}: {}", image.file);
    }
}

fn zip_directory(from: &Path, folder: &str, to: &Path) {
    let mut zip = zip::ZipWriter::new(File::create(to).unwrap());
    let mut left = vec![(from.to_path_buf(), folder.to_string())];
    while let Some((path, name)) = left.pop() {
        if path.is_dir() {
            for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
                let file = entry.file_name().into_string().unwrap();
                left.push((entry.path(), format!("{name}/{file}")));
            }
        } else {
            zip.start_file(name, SimpleFileOptions::default()).unwrap();
            std::io::copy(&mut File::open(path).unwrap(), &mut zip).unwrap();
        }
    }
    zip.finish().unwrap();
}
