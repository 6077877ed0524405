//! A packet of any protocol, for listings. Pipelines work on the packets of one protocol.

use core::fmt;

use crate::fields::Fields;
use crate::{etm3, etm4, etm4_data, itm, ptm, stm};

/// A packet, by protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packet {
    /// ETE or ETMv4.
    Etm4(etm4::Packet),
    /// The data stream of ETMv4.
    Etm4Data(etm4_data::Packet),
    /// ETMv3.
    Etm3(etm3::Packet),
    /// PTM.
    Ptm(ptm::Packet),
    /// ITM and DWT.
    Itm(itm::Packet),
    /// STM.
    Stm(stm::Packet),
}

/// The kind of a packet, by protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PacketKind {
    /// ETE or ETMv4.
    Etm4(etm4::PacketKind),
    /// The data stream of ETMv4.
    Etm4Data(etm4_data::PacketKind),
    /// ETMv3.
    Etm3(etm3::PacketKind),
    /// PTM.
    Ptm(ptm::PacketKind),
    /// ITM and DWT.
    Itm(itm::PacketKind),
    /// STM.
    Stm(stm::PacketKind),
}

impl Packet {
    /// The kind of the packet.
    pub fn kind(&self) -> PacketKind {
        match self {
            Packet::Etm4(packet) => PacketKind::Etm4(packet.kind()),
            Packet::Etm4Data(packet) => PacketKind::Etm4Data(packet.kind()),
            Packet::Etm3(packet) => PacketKind::Etm3(packet.kind()),
            Packet::Ptm(packet) => PacketKind::Ptm(packet.kind()),
            Packet::Itm(packet) => PacketKind::Itm(packet.kind()),
            Packet::Stm(packet) => PacketKind::Stm(packet.kind()),
        }
    }

    /// Lists the fields.
    pub fn fields(&self, out: &mut impl Fields) {
        match self {
            Packet::Etm4(packet) => packet.fields(out),
            Packet::Etm4Data(packet) => packet.fields(out),
            Packet::Etm3(packet) => packet.fields(out),
            Packet::Ptm(packet) => packet.fields(out),
            Packet::Itm(packet) => packet.fields(out),
            Packet::Stm(packet) => packet.fields(out),
        }
    }

    /// Does the packet leave bits of its address to earlier packets?
    pub fn has_partial_address(&self) -> bool {
        match self {
            Packet::Etm4(packet) => packet.has_partial_address(),
            Packet::Etm3(packet) => packet.has_partial_address(),
            Packet::Ptm(packet) => packet.has_partial_address(),
            Packet::Itm(_) | Packet::Stm(_) | Packet::Etm4Data(_) => false,
        }
    }
}

impl PacketKind {
    /// The name that the command line and JSON use.
    pub fn name(self) -> &'static str {
        match self {
            PacketKind::Etm4(kind) => kind.name(),
            PacketKind::Etm4Data(kind) => kind.name(),
            PacketKind::Etm3(kind) => kind.name(),
            PacketKind::Ptm(kind) => kind.name(),
            PacketKind::Itm(kind) => kind.name(),
            PacketKind::Stm(kind) => kind.name(),
        }
    }

    /// Can decoding start at packets of this kind?
    pub fn is_sync(self) -> bool {
        match self {
            PacketKind::Etm4(kind) => kind == etm4::PacketKind::AlignmentSync,
            PacketKind::Etm4Data(kind) => kind == etm4_data::PacketKind::AlignmentSync,
            PacketKind::Etm3(kind) => kind == etm3::PacketKind::AlignmentSync,
            PacketKind::Ptm(kind) => kind == ptm::PacketKind::AlignmentSync,
            PacketKind::Itm(kind) => kind == itm::PacketKind::Sync,
            PacketKind::Stm(kind) => kind == stm::PacketKind::Async,
        }
    }

    /// The number of the kind among those of its protocol. For counting.
    pub fn index(self) -> usize {
        match self {
            PacketKind::Etm4(kind) => kind as usize,
            PacketKind::Etm4Data(kind) => kind as usize,
            PacketKind::Etm3(kind) => kind as usize,
            PacketKind::Ptm(kind) => kind as usize,
            PacketKind::Itm(kind) => kind as usize,
            PacketKind::Stm(kind) => kind as usize,
        }
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::Etm4(packet) => packet.fmt(f),
            Packet::Etm4Data(packet) => packet.fmt(f),
            Packet::Etm3(packet) => packet.fmt(f),
            Packet::Ptm(packet) => packet.fmt(f),
            Packet::Itm(packet) => packet.fmt(f),
            Packet::Stm(packet) => packet.fmt(f),
        }
    }
}

impl From<etm4::Packet> for Packet {
    #[inline(always)]
    fn from(packet: etm4::Packet) -> Self {
        Packet::Etm4(packet)
    }
}

impl From<etm4_data::Packet> for Packet {
    fn from(packet: etm4_data::Packet) -> Self {
        Packet::Etm4Data(packet)
    }
}

impl From<etm3::Packet> for Packet {
    #[inline(always)]
    fn from(packet: etm3::Packet) -> Self {
        Packet::Etm3(packet)
    }
}

impl From<ptm::Packet> for Packet {
    #[inline(always)]
    fn from(packet: ptm::Packet) -> Self {
        Packet::Ptm(packet)
    }
}

impl From<itm::Packet> for Packet {
    #[inline(always)]
    fn from(packet: itm::Packet) -> Self {
        Packet::Itm(packet)
    }
}

impl From<stm::Packet> for Packet {
    #[inline(always)]
    fn from(packet: stm::Packet) -> Self {
        Packet::Stm(packet)
    }
}
