//! Software trace on a page: a row of points for each channel.

use std::collections::BTreeMap;

use anyhow::Context;
use unspool::ChannelNames;
use unspool::export::html::Timeline;
use unspool::number::grouped;
use unspool::software_marks::{SoftwareMark, SoftwareTimes};

use super::{Args, FAILED};
use crate::cmd::export::software::{channel_name, master_name};
use crate::cmd::follow::{Part, Software, Times};

/// Maximum number of points of all channels, and of channels.
const MAX_POINTS: usize = 10_000;
const MAX_TRACKS: usize = 64;

/// Points of channels by the names of their tracks.
#[derive(Debug, Default)]
pub(super) struct SoftwareTracks {
    tracks: BTreeMap<String, Points>,
    points: usize,
    marks: u64,
    is_drawn: bool,
    /// Not drawn, since there are too many.
    left_out: u64,
    /// Of sources without times.
    apart: u64,
}

/// Points of a channel.
#[derive(Debug, Default)]
struct Points {
    points: Vec<(u64, String)>,
    /// Their clock is that of other sources.
    is_common: bool,
}

impl SoftwareTracks {
    /// Adds the marks of a source.
    pub(super) fn add(
        &mut self,
        args: &Args,
        part: &Part<'_>,
        software: &Software<'_>,
        names: &ChannelNames,
    ) -> anyhow::Result<()> {
        let times = software.source.times(software.meter)?;
        let are_known = times != SoftwareTimes::None;
        let is_common = matches!(times, SoftwareTimes::From { is_common: true, .. });
        let times_of_trace = Times { are_known, ..Times::default() };
        let window = args.calls.time().map(|time| times_of_trace.window(&part.name, time)).transpose()?;
        let has_masters = software.source.has_masters();
        let mut take = |mark: &SoftwareMark<'_>| {
            if window.as_ref().is_none_or(|times| times.contains(&mark.time)) {
                let channel = mark.channel.map(|channel| {
                    let master = has_masters.then(|| format!("{} ", master_name(names, channel.0)));
                    format!(" {}{}", master.unwrap_or_default(), channel_name(names, channel))
                });
                self.point((are_known, is_common), format!("{}{}", part.name, channel.unwrap_or_default()), mark);
            }
            Ok(())
        };
        software.source.each(times, software.meter, &mut take)?.context(FAILED)
    }

    fn point(&mut self, (are_known, is_common): (bool, bool), track: String, mark: &SoftwareMark<'_>) {
        self.marks += 1;
        if !are_known {
            self.apart += 1;
            return;
        }
        let is_new = !self.tracks.contains_key(&track);
        if self.points >= MAX_POINTS || is_new && self.tracks.len() >= MAX_TRACKS {
            self.left_out += 1;
            return;
        }
        self.points += 1;
        let track = self.tracks.entry(track).or_default();
        track.is_common = is_common;
        track.points.push((mark.time, mark.text.to_string()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.marks == 0
    }

    /// Adds the tracks to a timeline of times; beside calls, only those with the same clock.
    pub(super) fn draw(&mut self, has_calls: bool, timeline: &mut Timeline) {
        let tracks = self.tracks.iter().filter(|(_, track)| track.is_common || !has_calls);
        for (name, Points { points, .. }) in tracks {
            self.is_drawn = true;
            timeline.track(name, 0);
            points.iter().for_each(|(at, text)| timeline.instant(*at, text));
        }
    }

    /// Facts for the summary.
    pub(super) fn facts(&self) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        let mut add = |name: &str, value: u64| facts.push((name.to_string(), grouped(value)));
        if self.marks > 0 {
            add("Values of software trace", self.marks);
        }
        if !self.is_drawn && self.points > 0 {
            add("Values of software trace on another axis (--weight time) or clock", self.points as u64);
        }
        if self.apart > 0 {
            add("Values of software trace without times", self.apart);
        }
        if self.left_out > 0 {
            add("Values of software trace that are too many for the timeline", self.left_out);
        }
        facts
    }
}
