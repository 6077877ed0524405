//! Colors of text output.
//!
//! Takes the parts of a line, or a whole line of a record listing; produces escape sequences around the parts. Without
//! color every sequence is empty, so that plain output costs nothing. Whether there is color is decided by `output`.

/// Escape sequences that start a part of a line; all empty without color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Palette {
    /// Line that names a source or a difference.
    pub(crate) heading: &'static str,
    pub(crate) address: &'static str,
    /// Opcodes, line numbers and other details.
    pub(crate) detail: &'static str,
    /// Mnemonic of an instruction, type of a record.
    pub(crate) mnemonic: &'static str,
    pub(crate) symbol: &'static str,
    /// Items between instructions: exceptions, contexts, gaps.
    pub(crate) mark: &'static str,
    /// Findings and errors.
    pub(crate) problem: &'static str,
    /// What only the first of two traces contains.
    pub(crate) removed: &'static str,
    /// What only the second of two traces contains; also a good result.
    pub(crate) added: &'static str,
    /// Ends a part.
    pub(crate) reset: &'static str,
}

impl Palette {
    pub(crate) const PLAIN: Self = Self {
        heading: "",
        address: "",
        detail: "",
        mnemonic: "",
        symbol: "",
        mark: "",
        problem: "",
        removed: "",
        added: "",
        reset: "",
    };

    pub(crate) const COLORED: Self = Self {
        heading: "\x1b[1m",
        address: "\x1b[33m",
        detail: "\x1b[2m",
        mnemonic: "\x1b[36m",
        symbol: "\x1b[32m",
        mark: "\x1b[35m",
        problem: "\x1b[1;31m",
        removed: "\x1b[31m",
        added: "\x1b[32m",
        reset: "\x1b[0m",
    };

    pub(crate) fn is_colored(&self) -> bool {
        *self == Self::COLORED
    }

    /// A text in a color.
    pub(crate) fn paint(&self, color: &str, text: &str) -> String {
        let mut painted = String::with_capacity(text.len() + 16);
        self.push(&mut painted, color, text);
        painted
    }

    /// Adds a text in a color.
    pub(crate) fn push(&self, line: &mut String, color: &str, text: &str) {
        line.push_str(color);
        line.push_str(text);
        line.push_str(self.reset);
    }

    /// Adds the disassembly of an instruction, with its mnemonic in color.
    pub(crate) fn push_disassembly(&self, line: &mut String, text: &str) {
        let (mnemonic, operands) = text.split_at(text.find(' ').unwrap_or(text.len()));
        self.push(line, self.mnemonic, mnemonic);
        line.push_str(operands);
    }

    /// The lines of a record listing in color: first the number of the record, then hexadecimal numbers and the first
    /// word, which is the type of the record or the mnemonic.
    pub(crate) fn paint_records(&self, lines: &str) -> String {
        let mut painted = String::with_capacity(lines.len() * 2);
        lines.split_inclusive('\n').for_each(|line| self.push_record(&mut painted, line));
        painted
    }

    fn push_record(&self, painted: &mut String, line: &str) {
        let is_part = |character: char| character.is_alphanumeric() || matches!(character, '_' | '.');
        let (mut rest, mut has_number, mut has_address, mut has_word) = (line, false, false, false);
        while let Some(start) = rest.find(is_part) {
            let (between, from) = rest.split_at(start);
            let (word, after) = from.split_at(from.find(|character| !is_part(character)).unwrap_or(from.len()));
            painted.push_str(between);
            let is_opcode = has_address && word.len() % 4 == 0 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
            has_address = false;
            match word {
                _ if !has_number => self.push(painted, self.detail, word),
                word if word.starts_with("0x") => {
                    has_address = !has_word;
                    self.push(painted, self.address, word);
                }
                _ if is_opcode => self.push(painted, self.detail, word),
                word if !has_word && word.starts_with(char::is_alphabetic) => {
                    has_word = true;
                    self.push(painted, self.mnemonic, word);
                }
                word => painted.push_str(word),
            }
            has_number = true;
            rest = after;
        }
        painted.push_str(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same text with the escape sequences as letters: A(ddress), D(etail), M(nemonic), and `;` at their ends.
    fn letters(painted: &str) -> String {
        let colors = Palette::COLORED;
        [(colors.address, "A:"), (colors.detail, "D:"), (colors.mnemonic, "M:"), (colors.reset, ";")]
            .iter()
            .fold(painted.to_string(), |text, (sequence, letter)| text.replace(sequence, letter))
    }

    #[test]
    fn records_have_their_parts_in_color() {
        let rows = [
            ("3 timestamp : Value: 100\n", "D:3; M:timestamp; : Value: 100\n"),
            // The opcode after an address is no mnemonic, and a mnemonic of hexadecimal digits is one.
            ("1 0x1000 00b60733 fadd a4, 0x12\n", "D:1; A:0x1000; D:00b60733; M:fadd; a4, A:0x12;\n"),
            ("0 0x00000004 version 1.6", "D:0; A:0x00000004; M:version; 1.6"),
            ("       1  0 clk  register X0 = 00", "       D:1;  0 M:clk;  register X0 = 00"),
            ("\n", "\n"),
            ("  \u{e9}t\u{e9} \u{1f600}", "  D:\u{e9}t\u{e9}; \u{1f600}"),
        ];
        for (line, expected) in rows {
            assert_eq!(letters(&Palette::COLORED.paint_records(line)), expected);
            assert_eq!(Palette::PLAIN.paint_records(line), line);
        }
    }

    #[test]
    fn a_mnemonic_may_have_no_operands() {
        for (text, expected) in [("ret", "M:ret;"), ("mov x0, #1", "M:mov; x0, #1"), ("", "M:;")] {
            let mut line = String::new();
            Palette::COLORED.push_disassembly(&mut line, text);
            assert_eq!(letters(&line), expected);
        }
    }
}
