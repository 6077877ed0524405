//! Streams of the plugin, made from code and records.

use unspool_wire::{CODE, ChunkHead, Code, Header, Record};

/// A stream of blocks of A64 code, by address and opcodes, and of one thread.
pub(crate) fn stream(blocks: &[(u64, Vec<u32>)], chunks: &[Vec<Record>]) -> Vec<u8> {
    let mut bytes = Header { target: "aarch64".into(), ..Header::default() }.to_bytes();
    let mut code = Vec::new();
    for (id, (address, opcodes)) in (0..).zip(blocks) {
        let opcodes: Vec<[u8; 4]> = opcodes.iter().map(|opcode| opcode.to_le_bytes()).collect();
        Code::encode(&mut code, id, *address, opcodes.iter().map(|bytes| &bytes[..]));
    }
    push_chunk(&mut bytes, CODE, &code);
    chunks.iter().for_each(|records| push_records(&mut bytes, records));
    bytes
}

/// Adds records of the thread.
pub(crate) fn push_records(bytes: &mut Vec<u8>, records: &[Record]) {
    let mut words = Vec::new();
    records.iter().for_each(|record| record.encode(&mut |word| words.extend(word.to_le_bytes())));
    push_chunk(bytes, 0, &words);
}

fn push_chunk(bytes: &mut Vec<u8>, thread: u32, content: &[u8]) {
    bytes.extend(ChunkHead::to_bytes(thread, content.len() as u32));
    bytes.extend(content);
}
