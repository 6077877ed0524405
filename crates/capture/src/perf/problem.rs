//! Damage in a perf.data file, and what is not used of it: each with its file and byte offset, and a limit on their
//! number.

/// Maximum number of problems that are kept.
const LIMIT: usize = 1 << 10;

/// A part of the file that could not be read, is impossible, or is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, as an index into the files of the recording.
    pub file: usize,
    /// Byte offset in that file.
    pub offset: u64,
    /// The message.
    pub text: String,
    /// Whether the file is damaged there.
    pub is_damage: bool,
}

/// Problems in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    list: Vec<Problem>,
}

impl Problems {
    /// Adds damage.
    pub(crate) fn add(&mut self, file: usize, offset: u64, text: impl Into<String>) {
        self.push(Problem { file, offset, text: text.into(), is_damage: true });
    }

    /// Adds something intact that is not used.
    pub(crate) fn unused(&mut self, file: usize, offset: u64, text: impl Into<String>) {
        self.push(Problem { file, offset, text: text.into(), is_damage: false });
    }

    fn push(&mut self, problem: Problem) {
        match self.list.len() {
            LIMIT.. => {}
            last if last == LIMIT - 1 => {
                self.list.push(Problem { text: "further problems are omitted".to_string(), ..problem });
            }
            _ => self.list.push(problem),
        }
    }

    pub(crate) fn into_list(self) -> Vec<Problem> {
        self.list
    }
}
