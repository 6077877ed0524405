//! Findings from the notes of a capture: missing and damaged files, lost trace, assumptions.
//!
//! Takes notes of the package or of perf.data, and of images; produces one finding per kind of consequence.

use unspool_capture::{Note, NoteKind, PackageFormat};

use super::{Doctor, Evidence, Finding, Severity};
use crate::number::many;

/// Notes of a finding that are listed.
const MAX_LISTED: usize = 10;

/// Consequence of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Consequence {
    /// Trace was lost while it was recorded.
    TraceLost,
    /// Events of the operating system were lost.
    RecordsLost,
    /// A part of the capture is missing or damaged.
    Damaged,
    /// Something was assumed or ignored.
    Assumed,
    /// None.
    None,
}

fn consequence(kind: NoteKind) -> Consequence {
    use NoteKind as Kind;
    match kind {
        Kind::TraceLost | Kind::TraceAbsent => Consequence::TraceLost,
        Kind::RecordsLost => Consequence::RecordsLost,
        Kind::MissingFile | Kind::Unreadable | Kind::Truncated | Kind::Damaged | Kind::WrongMachine => {
            Consequence::Damaged
        }
        Kind::NoTrace | Kind::Placed | Kind::NameCase | Kind::Dropped => Consequence::None,
        _ => Consequence::Assumed,
    }
}

pub(super) fn findings(doctor: &Doctor<'_>) -> Vec<Finding> {
    [recording_lost(doctor), records_lost(doctor), damaged(doctor), assumed(doctor)].into_iter().flatten().collect()
}

fn recording_lost(doctor: &Doctor<'_>) -> Option<Finding> {
    let notes = of(doctor, Consequence::TraceLost);
    let title = format!("trace was lost while it was recorded: {}", many(notes.len() as u64, "session"));
    let finding = finding(Severity::Problem, "recording-lost", title, &notes)?;
    Some(
        finding
            .remedy("use a larger AUX buffer: perf record -m ,16M")
            .remedy("trace less: an address filter (--filter), user space only (cs_etm//u), no cycle counting")
            .remedy("let perf read the buffer sooner: a higher priority, fewer threads per core"),
    )
}

fn records_lost(doctor: &Doctor<'_>) -> Option<Finding> {
    let notes = of(doctor, Consequence::RecordsLost);
    let title = "records of processes and their files were lost: code may be missing or wrong";
    let finding = finding(Severity::Advice, "records-lost", title.to_string(), &notes)?;
    Some(finding.remedy("use a larger buffer for records: perf record -m 4M,16M"))
}

fn damaged(doctor: &Doctor<'_>) -> Option<Finding> {
    let notes = of(doctor, Consequence::Damaged);
    let title = format!("{} of the capture is missing or damaged", many(notes.len() as u64, "part"));
    let title = if notes.len() == 1 { title } else { title.replace(" is ", " are ") };
    let finding = finding(Severity::Problem, "damaged-capture", title, &notes)?;
    Some(finding.remedy("copy the capture again, with all of its files"))
}

fn assumed(doctor: &Doctor<'_>) -> Option<Finding> {
    let notes = of(doctor, Consequence::Assumed);
    let title = format!("the description of the capture has {}", many(notes.len() as u64, "gap"));
    let finding = finding(Severity::Advice, "description", title, &notes)?;
    Some(match doctor.capture.format {
        PackageFormat::Bare => finding.remedy("name what was assumed: --formatted or --raw, --id, --register"),
        _ => finding.remedy("complete the description of the capture; docs/formats.md lists its parts"),
    })
}

/// The notes of the capture and of its images with this consequence.
fn of<'d>(doctor: &'d Doctor<'_>, wanted: Consequence) -> Vec<&'d Note> {
    // The reader of the package has noted missing files already.
    let images = || doctor.capture.cores.iter().flat_map(|core| &core.images);
    let is_noted = |note: &Note| images().any(|image| image.size.is_none() && image.file == note.file);
    let of_images = doctor.notes.iter().filter(|note| !is_noted(note));
    let notes = doctor.capture.notes.iter().chain(of_images);
    notes.filter(|note| consequence(note.kind) == wanted).collect()
}

fn finding(severity: Severity, topic: &'static str, title: String, notes: &[&Note]) -> Option<Finding> {
    if notes.is_empty() {
        return None;
    }
    let more = notes.len().saturating_sub(MAX_LISTED);
    let more = (more > 0).then(|| Evidence::new(format!("and {}", many(more as u64, "more note"))));
    let listed = notes.iter().take(MAX_LISTED).map(|note| evidence(note));
    Some(Finding::new(severity, topic, title).with(listed).with(more))
}

fn evidence(note: &Note) -> Evidence {
    let place = match note.line {
        Some(line) => format!("{}:{line}", note.file),
        None => note.file.clone(),
    };
    Evidence::at(place, note.offset, &note.text)
}
