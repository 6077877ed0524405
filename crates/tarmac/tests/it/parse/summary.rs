//! Lines as short text, so that a row of a table covers everything that was parsed.

use std::fmt::Write;

use unspool_tarmac::record::{
    Access, Byte, Direction, Instruction, Line, Order, Physical, Picture, Purpose, Record, Register, Stamp,
};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All of a line. Absent fields are left out.
pub(crate) fn summary(line: &Line<'_>) -> String {
    let mut summary = String::new();
    match line.stamp {
        Stamp::Absent => {}
        Stamp::Dashes => summary.push_str("no time; "),
        Stamp::At(time) => {
            let unit = if time.unit.name().is_empty() { "units" } else { time.unit.name() };
            write!(summary, "{} {unit}", time.value).unwrap();
            if time.decimals > 0 {
                write!(summary, " /10^{}", time.decimals).unwrap();
            }
            summary.push_str("; ");
        }
    }
    if let Some(core) = line.core {
        write!(summary, "core {}; ", text(core)).unwrap();
    }
    summary + &record(&line.record)
}

fn record(record: &Record<'_>) -> String {
    match record {
        Record::Blank => "blank".into(),
        Record::Comment(comment) => format!("comment {}", text(comment)),
        Record::Header(header) => format!("header {} flags={}", header.revision, text(header.flags)),
        Record::Instruction(one) => instruction(one),
        Record::Asynchronous(name) => format!("asynchronous {}", text(name)),
        Record::Exception(one) => {
            let step = if one.is_step { "step " } else { "" };
            format!("{step}exception {:?} {}", one.vector, text(one.name))
        }
        Record::Event(one) => {
            let exception = if one.is_exception { " exception" } else { "" };
            let (value, number) = (hex(one.value), hex(one.number.map(u64::from)));
            format!("event value={value} mode={} number={number} {}{exception}", text(one.mode), text(one.name))
        }
        Record::Register(one) => register(one),
        Record::Operation(one) => format!("operation {} {} {}", text(one.kind), text(one.name), text(one.value.0)),
        Record::Access(one) => access(one),
        Record::Transfer(one) => format!("transfer {}", access(one)),
        Record::Bus(one) => format!("bus {}", access(one)),
        Record::Picture(one) => picture(one),
        Record::Branch(one) => format!("branch {:x}/{} {:?}", one.target, one.digits, one.set),
        Record::Flow(one) => {
            let kind = char::from(one.kind);
            format!("flow {kind} {:?} {:x} to {:x} {:?}", one.number, one.address, one.target, one.set)
        }
        Record::Opaque(one) => format!("opaque {}: {}", text(one.tag), text(one.text)),
        Record::Unknown(problem) => format!("column {}: {:?}", problem.column, problem.kind),
        other => format!("{other:?}"),
    }
}

/// A text between others, or nothing if it is empty.
fn optional(before: &str, bytes: &[u8], after: &str) -> String {
    if bytes.is_empty() { String::new() } else { format!("{before}{}{after}", text(bytes)) }
}

fn hex(number: Option<u64>) -> String {
    number.map_or("-".into(), |number| format!("{number:x}"))
}

fn physical(physical: Option<Physical<'_>>) -> String {
    physical.map_or(String::new(), |one| {
        let page = one.page.map_or(String::new(), |page| format!("/{page}"));
        format!(" pa={}:{:x}{page}", text(one.space), one.address)
    })
}

fn instruction(one: &Instruction<'_>) -> String {
    let tag = format!("{:?}", one.tag).to_uppercase();
    let set = one.set.map_or("?".into(), |set| format!("{set:?}"));
    let (number, skipped) = (one.number.map_or(String::new(), |number| format!(" #{number}")), !one.is_executed);
    format!(
        "{tag}{number} {}/{}{}{} {}/{} {set} mode={}{} [{}]",
        hex(one.address),
        one.digits,
        physical(one.physical),
        physical(one.second_physical),
        hex(one.opcode.map(u64::from)),
        one.length,
        text(one.mode),
        if skipped { " skipped" } else { "" },
        text(one.text)
    )
}

fn register(one: &Register<'_>) -> String {
    let bits = one.bits.map_or(String::new(), |(high, low)| format!("<{high}:{low}>"));
    let (context, notes) = (optional("(", one.context, ")"), optional(" notes=", one.notes, ""));
    format!("register {}{context}{bits} = {}{notes}", text(one.name), text(one.value.0))
}

fn access(one: &Access<'_>) -> String {
    let mut summary = match one.direction {
        Direction::Read => format!("read {} at {}/{}", one.size, hex(one.address), one.digits),
        Direction::Write => format!("write {} at {}/{}", one.size, hex(one.address), one.digits),
    };
    summary += &physical(one.physical);
    if let Some((address, serial)) = one.owner {
        write!(summary, " by {address:x}:{serial:x}").unwrap();
    }
    write!(summary, " = {}", one.data.map_or("-".into(), |data| text(data.0))).unwrap();
    for (applies, word) in [
        (one.purpose == Purpose::Fetch, " fetch"),
        (one.purpose == Purpose::Peripheral, " peripheral"),
        (one.order == Order::Memory, " memory-order"),
        (one.order == Order::Lanes, " lanes"),
        (one.is_aborted, " aborted"),
        (one.is_exclusive, " exclusive"),
        (one.is_unprivileged, " unprivileged"),
        (one.is_locked, " locked"),
    ] {
        summary += if applies { word } else { "" };
    }
    summary + &optional(" notes=", one.notes, "")
}

fn picture(one: &Picture<'_>) -> String {
    let bytes: String = one
        .bytes
        .iter()
        .map(|byte| match byte {
            Byte::Untouched => "..".into(),
            Byte::Unknown => "??".into(),
            Byte::Known(byte) => format!("{byte:02x}"),
        })
        .collect();
    let more = if one.is_continuation { " continued" } else { "" };
    let attributes = optional(" ", one.attributes, "");
    format!("{:?}{more} {:x}/{} {bytes}{}{attributes}", one.kind, one.address, one.digits, physical(one.physical))
}
