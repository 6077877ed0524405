//! The fields of packets and of the elements that only an ITM has.

use super::element::{Event, OwnElement, PcSample};
use super::packet::{Extension, Hardware, Packet};
use super::text::ExceptionName;
use crate::fields::{Fields, Value};

fn number(value: impl Into<u64>) -> Value<'static> {
    Value::Number(value.into())
}

impl Packet {
    /// Lists the fields.
    pub fn fields(&self, out: &mut impl Fields) {
        match self {
            Packet::LocalTimestamp1 { ticks, relation } => {
                out.field("ticks", number(*ticks));
                out.field("relation", Value::Text(&relation.name()));
            }
            Packet::LocalTimestamp2 { ticks } => out.field("ticks", number(*ticks)),
            Packet::GlobalTimestamp1 { value, bits, wrap, clock_change } => {
                out.field("value", number(*value));
                out.field("bits", number(*bits));
                out.field("wrap", Value::Flag(*wrap));
                out.field("clock_change", Value::Flag(*clock_change));
            }
            Packet::GlobalTimestamp2 { value, bytes } => {
                out.field("value", number(*value));
                out.field("bits", number(if *bytes == 4 { 22 } else { (7 * bytes).min(38) }));
            }
            Packet::Extension(extension) => extension.fields(out),
            Packet::Software { port, size, value } => {
                out.field("port", number(*port));
                out.field("size", number(*size));
                out.field("value", Value::Hex((*value).into()));
            }
            Packet::Hardware(hardware) => hardware.event().fields(out),
            Packet::Sync | Packet::Overflow => {}
        }
    }
}

impl Extension {
    fn fields(&self, out: &mut impl Fields) {
        if let Some(page) = self.page() {
            return out.field("page", number(page));
        }
        out.field("hardware", Value::Flag(self.hardware));
        out.field("bits", number(self.bits));
        out.field("value", Value::Hex(self.value.into()));
    }
}

impl Event {
    fn fields(&self, out: &mut impl Fields) {
        match *self {
            Event::EventCounter { mask } | Event::PmuOverflow { mask } => out.field("numbers", Value::Bits(mask)),
            Event::Exception { number: exception, action } => {
                out.field("number", number(exception));
                out.field("name", Value::Text(&ExceptionName(exception)));
                out.field("action", Value::Text(&action.name()));
            }
            Event::PcSample(PcSample::Address(pc)) => out.field("address", Value::Hex(pc.into())),
            Event::PcSample(PcSample::Asleep) => out.field("state", Value::Text(&"asleep")),
            Event::PcSample(PcSample::Prohibited) => out.field("state", Value::Text(&"prohibited")),
            Event::DataPc { comparator, pc } => {
                out.field("comparator", number(comparator));
                out.field("address", Value::Hex(pc.into()));
            }
            Event::DataMatch { comparator } => out.field("comparator", number(comparator)),
            Event::DataAddress { comparator, low } => {
                out.field("comparator", number(comparator));
                out.field("low_address", Value::Hex(low.into()));
            }
            Event::DataValue { comparator, write, size, value } => {
                out.field("comparator", number(comparator));
                out.field("write", Value::Flag(write));
                out.field("size", number(size));
                out.field("value", Value::Hex(value.into()));
            }
            Event::Unknown(Hardware { discriminator, size, value }) => {
                out.field("discriminator", number(discriminator));
                out.field("size", number(size));
                out.field("value", Value::Hex(value.into()));
            }
        }
    }
}

impl OwnElement {
    /// Lists the fields.
    pub fn fields(&self, out: &mut impl Fields) {
        match self {
            OwnElement::Event { event, time } => {
                event.fields(out);
                if let Some(time) = time {
                    time.fields(out);
                }
            }
            OwnElement::LocalTimestamp { ticks, relation, time } => {
                out.field("ticks", number(*ticks));
                out.field("relation", Value::Text(&relation.name()));
                out.field("time", number(*time));
            }
            OwnElement::Extension(extension) => extension.fields(out),
            OwnElement::ClockChange => {}
        }
    }
}
