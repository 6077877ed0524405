//! The fields of packets.

use super::packet::{Address, AddressIsa, Branch, BranchInfo, InstructionSync, Packet};
use crate::fields::{Fields, Value};

impl Packet {
    /// Lists the fields.
    pub fn fields(&self, out: &mut impl Fields) {
        match self {
            Packet::InstructionSync(sync) => sync.fields(out),
            Packet::Branch(branch) => branch.fields(out),
            Packet::Atoms { atoms, cycles } => {
                out.field("atoms", Value::Text(atoms));
                out.optional("cycles", *cycles);
            }
            Packet::WaypointUpdate { address, alternative } => {
                address.fields(out);
                if let Some(alternative) = alternative {
                    out.field("alternative", Value::Flag(*alternative));
                }
            }
            Packet::ContextId(id) => out.field("contextid", Value::Number((*id).into())),
            Packet::Vmid(id) => out.field("vmid", Value::Number((*id).into())),
            Packet::Timestamp { value, bits, clock_changed, cycles } => {
                out.field("value", Value::Number(*value));
                out.field("bits", Value::Number((*bits).into()));
                out.field("clock_changed", Value::Flag(*clock_changed));
                out.optional("cycles", *cycles);
            }
            Packet::AlignmentSync | Packet::Trigger | Packet::ExceptionReturn | Packet::Ignore => {}
        }
    }
}

impl InstructionSync {
    fn fields(&self, out: &mut impl Fields) {
        let isa = if self.thumb { AddressIsa::Thumb } else { AddressIsa::Arm };
        out.field("reason", Value::Text(&self.reason.name()));
        out.field("value", Value::Hex(self.address.into()));
        out.field("isa", Value::Text(&isa.name()));
        out.field("nonsecure", Value::Flag(self.nonsecure));
        out.field("hyp", Value::Flag(self.hyp));
        out.field("alternative", Value::Flag(self.alternative));
        out.optional("contextid", self.context_id);
        out.optional("cycles", self.cycles);
    }
}

impl Branch {
    fn fields(&self, out: &mut impl Fields) {
        self.address.fields(out);
        if let Some(BranchInfo { exception, nonsecure, alternative, hyp }) = self.info {
            out.field("exception", Value::Number(exception.into()));
            out.field("nonsecure", Value::Flag(nonsecure));
            if let Some(hyp) = hyp {
                out.field("hyp", Value::Flag(hyp));
            }
            out.field("alternative", Value::Flag(alternative));
        }
        out.optional("cycles", self.cycles);
    }
}

impl Address {
    /// Without an instruction set, `value` is a number of steps; otherwise it is the whole address.
    fn fields(&self, out: &mut impl Fields) {
        out.field("bits", Value::Number(self.bits().into()));
        match self.isa {
            Some(isa) => {
                out.field("value", Value::Hex((self.steps << isa.shift()).into()));
                out.field("isa", Value::Text(&isa.name()));
            }
            None => out.field("value", Value::Hex(self.steps.into())),
        }
    }
}
