//! Calls as JSON lines.

use unspool_model::json::Object;

use super::Call;

/// What a line about a call contains besides the call.
#[derive(Debug, Clone, Copy)]
pub struct CallLine<'l> {
    /// Name of the core, and process and thread as far as they are known.
    pub core: &'l str,
    /// The process, if known.
    pub process: Option<u64>,
    /// The thread, if known.
    pub thread: Option<u64>,
    /// Depth of the call in the tree.
    pub depth: usize,
    /// Name of its function.
    pub name: &'l str,
    /// Key of positions: `offset`, `record` or `line`.
    pub position: &'l str,
    /// Unit of times.
    pub unit: &'l str,
}

impl Call {
    /// Writes it as a JSON line; `time` formats times.
    pub fn write_json(&self, about: &CallLine<'_>, time: &dyn Fn(u64) -> String, line: &mut String) {
        let CallLine { core, process, thread, depth, name, position, unit } = *about;
        let mut object = Object::new(line);
        object.string("kind", "call").string("core", core).optional("process", process).optional("thread", thread);
        object.plain("depth", depth).hex("address", self.function).string("name", name);
        object.string("began", self.began.name()).string("ended", self.ended.name());
        object.plain(position, self.entry.position);
        object.plain(&format!("last_{position}"), self.exit.position);
        let [from, to, own] = [self.entry.time, self.exit.time, self.own.time].map(time);
        object.plain("time", from).plain("last_time", to).plain("own_time", own).string("unit", unit);
        object.plain("instructions", self.total().instructions).plain("own_instructions", self.own.instructions);
        if self.has_gap {
            object.flag("gap", true);
        }
        object.optional(&format!("call_{position}"), self.site.map(|site| site.position));
        if let Some(site) = self.site {
            object.hex("call_address", site.pc);
        }
        object.hex("last_address", self.exit.pc);
        object.optional(&format!("return_{position}"), self.back.map(|back| back.position));
        if let Some(back) = self.back {
            object.hex("return_address", back.pc);
        }
        object.end_line();
    }
}
