//! Assembler listings that enable, disable, save, restore and switch an ETE and a trace buffer.
//!
//! Takes register values; produces instructions for the GNU assembler. Trace sinks are enabled before sources and disabled
//! after them. An ISB separates two reads of TRCSTATR, or the second one may return the value of the first.
//!
//! Specification: ETE, "Example code sequences", "OS save and restore routines" and "Context switching".

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Value;

/// Kind of listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Listing {
    /// Writes registers and enables tracing.
    Enable,
    /// Disables tracing.
    Disable,
    /// Saves registers before a power-down.
    Save,
    /// Restores them after a power-up.
    Restore,
    /// Saves the trace context of a process that is switched out: tracing is prohibited first, so nothing is lost.
    SwitchOut,
    /// The same where tracing cannot be prohibited: the last instructions may not be traced.
    SwitchOutUnprohibited,
    /// Restores the trace context of a process that is switched in.
    SwitchIn,
}

/// Registers that are saved and restored, with their greatest number; 0: one, without a number.
pub const SAVED: [(&str, u32); 35] = [
    ("TRCCONFIGR", 0),
    ("TRCAUXCTLR", 0),
    ("TRCEVENTCTL0R", 0),
    ("TRCEVENTCTL1R", 0),
    ("TRCRSR", 0),
    ("TRCSTALLCTLR", 0),
    ("TRCTSCTLR", 0),
    ("TRCSYNCPR", 0),
    ("TRCCCCTLR", 0),
    ("TRCBBCTLR", 0),
    ("TRCTRACEIDR", 0),
    ("TRCQCTLR", 0),
    ("TRCVICTLR", 0),
    ("TRCVIIECTLR", 0),
    ("TRCVISSCTLR", 0),
    ("TRCVIPCSSCTLR", 0),
    ("TRCSEQEVR", 3),
    ("TRCSEQRSTEVR", 0),
    ("TRCSEQSTR", 0),
    ("TRCEXTINSELR", 4),
    ("TRCCNTRLDVR", 4),
    ("TRCCNTCTLR", 4),
    ("TRCCNTVR", 4),
    ("TRCIMSPEC", 8),
    ("TRCRSCTLR", 32),
    ("TRCSSCCR", 8),
    ("TRCSSCSR", 8),
    ("TRCSSPCICR", 8),
    ("TRCACVR", 16),
    ("TRCACATR", 16),
    ("TRCCIDCVR", 8),
    ("TRCVMIDCVR", 8),
    ("TRCCIDCCTLR", 2),
    ("TRCVMIDCCTLR", 2),
    // Last: it enables the trace unit.
    ("TRCPRGCTLR", 0),
];

/// Instructions for the GNU assembler. `values` are written to enable tracing; in the listings that save and restore,
/// TRCIDR0 and TRCIDR3 to TRCIDR5 among them limit the number of registers. `has_buffer` includes the trace buffer.
pub fn listing(which: Listing, values: &[Value], has_buffer: bool) -> String {
    let mut writer = Writer { text: String::new() };
    match which {
        Listing::Enable => writer.enable(values),
        Listing::Disable => writer.disable(has_buffer),
        Listing::Save => writer.save(&Area::new(values, has_buffer, false)),
        Listing::Restore => writer.restore(&Area::new(values, has_buffer, false)),
        Listing::SwitchOut => writer.switch_out(&Area::new(values, has_buffer, true)),
        Listing::SwitchOutUnprohibited => writer.switch_out_unprohibited(&Area::new(values, has_buffer, true)),
        Listing::SwitchIn => writer.switch_in(&Area::new(values, has_buffer, true)),
    }
    writer.text
}

/// Registers of the trace buffer, without the one that enables it.
const BUFFER: [&str; 5] = ["TRBBASER_EL1", "TRBPTR_EL1", "TRBSR_EL1", "TRBTRG_EL1", "TRBMAR_EL1"];
const BUFFER_SWITCH: &str = "TRBLIMITR_EL1";
const UNIT_SWITCH: &str = "TRCPRGCTLR";
const PROHIBITION: &str = "TRFCR_EL1";

/// Memory for saved registers, eight bytes each.
struct Area {
    registers: Vec<String>,
    has_buffer: bool,
}

impl Area {
    fn new(values: &[Value], has_buffer: bool, has_prohibition: bool) -> Self {
        let mut registers = implemented(values);
        registers.extend(BUFFER.iter().chain([&BUFFER_SWITCH]).filter(|_| has_buffer).map(ToString::to_string));
        registers.extend([PROHIBITION].iter().filter(|_| has_prohibition).map(ToString::to_string));
        Self { registers, has_buffer }
    }

    /// The registers of the trace unit, without its switch, in order.
    fn unit(&self) -> impl Iterator<Item = &str> {
        self.registers.iter().map(String::as_str).filter(|name| name.starts_with("TRC") && *name != UNIT_SWITCH)
    }

    /// Where a register is saved.
    fn offset(&self, register: &str) -> usize {
        8 * self.registers.iter().take_while(|name| *name != register).count()
    }

    fn bytes(&self) -> usize {
        8 * self.registers.len()
    }
}

struct Writer {
    text: String,
}

impl Writer {
    fn comment(&mut self, text: &str) {
        self.text.push_str(&format!("    // {text}\n"));
    }

    fn line(&mut self, code: &str, why: &str) {
        match why {
            "" => self.text.push_str(&format!("    {code}\n")),
            _ => self.text.push_str(&format!("    {code:<32} // {why}\n")),
        }
    }

    fn label(&mut self, label: &str) {
        self.text.push_str(&format!("{label}:\n"));
    }

    /// Loads a number into a register, sixteen bits at a time.
    fn number(&mut self, register: &str, value: u64) {
        let parts = (0..4).map(|part| (16 * part, value >> (16 * part) & 0xffff));
        let parts: Vec<(u32, u64)> = parts.filter(|(shift, bits)| *bits != 0 || *shift == 0).collect();
        for (index, (shift, bits)) in parts.iter().enumerate() {
            let shift = if *shift == 0 { String::new() } else { format!(", lsl #{shift}") };
            self.line(&format!("{} {register}, #{bits:#x}{shift}", if index == 0 { "movz" } else { "movk" }), "");
        }
    }

    fn write(&mut self, value: &Value) {
        let register = name(&value.register);
        if value.value == 0 {
            return self.line(&format!("msr {register}, xzr"), &value.why);
        }
        self.number("x0", value.value);
        self.line(&format!("msr {register}, x0"), &value.why);
    }

    /// Reads a register and stores it in the area.
    fn store(&mut self, area: &Area, register: &str, why: &str) {
        self.line(&format!("mrs x1, {}", name(register)), why);
        self.line(&format!("str x1, [x2, #{}]", area.offset(register)), "");
    }

    /// Writes a register with its value in the area.
    fn load(&mut self, area: &Area, register: &str, why: &str) {
        self.line(&format!("ldr x1, [x2, #{}]", area.offset(register)), "");
        self.line(&format!("msr {}, x1", name(register)), why);
    }

    /// Reads TRCSTATR until a condition holds, which `test` checks: it branches back to the label.
    fn poll(&mut self, label: &str, test: &[&str], why: &str) {
        self.comment("This loop may never end: a system that does not accept the trace keeps the trace unit from");
        self.comment("changing its state. Count the passes and give up after some.");
        self.label(label);
        self.line("isb", "or the old state is seen again");
        self.line("mrs x1, trcstatr", "");
        let (last, first) = test.split_last().unwrap_or((&"", &[]));
        first.iter().for_each(|line| self.line(line, ""));
        self.line(last, why);
    }

    fn enable(&mut self, values: &[Value]) {
        let (buffer, unit): (Vec<&Value>, Vec<&Value>) =
            values.iter().partition(|value| value.register.starts_with("TRB"));
        if !buffer.is_empty() {
            self.comment("The trace buffer first, and its switch last: it may look at the page tables from then on.");
            buffer.iter().filter(|value| value.register != BUFFER_SWITCH).for_each(|value| self.write(value));
            self.line("isb", "the buffer sees its registers");
            buffer.iter().filter(|value| value.register == BUFFER_SWITCH).for_each(|value| self.write(value));
        }
        self.comment("The trace unit, all but its switch.");
        unit.iter().filter(|value| is_programmed(&value.register)).for_each(|value| self.write(value));
        self.line("isb", "the trace unit sees its registers");
        self.line("mov x0, #1", "");
        self.line("msr trcprgctlr, x0", "on");
        self.poll("1", &["tbnz x1, #0, 1b"], "until it is not idle: IDLE is bit 0");
    }

    /// Prohibits tracing and drains the trace to the buffer. Leaves TRFCR_EL1 in x0.
    fn prohibit(&mut self) {
        self.line("stp x0, x1, [sp, #-16]!", "");
        self.line("mrs x0, trfcr_el1", "to be restored");
        self.line("bic x1, x0, #3", "");
        self.line("msr trfcr_el1, x1", "E0TRE and E1TRE: tracing is prohibited");
        self.line("isb", "from here on");
        self.line("tsb csync", "what was traced has reached the buffer");
    }

    fn disable(&mut self, has_buffer: bool) {
        self.prohibit();
        self.line("msr trcprgctlr, xzr", "off");
        self.wait_for_idle();
        if has_buffer {
            self.comment("The trace buffer last, when nothing comes any more.");
            self.line("mrs x1, trblimitr_el1", "");
            self.buffer_off();
        }
        self.line("msr trfcr_el1, x0", "as it was");
        self.line("ldp x0, x1, [sp], #16", "");
    }

    fn wait_for_idle(&mut self) {
        let test = ["and x1, x1, #3", "cmp x1, #3", "b.ne 1b"];
        self.poll("1", &test, "until it is idle and its registers are stable: bits 0 and 1");
    }

    /// Takes TRBLIMITR_EL1 in x1.
    fn buffer_off(&mut self) {
        self.line("bic x1, x1, #1", "");
        self.line("msr trblimitr_el1, x1", "off");
        self.finish_writes();
    }

    fn finish_writes(&mut self) {
        self.line("dsb nsh", "what was traced is in memory");
        self.line("isb", "and the registers of the buffer say so");
    }

    /// Disables the trace buffer, then saves its registers: before the barriers, its status and write pointer are not final.
    fn save_buffer(&mut self, area: &Area) {
        self.store(area, BUFFER_SWITCH, "as it is while the buffer is on");
        self.buffer_off();
        BUFFER.iter().for_each(|register| self.store(area, register, ""));
    }

    fn save(&mut self, area: &Area) {
        self.comment(&format!("x2: room for the registers, {} bytes.", area.bytes()));
        self.comment("Leave out those that your trace unit does not have.");
        self.prohibit();
        self.line("mov x1, #1", "");
        self.line("msr oslar_el1, x1", "OS Lock: the trace unit stops, and its registers can be read");
        self.poll("1", &["tbz x1, #1, 1b"], "until its registers are stable: PMSTABLE is bit 1");
        self.line("msr trfcr_el1, x0", "as it was");
        area.unit().chain([UNIT_SWITCH]).for_each(|register| self.store(area, register, ""));
        self.poll("2", &["tbz x1, #0, 2b"], "until it is idle: IDLE is bit 0");
        if area.has_buffer {
            self.comment("The trace buffer last, when nothing comes any more. Then power may go.");
            self.save_buffer(area);
        }
        self.line("ldp x0, x1, [sp], #16", "");
    }

    fn restore(&mut self, area: &Area) {
        self.comment("x2: where the registers were saved. Tracing is prohibited, and the OS Lock is on.");
        self.line("stp x0, x1, [sp, #-16]!", "");
        self.restore_registers(area);
        self.switch_on(area);
        self.line("isb", "before the OS Lock is off");
        self.line("msr oslar_el1, xzr", "OS Lock off: the trace unit continues as before");
        self.line("ldp x0, x1, [sp], #16", "");
        self.line("isb", "");
    }

    /// All registers but the two switches.
    fn restore_registers(&mut self, area: &Area) {
        if area.has_buffer {
            BUFFER.iter().for_each(|register| self.load(area, register, ""));
        }
        area.unit().for_each(|register| self.load(area, register, ""));
    }

    /// The switches, after a barrier, the one of the sink first.
    fn switch_on(&mut self, area: &Area) {
        self.line("isb", "trace unit and buffer see their registers");
        if area.has_buffer {
            self.load(area, BUFFER_SWITCH, "the buffer, which may look at the page tables from here on");
        }
        self.load(area, UNIT_SWITCH, "the trace unit");
    }

    fn switch_out(&mut self, area: &Area) {
        self.comment(&format!(
            "x2: room for the registers of the process that is switched out, {} bytes.",
            area.bytes()
        ));
        self.comment(
            "1 and 2: prohibit tracing. Leave them out where the exception that was taken did so: E1TRE is 0.",
        );
        self.line("stp x0, x1, [sp, #-16]!", "");
        self.store(area, PROHIBITION, "");
        self.line("bic x1, x1, #3", "");
        self.line("msr trfcr_el1, x1", "E0TRE and E1TRE: tracing is prohibited");
        self.line("isb", "from here on");
        self.comment("3: flush.");
        self.line("tsb csync", "what was traced has reached the buffer");
        self.comment("4: the trace unit.");
        self.store(area, UNIT_SWITCH, "as it is while the trace unit is on");
        self.line("msr trcprgctlr, xzr", "off");
        self.wait_for_idle();
        self.comment("5 to 7: the buffer, before the page tables of the next process.");
        self.finish_switch_out(area);
    }

    fn switch_out_unprohibited(&mut self, area: &Area) {
        self.comment(&format!(
            "x2: room for the registers of the process that is switched out, {} bytes.",
            area.bytes()
        ));
        self.comment("1 and 2: the trace unit. It may discard the trace of the last instructions.");
        self.line("stp x0, x1, [sp, #-16]!", "");
        self.store(area, UNIT_SWITCH, "as it is while the trace unit is on");
        self.line("msr trcprgctlr, xzr", "off");
        self.line("isb", "nothing is traced from here on");
        self.comment("3: flush.");
        self.line("tsb csync", "what was traced has reached the buffer");
        self.wait_for_idle();
        self.comment("4: the buffer, before the page tables of the next process.");
        self.store(area, PROHIBITION, "");
        self.finish_switch_out(area);
    }

    /// Disables the buffer, and saves the context when the barriers have made it final.
    fn finish_switch_out(&mut self, area: &Area) {
        if area.has_buffer {
            self.save_buffer(area);
        } else {
            self.finish_writes();
        }
        self.comment("The context. Then the page tables can be changed.");
        area.unit().for_each(|register| self.store(area, register, ""));
        self.line("ldp x0, x1, [sp], #16", "");
    }

    fn switch_in(&mut self, area: &Area) {
        self.comment("x2: where the registers of the process that is switched in were saved.");
        self.comment("Tracing is prohibited, the trace unit and the buffer are off, and the page tables are those of the process.");
        self.comment("1: the context.");
        self.line("stp x0, x1, [sp, #-16]!", "");
        self.restore_registers(area);
        self.load(area, PROHIBITION, "the Exception levels that may be traced");
        self.comment("2 to 4: a barrier, then the switches.");
        self.switch_on(area);
        self.line("ldp x0, x1, [sp], #16", "");
        self.comment("5: tracing is on from the next barrier on. An exception return to the process is one, too.");
        self.line("isb", "");
    }
}

/// The registers of the trace unit that are implemented, as far as the identification registers among `values` show it.
fn implemented(values: &[Value]) -> Vec<String> {
    let get = |name: &str| values.iter().find(|value| value.register == name).map(|value| value.value);
    let field = |name: &str, low: u32, width: u32| get(name).map(|value| (value >> low & ((1 << width) - 1)) as u32);
    let mut all: Vec<String> = Vec::new();
    for (register, max) in SAVED {
        // The number of registers, or whether there is one.
        let count = match register {
            "TRCACVR" | "TRCACATR" => field("TRCIDR4", 0, 4).map(|pairs| 2 * pairs),
            "TRCVIPCSSCTLR" => field("TRCIDR4", 12, 4),
            "TRCRSCTLR" => field("TRCIDR4", 16, 4).map(|pairs| if pairs == 0 { 0 } else { 2 * (pairs + 1) }),
            "TRCSSCCR" | "TRCSSCSR" => field("TRCIDR4", 20, 4),
            // Those of single-shot comparators for inputs of the PE.
            "TRCSSPCICR" if field("TRCIDR4", 12, 4) == Some(0) => Some(0),
            "TRCSSPCICR" => field("TRCIDR4", 20, 4),
            "TRCCIDCVR" => field("TRCIDR4", 24, 4),
            "TRCVMIDCVR" => field("TRCIDR4", 28, 4),
            // A register is for four comparators.
            "TRCCIDCCTLR" => field("TRCIDR4", 24, 4).map(|count| count.div_ceil(4)),
            "TRCVMIDCCTLR" => field("TRCIDR4", 28, 4).map(|count| count.div_ceil(4)),
            "TRCCNTRLDVR" | "TRCCNTCTLR" | "TRCCNTVR" => field("TRCIDR5", 28, 3),
            "TRCEXTINSELR" => field("TRCIDR5", 9, 3),
            "TRCSEQEVR" => field("TRCIDR5", 25, 3).map(|states| if states == 0 { 0 } else { max }),
            "TRCSEQRSTEVR" | "TRCSEQSTR" => field("TRCIDR5", 25, 3),
            "TRCQCTLR" => field("TRCIDR0", 14, 1),
            "TRCSTALLCTLR" => field("TRCIDR3", 26, 1),
            _ => None,
        };
        // The first two selectors are constants.
        let first = if register == "TRCRSCTLR" { 2 } else { 0 };
        match max {
            0 if count == Some(0) => {}
            0 => all.push(register.to_string()),
            max => all.extend((first..count.unwrap_or(max).min(max)).map(|number| format!("{register}{number}"))),
        }
    }
    all
}

/// Is it a register that programs the trace unit, and not its switch or one that only identifies it?
fn is_programmed(register: &str) -> bool {
    let is_number = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    let is_of = |known: &str| register.strip_prefix(known).is_some_and(is_number);
    register != UNIT_SWITCH && SAVED.iter().any(|(known, _)| is_of(known))
}

fn name(register: &str) -> String {
    register.to_ascii_lowercase()
}
