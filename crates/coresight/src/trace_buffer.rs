//! The trace buffer of a PE: memory that trace is collected in until it is full, round and round, or up to a trigger.
//!
//! bytes of a trace unit, triggers ─▶ **trace buffer** ─▶ memory, write pointer, status
//!
//! Comes in: what the registers of the Trace Buffer Unit say, and trace. Goes out: what is in memory when somebody looks,
//! and the registers then. The memory is as the PE leaves it: of a buffer that went round, the oldest byte is at the write
//! pointer.
//! Specification: DDI 0487, the Trace Buffer Extension, and its use in the last sections on ETE.

use alloc::vec::Vec;

/// What happens at the end of the buffer (TRBLIMITR_EL1.FM).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FillMode {
    /// Collection stops.
    #[default]
    Fill,
    /// It goes on at the base, and software is told.
    Wrap,
    /// It goes on at the base.
    Circular,
}

/// What a Trigger Event does (TRBLIMITR_EL1.TM).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TriggerMode {
    /// Collection stops.
    Stop,
    /// Software is told, and collection goes on.
    Interrupt,
    /// Nothing.
    #[default]
    Ignore,
}

/// How a buffer is programmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BufferSettings {
    /// Bytes from the base to the limit.
    pub size: u64,
    /// Where the write pointer starts, counted from the base.
    pub pointer: u64,
    /// What happens at the end.
    pub fill: FillMode,
    /// What a Trigger Event does.
    pub trigger: TriggerMode,
    /// Bytes that are still collected behind a trigger (TRBTRG_EL1).
    pub after_trigger: u64,
    /// A trigger counts as detected from the start (TRBSR_EL1.TRG): so a watermark is made.
    pub is_triggered: bool,
}

/// What software is told of (TRBSR_EL1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ManagementEvent {
    /// The buffer is full, and collection has stopped.
    Filled,
    /// The write pointer went back to the base.
    Wrapped,
    /// A Trigger Event, and collection has stopped.
    Stopped,
    /// A Trigger Event.
    Triggered,
}

/// A trace buffer at work.
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
    /// From the base to the highest byte that was written.
    memory: Vec<u8>,
    pointer: u64,
    has_wrapped: bool,
    has_stopped: bool,
    /// Bytes until the Trigger Event, once a trigger was detected.
    countdown: Option<u64>,
    events: Vec<(u64, ManagementEvent)>,
    /// Bytes that were collected, and those that came when collection had stopped.
    collected: u64,
    lost: u64,
}

impl TraceBuffer {
    /// A buffer that is switched on.
    pub fn new(settings: BufferSettings) -> Self {
        Self {
            settings,
            memory: Vec::new(),
            pointer: settings.pointer.min(settings.size),
            has_wrapped: false,
            has_stopped: settings.size == 0,
            countdown: settings.is_triggered.then_some(settings.after_trigger),
            events: Vec::new(),
            collected: 0,
            lost: 0,
        }
    }

    /// Trace comes.
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
    }

    /// A trigger is detected.
    pub fn trigger(&mut self) {
        if self.has_stopped || self.countdown.is_some() {
            return;
        }
        self.countdown = Some(self.settings.after_trigger);
        if self.settings.after_trigger == 0 {
            self.trigger_event();
        }
    }

    /// What is in memory, from the base to the highest byte that was written. What lies before a write pointer that did
    /// not start at the base, and was never written, is zero.
    pub fn memory(&self) -> &[u8] {
        &self.memory
    }

    /// Where the next byte would go, counted from the base.
    pub fn pointer(&self) -> u64 {
        self.pointer
    }

    /// The write pointer went back to the base, at least once.
    pub fn has_wrapped(&self) -> bool {
        self.has_wrapped
    }

    /// Nothing more is collected.
    pub fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    /// What software was told of, with how many bytes had been collected then.
    pub fn events(&self) -> &[(u64, ManagementEvent)] {
        &self.events
    }

    /// Bytes that came when collection had stopped.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Bytes that were collected, and overwritten by later ones.
    pub fn overwritten(&self) -> u64 {
        self.collected.saturating_sub(self.settings.size)
    }

    /// Where the oldest byte is, if not at the base.
    pub fn oldest(&self) -> Option<u64> {
        let is_overwritten = self.has_wrapped && self.collected > self.settings.size - self.first_pointer();
        let starts_late = self.first_pointer() > 0;
        match is_overwritten {
            // What was never written lies between the write pointer and where it started.
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
        match self.settings.trigger {
            TriggerMode::Stop => {
                self.has_stopped = true;
                self.events.push((self.collected, ManagementEvent::Stopped));
            }
            TriggerMode::Interrupt => self.events.push((self.collected, ManagementEvent::Triggered)),
            TriggerMode::Ignore => {}
        }
    }

    fn reach_limit(&mut self) {
        (self.pointer, self.has_wrapped) = (0, true);
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

    fn filled(settings: BufferSettings, pieces: &[&[u8]]) -> TraceBuffer {
        let mut buffer = TraceBuffer::new(settings);
        pieces.iter().for_each(|piece| buffer.push(piece));
        buffer
    }

    #[test]
    fn modes_at_the_end() {
        use ManagementEvent::{Filled, Wrapped};
        let rows = [
            (FillMode::Fill, &b"abcd"[..], 0, true, vec![(4, Filled)], 2),
            (FillMode::Wrap, b"efcd", 2, false, vec![(4, Wrapped)], 0),
            (FillMode::Circular, b"efcd", 2, false, vec![], 0),
        ];
        for (fill, memory, pointer, has_stopped, events, lost) in rows {
            let settings = BufferSettings { size: 4, fill, ..BufferSettings::default() };
            for pieces in [&[&b"abcdef"[..]][..], &[b"abc", b"def"], &[b"a", b"b", b"c", b"d", b"e", b"f"]] {
                let buffer = filled(settings, pieces);
                assert_eq!(buffer.memory(), memory, "{fill:?}");
                assert_eq!((buffer.pointer(), buffer.has_stopped()), (pointer, has_stopped), "{fill:?}");
                assert_eq!((buffer.events(), buffer.lost()), (&events[..], lost), "{fill:?}");
                assert!(buffer.has_wrapped());
            }
        }
    }

    #[test]
    fn a_trigger_leaves_room_behind_it() {
        use ManagementEvent::{Stopped, Triggered};
        let rows = [
            (TriggerMode::Stop, 3, &b"abcde"[..], vec![(5, Stopped)]),
            (TriggerMode::Interrupt, 3, b"abcdefgh", vec![(5, Triggered)]),
            (TriggerMode::Ignore, 3, b"abcdefgh", vec![]),
            (TriggerMode::Stop, 0, b"ab", vec![(2, Stopped)]),
        ];
        for (trigger, after_trigger, memory, events) in rows {
            let settings = BufferSettings { size: 100, trigger, after_trigger, ..BufferSettings::default() };
            let mut buffer = filled(settings, &[b"ab"]);
            buffer.trigger();
            buffer.push(b"cdefgh");
            // Only the first trigger counts.
            buffer.trigger();
            assert_eq!((buffer.memory(), buffer.events()), (memory, &events[..]), "{trigger:?}");
        }
    }

    /// The two ways to a watermark: a pointer so far from the end, and a trigger from the start.
    #[test]
    fn watermarks() {
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
    fn where_the_oldest_byte_is() {
        let rows = [
            (0, 3, None),
            (0, 8, Some(0)),
            (0, 11, Some(3)),
            (5, 2, Some(5)),
            (5, 3, Some(5)),
            (5, 7, Some(5)),
            (5, 8, Some(5)),
            (5, 9, Some(6)),
        ];
        for (pointer, length, oldest) in rows {
            let settings = BufferSettings { size: 8, pointer, fill: FillMode::Circular, ..BufferSettings::default() };
            let bytes: Vec<u8> = (1..=length).collect();
            let buffer = filled(settings, &[&bytes]);
            assert_eq!(buffer.oldest().map_or(0, |at| at), oldest.unwrap_or(0), "{pointer} {length}");
        }
    }

    #[test]
    fn no_room_at_all() {
        let buffer = filled(BufferSettings::default(), &[b"abc"]);
        assert_eq!((buffer.memory(), buffer.lost()), (&b""[..], 3));
    }
}
