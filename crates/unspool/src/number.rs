//! Numbers in messages.

/// Count with its noun: `1 step`, `2,000 steps`.
pub fn many(count: u64, name: &str) -> String {
    let plural = match name {
        "trace on" => "times trace on".to_string(),
        name if name.ends_with('s') || name.ends_with("ch") => format!("{name}es"),
        name => format!("{name}s"),
    };
    let one = if name == "trace on" { "time trace on" } else { name };
    format!("{} {}", grouped(count), if count == 1 { one } else { &plural })
}

/// Number with thousands separators: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
