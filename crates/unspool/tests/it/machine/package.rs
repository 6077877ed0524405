//! Captures of the generated machine: a snapshot folder with trace, images and an event log.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use tempfile::TempDir;
use unspool::capture::{ContextFormat, SystemEvent, SystemLog};
use unspool::coresight::Protocol;
use unspool::coresight::etm4::unit::Settings;

use super::image::Image;

/// Writes a capture. `traces` has the trace of each core.
pub(crate) fn write_capture(
    settings: &Settings,
    traces: &[&[u8]],
    images: &[Image],
    events: Option<&[SystemEvent]>,
    format: Option<ContextFormat>,
) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| put(folder.path(), name, bytes);
    let mut snapshot = String::from("[snapshot]\nversion=1.0\n[device_list]\n");
    let (mut buffers, mut sources, mut cores) = (String::new(), String::new(), String::new());
    let kind = if settings.protocol == Protocol::Ete { "ETE" } else { "ETM4.2" };
    for (core, trace) in traces.iter().enumerate() {
        let _ = writeln!(snapshot, "device{}=cpu_{core}.ini\ndevice{}=unit_{core}.ini", 2 * core, 2 * core + 1);
        put(&format!("cpu_{core}.ini"), format!("[device]\nname=cpu_{core}\nclass=core\ntype=ARM-AA64\n").as_bytes());
        let mut unit = format!("[device]\nname=UNIT_{core}\nclass=trace_source\ntype={kind}\n[regs]\n");
        settings.registers().for_each(|(name, value)| _ = writeln!(unit, "{name}={value:#x}"));
        put(&format!("unit_{core}.ini"), unit.as_bytes());
        put(&format!("trace_{core}.bin"), trace);
        let _ = writeln!(buffers, "[buffer{core}]\nname=BUFFER_{core}\nfile=trace_{core}.bin\nformat=source_data");
        let _ = writeln!(sources, "UNIT_{core}=BUFFER_{core}");
        let _ = writeln!(cores, "cpu_{core}=UNIT_{core}");
    }
    let names: Vec<String> = (0..traces.len()).map(|core| format!("buffer{core}")).collect();
    let trace = format!(
        "[trace_buffers]\nbuffers={}\n{buffers}[source_buffers]\n{sources}[core_trace_sources]\n{cores}",
        names.join(",")
    );
    let format = format.map_or(String::new(), |format| format!("context_id_format={}\n", format.name()));
    put("snapshot.ini", format!("{snapshot}[trace]\nmetadata=trace.ini\n{format}").as_bytes());
    put("trace.ini", trace.as_bytes());
    images.iter().for_each(|image| put(&image.name, &image.elf()));
    if let Some(events) = events {
        let mut log = Vec::new();
        SystemLog::write(events, &mut log).unwrap();
        put("system-event-log", &log);
    }
    folder
}

fn put(folder: &Path, name: &str, bytes: &[u8]) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}
