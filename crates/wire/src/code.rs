//! Translated code: the blocks of a chunk of [`CODE`](crate::CODE), each sent once.

/// A translated block: its number, its address, and the bytes of each instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code<'a> {
    /// The number that records refer to.
    pub id: u32,
    /// The address of the first instruction.
    pub address: u64,
    /// The bytes of each instruction; none of one that could not be fetched.
    pub instructions: Vec<&'a [u8]>,
}

impl<'a> Code<'a> {
    /// Appends a block to the bytes of a chunk.
    pub fn encode<'b>(out: &mut Vec<u8>, id: u32, address: u64, instructions: impl ExactSizeIterator<Item = &'b [u8]>) {
        out.extend_from_slice(&id.to_le_bytes());
        out.extend_from_slice(&address.to_le_bytes());
        out.extend_from_slice(&u16::try_from(instructions.len()).unwrap_or(u16::MAX).to_le_bytes());
        for bytes in instructions {
            out.push(u8::try_from(bytes.len()).unwrap_or(u8::MAX));
            out.extend_from_slice(bytes);
        }
    }

    /// Decodes and removes the first block; `None`: it is damaged.
    pub fn decode(bytes: &mut &'a [u8]) -> Option<Self> {
        let id = u32::from_le_bytes(*next_bytes(bytes)?);
        let address = u64::from_le_bytes(*next_bytes(bytes)?);
        let count = u16::from_le_bytes(*next_bytes(bytes)?);
        let instruction = |_| {
            let [length] = *next_bytes(bytes)?;
            bytes.split_off(..usize::from(length))
        };
        Some(Self { id, address, instructions: (0..count).map(instruction).collect::<Option<_>>()? })
    }
}

fn next_bytes<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_of_code_are_stable() {
        let mut bytes = Vec::new();
        Code::encode(&mut bytes, 1, 0x2000, [&[0x1f, 0x20, 3, 0xd5][..], &[]].into_iter());
        assert_eq!(bytes, [1, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 2, 0, 4, 0x1f, 0x20, 3, 0xd5, 0]);
    }

    proptest! {
        #[test]
        fn code_is_read_as_written(
            id: u32,
            address: u64,
            instructions in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..17), 0..20),
            cut in 0..14_usize,
        ) {
            let instructions: Vec<&[u8]> = instructions.iter().map(Vec::as_slice).collect();
            let mut bytes = Vec::new();
            Code::encode(&mut bytes, id, address, instructions.iter().copied());
            let mut rest = &bytes[..];
            prop_assert_eq!(Code::decode(&mut rest), Some(Code { id, address, instructions }));
            prop_assert!(rest.is_empty());
            prop_assert_eq!(Code::decode(&mut &bytes[..cut]), None);
        }

        #[test]
        fn any_bytes_are_code_or_damage(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut rest = &bytes[..];
            while let Some(code) = Code::decode(&mut rest) {
                prop_assert!(code.instructions.iter().map(|bytes| bytes.len()).sum::<usize>() < bytes.len());
            }
        }
    }
}
