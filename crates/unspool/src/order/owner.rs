//! On whose behalf a stream executes, from context to context.
//!
//! flow of a trace + moments of its address spaces ─▶ **owners** between the items

use unspool_capture::Pid;
use unspool_coresight::{Context, Transactions};
use unspool_flow::{Around, FlowItem, FlowSink, Instruction, InstructionSink, Instructions, Item, Run};

use crate::program::{Changes, Moment, Moments};
use crate::{Error, Program, Trace, Watch};

/// The process and the thread on whose behalf code is executed; `None` if unknown. For code of the kernel, they are those
/// that it works for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Owner {
    /// The process. The kernel itself is process 0.
    pub process: Option<Pid>,
    /// The thread.
    pub thread: Option<Pid>,
}

/// Sink that distinguishes owners.
pub trait OwnerSink {
    /// Called at the start, and before the item from which on another owner executes.
    fn owner(&mut self, owner: Owner);
}

impl<S: OwnerSink> OwnerSink for &mut S {
    fn owner(&mut self, owner: Owner) {
        (**self).owner(owner);
    }
}

impl Trace<'_> {
    /// As [`flow`](Trace::flow), with the owner of what is executed.
    pub fn flow_with_owners(
        &self,
        transactions: Transactions,
        program: &Program,
        sink: &mut (impl FlowSink + OwnerSink + Watch),
    ) -> Result<u64, Error> {
        let moments = program.moments(self)?;
        let mut owners = Owners::new(&moments, sink);
        self.flow_at(&moments, transactions, &mut owners)
    }

    /// As [`instructions`](Trace::instructions), with the owner of what is executed.
    pub fn instructions_with_owners(
        &self,
        transactions: Transactions,
        program: &Program,
        sink: &mut (impl InstructionSink + OwnerSink + Watch),
    ) -> Result<u64, Error> {
        let moments = program.moments(self)?;
        // Instructions wait for the targets of branches, and items with them: owners change after that.
        let mut owners = Owners::new(&moments, sink);
        self.flow_at(&moments, transactions, &mut Instructions::new(&mut owners))
    }
}

/// Follows the contexts of a flow.
pub(crate) struct Owners<'m, 'p, S> {
    sink: &'m mut S,
    changes: Changes<'m, 'p>,
    moment: Moment<'p>,
    context: Option<Context>,
    owner: Owner,
}

impl<'m, 'p, S: OwnerSink> Owners<'m, 'p, S> {
    pub(crate) fn new(moments: &'m Moments<'p>, sink: &'m mut S) -> Self {
        let moment = moments.first();
        let owner = moment.owner(None);
        sink.owner(owner);
        Self { sink, changes: moments.changes(), moment, context: None, owner }
    }

    pub(crate) fn sink(&mut self) -> &mut S {
        self.sink
    }

    fn follow(&mut self, offset: u64, item: &Item) {
        match item {
            // A break does not change the owner: what follows has a context of its own.
            Item::Context(context) => self.context = Some(*context),
            // Maps of code change at timestamps.
            Item::Timestamp { .. } | Item::Map(_) => {}
            _ => return,
        }
        self.changes.up_to(offset, |moment| self.moment = moment);
        let owner = self.moment.owner(self.context.as_ref());
        if owner != self.owner {
            self.owner = owner;
            self.sink.owner(owner);
        }
    }
}

impl<S: FlowSink + OwnerSink> FlowSink for Owners<'_, '_, S> {
    fn run(&mut self, run: Run<'_>) {
        self.sink.run(run);
    }

    fn item(&mut self, item: FlowItem) {
        if let Ok(found) = &item {
            self.follow(found.offset, &found.value);
        }
        self.sink.item(item);
    }
}

impl<S: InstructionSink + OwnerSink> InstructionSink for Owners<'_, '_, S> {
    #[inline]
    fn instruction(&mut self, instruction: &Instruction, around: &Around) {
        self.sink.instruction(instruction, around);
    }

    fn item(&mut self, item: FlowItem) {
        if let Ok(found) = &item {
            self.follow(found.offset, &found.value);
        }
        self.sink.item(item);
    }
}

impl<S: Watch> Watch for Owners<'_, '_, S> {
    crate::watch::forward_watch!(self => self.sink);
}
