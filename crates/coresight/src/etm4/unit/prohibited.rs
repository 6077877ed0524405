//! Trace Prohibited regions: levels and states that the PE does not permit to trace.
//!
//! Takes TRFCR_EL1 and TRFCR_EL2, HCR_EL2 for its bit TGE, MDCR_EL3 for the Secure and Realm states, then contexts. Does not
//! know what happens in such a region: the unit traces nothing there, and its resources pause. Without TRFCR_ELx, self-hosted
//! trace is disabled and nothing is prohibited.
//! Specification: DDI 0487, Trace Prohibited Regions (D4.5.7.6), TRFCR_EL1, TRFCR_EL2 and the function TraceAllowed.

use super::settings::Settings;
use crate::etm4::config::field;
use crate::{Context, Protocol, Security};

/// The controls of FEAT_TRF.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Prohibited {
    /// Self-hosted trace is enabled.
    is_self_hosted: bool,
    trfcr_el1: u32,
    trfcr_el2: u32,
    /// HCR_EL2.TGE: EL0 belongs to EL2.
    el0_is_of_el2: bool,
    /// MDCR_EL3; `None`: it permits all states.
    mdcr_el3: Option<u32>,
}

impl Prohibited {
    pub(super) fn new(settings: &Settings) -> Self {
        let is_set = |name| settings.get(name).is_some();
        Self {
            is_self_hosted: settings.protocol == Protocol::Ete && (is_set("TRFCR_EL1") || is_set("TRFCR_EL2")),
            trfcr_el1: settings.low("TRFCR_EL1"),
            trfcr_el2: settings.low("TRFCR_EL2"),
            el0_is_of_el2: field(settings.low("HCR_EL2"), 27, 1) == 1,
            mdcr_el3: settings.get("MDCR_EL3").map(|value| value as u32),
        }
    }

    /// Is execution in this context prohibited to trace?
    pub(super) fn covers(&self, context: &Context) -> bool {
        self.is_self_hosted && !(self.permits_level(context.el) && self.permits_state(context.security))
    }

    /// E0HTRE or E0TRE, E1TRE, E2TRE. Self-hosted trace never has EL3.
    fn permits_level(&self, el: u8) -> bool {
        let (register, bit) = match el {
            0 if self.el0_is_of_el2 => (self.trfcr_el2, 0),
            0 => (self.trfcr_el1, 0),
            1 => (self.trfcr_el1, 1),
            2 => (self.trfcr_el2, 1),
            _ => return false,
        };
        field(register, bit, 1) == 1
    }

    /// STE and RLTE.
    fn permits_state(&self, security: Security) -> bool {
        let Some(mdcr_el3) = self.mdcr_el3 else { return true };
        match security {
            Security::Secure => field(mdcr_el3, 18, 1) == 1,
            Security::Realm => field(mdcr_el3, 0, 1) == 1,
            Security::NonSecure | Security::Root => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TRFCR_EL1, TRFCR_EL2 and the function TraceAllowed of DDI 0487.
    #[test]
    fn levels_and_states_are_permitted_by_their_bits() {
        use Security::{NonSecure, Realm, Root, Secure};
        type Row<'r> = (&'r str, &'r [(&'r str, u64)], u8, Security, bool);
        let rows: &[Row<'_>] = &[
            ("self-hosted trace is disabled", &[], 1, NonSecure, false),
            ("not even EL3 is prohibited then", &[("HCR_EL2", 1 << 27)], 3, Root, false),
            ("E0TRE", &[("TRFCR_EL1", 1)], 0, NonSecure, false),
            ("not E1TRE", &[("TRFCR_EL1", 1)], 1, NonSecure, true),
            ("E1TRE", &[("TRFCR_EL1", 2)], 1, NonSecure, false),
            ("not E0TRE", &[("TRFCR_EL1", 2)], 0, NonSecure, true),
            ("E2TRE", &[("TRFCR_EL2", 2)], 2, NonSecure, false),
            ("EL2 has a register of its own", &[("TRFCR_EL1", 3)], 2, NonSecure, true),
            ("E0HTRE without TGE", &[("TRFCR_EL2", 1)], 0, NonSecure, true),
            ("E0HTRE with TGE", &[("TRFCR_EL2", 1), ("HCR_EL2", 1 << 27)], 0, NonSecure, false),
            ("E0TRE with TGE", &[("TRFCR_EL1", 1), ("HCR_EL2", 1 << 27)], 0, NonSecure, true),
            ("EL3", &[("TRFCR_EL1", 3), ("TRFCR_EL2", 3)], 3, Root, true),
            ("Secure, MDCR_EL3 unknown", &[("TRFCR_EL1", 3)], 1, Secure, false),
            ("Secure, not STE", &[("TRFCR_EL1", 3), ("MDCR_EL3", 0)], 1, Secure, true),
            ("Secure, STE", &[("TRFCR_EL1", 3), ("MDCR_EL3", 1 << 18)], 1, Secure, false),
            ("Realm, not RLTE", &[("TRFCR_EL1", 3), ("MDCR_EL3", 1 << 18)], 1, Realm, true),
            ("Realm, RLTE", &[("TRFCR_EL1", 3), ("MDCR_EL3", 1)], 1, Realm, false),
        ];
        for (name, registers, el, security, is_prohibited) in rows {
            let mut settings = Settings::new(Protocol::Ete);
            registers.iter().for_each(|(register, value)| assert!(settings.set(register, *value), "{register}"));
            let context = Context { el: *el, aarch64: true, security: *security, vmid: None, context_id: None };
            assert_eq!(Prohibited::new(&settings).covers(&context), *is_prohibited, "{name}");
        }
    }
}
