//! Names of addresses, as they are printed.

/// Symbol with the offset from its start: `square+0x4`.
pub(crate) fn symbol_text((name, offset): (&str, u64)) -> String {
    if offset == 0 { name.to_string() } else { format!("{name}+{offset:#x}") }
}

/// Text without control characters: names come from files, and a terminal would interpret them.
pub(crate) fn printable(name: &str) -> String {
    name.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}
