//! Calls as JSON lines.

use unspool_model::json::Object;

use super::{Began, Call, Ended};

impl Call {
    /// Writes it as a JSON line: its core, its depth, the name of its function, and times as `time` prints them, in `unit`.
    pub fn write_json(
        &self,
        (core, depth, name): (&str, usize, &str),
        (time, unit): (&dyn Fn(u64) -> String, &str),
        line: &mut String,
    ) {
        let mut object = Object::new(line);
        object.string("kind", "call").string("core", core).plain("depth", depth).hex("address", self.function);
        object.string("name", name);
        object.string("began", began(self.began)).string("ended", ended(self.ended));
        object.plain("line", self.entry.line).plain("last_line", self.exit.line);
        let [from, to, own] = [self.entry.time, self.exit.time, self.own.time].map(time);
        object.plain("time", from).plain("last_time", to).plain("own_time", own).string("unit", unit);
        object.plain("instructions", self.total().instructions).plain("own_instructions", self.own.instructions);
        object.optional("call_line", self.site.map(|site| site.line));
        if let Some(site) = self.site {
            object.hex("call_address", site.pc);
        }
        object.hex("last_address", self.exit.pc).optional("return_line", self.back.map(|back| back.line));
        if let Some(back) = self.back {
            object.hex("return_address", back.pc);
        }
        object.end_line();
    }
}

fn began(began: Began) -> &'static str {
    match began {
        Began::Start => "start",
        Began::Before => "before",
        Began::Called => "called",
        Began::Exception => "exception",
    }
}

fn ended(ended: Ended) -> &'static str {
    match ended {
        Ended::Returned => "returned",
        Ended::Unwound => "left",
        Ended::AtEnd => "at_end",
    }
}
