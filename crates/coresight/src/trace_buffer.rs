//! Model of the trace buffer of a PE, which collects trace until it is full, circularly, or up to a trigger.
//!
//! bytes of a trace unit, triggers ─▶ **trace buffer** ─▶ memory, write pointer, status
//!
//! Takes the settings of the Trace Buffer Unit, and trace. Produces the contents of memory and the registers. Memory is as
//! the PE leaves it: in a buffer that wrapped, the oldest byte is at the write pointer.
//! Specification: DDI 0487, the Trace Buffer Extension, and its use in the last sections on ETE.

use alloc::vec::Vec;

/// Behavior at the end of the buffer (TRBLIMITR_EL1.FM).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FillMode {
    /// Collection stops.
    #[default]
    Fill,
    /// Collection continues at the base and raises a management event.
    Wrap,
    /// Collection continues at the base.
    Circular,
}

/// Effect of a Trigger Event (TRBLIMITR_EL1.TM).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TriggerMode {
    /// Collection stops.
    Stop,
    /// Collection continues and raises a management event.
    Interrupt,
    /// None.
    #[default]
    Ignore,
}

/// Settings of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BufferSettings {
    /// Bytes from the base to the limit.
    pub size: u64,
    /// Start of the write pointer, relative to the base.
    pub pointer: u64,
    /// Behavior at the end.
    pub fill: FillMode,
    /// Effect of a Trigger Event.
    pub trigger: TriggerMode,
    /// Number of bytes collected after a trigger (TRBTRG_EL1).
    pub after_trigger: u64,
    /// A trigger counts as detected from the start (TRBSR_EL1.TRG), which makes a watermark.
    pub is_triggered: bool,
}

/// Management event, which software is notified of (TRBSR_EL1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ManagementEvent {
    /// The buffer is full and collection has stopped.
    Filled,
    /// The write pointer returned to the base.
    Wrapped,
    /// A Trigger Event stopped collection.
    Stopped,
    /// A Trigger Event.
    Triggered,
}

/// A running trace buffer.
///
/// ```
/// use unspool_coresight::trace_buffer::{BufferSettings, FillMode, TraceBuffer};
///
/// let mut buffer = TraceBuffer::new(BufferSettings { size: 4, fill: FillMode::Circular, ..BufferSettings::default() });
/// buffer.push(b"abcdef");
/// assert_eq!((buffer.memory(), buffer.pointer(), buffer.has_wrapped()), (&b"efcd"[..], 2, true));
/// ```
#[derive(Debug, Clone)]
pub struct TraceBuffer {
    settings: BufferSettings,
    /// Contents from the base to the highest written byte.
    memory: Vec<u8>,
    pointer: u64,
    has_wrapped: bool,
    has_stopped: bool,
    /// Number of bytes until the Trigger Event, after a trigger.
    countdown: Option<u64>,
    /// A Trigger Event stops collection after the trace unit has been flushed.
    is_flushing: bool,
    /// Events for the trace unit since they were last asked for.
    has_just_wrapped: bool,
    is_just_triggered: bool,
    events: Vec<(u64, ManagementEvent)>,
    /// Number of bytes collected.
    collected: u64,
    /// Number of bytes that arrived after collection had stopped.
    lost: u64,
}

impl TraceBuffer {
    /// An enabled buffer.
    pub fn new(settings: BufferSettings) -> Self {
        Self {
            settings,
            memory: Vec::new(),
            pointer: settings.pointer.min(settings.size),
            has_wrapped: false,
            has_stopped: settings.size == 0,
            countdown: settings.is_triggered.then_some(settings.after_trigger),
            is_flushing: false,
            has_just_wrapped: false,
            is_just_triggered: false,
            events: Vec::new(),
            collected: 0,
            lost: 0,
        }
    }

    /// Collects trace. A Trigger Event within it that stops collection does so at its end: the trace unit is flushed first
    /// (DDI 0487, R_XRRWP), so callers that care hand over what belongs to one instruction at a time.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.has_stopped {
            let room = self.settings.size - self.pointer;
            let until_event = self.countdown.filter(|left| *left > 0).unwrap_or(u64::MAX);
            let length = (bytes.len() as u64).min(room).min(until_event) as usize;
            let (now, rest) = bytes.split_at(length);
            self.write(now);
            bytes = rest;
            self.count_down(length as u64);
            if self.pointer == self.settings.size {
                self.reach_limit();
            }
        }
        self.lost += bytes.len() as u64;
        if core::mem::take(&mut self.is_flushing) && !self.has_stopped {
            self.has_stopped = true;
            self.events.push((self.collected, ManagementEvent::Stopped));
        }
    }

    /// Detects a trigger, after the trace unit has been flushed. Only the first one counts.
    pub fn trigger(&mut self) {
        if self.has_stopped || self.countdown.is_some() {
            return;
        }
        self.countdown = Some(self.settings.after_trigger);
        if self.settings.after_trigger == 0 {
            self.trigger_event();
            self.push(&[]);
        }
    }

    /// Events for the trace unit since the last call: the write pointer wrapped (TRB_WRAP), a Trigger Event occurred
    /// (TRB_TRIG). They occur in all modes.
    pub fn take_events(&mut self) -> (bool, bool) {
        (core::mem::take(&mut self.has_just_wrapped), core::mem::take(&mut self.is_just_triggered))
    }

    /// Contents of memory, from the base to the highest written byte. Bytes before the first write pointer that were never
    /// written are zero.
    pub fn memory(&self) -> &[u8] {
        &self.memory
    }

    /// The write pointer, relative to the base.
    pub fn pointer(&self) -> u64 {
        self.pointer
    }

    /// Has the write pointer returned to the base?
    pub fn has_wrapped(&self) -> bool {
        self.has_wrapped
    }

    /// Has collection stopped?
    pub fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    /// Management events, each with the number of bytes collected before it.
    pub fn events(&self) -> &[(u64, ManagementEvent)] {
        &self.events
    }

    /// Number of bytes that arrived after collection had stopped.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Number of bytes that were collected and overwritten.
    pub fn overwritten(&self) -> u64 {
        self.collected.saturating_sub(self.settings.size)
    }

    /// Position of the oldest byte, if not at the base.
    pub fn oldest(&self) -> Option<u64> {
        let is_overwritten = self.has_wrapped && self.collected > self.settings.size - self.first_pointer();
        let starts_late = self.first_pointer() > 0;
        match is_overwritten {
            // The bytes between the write pointer and its start were never written.
            true if starts_late && self.collected < self.settings.size => Some(self.first_pointer()),
            true => Some(self.pointer),
            false => starts_late.then_some(self.first_pointer()),
        }
    }

    fn first_pointer(&self) -> u64 {
        self.settings.pointer.min(self.settings.size)
    }

    fn write(&mut self, bytes: &[u8]) {
        let (from, to) = (self.pointer as usize, self.pointer as usize + bytes.len());
        if self.memory.len() < to {
            self.memory.resize(to, 0);
        }
        self.memory[from..to].copy_from_slice(bytes);
        self.pointer += bytes.len() as u64;
        self.collected += bytes.len() as u64;
    }

    fn count_down(&mut self, bytes: u64) {
        let Some(left) = self.countdown.filter(|left| *left > 0) else { return };
        self.countdown = Some(left - bytes);
        if left == bytes {
            self.trigger_event();
        }
    }

    fn trigger_event(&mut self) {
        self.is_just_triggered = true;
        match self.settings.trigger {
            TriggerMode::Stop => self.is_flushing = true,
            TriggerMode::Interrupt => self.events.push((self.collected, ManagementEvent::Triggered)),
            TriggerMode::Ignore => {}
        }
    }

    fn reach_limit(&mut self) {
        (self.pointer, self.has_wrapped, self.has_just_wrapped) = (0, true, true);
        match self.settings.fill {
            FillMode::Fill => {
                self.has_stopped = true;
                self.events.push((self.collected, ManagementEvent::Filled));
            }
            FillMode::Wrap => self.events.push((self.collected, ManagementEvent::Wrapped)),
            FillMode::Circular => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn filled(settings: BufferSettings, chunks: &[&[u8]]) -> TraceBuffer {
        let mut buffer = TraceBuffer::new(settings);
        chunks.iter().for_each(|chunk| buffer.push(chunk));
        buffer
    }

    #[test]
    fn fill_modes_differ_at_the_end() {
        use ManagementEvent::{Filled, Wrapped};
        let rows = [
            (FillMode::Fill, &b"abcd"[..], 0, true, vec![(4, Filled)], 2),
            (FillMode::Wrap, b"efcd", 2, false, vec![(4, Wrapped)], 0),
            (FillMode::Circular, b"efcd", 2, false, vec![], 0),
        ];
        for (fill, memory, pointer, has_stopped, events, lost) in rows {
            let settings = BufferSettings { size: 4, fill, ..BufferSettings::default() };
            for chunks in [&[&b"abcdef"[..]][..], &[b"abc", b"def"], &[b"a", b"b", b"c", b"d", b"e", b"f"]] {
                let buffer = filled(settings, chunks);
                assert_eq!(buffer.memory(), memory, "{fill:?}");
                assert_eq!((buffer.pointer(), buffer.has_stopped()), (pointer, has_stopped), "{fill:?}");
                assert_eq!((buffer.events(), buffer.lost()), (&events[..], lost), "{fill:?}");
                assert!(buffer.has_wrapped());
            }
        }
    }

    #[test]
    fn bytes_are_collected_after_a_trigger() {
        use ManagementEvent::{Stopped, Triggered};
        // The Trigger Event is within "ef", all of which is collected.
        let rows = [
            (TriggerMode::Stop, 3, &b"abcdef"[..], vec![(6, Stopped)]),
            (TriggerMode::Interrupt, 3, b"abcdefgh", vec![(5, Triggered)]),
            (TriggerMode::Ignore, 3, b"abcdefgh", vec![]),
            (TriggerMode::Stop, 0, b"ab", vec![(2, Stopped)]),
        ];
        for (trigger, after_trigger, memory, events) in rows {
            let settings = BufferSettings { size: 100, trigger, after_trigger, ..BufferSettings::default() };
            let mut buffer = filled(settings, &[b"ab"]);
            buffer.trigger();
            let mut seen = vec![buffer.take_events()];
            for bytes in [b"cd", b"ef", b"gh"] {
                buffer.push(bytes);
                seen.push(buffer.take_events());
            }
            buffer.trigger();
            assert_eq!((buffer.memory(), buffer.events()), (memory, &events[..]), "{trigger:?}");
            // R_LMQHK: the trace unit sees the Trigger Event in all modes.
            let at = if after_trigger == 0 { 0 } else { 2 };
            let expected: Vec<(bool, bool)> = (0..4).map(|index| (false, index == at)).collect();
            assert_eq!(seen, expected, "{trigger:?}");
        }
    }

    /// R_MBSHC, R_VBDJZ, R_GDSTS: the trace unit sees a wrap in all modes. I_VPLRF: a buffer that fills during the flush of a
    /// Trigger Event stops because of that.
    #[test]
    fn wraps_are_seen_in_all_modes() {
        for fill in [FillMode::Fill, FillMode::Wrap, FillMode::Circular] {
            let mut buffer = filled(BufferSettings { size: 4, fill, ..BufferSettings::default() }, &[b"abc"]);
            assert_eq!(buffer.take_events(), (false, false));
            buffer.push(b"d");
            assert_eq!((buffer.take_events(), buffer.take_events()), ((true, false), (false, false)), "{fill:?}");
        }
        let (trigger, after_trigger) = (TriggerMode::Stop, 2);
        let mut buffer =
            TraceBuffer::new(BufferSettings { size: 4, trigger, after_trigger, ..BufferSettings::default() });
        buffer.trigger();
        buffer.push(b"abcdef");
        assert_eq!((buffer.events(), buffer.lost()), (&[(4, ManagementEvent::Filled)][..], 2));
    }

    /// The two forms of a watermark: a pointer that far from the end, and a trigger from the start.
    #[test]
    fn watermarks_raise_an_event() {
        let wraps = BufferSettings { size: 8, pointer: 5, fill: FillMode::Wrap, ..BufferSettings::default() };
        let buffer = filled(wraps, &[b"abcd"]);
        assert_eq!(buffer.events(), [(3, ManagementEvent::Wrapped)]);
        assert_eq!((buffer.memory(), buffer.oldest()), (&b"d\0\0\0\0abc"[..], Some(5)));
        let counts = BufferSettings {
            size: 8,
            trigger: TriggerMode::Interrupt,
            after_trigger: 3,
            is_triggered: true,
            ..BufferSettings::default()
        };
        let buffer = filled(counts, &[b"abcd"]);
        assert_eq!((buffer.events(), buffer.memory()), (&[(3, ManagementEvent::Triggered)][..], &b"abcd"[..]));
    }

    #[test]
    fn oldest_byte_is_found() {
        let rows = [(0, 3, 0), (0, 8, 0), (0, 11, 3), (5, 2, 5), (5, 3, 5), (5, 7, 5), (5, 8, 5), (5, 9, 6)];
        for (pointer, length, oldest) in rows {
            let settings = BufferSettings { size: 8, pointer, fill: FillMode::Circular, ..BufferSettings::default() };
            let bytes: Vec<u8> = (1..=length).collect();
            let buffer = filled(settings, &[&bytes]);
            assert_eq!(buffer.oldest().unwrap_or(0), oldest, "{pointer} {length}");
        }
    }

    #[test]
    fn empty_buffer_loses_everything() {
        let buffer = filled(BufferSettings::default(), &[b"abc"]);
        assert_eq!((buffer.memory(), buffer.lost()), (&b""[..], 3));
    }
}
