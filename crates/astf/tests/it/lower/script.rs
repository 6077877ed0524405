//! Steps as text, and records as text: the rows of the tests.
//!
//! Steps are separated by semicolons. Numbers are hexadecimal, times decimal.
//!
//! ```text
//! el1                     a complete context          100 ldr r500+8 x0=1240   an instruction, an access, a register
//! ctx level=1 secure      a partial context           100 ret ->200            a taken branch
//! sync 25 400, irq - 480  an exception: class, target 100 ?                    an unknown opcode
//! return 8, return -      an exception return         state, gap start, note hi, a32
//! @1000 el0               a step at this time         core1 100 nop            a step of another core
//! ```

use unspool_astf::Bytes;
use unspool_astf::record::Record;
use unspool_model::{
    Branch, Context, Direction, Event, Exception, ExceptionKind, Gap, Instruction, Isa, Security, Step,
};

use super::opcodes::*;

pub(crate) fn steps(script: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = script.split(';').map(|text| step(text.trim())).collect();
    (0..).zip(&mut steps).for_each(|(position, step)| step.position = position);
    steps
}

fn step(text: &str) -> Step {
    let mut step = Step::default();
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut words = &words[..];
    while let [first, rest @ ..] = words {
        if let Some(time) = first.strip_prefix('@') {
            step.time = Some(time.parse().unwrap());
        } else if let Some(core) = first.strip_prefix("core") {
            step.core = core.parse().unwrap();
        } else {
            break;
        }
        words = rest;
    }
    let (event, effects): (Event, &[&str]) = match words {
        ["note", text] => {
            step.set_note(text);
            (Event::Note, &[])
        }
        ["ctx", fields @ ..] => (Event::Context(context(fields)), &[]),
        ["el0" | "el1"] => {
            let level = hex(&words[0][2..]) as u8;
            let (security, is_handler) = (Some(Security::NonSecure), Some(level > 0));
            (Event::Context(Context { level: Some(level), security, is_handler, ..Context::default() }), &[])
        }
        ["gap", cause] => (Event::Gap(gap(cause)), &[]),
        ["return", target] => (Event::ExceptionReturn { target: number(target) }, &[]),
        ["state", effects @ ..] => (Event::State, effects),
        ["a32"] => (instruction(0x9000, Some(1), Isa::A32), &[]),
        ["t32"] => (instruction(0x9000, Some(1), Isa::T32), &[]),
        ["rv64"] => (instruction(0x9000, Some(1), Isa::Rv64), &[]),
        [kind @ ("sync" | "irq" | "reset" | "debug" | "unknown"), class, target, effects @ ..] => {
            let (kind, class, target) = (kind_of(kind), number(class).map(|class| class as u8), number(target));
            (Event::Exception(Exception { kind, class, target, ..Exception::default() }), effects)
        }
        [address, "?"] => (instruction(hex(address), None, Isa::A64), &[]),
        [address, mnemonic, effects @ ..] => (instruction(hex(address), Some(opcode(mnemonic)), Isa::A64), effects),
        other => panic!("{other:?}"),
    };
    step.event = event;
    effects.iter().for_each(|effect| add_effect(&mut step, effect));
    step
}

/// `r500+8`, `w500+8`: an access; `d500+8`: a read with data; `->200`: a taken branch; `skipped`: a failed condition;
/// `lr=104`: a return address; `esr=25`: a class; `x0=1240`: a register; `x0:4=1240`: four bytes of one.
fn add_effect(step: &mut Step, effect: &str) {
    if let Some(target) = effect.strip_prefix("->") {
        return edit(step, |instruction| instruction.branch = Some(Branch { taken: true, target: number(target) }));
    }
    if effect == "skipped" {
        return edit(step, |instruction| instruction.is_executed = Some(false));
    }
    if let Some((name, value)) = effect.split_once('=') {
        let (name, bytes) = name.split_once(':').map_or((name, 8), |(name, bytes)| (name, bytes.parse().unwrap()));
        match (name, &mut step.event) {
            ("lr", Event::Exception(exception)) => exception.return_address = number(value),
            ("esr", _) => step.write_register("esr_el1", 0, &(hex(value) << 26).to_le_bytes()),
            _ => step.write_register(name, 0, &hex(value).to_le_bytes()[..bytes]),
        }
        return;
    }
    let (address, bytes) = effect[1..].split_once('+').unwrap();
    let (address, bytes) = (hex(address), hex(bytes));
    match &effect[..1] {
        "r" => step.access(Direction::Read, address, bytes),
        "w" => step.access(Direction::Write, address, bytes),
        _ => step.access_known(Direction::Read, address, bytes, vec![(1, 255); bytes as usize]),
    }
}

fn edit(step: &mut Step, change: impl FnOnce(&mut Instruction)) {
    let Event::Instruction(mut instruction) = step.event else { panic!("{step:?}") };
    change(&mut instruction);
    step.event = Event::Instruction(instruction);
}

fn instruction(address: u64, opcode: Option<u32>, isa: Isa) -> Event {
    Event::Instruction(Instruction { address, opcode, length: 4, isa, ..Instruction::default() })
}

fn context(fields: &[&str]) -> Context {
    let mut context = Context::default();
    for field in fields {
        match field.split_once('=').unwrap_or((field, "")) {
            ("level", level) => context.level = number(level).map(|level| level as u8),
            ("thread", thread) => context.thread = number(thread),
            ("vmid", vmid) => context.vmid = number(vmid).map(|vmid| vmid as u32),
            ("secure", _) => context.security = Some(Security::Secure),
            ("realm", _) => context.security = Some(Security::Realm),
            other => panic!("{other:?}"),
        }
    }
    context
}

fn kind_of(name: &str) -> ExceptionKind {
    match name {
        "sync" => ExceptionKind::Synchronous,
        "irq" => ExceptionKind::Irq,
        "reset" => ExceptionKind::Reset,
        "debug" => ExceptionKind::Debug,
        _ => ExceptionKind::Unknown,
    }
}

fn gap(cause: &str) -> Gap {
    match cause {
        "start" => Gap::Start,
        "overflow" => Gap::Overflow,
        _ => Gap::Damaged,
    }
}

fn opcode(mnemonic: &str) -> u32 {
    match mnemonic {
        "nop" => NOP,
        "ldr" => LDR,
        "ldp" => LDP,
        "prfm" => PRFM,
        "dc" => DC,
        "b.eq" => B_EQ,
        "b" => B,
        "ret" => RET,
        "svc" => SVC,
        "brk" => BRK,
        "eret" => ERET,
        "ld1b" => LD1B,
        "spsel" => SPSEL_0,
        "smstart" => SMSTART,
        "setm" => SETM,
        other => panic!("{other}"),
    }
}

/// `None` for a dash.
fn number(text: &str) -> Option<u64> {
    (text != "-").then(|| hex(text))
}

pub(crate) fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}

/// Records after the header, without continuations of strings.
pub(crate) fn text_of(records: &[Bytes]) -> String {
    let is_whole = |record: &&Bytes| !matches!(Record::from_bytes(record), Record::StringContinuation(_));
    records[1..].iter().filter(is_whole).map(record_text).collect::<Vec<_>>().join(", ")
}

fn record_text(record: &Bytes) -> String {
    let flags = |flags: &[(bool, &str)]| -> String { flags.iter().filter(|flag| flag.0).map(|flag| flag.1).collect() };
    match Record::from_bytes(record) {
        Record::Instruction(record) => {
            let set = [(record.is_read, " r"), (record.is_write, " w"), (record.is_branch, " b"), (record.trap, " t")];
            let access = if record.ea_valid {
                format!(" {:x}+{}", record.ea, u16::from(record.ea_size) + 1)
            } else {
                String::new()
            };
            format!("{:x}{}{access}", record.pc, flags(&set))
        }
        Record::Trap(trap) => {
            format!("trap {} class {:x} call {} to {:x}", trap.trap_type, trap.ec, trap.syscall_index, trap.target_pc)
        }
        Record::Context(context) if context.unsupported => "unsupported".into(),
        Record::Context(context) => {
            let stack = if context.handler { "h" } else { "t" };
            let set = [(context.secure, " secure"), (context.pstate_sm, " sm"), (context.pstate_dit, " dit")];
            format!("el{}{stack}{}", context.el, flags(&set))
        }
        Record::StringStart(string) => {
            String::from_utf8_lossy(&string.string[..usize::from(string.size).min(28)]).into_owned()
        }
        Record::Timestamp(time) => format!("t{}", time.value),
        other => format!("{other:?}"),
    }
}
