//! Text of the TileLink data of a transaction.
//!
//! A and B: code, parameter, size, source, data, address and mask; C: the same without the mask; D: code, parameter,
//! size, source, data and sink; E: sink.

use std::fmt::Write as _;

use unspool_model::digits::push_hex;

/// Appends `A code 4 param 0 size 3 source 0x1 data 0102 address 0x80001000 mask 11`.
///
/// The reader has validated the data, so it is complete; otherwise it would be shown as bytes.
pub(super) fn write(data: &[u8], out: &mut String) {
    let start = out.len();
    if fields(data, out).is_none() {
        out.truncate(start);
        out.push_str("data ");
        push_hex(out, data);
    }
}

fn fields(data: &[u8], out: &mut String) -> Option<()> {
    let mut rest = data;
    let channel = rest.split_off(..1)?[0];
    let _ = write!(out, "channel {}", ["A", "B", "C", "D", "E"].get(usize::from(channel).checked_sub(1)?)?);
    if channel == 5 {
        return number(&mut rest, " sink", out);
    }
    let [code, param, size] = take(&mut rest)?;
    let _ = write!(out, " code {code} param {param} size {size}");
    number(&mut rest, " source", out)?;
    let count = u16::from_le_bytes(take(&mut rest)?);
    out.push_str(" data ");
    match rest.split_off(..usize::from(count))? {
        [] => out.push('-'),
        bytes => push_hex(out, bytes),
    }
    number(&mut rest, if channel == 4 { " sink" } else { " address" }, out)?;
    if channel > 2 {
        return Some(());
    }
    let bits = usize::from(u16::from_le_bytes(take(&mut rest)?));
    let mask = rest.split_off(..bits.div_ceil(8))?;
    out.push_str(" mask ");
    if bits == 0 {
        out.push('-');
    }
    // Bit 0 first.
    (0..bits).for_each(|bit| out.push(if mask[bit / 8] >> (bit % 8) & 1 == 1 { '1' } else { '0' }));
    Some(())
}

/// Takes the next bytes.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*taken)
}

fn number(rest: &mut &[u8], name: &str, out: &mut String) -> Option<()> {
    let value = u64::from_le_bytes(take(rest)?);
    write!(out, "{name} {value:#x}").ok()
}
