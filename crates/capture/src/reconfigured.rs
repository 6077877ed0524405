//! Trace units that were configured again while they traced.
//!
//! sources of a package + `define_trace` events ─▶ **reconfigured** ─▶ one source per configuration
//!
//! A configuration with a trace ID of its own is one more source of the same core in the same buffers. One with the trace ID of an
//! earlier configuration, or in a buffer without frames, has a time from which it holds: the trace itself shows where that is.

use crate::capture::{Capture, Configured, Source};
use crate::note::{Location, NoteKind};
use crate::registers::Register;
use crate::timeline::{TraceConfiguration, trace_configurations};

/// Maximum number of sources that a log adds, more than any known recording has.
const LIMIT: usize = 1 << 10;

/// Adds the configurations that the event log defines to the sources of the package.
pub(crate) fn apply(capture: &mut Capture) {
    let file = capture.event_log.as_ref().map_or(String::new(), |log| log.file.clone());
    let (mut added, described) = (0, capture.sources.len());
    let mut seen = Vec::new();
    for configuration in trace_configurations(&capture.events) {
        let is_meant = |source: &Source| source.name.eq_ignore_ascii_case(&configuration.source);
        let Some(unit) = capture.sources.iter().take(described).position(is_meant) else {
            note_unknown(capture, &file, &configuration, &mut seen);
            continue;
        };
        if added == LIMIT {
            let text = format!("more than {LIMIT} configurations of trace units; the rest are ignored");
            return capture.note(Location::file(&file), NoteKind::TooMany, text);
        }
        added += usize::from(add(capture, unit, &configuration));
    }
}

fn note_unknown(capture: &mut Capture, file: &str, configuration: &TraceConfiguration, seen: &mut Vec<String>) {
    if seen.len() < LIMIT && !seen.contains(&configuration.source) {
        let text = format!("define_trace names `{}`, which is not a trace source of the package", configuration.source);
        capture.note(Location::file(file), NoteKind::UnknownName, text);
        seen.push(configuration.source.clone());
    }
}

/// Applies a configuration of a source. True: it became another source.
fn add(capture: &mut Capture, unit: usize, configuration: &TraceConfiguration) -> bool {
    let Some(found) = capture.sources.get(unit).cloned() else { return false };
    let is_formatted = found
        .buffers
        .iter()
        .any(|buffer| capture.buffers.get(*buffer).is_some_and(|buffer| buffer.format.is_formatted()));
    let is_same_trace = |source: &&mut Source| {
        source.name == found.name && (!is_formatted || source.id == Some(configuration.id) || source.id.is_none())
    };
    let configured = Configured { from: configuration.start, until: configuration.end, is_added: false };
    let Some(last) = capture.sources.iter_mut().rfind(is_same_trace) else {
        push(capture, with_registers(found, configuration), configured);
        return true;
    };
    let next = with_registers(last.clone(), configuration);
    let is_other = next.registers != last.registers;
    match &mut last.configured {
        None if !is_other || configured.from.is_none() => *last = Source { configured: Some(configured), ..next },
        Some(known) if !is_other => known.until = configured.until,
        // What the package describes was before.
        known => {
            let before = known.unwrap_or(Configured { from: None, until: None, is_added: false });
            *known = Some(Configured { until: before.until.or(configured.from), ..before });
            push(capture, next, configured);
            return true;
        }
    }
    false
}

/// The source with the trace ID and the registers of a configuration; other registers stay.
fn with_registers(mut source: Source, configuration: &TraceConfiguration) -> Source {
    source.id = Some(configuration.id);
    if source.registers.get("TRCTRACEIDR").is_some() {
        source.registers.set(Register::new("TRCTRACEIDR", u64::from(configuration.id)));
    }
    let registers = configuration.registers.iter();
    registers.for_each(|(name, value)| source.registers.set(Register::new(name, *value)));
    source
}

fn push(capture: &mut Capture, source: Source, configured: Configured) {
    let source = Source { configured: Some(Configured { is_added: true, ..configured }), ..source };
    let index = capture.sources.len();
    if let Some(core) = source.core.and_then(|core| capture.cores.get_mut(core)) {
        core.sources.push(index);
    }
    capture.sources.push(source);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SystemLog;
    use crate::buffer::{Buffer, BufferFormat};
    use crate::capture::{Core, PackageFormat};
    use crate::registers::Registers;
    use crate::store::Store;

    /// A capture with the unit `ETE_0`, id 0x10, that traces the only core.
    fn capture(format: BufferFormat, log: &str) -> Capture {
        let store = Store::Directory(std::path::PathBuf::new());
        let mut capture = Capture::new(std::path::Path::new(""), PackageFormat::Snapshot, store);
        capture.buffers.push(Buffer {
            name: "ETB".to_string(),
            files: Vec::new(),
            format,
            write_pointer: None,
            wrapped: None,
            vendor: None,
            component: None,
            recorded: None,
        });
        let registers = [Register::new("TRCTRACEIDR", 0x10), Register::new("TRCCONFIGR", 1)].into_iter();
        capture.sources.push(Source {
            name: "ETE_0".to_string(),
            kind: "ETE".to_string(),
            protocol: None,
            registers: registers.collect(),
            options: Vec::new(),
            id: Some(0x10),
            buffers: vec![0],
            core: Some(0),
            configured: None,
        });
        let (kind, registers, images) = (String::new(), Registers::default(), Vec::new());
        capture.cores.push(Core { name: "cpu_0".to_string(), kind, registers, images, sources: vec![0] });
        let read = SystemLog::read(log.as_bytes());
        assert!(read.problems.is_empty(), "{read:?}");
        capture.events = read.events;
        apply(&mut capture);
        capture
    }

    fn text(capture: &Capture) -> String {
        let time = |time: Option<u64>| time.map_or("-".to_string(), |time| time.to_string());
        let source = |source: &Source| {
            let configuration = source.registers.get("TRCCONFIGR").unwrap_or(0);
            let id = source.registers.get("TRCTRACEIDR");
            assert_eq!(id, source.id.map(u64::from));
            let times = source.configured.map_or(String::new(), |it| format!(" {}..{}", time(it.from), time(it.until)));
            format!("{:x}={configuration:x}{times}", source.id.unwrap_or(0))
        };
        assert!(capture.cores[0].sources.iter().copied().eq(0..capture.sources.len()), "all are of one core");
        capture.sources.iter().map(source).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn configurations_are_sources_of_one_core() {
        let formatted = BufferFormat::Formatted;
        let rows = [
            ("nothing", formatted, "", "10=1"),
            (
                "another id",
                formatted,
                "5 define_trace(END, 0x10, ETE_0)\n5 define_trace(START, 0x11, ETE_0, TRCCONFIGR=0x9)",
                "10=1 -..5, 11=9 5..-",
            ),
            (
                "the same id",
                formatted,
                "5 define_trace(END, 0x10, ETE_0)\n6 define_trace(START, 0x10, ete_0, TRCCONFIGR=0x9)",
                "10=1 -..5, 10=9 6..-",
            ),
            (
                "the same id and registers",
                formatted,
                "5 define_trace(END, 0x10, ETE_0)\n6 define_trace(START, 0x10, ETE_0)\n7 define_trace(END, 0x10, ETE_0)",
                "10=1 -..7",
            ),
            (
                "there and back",
                formatted,
                "5 define_trace(START, 0x11, ETE_0, TRCCONFIGR=0x9)\n6 define_trace(START, 0x10, ETE_0, TRCCONFIGR=0x3)\n\
                 7 define_trace(START, 0x11, ETE_0)",
                "10=1 -..6, 11=9 5..-, 10=3 6..7",
            ),
            (
                "no frames",
                BufferFormat::Raw,
                "5 define_trace(END, 0x10, ETE_0)\n6 define_trace(START, 0x11, ETE_0, TRCCONFIGR=0x9)",
                "10=1 -..5, 11=9 6..-",
            ),
            ("another unit", formatted, "5 define_trace(START, 0x11, ETE_1)", "10=1"),
        ];
        for (name, format, log, expected) in rows {
            let capture = capture(format, log);
            assert_eq!(text(&capture), expected, "{name}");
            assert_eq!(capture.notes.len(), usize::from(name == "another unit"), "{:?}", capture.notes);
        }
    }

    #[test]
    fn a_log_adds_a_limited_number_of_sources() {
        let log: String =
            (0..3000).map(|at| format!("{at} define_trace(START, 0x10, ETE_0, TRCCONFIGR={at})\n")).collect();
        let capture = capture(BufferFormat::Formatted, &log);
        assert_eq!(capture.sources.len(), 1 + LIMIT);
        assert_eq!(capture.notes.len(), 1);
    }
}
