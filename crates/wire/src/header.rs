//! The header of a stream: a magic line, and a line with the target and the capabilities of the emulator.

use std::io::{self, Read};

use crate::damage;

const MAGIC: &[u8] = b"unspool record 3\n";

/// Maximum number of bytes of the second line that are kept.
const MAX_LINE: usize = 256;

/// Words of the second line, one per capability.
const OPERANDS: &str = "registers";
const DATA: &str = "data";
const REGISTERS: &str = "written";

/// The header of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// The emulator's name of the target, such as `aarch64`.
    pub target: String,
    /// Facts that are recorded besides instructions and addresses.
    pub capabilities: EmulatorCapabilities,
}

/// Facts that were requested and that the emulator reports, beyond instructions and access addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EmulatorCapabilities {
    /// Data that accesses read and write: QEMU 9.2 and later.
    pub data: bool,
    /// Values that instructions write to registers: QEMU 9.0 and later.
    pub registers: bool,
    /// Registers of a system that form addresses which no access reports: QEMU 9.0 and later.
    pub operands: bool,
}

impl Header {
    /// The bytes that a stream starts with.
    pub fn to_bytes(&self) -> Vec<u8> {
        let EmulatorCapabilities { data, registers, operands } = self.capabilities;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(self.target.as_bytes());
        for (_, word) in [(operands, OPERANDS), (data, DATA), (registers, REGISTERS)].iter().filter(|(has, _)| *has) {
            bytes.push(b' ');
            bytes.extend_from_slice(word.as_bytes());
        }
        bytes.push(b'\n');
        bytes
    }

    /// Reads the header, and nothing after it.
    pub fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut magic = [0; MAGIC.len()];
        input.read_exact(&mut magic)?;
        if magic != *MAGIC {
            return Err(damage("this is not a stream of the unspool plugin"));
        }
        let mut line = Vec::new();
        let mut byte = [0];
        loop {
            input.read_exact(&mut byte)?;
            if byte == *b"\n" {
                return Ok(Self::of_line(&String::from_utf8_lossy(&line)));
            }
            if line.len() < MAX_LINE {
                line.extend(byte);
            }
        }
    }

    fn of_line(line: &str) -> Self {
        let has = |word: &str| line.split_whitespace().skip(1).any(|other| other == word);
        Self {
            target: line.split_whitespace().next().unwrap_or_default().to_string(),
            capabilities: EmulatorCapabilities { data: has(DATA), registers: has(REGISTERS), operands: has(OPERANDS) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_written() {
        for bits in 0..8_u8 {
            let [data, registers, operands] = [1, 2, 4].map(|bit| bits & bit != 0);
            let header =
                Header { target: "aarch64".into(), capabilities: EmulatorCapabilities { data, registers, operands } };
            let bytes = [header.to_bytes(), b"rest".to_vec()].concat();
            let mut rest = &bytes[..];
            assert_eq!(Header::read(&mut rest).ok(), Some(header));
            assert_eq!(rest, b"rest");
        }
    }

    #[test]
    fn bytes_of_a_header_are_stable() {
        let all = EmulatorCapabilities { data: true, registers: true, operands: true };
        let rows = [
            ("arm", EmulatorCapabilities::default(), "unspool record 3\narm\n"),
            ("aarch64", all, "unspool record 3\naarch64 registers data written\n"),
        ];
        for (target, capabilities, expected) in rows {
            assert_eq!(Header { target: target.into(), capabilities }.to_bytes(), expected.as_bytes());
        }
    }

    #[test]
    fn other_bytes_are_damage() {
        let rows: [(&[u8], io::ErrorKind); 3] = [
            (b"unspool record 2\narm\n", io::ErrorKind::InvalidData),
            (b"unspool record 3\narm", io::ErrorKind::UnexpectedEof),
            (b"unspool", io::ErrorKind::UnexpectedEof),
        ];
        for (mut bytes, expected) in rows {
            assert_eq!(Header::read(&mut bytes).map_err(|error| error.kind()), Err(expected));
        }
    }
}
