//! Findings and summary of `diff`, as text or JSON: positions in both traces, context, and both values.

use std::io::{self, Write};

use unspool::FileKind;
use unspool::analyze::diff::json::{write_finding, write_summary};
use unspool::analyze::diff::{Around, Ending, Finding, Site, SkipReason, Summary};
use unspool::convert::report::describe_position;
use unspool::isa::Disassembler;
use unspool::model::{Facet, Instruction, Loss, Losses, Lost};
use unspool::number::{grouped, many};

use crate::output::Output;
use crate::style::Palette;

pub(super) struct Named {
    pub(super) name: String,
    pub(super) kind: FileKind,
}

impl Named {
    /// Unit of positions: the key in JSON, and the word in text.
    fn unit(&self) -> &'static str {
        self.kind.unit()
    }

    fn position(&self, position: u64) -> String {
        describe_position(self.unit(), position)
    }
}

pub(super) struct Report {
    pub(super) sides: [Named; 2],
    json: bool,
    palette: Palette,
    disassembler: Option<Disassembler>,
    line: String,
}

const LETTERS: [&str; 2] = ["A", "B"];

impl Report {
    pub(super) fn new(sides: [Named; 2], json: bool, palette: Palette) -> Self {
        Self { sides, json, palette, disassembler: None, line: String::new() }
    }

    pub(super) fn finding(&mut self, finding: &Finding, output: &mut Output) {
        if !self.json {
            return output.write(|out| self.finding_text(finding, out));
        }
        write_finding(finding, self.units(), &mut self.line);
        output.write(|out| out.write_all(self.line.as_bytes()));
    }

    pub(super) fn summary(&mut self, summary: &Summary, output: &mut Output) {
        if !self.json {
            return output.write(|out| self.summary_text(summary, out));
        }
        let names = [&*self.sides[0].name, &*self.sides[1].name];
        write_summary(summary, names, self.units(), &mut self.line);
        output.write(|out| out.write_all(self.line.as_bytes()));
    }

    fn units(&self) -> [&'static str; 2] {
        [self.sides[0].unit(), self.sides[1].unit()]
    }

    fn finding_text(&mut self, finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
        match finding {
            Finding::Skipped { reason, skipped, at } => self.skipped(*reason, *skipped, at, out),
            Finding::Diverged { around, apart } => self.diverged(around, *apart, out),
            Finding::Differs { facet, name, values, around } => {
                let positions = self.positions([around.here[0].first(), around.here[1].first()]);
                let blank = if name.is_empty() { "" } else { " " };
                let Palette { heading, reset, .. } = self.palette;
                writeln!(out, "{heading}different {}{blank}{name}: {positions}{reset}", facet.name())?;
                self.before(around, out)?;
                if let [[a, ..], [b, ..]] = [&around.here[0][..], &around.here[1][..]] {
                    let positions = self.both([a, b]);
                    self.line(("", "*"), a, &positions, out)?;
                }
                for (side, (letter, value)) in LETTERS.iter().zip(values).enumerate() {
                    writeln!(out, "{}  {letter} {value}{}", self.color(side), self.palette.reset)?;
                }
                writeln!(out)
            }
        }
    }

    fn skipped(
        &self,
        reason: SkipReason,
        skipped: [u64; 2],
        at: &[Option<Site>; 2],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let positions = self.positions([at[0].as_ref(), at[1].as_ref()]);
        for (side, count) in skipped.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            let (here, there, count) = (LETTERS[side], LETTERS[1 - side], many(count, "instruction"));
            let reason = match reason {
                SkipReason::Start => format!(" before {there} starts"),
                SkipReason::End => format!(" after {there} has ended"),
                SkipReason::Gap(_) => format!(" in a gap of {there}"),
                SkipReason::Island => " between two gaps, too few to compare".to_string(),
                SkipReason::Attempted => format!(": attempted, and {there} has only the exception"),
            };
            writeln!(out, "skipped: {count} of {here}{reason}: {positions}")?;
        }
        Ok(())
    }

    fn diverged(&mut self, around: &Around, apart: Option<[u64; 2]>, out: &mut dyn Write) -> io::Result<()> {
        let positions = self.positions([around.here[0].first(), around.here[1].first()]);
        let Palette { heading, reset, .. } = self.palette;
        writeln!(out, "{heading}different instructions: {positions}{reset}")?;
        self.before(around, out)?;
        for (side, letter) in LETTERS.iter().enumerate() {
            let color = self.color(side);
            for site in &around.here[side] {
                let position = self.sides[side].position(site.position);
                self.line((color, letter), site, &position, out)?;
            }
            if around.here[side].is_empty() {
                writeln!(out, "{color}  {letter} (ends here){reset}")?;
            }
        }
        match apart {
            Some([a, b]) => {
                let [a, b] = [a, b].map(|count| many(count, "instruction"));
                writeln!(out, "  {a} of A and {b} of B are not in the other trace\n")
            }
            None => writeln!(out, "  no agreement within the window; --window N looks further\n"),
        }
    }

    /// Color of what only this side contains, as in other comparisons of texts.
    fn color(&self, side: usize) -> &'static str {
        [self.palette.removed, self.palette.added].get(side).copied().unwrap_or_default()
    }

    fn before(&mut self, around: &Around, out: &mut dyn Write) -> io::Result<()> {
        for [a, b] in &around.before {
            let positions = self.both([a, b]);
            self.line(("", "="), a, &positions, out)?;
        }
        Ok(())
    }

    /// Line of an instruction, in a color if it starts with one.
    fn line(
        &mut self,
        (color, mark): (&str, &str),
        site: &Site,
        positions: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Instruction { address, opcode, length, .. } = site.instruction;
        let digits = if length == 2 { 4 } else { 8 };
        let opcode = opcode.map_or_else(|| "-".repeat(digits), |opcode| format!("{opcode:0digits$x}"));
        let text = self.disassembly(&site.instruction);
        let reset = if color.is_empty() { "" } else { self.palette.reset };
        writeln!(out, "{color}  {mark} {address:#018x} {opcode:8}  {text:40} {positions}{reset}")
    }

    fn disassembly(&mut self, instruction: &Instruction) -> String {
        let Some(opcode) = instruction.opcode else { return "(opcode unknown)".to_string() };
        let disassembler = self.disassembler.get_or_insert_default();
        disassembler.text(instruction.isa, instruction.address, opcode)
    }

    fn both(&self, [a, b]: [&Site; 2]) -> String {
        format!("A {}, B {}", self.sides[0].position(a.position), self.sides[1].position(b.position))
    }

    /// Positions in both traces, with names.
    fn positions(&self, sites: [Option<&Site>; 2]) -> String {
        let position = |side: usize| match sites[side] {
            Some(site) => format!("{} {}", self.sides[side].name, self.sides[side].position(site.position)),
            None => format!("{} at its end", self.sides[side].name),
        };
        format!("{}, {}", position(0), position(1))
    }

    fn summary_text(&self, summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
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
            let [compared, equal, different, a, b] =
                [tally.compared, tally.equal(), tally.different, a, b].map(grouped);
            writeln!(out, "{:13} {compared:>14} {equal:>14} {different:>12} {a:>12} {b:>12}", facet.name())?;
        }
        for facet in Facet::ALL.into_iter().filter(|facet| !summary.facets.has(*facet)) {
            let why = match summary.coverage.map(|coverage| coverage.has(facet)) {
                [true, true] if facet == Facet::Times => "clocks differ",
                [true, true] => "not selected",
                [true, false] => "only in A",
                [false, true] => "only in B",
                [false, false] => "in neither trace",
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
            self.not_in_steps(letter, &self.sides[side], &summary.not_in_steps[side], out)?;
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

    /// Facts of a trace that were not compared, since steps do not contain them.
    fn not_in_steps(&self, letter: &str, side: &Named, losses: &Losses, out: &mut dyn Write) -> io::Result<()> {
        let position = |lost: Lost| side.position(lost.first);
        let lost = losses.of(Loss::Unreadable);
        if lost.count > 0 {
            let lines = many(lost.count, side.unit());
            writeln!(out, "{letter} has {lines} that cannot be read, the first is {}", position(lost))?;
        }
        let others = losses.iter().filter(|(loss, _)| *loss != Loss::Unreadable);
        let others = others
            .map(|(loss, lost)| format!("{} × {} (first: {})", grouped(lost.count), loss.words(), position(lost)));
        let others: Vec<String> = others.collect();
        if others.is_empty() {
            return Ok(());
        }
        writeln!(out, "{letter} has facts that steps do not contain and that were not compared: {}", others.join(", "))
    }

    fn verdict(&self, summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
        if summary.differences > 0 && summary.before.iter().any(|before| *before > 0) {
            writeln!(out, "if one trace starts far into the other, use a larger --window")?;
        }
        let Palette { added, problem, reset, .. } = self.palette;
        let color = if summary.differences == 0 && summary.common > 0 { added } else { problem };
        let text = match (summary.differences, summary.ending) {
            (0, _) if summary.common == 0 => "nothing could be compared".to_string(),
            (0, _) => {
                let facets = many(summary.facets.iter().count() as u64, "facet");
                format!("identical in what both contain: {} in {facets}", many(summary.common, "instruction"))
            }
            (_, Ending::Stopped) => "different; --all continues after the first difference".to_string(),
            (count, Ending::Diverged) => {
                format!("{}; the rest after the last one was not compared", many(count, "difference"))
            }
            (count, Ending::Complete) => many(count, "difference"),
        };
        writeln!(out, "{color}{text}{reset}")
    }
}
