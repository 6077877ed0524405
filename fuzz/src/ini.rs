//! Ini files: any text opens or is refused, no name refers to a file outside the package, and an opened capture can be saved.
//!
//! Input: byte 0 selects the form (bit 0: package), how it is opened (bit 1: by its main file), whether it is saved (bit 2)
//! and the size of the file `x` (bits 4 to 7); then the main file, `t.ini` and `d.ini`, with 0x1c in between.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use unspool_capture::{Capture, Error};

use crate::setup::byte;
use crate::walk::{MAX_READ, scratch, sizes, walk};

/// Separator of the files of an input.
pub const SEPARATOR: u8 = 0x1c;
/// Sizes of the file `x`: around frames and around the blocks of a probe.
const SIZES: [usize; 16] = [0, 1, 15, 16, 17, 64, 503, 504, 505, 511, 512, 513, 1024, 1030, 1536, 2047];
/// A size that no file inside the package has.
const OUTSIDE: u64 = 1_000_003;

/// Checks all properties for these bytes.
pub fn check(mut data: &[u8]) {
    let how = byte(&mut data);
    let package = package();
    let main = if how & 1 == 0 { "snapshot.ini" } else { "contents.ini" };
    fill(package, main, data, SIZES[usize::from(how >> 4)]);
    let path = if how & 2 == 0 { package.to_path_buf() } else { package.join(main) };
    match Capture::open(path) {
        Ok(capture) => {
            assert!(sizes(&capture).all(|size| size != OUTSIDE), "a file outside the package was found");
            walk(&capture);
            if how & 4 != 0 {
                check_saving(&capture, &package.with_file_name("saved"));
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The directory of the package. Next to it is a file that must not be found, and in it a folder whose name could lead
/// there.
fn package() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let root = scratch("ini");
        let package = root.join("package");
        fs::create_dir_all(package.join("a\\b")).expect("a folder");
        fs::create_dir_all(package.join("Sub")).expect("a folder");
        fs::write(package.join("Sub/y"), [0x5a; 40]).expect("a file");
        for outside in ["x", "t.ini", "outside"] {
            fs::File::create(root.join(outside)).and_then(|file| file.set_len(OUTSIDE)).expect("a file");
        }
        package
    })
}

fn fill(package: &Path, main: &str, data: &[u8], size: usize) {
    for name in ["snapshot.ini", "contents.ini"] {
        let _ = fs::remove_file(package.join(name));
    }
    let mut texts = data.splitn(3, |&byte| byte == SEPARATOR);
    for name in [main, "t.ini", "d.ini"] {
        fs::write(package.join(name), texts.next().unwrap_or_default()).expect("a file");
    }
    let counted: Vec<u8> = (0..size).map(|at| (at ^ at >> 8) as u8).collect();
    fs::write(package.join("x"), counted).expect("a file");
}

/// A capture that is saved and opened again is the same. Names that an ini file cannot contain may be refused.
fn check_saving(capture: &Capture, directory: &Path) {
    let _ = fs::remove_dir_all(directory);
    match capture.save(directory) {
        Ok(_) => {}
        Err(Error::Unwritable { .. }) => return,
        Err(error) => panic!("saving failed: {error}"),
    }
    let saved = Capture::open(directory).expect("a saved capture opens");
    walk(&saved);
    let (saved, capture) = (&with_old_names(saved), &with_old_names(capture.clone()));
    assert_eq!(saved.sources, capture.sources);
    assert_eq!(saved.cores, capture.cores);
    assert_eq!(saved.devices, capture.devices);
    assert_eq!(saved.streams(), capture.streams());
    assert_eq!((&saved.version, &saved.event_log), (&capture.version, &capture.event_log));
    assert_eq!(saved.buffers.len(), capture.buffers.len());
    for (index, (new, old)) in saved.buffers.iter().zip(&capture.buffers).enumerate() {
        assert_eq!((&new.name, new.len()), (&old.name, old.len()));
        assert_eq!(bytes(saved, index), bytes(capture, index), "bytes of {old:?}");
    }
}

/// Files that cannot keep their names are saved below `images`.
fn with_old_names(mut capture: Capture) -> Capture {
    let of_cores = capture.cores.iter_mut().flat_map(|core| &mut core.images);
    let images = of_cores.chain(capture.devices.iter_mut().flat_map(|device| &mut device.images));
    let files = images.map(|image| &mut image.file).chain(capture.event_log.iter_mut().map(|log| &mut log.file));
    for file in files {
        *file = file.trim_start_matches("images/").to_string();
    }
    capture
}

fn bytes(capture: &Capture, buffer: usize) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    capture.reader(buffer).ok()?.take(MAX_READ).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
