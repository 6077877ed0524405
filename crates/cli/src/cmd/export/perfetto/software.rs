//! Software trace on the timeline: a track for each channel, below its source and its master.

use std::collections::HashMap;
use std::io;

use anyhow::{Context, bail};
use unspool::ChannelNames;
use unspool::export::perfetto::Track;
use unspool::software_marks::{SoftwareMark, SoftwareTimes, Timing};

use super::{Args, Clock, FAILED, Writer};
use crate::cmd::export::software::{channel_name, master_name};
use crate::cmd::follow::{Part, Software, Times};
use crate::diagnostic;

/// Maximum number of channels with a track of their own.
const MAX_TRACKS: usize = 1 << 12;

/// Adds the marks of a source. Returns whether they have times, which are ticks.
pub(super) fn write(
    args: &Args,
    part: &Part<'_>,
    software: &Software<'_>,
    names: &ChannelNames,
    writer: &mut Writer<'_>,
) -> anyhow::Result<bool> {
    let name = &part.name;
    if args.clock == Some(Clock::Instructions) {
        diagnostic::note(format_args!("{name}: software trace has no place among instructions: it is left out"));
        return Ok(false);
    }
    let times = software.source.times(software.meter)?;
    let are_known = times != SoftwareTimes::None;
    if !are_known && args.clock == Some(Clock::Time) {
        bail!("{name}: --clock time: the software trace has no times");
    }
    match times {
        SoftwareTimes::None => diagnostic::note(format_args!("{name}: no times: its values are in their order")),
        SoftwareTimes::From { is_common: false, .. } => {
            diagnostic::note(format_args!("{name}: its times are of another clock than those of other sources"));
        }
        SoftwareTimes::From { .. } => {}
    }
    let times_of_trace = Times { are_known, ..Times::default() };
    let window = args.calls.time().map(|time| times_of_trace.window(name, time)).transpose()?;
    let mut tracks = Tracks::new(part, software, names);
    let mut take = |mark: &SoftwareMark<'_>| {
        if window.as_ref().is_some_and(|times| !times.contains(&mark.time)) {
            return Ok(());
        }
        let track = tracks.of(mark.channel, writer)?;
        writer.instant(track, mark.time, (mark.text, mark.kind.name()), remark(mark.timing))
    };
    software.source.each(times, software.meter, &mut take)?.context(FAILED)?;
    if tracks.root.is_none() {
        diagnostic::warning(format_args!("{name}: the software trace has no values"));
    }
    Ok(are_known)
}

/// A remark on a time that is not that of the mark itself.
fn remark(timing: Timing) -> Option<(&'static str, &'static str)> {
    match timing {
        Timing::At => None,
        Timing::After => Some(("time", "this or later")),
        Timing::Before => Some(("time", "before this")),
        Timing::Number => Some(("time", "unknown")),
    }
}

/// Master and channel, as far as the trace names them.
type Channel = (Option<u16>, Option<u16>);

/// Tracks of a source.
struct Tracks<'p> {
    part: &'p Part<'p>,
    software: &'p Software<'p>,
    names: &'p ChannelNames,
    root: Option<Track>,
    masters: HashMap<Option<u16>, Track>,
    channels: HashMap<Channel, Track>,
    others: Option<Track>,
}

impl<'p> Tracks<'p> {
    fn new(part: &'p Part<'p>, software: &'p Software<'p>, names: &'p ChannelNames) -> Self {
        let (masters, channels) = (HashMap::new(), HashMap::new());
        Self { part, software, names, root: None, masters, channels, others: None }
    }

    /// The track of a channel, or that of the source.
    fn of(&mut self, channel: Option<Channel>, writer: &mut Writer<'_>) -> io::Result<Track> {
        let root = match self.root {
            Some(root) => root,
            None => {
                let top = self.part.heading.as_ref().map(|heading| writer.track(heading, None)).transpose()?;
                *self.root.insert(writer.track(&self.part.name, top)?)
            }
        };
        let Some(channel) = channel else { return Ok(root) };
        if let Some(track) = self.channels.get(&channel) {
            return Ok(*track);
        }
        if self.channels.len() >= MAX_TRACKS {
            return match self.others {
                Some(track) => Ok(track),
                None => Ok(*self.others.insert(writer.track("further channels", Some(root))?)),
            };
        }
        let (master, _) = channel;
        let above = if self.software.source.has_masters() { self.master(root, master, writer)? } else { root };
        let track = writer.track(&channel_name(self.names, channel), Some(above))?;
        self.channels.insert(channel, track);
        Ok(track)
    }

    fn master(&mut self, root: Track, master: Option<u16>, writer: &mut Writer<'_>) -> io::Result<Track> {
        if let Some(track) = self.masters.get(&master) {
            return Ok(*track);
        }
        let track = writer.track(&master_name(self.names, master), Some(root))?;
        self.masters.insert(master, track);
        Ok(track)
    }
}
