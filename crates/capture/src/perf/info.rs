//! The description of the trace units: the AUXTRACE_INFO record.
//!
//! body of the record ─▶ **info** ─▶ [`Unit`]s, one per CPU
//!
//! Versions 0, 1 and 2 of CoreSight's description. Its words are computed by perf, not all read from the hardware. Which
//! trace ID a unit really used is known only with the records of the kernel; see [`Unit::set_hardware_id`].

use unspool_coresight::Protocol;

use super::bytes::ByteOrder;
use crate::registers::{Register, Registers};

/// The type of a description for CoreSight.
const CORESIGHT: u32 = 3;

/// First words of the descriptions of units.
const ETM3: u64 = 0x3030_3030_3030_3030;
const ETM4: u64 = 0x4040_4040_4040_4040;
const ETE: u64 = 0x5050_5050_5050_5050;

/// Registers in the order of the description.
const ETM3_REGISTERS: &[&str] = &["ETMCR", "ETMTRACEIDR", "ETMCCER", "ETMIDR"];
const ETM4_REGISTERS: &[&str] =
    &["TRCCONFIGR", "TRCTRACEIDR", "TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8", "TRCAUTHSTATUS", "TS_SOURCE"];
const ETE_REGISTERS: &[&str] = &[
    "TRCCONFIGR",
    "TRCTRACEIDR",
    "TRCIDR0",
    "TRCIDR1",
    "TRCIDR2",
    "TRCIDR8",
    "TRCAUTHSTATUS",
    "TRCDEVARCH",
    "TS_SOURCE",
];

/// Number of registers of the first version, which has no counts.
const ETM4_FIRST_VERSION: usize = 7;

/// The trace unit of a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// The CPU.
    pub cpu: u32,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its registers, and `TS_SOURCE`: 1 for the virtual counter, 2 and 3 for physical ones, all ones if unknown.
    pub registers: Registers,
    /// Its trace ID.
    pub id: Option<u8>,
    /// Whether the kernel reported the ID, which takes precedence over the registers.
    pub has_hardware_id: bool,
    /// The sink whose IDs these are; `None` if IDs are unique in the system.
    pub sink: Option<u32>,
}

/// The contents of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Info {
    /// The kind of trace: 1 and 2 are Intel's, 3 is CoreSight, 4 is Arm SPE.
    pub(crate) kind: u32,
    /// Number of the PMU, which is the kind of the event's attribute.
    pub(crate) pmu: u32,
    pub(crate) units: Vec<Unit>,
    /// What is wrong with it.
    pub(crate) problems: Vec<String>,
}

impl Info {
    /// Parses the body of the record; `None` if it is too short to have a type.
    pub(crate) fn parse(body: &[u8], order: ByteOrder) -> Option<Self> {
        let mut info = Self { kind: order.u32(body, 0)?, pmu: 0, units: Vec::new(), problems: Vec::new() };
        if info.kind == CORESIGHT {
            let words: Vec<u64> = order.words(body.get(8..).unwrap_or_default()).collect();
            info.read_units(&words);
        }
        Some(info)
    }

    pub(crate) fn is_coresight(&self) -> bool {
        self.kind == CORESIGHT
    }

    fn read_units(&mut self, words: &[u64]) {
        let [version, sizes, _, units @ ..] = words else {
            return self.problems.push("the description of the trace units is cut short".to_string());
        };
        if *version > 2 {
            self.problems.push(format!("version {version} of the description is read like version 2"));
        }
        self.pmu = (sizes >> 32) as u32;
        let count = *sizes as u32;
        let mut left = units;
        for index in 0..count {
            let Some((unit, rest)) = read_unit(left, *version) else {
                let text = format!("{count} trace units are announced, and {index} are described");
                self.problems.push(text);
                break;
            };
            match unit {
                Some(unit) if self.units.iter().any(|known| known.cpu == unit.cpu) => {
                    self.problems.push(format!("CPU {} is described again; the first description is used", unit.cpu));
                }
                Some(unit) => self.units.push(unit),
                None => self.problems.push(format!("trace unit {index} is of an unknown kind")),
            }
            left = rest;
        }
        if !left.is_empty() && self.units.len() == count as usize {
            self.problems.push(format!("{} words follow the description of the trace units", left.len()));
        }
    }
}

/// The first unit, or `None` in it if its kind is unknown, and the words after it.
fn read_unit(words: &[u64], version: u64) -> Option<(Option<Unit>, &[u64])> {
    let (&[magic, cpu], rest) = words.split_first_chunk()?;
    let (length, rest) = match version {
        0 if magic == ETM3 => (ETM3_REGISTERS.len(), rest),
        0 => (ETM4_FIRST_VERSION, rest),
        _ => {
            let (&length, rest) = rest.split_first()?;
            (usize::try_from(length).ok()?, rest)
        }
    };
    let (values, rest) = rest.split_at_checked(length)?;
    Some((u32::try_from(cpu).ok().and_then(|cpu| Unit::new(magic, cpu, values)), rest))
}

impl Unit {
    fn new(magic: u64, cpu: u32, values: &[u64]) -> Option<Self> {
        let names = match magic {
            ETM3 => ETM3_REGISTERS,
            ETM4 => ETM4_REGISTERS,
            ETE => ETE_REGISTERS,
            _ => return None,
        };
        let registers: Registers = names.iter().zip(values).map(|(name, value)| Register::new(*name, *value)).collect();
        let architecture = registers.get("TRCDEVARCH").map(|value| value >> 12 & 0xf);
        let protocol = match magic {
            ETM3 if registers.get("ETMIDR").is_some_and(|value| value >> 8 & 0xf == 3) => Protocol::Ptm,
            ETM3 => Protocol::Etm3,
            // simpleperf marks every unit that has TRCDEVARCH as ETE.
            ETE if architecture != Some(4) => Protocol::Ete,
            _ => Protocol::Etm4,
        };
        let id = registers.get("TRCTRACEIDR").or_else(|| registers.get("ETMTRACEIDR")).and_then(valid_id);
        Some(Self { cpu, protocol, registers, id, has_hardware_id: false, sink: None })
    }

    /// Sets the ID that the kernel reported. Returns whether the unit already had another one.
    pub(crate) fn set_hardware_id(&mut self, value: u64) -> bool {
        let sink = (value >> 56 & 0xf >= 1).then_some((value >> 8) as u32);
        let Some(id) = valid_id(value) else { return false };
        if self.has_hardware_id {
            return (self.id, self.sink) != (Some(id), sink);
        }
        (self.id, self.sink, self.has_hardware_id) = (Some(id), sink, true);
        false
    }
}

/// The trace ID in the low bits, unless it is reserved.
fn valid_id(value: u64) -> Option<u8> {
    let id = (value & 0x7f) as u8;
    (1..0x70).contains(&id).then_some(id)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Parses words in both byte orders.
    fn parse(words: &[u64]) -> Info {
        let little: Vec<u8> = [3].into_iter().chain(words.iter().copied()).flat_map(u64::to_le_bytes).collect();
        let little = Info::parse(&little, ByteOrder::Little);
        let big = words.iter().copied().flat_map(u64::to_be_bytes);
        let big: Vec<u8> = [0, 0, 0, 3, 0, 0, 0, 0].into_iter().chain(big).collect();
        assert_eq!(little, Info::parse(&big, ByteOrder::Big));
        little.unwrap()
    }

    fn unit(words: &[u64]) -> Unit {
        let info = parse(&[&[1, 8 << 32 | 1, 0], words].concat());
        assert_eq!((info.pmu, &info.problems), (8, &Vec::new()));
        info.units[0].clone()
    }

    #[test]
    fn kinds_of_units() {
        let rows: &[(&[u64], Protocol, Option<u8>)] = &[
            (&[ETM4, 7, 7, 0x40, 0x1e, 0x2800_0ea1, 0x4100_f423, 0x2000_1088, 0, 0x8c], Protocol::Etm4, Some(0x1e)),
            (&[ETM4, 7, 8, 0x40, 0x8000_001e, 1, 2, 3, 0, 5, 1], Protocol::Etm4, Some(0x1e)),
            (&[ETE, 2, 8, 0x40, 0x14, 1, 2, 3, 0, 5, 0x4771_5a13], Protocol::Ete, Some(0x14)),
            (&[ETE, 2, 9, 0x40, 0x14, 1, 2, 3, 0, 5, 0x4772_5a13, 1], Protocol::Ete, Some(0x14)),
            (&[ETE, 2, 8, 0x40, 0x7f, 1, 2, 3, 0, 5, 0x4772_4a13], Protocol::Etm4, None),
            (&[ETE, 2, 7, 0x40, 0, 1, 2, 3, 0, 5], Protocol::Ete, None),
            (&[ETM3, 0, 4, 0x400, 0x10, 1, 0x411c_f250], Protocol::Etm3, Some(0x10)),
            (&[ETM3, 0, 4, 0x400, 0x10, 1, 0x411c_f300], Protocol::Ptm, Some(0x10)),
            (&[ETM3, 0, 4, 0x400, 0x10, 1, 0x411c_f312], Protocol::Ptm, Some(0x10)),
            (&[ETM4, 7, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], Protocol::Etm4, Some(2)),
        ];
        for (words, protocol, id) in rows {
            let unit = unit(words);
            assert_eq!((unit.protocol, unit.id, u64::from(unit.cpu)), (*protocol, *id, words[1]), "{words:x?}");
            let values: Vec<u64> = unit.registers.iter().map(|register| register.value).collect();
            assert!(words[3..].starts_with(&values), "{words:x?}");
        }
        let devarch = unit(rows[2].0).registers.get("trcdevarch");
        assert_eq!(devarch, Some(0x4771_5a13));
        assert_eq!(unit(rows[3].0).registers.get("TS_SOURCE"), Some(1));
        assert_eq!(unit(rows[0].0).registers.get("TRCAUTHSTATUS"), Some(0x8c));
    }

    #[test]
    fn the_first_version_has_no_counts() {
        let etm4 = [ETM4, 1, 0x40, 0x12, 1, 2, 3, 0, 5];
        let etm3 = [ETM3, 9, 0x400, 0x10, 1, 0x411c_f250];
        let info = parse(&[&[0, 8 << 32 | 3, 0][..], &etm4, &etm3, &etm4].concat());
        assert_eq!(info.problems, ["CPU 1 is described again; the first description is used"]);
        let found: Vec<(u32, Option<u8>)> = info.units.iter().map(|unit| (unit.cpu, unit.id)).collect();
        assert_eq!(found, [(1, Some(0x12)), (9, Some(0x10))]);
        assert_eq!(info.units[0].registers.get("TRCAUTHSTATUS"), Some(5), "perf loses the last two words");
    }

    #[test]
    fn damaged_descriptions() {
        let good = [ETM4, 7, 1, 0x40];
        let rows: &[(&[u64], usize, &str)] = &[
            (&[1, 8 << 32], 0, "cut short"),
            (&[1, 8 << 32 | 2, 0, ETM4, 7, 1, 0x40], 1, "2 trace units are announced, and 1 are described"),
            (&[1, 8 << 32 | 0xffff_ffff, 0, ETM4, 7, u64::MAX, 0x40], 0, "and 0 are described"),
            (&[1, 8 << 32 | 1, 0, ETM4, 7, 1, 0x40, 9], 1, "1 words follow"),
            (&[1, 8 << 32 | 1, 0, 0x6060_6060_6060_6060, 7, 1, 0x40], 0, "unknown kind"),
            (&[3, 8 << 32 | 1, 0, ETM4, 7, 1, 0x40], 1, "version 3"),
        ];
        assert_eq!(unit(&good).id, None);
        for (words, units, problem) in rows {
            let info = parse(words);
            assert_eq!(info.units.len(), *units, "{words:x?}");
            assert!(info.problems[0].contains(problem), "{:?}", info.problems);
        }
        assert_eq!(Info::parse(&[3, 0, 0], ByteOrder::Little), None);
        assert!(!Info::parse(&[1, 0, 0, 0, 0, 0, 0, 0], ByteOrder::Little).unwrap().is_coresight());
    }

    #[test]
    fn the_kernel_knows_the_id() {
        let start = unit(&[ETM4, 7, 2, 0x40, 0x1e]);
        let rows = [
            (0x33, Some(0x33), None, true),
            (1 << 56 | 0xabcd << 8 | 0x33, Some(0x33), Some(0xabcd), true),
            // An ID that no source can have.
            (0x7f, Some(0x1e), None, false),
        ];
        for (value, id, sink, has_hardware_id) in rows {
            let mut unit = start.clone();
            assert!(!unit.set_hardware_id(value));
            assert_eq!((unit.id, unit.sink, unit.has_hardware_id), (id, sink, has_hardware_id), "{value:#x}");
            assert!(!unit.set_hardware_id(value), "the same again");
            assert_eq!(unit.set_hardware_id(0x55), has_hardware_id, "another one");
        }
    }
}
