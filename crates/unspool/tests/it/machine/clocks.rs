//! Events whose clock is not that of the trace: the log of the generated machine on other clocks, and recordings of perf.

use std::fs;
use std::io::Write as _;

use unspool::capture::SystemEvent;
use unspool::coresight::Protocol;
use unspool::coresight::etm4::unit::Settings;
use unspool_testing::perf::{ETE, Event, PerfWriter, Trailer};

use super::package::write_capture;
use super::scenarios::Part::{At, Execute, Time};
use super::scenarios::{HERE, Part, images, trace, words};
use super::{Decoded, Run, assert_part, decode, options};

/// Decodes with a log whose times a function changes, and a description of the clock.
fn decoded(run: &Run, clock: &str, time: impl Fn(u64) -> u64) -> Vec<Vec<Decoded>> {
    let traces: Vec<&[u8]> = (0..run.machine.cores()).map(|core| run.machine.core(core).1).collect();
    let on_clock = |event: SystemEvent| SystemEvent { time: event.time.map(&time), ..event };
    let events: Vec<SystemEvent> = run.forward().into_iter().map(on_clock).collect();
    let folder = write_capture(&run.settings, &traces, &run.machine.images, Some(&events), run.format);
    let mut file = fs::OpenOptions::new().append(true).open(folder.path().join("trace.ini")).unwrap();
    writeln!(file, "[timestamp]\n{clock}").unwrap();
    decode(folder.path())
}

/// The same ticks with another start give the same; with others, what is in the tick of an event is named.
#[test]
fn logs_on_other_clocks() {
    let (mut instructions, mut fine, mut coarse, mut unrelated) = (0, 0, 0, 0);
    for seed in 0..8 {
        let options = options(seed);
        let run = Run::new(&options);
        let all = run.assert_exact("the clock of the trace", &run.forward());
        assert_eq!(decoded(&run, "event_offset=5000", |time| time + 5000), all, "seed {seed}: later");
        let missing = |name: &str, found: Vec<Vec<Decoded>>| -> usize {
            let cores = found.iter().zip(&all);
            cores.map(|(found, all)| assert_part(&format!("{seed}: {name}"), found, all)).sum()
        };
        let nanoseconds = decoded(&run, "frequency=25000000\nevent_frequency=1000000000", |time| 40 * time + seed);
        fine += missing("finer", nanoseconds);
        coarse += missing("coarser", decoded(&run, "frequency=1000\nevent_frequency=1", |time| time / 1000));
        unrelated += missing("unrelated", decoded(&run, "event_clock=unknown", |time| time));
        instructions += all.iter().map(Vec::len).sum::<usize>();
    }
    println!("{instructions} instructions; not shown: {fine} finer, {coarse} coarser, {unrelated} unrelated");
    assert!(fine <= coarse && coarse < unrelated && unrelated < instructions, "{fine} {coarse} {unrelated}");
    assert!(fine * 20 < instructions, "{fine} of {instructions}");
}

/// What is decoded of a recording in which another program is mapped at 20,000 ns, in a session up to 90,000 ns.
/// Timestamps count 40 ns, from -1,000 ns on.
fn recorded(source: u64, has_conversion: bool, parts: &[Part]) -> String {
    let mut settings = Settings::new(Protocol::Ete);
    settings.set("TRCCONFIGR", 0x841);
    let folder = tempfile::tempdir().unwrap();
    for image in images() {
        fs::write(folder.path().join(&image.name), image.elf()).unwrap();
    }
    let value = |wanted: &str| settings.registers().find(|(name, _)| *name == wanted).map_or(0, |(_, value)| value);
    let names =
        ["TRCCONFIGR", "TRCTRACEIDR", "TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8", "TRCAUTHSTATUS", "TRCDEVARCH"];
    let registers: Vec<u64> = names.into_iter().map(value).chain([source]).collect();
    let at = |time| Trailer { thread: (307, 307), time, cpu: 2, id: 78, ..Trailer::default() };
    let mut file = PerfWriter::new(false, &[Event::trace(&[78])]);
    file.info(1, &[(ETE, 2, &registers)]);
    if has_conversion {
        let body = file.words(&[22, 40 << 22, 0_u64.wrapping_sub(1000)]);
        file.tool(79, 0, &body);
    }
    file.mmap2(307, HERE, 0x1000, 0, "/a", at(500));
    file.mmap2(307, HERE, 0x1000, 0, "/b", at(20_000));
    let trace = trace(&settings, parts);
    file.aux(0, trace.len() as u64, 0x100, at(90_000));
    file.auxtrace(2, u32::MAX, 0, &trace);
    let path = folder.path().join("perf.data");
    fs::write(&path, file.file()).unwrap();
    words(decode(&path).remove(0))
}

#[test]
fn timestamps_divide_a_session_of_perf() {
    let at = |ns: u64| Time((ns + 1000) / 40);
    let here = [At(HERE, 0, 307), Execute];
    let parts = |before: u64, after: u64| [&here[..], &[at(before)], &here, &[at(after)], &here].concat();
    let rows = [
        ("the virtual counter", 1, true, parts(10_000, 30_000), "307a ? 307b"),
        ("just before and after", 1, true, parts(19_920, 20_040), "307a ? 307b"),
        ("in the tick of the event", 1, true, parts(19_920, 20_000), "307a ? ?"),
        ("the physical counter", 3, true, parts(10_000, 30_000), "? ? ?"),
        ("an unknown counter", u64::MAX, true, parts(10_000, 30_000), "? ? ?"),
        ("no conversion", 1, false, parts(10_000, 30_000), "? ? ?"),
        ("timestamps after the session", 1, true, parts(10_000, 91_000), "? ? ?"),
    ];
    for (name, source, has_conversion, parts, expected) in rows {
        assert_eq!(recorded(source, has_conversion, &parts), expected, "{name}");
    }
}
