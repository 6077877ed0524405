//! Folded stacks, one per line, as flame graph tools read them.
//!
//! The format separates functions by ';' and the weight by ' ', so these characters of names become '_'.

use std::io::{self, Write};

/// Adds the functions of a stack to a line, the outermost first.
pub fn push_stack<N: AsRef<str>>(line: &mut String, stack: &[N]) {
    for (index, name) in stack.iter().enumerate() {
        if index > 0 {
            line.push(';');
        }
        let separates = |character: char| matches!(character, ';' | ' ') || character.is_control();
        line.extend(name.as_ref().chars().map(|character| if separates(character) { '_' } else { character }));
    }
}

/// Writes a stack with its weight.
pub fn write_stack<N: AsRef<str>>(out: &mut dyn Write, stack: &[N], weight: u64) -> io::Result<()> {
    let mut line = String::new();
    push_stack(&mut line, stack);
    writeln!(out, "{line} {weight}")
}
