//! Instructions per source line, source file or module.
//!
//! executed images + source lines ─▶ **profile**
//!
//! Each static address is resolved once. What was inlined counts for the line that it is from, not for that of the call. What
//! has no line is unknown, by the module that it is in, so that the rows always add up to all executed instructions.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use unspool_flow::MapId;

use crate::Program;
use crate::coverage::{ExecutedImages, ImageCounts};
use crate::lines::{Lines, Position};

/// What the rows of a profile are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineGroup {
    /// Source lines.
    Line,
    /// Source files.
    File,
    /// Programs, libraries and other images.
    Module,
}

/// Where instructions are from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CodeOrigin {
    /// A source line.
    Line(Position),
    /// A source file, as the compiler recorded its path.
    File(Arc<str>),
    /// An image.
    Module(Arc<str>),
    /// An image that has no source line for them; `None`: no image has them.
    Unknown(Option<Arc<str>>),
}

/// Executed instructions by their origin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LineProfile {
    /// Origins with the number of executed instructions, the most first.
    pub rows: Vec<(CodeOrigin, u64)>,
    /// The sum of all rows: all executed instructions.
    pub total: u64,
}

impl LineProfile {
    /// The profile of executed images.
    pub fn new(executed: &ExecutedImages, lines: &Lines, group: LineGroup) -> Self {
        let mut counts: HashMap<CodeOrigin, u64> = HashMap::new();
        let outside = executed.outside + executed.not_counted;
        if outside > 0 {
            counts.insert(CodeOrigin::Unknown(None), outside);
        }
        for image in &executed.images {
            add_image(image, lines, group, &mut counts);
        }
        let mut rows: Vec<(CodeOrigin, u64)> = counts.into_iter().collect();
        rows.sort_by(|(one, count), (other, others)| (Reverse(count), one).cmp(&(Reverse(others), other)));
        let total = rows.iter().map(|(_, count)| count).sum();
        Self { rows, total }
    }
}

fn add_image(image: &ImageCounts, lines: &Lines, group: LineGroup, counts: &mut HashMap<CodeOrigin, u64>) {
    let module: Arc<str> = image.code.name.as_str().into();
    if group == LineGroup::Module {
        let executed = image.counts.values().map(|count| count.executed).sum::<u64>();
        *counts.entry(CodeOrigin::Module(module)).or_default() += executed;
        return;
    }
    let program = Program::new(vec![image.code.clone()]);
    for (address, count) in &image.counts {
        let origin = match lines.position(&program, MapId::ONLY, *address) {
            Some(position) if group == LineGroup::Line => CodeOrigin::Line(position),
            Some(position) => CodeOrigin::File(position.file),
            None => CodeOrigin::Unknown(Some(Arc::clone(&module))),
        };
        *counts.entry(origin).or_default() += count.executed;
    }
}
