//! Cache of disassembled instructions and symbol names: programs run in loops, and disassembly is slow.
//!
//! Takes instructions and addresses; produces the part of a line that depends on nothing else.

use std::fmt::Write as _;

use unspool::Program;
use unspool::flow::Instruction;
use unspool::isa::{ControlFlow, Disassembler, Isa, OpcodeCache, OpcodeKey, decode};
use unspool::model::json::quoted;

use crate::symbols::{printable, symbol_text};

/// Size of the instruction cache, as a power of two: 256 KiB of code fit without conflicts.
const INSTRUCTION_BITS: u32 = 16;

const NAME_BITS: u32 = 12;

/// Text of instructions and names of addresses.
pub(super) struct CodeCache<'p> {
    program: &'p Program,
    disassembler: Disassembler,
    json: bool,
    instructions: OpcodeCache<Key, Box<InstructionText>>,
    names: OpcodeCache<Address, String>,
}

/// Key of the instruction cache.
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

/// Key of the name cache.
#[derive(Clone, Copy, PartialEq)]
struct Address(u64);

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
    /// Start of its function.
    pub(super) function: Option<u64>,
    /// Line that names the function; in JSON the key with its value.
    pub(super) label: String,
}

impl<'p> CodeCache<'p> {
    pub(super) fn new(program: &'p Program, json: bool) -> Self {
        let (instructions, names) = (OpcodeCache::new(INSTRUCTION_BITS), OpcodeCache::new(NAME_BITS));
        Self { program, disassembler: Disassembler::new(), json, instructions, names }
    }

    pub(super) fn instruction(&mut self, instruction: &Instruction) -> &InstructionText {
        let Instruction { address, opcode, isa, .. } = *instruction;
        let Self { program, disassembler, json, instructions, .. } = self;
        let key = Key { address, opcode, isa };
        instructions.get_or_insert_with(key, || Box::new(format_instruction(program, disassembler, *json, instruction)))
    }

    /// Symbol at an address, after a blank: ` <square+0x4>`. Empty if there is none.
    pub(super) fn name(&mut self, address: u64) -> &str {
        self.names.get_or_insert_with(Address(address), || named(self.program, address))
    }
}

fn format_instruction(
    program: &Program,
    disassembler: &mut Disassembler,
    json: bool,
    instruction: &Instruction,
) -> InstructionText {
    let Instruction { address, opcode, isa, length, .. } = *instruction;
    let digits = usize::from(length) * 2;
    let read = disassembler.text(isa, address, opcode);
    let symbol = program.symbol(address);
    let name = symbol.map(symbol_text);
    let mut text = String::new();
    let mut label = String::new();
    if json {
        let _ = write!(text, "\"address\":\"{address:#x}\",\"opcode\":\"0x{opcode:0digits$x}\"");
        let _ = write!(text, ",\"isa\":\"{}\",\"text\":", isa.name());
        quoted(&mut text, read);
        if let Some(name) = name {
            label.push_str(",\"symbol\":");
            quoted(&mut label, name);
        }
    } else {
        let width = if isa == Isa::A64 { 16 } else { 8 };
        let _ = write!(text, "0x{address:0width$x}  {:<8}  {read}", format!("{opcode:0digits$x}"));
        label = name.map_or("<no symbol>".into(), |name| printable(&name)) + ":\n";
    }
    let flow = decode(isa, address, opcode).flow;
    InstructionText { flow, text, function: symbol.map(|(_, offset)| address - offset), label }
}

fn named(program: &Program, address: u64) -> String {
    let symbol = program.symbol(address).map(symbol_text);
    symbol.map_or_else(String::new, |symbol| format!(" <{}>", printable(&symbol)))
}

/// Name of the control flow of an instruction in JSON.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_slots_are_replaced() {
        let program = Program::new(vec![]);
        let mut cache = CodeCache::new(&program, false);
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
}
