//! Setups of PTM and ETMv3.

use unspool::coresight::Protocol;
use unspool::coresight::trace_buffer::{BufferSettings, FillMode};
use unspool::encode::UnitSettings;

use super::loops::{Setup, Shown};

/// Setups of the trace units of Armv7, which trace A32 and T32.
pub(super) fn armv7_setups() -> Vec<Setup> {
    let all = |name, (protocol, registers): (Protocol, &[(&str, u64)])| {
        let settings = with_registers(UnitSettings::new(protocol).unwrap(), registers);
        Setup { name, settings, formatted: false, buffer: None, shown: Shown::All }
    };
    let ptm = |name, registers: &[(&str, u64)]| all(name, (Protocol::Ptm, registers));
    let etm3 = |name, registers: &[(&str, u64)]| all(name, (Protocol::Etm3, registers));
    let small = |fill, shown, setup| {
        let buffer = Some(BufferSettings { size: 4096, fill, ..BufferSettings::default() });
        Setup { buffer, shown, ..setup }
    };
    let overflows = |mut setup: Setup| {
        setup.settings.set_overflow_seed(Some(3));
        setup
    };
    const CR: &str = "ETMCR";
    vec![
        ptm("PTM", &[]),
        ptm("PTM, return stack", &[(CR, 1 << 29)]),
        ptm("PTM, timestamps", &[(CR, 1 << 28), ("ETMTSEVR", 0x6f)]),
        ptm("PTM, few timestamps in Gray code", &[(CR, 1 << 28), ("ETMCCER", 0x04c0_1ac2), ("ETMSYNCFR", 100)]),
        ptm("PTM, cycle counts", &[(CR, 1 << 12)]),
        ptm("PTM, context ids", &[(CR, 1 << 30 | 3 << 14)]),
        ptm("PTM, branch broadcast", &[(CR, 1 << 8)]),
        ptm("PTM, barriers", &[("ETMCCER", 0x37c0_1ac2), (CR, 1 << 28)]),
        ptm("PTM 1.0", &[("ETMIDR", 0x411c_f301), ("ETMCCER", 0x00c0_18ea), (CR, 1 << 29)]),
        Setup { formatted: true, ..ptm("PTM, all of it", &[(CR, 0x7000_d000), ("ETMSYNCFR", 200)]) },
        overflows(ptm("PTM, overflow", &[(CR, 1 << 28)])),
        small(FillMode::Fill, Shown::Start, ptm("PTM, a buffer that fills", &[("ETMSYNCFR", 200)])),
        small(FillMode::Circular, Shown::End, ptm("PTM, a circular buffer", &[("ETMSYNCFR", 200), (CR, 1 << 29)])),
        etm3("ETMv3", &[]),
        etm3("ETMv3, alternative branches", &[("ETMIDR", 0x411c_f250)]),
        etm3("ETMv3, timestamps", &[(CR, 1 << 28), ("ETMTSEVR", 0x6f)]),
        etm3("ETMv3, few timestamps in Gray code", &[(CR, 1 << 28), ("ETMCCER", 0x0440_08f2), ("ETMSYNCFR", 100)]),
        etm3("ETMv3, cycle counts", &[(CR, 1 << 12)]),
        etm3("ETMv3, context ids", &[(CR, 1 << 30 | 3 << 14)]),
        etm3("ETMv3, branch broadcast", &[(CR, 1 << 8)]),
        Setup { formatted: true, ..etm3("ETMv3, all of it", &[(CR, 0x5000_d000), ("ETMSYNCFR", 200)]) },
        overflows(etm3("ETMv3, overflow", &[(CR, 1 << 28)])),
        small(FillMode::Fill, Shown::Start, etm3("ETMv3, a buffer that fills", &[("ETMSYNCFR", 200)])),
        small(FillMode::Circular, Shown::End, etm3("ETMv3, a circular buffer", &[("ETMSYNCFR", 200)])),
    ]
}

fn with_registers(mut settings: UnitSettings, registers: &[(&str, u64)]) -> UnitSettings {
    registers.iter().for_each(|(name, value)| assert!(settings.set(name, *value), "{name}"));
    settings
}
