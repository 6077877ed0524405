//! Trace packages with `contents.ini`.

use unspool_capture::{BufferFormat, Capture, EventClock, NoteKind, PackageFormat, TimeConversion};
use unspool_coresight::Protocol;

use super::{bytes, cpu, folder, has_note, notes, open, sources};

const CONTENTS: &str = "[trace]\nmetadata=trace.ini\nbuffer0=c0.data\nbuffer1=c1.data\n";

#[test]
fn one_metadata_file_for_all_buffers() {
    let trace = "[buffer]\nvendor: ARM\ncomponent: ETB\nformat: coresight\n\n\
                 [trace_1]\nformat: ETM3.5\nETMCR: 0x12345678\ncyclecount: 1\ntimestamp_bits: 48\n\
                 timestamp_gray: 0\ncontext_id: 32\n[trace_0x10]\nformat: PFT1.1\nETMTRACEIDR(id:0x80): 0x10\n";
    let (_dir, capture) = open(&[
        ("contents.ini", CONTENTS),
        ("trace.ini", trace),
        ("c0.data", "zero"),
        ("c1.data", "one"),
        ("system-event-log", "# empty log\n"),
    ]);
    assert_eq!(notes(&capture), "");
    assert_eq!(capture.format, PackageFormat::Package);
    assert_eq!(sources(&capture), ["trace_1:1:[0, 1]", "trace_0x10:10:[0, 1]"]);
    let source = &capture.sources[0];
    assert_eq!((source.kind.as_str(), source.protocol), ("ETM3.5", Some(Protocol::Etm3)));
    assert_eq!(source.registers.get("ETMCR"), Some(0x1234_5678));
    let options: Vec<String> = source.options.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(options, ["cyclecount=1", "timestamp_bits=48", "timestamp_gray=0", "context_id=32"]);
    assert_eq!(capture.sources[1].protocol, Some(Protocol::Ptm));
    let buffer = &capture.buffers[1];
    assert_eq!(
        (buffer.name.as_str(), buffer.vendor.as_deref(), buffer.component.as_deref()),
        ("buffer1", Some("ARM"), Some("ETB"))
    );
    assert_eq!((bytes(&capture, 0), bytes(&capture, 1)), (b"zero".to_vec(), b"one".to_vec()));
    let log = capture.event_log.as_ref().unwrap();
    assert_eq!((log.file.as_str(), log.size), ("system-event-log", Some(12)));
    let sessions: Vec<(usize, usize, usize)> =
        capture.streams().iter().map(|s| (s.source, s.buffer, s.session)).collect();
    assert_eq!(sessions, [(0, 0, 0), (1, 0, 0), (0, 1, 1), (1, 1, 1)]);
}

#[test]
fn trace_ids_may_be_reused_in_another_metadata_file() {
    let metadata = |kind: &str| format!("[buffer]\nformat=source_data\n[trace_1]\nformat={kind}\nTRCCONFIGR=1\n");
    let contents = [
        "[trace]\nmetadata=a.ini\nbuffer0=0\n[trace]\nmetadata=b.ini\nbuffer1=1\n",
        "[trace]\nmetadata=a.ini\nbuffer0=0\nmetadata=b.ini\nbuffer1=1\n",
    ];
    for contents in contents {
        let (_dir, capture) = open(&[
            ("contents.ini", contents.to_string()),
            ("a.ini", metadata("ETE")),
            ("b.ini", metadata("ETM4.2")),
            ("0", "00".to_string()),
            ("1", "1".to_string()),
        ]);
        assert_eq!(notes(&capture), "");
        assert_eq!(sources(&capture), ["trace_1:1:[0]", "trace_1:1:[1]"]);
        assert_eq!(capture.buffers[1].format, BufferFormat::Raw);
        assert_eq!(capture.streams().iter().map(|s| s.session).collect::<Vec<_>>(), [0, 1]);
    }
}

#[test]
fn invalid_packages_are_noted() {
    let trace = "[buffer]\ncolor: red\n[trace_300]\nformat: ETE\n[trace_2]\nformat: ETE\nTRCTRACEIDR: 3\n\
                 [trace_2]\nformat: ETE\n[other]\na: b\n";
    let (_dir, capture) =
        open(&[("contents.ini", "[trace]\nmetadata=trace.ini,more.ini\nbuffer0=x\nbuffer1=\n"), ("trace.ini", trace)]);
    let expected = "\
contents.ini:2: `more.ini` is not in the package
contents.ini:3: `x` is not in the package
trace.ini:1: [buffer] has no format; `coresight` is assumed
contents.ini:4: `buffer1` names no file
trace.ini:1: [buffer] has no format; `coresight` is assumed
trace.ini:3: `300` is not a trace ID
trace.ini:5: section for trace ID 0x2 has registers for 0x3; 0x2 is used
trace.ini:8: [trace_2] is repeated and treated as another source
";
    assert_eq!(notes(&capture), expected);
    assert_eq!(sources(&capture), ["trace_300:-:[0, 1]", "trace_2:2:[0, 1]", "trace_2:2:[0, 1]"]);
    assert_eq!(capture.extras.len(), 2);
}

#[test]
fn the_event_log_is_read_and_its_problems_are_noted() {
    let text = "5 exec_process(7)\nodd()\n- declare_asid(END, 1, 7)\n";
    for (name, key) in [("system-event-log", ""), ("log.txt", "event_log=log.txt\n")] {
        let contents = format!("[trace]\nmetadata=t.ini\nbuffer0=x\n{key}");
        let (_dir, capture) = open(&[
            ("contents.ini", contents.as_str()),
            ("t.ini", "[buffer]\nformat=coresight\n[trace_1]\nformat=ETE\n"),
            ("x", "x"),
            (name, text),
        ]);
        assert_eq!(notes(&capture), format!("{name}:2: column 1: unknown call `odd`\n"));
        let events: Vec<String> = capture.events.iter().map(|event| format!("{}: {event}", event.place)).collect();
        assert_eq!(events, ["1: 5 exec_process(7)", "3: - declare_asid(END, 1, 7)"]);
    }
}

#[test]
fn clocks_of_packages() {
    let same = EventClock::Trace;
    let scaled = |frequency, offset| EventClock::Scaled { frequency, offset };
    let perf = EventClock::Perf(TimeConversion { shift: 22, mult: 40 << 22, zero: 5, short: (0, 0) });
    let needs = "contents.ini: events have no place in the trace: `event_frequency` needs `frequency` of [timestamp]\n";
    let incomplete = "contents.ini:7: `time_shift`, `time_mult` and `time_zero` are a conversion only together and \
                      are ignored\n";
    // Section, keys of the source; frequency and whether it is assumed, clock of events, notes.
    type Row<'a> = (&'a str, &'a str, Option<(u64, bool)>, EventClock, &'a str);
    let rows: &[Row<'_>] = &[
        ("", "core=cpu_0\n", Some((24_000_000, true)), same, ""),
        ("frequency=25000000\n", "core=cpu_0\n", Some((25_000_000, false)), same, ""),
        ("frequency=25000000\n", "timestamp_frequency=0x64\n", Some((100, false)), same, ""),
        ("frequency=0\n", "", Some((24_000_000, true)), same, "contents.ini:7: `frequency` is 0 and is ignored\n"),
        ("frequency=5\nevent_frequency=7\nevent_offset=-9\n", "", Some((5, false)), scaled(7, -9), ""),
        ("event_offset=0x10\n", "", Some((24_000_000, true)), scaled(0, 16), ""),
        ("event_frequency=7\n", "", Some((24_000_000, true)), scaled(7, 0), needs),
        ("event_frequency=7\n", "timestamp_frequency=100\n", Some((100, false)), scaled(7, 0), ""),
        ("event_clock=unknown\n", "", Some((24_000_000, true)), EventClock::Unknown, ""),
        ("event_clock=trace\n", "", Some((24_000_000, true)), same, ""),
        ("event_clock=Monotonic\n", "", Some((24_000_000, true)), EventClock::Monotonic, ""),
        (
            "event_clock=mine\n",
            "",
            Some((24_000_000, true)),
            same,
            "contents.ini:7: `mine` is not a clock (trace, monotonic, unknown); `event_clock` is ignored\n",
        ),
        (
            "event_offset=x\n",
            "",
            Some((24_000_000, true)),
            same,
            "contents.ini:7: `x` is not a number of 64 bits; `event_offset` is ignored\n",
        ),
        ("time_mult=5\n", "", Some((24_000_000, true)), same, incomplete),
        ("time_shift=22\ntime_mult=167772160\ntime_zero=5\n", "TS_SOURCE=1\n", Some((25_000_000, false)), perf, ""),
        // The conversion is one of the virtual counter only.
        (
            "time_shift=22\ntime_mult=167772160\ntime_zero=5\n",
            "TS_SOURCE=3\n",
            Some((24_000_000, true)),
            EventClock::Unknown,
            "",
        ),
    ];
    for (section, source, frequency, events, expected) in rows {
        let contents =
            format!("[device_list]\ndevice0=cpu.ini\n[trace]\nmetadata=t.ini\nbuffer0=x\n[timestamp]\n{section}");
        let (_dir, capture) = open(&[
            ("contents.ini", contents.as_str()),
            ("cpu.ini", &(cpu("cpu_0") + "CNTFRQ_EL0=24000000\n")),
            ("t.ini", &format!("[buffer]\nformat=coresight\n[trace_1]\nformat=ETE\n{source}")),
            ("x", "x"),
            ("system-event-log", "5 exec_process(7)\n"),
        ]);
        let clock = capture.clock_of(0);
        let found = clock.frequency.map(|frequency| (frequency.hertz, frequency.is_assumed));
        assert_eq!((found, clock.events), (*frequency, *events), "{section}{source}");
        assert_eq!(notes(&capture), *expected, "{section}{source}");
        let dir = tempfile::tempdir().unwrap();
        capture.save(dir.path()).unwrap();
        assert_eq!(Capture::open(dir.path()).unwrap().clock_of(0), clock, "saved");
    }
}

#[test]
fn buffers_are_kept_without_metadata() {
    let (_dir, capture) = open(&[("contents.ini", "[trace]\nbuffer0=x\nevent_log=log.txt\n"), ("x", "x")]);
    assert!(has_note(&capture, NoteKind::MissingKey, "no [trace] section names metadata"));
    assert!(has_note(&capture, NoteKind::MissingFile, "log.txt"));
    assert_eq!(bytes(&capture, 0), b"x");
    assert_eq!(capture.event_log.unwrap().size, None);
}

#[test]
fn a_snapshot_takes_precedence_over_a_package_and_they_share_metadata() {
    let trace = "[trace_buffers]\nbuffers=buffer0\n[buffer0]\nname=D\nfile=c0.data\nformat=dstream_coresight\n";
    let dir = folder(&[
        ("contents.ini", "[trace]\nmetadata=trace.ini\nbuffer0=c0.data\n"),
        ("snapshot.ini", "[trace]\nmetadata=trace.ini\n"),
        ("trace.ini", trace),
        ("c0.data", "zero"),
    ]);
    assert_eq!(Capture::open(dir.path()).unwrap().format, PackageFormat::Snapshot);
    let package = Capture::open(dir.path().join("contents.ini")).unwrap();
    assert_eq!(package.format, PackageFormat::Package);
    assert_eq!((package.buffers.len(), package.buffers[0].format), (1, BufferFormat::DstreamFormatted));
}
