//! Packets of captures.

use std::mem::MaybeUninit;

use unspool::coresight::PacketItem;
use unspool::{Opened, SourcePacket};

use crate::failure::{Failure, guard};
use crate::pointer::{borrow_mut, free, output};
use crate::reader::{Reader, open, read};
use crate::status::UnspoolStatus;
use crate::text::UnspoolText;
use crate::trace::UnspoolTrace;

/// A packet of a capture, or bytes that are not one.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct UnspoolPacket {
    /// Offset in the buffer.
    pub offset: u64,
    /// Number of bytes: of the packet, or those that were skipped.
    pub length: u64,
    /// Index of the source.
    pub source: usize,
    /// Name of its kind, as in the JSON of the command line; no text if it is malformed. Always valid.
    pub kind: UnspoolText,
    /// Whether the bytes are not a packet.
    pub is_malformed: bool,
    /// Whether malformed bytes are damage: an undamaged trace has some too, before its first synchronization.
    pub is_damage: bool,
}

impl From<SourcePacket> for UnspoolPacket {
    fn from(SourcePacket { source, packet }: SourcePacket) -> Self {
        match packet {
            Ok(packet) => {
                let kind = UnspoolText::new(packet.value.kind().name());
                let (offset, length) = (packet.offset, packet.length);
                Self { offset, length, source, kind, is_malformed: false, is_damage: false }
            }
            Err(error) => {
                let (offset, length, kind) = (error.offset, error.skipped, UnspoolText::ABSENT);
                Self { offset, length, source, kind, is_malformed: true, is_damage: !error.kind.is_ordinary() }
            }
        }
    }
}

/// Iterator over packets.
pub struct UnspoolPackets {
    reader: Reader<SourcePacket>,
    /// The last packets that were read.
    batch: Vec<PacketItem>,
    text: String,
}

impl UnspoolPackets {
    fn read(&mut self, items: &mut [MaybeUninit<UnspoolPacket>]) -> Result<usize, Failure> {
        self.batch.clear();
        self.reader.read(items, |packet| {
            self.batch.push(packet.packet);
            packet.into()
        })
    }

    fn describe(&mut self, index: usize) -> Result<UnspoolText, Failure> {
        self.text = match self.batch.get(index) {
            Some(Ok(packet)) => packet.value.to_string(),
            Some(Err(error)) => error.kind.to_string(),
            None => {
                let message = format!("no packet {index}: {} were read last", self.batch.len());
                return Err(Failure::new(UnspoolStatus::InvalidArgument, message));
            }
        };
        Ok(UnspoolText::new(&self.text))
    }
}

/// Opens an iterator over the packets of a capture, source by source. Other traces have none: UNSPOOL_STATUS_WRONG_KIND.
/// Free it with unspool_packets_free.
///
/// # Safety
///
/// The pointers are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_packets_open(
    trace: *const UnspoolTrace,
    packets: *mut *mut UnspoolPackets,
) -> UnspoolStatus {
    let iterate = |opened: &Opened| {
        let reader = Reader::new(opened.packets()?);
        Ok(UnspoolPackets { reader, batch: Vec::new(), text: String::new() })
    };
    // SAFETY: as required of the caller.
    unsafe { open(trace, packets, iterate) }
}

/// Reads up to `capacity` packets into an array, as unspool_instructions_read does with instructions.
///
/// # Safety
///
/// The pointers are NULL or valid; `items` has room for `capacity` structs, which may be uninitialized.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_packets_read(
    packets: *mut UnspoolPackets,
    items: *mut UnspoolPacket,
    capacity: usize,
    count: *mut usize,
) -> UnspoolStatus {
    // SAFETY: as required of the caller.
    unsafe { read(packets, items, capacity, count, UnspoolPackets::read) }
}

/// Describes one of the packets that were read last: what it contains, or why it is malformed. The text is valid until
/// the next call with this iterator.
///
/// # Safety
///
/// The pointers are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_packets_text(
    packets: *mut UnspoolPackets,
    index: usize,
    text: *mut UnspoolText,
) -> UnspoolStatus {
    guard(|| {
        // SAFETY: as required of the caller.
        let text = unsafe { output(text, UnspoolText::ABSENT, "text") }?;
        // SAFETY: as required of the caller.
        *text = unsafe { borrow_mut(packets, "iterator") }?.describe(index)?;
        Ok(UnspoolStatus::Ok)
    })
}

/// Frees an iterator; NULL is allowed.
///
/// # Safety
///
/// It was not freed before, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unspool_packets_free(packets: *mut UnspoolPackets) {
    // SAFETY: as required of the caller.
    unsafe { free(packets) };
}
