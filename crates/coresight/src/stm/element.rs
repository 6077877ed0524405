//! Elements that only an STM has. Data is [`Element::Software`](crate::Element::Software), shared with other protocols.

use crate::Time;

/// An element that no other protocol has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnElement {
    /// What it is.
    pub kind: Kind,
    /// The master, for elements that belong to one. `None`: it does not, or the trace did not name it yet.
    pub master: Option<u16>,
    /// The channel, for elements that belong to one. `None`: it does not, or the trace did not name it yet.
    pub channel: Option<u16>,
    /// The time, if known.
    pub time: Option<Time>,
}

/// The kind of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A flag of a channel; often it ends a message.
    Flag,
    /// A trigger with its number.
    Trigger(u8),
    /// The frequency of the timestamps in Hertz; 0: not set.
    Frequency(u64),
    /// A master lost data.
    MasterError(u8),
    /// Masters that are not known lost data.
    GlobalError(u8),
    /// A channel lost data.
    ChannelError(u8),
    /// A synchronization with other trace, with its number.
    CrossSync(u8),
    /// Data whose meaning the implementation defines.
    User {
        /// The value.
        value: u64,
        /// Number of nibbles.
        nibbles: u8,
    },
    /// Only the time.
    Time,
}

impl OwnElement {
    /// The name of the element's kind that the command line and JSON use.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Flag => "flag",
            Kind::Trigger(_) => "trigger",
            Kind::Frequency(_) => "frequency",
            Kind::MasterError(_) => "master_error",
            Kind::GlobalError(_) => "global_error",
            Kind::ChannelError(_) => "channel_error",
            Kind::CrossSync(_) => "cross_sync",
            Kind::User { .. } => "user",
            Kind::Time => "time",
        }
    }
}
