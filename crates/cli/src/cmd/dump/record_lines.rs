//! Lines of the records of an ASTF file, made on several threads and written in order.
//!
//! records ─▶ batches, each with the earlier records that it depends on ─▶ any free thread ─▶ lines

use std::cell::RefCell;
use std::{io, mem};

use unspool::astf::Bytes;
use unspool::astf::json::Json;
use unspool::astf::record::offset_of;
use unspool::astf::text::{Before, Lines};
use unspool::container::OrderedWorkers;
use unspool::model::digits::push_hex;

/// Records that one thread makes the lines of.
const BATCH: usize = 8192;

// A disassembler cannot move to another thread.
thread_local! {
    static TEXT: RefCell<Lines> = RefCell::default();
    static JSON: RefCell<Json> = RefCell::default();
}

/// Form of the lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) json: bool,
    /// Also the offset and the bytes of each record.
    pub(super) hex: bool,
}

/// Records in the order of the file, of which some are listed.
pub(super) struct RecordLines {
    workers: OrderedWorkers<Batch>,
    batch: Batch,
    before: Before,
}

/// Consecutive records, and their lines.
#[derive(Default)]
struct Batch {
    /// The number of the first record.
    first: u64,
    before: Before,
    records: Vec<Bytes>,
    /// Whether each record is listed.
    are_listed: Vec<bool>,
    lines: String,
}

impl RecordLines {
    pub(super) fn new(threads: usize, form: Form) -> Self {
        let workers = OrderedWorkers::new(threads, "lines", move || {
            move |batch: &mut Batch| match form.json {
                true => JSON.with_borrow_mut(|json| batch.push_json(json, form.hex)),
                false => TEXT.with_borrow_mut(|lines| batch.push_text(lines, form.hex)),
            }
        });
        Self { workers, batch: Batch::default(), before: Before::default() }
    }

    /// Adds the next record. Lines that are complete go to `write`.
    #[inline]
    pub(super) fn push(
        &mut self,
        (number, record): (u64, &Bytes),
        is_listed: bool,
        write: &mut impl FnMut(&str),
    ) -> io::Result<()> {
        if self.batch.records.len() == BATCH {
            self.send(write)?;
        }
        if self.batch.records.is_empty() {
            self.batch.first = number;
            self.batch.before.clone_from(&self.before);
        }
        self.batch.records.push(*record);
        self.batch.are_listed.push(is_listed);
        self.before.push(record);
        Ok(())
    }

    /// Passes on the lines that are left.
    pub(super) fn finish(&mut self, write: &mut impl FnMut(&str)) -> io::Result<()> {
        self.send(write)?;
        while !self.workers.is_idle() {
            self.write_oldest(write)?;
        }
        Ok(())
    }

    fn send(&mut self, write: &mut impl FnMut(&str)) -> io::Result<()> {
        let used = if self.workers.has_room() { Batch::default() } else { self.write_oldest(write)? };
        self.workers.push(mem::replace(&mut self.batch, used));
        Ok(())
    }

    /// Waits for the oldest batch, and returns it without its contents.
    fn write_oldest(&mut self, write: &mut impl FnMut(&str)) -> io::Result<Batch> {
        let Some(mut batch) = self.workers.pop()? else { return Ok(Batch::default()) };
        write(&batch.lines);
        batch.records.clear();
        batch.are_listed.clear();
        batch.lines.clear();
        Ok(batch)
    }
}

impl Batch {
    fn push_json(&mut self, json: &mut Json, hex: bool) {
        json.resume(&self.before);
        for ((number, record), is_listed) in (self.first..).zip(&self.records).zip(&self.are_listed) {
            if *is_listed {
                json.line(number, record, hex, &mut self.lines);
            } else {
                json.pass(record);
            }
        }
    }

    fn push_text(&mut self, lines: &mut Lines, hex: bool) {
        lines.resume(self.first, &self.before);
        for ((number, record), is_listed) in (self.first..).zip(&self.records).zip(&self.are_listed) {
            if !is_listed {
                lines.pass(record);
                continue;
            }
            if hex {
                push_bytes(&mut self.lines, number, record);
            }
            lines.write(record, &mut self.lines);
            self.lines.push('\n');
        }
    }
}

/// Adds the offset and the bytes of a record, in groups of eight bytes.
fn push_bytes(text: &mut String, number: u64, record: &Bytes) {
    text.push_str(&format!("{:#010x} ", offset_of(number)));
    let (words, _) = record.as_chunks::<8>();
    for word in words {
        text.push(' ');
        push_hex(text, word);
    }
    text.push_str("  ");
}
