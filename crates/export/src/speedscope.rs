//! Files of the profile viewer speedscope: calls in the order of execution.
//!
//! beginnings and ends of calls, stack by stack ─▶ **speedscope** ─▶ JSON with one profile per stack
//!
//! Values never go back within a profile, whatever the calls say, since the viewer refuses such files. The names of functions
//! come after the profiles, so that nothing but them is kept in memory.
//! Format: file-format-schema.json of the npm package speedscope.

use std::collections::HashMap;
use std::io::{self, Write};

use unspool_model::json::quoted;

/// Unit of the values of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueUnit {
    /// Instructions, or ticks of an unknown clock.
    None,
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
}

impl ValueUnit {
    /// The unit with this symbol.
    pub fn of_symbol(symbol: &str) -> Self {
        match symbol {
            "ns" => Self::Nanoseconds,
            "us" => Self::Microseconds,
            "ms" => Self::Milliseconds,
            "s" => Self::Seconds,
            _ => Self::None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Nanoseconds => "nanoseconds",
            Self::Microseconds => "microseconds",
            Self::Milliseconds => "milliseconds",
            Self::Seconds => "seconds",
        }
    }
}

/// Writer of a file.
#[derive(Debug)]
pub struct SpeedscopeWriter<W> {
    out: W,
    /// Numbers of functions, in the order of first appearance.
    frames: HashMap<String, usize>,
    names: Vec<String>,
    profiles: usize,
    line: String,
}

/// A profile under construction. [`finish`](Self::finish) ends it, and the calls in progress.
#[derive(Debug)]
pub struct SpeedscopeProfile<'w, W> {
    writer: &'w mut SpeedscopeWriter<W>,
    /// Decimal places of values.
    decimals: u8,
    open: Vec<usize>,
    start: u64,
    last: u64,
    events: u64,
}

impl<W: Write> SpeedscopeWriter<W> {
    /// Starts a file for a trace of this name.
    pub fn new(mut out: W, name: &str) -> io::Result<Self> {
        let mut line = String::from("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"name\":");
        quoted(&mut line, name);
        line.push_str(",\"exporter\":\"unspool\",\"profiles\":[");
        out.write_all(line.as_bytes())?;
        Ok(Self { out, frames: HashMap::new(), names: Vec::new(), profiles: 0, line })
    }

    /// Starts the profile of a stack, whose values have a number of decimal places and start at `start`.
    pub fn profile(
        &mut self,
        name: &str,
        unit: ValueUnit,
        decimals: u8,
        start: u64,
    ) -> io::Result<SpeedscopeProfile<'_, W>> {
        self.line.clear();
        self.line.push_str(if self.profiles > 0 { ",\n{" } else { "\n{" });
        self.line.push_str("\"type\":\"evented\",\"name\":");
        quoted(&mut self.line, name);
        self.line.push_str(&format!(",\"unit\":\"{}\",\"events\":[", unit.name()));
        self.out.write_all(self.line.as_bytes())?;
        self.profiles += 1;
        Ok(SpeedscopeProfile { writer: self, decimals, open: Vec::new(), start, last: start, events: 0 })
    }

    fn frame(&mut self, name: &str) -> usize {
        if let Some(frame) = self.frames.get(name) {
            return *frame;
        }
        let frame = self.names.len();
        self.names.push(name.to_string());
        self.frames.insert(name.to_string(), frame);
        frame
    }

    /// Ends the file.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(b"],\n\"shared\":{\"frames\":[")?;
        for (index, name) in self.names.iter().enumerate() {
            self.line.clear();
            self.line.push_str(if index > 0 { ",\n{\"name\":" } else { "\n{\"name\":" });
            quoted(&mut self.line, name);
            self.line.push('}');
            self.out.write_all(self.line.as_bytes())?;
        }
        self.out.write_all(b"]}}\n")?;
        Ok(self.out)
    }
}

impl<W: Write> SpeedscopeProfile<'_, W> {
    /// A call of this function begins.
    pub fn begin(&mut self, name: &str, at: u64) -> io::Result<()> {
        let frame = self.writer.frame(name);
        self.open.push(frame);
        self.event('O', frame, at)
    }

    /// The innermost call ends.
    pub fn end(&mut self, at: u64) -> io::Result<()> {
        match self.open.pop() {
            Some(frame) => self.event('C', frame, at),
            None => Ok(()),
        }
    }

    fn event(&mut self, kind: char, frame: usize, at: u64) -> io::Result<()> {
        self.last = self.last.max(at);
        let separator = if self.events > 0 { "," } else { "" };
        self.events += 1;
        let at = decimal(self.last, self.decimals);
        write!(self.writer.out, "{separator}\n{{\"type\":\"{kind}\",\"frame\":{frame},\"at\":{at}}}")
    }

    /// Ends the calls in progress, and the profile.
    pub fn finish(mut self) -> io::Result<()> {
        while !self.open.is_empty() {
            self.end(self.last)?;
        }
        let [start, end] = [self.start, self.last].map(|value| decimal(value, self.decimals));
        write!(self.writer.out, "],\"startValue\":{start},\"endValue\":{end}}}")
    }
}

/// A number with decimal places.
pub(crate) fn decimal(value: u64, decimals: u8) -> String {
    let decimals = usize::from(decimals);
    if decimals == 0 {
        return value.to_string();
    }
    let digits = format!("{value:0width$}", width = decimals + 1);
    let (whole, fraction) = digits.split_at(digits.len() - decimals);
    format!("{whole}.{fraction}")
}
