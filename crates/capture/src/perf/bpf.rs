//! Code of BPF programs: the feature in which perf keeps what the kernel reports about them.
//!
//! payload of the feature ─▶ **bpf** ─▶ [`BpfFunction`]s: addresses and machine code
//!
//! Each program is the structure that the system call `bpf` returns, and its arrays, with offsets in place of addresses. A
//! program that was loaded after the recording had started is not there.

use super::bytes::ByteOrder;

/// Maximum number of functions, and of bytes of their code. A function costs sixteen bytes of the file.
const FUNCTION_LIMIT: usize = 256 << 10;
const CODE_LIMIT: usize = 256 << 20;

/// Arrays that are present: code, addresses of functions, lengths of functions.
const NEEDED: u64 = 1 << 0 | 1 << 3 | 1 << 4;

/// A function of a BPF program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpfFunction {
    /// Its address.
    pub address: u64,
    /// Its code.
    pub code: Vec<u8>,
}

/// The functions of all programs, up to the first that is damaged.
pub(super) fn functions(bytes: &[u8], order: ByteOrder) -> Vec<BpfFunction> {
    let mut found = Vec::new();
    let mut left = CODE_LIMIT;
    let mut rest = bytes.get(4..).unwrap_or_default();
    for _ in 0..order.u32(bytes, 0).unwrap_or(0) {
        let Some(after) = program(rest, order, &mut found, &mut left) else { break };
        rest = after;
    }
    found
}

/// Adds the functions of the first program. Returns the bytes after it.
fn program<'a>(bytes: &'a [u8], order: ByteOrder, found: &mut Vec<BpfFunction>, left: &mut usize) -> Option<&'a [u8]> {
    let (info, arrays) = (order.u32(bytes, 0)? as usize, order.u32(bytes, 4)? as usize);
    let present = order.u64(bytes, 8)?;
    let (info, rest) = bytes.get(16..)?.split_at_checked(info)?;
    let (arrays, rest) = rest.split_at_checked(arrays)?;
    if present & NEEDED == NEEDED {
        add(Program { info, arrays, order }, found, left);
    }
    Some(rest)
}

#[derive(Clone, Copy)]
struct Program<'a> {
    info: &'a [u8],
    arrays: &'a [u8],
    order: ByteOrder,
}

impl<'a> Program<'a> {
    /// The array whose offset is at a place of the structure.
    fn array(&self, at: usize) -> Option<&'a [u8]> {
        self.arrays.get(usize::try_from(self.order.u64(self.info, at)?).ok()?..)
    }
}

/// Adds the functions of a program, whose code is one after the other; `None` if it ends before they do.
fn add(program: Program<'_>, found: &mut Vec<BpfFunction>, left: &mut usize) -> Option<()> {
    let Program { info, order, .. } = program;
    let mut code = program.array(24)?.get(..order.u32(info, 16)? as usize)?;
    let count = order.u32(info, 104)?.min(order.u32(info, 108)?) as usize;
    let (addresses, lengths) = (program.array(112)?, program.array(120)?);
    for index in 0..count {
        let (address, length) = (order.u64(addresses, 8 * index)?, order.u32(lengths, 4 * index)? as usize);
        let (function, rest) = code.split_at_checked(length)?;
        *left = left.checked_sub(length).filter(|_| found.len() < FUNCTION_LIMIT)?;
        found.push(BpfFunction { address, code: function.to_vec() });
        code = rest;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(present: u64, code: &[u8], functions: &[(u64, u32)]) -> Vec<u8> {
        let mut info = vec![0; 128];
        let mut put = |at: usize, value: usize| info[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
        let addresses = code.len().next_multiple_of(8);
        put(16, code.len());
        put(104, functions.len());
        put(108, functions.len());
        put(112, addresses);
        put(120, addresses + 8 * functions.len());
        let mut arrays = code.to_vec();
        arrays.resize(addresses, 0);
        functions.iter().for_each(|(address, _)| arrays.extend(address.to_le_bytes()));
        functions.iter().for_each(|(_, length)| arrays.extend(length.to_le_bytes()));
        let sizes = [info.len() as u32, arrays.len() as u32].map(u32::to_le_bytes).concat();
        [&sizes[..], &present.to_le_bytes(), &info, &arrays].concat()
    }

    #[test]
    fn functions_of_programs() {
        let code: Vec<u8> = (0..12).collect();
        let read = |programs: &[Vec<u8>]| {
            let bytes = [&(programs.len() as u32).to_le_bytes()[..], &programs.concat()].concat();
            let found = functions(&bytes, ByteOrder::Little);
            found.into_iter().map(|function| (function.address, function.code)).collect::<Vec<_>>()
        };
        let both = payload(NEEDED | 2, &code, &[(0x1000, 8), (0x2000, 4)]);
        let expected = [(0x1000, code[..8].to_vec()), (0x2000, code[8..].to_vec())];
        assert_eq!(read(std::slice::from_ref(&both)), expected);
        // Without its code; with a function that is longer than the code; cut short.
        let without = payload(NEEDED & !1, &code, &[(0x3000, 8)]);
        let long = payload(NEEDED, &code, &[(0x4000, 4), (0x5000, 9)]);
        let last = (0x4000, code[..4].to_vec());
        assert_eq!(read(&[without, both.clone(), long]), [&expected[..], &[last]].concat());
        assert_eq!(read(&[both[..both.len() - 1].to_vec()]), []);
    }

    #[test]
    fn any_length_and_hostile_counts() {
        let bytes = [&[0xff; 4][..], &payload(NEEDED, &[1; 16], &[(1, 8), (2, 8)])].concat();
        assert_eq!(functions(&bytes, ByteOrder::Little).len(), 2);
        (0..bytes.len()).for_each(|length| drop(functions(&bytes[..length], ByteOrder::Little)));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            functions(&damaged, ByteOrder::Little);
            functions(&damaged, ByteOrder::Big);
        }
    }
}
