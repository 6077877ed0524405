//! Identification of hostile files: it ends, reads little and names something, whatever the bytes claim.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use unspool::Identity;
use unspool_testing::Random;

/// Starts of formats whose fields are read.
const STARTS: [&[u8]; 10] = [
    b"",
    b"\x7fELF\x02\x01",
    b"PERFILE2",
    b"2ELIFREP",
    b"PERFILE2\x10\0\0\0\0\0\0\0",
    b"\x1f\x8b\x08",
    b"\xfd7zXZ\0",
    b"\x28\xb5\x2f\xfd",
    b"MZ",
    b"\x0a\x03abc\x0a\x03abc\x0a\x03abc\x0a",
];

#[test]
fn any_bytes_have_a_name() {
    let mut random = Random::new(25);
    for round in 0..2000_usize {
        let start = STARTS[round % STARTS.len()];
        let length = random.below(600) as usize;
        // Small numbers are likely: they are counts and sizes that fit.
        let byte = |random: &mut Random| if random.below(3) > 0 { 0 } else { random.below(256) as u8 };
        let rest: Vec<u8> = (0..length).map(|_| byte(&mut random)).collect();
        let bytes = [start, &rest].concat();
        assert!(!Identity::of(&bytes, "a file").what.is_empty(), "{bytes:02x?}");
    }
}

/// A perf.data file of 10 GiB whose first record is followed by endless small ones.
#[test]
fn a_huge_perf_file_is_read_in_part() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let size = 10_u64 << 30;
    let header = [104, 144, 0, 0, 104, size - 104, 0, 0].map(u64::to_le_bytes).concat();
    // Records of eight bytes, as many as there is room for.
    let records = [1, 0, 0, 0, 0, 0, 8, 0].repeat(1 << 17);
    fs::write(&path, [&b"PERFILE2"[..], &header, &[0; 32], &records].concat()).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(size).unwrap();
    let start = Instant::now();
    let found = Identity::at(&path).unwrap();
    assert!(found.what.starts_with("a perf.data file"), "{found:?}");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}
