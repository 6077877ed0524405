//! Findings about code: images that are missing, wrong or ambiguous, and what that costs.
//!
//! Takes what could not be followed, by image; produces findings with P0 elements, of which each is a branch and the
//! instructions before it.

use std::collections::BTreeMap;

use unspool_capture::{ImageNotFound, PackageFormat};

use super::execution::{Contradictions, Tally};
use super::{Doctor, Evidence, Examined, Finding, Severity};
use crate::check::MissingRegion;
use crate::number::many;

/// Images or regions that are listed.
const MAX_LISTED: usize = 10;

pub(super) fn findings(doctor: &Doctor<'_>) -> Vec<Finding> {
    let (wrong, missing): (Vec<_>, Vec<_>) = by_image(doctor)
        .into_iter()
        .partition(|(image, _)| matches!(doctor.not_found.get(image), Some(ImageNotFound::BuildIdDiffers { .. })));
    let found = [
        contradictions(doctor),
        images(doctor, "wrong-build-id", &wrong),
        images(doctor, "missing-image", &missing),
        regions(doctor),
        ambiguous(doctor),
    ];
    let found: Vec<Finding> = found.into_iter().flatten().collect();
    let is_executed = doctor.present().any(|examined| examined.execution.followed > 0);
    if found.is_empty() && is_executed {
        return vec![Finding::new(
            Severity::Fine,
            "code",
            "the code of every executed address is known and fits the trace",
        )];
    }
    found
}

/// Images without code: P0 elements lost to each, the most first. Where a file is in memory follows from its headers, so
/// what was lost to a whole file that was not found is unknown.
fn by_image(doctor: &Doctor<'_>) -> Vec<(String, Option<u64>)> {
    let mut images: BTreeMap<&str, Option<u64>> = BTreeMap::new();
    if doctor.present().any(|examined| examined.execution.regions.elements() > 0) {
        images.extend(doctor.not_found.keys().map(|image| (image.as_str(), None)));
    }
    for (name, tally) in doctor.present().flat_map(|examined| &examined.execution.images) {
        *images.entry(name).or_default().get_or_insert(0) += tally.count;
    }
    let mut images: Vec<(String, Option<u64>)> =
        images.into_iter().map(|(name, lost)| (name.to_string(), lost)).collect();
    images.sort_by_key(|(_, lost)| std::cmp::Reverse(*lost));
    images
}

fn images(doctor: &Doctor<'_>, topic: &'static str, images: &[(String, Option<u64>)]) -> Option<Finding> {
    let evidence = images.iter().take(MAX_LISTED).map(|(image, lost)| {
        let reason = doctor.not_found.get(image).map(ToString::to_string);
        // The reason starts with the name.
        let reason =
            reason.as_deref().and_then(|reason| reason.strip_prefix(&format!("{image}: ")).map(str::to_string));
        let reason = reason.unwrap_or_else(|| "the image does not contain the executed address".to_string());
        let text = match lost {
            Some(lost) => format!("{} lost: {reason}", many(*lost, "P0 element")),
            None => format!("its addresses are unknown: {reason}"),
        };
        Evidence::at(image, None, text)
    });
    let more = images.len().saturating_sub(MAX_LISTED);
    let more = (more > 0).then(|| Evidence::new(format!("and {}", many(more as u64, "more image"))));
    let count = many(images.len() as u64, "image");
    let what = if topic == "missing-image" { "cannot be found" } else { "found with another build id" };
    let title = match images.iter().filter_map(|(_, lost)| *lost).reduce(|one, other| one + other) {
        Some(lost) => format!("{count} {what}: {} lost", many(lost, "P0 element")),
        None => format!("{count} {what}"),
    };
    let finding = Finding::new(Severity::Problem, topic, title).with(evidence).with(more);
    let finding = match topic {
        "missing-image" => finding
            .remedy("name the files with --image FILE, or the file system of the traced machine with --sysroot FOLDER")
            .remedy("collect them with the recording: perf archive, or perf buildid-cache and --debug-dir ~/.debug"),
        _ => finding
            .remedy("find the file that was executed, by its build id: --image FILE, --debug-dir FOLDER")
            .remedy("only if the code is known to be the same: --any-build-id"),
    };
    (!images.is_empty()).then_some(finding)
}

/// Code that no image is known for.
fn regions(doctor: &Doctor<'_>) -> Option<Finding> {
    let of_source = |examined| move |region| (examined, region);
    let mut regions: Vec<(&Examined<'_>, MissingRegion)> = doctor
        .present()
        .flat_map(|examined| examined.execution.regions.regions().into_iter().map(of_source(examined)))
        .collect();
    regions.sort_by_key(|(_, region)| std::cmp::Reverse(region.elements));
    let lost = doctor.present().map(|examined| examined.execution.regions.elements()).sum();
    let evidence = regions.iter().take(MAX_LISTED).map(|(examined, region)| {
        // Regions are those of all buffers, and their offsets are in one of them.
        let offset = Some(region.offset).filter(|_| examined.execution.sessions == 1);
        Evidence::at(&examined.source.name, offset, region.to_string())
    });
    let more = regions.len().saturating_sub(MAX_LISTED);
    let more = (more > 0).then(|| Evidence::new(format!("and {}", many(more as u64, "more region"))));
    // An address that is reached and not left costs nothing.
    let severity = if lost > 0 { Severity::Problem } else { Severity::Advice };
    let title = format!("executed code is in no image: {} lost", many(lost, "P0 element"));
    let finding = Finding::new(severity, "missing-code", title)
        .with(evidence)
        .with(more)
        .remedy("add the program at these addresses: --image FILE, or --image FILE@ADDR for a memory dump");
    let finding = match doctor.capture.format {
        PackageFormat::Perf => finding.remedy("for the kernel, add vmlinux, or record user space only: cs_etm//u"),
        _ => finding
            .remedy("save the memory that was executed with the trace, or name the files of processes in an event log"),
    };
    (!regions.is_empty()).then_some(finding)
}

fn contradictions(doctor: &Doctor<'_>) -> Option<Finding> {
    let mut evidence = Vec::new();
    let mut count = 0;
    let mut lacks_targets = false;
    for examined in doctor.present() {
        for (image, Contradictions { tally, first }) in &examined.execution.contradictions {
            count += tally.count;
            let image = image.as_ref().map_or_else(String::new, |image| format!(" in {image}"));
            let times = many(tally.count, "contradiction");
            evidence.push(examined.evidence(tally.first, format!("{times}{image}; the first: {first}")));
            lacks_targets |= *first == unspool_flow::Finding::NoTarget;
        }
    }
    let dropped = doctor.present().map(|examined| examined.execution.after_mismatch.count).sum();
    let title = format!(
        "trace and code contradict each other: {}, {} lost",
        many(count, "contradiction"),
        many(dropped, "P0 element")
    );
    (count > 0).then(|| {
        let finding = Finding::new(Severity::Problem, "contradiction", title).with(evidence);
        let finding = match lacks_targets {
            true => finding.remedy(
                "without an address after a return, TRCCONFIGR.RS (bit 12) was perhaps on: check that the registers are those of this trace",
            ),
            false => finding,
        };
        finding
            .remedy("the image is probably not the one that was executed: compare its build id, or supply another with --image")
            .remedy("if the code was changed while it executed (a patched kernel, a JIT), supply a memory dump: --image FILE@ADDR")
            .remedy("check the address that a position-independent image is loaded at")
    })
}

fn ambiguous(doctor: &Doctor<'_>) -> Option<Finding> {
    let concerned = || doctor.present().filter(|examined| examined.execution.ambiguous.first.is_some());
    let evidence = concerned().map(|examined| {
        let Tally { count, first } = examined.execution.ambiguous;
        examined.evidence(first, format!("{} lost", many(count, "P0 element")))
    });
    let lost = concerned().map(|examined| examined.execution.ambiguous.count).sum();
    let title = format!(
        "several processes have code at an address, and which one executed is unknown: {} lost",
        many(lost, "P0 element")
    );
    concerned().next().is_some().then(|| {
        Finding::new(Severity::Problem, "ambiguous-code", title)
            .with(evidence)
            .remedy("trace context identifiers: TRCCONFIGR.CID (bit 6), at EL2 VMID (bit 7); perf record -e cs_etm/contextid/")
            .remedy("name what they contain: --context-id FORMAT")
            .remedy("trace timestamps, which place the trace between system events: TRCCONFIGR.TS (bit 11); cs_etm/timestamp/")
    })
}
