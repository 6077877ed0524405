//! Counts of executions by image, at link addresses.
//!
//! counts by process and address + program ─▶ **images**
//!
//! An image is the same in all processes and runs in which it has the same name and build ID or, without one, the same bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use unspool_analyze::address_counts::{AddressCount, AddressCounts};
use unspool_capture::Code;

use super::code::{CodeLayout, StaticInstruction};
use crate::Program;

/// Executed images, from any number of runs.
#[derive(Debug, Default)]
pub struct ExecutedImages {
    /// The images of which something was executed, in the order in which they were met.
    pub images: Vec<ImageCounts>,
    /// Executed instructions by process.
    pub processes: BTreeMap<Option<u64>, u64>,
    /// Executed instructions that no image has.
    pub outside: u64,
    /// Executed instructions.
    pub instructions: u64,
    /// Further executed instructions, of code that was too much to count.
    pub not_counted: u64,
    /// How often part of the execution is missing.
    pub gaps: u64,
    /// Whether there was too much code to count all of it.
    pub is_full: bool,
}

/// Executions of the instructions of an image.
#[derive(Debug)]
pub struct ImageCounts {
    /// The image, at its link address.
    pub code: Code,
    /// By link address.
    pub counts: BTreeMap<u64, AddressCount>,
}

impl ExecutedImages {
    /// Adds a run of a program.
    pub fn add(&mut self, counts: &AddressCounts, program: &Program) {
        let before = self.instructions;
        for (process, counts) in &counts.processes {
            let mut last: Option<(usize, &Code)> = None;
            for (address, count) in counts {
                *self.processes.entry(*process).or_default() += count.executed;
                self.instructions += count.executed;
                // Addresses ascend, so that most are in the image of the one before.
                let mut images = program.images_of_process(*process, *address).filter(|code| !code.regions.is_empty());
                last = images.next().map(|code| match last {
                    Some((index, known)) if std::ptr::eq(known, code) => (index, code),
                    _ => (self.index_of(code), code),
                });
                match last {
                    Some((index, code)) => {
                        let linked = address.wrapping_sub(code.bias);
                        self.images[index].counts.entry(linked).or_default().append(count);
                    }
                    None => self.outside += count.executed,
                }
            }
        }
        self.not_counted += counts.instructions.saturating_sub(self.instructions - before);
        self.gaps += counts.gaps;
        self.is_full |= counts.is_full;
    }

    /// Adds a run of a program, of one process of it only.
    pub fn add_process(&mut self, process: Option<u64>, counts: &AddressCounts, program: &Program) {
        let own = counts.processes.get(&process).cloned().unwrap_or_default();
        let instructions = own.values().map(|count| count.executed).sum();
        let processes = BTreeMap::from([(process, own)]);
        self.add(&AddressCounts { processes, instructions, ..*counts }, program);
    }

    /// Whether something may have been executed that is not counted.
    pub fn is_lower_bound(&self) -> bool {
        self.gaps > 0 || self.is_full
    }

    fn index_of(&mut self, code: &Code) -> usize {
        let is_same = |image: &ImageCounts| {
            let Code { name, build_id, elf, regions, .. } = &image.code;
            let is_same_file = || *elf == code.elf && (elf.is_some() || *regions == code.regions);
            *name == code.name && *build_id == code.build_id && (build_id.is_some() || is_same_file())
        };
        self.images.iter().position(is_same).unwrap_or_else(|| {
            self.images.push(ImageCounts { code: code.moved(code.bias.wrapping_neg()), counts: BTreeMap::new() });
            self.images.len() - 1
        })
    }
}

impl ImageCounts {
    /// Address ranges of the functions with this name, as [`Program::functions`] finds them.
    pub fn functions(&self, name: &str) -> Vec<Range<u64>> {
        Program::new(vec![self.code.clone()]).functions(name).collect()
    }

    /// The instructions in a range, each with its executions.
    pub fn instructions(&self, range: Range<u64>) -> Vec<(StaticInstruction, AddressCount)> {
        let all = CodeLayout::new(&self.code).instructions(self, range).into_iter();
        all.map(|found| (found, self.counts.get(&found.address).copied().unwrap_or_default())).collect()
    }
}
