//! The fields of packets and of the elements that only ETMv3 has.

use super::element::{DataValue, OwnElement, Transfer};
use super::packet::{Branch, BranchException, DataAddress, ExceptionInformation, InstructionSync, PHeader, Packet};
use crate::fields::{Fields, Value};

fn number(value: impl Into<u64>) -> Value<'static> {
    Value::Number(value.into())
}

impl Packet {
    /// Lists the fields.
    pub fn fields(&self, out: &mut impl Fields) {
        match self {
            Packet::CycleCount { cycles } => out.field("cycles", number(*cycles)),
            Packet::InstructionSync(sync) => sync.fields(out),
            Packet::Vmid(vmid) => out.field("vmid", number(*vmid)),
            Packet::Timestamp { value, bits, frequency_changed } => {
                out.field("value", number(*value));
                out.field("bits", number(*bits));
                out.field("clock_changed", Value::Flag(*frequency_changed));
            }
            Packet::ContextId(id) => out.field("contextid", number(*id)),
            Packet::PHeader(header) => {
                out.field("atoms", Value::Text(&header.atoms()));
                if let PHeader::Format3 { cycles, .. } = header {
                    out.field("cycles", number(*cycles));
                }
            }
            Packet::Branch(branch) => branch.fields(out),
            Packet::Data { first, address, value } => {
                transfer_fields(*first, *address, out);
                value_field(*value, out);
            }
            Packet::Placeholder { tag, first, address } => {
                transfer_fields(*first, *address, out);
                out.field("tag", number(*tag));
            }
            Packet::OutOfOrderData { tag, value } => {
                out.field("tag", number(*tag));
                value_field(*value, out);
            }
            Packet::ValueNotTraced { first, address } => transfer_fields(*first, *address, out),
            Packet::AlignmentSync
            | Packet::Trigger
            | Packet::StoreFailed
            | Packet::DataSuppressed
            | Packet::Ignore
            | Packet::ExceptionExit
            | Packet::ExceptionEntry => {}
        }
    }
}

fn value_field(value: Option<u32>, out: &mut impl Fields) {
    if let Some(value) = value {
        out.field("value", Value::Hex(value.into()));
    }
}

fn transfer_fields(first: bool, address: Option<DataAddress>, out: &mut impl Fields) {
    out.field("first", Value::Flag(first));
    if let Some(DataAddress { value, bits, big_endian }) = address {
        out.field("data_address", Value::Hex(value.into()));
        out.field("bits", number(bits));
        if let Some(big_endian) = big_endian {
            out.field("big_endian", Value::Flag(big_endian));
        }
    }
}

impl InstructionSync {
    fn fields(&self, out: &mut impl Fields) {
        out.field("reason", Value::Text(&self.reason));
        out.optional("cycles", self.cycles);
        if let Some(target) = self.target {
            out.field("target", Value::Hex(target.address.into()));
            out.field("isa", Value::Text(&target.isa.name()));
        }
        out.field("nonsecure", Value::Flag(self.non_secure));
        out.field("hyp", Value::Flag(self.hyp));
        out.optional("contextid", self.context_id);
        if let Some(next) = self.next {
            out.field("in_progress", Value::Flag(true));
            next.address_fields(out);
        }
    }
}

impl Branch {
    fn address_fields(&self, out: &mut impl Fields) {
        out.field("value", Value::Hex(self.value.into()));
        out.field("bits", number(self.bits));
        if let Some(isa) = self.isa {
            out.field("next_isa", Value::Text(&isa.name()));
        }
    }

    fn fields(&self, out: &mut impl Fields) {
        self.address_fields(out);
        match self.exception {
            None => {}
            Some(BranchException::Deprecated { code, canceled }) => {
                out.field("deprecated_exception", number(code));
                out.field("canceled", Value::Flag(canceled));
            }
            Some(BranchException::Information(information)) => information.fields(out),
        }
    }
}

impl ExceptionInformation {
    fn fields(&self, out: &mut impl Fields) {
        out.field("number", number(self.number));
        out.field("canceled", Value::Flag(self.canceled));
        out.field("nonsecure", Value::Flag(self.non_secure));
        out.field("alternative_isa", Value::Flag(self.alternative_isa));
        if let Some(hyp) = self.hyp {
            out.field("hyp", Value::Flag(hyp));
        }
        out.optional("resume", self.resume);
    }
}

impl OwnElement {
    /// Lists the fields.
    pub fn fields(&self, out: &mut impl Fields) {
        match self {
            OwnElement::Transfer(transfer) => transfer.fields(out),
            OwnElement::LateValue { tag, value } => {
                out.field("tag", number(*tag));
                value_field(*value, out);
            }
            OwnElement::GapCycles(cycles) => out.nullable("cycles", *cycles),
            OwnElement::DebugExit
            | OwnElement::NewAddress
            | OwnElement::ExceptionEntry
            | OwnElement::StoreFailed
            | OwnElement::DataSuppressed
            | OwnElement::ClockChange => {}
        }
    }
}

impl Transfer {
    /// Lists the fields.
    pub fn fields(&self, out: &mut impl Fields) {
        out.field("first", Value::Flag(self.first));
        out.nullable_address("address", self.address.map(u64::from));
        out.field("big_endian", Value::Flag(self.big_endian));
        match self.value {
            DataValue::Traced(value) => out.field("value", Value::Hex(value.into())),
            DataValue::Late { tag } => out.field("tag", number(tag)),
            DataValue::NotTraced => {}
        }
    }
}
