//! What a Tarmac log comes to: instructions by set, mode and mnemonic, accesses, branches.

use std::collections::BTreeMap;
use std::io::{self, Write};

use unspool::tarmac::record::{Direction, Instruction, PictureKind, Record};
use unspool::tarmac::text::set_name;

use super::super::{grouped, many};
use super::{Args, By, Native, Rows, row, table};
use crate::Verdict;
use crate::json::Object;
use crate::progress::Progress;
use crate::tarmac::Tarmac;

/// Names that are told apart, of each kind.
const NAMES: usize = 4096;

/// Longer names are cut.
const NAME: usize = 24;

/// Counts. The file is done with.
pub(super) fn run(mut file: Tarmac, mut progress: Progress) -> anyhow::Result<(Option<Box<dyn Native>>, Verdict)> {
    let mut counts = Counts { name: file.name().to_string(), ..Counts::default() };
    let end = file.each(&mut progress, |_, line| {
        counts.add(&line.record);
        true
    })?;
    Ok((Some(Box::new(counts)), file.verdict(&end)))
}

#[derive(Default)]
struct Counts {
    name: String,
    lines: u64,
    instructions: u64,
    skipped: u64,
    reads: u64,
    writes: u64,
    registers: u64,
    exceptions: u64,
    branches: u64,
    sets: BTreeMap<&'static str, u64>,
    modes: Names,
    mnemonics: Names,
}

/// How often each name was met.
#[derive(Default)]
struct Names {
    counts: BTreeMap<Vec<u8>, u64>,
}

impl Names {
    fn add(&mut self, name: &[u8]) {
        let name = &name[..name.len().min(NAME)];
        if let Some(count) = self.counts.get_mut(name) {
            *count += 1;
            return;
        }
        let name = if self.counts.len() < NAMES { name } else { b"(others)" };
        *self.counts.entry(name.to_vec()).or_default() += 1;
    }

    /// The most frequent first.
    fn rows(&self) -> Vec<(String, u64)> {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let mut rows: Vec<_> = self.counts.iter().map(|(name, count)| (text(name), *count)).collect();
        rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        rows
    }
}

impl Counts {
    fn add(&mut self, record: &Record<'_>) {
        self.lines += 1;
        match record {
            Record::Instruction(instruction) => self.instruction(instruction),
            Record::Register(_) => self.registers += 1,
            Record::Access(access) if access.direction == Direction::Read => self.reads += 1,
            Record::Access(_) => self.writes += 1,
            Record::Picture(picture) => match picture.kind {
                PictureKind::Load | PictureKind::AbortedLoad => self.reads += 1,
                _ => self.writes += 1,
            },
            Record::Exception(_) => self.exceptions += 1,
            Record::Event(event) if event.is_exception => self.exceptions += 1,
            Record::Branch(_) => self.branches += 1,
            _ => {}
        }
    }

    fn instruction(&mut self, instruction: &Instruction<'_>) {
        self.instructions += 1;
        self.skipped += u64::from(!instruction.is_executed);
        *self.sets.entry(instruction.set.map_or("not said", set_name)).or_default() += 1;
        self.modes.add(if instruction.mode.is_empty() { b"(none)" } else { instruction.mode });
        let mut word = [0; NAME];
        let mnemonic = instruction.text.split(u8::is_ascii_whitespace).find(|word| !word.is_empty());
        let mnemonic = mnemonic.unwrap_or(b"(none)");
        let length = mnemonic.len().min(NAME);
        word[..length].copy_from_slice(&mnemonic[..length]);
        word[..length].make_ascii_lowercase();
        self.mnemonics.add(&word[..length]);
    }
}

impl Native for Counts {
    fn tables(&self) -> &'static [By] {
        &[By::Mnemonic, By::Isa]
    }

    fn head(&self, out: &mut dyn Write) -> io::Result<()> {
        let [instructions, lines] = [many(self.instructions, "instruction"), many(self.lines, "line")];
        let skipped = if self.skipped > 0 { format!(", {} skipped", grouped(self.skipped)) } else { String::new() };
        writeln!(out, "{}: {instructions}{skipped}, {lines}", self.name)?;
        let sets: Vec<String> = self.sets.iter().map(|(set, count)| format!("{} {set}", grouped(*count))).collect();
        writeln!(out, "  sets         {}", sets.join(", "))?;
        let modes: Vec<String> =
            self.modes.rows().iter().map(|(mode, count)| format!("{} in {mode}", grouped(*count))).collect();
        writeln!(out, "  modes        {}", modes.join(", "))?;
        let [reads, writes] = [many(self.reads, "read"), many(self.writes, "write")];
        writeln!(out, "  memory       {reads}, {writes}")?;
        for (name, count) in
            [("registers", self.registers), ("exceptions", self.exceptions), ("branches", self.branches)]
        {
            if count > 0 {
                writeln!(out, "  {name:<12} {}", grouped(count))?;
            }
        }
        Ok(())
    }

    fn text(&self, args: &Args, out: &mut dyn Write) -> io::Result<()> {
        if !args.shows(By::Mnemonic) {
            return Ok(());
        }
        table(out, "mnemonic", &[], self.instructions)?;
        self.mnemonics.rows().iter().try_for_each(|(name, count)| row(out, name, *count, self.instructions))
    }

    fn json_head(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut line = String::new();
        let mut object = Object::new(&mut line);
        object.string("kind", "counts").plain("lines", self.lines).plain("instructions", self.instructions);
        object.plain("skipped", self.skipped).plain("reads", self.reads).plain("writes", self.writes);
        object.plain("registers", self.registers).plain("exceptions", self.exceptions).plain("branches", self.branches);
        object.finish(out)
    }

    fn json(&self, args: &Args, out: &mut dyn Write) -> io::Result<()> {
        let mut rows = Rows::new(None, self.instructions, out);
        self.sets.iter().try_for_each(|(name, count)| rows.put("isa", name, *count))?;
        self.modes.rows().iter().try_for_each(|(name, count)| rows.put("mode", name, *count))?;
        if !args.shows(By::Mnemonic) {
            return Ok(());
        }
        self.mnemonics.rows().iter().try_for_each(|(name, count)| rows.put("mnemonic", name, *count))
    }
}
