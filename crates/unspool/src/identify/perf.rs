//! perf.data files: their events, and where the CoreSight trace in them is.
//!
//! Takes a file; produces its name, and the command that extracts the largest trace buffer. Walks a limited number of
//! records by their headers, and skips what they contain.

use std::io::{self, Read, Seek, SeekFrom};

use super::Identity;

/// Records that are visited.
const RECORDS: usize = 1 << 16;

/// Bytes of a feature section, and events that are named.
const FEATURE: u64 = 64 << 10;
const EVENTS: usize = 8;

/// Bytes of the record that describes the trace units: hundreds of them.
const INFO: u64 = 64 << 10;

/// Whether a file starts like this.
pub(super) fn is_perf(start: &[u8]) -> bool {
    start.starts_with(b"PERFILE2") || start.starts_with(b"2ELIFREP") || start.starts_with(b"PERFFILE")
}

/// Identifies a perf.data file, or the beginning of one. What cannot be read is left out.
pub(super) fn identify(file: &mut (impl Read + Seek), name: &str, is_whole: bool) -> Identity {
    let mut found = scan(file).unwrap_or_default();
    found.is_partial |= !is_whole;
    let mut what = "a perf.data file".to_string();
    match &found.events[..] {
        [] => {}
        [event] => what += &format!(" with the event {event}"),
        events => what += &format!(" with the events {}", events.join(", ")),
    }
    Identity::other(what + &found.trace()).then(found.next(name))
}

/// What the file contains, as far as it could be read.
#[derive(Default)]
struct Found {
    events: Vec<String>,
    info: Option<Info>,
    /// Number and total size of trace buffers.
    buffers: u64,
    bytes: u64,
    largest: Option<Buffer>,
    /// AUX records, which exist even if their buffers do not.
    is_announced: bool,
    /// There are records that were not visited.
    is_partial: bool,
}

/// Trace of one CPU: position of its bytes.
#[derive(Clone, Copy)]
struct Buffer {
    offset: u64,
    size: u64,
    cpu: u32,
}

/// Description of the trace units.
struct Info {
    /// 3: CoreSight.
    kind: u32,
    units: Vec<Unit>,
}

struct Unit {
    cpu: u64,
    protocol: &'static str,
    /// TRCCONFIGR, TRCTRACEIDR, TRCIDR0, TRCIDR1, TRCIDR2, TRCIDR8 and more.
    registers: Vec<u64>,
}

impl Found {
    fn trace(&self) -> String {
        let Some(info) = &self.info else { return String::new() };
        let kind = match (info.kind, info.units.first()) {
            (1, _) => "Intel PT trace".to_string(),
            (2, _) => "Intel BTS trace".to_string(),
            (3, Some(unit)) => format!("CoreSight trace of {} {} units", info.units.len(), unit.protocol),
            (3, None) => "CoreSight trace".to_string(),
            (4, _) => "Arm SPE samples".to_string(),
            (kind, _) => format!("trace of type {kind}"),
        };
        let at_least = if self.is_partial { "at least " } else { "" };
        match self.buffers {
            0 if self.is_partial => format!(" and {kind}"),
            0 => format!(" and the description of {kind}, but no trace bytes"),
            buffers => format!(" and {kind}: {at_least}{} bytes in {buffers} buffers", self.bytes),
        }
    }

    fn next(&self, name: &str) -> String {
        let Some(info) = self.info.as_ref().filter(|info| info.kind == 3) else {
            return "unspool reads CoreSight trace, which 'perf record -e cs_etm//u' records on Arm".to_string();
        };
        let Some(buffer) = self.largest else {
            if self.is_partial {
                return "no trace buffer is in its first part".to_string();
            }
            let why = if self.is_announced { "its buffers were lost" } else { "nothing was traced" };
            return format!("{why}: record again, with larger buffers (perf record -m ,16M)");
        };
        let of_cpu = info.units.iter().find(|unit| unit.cpu == u64::from(buffer.cpu)).or(info.units.first());
        let Some(unit) = of_cpu else { return "its description of the trace units cannot be read".to_string() };
        let protocol = match unit.protocol {
            "ETE" => "ete",
            "ETMv4" => "etm4",
            older => return format!("unspool does not read {older} trace yet"),
        };
        let names = ["TRCCONFIGR", "", "TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8"];
        let registers = names.iter().zip(&unit.registers).filter(|(name, _)| !name.is_empty());
        let registers: String = registers.map(|(name, value)| format!(" --register {name}={value:#x}")).collect();
        let (first, size) = (buffer.offset.saturating_add(1), buffer.size);
        format!(
            "extract a buffer and name its trace unit: 'tail -c +{first} {name} | head -c {size} | \
             unspool decode - --protocol {protocol}{registers} --image PROGRAM'"
        )
    }
}

/// Numbers of a file in its byte order.
struct Numbers<'f, R> {
    file: &'f mut R,
    is_big_endian: bool,
}

impl<R: Read + Seek> Numbers<'_, R> {
    fn bytes_at(&mut self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn u16(&self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes: [u8; 2] = bytes.get(at..)?.first_chunk().copied()?;
        Some(if self.is_big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    fn u32(&self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes: [u8; 4] = bytes.get(at..)?.first_chunk().copied()?;
        Some(if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn u64(&self, bytes: &[u8], at: usize) -> Option<u64> {
        let bytes: [u8; 8] = bytes.get(at..)?.first_chunk().copied()?;
        Some(if self.is_big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }
}

/// Reads what a file contains; `None`: it is cut short or of an old version.
fn scan(file: &mut (impl Read + Seek)) -> Option<Found> {
    const HEADER: u64 = 104;
    let mut numbers = Numbers { file, is_big_endian: false };
    let header = numbers.bytes_at(0, HEADER).ok()?;
    numbers.is_big_endian = header.starts_with(b"2ELIFREP");
    let mut found = Found::default();
    // A file written to a pipe has records only.
    let is_pipe = numbers.u64(&header, 8)? == 16;
    let (start, end) = match is_pipe {
        true => (16, u64::MAX),
        false => {
            let start = numbers.u64(&header, 40)?;
            (start, start.saturating_add(numbers.u64(&header, 48)?))
        }
    };
    if !is_pipe {
        found.events = events(&mut numbers, &header, end);
    }
    walk(&mut numbers, start, end, &mut found);
    Some(found)
}

/// Names of the events, from the features after the data.
fn events<R: Read + Seek>(numbers: &mut Numbers<'_, R>, header: &[u8], end: u64) -> Vec<String> {
    /// Descriptions of events, as perf writes them.
    const EVENT_DESC: usize = 12;
    /// Keys and values, as simpleperf writes them.
    const META_INFO: usize = 129;
    let bitmap = header.get(72..104).unwrap_or_default();
    let present = (0..256).filter(|bit| bitmap.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1));
    let mut names = Vec::new();
    for (index, bit) in (0_u64..).zip(present).filter(|(_, bit)| [EVENT_DESC, META_INFO].contains(bit)) {
        let Ok(entry) = numbers.bytes_at(end.saturating_add(16 * index), 16) else { continue };
        let (Some(offset), Some(size)) = (numbers.u64(&entry, 0), numbers.u64(&entry, 8)) else { continue };
        let Ok(section) = numbers.bytes_at(offset, size.min(FEATURE)) else { continue };
        match bit {
            EVENT_DESC => described_events(numbers, &section, &mut names),
            _ => listed_events(&section, &mut names),
        }
    }
    names.truncate(EVENTS);
    names
}

/// Count, size of attributes; per event: attributes, number of ids, name, ids.
fn described_events<R: Read + Seek>(numbers: &Numbers<'_, R>, section: &[u8], names: &mut Vec<String>) {
    let (Some(count), Some(attributes)) = (numbers.u32(section, 0), numbers.u32(section, 4)) else { return };
    let mut at = 8_usize;
    for _ in 0..count.min(EVENTS as u32) {
        at = at.saturating_add(attributes as usize);
        let (Some(ids), Some(length)) = (numbers.u32(section, at), numbers.u32(section, at.saturating_add(4))) else {
            return;
        };
        let start = at.saturating_add(8);
        let end = start.saturating_add(length as usize);
        let Some(name) = section.get(start..end) else { return };
        names.push(text(name));
        at = end.saturating_add(8 * ids as usize);
    }
}

/// Keys and values, each with a zero after it; `event_type_info` has lines of name, type and configuration.
fn listed_events(section: &[u8], names: &mut Vec<String>) {
    let mut words = section.split(|byte| *byte == 0);
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        if key == b"event_type_info" {
            let lines = value.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b',').next());
            names.extend(lines.filter(|name| !name.is_empty()).take(EVENTS).map(text));
        }
    }
}

/// Printable part of a name up to its zero.
fn text(bytes: &[u8]) -> String {
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    name.iter().take(64).filter(|byte| byte.is_ascii_graphic()).map(|byte| char::from(*byte)).collect()
}

/// Visits the records, and finds those of trace buffers.
fn walk<R: Read + Seek>(numbers: &mut Numbers<'_, R>, mut at: u64, end: u64, found: &mut Found) {
    for _ in 0..RECORDS {
        let Ok(head) = numbers.bytes_at(at, 48) else { return };
        if at >= end || head.is_empty() && end == u64::MAX {
            return;
        }
        let (Some(kind), Some(size @ 8..)) = (numbers.u32(&head, 0), numbers.u16(&head, 6)) else { break };
        let mut next = at.saturating_add(size.into());
        match kind {
            11 => found.is_announced = true,
            66 => next = next.saturating_add(numbers.u32(&head, 8).unwrap_or(0).into()),
            70 => {
                let record = numbers.bytes_at(at, INFO.min(size.into())).unwrap_or_default();
                found.info = info(numbers, &record);
            }
            71 => {
                let Some(payload) = numbers.u64(&head, 8) else { break };
                let buffer = Buffer { offset: next, size: payload, cpu: numbers.u32(&head, 40).unwrap_or(u32::MAX) };
                found.buffers += 1;
                found.bytes = found.bytes.saturating_add(payload);
                found.largest = found.largest.filter(|known| known.size >= payload).or(Some(buffer));
                next = next.saturating_add(payload);
            }
            _ => {}
        }
        at = next;
    }
    found.is_partial = true;
}

/// Type of the trace, and its trace units if it is CoreSight.
fn info<R: Read + Seek>(numbers: &Numbers<'_, R>, record: &[u8]) -> Option<Info> {
    let kind = numbers.u32(record, 8)?;
    let word = |index: usize| numbers.u64(record, 16 + 8 * index);
    let mut info = Info { kind, units: Vec::new() };
    if kind != 3 {
        return Some(info);
    }
    let (version, count) = (word(0)?, word(1)? & 0xffff_ffff);
    let mut at = 3;
    for _ in 0..count {
        let (Some(magic), Some(cpu)) = (word(at), word(at + 1)) else { break };
        let is_older = magic == 0x3030_3030_3030_3030;
        let (start, length) = match version {
            0 => (at + 2, if is_older { 4 } else { 7 }),
            _ => (at + 3, word(at + 2).unwrap_or(0).min(64) as usize),
        };
        let registers: Vec<u64> = (start..start + length).map_while(word).collect();
        // Some writers mark ETMv4 as ETE. The architecture is in TRCDEVARCH.
        let is_etm4 = registers.get(7).is_some_and(|architecture| architecture >> 12 & 0xf == 4);
        let protocol = match magic {
            _ if is_older => "ETMv3 or PTM",
            0x5050_5050_5050_5050 if !is_etm4 => "ETE",
            _ => "ETMv4",
        };
        info.units.push(Unit { cpu, protocol, registers });
        at = start + length;
    }
    Some(info)
}
