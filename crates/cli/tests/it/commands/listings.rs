//! `program --listing`: every listing is assembled, disassembled by another tool, and compared with the numbered steps of the
//! specification: which registers are written and read, in which order, and which barriers are in between.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::run::{Folder, text, unspool};

/// The registers that K10.5.7.6 lists, with their number where there are several. Resource selectors 0 and 1 are constants.
const UNIT: [(&str, std::ops::Range<u32>); 34] = [
    ("trcconfigr", 0..0),
    ("trcauxctlr", 0..0),
    ("trceventctl0r", 0..0),
    ("trceventctl1r", 0..0),
    ("trcrsr", 0..0),
    ("trcstallctlr", 0..0),
    ("trctsctlr", 0..0),
    ("trcsyncpr", 0..0),
    ("trcccctlr", 0..0),
    ("trcbbctlr", 0..0),
    ("trctraceidr", 0..0),
    ("trcqctlr", 0..0),
    ("trcvictlr", 0..0),
    ("trcviiectlr", 0..0),
    ("trcvissctlr", 0..0),
    ("trcvipcssctlr", 0..0),
    ("trcseqevr", 0..3),
    ("trcseqrstevr", 0..0),
    ("trcseqstr", 0..0),
    ("trcextinselr", 0..4),
    ("trccntrldvr", 0..4),
    ("trccntctlr", 0..4),
    ("trccntvr", 0..4),
    ("trcimspec", 0..8),
    ("trcrsctlr", 2..32),
    ("trcssccr", 0..8),
    ("trcsscsr", 0..8),
    ("trcsspcicr", 0..8),
    ("trcacvr", 0..16),
    ("trcacatr", 0..16),
    ("trccidcvr", 0..8),
    ("trcvmidcvr", 0..8),
    ("trccidcctlr", 0..2),
    ("trcvmidcctlr", 0..2),
];

/// Registers of the trace buffer, without the one that enables it.
const BUFFER: [&str; 5] = ["trbbaser_el1", "trbptr_el1", "trbsr_el1", "trbtrg_el1", "trbmar_el1"];

const WITH_BUFFER: [&str; 6] = ["--buffer", "0x80000000..0x80100000", "--buffer-mode", "wrap", "--watermark", "65536"];

/// Plans of several shapes.
const PLANS: [&[&str]; 5] = [
    &[],
    &[
        "--include",
        "0x8000..0x9000",
        "--exclude",
        "0x8100..0x8200",
        "--start",
        "0x8000",
        "--stop",
        "0xffff800012345678",
    ],
    &["--levels", "all", "--cycle-counts", "256", "--branch-broadcast", "--no-return-stack", "--no-timestamps"],
    &["--context-id", "0x12345678", "--vmid", "3", "--event", "0=0x8000", "--event-once", "3=0x9000..0xa000"],
    &["--context-id", "1", "--context-id", "2", "--timestamps-in", "0x8000..0x9000", "--start", "0x8000"],
];

/// Part of a step: one operation, or several in any order.
enum Operation {
    One(&'static str),
    Each(Vec<String>),
}

use Operation::{Each, One};

/// A step: where the specification has it, and its operations.
type Step = (&'static str, Vec<Operation>);

/// Reading TRCSTATR, each time after a barrier (K10.5.7.1, STTPKR).
fn poll(paragraph: &'static str) -> Step {
    (paragraph, vec![One("isb"), One("mrs trcstatr")])
}

fn one(paragraph: &'static str, operations: &[&'static str]) -> Step {
    (paragraph, operations.iter().map(|operation| One(operation)).collect())
}

/// Reads or writes of the registers of the trace unit without its switch, of the buffer without its switch, and others.
fn each(operation: &str, has_buffer: bool, others: &[&str]) -> Operation {
    let unit = UNIT.iter().flat_map(|(name, numbers)| match numbers.is_empty() {
        true => vec![(*name).to_string()],
        false => numbers.clone().map(|number| format!("{name}{number}")).collect(),
    });
    let buffer = BUFFER.iter().filter(|_| has_buffer).chain(others).map(|name| (*name).to_string());
    Each(unit.chain(buffer).map(|name| format!("{operation} {name}")).collect())
}

/// The steps of a listing. `written`: the registers of the plan, for the one that enables.
fn steps(listing: &str, has_buffer: bool, written: &[String]) -> Vec<Step> {
    let with = |paragraph, operations: &[&'static str]| {
        if has_buffer { one(paragraph, operations) } else { (paragraph, vec![]) }
    };
    let is_of_buffer = |name: &&String| name.starts_with("trb");
    let writes = |names: Vec<&String>| Each(names.iter().map(|name| format!("msr {name}")).collect());
    let is_switch = |name: &&String| *name == "trblimitr_el1";
    match listing {
        "enable" => vec![
            (
                "K10.5.7.1: the sink before the source",
                vec![writes(written.iter().filter(is_of_buffer).filter(|name| !is_switch(name)).collect())],
            ),
            with("K10.5.10 in 2, 3", &["isb", "msr trblimitr_el1"]),
            ("K10.5.7.1.1: the registers", vec![writes(written.iter().filter(|name| !is_of_buffer(name)).collect())]),
            one("K10.5.7.1.1: on", &["isb", "msr trcprgctlr"]),
            poll("K10.5.7.1.1: not idle"),
        ],
        "disable" => vec![
            one("K10.5.7.1.2: prohibited", &["mrs trfcr_el1", "msr trfcr_el1", "isb"]),
            one("K10.5.7.1.2: flush, off", &["tsb csync", "msr trcprgctlr"]),
            poll("K10.5.7.1.2: idle and stable"),
            with("K10.5.7.1: the sink after the source", &["mrs trblimitr_el1", "msr trblimitr_el1", "dsb nsh", "isb"]),
            one("K10.5.7.1.2: as before", &["msr trfcr_el1"]),
        ],
        "save" => vec![
            one("K10.5.7.1.3: prohibited", &["mrs trfcr_el1", "msr trfcr_el1", "isb"]),
            one("K10.5.7.1.3: flush, lock", &["tsb csync", "msr oslar_el1"]),
            poll("K10.5.7.1.3: stable"),
            one("K10.5.7.1.3: as before", &["msr trfcr_el1"]),
            ("K10.5.7.1.3: registers, TRCPRGCTLR too", vec![each("mrs", false, &["trcprgctlr"])]),
            poll("K10.5.7.1.3: idle"),
            with("K10.5.10 out 5", &["mrs trblimitr_el1", "msr trblimitr_el1"]),
            with("K10.5.10 out 6, 7", &["dsb nsh", "isb"]),
            (
                "K10.5.10 out 8",
                BUFFER.iter().filter(|_| has_buffer).map(|name| Each(vec![format!("mrs {name}")])).collect(),
            ),
        ],
        "restore" => vec![
            ("K10.5.10 in 1", vec![each("msr", has_buffer, &[])]),
            one("K10.5.10 in 2", &["isb"]),
            with("K10.5.10 in 3", &["msr trblimitr_el1"]),
            one("K10.5.10 in 4, 5", &["msr trcprgctlr", "isb"]),
            one("K10.5.7.1.3: unlock", &["msr oslar_el1", "isb"]),
        ],
        "switch-out" => vec![
            one("K10.5.10 out 1", &["mrs trfcr_el1", "msr trfcr_el1"]),
            one("K10.5.10 out 2", &["isb"]),
            one("K10.5.10 out 3", &["tsb csync"]),
            one("K10.5.10 out 4", &["mrs trcprgctlr", "msr trcprgctlr"]),
            poll("K10.5.7.1.2: idle and stable"),
            with("K10.5.10 out 5", &["mrs trblimitr_el1", "msr trblimitr_el1"]),
            one("K10.5.10 out 6", &["dsb nsh"]),
            one("K10.5.10 out 7", &["isb"]),
            ("K10.5.10 out 8", vec![each("mrs", has_buffer, &[])]),
        ],
        "switch-out-unprohibited" => vec![
            one("K10.5.10 not prohibited 1", &["mrs trcprgctlr", "msr trcprgctlr"]),
            one("K10.5.10 not prohibited 2", &["isb"]),
            one("K10.5.10 not prohibited 3", &["tsb csync"]),
            poll("K10.5.7.1.2: idle and stable"),
            one("K10.5.10 not prohibited 5, part", &["mrs trfcr_el1"]),
            with("K10.5.10 out 5", &["mrs trblimitr_el1", "msr trblimitr_el1"]),
            one("K10.5.10 not prohibited 4", &["dsb nsh", "isb"]),
            ("K10.5.10 not prohibited 5", vec![each("mrs", has_buffer, &[])]),
        ],
        _ => vec![
            ("K10.5.10 in 1", vec![each("msr", has_buffer, &["trfcr_el1"])]),
            one("K10.5.10 in 2", &["isb"]),
            with("K10.5.10 in 3", &["msr trblimitr_el1"]),
            one("K10.5.10 in 4", &["msr trcprgctlr"]),
            one("K10.5.10 in 5", &["isb"]),
        ],
    }
}

const LISTINGS: [&str; 7] =
    ["enable", "disable", "save", "restore", "switch-out", "switch-out-unprohibited", "switch-in"];

/// Assembles a listing and disassembles the result: one line per instruction. `None`: a tool is missing.
fn assembled(folder: &Folder, listing: &Path) -> Option<Vec<String>> {
    let package = "binutils-aarch64-linux-gnu";
    let assembler = unspool_testing::tool("aarch64-linux-gnu-as", package)?;
    let disassembler = unspool_testing::tool("aarch64-linux-gnu-objdump", package)?;
    let object = folder.path("listing.o");
    let made = Command::new(assembler).args(["-march=armv9-a", text(listing), "-o", text(&object)]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let shown = Command::new(disassembler).args(["-d", text(&object)]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    // "   4:	d5310301 	mrs	x1, trcstatr"
    let instructions = shown.lines().filter_map(|line| {
        let mut columns = line.split('\t').skip(2);
        let name = columns.next()?.trim();
        Some(format!("{name} {}", columns.next().unwrap_or("").trim()).trim().to_string())
    });
    Some(instructions.collect())
}

/// Accesses to system registers, and barriers.
fn operation(instruction: &str) -> Option<String> {
    let (name, operands) = instruction.split_once(' ').unwrap_or((instruction, ""));
    match name {
        "msr" => Some(format!("msr {}", operands.split(',').next()?)),
        "mrs" => Some(format!("mrs {}", operands.split(", ").nth(1)?)),
        "isb" | "dsb" | "tsb" => Some(instruction.to_string()),
        _ => None,
    }
}

fn check_steps(name: &str, operations: &[String], steps: &[Step]) {
    let mut rest = operations;
    for (paragraph, wanted) in steps {
        for operation in wanted {
            let (mut wanted, count) = match operation {
                One(one) => (vec![(*one).to_string()], 1),
                Each(all) => (all.clone(), all.len()),
            };
            let (head, tail) = rest.split_at_checked(count).unwrap_or_else(|| panic!("{name}, {paragraph}: {rest:?}"));
            let mut found = head.to_vec();
            found.sort();
            wanted.sort();
            assert_eq!(found, wanted, "{name}, {paragraph}");
            rest = tail;
        }
    }
    assert!(rest.is_empty(), "{name}: more than the steps: {rest:?}");
}

#[test]
fn listings_follow_the_numbered_steps() {
    for listing in LISTINGS {
        for (number, plan) in PLANS.iter().enumerate() {
            for buffer in [&[][..], &WITH_BUFFER] {
                let folder = Folder::new();
                let path = folder.path("listing.s");
                let run = unspool(&[&["program", "--listing", listing, "-o", text(&path)], *plan, buffer].concat());
                assert_eq!(run.code, 0, "{}", run.err);
                let Some(instructions) = assembled(&folder, &path) else { return };
                let operations: Vec<String> = instructions.iter().filter_map(|line| operation(line)).collect();
                let unit = unspool(&[&["program", "--unit"], *plan, buffer].concat());
                let written = unit.out.lines().filter_map(|line| line.split_once('='));
                let written: Vec<String> =
                    written.map(|(name, _)| name.to_lowercase()).filter(|name| name != "protocol").collect();
                assert!(written.len() >= 10, "{}", unit.out);
                let steps = steps(listing, !buffer.is_empty(), &written);
                check_steps(&format!("{listing}, plan {number}, buffer {}", !buffer.is_empty()), &operations, &steps);
            }
        }
    }
}

/// Where each register is stored after it was read, or loaded from before it is written.
fn places(instructions: &[String], memory: &str, is_before: bool) -> BTreeMap<String, String> {
    let offset = |line: &str| {
        let operands = line.strip_prefix(memory)?.trim().strip_prefix("x1, [x2")?;
        Some(operands.trim_start_matches(", ").trim_end_matches(']').to_string())
    };
    let pairs = instructions.windows(2).filter_map(|pair| {
        let (access, moved) = if is_before { (&pair[1], &pair[0]) } else { (&pair[0], &pair[1]) };
        let register = operation(access)?.split_once(' ')?.1.to_string();
        Some((register, offset(moved)?))
    });
    pairs.collect()
}

/// A register is restored from where it was saved, the switches too, which are read while they are on.
#[test]
fn registers_are_restored_from_where_they_were_saved() {
    for (saves, restores) in
        [("save", "restore"), ("switch-out", "switch-in"), ("switch-out-unprohibited", "switch-in")]
    {
        for buffer in [&[][..], &WITH_BUFFER] {
            let mut found = Vec::new();
            for (listing, memory, is_before) in [(saves, "str", false), (restores, "ldr", true)] {
                let folder = Folder::new();
                let path = folder.path("listing.s");
                unspool(&[&["program", "--listing", listing, "-o", text(&path)], buffer].concat()).clean();
                let Some(instructions) = assembled(&folder, &path) else { return };
                found.push(places(&instructions, memory, is_before));
            }
            let count = UNIT.iter().map(|(_, numbers)| numbers.len().max(1)).sum::<usize>() + 1;
            let count = count + if buffer.is_empty() { 0 } else { BUFFER.len() + 1 };
            assert_eq!(found[0].len(), count + usize::from(saves != "save"), "{saves}");
            assert_eq!(found[0], found[1], "{saves}, {restores}");
        }
    }
}

/// IDHQGM of K10.5.7.1: a loop that reads TRCSTATR may never end.
#[test]
fn loops_that_may_not_end_are_marked() {
    for listing in LISTINGS {
        let run = unspool(&["program", "--listing", listing, "--buffer", "0x1000..0x2000"]);
        let loops = run.out.matches("mrs x1, trcstatr").count();
        assert_eq!(run.out.matches("This loop may never end").count(), loops, "{listing}");
        let wanted = usize::from(!["restore", "switch-in"].contains(&listing));
        assert_eq!(loops.min(1), wanted, "{listing}");
    }
    let help = unspool(&["program", "--help"]).out.replace("\n          ", " ");
    assert!(help.contains("Loops that wait for the trace unit may never end"), "{help}");
}

/// A file of registers that has identification registers gives shorter listings.
#[test]
fn registers_that_do_not_exist_are_left_out() {
    let folder = Folder::new();
    let (registers, path) = (folder.path("registers.txt"), folder.path("listing.s"));
    fs::write(&registers, "TRCCONFIGR=0x18c1\nTRCIDR0=0\nTRCIDR3=0\nTRCIDR4=0x00010001\nTRCIDR5=0\n").unwrap();
    for listing in LISTINGS {
        let run = unspool(&["program", text(&registers), "--listing", listing, "-o", text(&path), "--force"]);
        assert_eq!(run.code, 0, "{}", run.err);
        let Some(instructions) = assembled(&folder, &path) else { return };
        let has = |register: &str| instructions.iter().any(|line| line.contains(register));
        assert!(
            !has("trcseq") && !has("trccnt") && !has("trcacvr2") && !has("trcidr") && !has("trcqctlr"),
            "{listing}"
        );
        assert_eq!(has("trcconfigr"), listing != "disable", "{listing}");
    }
}
