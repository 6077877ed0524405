//! Flame graphs: one picture (SVG) with its own search and zoom, of one trace or of two to compare.
//!
//! tree of stacks, what is counted ─▶ frames from left to right, callees below their callers ─▶ **SVG**
//!
//! A click on a frame zooms, and a field searches names, by a script in the file. A frame that is narrower than a tenth of
//! a pixel is left out with its callees, so the size of the picture does not grow with that of the trace. Compared with
//! another trace, widths are those of the shown one; red frames cost more themselves, blue ones less.

use std::fmt::Write as _;
use std::io::{self, Write};

use unspool_analyze::calls::Cost;

use crate::stacks::StackTree;

/// Width of the picture, and of the margin on each side.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;

/// Height of a frame, and of what is above the frames.
const ROW: usize = 17;
const HEAD: usize = 64;

/// Width of a character of a label.
const CHARACTER: f64 = 7.0;

/// Width below which a frame is left out.
const MIN_WIDTH: f64 = 0.1;

const SCRIPT: &str = include_str!("flamegraph/script.js");
const STYLE: &str = include_str!("flamegraph/style.css");

/// Texts and meaning of a flame graph.
pub struct FlameOptions<'o> {
    /// The heading.
    pub title: &'o str,
    /// What is counted.
    pub weight: &'o dyn Fn(Cost) -> u64,
    /// A weight in words, with its unit.
    pub text: &'o dyn Fn(u64) -> String,
    /// Whether the tree has another trace to compare with.
    pub is_comparison: bool,
}

/// What a picture contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drawn {
    /// Number of frames.
    pub frames: usize,
    /// Number of stacks that are too narrow to be drawn.
    pub left_out: usize,
}

/// Writes a flame graph.
pub fn write_flamegraph(out: &mut dyn Write, tree: &StackTree, options: &FlameOptions<'_>) -> io::Result<Drawn> {
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>")?;
    write_picture(out, tree, options)
}

/// Writes the picture alone, as a part of a page.
pub(crate) fn write_picture(out: &mut dyn Write, tree: &StackTree, options: &FlameOptions<'_>) -> io::Result<Drawn> {
    let layout = Layout::new(tree, options);
    let depth = layout.frames.iter().map(|frame| frame.depth).max().unwrap_or(0);
    let height = HEAD + (depth + 1) * ROW + MARGIN as usize;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\">"
    )?;
    writeln!(out, "<style>{STYLE}</style>\n<rect class=\"page\" width=\"100%\" height=\"100%\"/>")?;
    writeln!(out, "<text class=\"title\" x=\"{}\" y=\"24\">{}</text>", WIDTH / 2.0, escaped(options.title))?;
    writeln!(out, "<text id=\"detail\" x=\"{MARGIN}\" y=\"52\">{}</text>", escaped(&layout.summary()))?;
    out.write_all(CONTROLS.as_bytes())?;
    writeln!(out, "<g id=\"frames\">")?;
    let mut line = String::new();
    for frame in &layout.frames {
        line.clear();
        layout.push_frame(&mut line, frame);
        out.write_all(line.as_bytes())?;
    }
    writeln!(out, "</g>\n<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>")?;
    Ok(Drawn { frames: layout.frames.len(), left_out: layout.left_out })
}

/// The controls, which only the script shows.
const CONTROLS: &str = "\
<text id=\"reset\" class=\"hidden\" x=\"10\" y=\"24\">Reset zoom</text>
<text id=\"matched\" x=\"1190\" y=\"52\"></text>
<foreignObject id=\"search\" class=\"hidden\" x=\"990\" y=\"8\" width=\"200\" height=\"28\">\
<input xmlns=\"http://www.w3.org/1999/xhtml\" type=\"search\" placeholder=\"Search (regular expression)\"/></foreignObject>
";

/// A function at its place. Position and width are shares of the whole.
struct Frame {
    /// Index in the tree; `None`: the frame below all.
    node: Option<usize>,
    depth: usize,
    x: f64,
    width: f64,
}

struct Layout<'t> {
    tree: &'t StackTree,
    options: &'t FlameOptions<'t>,
    /// Weight of each node with callees, in both traces.
    totals: Vec<[u64; 2]>,
    total: [u64; 2],
    /// The largest change of an own weight.
    change: u64,
    frames: Vec<Frame>,
    left_out: usize,
}

impl<'t> Layout<'t> {
    fn new(tree: &'t StackTree, options: &'t FlameOptions<'t>) -> Self {
        let own: Vec<[u64; 2]> = tree.nodes.iter().map(|node| node.own.map(options.weight)).collect();
        let change = own.iter().map(|[shown, base]| shown.abs_diff(*base)).max().unwrap_or(0);
        let (mut totals, mut total) = (own, [0; 2]);
        for index in (0..tree.nodes.len()).rev() {
            let weight = totals[index];
            let outer = match tree.nodes[index].parent {
                Some(parent) => &mut totals[parent],
                None => &mut total,
            };
            *outer = [0, 1].map(|side| outer[side].saturating_add(weight[side]));
        }
        let mut layout = Self { tree, options, totals, total, change, frames: Vec::new(), left_out: 0 };
        layout.place();
        layout
    }

    /// Places frames from left to right, sorted by name within their caller.
    fn place(&mut self) {
        let mut callees: Vec<(Option<usize>, &str, usize)> = Vec::with_capacity(self.tree.nodes.len());
        callees.extend(
            self.tree.nodes.iter().enumerate().map(|(index, node)| (node.parent, self.tree.name_of(node), index)),
        );
        callees.sort_unstable();
        let mut waiting = vec![Frame { node: None, depth: 0, x: 0.0, width: 1.0 }];
        while let Some(frame) = waiting.pop() {
            let first = callees.partition_point(|(parent, ..)| *parent < frame.node);
            let of_frame = callees[first..].iter().take_while(|(parent, ..)| *parent == frame.node);
            let (mut x, start) = (frame.x, waiting.len());
            // The frame below all has no node, and comes first.
            for (_, _, index) in of_frame {
                let width = self.totals[*index][0] as f64 / self.total[0].max(1) as f64;
                if width * (WIDTH - 2.0 * MARGIN) >= MIN_WIDTH {
                    waiting.push(Frame { node: Some(*index), depth: frame.depth + 1, x, width });
                }
                x += width;
            }
            waiting[start..].reverse();
            self.frames.push(frame);
        }
        self.left_out = self.tree.nodes.len() + 1 - self.frames.len();
    }

    fn summary(&self) -> String {
        let (shown, base) = (self.total[0], self.total[1]);
        let text = (self.options.text)(shown);
        if self.options.is_comparison { format!("{text}, compared with {}", (self.options.text)(base)) } else { text }
    }

    fn push_frame(&self, line: &mut String, frame: &Frame) {
        let Frame { depth, x, width, node } = *frame;
        let name = node.map_or("all", |node| self.tree.name_of(&self.tree.nodes[node]));
        let scale = WIDTH - 2.0 * MARGIN;
        let (left, top, pixels) = (MARGIN + x * scale, HEAD + depth * ROW, width * scale);
        let _ = write!(line, "<g data-x=\"{x:.7}\" data-w=\"{width:.7}\" data-d=\"{depth}\"><title>");
        push_escaped(line, &self.description(name, node));
        let _ = write!(
            line,
            "</title><rect x=\"{left:.1}\" y=\"{top}\" width=\"{pixels:.1}\" height=\"{}\" fill=\"{}\"/>",
            ROW - 1,
            self.color(name, node)
        );
        let _ = write!(line, "<text x=\"{:.1}\" y=\"{}\">", left + 3.0, top + 12);
        push_escaped(line, &label(name, pixels));
        line.push_str("</text></g>\n");
    }

    /// Name, and in the next line weights and shares of a frame.
    fn description(&self, name: &str, node: Option<usize>) -> String {
        let [shown, base] = node.map_or(self.total, |node| self.totals[node]);
        let share = |part: u64, all: u64| if all == 0 { 0.0 } else { part as f64 * 100.0 / all as f64 };
        let text = format!("{name}\n{}, {:.2}%", (self.options.text)(shown), share(shown, self.total[0]));
        if !self.options.is_comparison {
            return text;
        }
        let sign = if shown < base { '-' } else { '+' };
        format!("{text} ({sign}{}; before: {})", (self.options.text)(shown.abs_diff(base)), (self.options.text)(base))
    }

    fn color(&self, name: &str, node: Option<usize>) -> String {
        if !self.options.is_comparison {
            return warm(name);
        }
        let [shown, base] = node.map_or([0, 0], |node| self.tree.nodes[node].own.map(self.options.weight));
        let strength = (shown.abs_diff(base) as f64 / self.change.max(1) as f64).sqrt();
        let other = 250 - (strength * 190.0) as u8;
        match shown.cmp(&base) {
            std::cmp::Ordering::Greater => format!("rgb(250,{other},{other})"),
            std::cmp::Ordering::Less => format!("rgb({other},{other},250)"),
            std::cmp::Ordering::Equal => "rgb(250,250,250)".to_string(),
        }
    }
}

/// A color between red and yellow that depends on the name, so that a function has the same one everywhere.
fn warm(name: &str) -> String {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let [first, second, third, _] = hash.to_le_bytes();
    format!("rgb({},{},{})", 205 + first / 6, 90 + second / 2, 40 + third / 5)
}

/// The part of a name that fits.
fn label(name: &str, pixels: f64) -> String {
    let fits = ((pixels - 6.0).max(0.0) / CHARACTER) as usize;
    if name.chars().count() <= fits {
        return name.to_string();
    }
    if fits < 3 { String::new() } else { name.chars().take(fits - 2).chain("..".chars()).collect() }
}

pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    push_escaped(&mut out, text);
    out
}

/// Adds text as XML. Control characters but the line feed are left out: XML cannot have most of them.
fn push_escaped(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => {}
            '\n' => out.push('\n'),
            other if other.is_control() => {}
            other => out.push(other),
        }
    }
}
