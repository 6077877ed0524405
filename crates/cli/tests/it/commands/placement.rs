//! Position-independent images, placed by what the trace shows; and readable names of their functions.

use crate::run::{Folder, text, unspool};

use super::{elf, example, example_file};

/// The program of the example as a position-independent file, linked at 0 and `copies` pages long.
fn pie(copies: usize, symbols: &[(&str, u64, u64)]) -> Vec<u8> {
    let mut page = example_file("program.bin");
    page.resize(0x1000, 0);
    let mut file = elf::program(0, &page.repeat(copies), symbols);
    // ET_DYN.
    file[16] = 3;
    file
}

const SYMBOLS: &[(&str, u64, u64)] = &[("_ZN4demo3runEv", 0, 0x28), ("_Z6squarei", 0x28, 8)];

#[test]
fn a_program_is_placed_where_the_trace_fits() {
    let folder = Folder::new();
    let image = folder.file("pie", pie(1, SYMBOLS));
    let found = unspool(&["decode", text(&example()), "--image", text(&image)])
        .expect(0, &["note: ", "pie: position-independent; placed at 0x400000"])
        .shows(&["demo::run():\n", "square(int):\n", "-> 0x400028 <square(int)>"]);
    // As if the address had been given.
    let given = unspool(&["decode", text(&example()), "--image", &format!("{}@0x400000", text(&image))]);
    assert_eq!(found.out, given.expect(0, &[]).out);
    unspool(&["decode", "-q", text(&example()), "--image", text(&image)]).clean();
}

#[test]
fn steps_are_placed_too() {
    let folder = Folder::new();
    let image = folder.file("pie", pie(1, SYMBOLS));
    // The capture without its own images.
    let bare = folder.file("trace.bin", example_file("trace.bin"));
    let ranges = |options: &[&str]| {
        let head = ["decode", text(&bare), "--protocol", "ete", "--id", "0x10", "--emit", "ranges", "--json"];
        unspool(&[&head, options].concat()).out
    };
    let placed = ranges(&["--image", text(&image)]);
    assert!(placed.contains("\"start\":\"0x400028\""), "{placed}");
    assert_eq!(placed, ranges(&["--image", &format!("{}@0x400000", text(&image))]));
}

#[test]
fn several_places_are_none() {
    let folder = Folder::new();
    let image = folder.file("twice", pie(2, &[]));
    unspool(&["decode", text(&example()), "--image", text(&image)]).expect(
        0,
        &[
            "warning: ",
            "twice: position-independent, and the trace fits several load addresses (0x3ff000, 0x400000)",
            "@ADDR",
        ],
    );
    // With an address there is nothing to find.
    let run = unspool(&["decode", text(&example()), "--image", &format!("{}@0x400000", text(&image))]).expect(0, &[]);
    assert!(!run.err.contains("position-independent"), "{}", run.err);
}

#[test]
fn an_image_that_does_not_fit_is_reported() {
    let folder = Folder::new();
    // Only returns: the trace of the example contradicts them everywhere.
    let mut file = elf::program(0, &0xd65f_03c0_u32.to_le_bytes().repeat(0x400), &[]);
    file[16] = 3;
    let image = folder.file("other", file);
    let message = "other: position-independent, and the trace does not show where it was loaded; add the address";
    let run = unspool(&["decode", text(&example()), "--image", text(&image)]);
    assert!(
        run.err.contains(&format!("warning: {}: ", text(&image))) && run.err.contains(&message[7..]),
        "{}",
        run.err
    );
}

/// A file that is loaded where it was linked needs no note.
#[test]
fn a_link_address_that_fits_is_kept() {
    let folder = Folder::new();
    let mut file = elf::program(0x40_0000, &example_file("program.bin"), &[("start", 0x40_0000, 0x30)]);
    file[16] = 3;
    let image = folder.file("linked", file);
    let run = unspool(&["decode", text(&example()), "--image", text(&image)]).expect(0, &[]).shows(&["start:\n"]);
    assert!(!run.err.contains("position-independent"), "{}", run.err);
}

#[test]
fn mangled_names_are_kept_on_demand() {
    let folder = Folder::new();
    let image = folder.file(
        "program",
        elf::program(
            0x40_0000,
            &example_file("program.bin"),
            &[("_ZN4demo3runEv", 0x40_0000, 0x28), ("_Z6squarei", 0x40_0028, 8)],
        ),
    );
    let decode =
        |options: &[&str]| unspool(&[&["decode", text(&example()), "--image", text(&image)], options].concat());
    decode(&[]).shows(&["square(int):\n"]);
    decode(&["--json"]).shows(&["\"symbol\":\"square(int)\""]);
    decode(&["--no-demangle"]).shows(&["_Z6squarei:\n"]);
    decode(&["--no-demangle", "--json"]).shows(&["\"symbol\":\"_Z6squarei\""]);
}

#[test]
fn a_function_is_selected_by_any_of_its_names() {
    let folder = Folder::new();
    let symbols = &[("_ZN4demo3runEv", 0x40_0000, 0x28), ("_Z6squarei", 0x40_0028, 8)];
    let image = folder.file("program", elf::program(0x40_0000, &example_file("program.bin"), symbols));
    let log = folder.path("run.tarmac");
    unspool(&["convert", text(&example()), text(&log), "--source", "0x10"]);
    for name in ["_Z6squarei", "square(int)", "square"] {
        let part = folder.path("part.tarmac");
        unspool(&["slice", text(&log), text(&part), "--force", "--function", name, "--image", text(&image)])
            .expect(0, &[]);
        let lines = unspool(&["dump", text(&part)]).out;
        assert!(lines.contains("MUL") || lines.contains("mul") || lines.contains("9b007c01"), "{name}: {lines}");
    }
    let part = folder.path("none.tarmac");
    unspool(&["slice", text(&log), text(&part), "--function", "squar", "--image", text(&image)])
        .expect(2, &["no function"]);
    unspool(&["calls", text(&log), "--image", text(&image)]).shows(&["demo::run()"]);
    unspool(&["profile", text(&log), "--image", text(&image)]).shows(&["square(int)"]);
}

/// Trace files have opcodes, which are compared with the image.
#[test]
fn functions_of_a_log_are_found_in_a_position_independent_program() {
    let folder = Folder::new();
    let log = folder.path("run.tarmac");
    unspool(&["convert", text(&example()), text(&log), "--source", "0x10"]);
    // The example executes only ten instructions, too few to be sure.
    let image = folder.file("small", pie(1, SYMBOLS));
    unspool(&["calls", text(&log), "--image", text(&image)]).expect(0, &["does not show where it was loaded"]);
    let lines: String = (0..40).map(|at| log_line(at, 0x55_0000_1000 + at * 4, 0xd280_0000 + at as u32 * 32)).collect();
    let (log, code) = (folder.file("long.tarmac", lines), straight(40));
    let mut file = elf::program(0x1000, &code, &[("_Z3runv", 0x1000, 160)]);
    file[16] = 3;
    let image = folder.file("long", file);
    let placed = "long: position-independent; placed at 0x5500001000: 40 instructions of the trace agree";
    let args = [text(&log), "--image", text(&image)];
    let run = unspool(&[&["profile"], &args[..]].concat()).expect(0, &["note: "]).shows(&["run()"]);
    assert!(run.err.contains(&placed[6..]), "{}", run.err);
    let part = folder.path("part.tarmac");
    unspool(&["slice", text(&log), text(&part), "--function", "run", "--image", text(&image)])
        .expect(0, &["placed at"]);
}

/// `mov x0, #number`, one after the other.
fn straight(count: u32) -> Vec<u8> {
    (0..count).flat_map(|number| (0xd280_0000 + number * 32).to_le_bytes()).collect()
}

fn log_line(number: u64, address: u64, opcode: u32) -> String {
    format!("{number} clk IT ({number}) {address:016x} {opcode:08x} O EL0t_n : MOV x0,#{number}\n")
}
