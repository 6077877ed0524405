//! The program image that a trace shows: the bytes of all executed instructions, as an ELF file.
//!
//! blocks, steps of any source ─▶ opcodes at their addresses ─▶ **ELF file** with a segment for each area of code
//!
//! What was not executed is not in the trace: it is zero inside a segment. Where code was changed while the trace was
//! recorded, the first version is kept, and the others are counted.

use std::io::{self, Write};
use std::ops::ControlFlow;

use unspool_isa::Isa;
use unspool_model::{BlockSink, BlockTrace, Event, Step};

use crate::encode::image::Image;

/// Collects executed code.
#[derive(Debug, Default)]
pub struct ExecutedImage {
    image: Image,
    /// The instruction set of the first instruction, which decides about the machine of the file.
    isa: Option<Isa>,
    entry: u64,
    /// Number of blocks of the source that were added.
    blocks: usize,
    changed: u64,
}

/// What is in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageTotals {
    /// Segments.
    pub segments: usize,
    /// Bytes of all segments.
    pub bytes: u64,
    /// Instructions that differed from earlier ones at their address, and were left out.
    pub changed: u64,
}

const HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;
/// Segments start at the same offset in a page of the file as in a page of memory.
const PAGE: u64 = 4096;

impl ExecutedImage {
    /// Starts another source, whose blocks have numbers of their own.
    pub fn start(&mut self) {
        self.blocks = 0;
    }

    /// Whether no opcode was executed.
    pub fn is_empty(&self) -> bool {
        self.isa.is_none()
    }

    fn add(&mut self, address: u64, isa: Isa, opcode: u32, length: u8) {
        if self.isa.is_none() {
            (self.isa, self.entry) = (Some(isa), address);
        }
        self.changed += u64::from(self.image.add(address, isa, opcode, length).is_err());
    }

    /// Writes the image as an ELF file. `None`: nothing was executed.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn write(&self, out: &mut impl Write) -> io::Result<Option<ImageTotals>> {
        let Some(isa) = self.isa else { return Ok(None) };
        let segments = self.image.segments();
        let mut offset = HEADER + PROGRAM_HEADER * segments.len() as u64;
        let mut table = Vec::new();
        let mut places = Vec::new();
        for (address, bytes) in &segments {
            offset += (address % PAGE + PAGE - offset % PAGE) % PAGE;
            let size = bytes.len() as u64;
            // Loadable, readable and executable.
            table.extend([1_u32, 5].iter().flat_map(|word| word.to_le_bytes()));
            table.extend([offset, *address, *address, size, size, PAGE].iter().flat_map(|word| word.to_le_bytes()));
            places.push(offset);
            offset += size;
        }
        out.write_all(&self.header(isa, segments.len() as u16))?;
        out.write_all(&table)?;
        let mut written = HEADER + table.len() as u64;
        for ((_, bytes), offset) in segments.iter().zip(places) {
            out.write_all(&vec![0; (offset - written) as usize])?;
            out.write_all(bytes)?;
            written = offset + bytes.len() as u64;
        }
        let bytes = segments.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        Ok(Some(ImageTotals { segments: segments.len(), bytes, changed: self.changed }))
    }

    /// The file header. All images are in the 64-bit format, which readers accept for 32-bit machines too.
    fn header(&self, isa: Isa, segments: u16) -> Vec<u8> {
        let machine: u16 = match isa {
            Isa::A64 => 183,
            Isa::A32 | Isa::T32 => 40,
            Isa::Rv32 | Isa::Rv64 => 243,
        };
        let mut header = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0];
        header.resize(16, 0);
        // An executable file.
        header.extend([2, machine].iter().flat_map(|half| half.to_le_bytes()));
        header.extend(1_u32.to_le_bytes());
        header.extend([self.entry, HEADER, 0].iter().flat_map(|word| word.to_le_bytes()));
        header.extend(0_u32.to_le_bytes());
        let halves = [HEADER as u16, PROGRAM_HEADER as u16, segments, 0, 0, 0];
        header.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
        header
    }
}

impl BlockSink for ExecutedImage {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        if let Event::Instruction(found) = &step.event
            && let Some(opcode) = found.opcode
        {
            self.add(found.address, found.isa, opcode, found.length);
        }
        ControlFlow::Continue(())
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        for block in trace.blocks.get(self.blocks..).unwrap_or_default() {
            for (address, opcode, length) in block.instructions() {
                self.add(address, block.isa, opcode, length);
            }
        }
        self.blocks = self.blocks.max(trace.blocks.len());
        ControlFlow::Continue(())
    }
}
