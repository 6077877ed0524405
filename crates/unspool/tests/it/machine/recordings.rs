//! Recordings of perf with files beside them: code that programs generate, and the memory of the kernel.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use unspool::capture::Capture;
use unspool::coresight::etm4::unit::Settings;
use unspool::coresight::{Protocol, Transactions};
use unspool::flow::{Around, FlowItem, Instruction, InstructionSink};
use unspool::{Program, Trace, Watch};
use unspool_testing::perf::{ETE, Event, PerfWriter, Trailer, name};

use super::decode;
use super::image::{CODE, Image, RET, mark};
use super::scenarios::Part::{At, Execute, Time};
use super::scenarios::{KERNEL_BASE, LIBRARY, Part, images, trace, words};

/// A recording of CPU 2 with one session from 0 to 90,000 ns, in which `records` adds its records.
fn recording(parts: &[Part], records: impl FnOnce(&mut PerfWriter)) -> Vec<u8> {
    let mut settings = Settings::new(Protocol::Ete);
    settings.set("TRCCONFIGR", 0x841);
    let value = |wanted: &str| settings.registers().find(|(name, _)| *name == wanted).map_or(0, |(_, value)| value);
    let names =
        ["TRCCONFIGR", "TRCTRACEIDR", "TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8", "TRCAUTHSTATUS", "TRCDEVARCH"];
    let registers: Vec<u64> = names.into_iter().map(value).chain([1]).collect();
    let mut file = PerfWriter::new(false, &[Event::trace(&[78])]);
    file.info(1, &[(ETE, 2, &registers)]);
    records(&mut file);
    let trace = trace(&settings, parts);
    file.aux(0, trace.len() as u64, 0x100, at(90_000));
    file.auxtrace(2, u32::MAX, 0, &trace);
    file.file()
}

fn at(time: u64) -> Trailer {
    Trailer { thread: (307, 307), time, cpu: 2, id: 78, ..Trailer::default() }
}

/// A jitdump in which functions are loaded at the code of [`LIBRARY`]: time, name and number of instructions before the return.
fn jitdump(has_counter_times: bool, functions: &[(u64, &str, u32)]) -> Vec<u8> {
    let mut file: Vec<u8> =
        [0x4a69_5444, 1, 40, 183, 0, 307].iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    file.extend([0, u64::from(has_counter_times)].iter().flat_map(|word: &u64| word.to_le_bytes()));
    for (index, (time, name, marks)) in functions.iter().enumerate() {
        let code: Vec<u8> = (0..*marks).map(mark).chain([RET]).flat_map(u32::to_le_bytes).collect();
        let size = 56 + name.len() + 1 + code.len();
        file.extend([0, size as u32].iter().flat_map(|word| word.to_le_bytes()));
        file.extend(time.to_le_bytes());
        file.extend([307, 307].iter().flat_map(|word: &u32| word.to_le_bytes()));
        let words = [LIBRARY + CODE, LIBRARY + CODE, code.len() as u64, index as u64];
        file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        file.extend([name.as_bytes(), &[0], &code].concat());
    }
    file
}

/// Names of the functions that are executed.
struct Names<'p> {
    program: &'p Program,
    found: BTreeSet<String>,
}

impl InstructionSink for Names<'_> {
    fn instruction(&mut self, instruction: &Instruction, around: &Around) {
        let symbol = self.program.symbol_in(around.map, instruction.address);
        self.found.extend(symbol.map(|(name, _)| name.to_string()));
    }

    fn item(&mut self, _item: FlowItem) {}
}

impl Watch for Names<'_> {}

fn names(path: &Path) -> Vec<String> {
    let capture = Capture::open(path).unwrap();
    let (program, _) = Program::of(&capture, None, &[]);
    let mut names = Names { program: &program, found: BTreeSet::new() };
    for trace in Trace::all(&capture) {
        trace.instructions(Transactions::Show, &program, &mut names).unwrap();
    }
    names.found.into_iter().collect()
}

#[test]
fn generated_code_of_a_jitdump_that_is_mapped() {
    let here = [At(LIBRARY, 0, 307), Execute];
    // Timestamps count 40 ns.
    let parts = [&[Time(100)], &here[..], &[Time(250)], &here, &[Time(750)], &here].concat();
    let (first, second) = ((50, "first", 1), (500, "second", 2));
    let anonymous = |file: &mut PerfWriter| {
        file.mmap2(307, LIBRARY, 0x1000, 0, "//anon", at(500));
        file.mmap2(307, 0x7f00_0000_0000, 0x1000, 0, "/tmp/jit-307.dump", at(600));
    };
    let rows = [
        ("times of the counter", jitdump(true, &[first, second]), "307a ? 307b", vec!["first", "second"]),
        // The recording has the default clock of perf, and the file another one: what was replaced is not known.
        ("times of another clock", jitdump(false, &[first, second]), "- - -", vec![]),
        ("and nothing is replaced", jitdump(false, &[second]), "307b 307b 307b", vec!["second"]),
        ("not a jitdump", b"no".to_vec(), "- - -", vec![]),
    ];
    for (what, dump, expected, functions) in rows {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("jit-307.dump"), dump).unwrap();
        let path = folder.path().join("perf.data");
        let bytes = recording(&parts, |file| {
            let body = file.words(&[22, 40 << 22, 0]);
            file.tool(79, 0, &body);
            anonymous(file);
        });
        fs::write(&path, bytes).unwrap();
        assert_eq!(words(decode(&path).remove(0)), expected, "{what}");
        assert_eq!(names(&path), functions, "{what}");
    }
}

#[test]
fn the_memory_of_the_kernel_takes_precedence_over_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = recording(&[At(KERNEL_BASE, 1, 307), Execute], |file| {
        let address = file.words(&[KERNEL_BASE, 0x1000, KERNEL_BASE]);
        let body = [file.halves(&[u32::MAX, 0]), address, name("[kernel.kallsyms]_text")].concat();
        file.kernel(1, 1, &body, at(0));
    });
    let recording = folder.path().join("recording");
    fs::create_dir_all(recording.join("kcore_dir")).unwrap();
    fs::write(recording.join("data"), bytes).unwrap();
    assert_eq!(words(decode(&recording).remove(0)), "-", "without its memory");
    // A core file with one segment at the address of the kernel.
    let memory: &Image = &images()[2];
    let mut kcore = memory.elf();
    kcore[16] = 4;
    kcore[80..88].copy_from_slice(&KERNEL_BASE.to_le_bytes());
    fs::write(recording.join("kcore_dir/kcore"), kcore).unwrap();
    let kallsyms =
        format!("{KERNEL_BASE:x} T _text\n{:x} T work\n{:x} T _etext\n", KERNEL_BASE + CODE, KERNEL_BASE + 0x800);
    fs::write(recording.join("kcore_dir/kallsyms"), kallsyms).unwrap();
    assert_eq!(words(decode(&recording).remove(0)), "0c");
    assert_eq!(names(&recording), ["work"]);
    // The file of the kernel that was built is another one.
    fs::write(folder.path().join("vmlinux"), images()[1].elf()).unwrap();
    assert_eq!(words(decode(&recording).remove(0)), "0c");
}
