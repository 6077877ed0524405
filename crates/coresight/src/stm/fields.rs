//! The fields of packets and of the elements that only an STM has.

use super::element::{Kind, OwnElement};
use super::packet::{Body, Packet, Timestamp, Version};
use crate::fields::{Fields, Value};

fn number(value: impl Into<u64>) -> Value<'static> {
    Value::Number(value.into())
}

impl Packet {
    /// Lists the fields.
    pub fn fields(&self, out: &mut impl Fields) {
        out.field("bit", number(if self.high_half { 4_u8 } else { 0 }));
        match self.body {
            Body::Async => {}
            Body::Null { count } => out.field("count", number(count)),
            Body::Version(Version { timestamps, extension }) => {
                out.field("value", number(timestamps.number()));
                out.field("timestamps", Value::Text(&timestamps.name()));
                if let Some((minor, least_first)) = extension {
                    out.field("minor", number(minor));
                    out.field("least_first", Value::Flag(least_first));
                }
            }
            Body::Master { value, .. } | Body::Channel { value, .. } => out.field("value", number(value)),
            Body::MasterError(code) | Body::GlobalError(code) | Body::ChannelError(code) => {
                out.field("value", number(code));
            }
            Body::Data { value, marked, timestamp, .. } => {
                out.field("value", Value::Hex(value));
                out.field("marked", Value::Flag(marked));
                time(timestamp, out);
            }
            Body::Flag(timestamp) => time(timestamp, out),
            Body::NullTimestamp(timestamp) => time(Some(timestamp), out),
            Body::Trigger { value, timestamp } | Body::CrossSync { value, timestamp } => {
                out.field("value", number(value));
                time(timestamp, out);
            }
            Body::Frequency { value, timestamp, .. } => {
                out.field("value", number(value));
                time(timestamp, out);
            }
            Body::User { value, nibbles, timestamp } => {
                out.field("value", Value::Hex(value));
                out.field("nibbles", number(nibbles));
                time(timestamp, out);
            }
        }
    }
}

fn time(timestamp: Option<Timestamp>, out: &mut impl Fields) {
    if let Some(Timestamp { value, nibbles }) = timestamp {
        out.field("timestamp", number(value));
        out.field("timestamp_bits", number(4 * nibbles));
    }
}

impl OwnElement {
    /// Lists the fields.
    pub fn fields(&self, out: &mut impl Fields) {
        out.optional("master", self.master);
        out.optional("channel", self.channel);
        match self.kind {
            Kind::Trigger(value)
            | Kind::MasterError(value)
            | Kind::GlobalError(value)
            | Kind::ChannelError(value)
            | Kind::CrossSync(value) => out.field("value", number(value)),
            Kind::Frequency(value) => out.field("value", number(value)),
            Kind::User { value, nibbles } => {
                out.field("value", Value::Hex(value));
                out.field("nibbles", number(nibbles));
            }
            Kind::Flag | Kind::Time => {}
        }
        if let Some(time) = self.time {
            time.fields(out);
        }
    }
}
