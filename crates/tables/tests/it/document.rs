//! The page about tables has every column, with its type.

use std::fs;

use unspool_tables::{Table, VERSION};
use unspool_testing::repository;

#[test]
fn the_page_has_every_column() {
    let page = fs::read_to_string(repository("docs/tables.md")).unwrap();
    assert!(page.contains(&format!("`unspool.version`: it is {VERSION},")));
    let (_, common) = page.split_once("## Columns that most tables have").unwrap();
    for table in Table::ALL {
        let (_, own) = page.split_once(&format!("\n## {}\n", table.name())).unwrap();
        let own = own.split("\n## ").next().unwrap();
        let mut rows = 0;
        for field in table.schema().fields() {
            let null = if field.is_nullable() { ", null" } else { "" };
            let row = format!("| `{}` | {}{null} |", field.name(), field.data_type());
            rows += usize::from(own.contains(&row));
            assert!(own.contains(&row) || common.contains(&row), "{}: {row}", table.name());
        }
        assert_eq!(own.lines().filter(|line| line.starts_with("| `")).count(), rows, "{}", table.name());
    }
}

#[test]
fn the_page_about_queries_has_every_view() {
    let page = fs::read_to_string(repository("docs/queries.md")).unwrap();
    for view in unspool_tables::views::VIEWS {
        let row = format!("| `{}{}` | {} |", view.name, view.parameters, view.about);
        assert!(page.contains(&row), "{row}");
    }
}
