//! Load addresses of position-independent images, found from the trace.
//!
//! ```text
//! addresses in the trace ┐                                   ┌ one agrees: moved, with a note
//! block starts of image  ├─▶ votes for ─▶ trial decoding ─▶ ─┤ several: unchanged, with a note
//! (same offset in page)  ┘   load biases  of the best        └ none:    unchanged, with a note
//! ```
//!
//! A loader moves a program by whole pages, so an address in the trace and the place in the image that it belongs to have
//! the same offset in their pages. Every pair of them votes for a bias; the best ones are decoded with, and only one may
//! agree with the trace. `docs/decisions/unspool.md` has the reasons for the limits.

mod opcodes;

use std::collections::{HashMap, HashSet};

use unspool_capture::{Capture, Code, Machine, Note, NoteKind, Region};
use unspool_coresight::{Element, ElementItem, Sink, SubIsa, Transactions};
use unspool_flow::{FlowItem, FlowSink, Item, Run};
use unspool_isa::{Isa, decode};

pub use self::opcodes::place_images_by_steps;
use crate::{Program, Trace, Watch};

/// Loaders move programs by pages, of which this is the smallest size.
const PAGE_MASK: u64 = 0xfff;

/// Bytes of trace that are read for evidence, from the start of each buffer.
const TRACE_LIMIT: u64 = 16 << 20;

/// Different addresses that vote.
const MAX_ADDRESSES: usize = 4 << 10;

/// Bytes of an image that are searched for block starts.
const CODE_LIMIT: usize = 64 << 20;

/// Votes in total, so that a large image takes bounded memory.
const MAX_VOTES: usize = 1 << 21;

/// Biases that are tried.
const MAX_TRIALS: usize = 8;

/// Ranges that a trial has to decode in the image. Fewer could agree by chance.
const MIN_RANGES: u64 = 16;

/// A real trace may disagree with its program now and then: code is patched, and trace is damaged.
const RANGES_PER_FINDING: u64 = 64;

/// Moves position-independent images without an address to where the trace shows that they were loaded. Notes report
/// where that is, or that it is unknown; other images stay as they are.
pub fn place_images(capture: &Capture, codes: &mut [Code]) -> Vec<Note> {
    let mut notes = Vec::new();
    if !codes.iter().any(|code| code.is_unplaced) {
        return notes;
    }
    let listed = capture.code(None).codes;
    let evidence = Evidence::of(capture);
    for code in codes.iter_mut().filter(|code| code.is_unplaced) {
        let placement = listed_bias(code, &listed).unwrap_or_else(|| find(capture, &evidence, code));
        notes.extend(placement.note(code));
        placement.apply(code);
    }
    notes
}

/// Where an image was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Placement {
    At { bias: u64, because: String },
    Ambiguous(Vec<u64>),
    Unknown,
}

impl Placement {
    /// Moves the image. One whose address is unknown stays, and is not looked for again.
    fn apply(&self, code: &mut Code) {
        match self {
            Self::At { bias, .. } => *code = code.moved(*bias),
            _ => code.is_unplaced = false,
        }
    }

    fn note(&self, code: &Code) -> Option<Note> {
        let at = |bias: &u64| format!("{:#x}", code.first_page().wrapping_add(*bias));
        let (kind, text) = match self {
            // Loaded where it was linked, as expected.
            Self::At { bias: 0, .. } => return None,
            Self::At { bias, because } => {
                (NoteKind::Placed, format!("position-independent; placed at {}: {because}", at(bias)))
            }
            Self::Ambiguous(biases) => {
                let addresses: Vec<String> = biases.iter().map(at).collect();
                let text = format!(
                    "position-independent, and the trace fits several load addresses ({}); add one: --image {}@ADDR",
                    addresses.join(", "),
                    code.name
                );
                (NoteKind::Unplaced, text)
            }
            Self::Unknown => {
                let text = format!(
                    "position-independent, and the trace does not show where it was loaded; add the address: --image {}@ADDR",
                    code.name
                );
                (NoteKind::Unplaced, text)
            }
        };
        Some(Note { kind, file: code.name.clone(), line: None, offset: None, text })
    }
}

/// The bias of the same file among the images of the capture, which have addresses.
fn listed_bias(code: &Code, listed: &[Code]) -> Option<Placement> {
    let id = code.build_id.as_ref()?;
    let same = listed.iter().find(|other| other.raw && other.build_id.as_ref() == Some(id))?;
    let because = "the capture lists a memory image with its build ID".to_string();
    Some(Placement::At { bias: same.bias.wrapping_sub(code.bias), because })
}

/// Addresses at which the trace shows execution to continue, by instruction set.
#[derive(Debug, Default)]
struct Evidence {
    addresses: Vec<(Isa, u64)>,
    seen: HashSet<(Isa, u64)>,
    is_aarch64: bool,
    bytes: u64,
}

impl Evidence {
    /// Reads the starts of all traces of a capture. Those that cannot be read show nothing.
    fn of(capture: &Capture) -> Self {
        let mut evidence = Self::default();
        for trace in Trace::all(capture) {
            (evidence.is_aarch64, evidence.bytes) = (true, 0);
            let _ = trace.elements(&mut evidence);
        }
        evidence
    }
}

impl Sink<ElementItem> for Evidence {
    fn item(&mut self, item: ElementItem) {
        match item.map(|item| item.value) {
            Ok(Element::Context(context)) => self.is_aarch64 = context.aarch64,
            Ok(Element::TargetAddress(target)) if self.addresses.len() < MAX_ADDRESSES => {
                let isa = match (self.is_aarch64, target.isa) {
                    (true, _) => Isa::A64,
                    (false, SubIsa::Is0) => Isa::A32,
                    (false, _) => Isa::T32,
                };
                if self.seen.insert((isa, target.address)) {
                    self.addresses.push((isa, target.address));
                }
            }
            _ => {}
        }
    }
}

impl Watch for Evidence {
    fn wants_more(&mut self) -> bool {
        self.bytes < TRACE_LIMIT && self.addresses.len() < MAX_ADDRESSES
    }

    fn progress(&mut self, read: u64, _total: u64) {
        self.bytes = read;
    }
}

/// Finds the bias at which the image agrees with the trace.
fn find(capture: &Capture, evidence: &Evidence, code: &Code) -> Placement {
    let trials: Vec<Trial> = best_biases(evidence, code)
        .into_iter()
        .map(|(bias, votes)| Trial::run(capture, code, bias, votes))
        .filter(Trial::agrees)
        .collect();
    choose(&trials)
}

/// The only trial that explains the trace. One that explains less than half as much as the best is a coincidence.
fn choose(trials: &[Trial]) -> Placement {
    let Some(best) = trials.iter().map(|trial| trial.ranges).max() else { return Placement::Unknown };
    let good: Vec<&Trial> = trials.iter().filter(|trial| trial.ranges * 2 >= best).collect();
    match good[..] {
        [Trial { bias, votes, ranges, .. }] => {
            let because = format!("{votes} addresses and {ranges} ranges of the trace agree");
            Placement::At { bias: *bias, because }
        }
        _ => Placement::Ambiguous(good.iter().map(|trial| trial.bias).collect()),
    }
}

/// Biases with the most votes, and the number of votes.
fn best_biases(evidence: &Evidence, code: &Code) -> Vec<(u64, u32)> {
    let starts: HashMap<Isa, Starts> = isas(code).iter().map(|isa| (*isa, Starts::of(code, *isa))).collect();
    let mut votes: HashMap<u64, u32> = HashMap::new();
    let mut left = MAX_VOTES;
    for (isa, address) in &evidence.addresses {
        let Some(starts) = starts.get(isa) else { continue };
        let with_same_offset = starts.at_offset(*address);
        if with_same_offset.len() > left {
            break;
        }
        left -= with_same_offset.len();
        for start in with_same_offset {
            *votes.entry(address.wrapping_sub(*start)).or_default() += 1;
        }
    }
    let mut ordered: Vec<(u64, u32)> = votes.into_iter().collect();
    ordered.sort_unstable_by_key(|(bias, votes)| (std::cmp::Reverse(*votes), *bias));
    let best = ordered.first().map_or(0, |(_, votes)| *votes);
    ordered.retain(|(_, votes)| votes * 4 >= best);
    ordered.truncate(MAX_TRIALS);
    ordered
}

/// Instruction sets of an image.
fn isas(code: &Code) -> &'static [Isa] {
    match code.machine {
        Some(Machine::AArch64) => &[Isa::A64],
        Some(Machine::Arm) => &[Isa::A32, Isa::T32],
        _ => &[],
    }
}

/// Addresses of an image at which execution may continue after a branch: functions, targets of branches, and the
/// instructions after branches. Grouped by their offset in the page.
struct Starts(HashMap<u64, Vec<u64>>);

impl Starts {
    fn of(code: &Code, isa: Isa) -> Self {
        let mut starts: Vec<u64> = code.symbols.iter().map(|symbol| symbol.address).collect();
        let mut left = CODE_LIMIT;
        for region in &code.regions {
            let bytes = &region.bytes[..region.bytes.len().min(left)];
            left -= bytes.len();
            sweep(isa, region, bytes, code.big_endian_code, &mut starts);
        }
        starts.sort_unstable();
        starts.dedup();
        let is_inside = |start: &u64| code.regions.iter().any(|region| region.starting_at(*start).is_some());
        let mut groups: HashMap<u64, Vec<u64>> = HashMap::new();
        for start in starts.into_iter().filter(is_inside) {
            groups.entry(start & PAGE_MASK).or_default().push(start);
        }
        Self(groups)
    }

    fn at_offset(&self, address: u64) -> &[u64] {
        self.0.get(&(address & PAGE_MASK)).map_or(&[], Vec::as_slice)
    }
}

/// Adds the targets of direct branches and the instructions after branches.
fn sweep(isa: Isa, region: &Region, bytes: &[u8], big_endian: bool, starts: &mut Vec<u64>) {
    let mut offset = 0;
    while let Some((opcode, length)) = opcode_at(isa, bytes.get(offset..).unwrap_or_default(), big_endian) {
        let address = region.address.wrapping_add(offset as u64);
        let decoded = decode(isa, address, opcode);
        offset += length;
        if decoded.flow.is_p0() || decoded.flow.is_system_call() {
            starts.push(region.address.wrapping_add(offset as u64));
            starts.extend(decoded.target.filter(|target| target.isa == isa).map(|target| target.address));
        }
    }
}

/// The opcode at the start of some bytes, and its length.
fn opcode_at(isa: Isa, bytes: &[u8], big_endian: bool) -> Option<(u32, usize)> {
    let half = |at: usize| {
        let bytes = [*bytes.get(at)?, *bytes.get(at + 1)?];
        Some(if big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    };
    if isa == Isa::T32 {
        let first = half(0)?;
        return Some(match isa.length(first) {
            4 => (u32::from(first) << 16 | u32::from(half(2)?), 4),
            _ => (u32::from(first), 2),
        });
    }
    let [low, high] = if big_endian { [half(2)?, half(0)?] } else { [half(0)?, half(2)?] };
    Some((u32::from(high) << 16 | u32::from(low), 4))
}

/// Result of decoding the trace with the image at a bias.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Trial {
    bias: u64,
    votes: u32,
    /// Ranges that were decoded in the image.
    ranges: u64,
    /// Contradictions between trace and image.
    findings: u64,
    bytes: u64,
}

impl Trial {
    fn run(capture: &Capture, code: &Code, bias: u64, votes: u32) -> Self {
        let program = Program::new(vec![code.moved(bias)]);
        let mut trial = Self { bias, votes, ..Self::default() };
        for trace in Trace::all(capture) {
            trial.bytes = 0;
            // A trace that cannot be read shows nothing.
            let _ = trace.flow(Transactions::Show, &program, &mut trial);
        }
        trial
    }

    fn agrees(&self) -> bool {
        self.ranges >= MIN_RANGES && self.findings <= self.ranges / RANGES_PER_FINDING
    }
}

impl FlowSink for Trial {
    fn run(&mut self, run: Run<'_>) {
        self.ranges += run.len() as u64;
    }

    fn item(&mut self, item: FlowItem) {
        self.findings += u64::from(matches!(item.map(|item| item.value), Ok(Item::Finding(_))));
    }
}

impl Watch for Trial {
    /// A trial that has failed clearly ends early.
    fn wants_more(&mut self) -> bool {
        self.bytes < TRACE_LIMIT && (self.findings < MIN_RANGES || self.agrees())
    }

    fn progress(&mut self, read: u64, _total: u64) {
        self.bytes = read;
    }
}
