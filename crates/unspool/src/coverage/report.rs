//! Coverage of images by function, source line and branch.
//!
//! counts of an image + all its instructions + source lines ─▶ **report**
//!
//! The count of a line is the number of times that it was entered: from another line, from a call or an exception, or again
//! from its own end. Of its instructions, an execution that continues from the one before, or from a branch earlier in the same
//! line, is not another entry. Copies of a line that the compiler made are added up. This is what `gcov` counts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use unspool_analyze::address_counts::AddressCount;
use unspool_isa::{ControlFlow, Decoded, decode};

use super::code::{CodeLayout, StaticInstruction};
use super::images::{ExecutedImages, ImageCounts};
use crate::lines::{LineRange, Lines, Position};

/// A number of things of which some are covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ratio {
    /// Those that were executed.
    pub covered: u64,
    /// All of them.
    pub total: u64,
}

impl Ratio {
    fn add(&mut self, is_covered: bool) {
        self.covered += u64::from(is_covered);
        self.total += 1;
    }

    /// Adds another one.
    pub fn append(&mut self, other: Self) {
        self.covered += other.covered;
        self.total += other.total;
    }

    /// Percentage, of a total that is not zero.
    pub fn percent(self) -> Option<f64> {
        (self.total > 0).then(|| self.covered as f64 * 100.0 / self.total as f64)
    }
}

/// Coverage of all images.
#[derive(Debug, Default)]
pub struct Report {
    /// Of each image, in the order of [`ExecutedImages`].
    pub images: Vec<ImageReport>,
    /// By source file and line; lines of several images are added up.
    pub files: BTreeMap<Arc<str>, BTreeMap<u32, LineCoverage>>,
}

/// Coverage of an image.
#[derive(Debug, Default)]
pub struct ImageReport {
    /// The name of the image.
    pub name: String,
    /// Instructions of its functions.
    pub instructions: Ratio,
    /// Directions of its conditional branches: two for each.
    pub directions: Ratio,
    /// Its functions, in order of address.
    pub functions: Vec<FunctionCoverage>,
    /// Conditional instructions other than branches whose outcomes the trace shows: two outcomes for each.
    pub conditions: Ratio,
}

/// Coverage of a function.
#[derive(Debug, Clone)]
pub struct FunctionCoverage {
    /// Its name in the symbol table.
    pub name: String,
    /// Link address.
    pub address: u64,
    /// Where it starts in the source.
    pub position: Option<Position>,
    /// Number of executions of its first instruction.
    pub entries: u64,
    /// Its instructions.
    pub instructions: Ratio,
    /// Directions of its conditional branches.
    pub directions: Ratio,
}

impl FunctionCoverage {
    /// Whether any instruction of it was executed.
    pub fn is_covered(&self) -> bool {
        self.instructions.covered > 0
    }
}

/// Coverage of a source line.
#[derive(Debug, Clone, Default)]
pub struct LineCoverage {
    /// Number of times that it was entered.
    pub count: u64,
    /// Its instructions.
    pub instructions: Ratio,
    /// Its conditional branches, and conditional instructions whose outcomes are known.
    pub branches: Vec<BranchCoverage>,
}

impl LineCoverage {
    /// Whether any instruction of it was executed.
    pub fn is_covered(&self) -> bool {
        self.instructions.covered > 0
    }
}

/// Outcomes of a conditional branch, or of a conditional instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BranchCoverage {
    /// Link address.
    pub address: u64,
    /// Whether it is a branch.
    pub is_branch: bool,
    /// Executions.
    pub executed: u64,
    /// The branch was taken, or the condition held.
    pub taken: u64,
    /// The branch was not taken, or the condition failed.
    pub not_taken: u64,
}

impl BranchCoverage {
    fn add_to(&self, ratio: &mut Ratio) {
        ratio.add(self.taken > 0);
        ratio.add(self.not_taken > 0);
    }
}

/// One instruction with all that is known about it.
struct Known {
    instruction: StaticInstruction,
    count: AddressCount,
    decoded: Option<Decoded>,
    /// Index of its line.
    line: Option<usize>,
}

impl Report {
    /// The coverage of images.
    pub fn new(executed: &ExecutedImages, lines: &Lines) -> Self {
        let mut report = Self::default();
        for image in &executed.images {
            let found = ImageReport::new(image, lines, &mut report.files);
            report.images.push(found);
        }
        report
    }

    /// Lines of all files.
    pub fn lines(&self) -> Ratio {
        let mut ratio = Ratio::default();
        self.files.values().flat_map(BTreeMap::values).for_each(|line| ratio.add(line.is_covered()));
        ratio
    }

    /// Functions of all images.
    pub fn functions(&self) -> Ratio {
        let mut ratio = Ratio::default();
        self.images.iter().flat_map(|image| &image.functions).for_each(|function| ratio.add(function.is_covered()));
        ratio
    }

    /// Instructions of all images.
    pub fn instructions(&self) -> Ratio {
        sum(self.images.iter().map(|image| image.instructions))
    }

    /// Directions of the conditional branches of all images.
    pub fn directions(&self) -> Ratio {
        sum(self.images.iter().map(|image| image.directions))
    }

    /// Outcomes of the conditional instructions of all images.
    pub fn conditions(&self) -> Ratio {
        sum(self.images.iter().map(|image| image.conditions))
    }
}

fn sum(ratios: impl Iterator<Item = Ratio>) -> Ratio {
    let mut all = Ratio::default();
    ratios.for_each(|ratio| all.append(ratio));
    all
}

impl ImageReport {
    fn new(image: &ImageCounts, lines: &Lines, files: &mut BTreeMap<Arc<str>, BTreeMap<u32, LineCoverage>>) -> Self {
        let layout = CodeLayout::new(&image.code);
        let table = LineTable::new(lines.ranges(&image.code));
        let mut report = Self { name: image.code.name.clone(), ..Self::default() };
        let mut known: Vec<Known> = Vec::new();
        for symbol in image.code.symbols.iter().filter(|symbol| symbol.size > 0) {
            let range = symbol.address..symbol.address.saturating_add(symbol.size);
            let own: Vec<Known> =
                layout.instructions(image, range).into_iter().map(|found| table.known(image, found)).collect();
            if own.is_empty() {
                continue;
            }
            report.functions.push(FunctionCoverage {
                name: symbol.name.to_string(),
                address: symbol.address,
                position: table.position(symbol.address).cloned(),
                entries: own.first().map_or(0, |first| first.count.executed),
                instructions: ratio(own.iter().map(|one| one.count.executed > 0)),
                directions: directions(&own),
            });
            known.extend(own);
        }
        // What was executed outside of functions, too. Functions may overlap.
        let inside: std::collections::HashSet<u64> = known.iter().map(|one| one.instruction.address).collect();
        for (address, count) in image.counts.iter().filter(|(address, _)| !inside.contains(address)) {
            let &AddressCount { isa, opcode, length, .. } = count;
            known.push(table.known(image, StaticInstruction { address: *address, isa, opcode, length }));
        }
        known.sort_by_key(|one| one.instruction.address);
        known.dedup_by_key(|one| one.instruction.address);
        report.instructions = ratio(known.iter().map(|one| one.count.executed > 0));
        report.directions = directions(&known);
        known.iter().filter_map(Known::condition).for_each(|one| one.add_to(&mut report.conditions));
        add_lines(&known, &table, files);
        report
    }
}

fn ratio(covered: impl Iterator<Item = bool>) -> Ratio {
    let mut ratio = Ratio::default();
    covered.for_each(|is| ratio.add(is));
    ratio
}

fn directions(known: &[Known]) -> Ratio {
    let mut ratio = Ratio::default();
    known.iter().filter_map(Known::branch).for_each(|branch| branch.add_to(&mut ratio));
    ratio
}

impl Known {
    /// Its outcomes, if it is a conditional branch.
    fn branch(&self) -> Option<BranchCoverage> {
        self.decoded.filter(|decoded| decoded.conditional && decoded.flow.is_branch())?;
        let AddressCount { executed, taken, not_taken, .. } = self.count;
        Some(BranchCoverage { address: self.instruction.address, is_branch: true, executed, taken, not_taken })
    }

    /// Its outcomes, if it is a conditional instruction whose outcomes the trace shows.
    fn condition(&self) -> Option<BranchCoverage> {
        let AddressCount { executed, passed, failed, .. } = self.count;
        let is_known = failed > 0 || passed > 0 && self.decoded.is_some_and(|decoded| decoded.conditional);
        let is_other = self.branch().is_none() && is_known;
        let address = self.instruction.address;
        is_other.then_some(BranchCoverage { address, is_branch: false, executed, taken: passed, not_taken: failed })
    }

    /// The number of executions after which the next instruction follows.
    fn falls_through(&self) -> u64 {
        let Some(decoded) = self.decoded else { return self.count.executed };
        match decoded.flow {
            // A call returns.
            flow if flow.is_branch() && decoded.link => self.count.executed,
            ControlFlow::Direct | ControlFlow::Indirect | ControlFlow::ExceptionReturn if !decoded.conditional => 0,
            flow if flow.is_branch() => self.count.executed.saturating_sub(self.count.taken),
            _ => self.count.executed,
        }
    }
}

/// Adds the lines of an image.
fn add_lines(known: &[Known], table: &LineTable, files: &mut BTreeMap<Arc<str>, BTreeMap<u32, LineCoverage>>) {
    // Executions that come from a branch earlier in the same line, by target.
    let mut from_line: HashMap<(usize, u64), u64> = HashMap::new();
    for one in known {
        let target = one.decoded.filter(|decoded| !decoded.link).and_then(|decoded| decoded.target_address());
        if let (Some(line), Some(target)) = (one.line, target.filter(|target| *target > one.instruction.address)) {
            *from_line.entry((line, target)).or_default() += one.count.taken;
        }
    }
    let mut before: Option<&Known> = None;
    for one in known {
        let StaticInstruction { address, .. } = one.instruction;
        if let Some((index, position)) = one.line.and_then(|index| Some((index, table.positions.get(index)?))) {
            let follows = before.filter(|before| {
                before.line == one.line
                    && before.instruction.address.wrapping_add(u64::from(before.instruction.length)) == address
            });
            let inside = follows.map_or(0, Known::falls_through);
            let inside = inside.saturating_add(from_line.get(&(index, address)).copied().unwrap_or(0));
            let line = files.entry(Arc::clone(&position.file)).or_default().entry(position.line).or_default();
            line.count += one.count.executed.saturating_sub(inside);
            line.instructions.add(one.count.executed > 0);
            line.branches.extend(one.branch().or_else(|| one.condition()));
        }
        before = Some(one);
    }
}

/// Source lines by address.
struct LineTable {
    ranges: Vec<LineRange>,
    /// Index of the position of each range.
    indexes: Vec<Option<usize>>,
    positions: Vec<Position>,
}

impl LineTable {
    fn new(ranges: Vec<LineRange>) -> Self {
        let (mut positions, mut known) = (Vec::new(), HashMap::new());
        let mut index = |position: &Position| {
            *known.entry(position.clone()).or_insert_with(|| {
                positions.push(position.clone());
                positions.len() - 1
            })
        };
        let indexes = ranges.iter().map(|range| range.position.as_ref().map(&mut index)).collect();
        Self { ranges, indexes, positions }
    }

    fn line(&self, address: u64) -> Option<usize> {
        let after = self.ranges.partition_point(|range| range.start <= address);
        let index = after.checked_sub(1)?;
        self.ranges.get(index).filter(|range| address < range.end)?;
        *self.indexes.get(index)?
    }

    fn position(&self, address: u64) -> Option<&Position> {
        self.positions.get(self.line(address)?)
    }

    fn known(&self, image: &ImageCounts, instruction: StaticInstruction) -> Known {
        let StaticInstruction { address, isa, opcode, .. } = instruction;
        let count = image.counts.get(&address).copied().unwrap_or_default();
        let decoded = opcode.map(|opcode| decode(isa, address, opcode));
        Known { instruction, count, decoded, line: self.line(address) }
    }
}
