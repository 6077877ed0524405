//! Programs of the cores of a capture, with notes about their images.

use std::collections::BTreeSet;

use unspool::capture::{Capture, Code};
use unspool::indexed_steps::fingerprint_of;
use unspool::tarmac::index::Fingerprint;
use unspool::{Program, SpaceOptions, Trace, place_images};

use crate::diagnostic;
use crate::listing::report_images;

/// The program of a core, shared by its sources.
pub(crate) struct Programs {
    added: Vec<Code>,
    /// The added code, where the capture executed it.
    placed: Vec<Code>,
    spaces: SpaceOptions,
    loaded: Vec<(Option<usize>, Program)>,
    /// Reported notes; images of several cores have the same ones.
    reported: BTreeSet<String>,
}

impl Programs {
    /// `added`: code that comes before the images of a capture. `spaces`: where to find the files of processes.
    pub(crate) fn new(added: Vec<Code>, spaces: SpaceOptions) -> Self {
        Self { added, spaces, placed: Vec::new(), loaded: Vec::new(), reported: BTreeSet::new() }
    }

    /// Identification of a source and of the code that it executes, for its index.
    pub(crate) fn fingerprint(&self, capture: &Capture, source: &str) -> Fingerprint {
        fingerprint_of(capture, source, &self.added, &self.spaces)
    }

    /// Starts with a capture, which shows where position-independent code was loaded.
    pub(crate) fn start(&mut self, capture: &Capture) {
        self.loaded.clear();
        self.placed.clone_from(&self.added);
        report_images(&place_images(capture, &mut self.placed), &mut self.reported);
    }

    /// The core whose program a core executes. Files of processes, and images that all cores have, are the same for all.
    pub(crate) fn core_of(capture: &Capture, core: Option<usize>) -> Option<usize> {
        core.filter(|_| capture.has_images_of_cores())
    }

    /// The program as a core of the capture sees it. Reports missing and odd images.
    pub(crate) fn of(&mut self, capture: &Capture, core: Option<usize>) -> &Program {
        let core = Self::core_of(capture, core);
        let index = self.loaded.iter().position(|(known, _)| *known == core).unwrap_or_else(|| {
            let before = std::mem::take(&mut self.loaded);
            before.iter().for_each(|(_, program)| report_program(program, &mut self.reported));
            let program = self.load(capture, core);
            self.loaded.push((core, program));
            0
        });
        &self.loaded[index].1
    }

    fn load(&mut self, capture: &Capture, core: Option<usize>) -> Program {
        let (program, notes) = Program::with_spaces(capture, core, &self.placed, &self.spaces);
        report_images(&notes, &mut self.reported);
        let text = "nothing can be decoded without program code: add it with --image FILE[@ADDR]";
        if program.is_empty() && needs_code(capture) && self.reported.insert(text.into()) {
            diagnostic::warning(text);
        }
        program
    }

    /// Loads the programs of several cores, for use at the same time. Reports missing and odd images.
    pub(crate) fn load_all(&mut self, capture: &Capture, cores: impl IntoIterator<Item = Option<usize>>) {
        for core in cores.into_iter().map(|core| Self::core_of(capture, core)) {
            if !self.loaded.iter().any(|(known, _)| *known == core) {
                let program = self.load(capture, core);
                self.loaded.push((core, program));
            }
        }
    }

    /// Decides, for each program, what depends on the first trace that executes it. Several threads may then decode.
    pub(crate) fn prepare(&self, capture: &Capture, traces: &[Trace<'_>]) {
        for (core, program) in &self.loaded {
            let mut traces = traces.iter().filter(|trace| Self::core_of(capture, trace.source().core) == *core);
            // A trace that cannot be read is reported when it is decoded.
            let _ = traces.find(|trace| program.prepare(trace).is_ok());
        }
    }

    /// The programs that were loaded.
    pub(crate) fn all_loaded(&self) -> impl Iterator<Item = &Program> + Clone {
        self.loaded.iter().map(|(_, program)| program)
    }

    /// The program of a core, if it was loaded.
    pub(crate) fn loaded(&self, capture: &Capture, core: Option<usize>) -> Option<&Program> {
        let core = Self::core_of(capture, core);
        self.loaded.iter().find(|(known, _)| *known == core).map(|(_, program)| program)
    }

    /// Reports what was assumed about processes, and their files that were not found.
    pub(crate) fn finish(&mut self) {
        self.loaded.iter().for_each(|(_, program)| report_program(program, &mut self.reported));
    }
}

/// Has a capture sources other than those of software trace?
fn needs_code(capture: &Capture) -> bool {
    Trace::all(capture).iter().any(|trace| trace.has_instructions() || trace.features().is_err())
}

/// Reports what was assumed about processes, and their files that were not found.
pub(crate) fn report_program(program: &Program, reported: &mut BTreeSet<String>) {
    report_images(&program.take_notes(), reported);
    let missing = program.missing_images();
    missing.values().filter(|reason| reported.insert(reason.to_string())).for_each(diagnostic::warning);
    let text = "files of processes are missing: name them with --image FILE, or their root folder with --sysroot FOLDER (/ for this machine)";
    if !missing.is_empty() && reported.insert(text.into()) {
        diagnostic::note(text);
    }
}
