//! Classes of a RISC-V instruction, from its name.

use unspool_isa::{Class, ControlFlow, Decoded, Operation};

use super::super::riscv::Instruction;

/// Whether the classes are those of the name.
pub(crate) fn fit(ours: &Instruction, name: &str, operands: &str) -> bool {
    let rows = of_names(name).into_iter().chain(of_memory(ours, name)).chain(of_flow(&ours.decoded));
    // A mask in v0 can only be where an instruction is maskable.
    let is_maskable = !operands.ends_with("v0.t") || ours.classes.contains(Class::Maskable);
    let are_all = rows.into_iter().all(|(class, is_in)| ours.classes.contains(class) == is_in);
    is_maskable && are_all && !ours.classes.is_empty()
}

fn of_names(name: &str) -> [(Class, bool); 14] {
    let plain = name.strip_prefix("c.").unwrap_or(name);
    let starts = |starts: &[&str]| starts.iter().any(|start| plain.starts_with(start));
    let is_ordered = [".aq", ".rl", ".aqrl"].iter().any(|end| name.ends_with(end));
    [
        (Class::Vector, starts(&["v"])),
        (Class::Float, starts(&["f", "vf", "vmf"]) && !starts(&["fence", "vfirst"])),
        // unimp writes to a register that cannot be written.
        (Class::Csr, starts(&["csr", "unimp"])),
        (Class::Atomic, starts(&["amo", "lr.", "sc."]) || is_ordered),
        (Class::Multiply, starts(&["mul", "fmul"])),
        (Class::Divide, starts(&["div", "rem", "fdiv", "vdiv", "vrem", "vfdiv", "vfrdiv"])),
        (Class::MultiplyAdd, starts(&MULTIPLY_ADD)),
        (Class::SquareRoot, plain.contains("sqrt")),
        (Class::Compare, starts(&["feq", "fle", "flt"])),
        (Class::Classify, starts(&["fclass"])),
        (Class::Pc, name == "auipc"),
        (Class::FaultFirst, name.ends_with("ff.v")),
        (Class::Hypervisor, starts(&["hlv", "hsv", "hfence", "hinval"])),
        (Class::Prefetch, starts(&["prefetch"])),
    ]
}

const MULTIPLY_ADD: [&str; 21] = [
    "fmadd", "fmsub", "fnmadd", "fnmsub", "vmadd", "vnmsub", "vmacc", "vnmsac", "vwmacc", "vfmadd", "vfnmadd",
    "vfmsub", "vfnmsub", "vfmacc", "vfnmacc", "vfmsac", "vfnmsac", "vfwmacc", "vfwnmacc", "vfwmsac", "vfwnmsac",
];

/// Classes of a load or store, from the name after its first two letters.
fn of_memory(ours: &Instruction, name: &str) -> [(Class, bool); 5] {
    let is_vector = ours.access.vector && ours.access.is_memory_access();
    let kind = name.get(2..).filter(|_| is_vector).unwrap_or_default();
    let is_whole = kind == "m.v" || kind.starts_with(|first: char| first.is_ascii_digit());
    let is_strided = kind.starts_with("sseg") || kind.starts_with("se") && !kind.starts_with("seg");
    [
        (Class::Load, ours.access.reads()),
        (Class::Store, ours.access.operation == Operation::Store),
        (Class::Indexed, kind.contains('x')),
        (Class::Segment, is_vector && !is_whole),
        (Class::Stride, is_strided),
    ]
}

fn of_flow(decoded: &Decoded) -> [(Class, bool); 4] {
    let is_direct = decoded.flow == ControlFlow::Direct;
    [
        (Class::Branch, matches!(decoded.flow, ControlFlow::Direct | ControlFlow::Indirect)),
        (Class::Conditional, is_direct && decoded.conditional),
        (Class::Jal, is_direct && !decoded.conditional),
        (Class::Jalr, decoded.flow == ControlFlow::Indirect),
    ]
}
