//! Two programs at one address, and nothing that says which of them was executed.
#![allow(clippy::unwrap_used)]

use unspool::coresight::etm4::Packet;
use unspool::coresight::etm4::packet::{Address, TraceInfo};
use unspool::coresight::etm4::unit::Settings;
use unspool::coresight::{Atoms, Context, Protocol, Security, SubIsa};

use crate::run::{Folder, text, unspool};

const ISB: u32 = 0xd503_3fdf;
const NOP: u32 = 0xd503_201f;
const RET: u32 = 0xd65f_03c0;
/// `b 0x1040`, where only one of the images has code.
const BRANCH: u32 = 0x1400_0010;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn ambiguous_images_are_named() {
    let settings = Settings::new(Protocol::Ete);
    let context = Context { el: 0, aarch64: true, security: Security::NonSecure, vmid: None, context_id: None };
    let info = TraceInfo { info: Some(0), key: None, speculation: None, cycle_threshold: None };
    let packets = [
        Packet::AlignmentSync,
        Packet::TraceInfo(info),
        Packet::TraceOn,
        Packet::AddressContext { address: Address::full(SubIsa::Is0, 0x1000), context },
        Packet::Atoms(Atoms::new(1, 1)),
        Packet::Address(Address::full(SubIsa::Is0, 0x1040)),
        Packet::Atoms(Atoms::new(1, 1)),
    ];
    let mut trace = Vec::new();
    packets.iter().for_each(|packet| packet.encode(&settings.config(), &mut trace).unwrap());
    let registers: String = settings.registers().map(|(name, value)| format!("{name}={value:#x}\n")).collect();
    let folder = Folder::new();
    folder.file(
        "snapshot.ini",
        "[snapshot]\nversion=1.0\n[device_list]\na=cpu.ini\nb=unit.ini\n[trace]\nmetadata=trace.ini\n",
    );
    folder.file(
        "cpu.ini",
        "[device]\nname=cpu_0\nclass=core\ntype=ARM-AA64\n[dump1]\nfile=a\naddress=0x1000\n[dump2]\nfile=b\naddress=0x1000\n",
    );
    folder.file("unit.ini", format!("[device]\nname=UNIT\nclass=trace_source\ntype=ETE\n[regs]\n{registers}"));
    folder.file(
        "trace.ini",
        "[trace_buffers]\nbuffers=buffer0\n[buffer0]\nname=B\nfile=t\nformat=source_data\n[source_buffers]\nUNIT=B\n\
         [core_trace_sources]\ncpu_0=UNIT\n",
    );
    folder.file("t", trace);
    // The first 64 bytes differ, and what follows is in one image only.
    folder.file("a", words(&[&[NOP, BRANCH][..], &[NOP; 14], &[ISB, RET]].concat()));
    folder.file("b", words(&[&[BRANCH][..], &[NOP; 15]].concat()));
    let what = "several processes have code at 0x1000";
    for emit in ["instructions", "ranges"] {
        let run = unspool(&["decode", text(folder.root()), "--emit", emit]);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.out.contains(what) && run.err.contains("ambiguous_image"), "{run:?}");
        assert!(!run.out.contains("d503201f") && !run.out.contains("14000010"), "{run:?}");
        assert!(run.out.contains("0x0000000000001040"), "what is certain is shown: {run:?}");
        let run = unspool(&["decode", text(folder.root()), "--emit", emit, "--json"]);
        assert_eq!(run.code, 1, "{run:?}");
        let lines = run.json();
        let finding = lines.iter().find(|line| line["kind"] == "finding").unwrap();
        assert_eq!((&finding["name"], &finding["at"]), (&"ambiguous_image".into(), &"0x1000".into()), "{run:?}");
        let shown: Vec<&serde_json::Value> =
            lines.iter().filter(|line| line["kind"] == "instruction" || line["kind"] == "range").collect();
        let is_certain = |line: &&serde_json::Value| {
            let start = line.get("address").or(line.get("start")).and_then(serde_json::Value::as_str);
            start == Some("0x1040") || start == Some("0x1044")
        };
        assert!(!shown.is_empty() && shown.iter().all(is_certain), "{run:?}");
        assert_eq!((&run.json_summary()["findings"], &run.json_summary()["clean"]), (&1.into(), &false.into()));
    }
    let run = unspool(&["check", text(folder.root())]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.out.contains("capture-ambiguous-image"), "{run:?}");
}
