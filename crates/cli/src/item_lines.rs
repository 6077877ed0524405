//! Lines of items, made on several threads and written in order.
//!
//! items ─▶ batches ─▶ any free thread ─▶ lines ─▶ output, in the order of the items
//!
//! The line of an item must not depend on those before it. Knows neither the items nor the form of their lines.

use std::mem;

use unspool::container::OrderedWorkers;

use crate::output::Output;

/// Items that one thread makes the lines of.
const BATCH: usize = 2048;

/// Lines of items of one kind.
pub(crate) struct ItemLines<T> {
    workers: OrderedWorkers<Batch<T>>,
    batch: Batch<T>,
    /// Batches whose lines were written.
    used: Vec<Batch<T>>,
}

struct Batch<T> {
    items: Vec<T>,
    lines: String,
}

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self { items: Vec::new(), lines: String::new() }
    }
}

impl<T: Send + 'static> ItemLines<T> {
    /// Makes lines on this number of threads: `push_line` adds the line of an item.
    pub(crate) fn new(threads: usize, push_line: impl Fn(&T, &mut String) + Clone + Send + Sync + 'static) -> Self {
        let workers = OrderedWorkers::new(threads, "lines", move || {
            let push_line = push_line.clone();
            move |batch: &mut Batch<T>| batch.items.drain(..).for_each(|item| push_line(&item, &mut batch.lines))
        });
        Self { workers, batch: Batch::default(), used: Vec::new() }
    }

    /// Adds an item.
    pub(crate) fn push(&mut self, item: T, output: &mut Output) {
        self.batch.items.push(item);
        if self.batch.items.len() == BATCH {
            self.send(output);
        }
    }

    /// Writes the lines of all items that were added.
    pub(crate) fn finish(&mut self, output: &mut Output) {
        self.send(output);
        while !self.workers.is_idle() {
            self.write_oldest(output);
        }
    }

    fn send(&mut self, output: &mut Output) {
        if !self.workers.has_room() {
            self.write_oldest(output);
        }
        let next = self.used.pop().unwrap_or_default();
        self.workers.push(mem::replace(&mut self.batch, next));
    }

    fn write_oldest(&mut self, output: &mut Output) {
        match self.workers.pop() {
            Ok(Some(mut batch)) => {
                output.write(|out| out.write_all(batch.lines.as_bytes()));
                batch.lines.clear();
                self.used.push(batch);
            }
            Ok(None) => {}
            Err(error) => output.write(|_| Err(error)),
        }
    }
}
