//! Steps of captures of a few bytes, made here.

use std::fs;

use tempfile::TempDir;
use unspool::model::{Loss, Losses};
use unspool::{Error, OpenSteps, open_steps};

use super::fixtures::{brief, collect_with_losses};

/// Code at 0x2000.
const CODE: [u32; 7] = [
    0xd523_3060, // TSTART x0
    0xd503_201f, // NOP
    0x1400_0002, // B to 0x2010
    0xd503_201f, // NOP
    0xd400_0003, // SMC
    0xd503_201f, // NOP
    0x1400_0000, // B to itself
];

/// Trace that starts at 0x2000.
const START: [u8; 25] = [
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x01, 0x00, // alignment sync, trace info
    0x04, // trace on
    0x85, 0x00, 0x10, 0, 0, 0, 0, 0, 0, 0x31, // 0x2000 in EL1
];

/// Capture of sources with these names and registers; each has a buffer with these bytes.
fn capture(sources: &[&str], registers: &str, bytes: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    write("code.bin", &CODE.iter().flat_map(|opcode| opcode.to_le_bytes()).collect::<Vec<_>>());
    write("trace.bin", bytes);
    let (mut devices, mut buffers, mut names) = (String::new(), String::new(), Vec::new());
    let (mut of_sources, mut of_cores) = (String::new(), String::new());
    for (index, name) in sources.iter().enumerate() {
        let core = format!("[device]\nname=cpu_{index}\nclass=core\ntype=Cortex-A710\n[dump1]\nfile=code.bin\n");
        write(&format!("cpu_{index}.ini"), format!("{core}address=0x2000\n").as_bytes());
        let source = format!("[device]\nname={name}\nclass=trace_source\ntype=ETE\n[regs]\n{registers}\n");
        write(&format!("source_{index}.ini"), source.as_bytes());
        devices += &format!("device{}=cpu_{index}.ini\ndevice{}=source_{index}.ini\n", 2 * index, 2 * index + 1);
        names.push(format!("buffer{index}"));
        buffers += &format!("[buffer{index}]\nname=B_{index}\nfile=trace.bin\nformat=source_data\n");
        of_sources += &format!("{name}=B_{index}\n");
        of_cores += &format!("cpu_{index}={name}\n");
    }
    let snapshot = format!("[snapshot]\nversion=1.0\n[device_list]\n{devices}[trace]\nmetadata=trace.ini\n");
    write("snapshot.ini", snapshot.as_bytes());
    let names = names.join(",");
    let trace = format!(
        "[trace_buffers]\nbuffers={names}\n{buffers}[source_buffers]\n{of_sources}[core_trace_sources]\n{of_cores}"
    );
    write("trace.ini", trace.as_bytes());
    folder
}

/// Steps as lines, and the losses.
fn steps(registers: &str, bytes: &[u8]) -> (Vec<String>, Losses) {
    let folder = capture(&["ETE_0"], registers, &[&START, bytes].concat());
    let (steps, losses) = collect_with_losses(open_steps(folder.path(), &OpenSteps::default()).unwrap());
    (steps.iter().map(brief).collect(), losses)
}

const PLAIN: &str = "TRCCONFIGR=0x1\nTRCTRACEIDR=0x10\nTRCDEVARCH=0x47705a13\nTRCIDR0=0x08000ea1\nTRCIDR2=0xc0001088";

#[test]
fn failed_transaction_is_reported_and_revoked() {
    let bytes = [
        0xf7, 0x0a, 0xf7, // TSTART, the transaction starts, and its branch
        0x06, 0x31, 0x70, 0x95, 0x81, 0x10, // it fails, and execution resumes at 0x2004
        0xf7,
    ];
    let (found, _) = steps(PLAIN, &bytes);
    let expected = ["Start", "EL1", "2000", "note a transaction starts", "2004", "2008 -> 2010"];
    let failed = ["TransactionFailed", "note the transaction failed", "2004", "2008 -> 2010"];
    assert_eq!(found, [&expected[..], &failed].concat());
}

/// A call whose handler is not traced resumes after itself: that is not the address of its handler.
#[test]
fn untraced_handler_has_no_address() {
    let bytes = [
        0xf7, 0xf7, // TSTART, and the branch to the call
        0x06, 0x05, 0x95, 0x85, 0x10, // the call, which returns to 0x2014
        0x95, 0x85, 0x10, 0xf7, // where execution resumes
    ];
    let (found, _) = steps(PLAIN, &bytes);
    let expected =
        ["Start", "EL1", "2000", "2004", "2008 -> 2010", "2010", "Synchronous from 2014 to ?", "2014", "2018 -> 2018"];
    assert_eq!(found, expected);
}

#[test]
fn cycle_counts_beside_timestamps_are_lost_and_markers_are_notes() {
    let registers = PLAIN.replace("TRCCONFIGR=0x1", "TRCCONFIGR=0x811");
    let bytes = [0xf7, 0x88, 0x03, 0x05, 0x07, 0xf7, 0x02, 0x06];
    let (found, losses) = steps(&registers, &bytes);
    let marker = "note timestamp marker: the next timestamp is of here";
    assert_eq!(found, ["Start", "EL1", "2000", marker, "2004", "2008 -> 2010"]);
    assert_eq!(losses.of(Loss::CycleCounts).count, 1);
    let (_, losses) = steps(PLAIN, &[0xf7]);
    assert!(losses.is_empty());
}

#[test]
fn shared_id_selects_no_source() {
    let folder = capture(&["ETE_0", "ETE_1", "ETE_2"], PLAIN, &[&START[..], &[0xf7]].concat());
    let open = |source: &str| {
        open_steps(folder.path(), &OpenSteps { source: Some(source.into()), ..OpenSteps::default() }).map(|_| ())
    };
    assert!(matches!(open("0x10"), Err(Error::SharedId { known, .. }) if known == "ETE_0, ETE_1, ETE_2"));
    assert!(open("ETE_1").is_ok());
}
