//! A page about a trace that needs nothing but a browser: facts, gaps, timeline, flame graph, hot functions, further tables.
//!
//! facts, slices, stacks, rows ─▶ **page** ─▶ one HTML file with its script and data
//!
//! The timeline keeps what can be seen of it: slices narrower than a thousandth of its length are left out, and the number of slices
//! and marks is limited. So the page does not grow with the trace.

use std::io::{self, Write};

use unspool_model::json::quoted;

use crate::flamegraph::{FlameOptions, escaped, write_picture};
use crate::stacks::StackTree;

/// Maximum number of slices and of marks.
const MAX_SLICES: usize = 200_000;
const MAX_MARKS: usize = 10_000;

/// Maximum number of slices within each other.
const MAX_DEPTH: usize = 40;

/// Slices narrower than this part of the timeline are left out.
const PARTS: u64 = 1000;

const SCRIPT: &str = include_str!("html/script.js");
const STYLE: &str = include_str!("html/style.css");

/// What a page shows.
pub struct Page<'p> {
    /// The heading.
    pub title: &'p str,
    /// Facts about the trace: names and values.
    pub facts: &'p [(String, String)],
    /// Where part of the execution is missing, in words.
    pub gaps: &'p [String],
    /// What happened when.
    pub timeline: &'p Timeline,
    /// What the axis of the timeline counts.
    pub axis: &'p str,
    /// The stacks of the flame graph.
    pub stacks: &'p StackTree,
    /// How it is drawn.
    pub flame: &'p FlameOptions<'p>,
    /// The hottest functions.
    pub functions: &'p [FunctionRow],
    /// Further tables.
    pub tables: &'p [Table],
}

/// A table with its heading.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// The id of its element.
    pub id: &'static str,
    /// The heading.
    pub title: String,
    /// A sentence before the table, if it is not empty.
    pub note: String,
    /// The columns.
    pub columns: Vec<&'static str>,
    /// The rows. Without rows, only the note is shown.
    pub rows: Vec<Vec<String>>,
}

/// A function: its name, calls, and what it cost without and with callees, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionRow {
    /// The name.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Without callees.
    pub own: String,
    /// With callees.
    pub total: String,
}

/// Slices on tracks.
#[derive(Debug, Default)]
pub struct Timeline {
    tracks: Vec<TimelineTrack>,
    marks: Vec<(u64, String)>,
    slices: usize,
    left_out: u64,
}

#[derive(Debug)]
struct TimelineTrack {
    name: String,
    slices: Vec<Slice>,
    /// Calls in progress, by their beginning and name; too deep ones are counted.
    open: Vec<(u64, String)>,
    shortest: u64,
    /// Points, in a row of their own.
    instants: Vec<(u64, String)>,
}

#[derive(Debug)]
struct Slice {
    from: u64,
    to: u64,
    depth: usize,
    name: String,
}

impl Timeline {
    /// Adds a track of this length, on which the following slices are.
    pub fn track(&mut self, name: &str, length: u64) {
        let track = TimelineTrack {
            name: name.to_string(),
            slices: Vec::new(),
            open: Vec::new(),
            shortest: length.div_ceil(PARTS),
            instants: Vec::new(),
        };
        self.tracks.push(track);
    }

    /// A slice begins on the last track.
    pub fn begin(&mut self, at: u64, name: &str) {
        if let Some(track) = self.tracks.last_mut() {
            let name = if track.open.len() < MAX_DEPTH { name.to_string() } else { String::new() };
            track.open.push((at, name));
        }
    }

    /// The innermost slice of the last track ends.
    pub fn end(&mut self, at: u64) {
        let Some(track) = self.tracks.last_mut() else { return };
        let Some((from, name)) = track.open.pop() else { return };
        let depth = track.open.len();
        if at.saturating_sub(from) < track.shortest || depth >= MAX_DEPTH || self.slices >= MAX_SLICES {
            self.left_out += 1;
            return;
        }
        self.slices += 1;
        track.slices.push(Slice { from, to: at.max(from), depth, name });
    }

    /// A point on the last track.
    pub fn instant(&mut self, at: u64, text: &str) {
        if let Some(track) = self.tracks.last_mut() {
            track.instants.push((at, text.to_string()));
        }
    }

    /// Marks a point of all tracks.
    pub fn mark(&mut self, at: u64, name: &str) {
        if self.marks.len() < MAX_MARKS {
            self.marks.push((at, name.to_string()));
        }
    }

    /// Number of slices that are too narrow or too deep to be seen.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The data of the script.
    fn json(&self) -> String {
        let mut out = String::from("{\"tracks\":[");
        for (index, track) in self.tracks.iter().enumerate() {
            out.push_str(if index > 0 { ",\n{\"name\":" } else { "\n{\"name\":" });
            quoted(&mut out, &track.name);
            out.push_str(",\"slices\":[");
            for (index, Slice { from, to, depth, name }) in track.slices.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                out.push_str(&format!("[{from},{to},{depth},"));
                quoted(&mut out, name);
                out.push(']');
            }
            out.push_str("],\"instants\":[");
            push_points(&mut out, &track.instants);
            out.push_str("]}");
        }
        out.push_str("],\n\"marks\":[");
        push_points(&mut out, &self.marks);
        out.push_str("]}");
        // The text of a script ends at its first end tag, wherever that is.
        out.replace('<', "\\u003c")
    }
}

/// Adds times with their texts.
fn push_points(out: &mut String, points: &[(u64, String)]) {
    for (index, (at, text)) in points.iter().enumerate() {
        out.push_str(if index > 0 { "," } else { "" });
        out.push_str(&format!("[{at},"));
        quoted(out, text);
        out.push(']');
    }
}

/// Writes a page.
pub fn write_page(out: &mut dyn Write, page: &Page<'_>) -> io::Result<()> {
    let title = escaped(page.title);
    writeln!(out, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>")?;
    writeln!(out, "<style>{STYLE}</style>\n<h1>{title}</h1>")?;
    writeln!(out, "<h2>Summary</h2>\n<table id=\"facts\">")?;
    for (name, value) in page.facts {
        writeln!(out, "<tr><th>{}<td>{}", escaped(name), escaped(value))?;
    }
    writeln!(out, "</table>\n<h2>Gaps</h2>\n<ul id=\"gaps\">")?;
    for gap in page.gaps {
        writeln!(out, "<li>{}", escaped(gap))?;
    }
    if page.gaps.is_empty() {
        writeln!(out, "<li>None")?;
    }
    writeln!(out, "</ul>\n<h2>Timeline</h2>\n<p>The axis is {}; wheel zooms, dragging moves.", escaped(page.axis))?;
    writeln!(out, "<canvas id=\"timeline\"></canvas>\n<p id=\"about\">&nbsp;</p>")?;
    writeln!(out, "<script type=\"application/json\" id=\"data\">{}</script>", page.timeline.json())?;
    writeln!(out, "<h2>Flame graph</h2>")?;
    write_picture(out, page.stacks, page.flame)?;
    writeln!(out, "<h2>Hot functions</h2>\n<table id=\"functions\">\n<tr><th>self<th>total<th>calls<th>function")?;
    for FunctionRow { name, calls, own, total } in page.functions {
        writeln!(out, "<tr><td>{}<td>{}<td>{calls}<td>{}", escaped(own), escaped(total), escaped(name))?;
    }
    writeln!(out, "</table>")?;
    page.tables.iter().try_for_each(|table| write_table(out, table))?;
    writeln!(out, "<script>\n{SCRIPT}</script>\n</html>")
}

fn write_table(out: &mut dyn Write, table: &Table) -> io::Result<()> {
    writeln!(out, "<h2>{}</h2>", escaped(&table.title))?;
    if !table.note.is_empty() {
        writeln!(out, "<p>{}", escaped(&table.note))?;
    }
    if table.rows.is_empty() {
        return Ok(());
    }
    write!(out, "<table id=\"{}\">\n<tr>", table.id)?;
    table.columns.iter().try_for_each(|column| write!(out, "<th>{}", escaped(column)))?;
    writeln!(out)?;
    for row in &table.rows {
        write!(out, "<tr>")?;
        row.iter().try_for_each(|cell| write!(out, "<td>{}", escaped(cell)))?;
        writeln!(out)?;
    }
    writeln!(out, "</table>")
}
