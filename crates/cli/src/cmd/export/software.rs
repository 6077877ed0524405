//! Names of the channels of software trace.

use unspool::ChannelNames;

/// A master in words.
pub(super) fn master_name(names: &ChannelNames, master: Option<u16>) -> String {
    match master {
        Some(master) => names.master(master).map_or_else(|| format!("master {master:#x}"), str::to_string),
        None => "unknown master".to_string(),
    }
}

/// A channel of a master in words.
pub(super) fn channel_name(names: &ChannelNames, (master, channel): (Option<u16>, Option<u16>)) -> String {
    match channel {
        Some(channel) => names.channel(master, channel).map_or_else(|| format!("channel {channel}"), str::to_string),
        None => "unknown channel".to_string(),
    }
}
