//! Files by path, name and build ID, in all places, and the reasons why there is none.
#![allow(clippy::unwrap_used)]

use tempfile::TempDir;

use super::super::elf_builder::{ElfBuilder, FUNC, GLOBAL};
use super::*;

const ID: &str = "abcdef01";

fn elf(id: &[u8]) -> Vec<u8> {
    ElfBuilder { kind: 3, build_id: id.to_vec(), ..ElfBuilder::default() }.build()
}

fn right() -> Vec<u8> {
    elf(&[0xab, 0xcd, 0xef, 0x01])
}

fn wrong() -> Vec<u8> {
    elf(&[0x12, 0x34])
}

/// A file without code: all code sections have the type of those without bytes.
fn debug_file() -> Vec<u8> {
    let symbols = vec![("main", 0x40_0010, 0x10, GLOBAL | FUNC, 1), ("hidden", 0x40_0020, 0x10, FUNC, 1)];
    let builder = ElfBuilder { kind: 3, build_id: vec![0xab, 0xcd, 0xef, 0x01], symbols, ..ElfBuilder::default() };
    let mut bytes = builder.build();
    let sections = u64::from_le_bytes(*bytes[40..].first_chunk().unwrap()) as usize;
    bytes[sections + 64 + 4] = 8;
    bytes
}

/// The program without its symbols: their section has another type.
fn stripped() -> Vec<u8> {
    let mut bytes = right();
    let sections = u64::from_le_bytes(*bytes[40..].first_chunk().unwrap()) as usize;
    bytes[sections + 3 * 64 + 4] = 1;
    bytes
}

fn folder(files: &[(&str, Vec<u8>)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir
}

fn mapping(image: &str, build_id: &str) -> Mapping {
    Mapping { image: image.into(), build_id: build_id.into(), placement: Placement::Base(0x7000_0000) }
}

/// The name of the file that is found, relative to the folder, or the reason with the folder as `DIR`.
fn find(dir: &TempDir, search: ImageSearch, image: &str, build_id: &str) -> String {
    let text = match ImageLoader::new(search).find(&mapping(image, build_id)) {
        Ok(found) => found.file.name().to_string(),
        Err(error) => error.to_string(),
    };
    text.replace(dir.path().to_str().unwrap(), "DIR")
}

#[test]
fn each_place_is_searched() {
    let dir = folder(&[
        ("root/usr/bin/app", right()),
        ("root/usr/bin/other", wrong()),
        ("debug/.build-id/ab/cdef01.debug", debug_file()),
        ("perf/.build-id/ab/cdef01/elf", right()),
        ("plain/ab/cdef01", right()),
        ("given/deep/er/app", right()),
        ("given/renamed", right()),
        ("given/my-mod.ko", right()),
        ("given/vmlinux", right()),
        ("given/vdso.so", right()),
        ("log/bin/app", right()),
    ]);
    let at = |name: &str| dir.path().join(name);
    let sysroot = || ImageSearch { sysroots: vec![at("none"), at("root")], ..ImageSearch::default() };
    let given = |name: &str| ImageSearch { given: vec![at(name)], ..ImageSearch::default() };
    let debug = |name: &str| ImageSearch { debug_dirs: vec![at(name)], ..ImageSearch::default() };
    let base = || ImageSearch { base: Some(at("log")), ..ImageSearch::default() };
    let rows = [
        ("a path below a sysroot", sysroot(), "/usr/bin/app", ID, "DIR/root/usr/bin/app"),
        ("without a build ID", sysroot(), "/usr/bin/app", "", "DIR/root/usr/bin/app"),
        ("upward", sysroot(), "/usr/../usr/bin/app", ID, "DIR/root/usr/bin/app"),
        ("by ID, perf's layout", debug("perf"), "/any", ID, "DIR/perf/.build-id/ab/cdef01/elf"),
        ("by ID, plain layout", debug("plain"), "/any", ID, "DIR/plain/ab/cdef01"),
        ("by ID, symbols only", debug("debug"), "/any", ID, "DIR/debug/.build-id/ab/cdef01.debug"),
        ("by name in a folder", given("given"), "/x/app", ID, "DIR/given/deep/er/app"),
        ("a given file by ID", given("given/renamed"), "/x/app", ID, "DIR/given/renamed"),
        ("a module", given("given"), "[my_mod]", "", "DIR/given/my-mod.ko"),
        ("a module by path", given("given"), "/lib/modules/6/my_mod.ko", "", "DIR/given/my-mod.ko"),
        ("the kernel", given("given"), "[kernel.kallsyms]_text", ID, "DIR/given/vmlinux"),
        ("the vdso", given("given"), "[vdso]", "", "DIR/given/vdso.so"),
        ("relative to a folder", base(), "bin/app", ID, "DIR/log/bin/app"),
        ("absolute, in a folder", base(), "/bin/app", ID, "DIR/log/bin/app"),
    ];
    for (name, search, image, build_id, expected) in rows {
        assert_eq!(find(&dir, search, image, build_id), expected, "{name}");
    }
}

#[test]
fn reasons() {
    let dir = folder(&[
        ("root/app", wrong()),
        ("root/plain", b"not ELF".to_vec()),
        ("root/m.ko", b"\xfd7zXZ\0...".to_vec()),
        ("here/app", right()),
        ("here/other", wrong()),
        ("here/plain", b"not ELF".to_vec()),
    ]);
    let at = |name: &str| dir.path().join(name);
    let root = || ImageSearch { sysroots: vec![at("root")], ..ImageSearch::default() };
    let nothing = ImageSearch::default;
    let trusting = || ImageSearch { trust_this_machine: true, ..ImageSearch::default() };
    let insisting = || ImageSearch { ignore_build_ids: true, ..root() };
    let here = |name: &str| at("here").join(name).to_str().unwrap().to_string();
    let rows = [
        (root(), "/app".to_string(), ID, "/app: build id differs: abcdef01 was executed, DIR/root/app has 1234"),
        (insisting(), "/app".into(), ID, "DIR/root/app"),
        (root(), "/plain".into(), ID, "DIR/root/plain"),
        (root(), "/app".into(), "not hex", "DIR/root/app"),
        (
            root(),
            "/missing".into(),
            "",
            "/missing: not found: tried DIR/root/missing, /missing (not used: its build ID is not known)",
        ),
        (
            root(),
            "/m.ko".into(),
            "",
            "/m.ko: not found: tried DIR/root/m.ko (compressed with xz; decompress it first), /m.ko (not used: its build ID is not known)",
        ),
        (root(), "[heap]".into(), "", "[heap]: memory without a file"),
        (root(), "/memfd:x (deleted)".into(), "", "/memfd:x (deleted): memory without a file"),
        (nothing(), "relative".into(), "", "relative: not found: tried nothing, since there is no place to look"),
        (nothing(), here("app"), ID, "DIR/here/app"),
        (nothing(), here("app"), "abcdef01000000000000000000000000000000000000", "DIR/here/app"),
        (
            nothing(),
            here("app"),
            "",
            "DIR/here/app: not found: tried DIR/here/app (not used: its build ID is not known)",
        ),
        (
            nothing(),
            here("plain"),
            ID,
            "DIR/here/plain: not found: tried DIR/here/plain (not used: it has no build ID)",
        ),
        (
            nothing(),
            here("other"),
            ID,
            "DIR/here/other: build id differs: abcdef01 was executed, DIR/here/other has 1234",
        ),
        (trusting(), here("app"), "", "DIR/here/app"),
        (
            trusting(),
            here("other"),
            ID,
            "DIR/here/other: build id differs: abcdef01 was executed, DIR/here/other has 1234",
        ),
        (trusting(), "/dev/null".into(), "", "/dev/null: not found: tried /dev/null (not a regular file)"),
    ];
    for (search, image, build_id, expected) in rows {
        assert_eq!(find(&dir, search, &image, build_id), expected, "{image} {build_id}");
    }
}

#[test]
fn assumptions_are_noted() {
    let dir = folder(&[("root/app", wrong()), ("root/plain", b"not ELF".to_vec())]);
    let search =
        ImageSearch { sysroots: vec![dir.path().join("root")], ignore_build_ids: true, ..ImageSearch::default() };
    let mut loader = ImageLoader::new(search);
    let mut notes = |image, id| {
        let notes = loader.find(&mapping(image, id)).unwrap().notes;
        notes.iter().map(|note| note.text.clone()).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(notes("/app", ID), "has build ID 1234, not abcdef01, and is used as requested");
    assert_eq!(notes("/plain", ID), "has no build ID to compare");
    assert_eq!(notes("/app", "uuid"), "the build ID `uuid` is not hexadecimal and is ignored");
    assert_eq!(notes("/app", "12-34"), "");
}

#[cfg(unix)]
#[test]
fn paths_do_not_lead_out_of_a_sysroot() {
    use std::os::unix::fs::symlink;
    let dir = folder(&[("secret", right()), ("root/usr/lib/lib.so", right())]);
    let root = dir.path().join("root");
    symlink(dir.path().join("secret"), root.join("link")).unwrap();
    symlink("usr/lib", root.join("lib")).unwrap();
    let search = || ImageSearch { sysroots: vec![root.clone()], ..ImageSearch::default() };
    let rows = [
        ("/link", "tried DIR/root/link (a link that leads out of the folder)"),
        ("/../secret", "tried /../secret (not used"),
        ("/lib/lib.so", "DIR/root/lib/lib.so"),
    ];
    for (image, expected) in rows {
        let found = find(&dir, search(), image, "");
        assert!(found.contains(expected), "{image}: {found}");
    }
}

#[test]
fn files_of_a_package() {
    let dir = folder(&[("snapshot.ini", b"[device_list]\n".to_vec()), ("bin/app", right()), ("lib.so", right())]);
    let package = Some(Capture::open(dir.path()).unwrap());
    let search = ImageSearch { package, ..ImageSearch::default() };
    let rows = [
        ("bin/app", "bin/app"),
        ("/bin/app", "bin/app"),
        ("/usr/lib/lib.so", "lib.so"),
        ("../app", "../app: not found: tried app in the package"),
        ("none", "none: not found: tried none in the package"),
    ];
    rows.iter().for_each(|(image, expected)| assert_eq!(find(&dir, search.clone(), image, ID), *expected, "{image}"));
}

#[test]
fn a_file_is_read_once() {
    let dir = folder(&[("root/app", right()), ("root/copy", right())]);
    let root = dir.path().join("root");
    let mut loader = ImageLoader::new(ImageSearch { sysroots: vec![root], ..ImageSearch::default() });
    let one = loader.find(&mapping("/app", ID)).unwrap().file;
    let two = loader.find(&mapping("/app", "")).unwrap().file;
    let other = loader.find(&mapping("/copy", ID)).unwrap().file;
    assert!(Arc::ptr_eq(&one, &two) && !Arc::ptr_eq(&one, &other));
    // Placed twice, the bytes are still the same ones.
    let part = |address| Placement::Part { address, length: 0x10, offset: 0 };
    let load = |loader: &mut ImageLoader, address| {
        loader.load(&Mapping { placement: part(address), ..mapping("/app", ID) }).unwrap().0.regions[0].bytes.clone()
    };
    assert_eq!(load(&mut loader, 0x1000).as_ptr(), load(&mut loader, 0x2000).as_ptr());
}

#[test]
fn symbols_of_a_separate_file() {
    let dir = folder(&[("root/app", stripped()), ("debug/.build-id/ab/cdef01.debug", debug_file())]);
    let at = |name: &str| dir.path().join(name);
    let search = ImageSearch { sysroots: vec![at("root")], debug_dirs: vec![at("debug")], ..ImageSearch::default() };
    let (code, notes) = ImageLoader::new(search.clone()).load(&mapping("/app", ID)).unwrap();
    assert_eq!(code.regions[0].address, 0x7000_0000);
    assert_eq!((code.symbols.find(0x7000_0024), notes.len()), (Some(("hidden", 4)), 0));
    // Without the program the names remain, and no bytes are taken for code.
    let search = ImageSearch { sysroots: vec![], ..search };
    let (code, notes) = ImageLoader::new(search).load(&mapping("/app", ID)).unwrap();
    assert_eq!((code.regions.len(), code.symbols.find(0x7000_0024)), (0, Some(("hidden", 4))));
    assert_eq!(notes[0].text, "has symbols but no code; the program itself was not found");
}

#[test]
fn a_kernel_is_where_its_symbol_is() {
    // Its only symbol, `main`, is linked at 0x400010.
    let dir = folder(&[("vmlinux", right())]);
    let kernel = |list: &str| Some(Arc::new(Kallsyms::parse("kallsyms", list.into())));
    let part = |address, offset| Placement::Part { address, length: 0x1000, offset };
    let moved = 0xffff_8000_0801_0010;
    let rows = [
        ("perf", "[kernel.kallsyms]main", part(0x1000, moved), "", Some(moved)),
        ("simpleperf", "[kernel.kallsyms]main", part(moved, 0), "", Some(moved)),
        ("hidden", "[kernel.kallsyms]main", part(0, 0), "", None),
        ("hidden, and listed", "[kernel.kallsyms]main", part(0, 0), "ffff800008010010 T main\n", Some(moved)),
        ("another symbol", "[kernel.kallsyms]_text", part(0x1000, moved), "", None),
        ("a guest", "[guest.kernel.kallsyms.7]main", part(0x1000, moved), "", Some(moved)),
    ];
    for (name, image, placement, list, expected) in rows {
        let search =
            ImageSearch { given: vec![dir.path().to_path_buf()], kernel: kernel(list), ..ImageSearch::default() };
        let (code, notes) = ImageLoader::new(search).load(&Mapping { placement, ..mapping(image, ID) }).unwrap();
        assert_eq!(code.symbols.iter().next().map(|symbol| symbol.address), expected, "{name}");
        assert_eq!(code.regions.first().map(|region| region.address + 0x10), expected, "{name}");
        assert_eq!(notes.len(), usize::from(expected.is_none()), "{name}");
    }
}
