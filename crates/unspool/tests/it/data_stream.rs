//! The data stream of an ETMv4 trace unit: a source of its own, with the trace id after that of the instructions.

use std::fs;

use tempfile::TempDir;
use unspool::capture::Capture;
use unspool::coresight::frame::Formatter;
use unspool::coresight::{ElementItem, PacketItem, Protocol, Transactions};
use unspool::flow::{FlowItem, FlowSink, Item, Run};
use unspool::{Program, Trace, Watch};

const SYNC: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80];

/// A load, which is a P0 instruction, and a branch back: T32 at 0x2000.
const CODE: [u8; 4] = [0x08, 0x68, 0xfd, 0xe7];

/// Trace info, trace on, 0x2000 in Thread mode, EE, and a data synchronization marker.
const INSTRUCTIONS: [u8; 11] = [0x01, 0x00, 0x04, 0x83, 0x00, 0x20, 0x00, 0x00, 0x00, 0xdb, 0x21];

/// Markers, then a P1 packet, whose layout is not known.
const DATA: [u8; 8] = [0x00, 0x13, 0x01, 0x00, 0x05, 0x71, 0x12, 0x34];

fn capture(configr: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    let mut formatter = Formatter::new();
    for (id, bytes) in
        [(0x10, &SYNC[..]), (0x11, &SYNC), (0x10, &INSTRUCTIONS), (0x11, &DATA), (0x11, &SYNC), (0x11, &[3])]
    {
        formatter.push(id, bytes);
    }
    write("code.bin", &CODE);
    write("trace.bin", &formatter.finish());
    write(
        "snapshot.ini",
        b"[snapshot]\nversion=1.0\n[device_list]\na=cpu.ini\nb=etm.ini\n[trace]\nmetadata=trace.ini\n",
    );
    write("cpu.ini", b"[device]\nname=cpu\nclass=core\ntype=Cortex-M7\n[dump1]\nfile=code.bin\naddress=0x2000\n");
    let registers = format!(
        "TRCCONFIGR={configr:#x}\nTRCTRACEIDR=0x10\nTRCIDR0=0x28001eff\nTRCIDR1=0x4100f403\nTRCIDR2=0x4\nTRCIDR8=0"
    );
    write("etm.ini", format!("[device]\nname=ETM\nclass=trace_source\ntype=ETM4.0\n[regs]\n{registers}\n").as_bytes());
    let buffer = "[trace_buffers]\nbuffers=b\n[b]\nname=B\nfile=trace.bin\nformat=coresight\n";
    write("trace.ini", format!("{buffer}[source_buffers]\nETM=B\n[core_trace_sources]\ncpu=ETM\n").as_bytes());
    folder
}

/// TRCCONFIGR with loads as P0 instructions, data addresses and values.
const WITH_DATA: u32 = 0x3_0003;

#[test]
fn a_trace_unit_that_traces_data_has_a_second_source() {
    for (configr, expected) in [(WITH_DATA, &[Protocol::Etm4, Protocol::Etm4Data][..]), (0x1, &[Protocol::Etm4])] {
        let folder = capture(configr);
        let capture = Capture::open(folder.path()).unwrap();
        let found: Vec<Protocol> = capture.sources.iter().filter_map(|source| source.protocol).collect();
        assert_eq!(found, expected);
    }
    let folder = capture(WITH_DATA);
    let capture = Capture::open(folder.path()).unwrap();
    let source = &capture.sources[1];
    assert_eq!((source.id, source.name.as_str(), source.core), (Some(0x11), "ETM.data", Some(0)));
}

#[test]
fn unknown_layouts_are_undecoded_bytes_and_no_errors() {
    let folder = capture(WITH_DATA);
    let capture = Capture::open(folder.path()).unwrap();
    let traces = Trace::all(&capture);
    let trace = traces.iter().find(|trace| trace.source().protocol == Some(Protocol::Etm4Data)).unwrap();
    let (mut packets, mut elements) = (vec![], vec![]);
    trace.packets(&mut (|item: PacketItem| packets.push(item.unwrap().value.to_string()), ())).unwrap();
    let expected = [
        "alignment sync",
        "data sync marker 1",
        "unnumbered data sync marker",
        "overflow",
        "P1 format 1",
        "undecoded bytes",
        "alignment sync",
        "suppression",
    ];
    assert_eq!(packets, expected);
    let mut sink = (|item: ElementItem| elements.push(item.unwrap().value.to_string()), ());
    trace.committed(Transactions::Resolve, &mut sink).unwrap();
    let expected =
        ["data sync marker 1", "unnumbered data sync marker", "overflow", "2 undecoded bytes", "suppression"];
    assert_eq!(elements, expected);
}

#[derive(Default)]
struct Lines(Vec<String>);

impl FlowSink for Lines {
    fn run(&mut self, run: Run<'_>) {
        self.0.extend(run.ranges().map(|range| format!("{range:?}")));
    }

    fn item(&mut self, item: FlowItem) {
        let item = item.unwrap().value;
        assert!(!matches!(item, Item::Finding(_) | Item::Lost { .. }), "{item:?}");
    }
}

impl Watch for Lines {}

#[test]
fn instructions_beside_a_data_stream_are_decoded() {
    let folder = capture(WITH_DATA);
    let capture = Capture::open(folder.path()).unwrap();
    let traces = Trace::all(&capture);
    let (program, _) = Program::of(&capture, Some(0), &[]);
    let mut lines = Lines::default();
    traces[0].flow(Transactions::Resolve, &program, &mut lines).unwrap();
    assert_eq!(lines.0, ["0x2000..0x2002 E", "0x2002..0x2004 E"]);
}
