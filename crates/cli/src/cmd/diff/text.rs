//! Findings for people: where it is in both, what came before, and what each says.

use std::io::{self, Write};

use unspool::analyze::diff::{Around, Ending, Finding, Site, SkipReason, Summary};
use unspool::isa::Disassembler;
use unspool::model::{Facet, Instruction, Loss, Losses, Lost};
use unspool::number::many;

use super::{Named, Report};

/// How instructions read.
#[derive(Default)]
pub(super) struct Code {
    disassembler: Option<Disassembler>,
}

impl Code {
    fn text(&mut self, instruction: &Instruction) -> String {
        let Some(opcode) = instruction.opcode else { return "(opcode not known)".to_string() };
        let words = self.disassembler.get_or_insert_default();
        words.text(instruction.isa, instruction.address, opcode)
    }
}

const LETTERS: [&str; 2] = ["A", "B"];

impl Report {
    pub(super) fn finding_text(&mut self, finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
        match finding {
            Finding::Skipped { reason: why, skipped: passed, at } => self.passed(*why, *passed, at, out),
            Finding::Diverged { around, apart } => self.diverged(around, *apart, out),
            Finding::Differs { facet, name: what, values, around } => {
                let positions = self.positions([around.here[0].first(), around.here[1].first()]);
                let blank = if what.is_empty() { "" } else { " " };
                writeln!(out, "different {}{blank}{what}: {positions}", facet.name())?;
                self.before(around, out)?;
                if let [[a, ..], [b, ..]] = [&around.here[0][..], &around.here[1][..]] {
                    let positions = self.both([a, b]);
                    self.line("*", a, &positions, out)?;
                }
                for (letter, value) in LETTERS.iter().zip(values) {
                    writeln!(out, "  {letter} {value}")?;
                }
                writeln!(out)
            }
        }
    }

    fn passed(&self, why: SkipReason, passed: [u64; 2], at: &[Option<Site>; 2], out: &mut dyn Write) -> io::Result<()> {
        let positions = self.positions([at[0].as_ref(), at[1].as_ref()]);
        for (side, count) in passed.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            let (here, there, count) = (LETTERS[side], LETTERS[1 - side], many(count, "instruction"));
            match why {
                SkipReason::Start => {
                    writeln!(out, "passed over: {count} of {here} before {there} starts: {positions}")?
                }
                SkipReason::End => {
                    writeln!(out, "passed over: {count} of {here} after {there} has ended: {positions}")?
                }
                SkipReason::Gap(_) => writeln!(out, "passed over: {count} of {here} in a gap of {there}: {positions}")?,
                SkipReason::Island => {
                    writeln!(out, "passed over: {count} of {here} between two gaps, too few to compare: {positions}")?;
                }
                SkipReason::Attempted => {
                    writeln!(
                        out,
                        "passed over: {count} of {here}: tried, and {there} has the exception only: {positions}"
                    )?;
                }
            }
        }
        Ok(())
    }

    fn diverged(&mut self, around: &Around, apart: Option<[u64; 2]>, out: &mut dyn Write) -> io::Result<()> {
        let positions = self.positions([around.here[0].first(), around.here[1].first()]);
        writeln!(out, "different instructions: {positions}")?;
        self.before(around, out)?;
        for (side, letter) in LETTERS.iter().enumerate() {
            for site in &around.here[side] {
                let position = self.sides[side].position(site.position);
                self.line(letter, site, &position, out)?;
            }
            if around.here[side].is_empty() {
                writeln!(out, "  {letter} (ends here)")?;
            }
        }
        match apart {
            Some([a, b]) => {
                let [a, b] = [a, b].map(|count| many(count, "instruction"));
                writeln!(out, "  {a} of A and {b} of B are not in the other one\n")
            }
            None => writeln!(out, "  not together again within the window; --window N looks further\n"),
        }
    }

    fn before(&mut self, around: &Around, out: &mut dyn Write) -> io::Result<()> {
        for [a, b] in &around.before {
            let positions = self.both([a, b]);
            self.line("=", a, &positions, out)?;
        }
        Ok(())
    }

    fn line(&mut self, mark: &str, site: &Site, positions: &str, out: &mut dyn Write) -> io::Result<()> {
        let Instruction { address, opcode, length, .. } = site.instruction;
        let digits = if length == 2 { 4 } else { 8 };
        let opcode = opcode.map_or_else(|| "-".repeat(digits), |opcode| format!("{opcode:0digits$x}"));
        let text = self.code.text(&site.instruction);
        writeln!(out, "  {mark} {address:#018x} {opcode:8}  {text:40} {positions}")
    }

    fn both(&self, [a, b]: [&Site; 2]) -> String {
        format!("A {}, B {}", self.sides[0].position(a.position), self.sides[1].position(b.position))
    }

    /// Where it is in both, with names.
    fn positions(&self, sites: [Option<&Site>; 2]) -> String {
        let position = |side: usize| match sites[side] {
            Some(site) => format!("{} {}", self.sides[side].name, self.sides[side].position(site.position)),
            None => format!("{} at its end", self.sides[side].name),
        };
        format!("{}, {}", position(0), position(1))
    }

    pub(super) fn summary_text(&self, summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
        for (letter, (side, count)) in LETTERS.iter().zip(self.sides.iter().zip(summary.instructions)) {
            writeln!(out, "{letter}: {}, {}", side.name, many(count, "instruction"))?;
        }
        writeln!(
            out,
            "{:13} {:>14} {:>14} {:>12} {:>12} {:>12}",
            "", "compared", "equal", "different", "only A", "only B"
        )?;
        for facet in summary.facets.iter() {
            let tally = summary.tally(facet);
            let [a, b] = tally.only;
            let (name, compared, equal) = (facet.name(), tally.compared, tally.equal());
            writeln!(out, "{name:13} {compared:>14} {equal:>14} {:>12} {a:>12} {b:>12}", tally.different)?;
        }
        for facet in Facet::ALL.into_iter().filter(|facet| !summary.facets.has(*facet)) {
            let why = match summary.coverage.map(|coverage| coverage.has(facet)) {
                [true, true] if facet == Facet::Times => "clocks differ",
                [true, true] => "as asked",
                [true, false] => "only A tells them",
                [false, true] => "only B tells them",
                [false, false] => "neither tells them",
            };
            writeln!(out, "{:13} not compared: {why}", facet.name())?;
        }
        self.notes(summary, out)?;
        self.verdict(summary, out)
    }

    fn notes(&self, summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
        for (side, letter) in LETTERS.iter().enumerate() {
            let other = LETTERS[1 - side];
            let notes = [
                (summary.gaps[side], "gap", String::new()),
                (summary.in_gaps[side], "instruction", format!(" in gaps of {other}")),
                (summary.other_cores[side], "step", " of other cores".to_string()),
            ];
            for (count, name, more) in notes.iter().filter(|(count, ..)| *count > 0) {
                writeln!(out, "{letter} has {}{more}", many(*count, name))?;
            }
            self.untold(letter, &self.sides[side], &summary.not_in_steps[side], out)?;
            if let Some(damage) = &summary.damage[side] {
                writeln!(out, "{letter} is damaged: {damage}")?;
            }
        }
        if summary.in_loops > 0 {
            let count = many(summary.in_loops, "instruction");
            writeln!(out, "{count} in loops cut by a start or a gap: only their code was compared")?;
        }
        Ok(())
    }

    /// What of a trace was not compared, since no step says it.
    fn untold(&self, letter: &str, side: &Named, untold: &Losses, out: &mut dyn Write) -> io::Result<()> {
        let position = |lost: Lost| side.position(lost.first);
        let lost = untold.of(Loss::Unreadable);
        if lost.count > 0 {
            let lines = many(lost.count, side.unit());
            writeln!(out, "{letter} has {lines} that cannot be read, the first is {}", position(lost))?;
        }
        let others = untold.iter().filter(|(loss, _)| *loss != Loss::Unreadable);
        let others =
            others.map(|(loss, lost)| format!("{} × {} (first: {})", lost.count, loss.words(), position(lost)));
        let others: Vec<String> = others.collect();
        if others.is_empty() {
            return Ok(());
        }
        writeln!(out, "{letter} has what no step says, and so was not compared: {}", others.join(", "))
    }

    fn verdict(&self, summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
        if summary.differences > 0 && summary.before.iter().any(|before| *before > 0) {
            writeln!(out, "if one starts later in the other than was looked, a larger --window finds it")?;
        }
        match (summary.differences, summary.ending) {
            (0, _) if summary.common == 0 => writeln!(out, "nothing could be compared"),
            (0, _) => writeln!(out, "equal in what both tell"),
            (_, Ending::Stopped) => writeln!(out, "different; --all goes on behind the first difference"),
            (count, Ending::Diverged) => {
                writeln!(out, "{}; what comes behind the last one was not compared", many(count, "difference"))
            }
            (count, Ending::Complete) => writeln!(out, "{}", many(count, "difference")),
        }
    }
}
