//! The source of program code.
//!
//! Takes an address and the space that the PE executes in. Produces bytes. Implementations of [`CodeMemory`] know files,
//! dumps or live targets; this crate does not.

use core::fmt;

use unspool_coresight::{Context, ProcessorMode, Security};

/// Address space of the PE: an address may hold other code in another Security state, Exception level or process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Space {
    /// The Security state.
    pub security: Security,
    /// The Exception level or mode, as in [`Context::el`].
    pub el: u8,
    /// The address map.
    pub map: MapId,
}

impl Space {
    /// A space of the only address map.
    pub const fn new(security: Security, el: u8) -> Self {
        Self { security, el, map: MapId::ONLY }
    }
}

/// An address map: the code of one process for as long as it does not change. Only a [`CodeMemory`] knows what a number
/// stands for; the same number always stands for the same code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct MapId(pub u32);

impl MapId {
    /// The map of a program whose code is the same in all processes and never changes.
    pub const ONLY: Self = Self(0);
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.security {
            Security::Secure => "S",
            Security::NonSecure => "N",
            Security::Root => "ROOT",
            Security::Realm => "R",
        };
        match (ProcessorMode::of(self.el), self.el) {
            (Some(mode), _) => write!(f, "{mode} {state}"),
            // The trace of Armv7 has the Security state only.
            (None, Context::UNKNOWN_EL) => f.write_str(self.security.name()),
            (None, level) => write!(f, "EL{level}{state}"),
        }
    }
}

/// Program code by address.
pub trait CodeMemory {
    /// Code from `address` on; empty if it is unknown. An implementation lends bytes that it has in memory, or fills
    /// `buffer` and returns the filled part.
    fn read<'b>(&'b self, address: u64, space: Space, buffer: &'b mut [u8]) -> &'b [u8];

    /// The address map that a context executes in.
    fn map_of(&self, _context: &Context) -> MapId {
        MapId::ONLY
    }

    /// Is code unknown at this address only because it differs between processes, and which of them executes is unknown?
    fn is_ambiguous(&self, _address: u64, _space: Space) -> bool {
        false
    }
}

/// Code from a function that copies code from an address on and returns the number of bytes copied.
///
/// ```
/// use unspool_flow::{CodeMemory, Callback, Space};
/// # use unspool_coresight::Security;
/// let ones = Callback(|_address: u64, _space: Space, buffer: &mut [u8]| { buffer.fill(1); buffer.len() });
/// # let space = Space::new(Security::NonSecure, 0);
/// assert_eq!(ones.read(0x8000, space, &mut [0; 4]), [1; 4]);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Callback<F>(pub F);

impl<F: Fn(u64, Space, &mut [u8]) -> usize> CodeMemory for Callback<F> {
    fn read<'b>(&'b self, address: u64, space: Space, buffer: &'b mut [u8]) -> &'b [u8] {
        let filled = self.0(address, space, buffer).min(buffer.len());
        &buffer[..filled]
    }
}

impl<M: CodeMemory> CodeMemory for &M {
    fn read<'b>(&'b self, address: u64, space: Space, buffer: &'b mut [u8]) -> &'b [u8] {
        (*self).read(address, space, buffer)
    }

    fn map_of(&self, context: &Context) -> MapId {
        (*self).map_of(context)
    }

    fn is_ambiguous(&self, address: u64, space: Space) -> bool {
        (*self).is_ambiguous(address, space)
    }
}
