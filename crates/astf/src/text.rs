//! Records as lines of text, in the condensed form of the specification's example.
//!
//! record ─▶ **line**: number, type, and contents
//!
//! Ordinary records read as in that figure. Unusual contents are added: the direction of an access, if the opcode
//! implies another; at the end of the line reserved bits that are set, values in unused fields, a string that is cut
//! short. Checks nothing; see [`check`](super::check).
//! Specification: Arm Architectural Structured Trace Format, issue 0.11.

mod before;
mod class;
mod figure;
mod opcodes;
mod string;
mod unusual;

use std::fmt::Write as _;

pub use self::before::Before;
use self::class::class_name;
use self::opcodes::{Direction, Opcodes};
use self::string::Chain;
use super::access::{Access, Extent};
use super::layout::Bytes;
use super::record::{
    Attribute, Context, ContextView, ExtraEa, Header, Instruction, InstructionView, Level, Storage, Timestamp, Trap,
    View, trap_type,
};
use unspool_model::digits::{push_address, push_decimal, push_hex};

/// Writes records as lines, from the first record of a file on.
///
/// ```
/// use unspool_astf::record::{Context, Timestamp};
/// use unspool_astf::text::Lines;
///
/// let mut lines = Lines::new();
/// let mut text = String::new();
/// for record in [Timestamp { unit: 1, value: 7, ..Default::default() }.to_bytes(), Context::default().to_bytes()] {
///     lines.write(&record, &mut text);
///     text.push('\n');
/// }
/// assert_eq!(text, "1 timestamp : Value: 7\n2 context   : CPU in EL0, non-secure, thread-mode SVE128\n");
/// ```
#[derive(Debug)]
pub struct Lines {
    /// Number of records so far.
    number: u64,
    /// Exception level and mode, as instructions show them.
    mode: [u8; 4],
    /// The last instruction, to which the accesses of Extra EAs belong.
    last: Instruction,
    chain: Chain,
    opcodes: Opcodes,
}

/// Before the first context.
const UNKNOWN_MODE: [u8; 4] = *b"el??";

impl Default for Lines {
    fn default() -> Self {
        Self::new()
    }
}

impl Lines {
    /// A writer before the first record.
    pub fn new() -> Self {
        let last = Instruction::default();
        Self { number: 0, mode: UNKNOWN_MODE, last, chain: Chain::default(), opcodes: Opcodes::new() }
    }

    /// Continues before the record with this number.
    pub fn resume(&mut self, number: u64, before: &Before) {
        (self.mode, self.last, self.chain) = (UNKNOWN_MODE, Instruction::default(), Chain::default());
        before.records().for_each(|record| self.pass(record));
        self.number = number.saturating_sub(1);
    }

    /// Adds the line of the next record, without a line end.
    pub fn write(&mut self, record: &Bytes, out: &mut String) {
        self.number += 1;
        push_decimal(out, self.number);
        let view = View::new(record);
        let broken = self.chain.push(view);
        match view {
            View::Instruction(view) => self.instruction(view, out),
            View::ExtraEa(view) => self.extra_ea(&view.get(), out),
            View::Context(view) => {
                self.set_mode(view);
                context(&view.get(), out);
            }
            View::Trap(view) => trap(&view.get(), out),
            View::Timestamp(view) => timestamp(&view.get(), out),
            View::Header(view) => header(&view.get(), out),
            View::StringStart(_) | View::StringContinuation(_) => {
                out.push_str(" string    : ");
                self.chain.write(out);
            }
            View::Unknown(bytes) => unknown(bytes, out),
        }
        unusual::write(view, out);
        if let Some(chain) = broken {
            out.push_str(" after a truncated string: ");
            chain.write_quoted(out);
        }
    }

    /// Follows a record that is not printed.
    pub fn pass(&mut self, record: &Bytes) {
        self.number += 1;
        let view = View::new(record);
        self.chain.push(view);
        match view {
            View::Instruction(view) => self.last = view.get(),
            View::Context(view) => self.set_mode(view),
            _ => {}
        }
    }

    /// Adds the disassembly of an instruction, in lower case and with full addresses: `b.ne 0x836e0e8`.
    pub fn disassembly(&mut self, pc: u64, iword: u32, out: &mut String) {
        let text = self.opcodes.text(pc, iword);
        out.push_str(&text.plain);
        text.push_target(pc, out);
    }

    fn set_mode(&mut self, view: ContextView<'_>) {
        self.mode[2] = b'0' + view.el();
        self.mode[3] = if view.handler() { b'h' } else { b't' };
    }

    fn instruction(&mut self, view: InstructionView<'_>, out: &mut String) {
        let record = view.get();
        out.push_str(" instr     : ");
        out.push_str(str::from_utf8(&self.mode).unwrap_or_default());
        out.push_str(" [");
        push_address(out, record.pc);
        out.push_str("] ");
        let text = self.opcodes.text(record.pc, record.iword);
        out.push_str(&text.figure);
        text.push_target(record.pc, out);
        if record.is_branch {
            out.push_str(if record.ea_valid { " T v<" } else { " NT" });
            if record.ea_valid {
                push_address(out, record.ea);
                out.push('>');
            }
        }
        if let Attribute::SmeIndex(index) = record.attribute() {
            out.push_str(" i{");
            push_decimal(out, u64::from(index));
            out.push('}');
        }
        if let Some(found) = record.access() {
            access(&found, text.direction, record.trap, out);
        }
        if record.trap {
            out.push_str(" tr");
        }
        self.last = record;
    }

    fn extra_ea(&mut self, record: &ExtraEa, out: &mut String) {
        out.push_str(" extra_ea  :");
        let Instruction { pc, iword, trap, .. } = self.last;
        let direction = self.opcodes.text(pc, iword).direction;
        let (first, second) = record.accesses();
        access(&first, direction, trap, out);
        if let Some(second) = second {
            access(&second, direction, trap, out);
        }
    }
}

/// ` v[start]`, with `t` if tags were accessed too; a range with its limit. The direction is shown only if the opcode
/// implies another: an access of an instruction that trapped may have done nothing.
fn access(access: &Access, direction: Direction, trap: bool, out: &mut String) {
    out.push_str(" v[");
    push_address(out, access.address);
    out.push_str(if access.tagged { "]t" } else { "]" });
    if let Extent::Range(bytes) = access.extent {
        out.push_str("..[");
        push_address(out, access.address.wrapping_add(bytes));
        out.push(']');
    }
    let (read, write) = (access.read, access.write);
    if !direction.is(read, write) && (read || write || !trap) {
        out.push_str(match (read, write) {
            (true, true) => " rw",
            (true, false) => " r",
            (false, true) => " w",
            (false, false) => " -",
        });
    }
}

fn context(record: &Context, out: &mut String) {
    let security = if record.secure { "secure" } else { "non-secure" };
    let mode = if record.handler { "handler" } else { "thread" };
    let _ = write!(out, " context   : CPU in EL{}, {security}, {mode}-mode", record.el);
    for (name, valid, id) in [("PID", record.pid_valid, record.pid), ("TID", record.tid_valid, record.tid)] {
        if valid {
            let _ = write!(out, " {name}: {id}");
        }
    }
    let _ = write!(out, " {}SVE{}", if record.pstate_sm { "S" } else { "" }, record.vector_bits());
    out.push_str(["", ", TC-sync", ", TC-async", ", TC-asym"][usize::from(record.mte_tcf & 3)]);
    for (set, word) in
        [(record.pstate_dit, ", DIT"), (record.pstate_ssbs, ", SSBS"), (record.unsupported, ", unsupported")]
    {
        out.push_str(if set { word } else { "" });
    }
}

fn trap(record: &Trap, out: &mut String) {
    let name = match record.trap_type {
        trap_type::SYNCHRONOUS => "Synchronous Exception",
        trap_type::SERROR => "SError",
        trap_type::IRQ => "IRQ",
        trap_type::FIQ => "FIQ",
        trap_type::EXCEPTION_RETURN => "Exception Return",
        trap_type::RESET => "PE Reset",
        _ => "Reserved",
    };
    let _ = write!(out, " trap      : {}{name} to <", if record.is_virtual { "Virtual " } else { "" });
    push_address(out, record.target_pc);
    out.push('>');
    // Only these have a class; shown elsewhere too, as it is unusual.
    if record.ec != 0 || matches!(record.trap_type, trap_type::SYNCHRONOUS | trap_type::SERROR) {
        let _ = write!(out, " : {:06b} {}", record.ec, class_name(record.ec));
    }
    if record.syscall_type != 0 || record.syscall_index != 0 {
        let name = ["no call", "SVC", "HVC", "SMC"][usize::from(record.syscall_type & 3)];
        let _ = write!(out, ", {name} #{:#x}", record.syscall_index);
    }
}

fn timestamp(record: &Timestamp, out: &mut String) {
    out.push_str(" timestamp : Value: ");
    push_decimal(out, record.value);
}

fn header(record: &Header, out: &mut String) {
    let storage = match record.storage() {
        Storage::Raw => "RAW",
        Storage::Lzma => "LZMA",
        Storage::Zlib => "Zlib",
    };
    let level = match record.level() {
        Level::Basic => "Basic",
        Level::BasicPlus => "BasicPlus",
    };
    let (major, minor) = (record.version_major, record.version_minor);
    out.push_str(" fileheader: ASTF trace, version ");
    let _ = write!(out, "{major}.{minor} compression mode : {storage} - {level} level trace");
}

fn unknown(bytes: &Bytes, out: &mut String) {
    let _ = write!(out, " unknown   : type {:#04x} ", bytes[0]);
    push_hex(out, bytes);
}
