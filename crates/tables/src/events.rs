//! Rows of the table `events`: what happened between instructions.

use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray, UInt32Array, UInt64Array};
use unspool::model::{Context, Event, ExceptionKind, Gap};
use unspool::software_marks::SoftwareMark;

use crate::rows::{Place, Places};

/// Rows of one source.
#[derive(Debug, Default)]
pub(crate) struct EventRows {
    places: Places,
    position: Vec<u64>,
    kind: Vec<&'static str>,
    name: Vec<Option<&'static str>>,
    address: Vec<Option<u64>>,
    target: Vec<Option<u64>>,
    master: Vec<Option<u32>>,
    channel: Vec<Option<u32>>,
    text: Vec<Option<String>>,
}

/// A row.
#[derive(Debug, Default)]
pub(crate) struct EventRow {
    pub(crate) kind: &'static str,
    pub(crate) name: Option<&'static str>,
    pub(crate) address: Option<u64>,
    pub(crate) target: Option<u64>,
    pub(crate) master: Option<u16>,
    pub(crate) channel: Option<u16>,
    pub(crate) text: Option<String>,
}

impl EventRow {
    /// The row of an event. `None`: it is an instruction, or contents of registers.
    pub(crate) fn of(event: &Event, note: &str) -> Option<Self> {
        Some(match event {
            Event::State | Event::Instruction(_) => return None,
            Event::Exception(exception) => Self {
                kind: "exception",
                name: Some(exception.kind.name()).filter(|_| exception.kind != ExceptionKind::Unknown),
                address: exception.return_address,
                target: exception.target,
                text: exception.class.map(|class| format!("class {class:#04x}")),
                ..Self::default()
            },
            Event::ExceptionReturn { target } => Self { kind: "exception_return", target: *target, ..Self::default() },
            Event::Context(context) => Self { kind: "context", text: Some(describe(context)), ..Self::default() },
            Event::Gap(gap) => {
                let address = if let Gap::NoCode(address) = gap { Some(*address) } else { None };
                Self { kind: "gap", name: Some(gap.name()), address, ..Self::default() }
            }
            Event::Note => Self { kind: "note", text: Some(note.to_string()), ..Self::default() },
        })
    }
}

impl From<&SoftwareMark<'_>> for EventRow {
    fn from(mark: &SoftwareMark<'_>) -> Self {
        let (master, channel) = mark.channel.unwrap_or_default();
        let text = Some(mark.text.to_string());
        Self { kind: "software", name: Some(mark.kind.name()), master, channel, text, ..Self::default() }
    }
}

impl EventRows {
    pub(crate) fn len(&self) -> usize {
        self.kind.len()
    }

    pub(crate) fn add(&mut self, row: EventRow, place: &Place, position: u64) {
        self.places.add(place);
        self.position.push(position);
        self.kind.push(row.kind);
        self.name.push(row.name);
        self.address.push(row.address);
        self.target.push(row.target);
        self.master.push(row.master.map(u32::from));
        self.channel.push(row.channel.map(u32::from));
        self.text.push(row.text);
    }

    /// The columns, of which no row is left.
    pub(crate) fn take(&mut self, source: u32) -> Vec<ArrayRef> {
        let rows = self.len();
        let mut columns = self.places.take(UInt32Array::from_value(source, rows));
        columns.extend([
            Arc::new(UInt64Array::from(std::mem::take(&mut self.position))) as ArrayRef,
            Arc::new(StringArray::from(std::mem::take(&mut self.kind))),
            Arc::new(StringArray::from(std::mem::take(&mut self.name))),
            Arc::new(UInt64Array::from(std::mem::take(&mut self.address))),
            Arc::new(UInt64Array::from(std::mem::take(&mut self.target))),
            Arc::new(UInt32Array::from(std::mem::take(&mut self.master))),
            Arc::new(UInt32Array::from(std::mem::take(&mut self.channel))),
            Arc::new(StringArray::from(std::mem::take(&mut self.text))),
        ]);
        columns
    }
}

/// What is known of a context, in words: `el=1 security=secure process=5`.
fn describe(context: &Context) -> String {
    let fields = [
        ("el", context.level.map(|level| level.to_string())),
        ("security", context.security.map(|security| security.name().to_string())),
        ("aarch64", context.is_aarch64.map(|is| is.to_string())),
        ("process", context.process.map(|process| process.to_string())),
        ("thread", context.thread.map(|thread| thread.to_string())),
        ("vmid", context.vmid.map(|vmid| vmid.to_string())),
    ];
    let known = fields.iter().filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)));
    known.collect::<Vec<_>>().join(" ")
}
