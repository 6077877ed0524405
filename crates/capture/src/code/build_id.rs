//! Build IDs: text and bytes, and when two of them are the same.

/// The bytes of a build ID or UUID; `None` if it is empty or not hexadecimal.
pub(super) fn parse_build_id(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.chunks(2).map(|pair| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    pairs.collect::<Option<Vec<u8>>>().filter(|id| !id.is_empty())
}

/// Whether two build IDs are the same. perf fills short ones with zeros to 20 bytes.
pub(super) fn is_same_id(one: &[u8], two: &[u8]) -> bool {
    let (short, long) = if one.len() < two.len() { (one, two) } else { (two, one) };
    !short.is_empty() && long.strip_prefix(short).is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
}

/// The digits of a build ID.
pub(super) fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_ids() {
        let rows: [(&str, Option<&[u8]>); 6] = [
            ("abCD", Some(&[0xab, 0xcd])),
            ("01020304-0506", Some(&[1, 2, 3, 4, 5, 6])),
            ("", None),
            ("abc", None),
            ("xy", None),
            ("--", None),
        ];
        rows.iter().for_each(|(text, id)| assert_eq!(parse_build_id(text).as_deref(), *id, "{text}"));
        assert!(is_same_id(&[1, 2], &[1, 2, 0, 0]) && is_same_id(&[1, 2, 0], &[1, 2]));
        assert!(!is_same_id(&[1, 2], &[1, 2, 3]) && !is_same_id(&[1], &[2]) && !is_same_id(&[], &[0]));
    }
}
