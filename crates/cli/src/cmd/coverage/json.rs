//! Coverage as JSON lines.

use std::io::{self, Write};

use unspool::coverage::Ratio;
use unspool::model::json::Object;

use super::text::of_lines;
use super::{By, Page};
use crate::json::write_summary;
use crate::output::Output;
use crate::symbols::symbol_text;
use crate::verdict::Verdict;

impl Page<'_> {
    pub(super) fn json(&self, output: &mut Output, verdict: Verdict) {
        output.write(|out| self.rows(out));
        write_summary(output, "coverage", verdict, |object| {
            object.plain("instructions", self.executed.instructions).plain("outside", self.executed.outside);
            object.plain("gaps", self.executed.gaps).flag("at_least", self.executed.is_lower_bound());
        });
    }

    fn rows(&self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(difference) = self.difference {
            return difference.json(out);
        }
        let mut line = String::new();
        for (name, ratio) in self.totals() {
            let mut object = Object::new(&mut line);
            put_ratio(object.string("kind", "total").string("name", name), ratio).write_line(out)?;
        }
        match self.args.by {
            By::File => self.file_rows(&mut line, out),
            By::Line => self.line_rows(&mut line, out),
            By::Function => self.function_rows(&mut line, out),
            By::Image => self.image_rows(&mut line, out),
            By::Process => self.process_rows(&mut line, out),
        }
    }

    fn file_rows(&self, line: &mut String, out: &mut dyn Write) -> io::Result<()> {
        for (path, lines) in &self.report.files {
            let mut object = Object::new(line);
            put_ratio(object.string("kind", "file").string("path", path), of_lines(lines.values())).write_line(out)?;
        }
        Ok(())
    }

    fn line_rows(&self, text: &mut String, out: &mut dyn Write) -> io::Result<()> {
        for (path, lines) in &self.report.files {
            for (number, line) in lines {
                let mut object = Object::new(text);
                object.string("kind", "line").string("path", path).plain("line", number).plain("count", line.count);
                put_ratio(&mut object, line.instructions);
                object.list("branches", &line.branches, |text, branch| {
                    let mut object = Object::nested(text);
                    object.hex("address", branch.address).flag("branch", branch.is_branch);
                    object.plain("executed", branch.executed);
                    object.plain("taken", branch.taken).plain("not_taken", branch.not_taken).close_nested();
                });
                object.write_line(out)?;
            }
        }
        Ok(())
    }

    fn function_rows(&self, line: &mut String, out: &mut dyn Write) -> io::Result<()> {
        for (image, function) in
            self.report.images.iter().flat_map(|image| image.functions.iter().map(move |it| (image, it)))
        {
            let mut object = Object::new(line);
            object.string("kind", "function").string("name", symbol_text((&function.name, 0)));
            object.string("image", &image.name).hex("address", function.address);
            object.nullable_string("path", function.position.as_ref().map(|position| &position.file));
            object.nullable("line", function.position.as_ref().map(|position| position.line));
            put_ratio(object.plain("entries", function.entries), function.instructions);
            object
                .plain("directions", function.directions.total)
                .plain("covered_directions", function.directions.covered);
            object.write_line(out)?;
        }
        Ok(())
    }

    fn image_rows(&self, line: &mut String, out: &mut dyn Write) -> io::Result<()> {
        for image in &self.report.images {
            let mut object = Object::new(line);
            put_ratio(object.string("kind", "image").string("name", &image.name), image.instructions)
                .write_line(out)?;
        }
        Ok(())
    }

    fn process_rows(&self, line: &mut String, out: &mut dyn Write) -> io::Result<()> {
        for row in &self.processes {
            let mut object = Object::new(line);
            object.string("kind", "process").nullable("process", row.process).plain("instructions", row.executed);
            put_ratio(&mut object, row.instructions);
            object.plain("lines", row.lines.total).plain("covered_lines", row.lines.covered);
            object.plain("functions", row.functions.total).plain("covered_functions", row.functions.covered);
            object.write_line(out)?;
        }
        Ok(())
    }
}

fn put_ratio<'o, 'b>(object: &'o mut Object<'b>, ratio: Ratio) -> &'o mut Object<'b> {
    object.plain("covered", ratio.covered).plain("total", ratio.total)
}
