//! One memory access, in the record of its instruction or in an Extra EA.

use unspool_model::Direction;

use super::record::{ExtraEa, Instruction, xattr_mode};

/// A memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Access {
    /// First address.
    pub address: u64,
    /// Its size.
    pub extent: Extent,
    /// The access read.
    pub read: bool,
    /// The access wrote.
    pub write: bool,
    /// The access was to tag memory too: it was Tag Checked, or it wrote Allocation Tags.
    pub tagged: bool,
}

impl Access {
    /// Its direction.
    #[inline]
    pub fn direction(&self) -> Direction {
        match (self.read, self.write) {
            (true, true) => Direction::Both,
            (true, false) => Direction::Read,
            (false, true) => Direction::Write,
            (false, false) => Direction::Neither,
        }
    }
}

/// Size of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extent {
    /// Bytes, as the instruction encodes them.
    Bytes(u16),
    /// Bytes, as a register has them; possibly none.
    Range(u64),
}

impl Extent {
    /// Number of bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Bytes(bytes) => u64::from(bytes),
            Self::Range(bytes) => bytes,
        }
    }
}

fn sized(size: u8) -> Extent {
    Extent::Bytes(u16::from(size) + 1)
}

impl Instruction {
    /// The access in the record of the instruction.
    pub fn access(&self) -> Option<Access> {
        let is_range = self.xattr_mode == xattr_mode::RANGE;
        let extent = if is_range { Extent::Range(self.xattr) } else { sized(self.ea_size) };
        let (read, write, tagged) = (self.is_read, self.is_write, self.ea_tagged);
        (self.ea_valid && !self.is_branch).then_some(Access { address: self.ea, extent, read, write, tagged })
    }
}

impl ExtraEa {
    /// The accesses in the record: one or two.
    pub fn accesses(&self) -> (Access, Option<Access>) {
        let first = Access {
            address: self.mem0_addr,
            extent: if self.mem1_addr_range { Extent::Range(self.mem1_addr) } else { sized(self.mem0_size) },
            read: self.mem0_is_read,
            write: self.mem0_is_write,
            tagged: self.mem0_tagged,
        };
        let second = Access {
            address: self.mem1_addr,
            extent: sized(self.mem1_size),
            read: self.mem1_is_read,
            write: self.mem1_is_write,
            tagged: self.mem1_tagged,
        };
        (first, (self.mem1_valid && !self.mem1_addr_range).then_some(second))
    }
}
