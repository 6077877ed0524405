//! Damage in a perf.data file: each with its file and byte offset, and a limit on their number.

/// Maximum number of problems that are kept.
const LIMIT: usize = 1 << 10;

/// A part of the file that could not be read or is impossible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, as an index into the files of the recording.
    pub file: usize,
    /// Byte offset in that file.
    pub offset: u64,
    /// The message.
    pub text: String,
}

/// Problems in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    list: Vec<Problem>,
}

impl Problems {
    pub(crate) fn add(&mut self, file: usize, offset: u64, text: impl Into<String>) {
        match self.list.len() {
            LIMIT.. => {}
            full if full == LIMIT - 1 => {
                self.list.push(Problem { file, offset, text: "further problems are omitted".to_string() });
            }
            _ => self.list.push(Problem { file, offset, text: text.into() }),
        }
    }

    pub(crate) fn into_list(self) -> Vec<Problem> {
        self.list
    }
}
