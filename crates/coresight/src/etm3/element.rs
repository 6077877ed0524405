//! Elements that only ETMv3 has: data transfers and a few states. All others are in [`Element`](crate::Element).

/// An element that no other protocol has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnElement {
    /// The PE left Debug state.
    DebugExit,
    /// Cycles of the gap before the last start of tracing; `None` when not known.
    GapCycles(Option<u32>),
    /// The address that follows need not follow from the code.
    NewAddress,
    /// The following transfers are the automatic stack push of an exception.
    ExceptionEntry,
    /// A data transfer.
    Transfer(Transfer),
    /// The value of the oldest transfer that waits for one with this tag.
    LateValue {
        /// The tag, 1 to 3.
        tag: u8,
        /// The value, if values are traced.
        value: Option<u32>,
    },
    /// The store-exclusive of the last transfer did not store.
    StoreFailed,
    /// Transfers are missing up to the next data instruction.
    DataSuppressed,
    /// The clock of the timestamps has another frequency.
    ClockChange,
}

/// A data transfer of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// It is the first of its instruction.
    pub first: bool,
    /// Its address. `None`: it is 4 more than that of the transfer before, is not traced, or does not exist.
    pub address: Option<u32>,
    /// The access is big-endian (BE-8).
    pub big_endian: bool,
    /// Its value.
    pub value: DataValue,
}

/// The value of a data transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataValue {
    /// The value, zero-extended: the instruction has the size of the access.
    Traced(u32),
    /// It follows later.
    Late {
        /// The tag that it will have.
        tag: u8,
    },
    /// It is not part of the trace.
    NotTraced,
}

impl OwnElement {
    /// The name of the element's kind that the command line and JSON use.
    pub fn name(&self) -> &'static str {
        match self {
            OwnElement::DebugExit => "debug_exit",
            OwnElement::GapCycles(_) => "gap_cycles",
            OwnElement::NewAddress => "new_address",
            OwnElement::ExceptionEntry => "exception_entry",
            OwnElement::Transfer(_) => "transfer",
            OwnElement::LateValue { .. } => "late_value",
            OwnElement::StoreFailed => "store_failed",
            OwnElement::DataSuppressed => "data_suppressed",
            OwnElement::ClockChange => "clock_change",
        }
    }
}
