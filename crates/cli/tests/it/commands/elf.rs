//! A small ELF file: one segment of AArch64 code, and the functions in it.

fn long(value: u64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

fn word(value: u32) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

fn halves(values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Offset of the code in the file.
const CODE: usize = 0x1000;

/// An executable with `code` at `base`, and symbols: name, address, size.
pub(crate) fn program(base: u64, code: &[u8], symbols: &[(&str, u64, u64)]) -> Vec<u8> {
    let length = code.len() as u64;
    let mut names = vec![0];
    let mut table = vec![0; 24];
    for (name, address, size) in symbols {
        let at = names.len() as u32;
        names.extend(name.bytes().chain([0]));
        // A global function of section 1.
        table.extend([word(at), vec![0x12, 0], halves(&[1]), long(*address), long(*size)].concat());
    }
    let (symbols_at, names_at) = (CODE + code.len(), CODE + code.len() + table.len());
    let sections_at = names_at + names.len();
    // Type, flags, address, offset, size, link, entry size.
    let section = |kind: u32, flags: u64, address: u64, offset: usize, size: usize, link: u32, entry: u64| {
        let position = [long(flags), long(address), long(offset as u64), long(size as u64)].concat();
        [word(0), word(kind), position, word(link), word(1), long(4), long(entry)].concat()
    };
    let sections = [
        vec![0; 64],
        section(1, 6, base, CODE, code.len(), 0, 0),
        section(2, 0, 0, symbols_at, table.len(), 3, 24),
        section(3, 0, 0, names_at, names.len(), 0, 0),
    ];
    let ident = [&b"\x7fELF\x02\x01\x01"[..], &[0; 9]].concat();
    let positions = [long(base), long(64), long(sections_at as u64)].concat();
    let header = [ident, halves(&[2, 183]), word(1), positions, word(0), halves(&[64, 56, 1, 64, 4, 3])].concat();
    let position = [long(CODE as u64), long(base), long(base), long(length), long(length), long(0x1000)].concat();
    let segment = [word(1), word(5), position].concat();
    let mut file = [header, segment].concat();
    file.resize(CODE, 0);
    [file, code.to_vec(), table, names, sections.concat()].concat()
}
