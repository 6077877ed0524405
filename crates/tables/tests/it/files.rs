//! Files of tables: what is seen while they are written, and what they replace.

use std::fs;

use unspool_tables::{Extraction, FolderWriter, MadeOf, Table, TableFolder, write_tables};
use unspool_testing::repository;

#[test]
fn no_half_table_is_seen() {
    let temporary = tempfile::tempdir().unwrap();
    let out = temporary.path().join("tables");
    let trace = unspool::open(repository("examples/hello-qemu")).unwrap();
    {
        let mut folder = FolderWriter::create(&out, &Table::ALL).unwrap();
        let mut extraction = Extraction::new(Table::ALL, &mut folder);
        for mut source in trace.step_sources().unwrap() {
            extraction.trace(&source.name, &mut *source.steps, &source.program).unwrap().unwrap();
        }
        assert!(!out.exists());
    }
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "the unfinished tables are removed");
}

#[test]
fn tables_replace_tables_and_nothing_else() {
    let temporary = tempfile::tempdir().unwrap();
    let out = temporary.path().join("tables");
    let trace = unspool::open(repository("examples/hello-qemu")).unwrap();
    write_tables(&trace, &out, &[Table::Blocks]).unwrap();
    write_tables(&trace, &out, &[Table::Events]).unwrap();
    let folder = TableFolder::at(&out).unwrap();
    assert!(folder.has(Table::Events) && !folder.has(Table::Blocks));
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1);

    let other = temporary.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("thesis.txt"), "do not delete").unwrap();
    assert!(write_tables(&trace, &other, &[Table::Blocks]).is_err());
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
}

#[test]
fn tables_know_what_they_were_made_of() {
    let temporary = tempfile::tempdir().unwrap();
    let out = temporary.path().join("tables");
    let made_of = MadeOf { identity: "a \"trace\"\n".to_string(), has_problems: true };
    FolderWriter::create(&out, &[Table::Sources]).unwrap().publish(&made_of).unwrap();
    assert_eq!(*TableFolder::at(&out).unwrap().made_of(), made_of);
    fs::write(out.join("tables.json"), "{\"kind\":\"unspool_tables\",\"version\":999,\"tables\":[]}").unwrap();
    assert!(TableFolder::at(&out).is_err());
}
