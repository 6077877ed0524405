//! Programs, libraries and core dumps: type and machine from the header of an ELF file.

use super::Identity;

/// Identifies an ELF file.
pub(super) fn identify(start: &[u8], name: &str) -> Option<Identity> {
    let rest = start.strip_prefix(b"\x7fELF")?;
    let is_big_endian = rest.get(1) == Some(&2);
    let field = |at: usize| {
        let bytes: [u8; 2] = start.get(at..at + 2)?.try_into().ok()?;
        Some(if is_big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    };
    let (Some(kind), Some(machine)) = (field(16), field(18)) else {
        return Some(Identity::other("an ELF file, cut short in its header"));
    };
    let (machine, is_traceable) = machine_name(machine);
    let image = format!("--image {name} adds its code to a capture");
    let (what, next) = match kind {
        1 => ("object file", "link it into a program first".to_string()),
        2 | 3 if is_traceable => {
            let what = if kind == 2 { "program" } else { "program or library" };
            (what, format!("record a run with 'unspool record -o run.astf -- {name}'; {image}"))
        }
        2 | 3 => ("program", "unspool reads traces of Arm and RISC-V programs".to_string()),
        4 => ("core dump", format!("it has memory but no trace; --image {name} adds its memory to a capture")),
        _ => ("file of unknown type", image),
    };
    Some(Identity::other(format!("an ELF {what} for {machine}")).then(next))
}

/// Name of a machine, and whether its instructions are known.
fn machine_name(number: u16) -> (String, bool) {
    let (name, is_known) = match number {
        3 => ("x86", false),
        8 => ("MIPS", false),
        20 | 21 => ("PowerPC", false),
        22 => ("S/390", false),
        40 => ("Arm", true),
        62 => ("x86-64", false),
        183 => ("AArch64", true),
        243 => ("RISC-V", true),
        258 => ("LoongArch", false),
        number => return (format!("machine {number}"), false),
    };
    (name.to_string(), is_known)
}
