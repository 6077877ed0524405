//! Steps: instructions with their accesses and register writes, exceptions, contexts, gaps and notes.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use unspool::isa::Disassembler;
use unspool::model::{self, Event};

use crate::iterate::iterator;

/// One event on one core. What it does not have is None, or an empty list.
#[pyclass(frozen, eq, module = "unspool")]
#[derive(PartialEq)]
pub(crate) struct Step(pub(crate) model::Step);

impl Step {
    fn instruction(&self) -> Option<&model::Instruction> {
        self.0.event.instruction()
    }
}

#[pymethods]
impl Step {
    /// Kind: 'instruction', 'exception', 'exception_return', 'context', 'gap', 'note', or 'state' (contents of registers or
    /// memory that no instruction caused).
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0.event {
            Event::State => "state",
            Event::Instruction(_) => "instruction",
            Event::Exception(_) => "exception",
            Event::ExceptionReturn { .. } => "exception_return",
            Event::Context(_) => "context",
            Event::Gap(_) => "gap",
            Event::Note => "note",
        }
    }

    /// Number of the core; of a capture, index of the source in Trace.sources.
    #[getter]
    fn core(&self) -> u32 {
        self.0.core
    }

    /// Offset, record or line: see Trace.position_unit.
    #[getter]
    fn position(&self) -> u64 {
        self.0.position
    }

    /// Time, in Trace.time_unit.
    #[getter]
    fn time(&self) -> Option<u64> {
        self.0.time
    }

    /// Address of the instruction, or where a gap has no code.
    #[getter]
    fn address(&self) -> Option<u64> {
        match self.0.event {
            Event::Instruction(instruction) => Some(instruction.address),
            Event::Gap(model::Gap::NoCode(address)) => Some(address),
            _ => None,
        }
    }

    /// Opcode of the instruction; of T32, the first halfword is the high one.
    #[getter]
    fn opcode(&self) -> Option<u32> {
        self.instruction()?.opcode
    }

    /// Length of the instruction in bytes.
    #[getter]
    fn length(&self) -> Option<u8> {
        Some(self.instruction()?.length)
    }

    /// Instruction set: 'a64', 'a32', 't32', 'rv32' or 'rv64'.
    #[getter]
    fn isa(&self) -> Option<&'static str> {
        Some(self.instruction()?.isa.name())
    }

    /// Whether the condition of the instruction held.
    #[getter]
    fn is_executed(&self) -> Option<bool> {
        self.instruction()?.is_executed
    }

    /// Whether the instruction was taken, if it is a branch.
    #[getter]
    fn taken(&self) -> Option<bool> {
        Some(self.instruction()?.branch?.taken)
    }

    /// Target address of a branch that was taken, or of an exception return.
    #[getter]
    fn target(&self) -> Option<u64> {
        match self.0.event {
            Event::ExceptionReturn { target } => target,
            _ => self.instruction()?.branch?.target,
        }
    }

    /// Disassembly of the instruction.
    #[getter]
    fn text(&self) -> Option<String> {
        let instruction = self.instruction()?;
        Some(Disassembler::new().text(instruction.isa, instruction.address, instruction.opcode?))
    }

    /// Memory accesses, in order.
    #[getter]
    fn accesses(&self) -> Vec<Access> {
        self.0.accesses().map(|access| Access::of(&access)).collect()
    }

    /// Register writes, in order.
    #[getter]
    fn registers(&self) -> Vec<RegisterWrite> {
        self.0.registers().map(|write| RegisterWrite::of(&write)).collect()
    }

    /// The exception.
    #[getter]
    fn exception(&self) -> Option<TakenException> {
        if let Event::Exception(exception) = self.0.event { Some(TakenException(exception)) } else { None }
    }

    /// The context in which execution continues.
    #[getter]
    fn context(&self) -> Option<Context> {
        if let Event::Context(context) = self.0.event { Some(Context(context)) } else { None }
    }

    /// Why a part of the execution is missing: 'start', 'overflow', 'discard', 'no-code', 'damaged', 'contradiction' or
    /// 'transaction-failed'.
    #[getter]
    fn gap(&self) -> Option<&'static str> {
        if let Event::Gap(gap) = self.0.event { Some(gap.name()) } else { None }
    }

    /// Text of a note.
    #[getter]
    fn note(&self) -> Option<&str> {
        matches!(self.0.event, Event::Note).then(|| self.0.note())
    }

    fn __repr__(&self) -> String {
        let position = self.0.position;
        match self.address() {
            Some(address) => format!("Step(kind='{}', position={position}, address={address:#x})", self.kind()),
            None => format!("Step(kind='{}', position={position})", self.kind()),
        }
    }
}

/// Bytes, each with a mask of its known bits.
#[derive(PartialEq, Clone)]
struct MaskedBytes(Vec<(u8, u8)>);

impl MaskedBytes {
    /// The bytes, if all of their bits are known.
    fn known<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let is_known = !self.0.is_empty() && self.0.iter().all(|(_, mask)| *mask == 0xff);
        is_known.then(|| PyBytes::new(py, &self.0.iter().map(|(byte, _)| *byte).collect::<Vec<_>>()))
    }

    /// The masks of known bits.
    fn mask<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.iter().map(|(_, mask)| *mask).collect::<Vec<_>>())
    }

    /// The bytes, with zeros for unknown bits.
    fn masked<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.iter().map(|(byte, mask)| byte & mask).collect::<Vec<_>>())
    }
}

/// A memory access.
#[pyclass(frozen, eq, module = "unspool")]
#[derive(PartialEq)]
pub(crate) struct Access {
    direction: model::Direction,
    address: u64,
    size: u64,
    is_tagged: bool,
    bytes: MaskedBytes,
}

impl Access {
    fn of(access: &model::Access<'_>) -> Self {
        let model::Access { direction, address, size, is_tagged, bytes } = *access;
        Self { direction, address, size, is_tagged, bytes: MaskedBytes(bytes.to_vec()) }
    }

    /// Adds the access to a step.
    pub(crate) fn add_to(&self, step: &mut model::Step) {
        step.access_known(self.direction, self.address, self.size, self.bytes.0.iter().copied());
        if self.is_tagged {
            step.tag_last_access();
        }
    }
}

#[pymethods]
impl Access {
    /// Direction: 'read', 'write', 'both', or 'neither', as for a prefetch.
    #[getter]
    fn direction(&self) -> &'static str {
        self.direction.name()
    }

    /// Address.
    #[getter]
    fn address(&self) -> u64 {
        self.address
    }

    /// Size in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.size
    }

    /// Whether its tag is checked, or it accesses tags.
    #[getter]
    fn is_tagged(&self) -> bool {
        self.is_tagged
    }

    /// Data, lowest address first, if all of it is known.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.bytes.known(py)
    }

    /// What is known of the data: bytes with zeros for unknown bits, and the masks of known bits. Empty: nothing.
    #[getter]
    fn known_data<'py>(&self, py: Python<'py>) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        (self.bytes.masked(py), self.bytes.mask(py))
    }

    fn __repr__(&self) -> String {
        format!("Access(direction='{}', address={:#x}, size={})", self.direction(), self.address, self.size)
    }
}

/// New contents of a register or of a part of it.
#[pyclass(frozen, eq, module = "unspool")]
#[derive(PartialEq)]
pub(crate) struct RegisterWrite {
    name: String,
    low: u16,
    bytes: MaskedBytes,
}

impl RegisterWrite {
    fn of(write: &model::RegisterWrite<'_>) -> Self {
        Self { name: write.name.to_string(), low: write.low, bytes: MaskedBytes(write.bytes.to_vec()) }
    }

    /// Adds the write to a step.
    pub(crate) fn add_to(&self, step: &mut model::Step) {
        step.write_register_known(&self.name, self.low, self.bytes.0.iter().copied());
    }
}

#[pymethods]
impl RegisterWrite {
    /// Name of the register in lower case.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Lowest bit that was written.
    #[getter]
    fn low(&self) -> u16 {
        self.low
    }

    /// Contents, lowest byte first, if all of them are known.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.bytes.known(py)
    }

    /// Contents as a number, if all of them are known.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let number = |bytes| py.get_type::<pyo3::types::PyInt>().call_method1("from_bytes", (bytes, "little"));
        self.bytes.known(py).map(number).transpose()
    }

    /// What is known of the contents: bytes with zeros for unknown bits, and the masks of known bits.
    #[getter]
    fn known_data<'py>(&self, py: Python<'py>) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        (self.bytes.masked(py), self.bytes.mask(py))
    }

    fn __repr__(&self) -> String {
        format!("RegisterWrite(name='{}', low={}, size={})", self.name, self.low, self.bytes.0.len())
    }
}

/// An exception that was taken.
#[pyclass(frozen, eq, module = "unspool")]
#[derive(PartialEq)]
pub(crate) struct TakenException(model::Exception);

#[pymethods]
impl TakenException {
    /// Kind: 'unknown', 'reset', 'synchronous', 'irq', 'fiq', 'serror' or 'debug'.
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind.name()
    }

    /// Exception class (EC of ESR_ELx).
    #[getter]
    fn exception_class(&self) -> Option<u8> {
        self.0.class
    }

    /// Immediate of the call instruction that caused it.
    #[getter]
    fn call(&self) -> Option<u16> {
        self.0.call
    }

    /// Whether an interrupt or a system error is virtual.
    #[getter]
    fn is_virtual(&self) -> Option<bool> {
        self.0.is_virtual
    }

    /// Address at which the interrupted program resumes.
    #[getter]
    fn return_address(&self) -> Option<u64> {
        self.0.return_address
    }

    /// Address of the handler.
    #[getter]
    fn target(&self) -> Option<u64> {
        self.0.target
    }

    fn __repr__(&self) -> String {
        format!("TakenException(kind='{}')", self.kind())
    }
}

/// State that execution is in. What is unknown is None.
#[pyclass(frozen, eq, module = "unspool")]
#[derive(PartialEq)]
pub(crate) struct Context(model::Context);

#[pymethods]
impl Context {
    /// Exception level, or privilege mode of RISC-V.
    #[getter]
    fn level(&self) -> Option<u8> {
        self.0.level
    }

    /// Security state: 'secure', 'nonsecure', 'root' or 'realm'.
    #[getter]
    fn security(&self) -> Option<&'static str> {
        self.0.security.map(model::Security::name)
    }

    /// Whether the core is in AArch64 state.
    #[getter]
    fn is_aarch64(&self) -> Option<bool> {
        self.0.is_aarch64
    }

    /// Process or context identifier.
    #[getter]
    fn process(&self) -> Option<u64> {
        self.0.process
    }

    /// Thread.
    #[getter]
    fn thread(&self) -> Option<u64> {
        self.0.thread
    }

    /// Virtual machine.
    #[getter]
    fn vmid(&self) -> Option<u32> {
        self.0.vmid
    }

    fn __repr__(&self) -> String {
        let number = |number: Option<u64>| number.map_or_else(|| "None".to_string(), |number| number.to_string());
        format!("Context(level={}, process={})", number(self.0.level.map(u64::from)), number(self.0.process))
    }
}

iterator! {
    /// Iterator over steps.
    StepIterator of model::Step as Step, Step
}
