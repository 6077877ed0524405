//! Instrumentation: values that software writes into the trace (FEAT_ITE).
//!
//! Takes TRCITECR_EL1 and TRCITECR_EL2, or TRCITEEDCR of a debugger, then values. Produces a packet for each value that its
//! context may write. Filters do not matter; prohibited regions do.
//! Specification: DDI 0487, Instrumentation extension (D4.5.5) and Instrumentation element (D4.3.9, D4.5.10.20).

use super::Unit;
use super::settings::Settings;
use crate::etm4::config::field;
use crate::etm4::packet::Packet;
use crate::{Context, Protocol, Security};

/// The controls of FEAT_ITE.
#[derive(Debug, Clone, Copy)]
pub(super) enum Instrumentation {
    /// No value is traced.
    Off,
    /// Self-hosted trace: TRCITECR_EL1, TRCITECR_EL2, HCR_EL2.TGE.
    SelfHosted { el1: u32, el2: u32, el0_is_of_el2: bool },
    /// A debugger controls it (TRCCONFIGR.ITO): TRCITEEDCR.
    External(u32),
}

impl Instrumentation {
    pub(super) fn new(settings: &Settings) -> Self {
        let is_set = |name| settings.get(name).is_some();
        let is_self_hosted = is_set("TRFCR_EL1") || is_set("TRFCR_EL2");
        match is_self_hosted {
            _ if settings.protocol != Protocol::Ete => Self::Off,
            true => Self::SelfHosted {
                el1: settings.low("TRCITECR_EL1"),
                el2: settings.low("TRCITECR_EL2"),
                el0_is_of_el2: field(settings.low("HCR_EL2"), 27, 1) == 1,
            },
            false if field(settings.low("TRCCONFIGR"), 18, 1) == 1 => Self::External(settings.low("TRCITEEDCR")),
            false => Self::Off,
        }
    }

    fn permits(self, context: &Context) -> bool {
        match self {
            Self::Off => false,
            Self::SelfHosted { el1, el2, el0_is_of_el2 } => match context.el {
                0 if el0_is_of_el2 => field(el2, 0, 1) == 1,
                0 => field(el1, 0, 1) == 1,
                1 => field(el1, 1, 1) == 1,
                2 => field(el2, 1, 1) == 1,
                _ => false,
            },
            Self::External(control) => {
                let state = match context.security {
                    Security::NonSecure => field(control, 4, 1) == 1,
                    Security::Secure => field(control, 5, 1) == 1,
                    Security::Realm => field(control, 6, 1) == 1,
                    Security::Root => true,
                };
                state && field(control, u32::from(context.el & 3), 1) == 1
            }
        }
    }
}

impl Unit {
    /// Software writes a value into the trace: TRCIT.
    pub fn instrumentation(&mut self, value: u64) {
        let el = self.whole_context.el;
        if self.is_prohibited || !self.instrumentation.permits(&self.whole_context) {
            return;
        }
        if self.written() == 0 {
            // An alignment synchronization comes first (I_BXHZM).
            self.synchronize();
        }
        self.flush();
        self.emit(&Packet::Instrumentation { el, value });
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::*;
    use crate::Packets;

    /// R_FLGVJ, R_RTKDL, R_JJZXW: who may write.
    #[test]
    fn values_are_traced_where_that_is_permitted() {
        use Security::{NonSecure, Realm, Root, Secure};
        type Row<'r> = (&'r str, &'r [(&'r str, u64)], u8, Security, bool);
        let self_hosted = ("TRFCR_EL1", 3);
        let by_debugger = ("TRCCONFIGR", 0x4_0001);
        let rows: &[Row<'_>] = &[
            ("nothing set", &[], 0, NonSecure, false),
            ("E0E", &[self_hosted, ("TRCITECR_EL1", 1)], 0, NonSecure, true),
            ("not E1E", &[self_hosted, ("TRCITECR_EL1", 1)], 1, NonSecure, false),
            ("E1E", &[self_hosted, ("TRCITECR_EL1", 2)], 1, NonSecure, true),
            ("prohibited", &[("TRFCR_EL1", 1), ("TRCITECR_EL1", 3)], 1, NonSecure, false),
            ("E2E", &[("TRFCR_EL2", 2), ("TRCITECR_EL2", 2)], 2, NonSecure, true),
            ("E0HE with TGE", &[("TRFCR_EL2", 1), ("HCR_EL2", 1 << 27), ("TRCITECR_EL2", 1)], 0, NonSecure, true),
            ("without self-hosted trace", &[("TRCITECR_EL1", 3)], 1, NonSecure, false),
            ("NS and E1", &[by_debugger, ("TRCITEEDCR", 0x12)], 1, NonSecure, true),
            ("E1 without NS", &[by_debugger, ("TRCITEEDCR", 0x02)], 1, NonSecure, false),
            ("NS without E1", &[by_debugger, ("TRCITEEDCR", 0x11)], 1, NonSecure, false),
            ("S and E1", &[by_debugger, ("TRCITEEDCR", 0x22)], 1, Secure, true),
            ("RL and E1", &[by_debugger, ("TRCITEEDCR", 0x42)], 1, Realm, true),
            ("E3", &[by_debugger, ("TRCITEEDCR", 0x08)], 3, Root, true),
        ];
        for (name, registers, el, security, is_traced) in rows {
            let mut settings = Settings::new(Protocol::Ete);
            registers.iter().for_each(|(register, value)| assert!(settings.set(register, *value), "{register}"));
            let mut unit = Unit::new(&settings);
            unit.context(Context { el: *el, aarch64: true, security: *security, vmid: None, context_id: None });
            unit.instrumentation(0x1234_5678_9abc_def0);
            let packets: Vec<_> =
                Packets::new(&settings.config(), unit.bytes()).map(|packet| packet.unwrap()).collect();
            let texts: Vec<_> = packets.iter().map(|packet| packet.value.to_string()).collect();
            let expected = alloc::format!("instrumentation EL{el} 0x123456789abcdef0");
            let expected = is_traced.then_some(&expected);
            assert_eq!(texts.iter().find(|text| text.starts_with("instrumentation")), expected, "{name}: {texts:?}");
        }
    }
}
