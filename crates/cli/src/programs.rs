//! Programs of the cores of a capture, with notes about their images.

use std::collections::BTreeSet;

use unspool::Program;
use unspool::capture::{Capture, Code};

use crate::diagnostic;

/// Notes about images that are printed.
const MAX_NOTES: usize = 10;

/// The program of a core, shared by its sources.
pub(crate) struct Programs {
    added: Vec<Code>,
    loaded: Option<(Option<usize>, Program)>,
    /// Reported notes; images of several cores have the same ones.
    reported: BTreeSet<String>,
}

impl Programs {
    /// `added`: code that comes before the images of a capture.
    pub(crate) fn new(added: Vec<Code>) -> Self {
        Self { added, loaded: None, reported: BTreeSet::new() }
    }

    /// Forgets the program before another capture.
    pub(crate) fn clear(&mut self) {
        self.loaded = None;
    }

    /// The program as a core sees it. Reports missing and odd images.
    pub(crate) fn of(&mut self, capture: &Capture, core: Option<usize>) -> &Program {
        let loaded = match self.loaded.take() {
            Some(loaded) if loaded.0 == core => loaded,
            _ => (core, self.load(capture, core)),
        };
        &self.loaded.insert(loaded).1
    }

    fn load(&mut self, capture: &Capture, core: Option<usize>) -> Program {
        let (program, notes) = Program::of(capture, core, &self.added);
        let mut texts: Vec<String> = notes.iter().map(ToString::to_string).collect();
        if program.codes().is_empty() {
            texts.push("nothing can be decoded without program code: add it with --image FILE[@ADDR]".into());
        }
        texts.retain(|text| self.reported.insert(text.clone()));
        texts.iter().take(MAX_NOTES).for_each(diagnostic::warning);
        if let Some(more) = texts.len().checked_sub(MAX_NOTES).filter(|more| *more > 0) {
            diagnostic::warning(format_args!("and {more} more notes on images; 'unspool info' lists all of them"));
        }
        program
    }
}
