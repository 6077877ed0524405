//! Disassembled instructions and symbol names in caches: programs run in loops, and disassembly is slow.
//!
//! Comes in: instructions and addresses. Goes out: the part of a line that is the same whenever they come again.

use std::fmt::Write as _;

use unspool::Program;
use unspool::flow::Instruction;
use unspool::isa::{ControlFlow, Disassembler, Isa, OpcodeCache, OpcodeKey, decode};
use unspool::model::json::quoted;

/// The size of the cache of instructions, as a power of two. With four bytes each, 256 KiB of code have room without
/// conflict.
const INSTRUCTION_BITS: u32 = 16;

/// The size of the cache of names.
const NAME_BITS: u32 = 12;

/// What is known of the code, as text.
pub(super) struct Known<'p> {
    program: &'p Program,
    disassembler: Disassembler,
    json: bool,
    instructions: OpcodeCache<Key, Box<Words>>,
    names: OpcodeCache<Address, String>,
}

/// What the text of an instruction depends on.
#[derive(Clone, Copy, PartialEq)]
struct Key {
    address: u64,
    opcode: u32,
    isa: Isa,
}

impl OpcodeKey for Key {
    #[inline]
    fn hash(&self) -> u32 {
        adjacent(self.address >> if self.isa == Isa::T32 { 1 } else { 2 }, INSTRUCTION_BITS)
    }
}

/// What a symbol name depends on.
#[derive(Clone, Copy, PartialEq)]
struct Address(u64);

impl OpcodeKey for Address {
    #[inline]
    fn hash(&self) -> u32 {
        adjacent(self.0 >> 1, NAME_BITS)
    }
}

/// A hash that gives adjacent code adjacent slots in a cache of this size, so that there are no conflicts.
#[inline]
fn adjacent(number: u64, bits: u32) -> u32 {
    ((number ^ number >> 16) as u32) << (u32::BITS - bits)
}

/// How an instruction reads.
pub(super) struct Words {
    pub(super) flow: ControlFlow,
    /// Address, opcode and text; in JSON with their keys.
    pub(super) text: String,
    /// Where the function starts that it is in.
    pub(super) function: Option<u64>,
    /// The line that says so; in JSON the key with its value.
    pub(super) label: String,
}

impl<'p> Known<'p> {
    pub(super) fn new(program: &'p Program, json: bool) -> Self {
        let (instructions, names) = (OpcodeCache::new(INSTRUCTION_BITS), OpcodeCache::new(NAME_BITS));
        Self { program, disassembler: Disassembler::new(), json, instructions, names }
    }

    /// The text of the instruction.
    pub(super) fn words(&mut self, instruction: &Instruction) -> &Words {
        let Instruction { address, opcode, isa, .. } = *instruction;
        let Self { program, disassembler, json, instructions, .. } = self;
        let key = Key { address, opcode, isa };
        instructions.get_or_insert_with(key, || Box::new(find(program, disassembler, *json, instruction)))
    }

    /// The symbol at an address, after a blank: ` <square+0x4>`. Empty if there is none.
    pub(super) fn name(&mut self, address: u64) -> &str {
        self.names.get_or_insert_with(Address(address), || named(self.program, address))
    }
}

fn find(program: &Program, disassembler: &mut Disassembler, json: bool, instruction: &Instruction) -> Words {
    let Instruction { address, opcode, isa, length, .. } = *instruction;
    let read = disassembler.text(isa, address, opcode);
    let symbol = program.symbol(address);
    let name = symbol.map(|(name, offset)| symbol_text(name, offset));
    let mut text = String::new();
    let mut label = String::new();
    if json {
        let _ = write!(text, "\"address\":\"{address:#x}\",\"opcode\":\"0x{opcode:0width$x}\"", width = digits(length));
        let _ = write!(text, ",\"isa\":\"{}\",\"text\":", isa.name());
        quoted(&mut text, read);
        if let Some(name) = name {
            label.push_str(",\"symbol\":");
            quoted(&mut label, name);
        }
    } else {
        let width = if isa == Isa::A64 { 16 } else { 8 };
        let _ =
            write!(text, "0x{address:0width$x}  {:<8}  {read}", format!("{opcode:0width$x}", width = digits(length)));
        label = name.map_or("<no symbol>".into(), |name| printable(&name)) + ":\n";
    }
    let flow = decode(isa, address, opcode).flow;
    Words { flow, text, function: symbol.map(|(_, offset)| address - offset), label }
}

/// How many hex digits an opcode of this length has.
fn digits(length: u8) -> usize {
    usize::from(length) * 2
}

fn named(program: &Program, address: u64) -> String {
    let symbol = program.symbol(address);
    symbol.map_or_else(String::new, |(name, offset)| format!(" <{}>", printable(&symbol_text(name, offset))))
}

fn symbol_text(name: &str, offset: u64) -> String {
    if offset == 0 { name.to_string() } else { format!("{name}+{offset:#x}") }
}

/// Names come from files, and a terminal obeys what it is sent.
fn printable(name: &str) -> String {
    name.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

/// The name of the control flow of an instruction in JSON.
pub(super) fn flow_name(flow: ControlFlow) -> &'static str {
    match flow {
        ControlFlow::Direct => "branch",
        ControlFlow::Indirect | ControlFlow::ExceptionReturn => "indirect",
        ControlFlow::Isb => "isb",
        ControlFlow::Wfx => "wfx",
        ControlFlow::TransactionStart => "tstart",
        _ => "other",
    }
}

/// Adds a number with `0x` before it and at least so many digits. Faster than the formatter, which millions of lines feel.
pub(super) fn push_hex(text: &mut String, number: u64, width: usize) {
    let used = (u64::BITS - number.leading_zeros()).div_ceil(4) as usize;
    text.push_str("0x");
    for digit in (0..used.max(width)).rev() {
        let value = (number >> (digit * 4) & 0xf) as u32;
        text.push(char::from_digit(value, 16).unwrap_or('0'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_numbers() {
        for number in [0, 1, 0xf, 0x10, 0x40_0028, u64::MAX] {
            let [mut short, mut wide] = [String::new(), String::new()];
            push_hex(&mut short, number, 1);
            push_hex(&mut wide, number, 16);
            assert_eq!([short, wide], [format!("{number:#x}"), format!("{number:#018x}")]);
        }
    }

    #[test]
    fn a_place_in_the_tables_is_taken_over() {
        let program = Program::new(vec![]);
        let mut known = Known::new(&program, false);
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
                assert_eq!(known.words(&nop(address)).text, format!("{address:#018x}  d503201f  nop"));
                assert_eq!(known.name(address), "");
            }
        }
        // The same address with other code, as after an overlay.
        let ret = Instruction { opcode: 0xd65f_03c0, ..nop(0x1000) };
        assert_eq!(known.words(&ret).text, "0x0000000000001000  d65f03c0  ret");
        let narrow = Instruction { opcode: 0x4770, isa: Isa::T32, length: 2, ..nop(0x1000) };
        assert_eq!(known.words(&narrow).text, "0x00001000  4770      bx lr");
    }
}
