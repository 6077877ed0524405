//! A packet of any protocol, for listings. Pipelines work on the packets of one protocol.

use core::fmt;

use crate::fields::Fields;
use crate::{etm3, etm4};

/// A packet, by protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packet {
    /// ETE or ETMv4.
    Etm4(etm4::Packet),
    /// ETMv3.
    Etm3(etm3::Packet),
}

/// The kind of a packet, by protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PacketKind {
    /// ETE or ETMv4.
    Etm4(etm4::PacketKind),
    /// ETMv3.
    Etm3(etm3::PacketKind),
}

impl Packet {
    /// The kind of the packet.
    pub fn kind(&self) -> PacketKind {
        match self {
            Packet::Etm4(packet) => PacketKind::Etm4(packet.kind()),
            Packet::Etm3(packet) => PacketKind::Etm3(packet.kind()),
        }
    }

    /// Lists the fields.
    pub fn fields(&self, out: &mut impl Fields) {
        match self {
            Packet::Etm4(packet) => packet.fields(out),
            Packet::Etm3(packet) => packet.fields(out),
        }
    }

    /// Does the packet leave bits of its address to earlier packets?
    pub fn has_partial_address(&self) -> bool {
        match self {
            Packet::Etm4(packet) => packet.has_partial_address(),
            Packet::Etm3(packet) => packet.has_partial_address(),
        }
    }
}

impl PacketKind {
    /// The name that the command line and JSON use.
    pub fn name(self) -> &'static str {
        match self {
            PacketKind::Etm4(kind) => kind.name(),
            PacketKind::Etm3(kind) => kind.name(),
        }
    }

    /// Can decoding start at packets of this kind?
    pub fn is_sync(self) -> bool {
        match self {
            PacketKind::Etm4(kind) => kind == etm4::PacketKind::AlignmentSync,
            PacketKind::Etm3(kind) => kind == etm3::PacketKind::AlignmentSync,
        }
    }

    /// The number of the kind among those of its protocol. For counting.
    pub fn index(self) -> usize {
        match self {
            PacketKind::Etm4(kind) => kind as usize,
            PacketKind::Etm3(kind) => kind as usize,
        }
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::Etm4(packet) => packet.fmt(f),
            Packet::Etm3(packet) => packet.fmt(f),
        }
    }
}

impl From<etm4::Packet> for Packet {
    #[inline(always)]
    fn from(packet: etm4::Packet) -> Self {
        Packet::Etm4(packet)
    }
}

impl From<etm3::Packet> for Packet {
    #[inline(always)]
    fn from(packet: etm3::Packet) -> Self {
        Packet::Etm3(packet)
    }
}
