//! Snapshot directories, well-formed and not.

use std::fs;

use proptest::prelude::*;
use unspool_capture::{BufferFormat, Capture, Error, NoteKind, PackageFormat};
use unspool_coresight::Protocol;

use super::{bytes, cpu, etm, folder, has_note, notes, open, snapshot_ini, sources};

const ONE_BUFFER: &str = "[trace_buffers]\nbuffers=buffer0\n[buffer0]\nname=ETB\nfile=etb.bin\nformat=coresight\n";

#[test]
fn a_well_formed_snapshot() {
    let core = cpu("cpu_0") + "[dump1]\nfile=bin/a.bin\naddress=0x80000\nlength=4\noffset=0x1\nspace=EL2\n";
    let (dir, capture) = open(&[
        ("snapshot.ini", snapshot_ini(&["cpu.ini", "etm.ini"])),
        ("cpu.ini", core),
        ("etm.ini", etm("ETM_0", 0x10)),
        ("trace.ini", format!("{ONE_BUFFER}[source_buffers]\nETM_0=ETB\n[core_trace_sources]\ncpu_0=ETM_0\n")),
        ("etb.bin", "0123456789abcdef".to_string()),
        ("bin/a.bin", "12345678".to_string()),
    ]);
    assert_eq!(notes(&capture), "");
    assert_eq!(
        (capture.format, capture.in_zip, capture.version.as_deref()),
        (PackageFormat::Snapshot, false, Some("1.0"))
    );
    assert_eq!(sources(&capture), ["ETM_0:10:[0]"]);
    let source = &capture.sources[0];
    assert_eq!((source.kind.as_str(), source.protocol, source.core), ("ETM4.2", Some(Protocol::Etm4), Some(0)));
    let core = &capture.cores[0];
    assert_eq!(
        (core.kind.as_str(), core.registers.get("pc"), &core.sources[..]),
        ("Cortex-A53", Some(0x80000), &[0][..])
    );
    let image = &core.images[0];
    assert_eq!((image.section.as_str(), image.file.as_str(), image.size), ("dump1", "bin/a.bin", Some(8)));
    assert_eq!((image.address, image.length, image.offset), (Some(0x80000), Some(4), 1));
    assert_eq!(image.space.as_deref(), Some("EL2"));
    assert_eq!(capture.read_file(&image.file, 8).unwrap(), b"12345678");
    assert_eq!(bytes(&capture, 0), b"0123456789abcdef");
    assert_eq!(Capture::open(dir.path().join("snapshot.ini")).unwrap().sources, capture.sources);
}

#[test]
fn unusual_syntax_is_accepted() {
    let snapshot = "\u{feff}; made by hand\r\n[SnapShot]\r\nVersion: 1.0 ; old\r\n\r\n[DEVICE_LIST]\r\n\
                    device0 = dev\\etm.ini # the source\r\n[Trace]\r\nMetadata= trace.ini\r\n";
    let trace = "[trace_buffers]\nbuffers= buffer0 , buffer1,\n[Buffer0]\nNAME=A\nfile: a.bin\nformat=CoreSight\n\
                 [buffer1]\nname=B\nfile=b.bin\nformat=raw\n[source_buffers]\netm_0=a, b ,\n";
    let (_dir, capture) = open(&[
        ("snapshot.ini", snapshot.to_string()),
        ("dev/etm.ini", etm("ETM_0", 1)),
        ("trace.ini", trace.to_string()),
        ("a.bin", String::new()),
        ("b.bin", "b".to_string()),
    ]);
    assert_eq!(notes(&capture), "");
    assert_eq!(capture.version.as_deref(), Some("1.0"));
    assert_eq!(sources(&capture), ["ETM_0:1:[0, 1]"]);
    let formats: Vec<BufferFormat> = capture.buffers.iter().map(|buffer| buffer.format).collect();
    assert_eq!(formats, [BufferFormat::Formatted, BufferFormat::Raw]);
    assert_eq!(bytes(&capture, 0), b"");
    assert_eq!(bytes(&capture, 1), b"b");
}

#[test]
fn uninterpreted_sections_and_keys_are_kept() {
    let (_dir, capture) = open(&[
        (
            "snapshot.ini",
            snapshot_ini(&["cti.ini"]) + "[clusters]\nCluster 0=cpu_1,cpu_2\n[snapshot]\ndescription=x.ini\n",
        ),
        ("cti.ini", "[device]\nname=CTI\nclass=cti\ntype=CTI-600\nlocation=AP1\n[regs]\nA=1\n".to_string()),
        ("trace.ini", format!("[timestamp]\nfrequency=25000000\n{ONE_BUFFER}color=red\n")),
        ("etb.bin", String::new()),
    ]);
    let extras: Vec<String> = capture
        .extras
        .iter()
        .flat_map(|extra| extra.pairs.iter().map(move |(k, v)| format!("{} [{}] {k}={v}", extra.file, extra.section)))
        .collect();
    assert_eq!(
        extras,
        [
            "cti.ini [device] location=AP1",
            "snapshot.ini [clusters] Cluster 0=cpu_1,cpu_2",
            "snapshot.ini [snapshot] description=x.ini",
            "trace.ini [buffer0] color=red",
            "trace.ini [timestamp] frequency=25000000",
        ]
    );
    let device = &capture.devices[0];
    assert_eq!((device.name.as_str(), device.class.as_str(), device.kind.as_str()), ("CTI", "cti", "CTI-600"));
    assert_eq!(device.registers.get("a"), Some(1));
    assert_eq!(notes(&capture), "snapshot.ini: no trace source is described\n");
}

#[test]
fn missing_parts_are_noted() {
    let core = cpu("cpu_0") + "[dump1]\nfile=none.bin\naddress=0\n[dump2]\naddress=0\n[dump3]\nfile=../x\naddress=0\n";
    let (_dir, capture) = open(&[
        ("snapshot.ini", snapshot_ini(&["cpu.ini", "gone.ini", "junk.ini"])),
        ("cpu.ini", core),
        ("junk.ini", "\x7fELF\0\0".to_string()),
        (
            "trace.ini",
            format!("{ONE_BUFFER}[source_buffers]\nETM_9=ETB\nETM_9=ETC\n[core_trace_sources]\ncpu_7=ETM_9\n"),
        ),
    ]);
    let expected = "\
cpu.ini:8: `none.bin` is not in the package
cpu.ini:10: [dump2] names no file
cpu.ini:13: `../x` points outside the package and is not opened
snapshot.ini:6: `gone.ini` is not in the package
snapshot.ini:7: junk.ini: not an ini file
trace.ini:5: `etb.bin` is not in the package
trace.ini:8: no trace source is named `ETM_9`
trace.ini:9: no buffer is named `ETC`
trace.ini:9: no trace source is named `ETM_9`
trace.ini:11: no core is named `cpu_7`
trace.ini:11: no trace source is named `ETM_9`
snapshot.ini: no trace source is described
";
    assert_eq!(notes(&capture), expected);
    let images: Vec<(&str, Option<u64>)> = capture.cores[0].images.iter().map(|i| (i.file.as_str(), i.size)).collect();
    assert_eq!(images, [("none.bin", None), ("../x", None)]);
    assert!(matches!(capture.reader(0), Err(Error::MissingFile { .. })));
    assert!(matches!(capture.reader(1), Err(Error::NoBuffer { index: 1, count: 1 })));
    assert!(matches!(capture.open_file("../x"), Err(Error::Unusable { .. })));
}

#[test]
fn invalid_values_are_noted() {
    let device =
        "[device]\nname=A\nname=B\nclass=trace_source\ntype=XTM\n[regs]\nTRCTRACEIDR=seven\nTRCIDR0=0x1\nwords\n";
    let trace = "[trace_buffers]\nbuffers=buffer0,buffer3\n[buffer0]\nname=ETB\nfile=ETB.bin\nformat=zebra\n\
                 [buffer1]\nfile=x.bin\n[source_buffers]\nB=ETB\n";
    let (_dir, capture) = open(&[
        ("snapshot.ini", snapshot_ini(&["a.ini"])),
        ("a.ini", device.to_string()),
        ("trace.ini", trace.to_string()),
        ("etb.BIN", String::new()),
    ]);
    let expected = "\
a.ini:9: `words` is neither section, key nor comment
a.ini:3: `name` is repeated; the last value is used
a.ini:7: register `TRCTRACEIDR` is ignored: `seven` is not a number of at most 64 bits
a.ini: `B` has the type `XTM`, which is not a known trace protocol
trace.ini:5: `ETB.bin` is spelled `etb.BIN` in the package
trace.ini:6: unknown buffer format `zebra`; `coresight` is assumed
trace.ini:2: buffer `buffer3` is listed but not described
trace.ini:7: [buffer1] is not in the list of buffers and is ignored
";
    assert_eq!(notes(&capture), expected);
    assert_eq!(sources(&capture), ["B:-:[0]"]);
    assert_eq!(capture.sources[0].registers.get("TRCIDR0"), Some(1));
    assert_eq!(capture.buffers[0].format, BufferFormat::Formatted);
    assert_eq!(bytes(&capture, 0), b"");
}

#[test]
fn trace_ids_come_from_the_registers_of_each_unit() {
    let rows = [
        ("ETE", "TRCTRACEIDR=0x1", Some(1)),
        ("ETM4", "TRCTRACEIDR(0x010)=0x1A", Some(0x1a)),
        ("PTM1.1", "ETMTRACEIDR(id:0x80)=0x13", Some(0x13)),
        ("ITM", "ITMTCR(0xE80)=0x00200006", Some(0x20)),
        ("STM", "STMTCSR(0x3A0)=0x00A00005", Some(0x20)),
        ("ETM4", "TRCTRACEIDR=0", Some(0)),
        ("ETM4", "TRCCONFIGR=0", None),
    ];
    for (kind, register, id) in rows {
        let device = format!("[device]\nname=S\nclass=trace_source\ntype={kind}\n[regs]\n{register}\n");
        let (_dir, capture) = open(&[("snapshot.ini", snapshot_ini(&["s.ini"])), ("s.ini", device)]);
        assert_eq!(capture.sources[0].id, id, "{kind} {register}");
    }
}

#[test]
fn a_snapshot_without_trace_opens() {
    let (_dir, capture) = open(&[("snapshot.ini", "[snapshot]\nversion=1.0\n")]);
    assert_eq!(notes(&capture), "snapshot.ini: no trace: no [trace] section names metadata\n");
    assert!(capture.buffers.is_empty() && capture.streams().is_empty());
    let (_dir, empty) = open(&[("snapshot.ini", "")]);
    assert!(has_note(&empty, NoteKind::MissingKey, "the file is empty"));
}

#[test]
fn missing_links_to_buffers_are_assumed() {
    let two = |first: &str, second: &str| {
        format!(
            "[trace_buffers]\nbuffers=buffer0,buffer1\n[buffer0]\nname=A\nfile=a.bin\nformat={first}\n\
             [buffer1]\nname=B\nfile=b.bin\nformat={second}\n"
        )
    };
    let rows = [
        ("only one", ONE_BUFFER.to_string(), ["A:1:[0]", "C:2:[0]"]),
        ("by name, else formatted", two("raw", "coresight"), ["A:1:[0]", "C:2:[1]"]),
        ("all formatted", two("coresight", "coresight"), ["A:1:[0]", "C:2:[0, 1]"]),
        ("none formatted", two("raw", "raw"), ["A:1:[0]", "C:2:[]"]),
    ];
    for (name, trace, expected) in rows {
        let snapshot = ("snapshot.ini", snapshot_ini(&["a.ini", "c.ini"]));
        let (_dir, capture) = open(&[snapshot, ("a.ini", etm("A", 1)), ("c.ini", etm("C", 2)), ("trace.ini", trace)]);
        assert_eq!(sources(&capture), expected, "{name}");
        assert!(has_note(&capture, NoteKind::Assumed, "no mapping of sources to buffers"), "{name}");
    }
}

#[test]
fn sessions_count_the_buffers_of_a_trace_id() {
    let buffers: String = ["2", "1", "3"].iter().map(|n| format!("[b{n}]\nname=B{n}\nfile=x\nformat=raw\n")).collect();
    let trace = format!(
        "[trace_buffers]\nbuffers=b2,b1,b3\n{buffers}[source_buffers]\nS1=B1\nS2=B2\nOther=B3\nOther=B1\n\
         [core_trace_sources]\ncpu_0=S1\ncpu_0=S2,Other\n"
    );
    let (_dir, capture) = open(&[
        ("snapshot.ini", snapshot_ini(&["cpu.ini", "s1.ini", "s2.ini", "o.ini"])),
        ("cpu.ini", cpu("cpu_0")),
        ("s1.ini", etm("S1", 1)),
        ("s2.ini", etm("S2", 1)),
        ("o.ini", etm("Other", 2)),
        ("trace.ini", trace),
        ("x", String::new()),
    ]);
    let streams: Vec<(&str, &str, usize)> = capture
        .streams()
        .iter()
        .map(|s| (capture.sources[s.source].name.as_str(), capture.buffers[s.buffer].name.as_str(), s.session))
        .collect();
    assert_eq!(streams, [("S2", "B2", 0), ("S1", "B1", 1), ("Other", "B1", 0), ("Other", "B3", 1)]);
    assert_eq!(capture.cores[0].sources, [0, 1, 2]);
    assert_eq!(notes(&capture), "");
}

#[test]
fn paths_that_are_not_captures_are_described() {
    let dir = folder(&[("sub/notes.txt", "hello"), ("words.txt", "hello"), ("trace.ini", ONE_BUFFER)]);
    fs::create_dir(dir.path().join("empty")).unwrap();
    let rows = [
        ("empty", "an empty directory"),
        ("sub", "no snapshot.ini or contents.ini among 1 files and 0 folders"),
        ("words.txt", "neither a directory, nor a zip archive, nor an ini file"),
        ("trace.ini", "an ini file, but not the main file of a capture"),
    ];
    for (name, expected) in rows {
        let error = Capture::open(dir.path().join(name)).unwrap_err();
        assert!(matches!(error, Error::NotACapture { .. }), "{name}");
        let text = error.to_string();
        assert!(text.contains(expected) && text.contains("protocol"), "{name}: {text}");
    }
    assert!(matches!(Capture::open(dir.path().join("gone")), Err(Error::Io { .. })));
    let binary = folder(&[("snapshot.ini", "\0\0")]);
    assert!(matches!(Capture::open(binary.path()), Err(Error::NotACapture { .. })));
}

#[test]
fn the_size_of_ini_files_is_limited() {
    let huge = |dir: &tempfile::TempDir, name: &str| {
        fs::File::create(dir.path().join(name)).unwrap().set_len(1 << 40).unwrap();
    };
    let dir = folder(&[("snapshot.ini", snapshot_ini(&["huge.ini"]))]);
    huge(&dir, "huge.ini");
    let capture = Capture::open(dir.path()).unwrap();
    assert!(has_note(&capture, NoteKind::Unreadable, "larger than the limit of 16777216 bytes"));
    huge(&dir, "snapshot.ini");
    assert!(matches!(Capture::open(dir.path()), Err(Error::TooLarge { .. })));
}

/// Known and random lines in random order.
fn any_ini() -> impl Strategy<Value = String> {
    let known = "[snapshot] [device_list] [trace] [trace_buffers] [b] [buffer] [source_buffers] [core_trace_sources] \
        [device] [regs] [dump] [trace_1] [trace_x] version=1 d=d.ini metadata=t.ini metadata=t.ini,d.ini \
        buffer0=x buffers=b,b,c name=N class=core class=trace_source type=ETE file=x file=d.ini,x format=raw \
        format=dstream_coresight wrapped=1 write_pointer=512 write_pointer=7 N=N TRCTRACEIDR=3 \
        address=0xffffffffffffffff length=0xffffffffffffffff offset=9 core=N source_index=0 event_log=x";
    let known = prop::sample::select(known.split_whitespace().collect::<Vec<_>>());
    let line = prop_oneof![4 => known.prop_map(str::to_string), 1 => "[ -~]{0,12}"];
    prop::collection::vec(line, 0..24).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn any_package_opens_and_its_buffers_are_readable(
        main in any_ini(), trace in any_ini(), device in any_ini(), package in any::<bool>()
    ) {
        let name = if package { "contents.ini" } else { "snapshot.ini" };
        let x = "x".repeat(1030);
        let dir = folder(&[(name, main), ("t.ini", trace), ("d.ini", device), ("x", x)]);
        if let Ok(capture) = Capture::open(dir.path()) {
            for stream in capture.streams() {
                prop_assert!(stream.source < capture.sources.len());
                if capture.reader(stream.buffer).is_ok() {
                    bytes(&capture, stream.buffer);
                }
            }
            let new = dir.path().join("new");
            if capture.save(&new).is_ok() {
                prop_assert_eq!(Capture::open(&new).unwrap().streams(), capture.streams());
            }
        }
    }
}

#[test]
fn the_total_size_of_ini_files_is_limited() {
    let big = "; comment\n".repeat(1 << 20);
    let many: String = (0..1000).map(|n| format!("[trace]\nmetadata=a.ini,{n}.ini\nbuffer0=x\n")).collect();
    let (_dir, capture) = open(&[("contents.ini", many), ("a.ini", big)]);
    assert!(has_note(&capture, NoteKind::TooMany, "`a.ini` is ignored"));
}

#[test]
fn the_length_of_lists_is_limited() {
    let many = "a,".repeat(100_000);
    let rows = [
        ("more than 1024 files", format!("[buffer0]\nfile={many}\nformat=raw\n"), "d=gone"),
        ("more than 65536 links", format!("[source_buffers]\na={many}\n"), "d=gone"),
        ("more than 65536 links", format!("[core_trace_sources]\na={many}\n"), "d=gone"),
        ("further notes are omitted", format!("[core_trace_sources]\na={many}\n"), &format!("d={many}")),
    ];
    for (note, trace, devices) in rows {
        let snapshot = format!("[device_list]\n{devices}\n[trace]\nmetadata=trace.ini\n");
        let (_dir, capture) = open(&[("snapshot.ini", snapshot), ("trace.ini", trace)]);
        assert!(has_note(&capture, NoteKind::TooMany, note), "{note}");
        assert!(capture.notes.len() <= 16_500, "{note}: {}", capture.notes.len());
    }
}
