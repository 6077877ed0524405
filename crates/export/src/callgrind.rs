//! Callgrind profiles: own cost by function and source line, and the calls of each line with their cost.
//!
//! [`CallCosts`] + names of functions and lines ─▶ [`Profile`] ─▶ a file for `callgrind_annotate` and KCachegrind
//!
//! Several sources are added up. A function is one of an object and a file with a name; what it inlined has the file and line that
//! it is from (`fi`, `fe`). As callgrind writes it, calls of a function from within itself are those of another one, `name'2`.
//! What has no line is in line 0 of the file `???`. Specification: Valgrind manual, "Callgrind Format Specification".

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::sync::Arc;

use unspool_analyze::call_costs::{CallArc, CallCosts, Function};
use unspool_analyze::calls::Cost;

/// File of what has no line.
const UNKNOWN: &str = "???";

/// A line of a source file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// Its path.
    pub file: Arc<str>,
    /// Its number; 0: unknown.
    pub number: u32,
}

impl Default for Line {
    fn default() -> Self {
        Self { file: UNKNOWN.into(), number: 0 }
    }
}

/// A function by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The program or library that has it.
    pub object: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its first line.
    pub line: Line,
}

/// Names of functions and lines.
pub trait Names {
    /// The function at an address.
    fn function(&mut self, process: Option<u64>, address: u64) -> Named;

    /// The line of an instruction.
    fn line(&mut self, process: Option<u64>, address: u64) -> Option<Line>;
}

/// Key of a function in the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    object: Arc<str>,
    file: Arc<str>,
    name: Arc<str>,
}

/// What a function cost.
#[derive(Debug, Default)]
struct Body {
    first_line: u32,
    own: BTreeMap<Line, Cost>,
    /// Calls by line and called function, with their number.
    calls: BTreeMap<(Line, Key), (u64, Cost)>,
}

/// Costs of functions, from any number of sources.
#[derive(Debug, Default)]
pub struct Profile {
    functions: BTreeMap<Key, Body>,
    total: Cost,
}

/// Which costs are written, and what is written about the trace.
#[derive(Debug, Clone, Default)]
pub struct Header {
    /// The unit of times; `None`: times are not written.
    pub time: Option<String>,
    /// The traces.
    pub traces: String,
    /// How often part of the execution is missing.
    pub gaps: u64,
}

impl Profile {
    /// A profile without costs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the costs of a source.
    pub fn add(&mut self, costs: &CallCosts, names: &mut dyn Names) {
        let mut known = Known { names, functions: HashMap::new() };
        for ((function, address), count) in &costs.own {
            let (key, first_line) = known.function(*function);
            let line = known.names.line(function.process, *address).unwrap_or_default();
            let body = self.body(key, first_line);
            add(body.own.entry(line).or_default(), count.cost);
        }
        for (CallArc { caller, site, callee }, count) in &costs.arcs {
            let ((from, first_line), (to, called_line)) = (known.function(*caller), known.function(*callee));
            self.body(to.clone(), called_line);
            let line = known.names.line(caller.process, *site).unwrap_or_default();
            let calls = self.body(from, first_line).calls.entry((line, to)).or_default();
            calls.0 += count.count;
            add(&mut calls.1, count.cost);
        }
        add(&mut self.total, costs.total);
    }

    /// The sum of all own costs.
    pub fn total(&self) -> Cost {
        self.total
    }

    /// The number of functions.
    pub fn functions(&self) -> usize {
        self.functions.len()
    }

    /// Writes the file.
    pub fn write(&self, header: &Header, out: &mut dyn Write) -> io::Result<()> {
        let mut writer = Writer { profile: self, has_times: header.time.is_some(), ids: HashMap::new(), out };
        writer.header(header)?;
        for (key, body) in &self.functions {
            writer.function(key, body)?;
        }
        let totals = writer.costs(self.total);
        writeln!(writer.out, "\ntotals:{totals}")
    }

    fn body(&mut self, key: Key, first_line: u32) -> &mut Body {
        self.functions.entry(key).or_insert_with(|| Body { first_line, ..Body::default() })
    }
}

fn add(cost: &mut Cost, more: Cost) {
    cost.time = cost.time.saturating_add(more.time);
    cost.instructions = cost.instructions.saturating_add(more.instructions);
}

/// Functions that were looked up.
struct Known<'n> {
    names: &'n mut dyn Names,
    functions: HashMap<Function, (Key, u32)>,
}

impl Known<'_> {
    /// The key of a function, and its first line.
    fn function(&mut self, function: Function) -> (Key, u32) {
        let Self { names, functions } = self;
        let make = || {
            let Named { object, name, line } = names.function(function.process, function.address);
            let name = if function.is_recursion { format!("{name}'2").into() } else { name };
            (Key { object, file: line.file, name }, line.number)
        };
        functions.entry(function).or_insert_with(make).clone()
    }
}

/// Kind of a name that is written once and then referred to by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Object,
    File,
    Function,
}

struct Writer<'p, 'o> {
    profile: &'p Profile,
    has_times: bool,
    ids: HashMap<(Kind, Arc<str>), usize>,
    out: &'o mut dyn Write,
}

impl Writer<'_, '_> {
    fn header(&mut self, header: &Header) -> io::Result<()> {
        writeln!(self.out, "# callgrind format\nversion: 1\ncreator: unspool")?;
        writeln!(self.out, "cmd: {}", one_line(&header.traces))?;
        if header.gaps > 0 {
            writeln!(self.out, "desc: Gaps: {}, so all costs are lower bounds", header.gaps)?;
        }
        writeln!(self.out, "positions: line\nevent: Ir : Instructions")?;
        match &header.time {
            Some(unit) if unit.is_empty() => writeln!(self.out, "event: Time : Time\nevents: Ir Time")?,
            Some(unit) => writeln!(self.out, "event: Time : Time in {unit}\nevents: Ir Time")?,
            None => writeln!(self.out, "events: Ir")?,
        }
        let summary = self.costs(self.profile.total);
        writeln!(self.out, "summary:{summary}")
    }

    fn function(&mut self, key: &Key, body: &Body) -> io::Result<()> {
        writeln!(self.out)?;
        self.position("ob", Kind::Object, &key.object)?;
        self.position("fl", Kind::File, &key.file)?;
        self.position("fn", Kind::Function, &key.name)?;
        // The function's own file first: other files are parts of it.
        self.file(key, body, &key.file)?;
        for file in other_files(key, body) {
            self.position("fi", Kind::File, &file)?;
            self.file(key, body, &file)?;
        }
        Ok(())
    }

    /// Lines and calls in one file.
    fn file(&mut self, key: &Key, body: &Body, file: &Arc<str>) -> io::Result<()> {
        for (line, cost) in body.own.iter().filter(|(line, _)| line.file == *file) {
            let cost = self.costs(*cost);
            writeln!(self.out, "{}{cost}", line.number)?;
        }
        for ((line, callee), (calls, cost)) in body.calls.iter().filter(|((line, _), _)| line.file == *file) {
            if callee.object != key.object {
                self.position("cob", Kind::Object, &callee.object)?;
            }
            self.position("cfi", Kind::File, &callee.file)?;
            self.position("cfn", Kind::Function, &callee.name)?;
            let first_line = self.profile.functions.get(callee).map_or(0, |callee| callee.first_line);
            let cost = self.costs(*cost);
            writeln!(self.out, "calls={calls} {first_line}\n{}{cost}", line.number)?;
        }
        Ok(())
    }

    fn position(&mut self, spec: &str, kind: Kind, name: &Arc<str>) -> io::Result<()> {
        let next = self.ids.len() + 1;
        match self.ids.get(&(kind, Arc::clone(name))) {
            Some(id) => writeln!(self.out, "{spec}=({id})"),
            None => {
                self.ids.insert((kind, Arc::clone(name)), next);
                writeln!(self.out, "{spec}=({next}) {}", one_line(name))
            }
        }
    }

    fn costs(&self, cost: Cost) -> String {
        if self.has_times { format!(" {} {}", cost.instructions, cost.time) } else { format!(" {}", cost.instructions) }
    }
}

/// Files of a function other than its own.
fn other_files(key: &Key, body: &Body) -> Vec<Arc<str>> {
    let mut files: Vec<Arc<str>> =
        body.own.keys().chain(body.calls.keys().map(|(line, _)| line)).map(|line| Arc::clone(&line.file)).collect();
    files.sort_unstable();
    files.dedup();
    files.retain(|file| *file != key.file);
    files
}

/// Text without line breaks.
fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use unspool_analyze::call_costs::Count;

    use super::*;

    /// Functions at 0x1000 and 0x2000 of one file; the second inlined a line of a header.
    struct Two;

    impl Names for Two {
        fn function(&mut self, _process: Option<u64>, address: u64) -> Named {
            let name = if address < 0x2000 { "main" } else { "func\n1" };
            let number = if address < 0x2000 { 15 } else { 50 };
            Named { object: "a.out".into(), name: name.into(), line: Line { file: "file1.c".into(), number } }
        }

        fn line(&mut self, _process: Option<u64>, address: u64) -> Option<Line> {
            let (file, number) = match address {
                0x1000 => ("file1.c", 16),
                0x2000 => ("file1.c", 51),
                0x2004 => ("inline.h", 7),
                _ => return None,
            };
            Some(Line { file: file.into(), number })
        }
    }

    /// By the specification: own costs by line, then calls with the inclusive cost at the line of the call.
    #[test]
    fn functions_lines_and_calls() {
        let function = |address| Function { address, ..Function::default() };
        let count = |count, instructions, time| Count { count, cost: Cost { time, instructions } };
        let own = [
            ((function(0x1000), 0x1000), count(20, 20, 40)),
            ((function(0x1000), 0x1008), count(1, 1, 0)),
            ((function(0x2000), 0x2000), count(2, 2, 6)),
            ((function(0x2000), 0x2004), count(3, 3, 9)),
        ];
        let arc = CallArc { caller: function(0x1000), site: 0x1000, callee: function(0x2000) };
        let costs = CallCosts {
            own: own.into_iter().collect(),
            arcs: [(arc, count(2, 5, 15))].into_iter().collect(),
            total: Cost { time: 55, instructions: 26 },
            ..CallCosts::default()
        };
        let mut profile = Profile::new();
        profile.add(&costs, &mut Two);
        let mut text = Vec::new();
        let header = Header { time: Some("ns".to_string()), traces: "run.astf".to_string(), gaps: 0 };
        profile.write(&header, &mut text).unwrap();
        let expected = "\
# callgrind format
version: 1
creator: unspool
cmd: run.astf
positions: line
event: Ir : Instructions
event: Time : Time in ns
events: Ir Time
summary: 26 55

ob=(1) a.out
fl=(2) file1.c
fn=(3) func?1
51 2 6
fi=(4) inline.h
7 3 9

ob=(1)
fl=(2)
fn=(5) main
16 20 40
cfi=(2)
cfn=(3)
calls=2 50
16 5 15
fi=(6) ???
0 1 0

totals: 26 55
";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
