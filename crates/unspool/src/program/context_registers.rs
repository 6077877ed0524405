//! The register in a trace that identifies processes, and how much of it is traced.
//!
//! registers of a trace unit ─▶ **context registers** ─▶ number of a context, and its width
//!
//! A context packet has CONTEXTIDR_EL1, and a virtual context identifier. The latter is CONTEXTIDR_EL2 in ETE; in ETMv4 it is that, or the
//! number of a virtual machine, as TRCCONFIGR.VMIDOPT says. With the Virtualization Host Extensions, an operating system has its
//! processes in CONTEXTIDR_EL2.

use unspool_capture::{ContextWidth, Source};
use unspool_coresight::{Context, Features, Protocol};

/// VMIDOPT of TRCCONFIGR: the virtual context identifier is CONTEXTIDR_EL2.
const VMIDOPT: u64 = 1 << 15;

/// What a trace has of the registers that can identify a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContextRegisters {
    el1: ContextWidth,
    /// `None`: the virtual context identifier is that of a machine.
    el2: Option<ContextWidth>,
}

impl ContextRegisters {
    pub(super) const ALL_BITS: Self = Self { el1: ContextWidth::Bits32, el2: None };

    pub(super) fn of(source: &Source, features: &Features) -> Self {
        let is_el2 = source.protocol == Some(Protocol::Ete)
            || source.registers.get("TRCCONFIGR").is_some_and(|configuration| configuration & VMIDOPT != 0);
        Self {
            el1: ContextWidth::of_bytes(features.context_id_bytes),
            el2: is_el2.then(|| ContextWidth::of_bytes(features.vmid_bytes)),
        }
    }

    /// The number that identifies a process: CONTEXTIDR_EL2 where it is traced and used, otherwise CONTEXTIDR_EL1.
    pub(super) fn number(self, context: &Context) -> Option<(u32, ContextWidth)> {
        let el2 = self.el2.and_then(|width| Some((context.vmid.filter(|vmid| *vmid != 0)?, width)));
        el2.or_else(|| Some((context.context_id?, self.el1)))
    }
}

#[cfg(test)]
mod tests {
    use unspool_capture::{Register, Registers};
    use unspool_coresight::Security;

    use super::*;

    #[test]
    fn a_virtual_machine_is_no_process() {
        let rows = [
            ("ETE", Protocol::Ete, 0x8c1, Some(7), Some(40), Some((7, ContextWidth::Bits32))),
            ("CONTEXTIDR_EL2 is zero", Protocol::Ete, 0x8c1, Some(0), Some(40), Some((40, ContextWidth::Bits16))),
            ("CONTEXTIDR_EL2 alone", Protocol::Ete, 0x881, Some(7), None, Some((7, ContextWidth::Bits32))),
            ("VMID of ETMv4", Protocol::Etm4, 0x8c1, Some(7), Some(40), Some((40, ContextWidth::Bits16))),
            ("VMID of ETMv4 alone", Protocol::Etm4, 0x881, Some(7), None, None),
            ("VMIDOPT of ETMv4", Protocol::Etm4, 0x88c1, Some(7), Some(40), Some((7, ContextWidth::Bits32))),
        ];
        for (name, protocol, configuration, vmid, context_id, expected) in rows {
            let registers: Registers = [Register::new("TRCCONFIGR", configuration)].into_iter().collect();
            let source = Source {
                name: String::new(),
                kind: String::new(),
                protocol: Some(protocol),
                registers,
                options: Vec::new(),
                id: None,
                buffers: Vec::new(),
                core: None,
                configured: None,
            };
            let features = Features { context_id_bytes: 2, vmid_bytes: 4, ..Features::default() };
            let context = Context { el: 0, aarch64: true, security: Security::NonSecure, vmid, context_id };
            assert_eq!(ContextRegisters::of(&source, &features).number(&context), expected, "{name}");
        }
    }
}
