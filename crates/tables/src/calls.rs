//! Rows of the table `calls`: each call of a function, when it ended.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, StringArray, UInt32Array, UInt64Array};
use unspool::Program;
use unspool::analyze::calls::{Call, CallSink, Moment, Site, Stack};

use crate::code::Code;
use crate::rows::{Place, Places};

/// Calls of one source that have no names yet.
#[derive(Debug, Default)]
pub(crate) struct EndedCalls {
    calls: Vec<(usize, Call)>,
    stacks: Vec<Thread>,
}

/// A stack, and where its instructions are among those of a core.
#[derive(Debug)]
struct Thread {
    of: Stack,
    /// For each time that it was switched to: its number of instructions, and what to add for the number on the core.
    switches: Vec<(u64, u64)>,
}

impl CallSink for EndedCalls {
    fn opened(&mut self, stack: usize, of: &Stack) {
        debug_assert_eq!(stack, self.stacks.len());
        self.stacks.push(Thread { of: *of, switches: Vec::new() });
    }

    fn switched(&mut self, stack: usize, count: u64, at: &Moment) {
        if let Some(thread) = self.stacks.get_mut(stack) {
            let offset = at.number.wrapping_sub(count);
            if thread.switches.last().is_none_or(|(_, last)| *last != offset) {
                thread.switches.push((count, offset));
            }
        }
    }

    fn ended(&mut self, stack: usize, call: &Call) {
        self.calls.push((stack, *call));
    }
}

impl Thread {
    /// The number of an instruction among those of its core, counted from 0.
    fn sequence(&self, site: &Site) -> u64 {
        let number = site.number.saturating_sub(1);
        let next = self.switches.partition_point(|(count, _)| *count <= number);
        let offset = next.checked_sub(1).and_then(|at| self.switches.get(at)).map_or(0, |(_, offset)| *offset);
        number.wrapping_add(offset)
    }
}

impl EndedCalls {
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// The columns, of which no row is left.
    pub(crate) fn take(
        &mut self,
        source_of: impl Fn(u32) -> u32,
        (code, program): (&mut Code, &Program),
        has_times: bool,
    ) -> Vec<ArrayRef> {
        let (mut places, calls) = (Places::default(), std::mem::take(&mut self.calls));
        let time = |site: &Site| has_times.then_some(site.time);
        let [mut functions, mut callers] = [const { Vec::new() }; 2];
        let (mut sources, mut ends) = (Vec::new(), Vec::new());
        for (stack, call) in &calls {
            let Some(thread) = self.stacks.get(*stack) else { continue };
            let Stack { core, process, thread: number } = thread.of;
            sources.push(source_of(core));
            let sequence = thread.sequence(&call.entry);
            places.add(&Place { process, thread: number, sequence, time: time(&call.entry) });
            ends.push(thread.sequence(&call.exit) as i64);
            functions.push(code.function(program, process, call.function));
            callers.push(call.site.and_then(|site| code.function(program, process, site.pc)));
        }
        let numbers =
            |of: fn(&Call) -> u64| Arc::new(UInt64Array::from_iter_values(calls.iter().map(|(_, call)| of(call))));
        let words = |of: fn(&Call) -> &'static str| {
            Arc::new(StringArray::from_iter_values(calls.iter().map(|(_, call)| of(call))))
        };
        let mut columns = places.take(UInt32Array::from(sources));
        columns.extend([
            Arc::new(Int64Array::from(ends)) as ArrayRef,
            Arc::new(UInt64Array::from_iter(calls.iter().map(|(_, call)| time(&call.exit)))),
            numbers(|call| call.ordinal),
            numbers(|call| call.last),
            numbers(|call| call.function),
            Arc::new(StringArray::from_iter(functions)),
            Arc::new(UInt64Array::from_iter(calls.iter().map(|(_, call)| call.site.map(|site| site.pc)))),
            Arc::new(StringArray::from_iter(callers)),
            words(|call| call.began.name()),
            words(|call| call.ended.name()),
            Arc::new(BooleanArray::from_iter(calls.iter().map(|(_, call)| Some(call.has_gap)))),
            numbers(|call| call.own.instructions),
            numbers(|call| call.total().instructions),
        ]);
        columns
    }
}
