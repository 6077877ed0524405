//! Assembler listings that enable, disable, save and restore an ETE and a trace buffer.
//!
//! Trace sinks are enabled before sources and disabled after them. An ISB separates two reads of TRCSTATR, or the second
//! one may return the value of the first.

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
    /// Saves registers before a power-down or a context switch.
    Save,
    /// Restores them.
    Restore,
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

/// Instructions for the GNU assembler. `values` are written to enable tracing; for a save and a restore, TRCIDR4 and
/// TRCIDR5 among them limit the number of registers. `has_buffer` includes the trace buffer.
pub fn listing(which: Listing, values: &[Value], has_buffer: bool) -> String {
    let mut writer = Writer { text: String::new() };
    match which {
        Listing::Enable => writer.enable(values),
        Listing::Disable => writer.disable(has_buffer),
        Listing::Save => writer.save(values, has_buffer),
        Listing::Restore => writer.restore(values, has_buffer),
    }
    writer.text
}

/// Registers of the trace buffer, without the one that enables it.
const BUFFER: [&str; 5] = ["TRBBASER_EL1", "TRBPTR_EL1", "TRBSR_EL1", "TRBTRG_EL1", "TRBMAR_EL1"];
const BUFFER_SWITCH: &str = "TRBLIMITR_EL1";

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
        unit.iter().for_each(|value| self.write(value));
        self.line("isb", "the trace unit sees its registers");
        self.line("mov x0, #1", "");
        self.line("msr trcprgctlr, x0", "on");
        self.label("1");
        self.line("isb", "or the old state is seen again");
        self.line("mrs x1, trcstatr", "");
        self.line("tbnz x1, #0, 1b", "until it is not idle: IDLE is bit 0");
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
        self.label("1");
        self.line("isb", "or the old state is seen again");
        self.line("mrs x1, trcstatr", "");
        self.line("and x1, x1, #3", "");
        self.line("cmp x1, #3", "");
        self.line("b.ne 1b", "until it is idle and its registers are stable");
        if has_buffer {
            self.buffer_off();
        }
        self.line("msr trfcr_el1, x0", "as it was");
        self.line("ldp x0, x1, [sp], #16", "");
    }

    fn buffer_off(&mut self) {
        self.comment("The trace buffer last, when nothing comes any more.");
        self.line("mrs x1, trblimitr_el1", "");
        self.line("bic x1, x1, #1", "");
        self.line("msr trblimitr_el1, x1", "off");
        self.line("dsb nsh", "what was traced is in memory");
        self.line("isb", "and the registers of the buffer say so");
    }

    fn save(&mut self, values: &[Value], has_buffer: bool) {
        self.comment(
            "x2: room for the registers, eight bytes each. Leave out those that your trace unit does not have.",
        );
        self.prohibit();
        self.line("mov x1, #1", "");
        self.line("msr oslar_el1, x1", "OS Lock: the trace unit stops, and its registers can be read");
        self.label("1");
        self.line("isb", "or the old state is seen again");
        self.line("mrs x1, trcstatr", "");
        self.line("tbz x1, #1, 1b", "until its registers are stable: PMSTABLE is bit 1");
        self.line("msr trfcr_el1, x0", "as it was");
        let registers = saved(values, has_buffer);
        for register in &registers {
            self.line(&format!("mrs x1, {}", name(register)), "");
            self.line("str x1, [x2], #8", "");
        }
        self.label("2");
        self.line("isb", "");
        self.line("mrs x1, trcstatr", "");
        self.line("tbz x1, #0, 2b", "until it is idle: power may go");
        if has_buffer {
            self.buffer_off();
        }
        self.line("ldp x0, x1, [sp], #16", "");
    }

    fn restore(&mut self, values: &[Value], has_buffer: bool) {
        self.comment("x2: where the registers were saved. Tracing is prohibited, and the OS Lock is on.");
        self.line("stp x0, x1, [sp, #-16]!", "");
        let registers = saved(values, has_buffer);
        for register in &registers {
            self.line("ldr x1, [x2], #8", "");
            self.line(&format!("msr {}, x1", name(register)), "");
        }
        self.line("isb", "trace unit and buffer see their registers");
        self.line("msr oslar_el1, xzr", "OS Lock off: the trace unit continues as before");
        self.line("ldp x0, x1, [sp], #16", "");
        self.line("isb", "");
    }
}

/// The implemented registers.
fn saved(values: &[Value], has_buffer: bool) -> Vec<String> {
    let get = |name: &str| values.iter().find(|value| value.register == name).map(|value| value.value);
    let field = |name: &str, low: u32, width: u32| get(name).map(|value| (value >> low & ((1 << width) - 1)) as u32);
    let mut all: Vec<String> = Vec::new();
    if has_buffer {
        all.extend(BUFFER.iter().map(ToString::to_string));
    }
    for (register, max) in SAVED {
        let implemented = match register {
            "TRCACVR" | "TRCACATR" => field("TRCIDR4", 0, 4).map(|pairs| 2 * pairs),
            "TRCRSCTLR" => field("TRCIDR4", 16, 4).map(|pairs| if pairs == 0 { 0 } else { 2 * (pairs + 1) }),
            "TRCSSCCR" | "TRCSSCSR" | "TRCSSPCICR" => field("TRCIDR4", 20, 4),
            "TRCCIDCVR" => field("TRCIDR4", 24, 4),
            "TRCVMIDCVR" => field("TRCIDR4", 28, 4),
            "TRCCNTRLDVR" | "TRCCNTCTLR" | "TRCCNTVR" => field("TRCIDR5", 28, 3),
            "TRCEXTINSELR" => field("TRCIDR5", 9, 3),
            "TRCSEQEVR" => field("TRCIDR5", 25, 3).map(|states| if states == 0 { 0 } else { max }),
            _ => None,
        };
        // The first two selectors are constants.
        let first = if register == "TRCRSCTLR" { 2 } else { 0 };
        match max {
            0 => all.push(register.to_string()),
            max => all.extend((first..implemented.unwrap_or(max).min(max)).map(|number| format!("{register}{number}"))),
        }
    }
    if has_buffer {
        // Enabled again after everything else is restored.
        all.push(BUFFER_SWITCH.to_string());
    }
    all
}

fn name(register: &str) -> String {
    register.to_ascii_lowercase()
}
