//! The memory access of an A64 instruction, from its text alone. Knows names of instructions, no encodings.

use std::collections::HashSet;

use unspool_isa::{Access, Isa, Operation, Stage};
use unspool_testing::note;

use super::oracle::{Machine, Text};
use super::{assert_none, bytes_of_last_letter, split};

/// Compares every opcode.
pub(crate) fn compare(machine: &Machine, opcodes: &[u32]) {
    let (mut wrong, mut names, mut valid, mut accesses) = (Vec::new(), HashSet::new(), 0, 0);
    for (&opcode, text) in opcodes.iter().zip(machine.disassemble(Isa::A64, opcodes)) {
        let ours = unspool_isa::access(Isa::A64, opcode);
        if let Text::Valid(text) | Text::Unpredictable(text) = &text {
            valid += 1;
            accesses += usize::from(ours.operation != Operation::None);
            names.insert(split(text, "//").0.to_owned());
        }
        if !agrees(&ours, &text) {
            wrong.push(format!("{opcode:08x} {text:?}: {ours:?}"));
        }
    }
    note(format_args!(
        "A64 accesses: {} opcodes, {valid} valid with {} names, {accesses} of them not None, {} wrong",
        opcodes.len(),
        names.len(),
        wrong.len(),
    ));
    assert_none(wrong);
}

fn agrees(ours: &Access, text: &Text) -> bool {
    match text {
        Text::Invalid => ours.operation == Operation::None,
        Text::Valid(text) | Text::Unpredictable(text) => {
            let theirs = read(text);
            // An operation that takes no register but has one, or TLBIP without XS, is nameless to LLVM.
            let is_nameless = matches!(split(text, "//").0, "sys" | "sysl" | "sysp");
            // Whether an instruction without memory is of SVE or SME is not in its text.
            let theirs = Access { vector: theirs.vector || !theirs.is_memory_access() && ours.vector, ..theirs };
            is_nameless || *ours == theirs
        }
    }
}

fn read(text: &str) -> Access {
    let (name, operands) = split(text, "//");
    let operation = operation(name, operands);
    let is_announced = matches!(operation, Operation::Prefetch | Operation::VectorPrefetch);
    let has_vector = registers(operands).any(is_scalable);
    let is_scalable = has_vector && (operation.is_memory_access() || is_announced);
    let is_whole = matches!(name, "ldr" | "str");
    Access {
        operation,
        bytes: if is_scalable { scalable_bytes(name, operands) } else { bytes(name, operands, operation) },
        element: if is_scalable { Some(if is_whole { 1 } else { bytes_of_last_letter(name) }) } else { None },
        predicated: is_scalable && !is_whole && registers(operands).any(|register| register.starts_with('p')),
        suppresses_faults: name.starts_with("ldff1") || name.starts_with("ldnf1"),
        vector: is_scalable,
        may_not_write: may_not_write(name),
        sme_index: operands.contains("za") && operands.contains("[w"),
    }
}

/// Every word of the operands that is a register with a number, and ZA.
fn registers(operands: &str) -> impl Iterator<Item = &str> {
    let words = operands.split(|character: char| !character.is_ascii_alphanumeric());
    words.filter(|word| word.starts_with("za") || word.ends_with(|last: char| last.is_ascii_digit()))
}

fn is_scalable(register: &str) -> bool {
    let number = register.trim_start_matches(|character: char| character.is_ascii_alphabetic());
    let kind = &register[..register.len() - number.len()];
    register.starts_with("za") || matches!(kind, "z" | "p" | "pn" | "zt")
}

fn operation(name: &str, operands: &str) -> Operation {
    let is_range = operands.contains("]!");
    match name {
        "ldg" | "ldgm" => Operation::TagLoad,
        "stg" | "st2g" | "stgm" => Operation::TagStore,
        "stzg" | "stz2g" | "stzgm" | "stgp" => Operation::TagAndDataStore,
        "prfm" | "prfum" | "rprfm" => Operation::Prefetch,
        "prfb" | "prfh" | "prfw" | "prfd" => Operation::VectorPrefetch,
        "ic" | "dc" => cache(operands),
        "tlbi" | "tlbip" => invalidation(operands),
        "at" => Operation::AddressTranslation,
        "gcsstr" | "gcssttr" | "gcspushm" | "gcspushx" => Operation::Store,
        "gcspopm" | "gcspopx" | "gcspopcx" => Operation::Load,
        "gcsss1" | "gcsss2" => Operation::LoadStore,
        // Hints, and an outer product of signed bytes
        "stshh" | "stcph" | "stmopa" => Operation::None,
        _ if is_range && name.starts_with("setg") => set(&name[4..], true),
        _ if is_range && name.starts_with("set") => set(&name[3..], false),
        _ if is_range && name.starts_with("cpy") => Operation::Copy { stage: stage(name[3..].trim_start_matches('f')) },
        _ if is_atomic(name) => Operation::LoadStore,
        _ if name.starts_with("ld") => Operation::Load,
        _ if name.starts_with("st") => Operation::Store,
        _ => Operation::None,
    }
}

fn set(rest: &str, tagged: bool) -> Operation {
    Operation::Set { stage: stage(rest.trim_start_matches('o')), tagged }
}

fn stage(rest: &str) -> Stage {
    match rest.chars().next() {
        Some('p') => Stage::Prologue,
        Some('m') => Stage::Main,
        Some('e') => Stage::Epilogue,
        other => unreachable!("no stage is called {other:?}"),
    }
}

fn is_atomic(name: &str) -> bool {
    const OPERATIONS: [&str; 14] =
        ["add", "clr", "eor", "set", "smax", "smin", "umax", "umin", "fadd", "fmax", "fmin", "bfadd", "bfmax", "bfmin"];
    let rest = name.strip_prefix("ld").or(name.strip_prefix("st")).unwrap_or_default();
    let rest = rest.strip_prefix('t').unwrap_or(rest);
    OPERATIONS.iter().any(|operation| rest.starts_with(operation))
        || ["cas", "swp", "rcw"].iter().any(|operation| name.starts_with(operation))
}

fn cache(operands: &str) -> Operation {
    let what = operands.split(',').next().unwrap_or_default();
    match what {
        "zva" => Operation::Zero,
        "gva" | "gbva" => Operation::TagZero,
        "gzva" | "zgbva" => Operation::TagAndDataZero,
        _ if what.contains("va") => Operation::CacheMaintenance,
        _ => Operation::CacheMaintenanceAll,
    }
}

fn invalidation(operands: &str) -> Operation {
    let what = operands.split(',').next().unwrap_or_default();
    match what {
        _ if what.contains("all") || what.starts_with("aside") => Operation::TlbInvalidateAll,
        _ if what.starts_with('r') => Operation::TlbInvalidateRange,
        _ => Operation::TlbInvalidate,
    }
}

fn may_not_write(name: &str) -> bool {
    const STORES: [&str; 4] = ["stxr", "stxp", "stlxr", "stlxp"];
    ["cas", "rcw", "st64bv", "sttxr", "stltxr"].iter().chain(&STORES).any(|start| name.starts_with(start))
        || name == "gcsss1"
}

fn scalable_bytes(name: &str, operands: &str) -> Option<u16> {
    match name {
        _ if operands.starts_with("zt0") => Some(64),
        _ if name.starts_with("ld1rq") => Some(16),
        _ if name.starts_with("ld1ro") => Some(32),
        _ if name.starts_with("ld1r") => Some(bytes_of_last_letter(name).into()),
        _ => None,
    }
}

fn bytes(name: &str, operands: &str, operation: Operation) -> Option<u16> {
    match name {
        "ldg" | "stg" | "stzg" | "stgp" => return Some(16),
        "st2g" | "stz2g" => return Some(32),
        "gcspushx" | "gcspopx" | "gcspopcx" => return Some(32),
        "gcsss2" => return Some(16),
        "gcsstr" | "gcssttr" | "gcspushm" | "gcspopm" | "gcsss1" => return Some(8),
        "ldraa" | "ldrab" => return Some(8),
        "ld64b" | "st64b" | "st64bv" | "st64bv0" => return Some(64),
        _ if !matches!(operation, Operation::Load | Operation::Store | Operation::LoadStore) => return None,
        _ => {}
    }
    if operands.starts_with('{') {
        return Some(structure(name, operands));
    }
    let is_pair = name == "ldap" || PAIRS.iter().any(|pair| name.starts_with(pair));
    let register = register(name, operands);
    Some(if is_pair { 2 * register } else { register })
}

const PAIRS: [&str; 30] = [
    "ldp", "stp", "ldnp", "stnp", "ldtp", "sttp", "ldtnp", "sttnp", "ldxp", "ldaxp", "stxp", "stlxp", "ldiapp",
    "stilp", "stlp", "ldapp", "casp", "ldclrp", "ldsetp", "swpp", "rcwcasp", "rcwclrp", "rcwsetp", "rcwswpp",
    "rcwscasp", "rcwsclrp", "rcwssetp", "rcwsswpp", "ldpsw", "stgp",
];

/// The size of the first register that is not the status of an exclusive store, or the one that the name defines.
fn register(name: &str, operands: &str) -> u16 {
    let has_status = ["stxr", "stlxr", "stxp", "stlxp", "sttxr", "stltxr"].iter().any(|start| name.starts_with(start));
    let first = operands.split(", ").nth(usize::from(has_status)).unwrap_or_default();
    match name {
        _ if name.ends_with("sw") => 4,
        _ if name.ends_with('b') => 1,
        _ if name.ends_with('h') => 2,
        _ => match first.chars().next() {
            Some('w' | 's') => 4,
            Some('x' | 'd') => 8,
            Some('b') => 1,
            Some('h') => 2,
            Some('q') => 16,
            other => unreachable!("no register is called {other:?} in {name} {operands}"),
        },
    }
}

/// LD1 to LD4 and ST1 to ST4: `{ v0.8b, v1.8b }` of whole registers, `{ v0.b, v1.b }[3]` of one lane.
fn structure(name: &str, operands: &str) -> u16 {
    let (list, rest) = operands.split_once('}').unwrap_or((operands, ""));
    let count = list.matches('v').count() as u16;
    let lanes = list.split('.').nth(1).unwrap_or_default();
    let lanes = lanes.split([',', ' ']).next().unwrap_or_default();
    let number: u16 = lanes.trim_end_matches(|last: char| last.is_ascii_alphabetic()).parse().unwrap_or(1);
    let lane = u16::from(bytes_of_last_letter(lanes));
    let is_one_lane = rest.starts_with('[') || name.ends_with('r');
    count * lane * if is_one_lane { 1 } else { number }
}
