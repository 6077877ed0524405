//! ITM and STM streams made from a list of writes.
//!
//! list of writes ─▶ **stream** of an ITM or STM ─▶ bare file, or a capture with the registers of the unit
//!
//! `list` reads the writes, `itm` and `stm` encode them as a unit would. Decoding the stream gives the same writes.

mod itm;
mod list;
mod stm;

use std::fmt::Write as _;
use std::path::Path;

use unspool_coresight::Protocol;
use unspool_coresight::frame::Formatter;
use unspool_model::SinkError;

pub use self::list::{ListedWrite, WriteListError, parse_writes};
use super::output::Output;

/// What software wrote to a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoftwareWrite {
    /// When, in ticks of the trace; `None`: not known.
    pub time: Option<u64>,
    /// The master (STM).
    pub master: Option<u16>,
    /// The channel (STM), or the stimulus port (ITM).
    pub channel: u16,
    /// What was written.
    pub written: Written,
}

/// Contents of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// A value.
    Value {
        /// The value.
        value: u64,
        /// Number of bits: 4, 8, 16, 32 or 64.
        bits: u8,
        /// It marks the boundary of a message (STM).
        marked: bool,
    },
    /// Bytes of text, as values of 8 bits.
    Text(Vec<u8>),
    /// A flag (STM).
    Flag,
}

/// A unit that traces writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoftwareUnit {
    /// ITM or STM.
    protocol: Protocol,
    /// The trace ID.
    pub id: u8,
    /// Number of bytes between synchronizations.
    pub sync_bytes: u32,
    /// Frequency of the timestamps in Hertz (STM); 0: not known.
    pub frequency: u32,
    /// Times become global timestamps, which other sources have too, instead of local ones (ITM).
    pub global_timestamps: bool,
}

/// A write that a unit cannot trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("write {index}: {reason}")]
pub struct Untraceable {
    /// Index of the write.
    pub index: usize,
    /// Why not.
    pub reason: String,
}

impl SoftwareUnit {
    /// A unit of this protocol, with the trace ID 0x20. `None`: the protocol is not one of software trace.
    pub fn new(protocol: Protocol) -> Option<Self> {
        let sync_bytes = match protocol {
            Protocol::Itm => 1024,
            Protocol::Stm => 4096,
            _ => return None,
        };
        Some(Self { protocol, id: 0x20, sync_bytes, frequency: 0, global_timestamps: false })
    }

    /// Sets a register: STMTCSR (the trace ID), STMTSFREQR, STMSYNCR, ITM_TCR (the trace ID and GTSFREQ). False: it is none
    /// of them.
    pub fn set(&mut self, register: &str, value: u64) -> bool {
        let id = (value >> 16 & 0x7f) as u8;
        match (self.protocol, register.to_ascii_uppercase().as_str()) {
            (Protocol::Stm, "STMTCSR") => self.id = id,
            (Protocol::Stm, "STMTSFREQR") => self.frequency = value as u32,
            (Protocol::Stm, "STMSYNCR") => self.sync_bytes = value as u32 & 0xfff,
            (Protocol::Itm, "ITM_TCR" | "ITMTCR") => {
                self.id = id;
                self.global_timestamps |= value >> 10 & 3 != 0;
            }
            _ => return false,
        }
        true
    }

    /// The stream of the unit for these writes.
    ///
    /// ```
    /// use unspool::coresight::Protocol;
    /// use unspool::encode::software::{SoftwareUnit, SoftwareWrite, Written};
    /// let unit = SoftwareUnit::new(Protocol::Itm).ok_or("no unit of software trace")?;
    /// let written = Written::Text(b"A".to_vec());
    /// let bytes = unit.encode([&SoftwareWrite { time: Some(3), master: None, channel: 0, written }])?;
    /// assert_eq!(bytes, [0, 0, 0, 0, 0, 0x80, 0x01, 0x41, 0x30]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// At the first write that the unit has no packets for.
    pub fn encode<'w>(&self, writes: impl IntoIterator<Item = &'w SoftwareWrite>) -> Result<Vec<u8>, Untraceable> {
        match self.protocol {
            Protocol::Itm => itm::encode(self, writes),
            _ => stm::encode(self, writes),
        }
    }

    /// The stream in formatter frames.
    pub fn framed(&self, stream: &[u8]) -> Vec<u8> {
        let mut formatter = Formatter::new();
        formatter.push(self.id, stream);
        formatter.finish()
    }

    /// Writes a stream as a snapshot directory, with the registers of the unit. `replace`: the directory may have a
    /// capture that an encoder wrote.
    ///
    /// # Errors
    ///
    /// If the directory has anything else, or a file cannot be written.
    pub fn save(&self, directory: &Path, stream: &[u8], formatted: bool, replace: bool) -> Result<(), SinkError> {
        let output = Output::new(directory, replace, false, None)?;
        let format = if formatted { "coresight" } else { "source_data" };
        let name = if self.protocol == Protocol::Itm { "ITM_0" } else { "STM_0" };
        let snapshot = "[snapshot]\nversion=1.0\n\n[device_list]\ndevice0=unit_0.ini\n\n[trace]\nmetadata=trace.ini\n";
        let trace = format!(
            "[trace_buffers]\nbuffers=buffer0\n\n[buffer0]\nname=BUFFER_0\nfile=trace_0.bin\nformat={format}\n\n\
             [source_buffers]\n{name}=BUFFER_0\n\n[core_trace_sources]\n"
        );
        let framed = formatted.then(|| self.framed(stream));
        output.finish_with(&[
            ("trace_0.bin", framed.as_deref().unwrap_or(stream)),
            ("snapshot.ini", snapshot.as_bytes()),
            ("trace.ini", trace.as_bytes()),
            ("unit_0.ini", self.device(name).as_bytes()),
        ])
    }

    /// The device file of the unit.
    fn device(&self, name: &str) -> String {
        let id = u32::from(self.id) << 16;
        let mut text = format!("[device]\nname={name}\nclass=trace_source\ntype={}\n\n[regs]\n", &name[..3]);
        let registers = match self.protocol {
            Protocol::Itm => {
                let global = u32::from(self.global_timestamps);
                vec![("ITMTCR(0xE80)", id | global << 10 | (1 - global) << 1 | 0b1101)]
            }
            _ => {
                let registers = [
                    ("STMTCSR(0x3A0)", id | 0b111),
                    ("STMTSFREQR(0x3A3)", self.frequency),
                    ("STMSYNCR(0x3A4)", self.sync_bytes),
                ];
                registers.to_vec()
            }
        };
        registers.iter().for_each(|(name, value)| {
            let _ = writeln!(text, "{name}={value:#010x}");
        });
        text
    }
}

#[cfg(test)]
mod tests;
