//! Cache of disassembled instructions and symbol names: programs run in loops, and disassembly is slow.
//!
//! Takes instructions and addresses; produces the part of a line that depends on nothing else.

use std::fmt::Write as _;

use unspool::capture::Pid;
use unspool::flow::{Instruction, MapId};
use unspool::isa::{ControlFlow, Disassembler, Isa, OpcodeCache, OpcodeKey, decode};
use unspool::lines::{Frame, Lines};
use unspool::model::digits::{push_address, push_opcode, push_short_hex};
use unspool::model::json::{Object, quoted};
use unspool::{EventMeanings, Program, Trace};

use super::run_lines::RunLines;
use crate::style::Palette;
use crate::symbols::{printable, symbol_text};

/// Size of the instruction cache, as a power of two: 256 KiB of code fit without conflicts.
const INSTRUCTION_BITS: u32 = 16;

const NAME_BITS: u32 = 12;

/// Text of instructions and names of addresses of one program, kept from one buffer to the next.
pub(super) struct Texts {
    disassembler: Disassembler,
    instructions: OpcodeCache<Key, Box<InstructionText>>,
    names: OpcodeCache<Address, String>,
    /// Lines that name the function of an address.
    labels: OpcodeCache<Address, String>,
    /// Lines of the program's runs.
    pub(super) runs: RunLines,
}

impl Texts {
    pub(super) fn new() -> Self {
        let [names, labels] = [OpcodeCache::new(NAME_BITS), OpcodeCache::new(NAME_BITS)];
        let (disassembler, instructions) = (Disassembler::new(), OpcodeCache::new(INSTRUCTION_BITS));
        Self { disassembler, instructions, names, labels, runs: RunLines::default() }
    }
}

/// Text of the code of a program.
pub(super) struct CodeCache<'p> {
    program: &'p Program,
    texts: &'p mut Texts,
    json: bool,
    palette: Palette,
    /// Source lines, if they are listed.
    lines: Option<&'p Lines>,
    /// The address map of what follows.
    map: MapId,
}

/// Meanings of the events of a source, with the names of the addresses in them.
pub(super) struct NamedEvents {
    meanings: EventMeanings,
    /// The address map that the names are of.
    map: Option<MapId>,
}

impl NamedEvents {
    pub(super) fn new(trace: &Trace<'_>) -> Self {
        Self { meanings: EventMeanings::new(trace), map: None }
    }

    /// The meanings, with the names that addresses have where the trace is now.
    pub(super) fn named(&mut self, cache: &CodeCache<'_>) -> &EventMeanings {
        if self.map.replace(cache.map) != Some(cache.map) {
            self.meanings.name_addresses(&|address| {
                cache.program.symbol_in(cache.map, address).map(|symbol| printable(&symbol_text(symbol)))
            });
        }
        &self.meanings
    }
}

/// Key of the instruction cache.
#[derive(Clone, Copy, PartialEq)]
struct Key {
    address: u64,
    opcode: u32,
    isa: Isa,
    map: MapId,
}

impl OpcodeKey for Key {
    #[inline]
    fn hash(&self) -> u32 {
        adjacent(self.address >> if self.isa == Isa::T32 { 1 } else { 2 }, INSTRUCTION_BITS)
    }
}

/// Key of the name cache.
#[derive(Clone, Copy, PartialEq)]
struct Address(u64, MapId);

impl OpcodeKey for Address {
    #[inline]
    fn hash(&self) -> u32 {
        adjacent(self.0 >> 1, NAME_BITS)
    }
}

/// Hash that maps adjacent code to adjacent slots in a cache of this size, without conflicts.
#[inline]
fn adjacent(number: u64, bits: u32) -> u32 {
    ((number ^ number >> 16) as u32) << (u32::BITS - bits)
}

pub(super) struct InstructionText {
    pub(super) flow: ControlFlow,
    /// Address, opcode and text; in JSON with their keys.
    pub(super) text: String,
    /// Columns that the text fills.
    pub(super) width: usize,
    /// Start of its function.
    pub(super) function: Option<u64>,
    /// In JSON the key of the symbol with its value.
    pub(super) symbol: String,
    /// Line with the position in the source, if it is known and wanted; in JSON the key with its value.
    pub(super) source: String,
}

/// The process of an address map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    /// Its number, if it is known.
    pub(super) pid: Option<Pid>,
    /// Whether events change its memory at an unknown instruction of the map.
    pub(super) is_changing: bool,
}

impl<'p> CodeCache<'p> {
    pub(super) fn new(program: &'p Program, texts: &'p mut Texts, json: bool, palette: Palette) -> Self {
        Self { program, texts, json, palette, lines: None, map: MapId::ONLY }
    }

    /// The same with source lines, if there are any.
    pub(super) fn with_lines(self, lines: Option<&'p Lines>) -> Self {
        Self { lines, ..self }
    }

    /// Lines of the program's runs.
    #[inline]
    pub(super) fn runs(&mut self) -> &mut RunLines {
        &mut self.texts.runs
    }

    /// Continues in another address map. Returns its process.
    pub(super) fn enter(&mut self, map: MapId) -> Process {
        self.map = map;
        Process { pid: self.program.process_of(map), is_changing: self.program.is_changing(map) }
    }

    pub(super) fn instruction(&mut self, instruction: &Instruction) -> &InstructionText {
        let Instruction { address, opcode, isa, .. } = *instruction;
        let Self { program, texts, json, palette, lines, map } = self;
        let Texts { disassembler, instructions, .. } = &mut **texts;
        let key = Key { address, opcode, isa, map: *map };
        instructions.get_or_insert_with(key, || {
            let (text, symbol) = (disassembler.text(isa, address, opcode), program.symbol_in(*map, address));
            let (text, width, name) = match *json {
                true => json_parts(instruction, text, symbol),
                false => text_parts(instruction, &text, palette),
            };
            let function = symbol.map(|(_, offset)| address - offset);
            let flow = decode(isa, address, opcode).flow;
            let frames = lines.map(|lines| lines.find(program, *map, address)).unwrap_or_default();
            let source = if *json { frames_json(&frames) } else { frames_text(&frames, palette) };
            Box::new(InstructionText { flow, text, width, function, symbol: name, source })
        })
    }

    /// Line with the position of an address in the source; in JSON the key with its value. Empty if there is none.
    #[inline]
    pub(super) fn source(&self, address: u64) -> String {
        self.lines.map_or_else(String::new, |lines| self.source_in(lines, address))
    }

    fn source_in(&self, lines: &Lines, address: u64) -> String {
        let frames = lines.find(self.program, self.map, address);
        if self.json { frames_json(&frames) } else { frames_text(&frames, &self.palette) }
    }

    /// Line that names the function at an address.
    pub(super) fn label(&mut self, address: u64) -> &str {
        let Self { program, texts, palette, map, .. } = self;
        texts.labels.get_or_insert_with(Address(address, *map), || {
            let symbol = program.symbol_in(*map, address);
            let name = symbol.map_or("<no symbol>".into(), |symbol| printable(&symbol_text(symbol)));
            palette.paint(palette.symbol, &format!("{name}:")) + "\n"
        })
    }

    /// Symbol at an address, after a blank: ` <square+0x4>`. Empty if there is none.
    pub(super) fn name(&mut self, address: u64) -> &str {
        let Self { program, texts, palette, map, .. } = self;
        texts.names.get_or_insert_with(Address(address, *map), || named(program.symbol_in(*map, address), palette))
    }
}

/// Keys and values, their length, and the key of the symbol.
fn json_parts(instruction: &Instruction, text: String, symbol: Option<(&str, u64)>) -> (String, usize, String) {
    let Instruction { address, opcode, isa, length, .. } = *instruction;
    let mut line = String::with_capacity(96 + text.len());
    line.push_str("\"address\":\"");
    push_short_hex(&mut line, address);
    line.push_str("\",\"opcode\":\"0x");
    push_opcode(&mut line, opcode, length);
    line.push_str("\",\"isa\":\"");
    line.push_str(isa.name());
    line.push_str("\",\"text\":");
    quoted(&mut line, text);
    let mut key = String::new();
    if let Some(symbol) = symbol {
        key.push_str(",\"symbol\":");
        quoted(&mut key, symbol_text(symbol));
    }
    (line, 0, key)
}

/// Address, opcode and disassembly, and their width.
fn text_parts(instruction: &Instruction, text: &str, palette: &Palette) -> (String, usize, String) {
    let Instruction { address, opcode, isa, length, .. } = *instruction;
    let mut line = String::with_capacity(64 + text.len());
    line.push_str(palette.address);
    push_padded(&mut line, address, isa == Isa::A64);
    line.push_str(palette.reset);
    line.push_str(palette.detail);
    line.push_str("  ");
    push_opcode(&mut line, opcode, length);
    line.push_str(if length == 2 { "      " } else { "  " });
    line.push_str(palette.reset);
    palette.push_disassembly(&mut line, text);
    let address_width = if isa == Isa::A64 { 18 } else { 10 };
    (line, address_width + 12 + text.len(), String::new())
}

/// Adds an address with all digits of a 64-bit or a 32-bit one.
pub(super) fn push_padded(line: &mut String, address: u64, is_wide: bool) {
    if is_wide {
        push_address(line, address);
    } else {
        let _ = write!(line, "0x{address:08x}");
    }
}

fn named(symbol: Option<(&str, u64)>, palette: &Palette) -> String {
    let symbol = symbol.map(symbol_text);
    let symbol = symbol.map(|symbol| format!(" <{}>", printable(&symbol)));
    symbol.map_or_else(String::new, |symbol| palette.paint(palette.symbol, &symbol))
}

/// A line with the position, and the calls that were inlined around it: `; a.h:5 in area, inlined at a.c:9 in main`.
fn frames_text(frames: &[Frame], palette: &Palette) -> String {
    let mut line = String::new();
    for (index, frame) in frames.iter().enumerate() {
        let position = frame.position.as_ref().map_or("?".to_string(), ToString::to_string);
        line.push_str(if index == 0 { "; " } else { ", inlined at " });
        line.push_str(&printable(&position));
        if let Some(function) = frame.function.as_deref().filter(|_| frames.len() > 1) {
            line.push_str(" in ");
            line.push_str(&printable(&symbol_text((function, 0))));
        }
    }
    if line.is_empty() { line } else { palette.paint(palette.detail, &line) + "\n" }
}

/// The key `lines`, with one object per frame.
fn frames_json(frames: &[Frame]) -> String {
    let mut line = String::new();
    if !frames.is_empty() {
        line.push_str(",\"lines\":[");
        for (index, frame) in frames.iter().enumerate() {
            if index > 0 {
                line.push(',');
            }
            let mut object = Object::nested(&mut line);
            object.nullable_string("function", frame.function.as_deref().map(|name| symbol_text((name, 0))));
            object.nullable_string("file", frame.position.as_ref().map(|position| &position.file));
            object.nullable("line", frame.position.as_ref().map(|position| position.line));
            object.close_nested();
        }
        line.push(']');
    }
    line
}

/// Name of the control flow of an instruction in JSON.
pub(super) fn flow_name(flow: ControlFlow) -> &'static str {
    match flow {
        ControlFlow::Direct => "branch",
        ControlFlow::Indirect | ControlFlow::ExceptionReturn => "indirect",
        ControlFlow::Isb => "isb",
        ControlFlow::DataBarrier => "barrier",
        ControlFlow::Wfx => "wfx",
        ControlFlow::TransactionStart => "tstart",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_slots_are_replaced() {
        let program = Program::new(vec![]);
        let mut texts = Texts::new();
        let mut cache = CodeCache::new(&program, &mut texts, false, Palette::PLAIN);
        let nop = |address| Instruction {
            address,
            opcode: 0xd503_201f,
            isa: Isa::A64,
            length: 4,
            ends_range: false,
            branch: None,
            offset: 0,
        };
        for _ in 0..2 {
            for address in (0..20_u64).map(|index| index << 34 | 0x1000) {
                assert_eq!(cache.instruction(&nop(address)).text, format!("{address:#018x}  d503201f  nop"));
                assert_eq!(cache.name(address), "");
            }
        }
        // The same address with other code, as after an overlay.
        let ret = Instruction { opcode: 0xd65f_03c0, ..nop(0x1000) };
        assert_eq!(cache.instruction(&ret).text, "0x0000000000001000  d65f03c0  ret");
        let narrow = Instruction { opcode: 0x4770, isa: Isa::T32, length: 2, ..nop(0x1000) };
        assert_eq!(cache.instruction(&narrow).text, "0x00001000  4770      bx lr");
    }

    #[test]
    fn color_does_not_change_the_width() {
        let program = Program::new(vec![]);
        let instruction = Instruction {
            address: 0x1000,
            opcode: 0xd280_0060,
            isa: Isa::A64,
            length: 4,
            ends_range: false,
            branch: None,
            offset: 0,
        };
        let [plain, colored] = [Palette::PLAIN, Palette::COLORED].map(|palette| {
            let mut texts = Texts::new();
            let mut cache = CodeCache::new(&program, &mut texts, false, palette);
            let parts = cache.instruction(&instruction);
            (parts.text.clone(), parts.width)
        });
        assert_eq!(plain, ("0x0000000000001000  d2800060  mov x0, #0x3".to_string(), 42));
        let expected = "\x1b[33m0x0000000000001000\x1b[0m\x1b[2m  d2800060  \x1b[0m\x1b[36mmov\x1b[0m x0, #0x3";
        assert_eq!(colored, (expected.to_string(), 42));
    }
}
