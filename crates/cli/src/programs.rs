//! Programs of the cores of a capture, with notes about their images.

use std::collections::BTreeSet;

use unspool::capture::{Capture, Code};
use unspool::{Program, place_images};

use crate::diagnostic;
use crate::listing::report_images;

/// The program of a core, shared by its sources.
pub(crate) struct Programs {
    added: Vec<Code>,
    /// The added code, where the capture executed it.
    placed: Vec<Code>,
    loaded: Option<(Option<usize>, Program)>,
    /// Reported notes; images of several cores have the same ones.
    reported: BTreeSet<String>,
}

impl Programs {
    /// `added`: code that comes before the images of a capture.
    pub(crate) fn new(added: Vec<Code>) -> Self {
        Self { added, placed: Vec::new(), loaded: None, reported: BTreeSet::new() }
    }

    /// Starts with a capture, which shows where position-independent code was loaded.
    pub(crate) fn start(&mut self, capture: &Capture) {
        self.loaded = None;
        self.placed.clone_from(&self.added);
        report_images(&place_images(capture, &mut self.placed), &mut self.reported);
    }

    /// The program as a core of the capture sees it. Reports missing and odd images.
    pub(crate) fn of(&mut self, capture: &Capture, core: Option<usize>) -> &Program {
        let loaded = match self.loaded.take() {
            Some(loaded) if loaded.0 == core => loaded,
            _ => (core, self.load(capture, core)),
        };
        &self.loaded.insert(loaded).1
    }

    fn load(&mut self, capture: &Capture, core: Option<usize>) -> Program {
        let (program, notes) = Program::of(capture, core, &self.placed);
        report_images(&notes, &mut self.reported);
        let text = "nothing can be decoded without program code: add it with --image FILE[@ADDR]";
        if program.codes().is_empty() && self.reported.insert(text.into()) {
            diagnostic::warning(text);
        }
        program
    }
}
