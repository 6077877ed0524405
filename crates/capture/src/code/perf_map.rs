//! `/tmp/perf-PID.map`: the names of functions that a JIT compiler made.
//!
//! lines `address size name` ─▶ **perf_map** ─▶ [`Code`] without memory
//!
//! The file has names only, and no times: of functions that overlap, the one that was written last is kept.

use super::Code;
use super::latest::LatestFunctions;
use super::lines::{Fields, NoteList, each_line};
use crate::note::Note;

impl Code {
    /// The names in the text of a perf map, and notes about bad lines. `file` is the name of the file.
    pub fn from_perf_map(file: &str, text: &[u8]) -> (Self, Vec<Note>) {
        let (mut notes, mut latest) = (NoteList::new(file), LatestFunctions::default());
        each_line(text, &mut notes, |line, _| {
            let mut fields = Fields::new(line.text);
            let address = fields.next("the address")?.hex("a hexadecimal address")?;
            let size = fields.next("the size")?.hex("a hexadecimal size")?;
            // A name may contain blanks.
            let name = fields.clone().next("the name").map(|_| fields.peek().text.trim_end())?;
            latest.insert(address, size, name);
            Ok(())
        });
        (Self { name: file.to_string(), symbols: latest.symbols(), ..Self::default() }, notes.finish())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_bad_lines() {
        let text = b"7f00000000 40 LazyCompile:~add file.js:1\n0x7f00000040 0x10 stub\n7f00000040 8 newer\r\n\n\
            12 x bad\n12 3\nzz 1 f\n";
        let (code, notes) = Code::from_perf_map("perf-1.map", text);
        let found: Vec<_> = code.symbols.iter().map(|symbol| (symbol.address, symbol.size, symbol.name)).collect();
        assert_eq!(found, [(0x7f_0000_0000, 0x40, "LazyCompile:~add file.js:1"), (0x7f_0000_0040, 8, "newer")]);
        let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
        let expected = [
            "perf-1.map:5: column 4: `x` is not a hexadecimal size",
            "perf-1.map:6: column 5: the line ends before the name",
            "perf-1.map:7: column 1: `zz` is not a hexadecimal address",
        ];
        assert_eq!(notes, expected);
        assert_eq!(code.to_string(), "perf-1.map: names, 2 symbols, no memory");
    }

    proptest! {
        #[test]
        fn any_text(text in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b' '), Just(b'f'), any::<u8>()], 0..300)) {
            let (code, _) = Code::from_perf_map("m", &text);
            for symbol in code.symbols.iter() {
                prop_assert_eq!(code.symbols.find(symbol.address), Some((symbol.name, 0)));
            }
        }
    }
}
