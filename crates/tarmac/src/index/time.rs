//! Order of times. Units of time are comparable with each other, different kinds of cycles are not.

use std::cmp::Ordering;

use super::bytes::{Cursor, Malformed, put};
use crate::record::{Time, Unit};

/// Order of two times; `None`: they are not comparable.
pub fn compare(a: Time, b: Time) -> Option<Ordering> {
    if a.unit == b.unit && a.decimals == b.decimals {
        return Some(a.value.cmp(&b.value));
    }
    let is_comparable = match (a.unit.power(), b.unit.power()) {
        (Some(_), Some(_)) => true,
        // A number without a unit is in the unit of the log.
        (None, None) => a.unit == b.unit || a.unit == Unit::None || b.unit == Unit::None,
        _ => false,
    };
    is_comparable.then(|| scaled(a).cmp(&scaled(b)))
}

/// A time in femtoseconds, or in millionths of a cycle.
fn scaled(time: Time) -> u128 {
    let femtoseconds = |power: i8| u32::from(power.unsigned_abs().abs_diff(15));
    let (up, down) = (time.unit.power().map_or(6, femtoseconds), u32::from(time.decimals).min(38));
    let value = u128::from(time.value);
    match up.checked_sub(down) {
        Some(up) => value * 10_u128.pow(up),
        None => value / 10_u128.pow(down - up),
    }
}

pub(super) fn encode_time(out: &mut Vec<u8>, time: Option<Time>) {
    let Some(time) = time else { return out.push(0xff) };
    // The number of a unit in the file is its index.
    out.push(time.unit as u8);
    out.push(time.decimals);
    put(out, time.value);
}

pub(super) fn decode_time(cursor: &mut Cursor<'_>) -> Result<Option<Time>, Malformed> {
    let unit = cursor.byte()?;
    if unit == 0xff {
        return Ok(None);
    }
    let unit = *Unit::ALL.get(usize::from(unit)).ok_or(Malformed)?;
    Ok(Some(Time { decimals: cursor.byte()?, value: cursor.number()?, unit }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order() {
        let time = |value, decimals, unit| Time { value, decimals, unit };
        let rows = [
            (time(1, 0, Unit::Us), time(999, 0, Unit::Ns), Some(Ordering::Greater)),
            (time(10_356_000, 6, Unit::Us), time(10_356, 0, Unit::Ns), Some(Ordering::Equal)),
            (time(1, 0, Unit::S), time(u64::MAX, 0, Unit::Fs), Some(Ordering::Less)),
            (time(5, 0, Unit::Clk), time(6, 0, Unit::None), Some(Ordering::Less)),
            (time(5, 0, Unit::Clk), time(5, 0, Unit::Cyc), None),
            (time(5, 0, Unit::Clk), time(5, 0, Unit::Ns), None),
            (time(u64::MAX, 0, Unit::S), time(u64::MAX, 255, Unit::S), Some(Ordering::Greater)),
        ];
        for (a, b, expected) in rows {
            assert_eq!(compare(a, b), expected, "{a:?} {b:?}");
            let mut out = Vec::new();
            encode_time(&mut out, Some(a));
            assert_eq!(decode_time(&mut Cursor(&out)), Ok(Some(a)));
        }
    }
}
