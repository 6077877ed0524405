//! LLVM's disassembler as a child process: opcodes in, one text for each out.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use unspool_isa::Isa;
use unspool_testing::skip;

/// Output of LLVM for an opcode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Text {
    /// No instruction.
    Invalid,
    /// An instruction whose effect the architecture leaves open.
    Unpredictable(String),
    /// An instruction.
    Valid(String),
}

/// A disassembler for one instruction set and its extensions.
pub(crate) struct Machine {
    program: String,
    options: Vec<String>,
}

impl Machine {
    /// Finds the newest `llvm-mc`.
    pub(crate) fn find(options: &[&str]) -> Option<Self> {
        let named = std::env::var("UNSPOOL_LLVM_MC").ok();
        let numbered = (14..=30).rev().map(|version| format!("llvm-mc-{version}"));
        let program = named.into_iter().chain(numbered).chain(["llvm-mc".to_owned()]).find(|name| runs(name));
        if program.is_none() {
            skip("llvm-mc is not installed (Debian: llvm-22)");
        }
        let options = options.iter().map(|&option| option.to_owned()).collect();
        program.map(|program| Self { program, options })
    }

    /// Whether it is new enough for this opcode.
    pub(crate) fn knows(&self, isa: Isa, opcode: u32) -> bool {
        self.is_known(opcode, &format!("{isa:?}"), &self.disassemble(isa, &[opcode]))
    }

    /// The same for an opcode of RISC-V.
    pub(crate) fn knows_riscv(&self, opcode: u32) -> bool {
        self.is_known(opcode, "RISC-V", &self.disassemble_riscv(&[opcode]))
    }

    fn is_known(&self, opcode: u32, isa: &str, texts: &[Text]) -> bool {
        let is_known = texts != [Text::Invalid];
        if !is_known {
            skip(format_args!("{} is too old, it does not know {isa} {opcode:08x} (Debian: llvm-22)", self.program));
        }
        is_known
    }

    /// The text of every opcode.
    pub(crate) fn disassemble(&self, isa: Isa, opcodes: &[u32]) -> Vec<Text> {
        let (input, lines) = spell(isa, opcodes);
        self.texts(input, lines)
    }

    /// The text of every opcode of RISC-V.
    pub(crate) fn disassemble_riscv(&self, opcodes: &[u32]) -> Vec<Text> {
        let spelled = opcodes.iter().map(|opcode| {
            let length = usize::from(Isa::Rv64.length(*opcode as u16));
            in_brackets(&opcode.to_le_bytes()[..length])
        });
        self.texts(spelled.collect(), vec![false; opcodes.len()])
    }

    /// The text of every line that is no padding.
    fn texts(&self, input: String, lines: Vec<bool>) -> Vec<Text> {
        let (texts, warnings) = self.run(input);
        let warnings = by_line(&warnings);
        let mut texts = texts.lines().filter(|line| !line.trim().is_empty() && !line.trim().starts_with('.'));
        let mut found = Vec::with_capacity(lines.len());
        for (number, is_padding) in lines.into_iter().enumerate() {
            let warning = warnings.get(&(number + 1)).copied();
            let mut next = || texts.next().expect("a text for every opcode that is not refused").trim().to_owned();
            let text = match warning {
                Some("invalid instruction encoding") => Text::Invalid,
                Some(_) => Text::Unpredictable(next()),
                None => Text::Valid(next()),
            };
            if !is_padding {
                found.push(text);
            }
        }
        assert_eq!(texts.next(), None, "more texts than opcodes");
        found
    }

    /// Runs it with a thread per pipe, so that no full pipe can stop it.
    fn run(&self, input: String) -> (String, String) {
        let mut child = Command::new(&self.program)
            .arg("--disassemble")
            .args(&self.options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it ran a moment ago");
        let mut stdin = child.stdin.take().expect("piped");
        let mut stderr = child.stderr.take().expect("piped");
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let warner = std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).map(|_| text)
        });
        let output = child.wait_with_output().expect("it ends");
        writer.join().expect("no panic").expect("it reads all");
        let warnings = warner.join().expect("no panic").expect("plain text");
        (String::from_utf8(output.stdout).expect("plain text"), warnings)
    }
}

fn runs(program: &str) -> bool {
    let silent = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    silent.is_ok_and(|status| status.success())
}

/// One line per opcode, in brackets so that a refused one does not affect its neighbors. The second value is whether each
/// line is padding: an IT instruction would put its condition into the text of what follows.
fn spell(isa: Isa, opcodes: &[u32]) -> (String, Vec<bool>) {
    let mut input = String::new();
    let mut lines = Vec::new();
    for &opcode in opcodes {
        input.push_str(&bytes(isa, opcode));
        lines.push(false);
        if isa == Isa::T32 && opcode >> 8 == 0xbf {
            input.push_str(&bytes(isa, 0xbf00).repeat(4));
            lines.extend([true; 4]);
        }
    }
    (input, lines)
}

fn bytes(isa: Isa, opcode: u32) -> String {
    let [first, second] = [opcode >> 16, opcode & 0xffff].map(|half| (half as u16).to_le_bytes());
    let halves = match isa {
        Isa::T32 if Isa::T32.length((opcode >> 16) as u16) == 4 => vec![first, second],
        Isa::T32 => vec![second],
        _ => vec![second, first],
    };
    in_brackets(halves.as_flattened())
}

fn in_brackets(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:#04x}")).collect();
    format!("[{}]\n", bytes.join(" "))
}

/// The warnings, by the line of input that they are about.
fn by_line(warnings: &str) -> HashMap<usize, &str> {
    let parts = warnings.lines().filter_map(|line| line.strip_prefix("<stdin>:")?.split_once(": warning: "));
    parts.filter_map(|(position, text)| Some((position.split(':').next()?.parse().ok()?, text))).collect()
}
