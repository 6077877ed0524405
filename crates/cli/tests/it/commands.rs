//! The command line: arguments in; text, JSON lines and an exit code out.
//!
//! Most tests use `examples/hello-ete`, whose program and packets are in `crates/unspool/tests/hello.rs`.
#![allow(clippy::unwrap_used, clippy::panic)]

mod astf;
mod bad_input;
mod calls;
mod capture_index;
mod check;
mod convert;
mod damage;
mod decode;
mod diff;
mod doctor;
mod edit;
mod elf;
mod encode;
mod export;
mod find;
mod identify;
mod json;
mod lines;
mod listings;
mod options;
mod order;
mod pack;
mod pipe;
mod placement;
mod places;
mod plans;
mod program;
mod selection;
mod shell;
mod slice;
pub(crate) mod software;
mod state;
mod stats;
mod stf;
mod tarmac;
mod terminal;
mod verbs;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

pub(crate) use self::decode::assert_same_lines;
use crate::run::Folder;

fn example() -> PathBuf {
    unspool_testing::example("hello-ete")
}

fn example_file(name: &str) -> Vec<u8> {
    fs::read(example().join(name)).unwrap()
}

/// Files of the example by name.
fn example_files() -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(example()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort_unstable();
    names.into_iter().map(|name| (name.clone(), example_file(&name))).collect()
}

/// Copy of the example, to be damaged.
fn example_copy() -> Folder {
    let folder = Folder::new();
    example_files().iter().for_each(|(name, bytes)| drop(folder.file(name, bytes)));
    folder
}

fn write_zip(path: &Path, files: &[(String, Vec<u8>)]) {
    let mut zip = zip::ZipWriter::new(File::create(path).unwrap());
    for (name, bytes) in files {
        zip.start_file(name.as_str(), zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
}
