//! Trace files written from Python, step by step.
//!
//! arguments ─▶ steps ─▶ [`FileSink`] ─▶ ASTF or STF file, which appears when it is complete

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyTuple};
use unspool::convert::{FileSink, Format, SinkOptions};
use unspool::isa::Isa;
use unspool::model::{self, Branch, Coverage, Event, Exception, Facet, Gap, Instruction, Losses, SinkError, StepSink};
use unspool::target::Target;
use unspool::{astf, stf};

use crate::convert::check_replaceable;
use crate::errors::{Class, Failing, Failure, unlocked};
use crate::names::{direction, exception_kind, facet, gap, isa, security, time_unit};
use crate::step::{Access, RegisterWrite, Step};

/// What a trace has by default.
const COVERS: [Facet; 6] =
    [Facet::Instructions, Facet::Opcodes, Facet::Branches, Facet::Accesses, Facet::Data, Facet::Registers];

/// Format of a file to write, by its name in Python or by the extension of the path.
pub(crate) fn format_of(name: Option<&str>, path: &Path) -> PyResult<Format> {
    match name {
        Some("astf") => Ok(Format::Astf),
        Some("stf") => Ok(Format::Stf),
        Some("tarmac") => Ok(Format::Tarmac),
        Some(name) => Err(PyValueError::new_err(format!("unknown format '{name}': astf, stf, tarmac"))),
        None => Format::from_path(path).ok_or_else(|| {
            let text = format!("{}: its name shows no format; give one: astf, stf, tarmac", path.display());
            PyValueError::new_err(text)
        }),
    }
}

/// What was lost, with how often.
pub(crate) fn losses_dict<'py>(py: Python<'py>, losses: &Losses) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    losses.iter().try_for_each(|(loss, lost)| dict.set_item(loss.name(), lost.count))?;
    Ok(dict)
}

/// Writes a trace file, step by step. The file appears when the writer is finished, or not at all.
///
/// Use it in a with statement: it is finished at the end, or discarded if there was an exception.
///
/// Args:
///     path: Path of the file.
///     format: 'astf' or 'stf' [default: by the extension of the path, which also selects the compression].
///     covers: Kinds of information that the steps have, such as 'times', 'exceptions' or 'levels' [default: instructions,
///         opcodes, branches, accesses, data and registers]. A step with another kind is refused.
///     time_unit: Unit of times: 's', 'ms', 'us', 'ns', 'ps' or 'cycles' [default: ticks of unknown length].
///     level: Exception level that is assumed where no context has one. ASTF needs one.
///     security: Security state that is assumed where no context has one: 'secure' or 'nonsecure'. ASTF needs one.
///     force: Replace a file that exists.
///
/// Raises:
///     WriteError: If the file cannot be written, or the format cannot express such steps.
#[pyclass(frozen, module = "unspool")]
pub(crate) struct Writer {
    file: String,
    covers: Coverage,
    state: Mutex<State>,
}

struct State {
    /// `None`: finished or discarded.
    sink: Option<Sink>,
    losses: Losses,
    step: model::Step,
    instructions: u64,
}

/// The sinks of a file that may move between threads: that of a Tarmac log has a disassembler, which may not.
enum Sink {
    Astf(Box<astf::lower::Lowerer<astf::write::Writer<Target>>>),
    Stf(Box<stf::lower::Lowerer<stf::write::Writer<Target>>>),
}

impl Sink {
    fn of(file: FileSink) -> PyResult<Self> {
        match file {
            FileSink::Astf(sink) => Ok(Self::Astf(sink)),
            FileSink::Stf(sink) => Ok(Self::Stf(sink)),
            FileSink::Tarmac(_) => {
                Err(PyValueError::new_err("a Tarmac log is not written step by step: write STF, and convert it"))
            }
        }
    }

    fn steps(&mut self) -> &mut dyn StepSink {
        match self {
            Self::Astf(sink) => &mut **sink,
            Self::Stf(sink) => &mut **sink,
        }
    }

    fn losses(&self) -> &Losses {
        match self {
            Self::Astf(sink) => sink.losses(),
            Self::Stf(sink) => sink.losses(),
        }
    }

    /// Ends the trace, and gives the file its name.
    fn finish(mut self) -> Result<Losses, SinkError> {
        self.steps().finish()?;
        let losses = self.losses().clone();
        let file = match self {
            Self::Astf(sink) => FileSink::Astf(sink),
            Self::Stf(sink) => FileSink::Stf(sink),
        };
        file.keep()?;
        Ok(losses)
    }
}

impl Writer {
    /// Writes a step that `fill` makes.
    fn push(
        &self,
        py: Python<'_>,
        (core, time): (u32, Option<u64>),
        fill: impl FnOnce(&mut model::Step) -> PyResult<()>,
    ) -> PyResult<()> {
        self.require(time.is_none(), Facet::Times)?;
        self.with_state(|state| {
            let position = state.step.position + 1;
            state.step.clear();
            (state.step.core, state.step.position, state.step.time) = (core, position, time);
            fill(&mut state.step)?;
            self.push_filled(py, state)
        })
    }

    fn push_filled(&self, py: Python<'_>, state: &mut State) -> PyResult<()> {
        let Some(sink) = &mut state.sink else {
            let failure = Failure::new(Class::Write, format!("{}: the writer is finished", self.file));
            return Err(failure.in_file(&self.file).into_exception(py));
        };
        let pushed = sink.steps().push(&state.step);
        state.instructions += u64::from(pushed.is_ok() && state.step.event.instruction().is_some());
        pushed.map_err(|error| self.failed(py, state, &error))
    }

    /// Nothing can be written after an error.
    fn failed(&self, py: Python<'_>, state: &mut State, error: &SinkError) -> PyErr {
        state.sink = None;
        error.failure("step").in_file(&self.file).into_exception(py)
    }

    fn with_state<T>(&self, work: impl FnOnce(&mut State) -> PyResult<T>) -> PyResult<T> {
        // Another thread has it only while it writes a step.
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        work(&mut state)
    }

    /// Refuses what the trace was said not to have.
    fn require(&self, is_absent: bool, facet: Facet) -> PyResult<()> {
        if is_absent || self.covers.has(facet) {
            return Ok(());
        }
        let name = facet.name();
        Err(PyValueError::new_err(format!("the writer does not cover {name}: give covers a list that has '{name}'")))
    }

    fn finish_sink(&self, py: Python<'_>) -> PyResult<()> {
        let Some(sink) = self.with_state(|state| Ok(state.sink.take()))? else { return Ok(()) };
        let losses = unlocked(py, || sink.finish())?
            .map_err(|error| error.failure("step").in_file(&self.file).into_exception(py))?;
        self.with_state(|state| {
            state.losses = losses;
            Ok(())
        })
    }
}

#[pymethods]
impl Writer {
    #[new]
    #[pyo3(signature = (
        path, *, format = None, covers = None, time_unit = None, level = None, security = None, force = false
    ))]
    #[allow(clippy::too_many_arguments, reason = "these are keywords")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        format: Option<&str>,
        covers: Option<Vec<String>>,
        time_unit: Option<&str>,
        level: Option<u8>,
        security: Option<&str>,
        force: bool,
    ) -> PyResult<Self> {
        let covers = match covers {
            None => Coverage::of(&COVERS),
            Some(names) => Coverage::of(&names.iter().map(|name| facet(name)).collect::<PyResult<Vec<_>>>()?),
        };
        let unit = self::time_unit(time_unit)?;
        let mut options = SinkOptions::for_path(format_of(format, &path)?, &path);
        if let SinkOptions::Astf { lower, .. } = &mut options {
            lower.assumed.level = level;
            lower.assumed.security = security.map(self::security).transpose()?;
        }
        check_replaceable(&path, force).map_err(|failure| failure.into_exception(py))?;
        let file = path.display().to_string();
        let sink = FileSink::open(&path, covers, unit, &options)
            .map_err(|error| error.failure("step").in_file(&file).into_exception(py))?;
        let state = State {
            sink: Some(Sink::of(sink)?),
            losses: Losses::default(),
            step: model::Step::default(),
            instructions: 0,
        };
        Ok(Self { file, covers, state: Mutex::new(state) })
    }

    /// Path of the file.
    #[getter]
    fn path(&self) -> &str {
        &self.file
    }

    /// Number of instructions that were written so far.
    #[getter]
    fn instructions(&self) -> PyResult<u64> {
        self.with_state(|state| Ok(state.instructions))
    }

    /// What the format has no field for and was left out, each kind with how often.
    #[getter]
    fn losses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.with_state(|state| losses_dict(py, state.sink.as_ref().map_or(&state.losses, Sink::losses)))
    }

    /// Writes an executed instruction.
    ///
    /// Args:
    ///     address: Its address.
    ///     opcode: Its opcode; of T32, the first halfword is the high one. None: unknown.
    ///     isa: Its instruction set: 'a64', 'a32', 't32', 'rv32' or 'rv64'.
    ///     length: Its length in bytes [default: from the opcode].
    ///     is_executed: Whether its condition held. None: unknown.
    ///     taken: Whether it was taken, if it is a branch.
    ///     target: Its target address, if it was taken.
    ///     accesses: Memory accesses: tuples (direction, address, size) or (direction, address, data), where data is bytes;
    ///         or accesses of a step.
    ///     registers: Register writes: a mapping of names to values, which are bytes (lowest first) or an int of the size of
    ///         a general register; or register writes of a step.
    ///     core: Number of the core.
    ///     time: Time, in the time_unit of the writer.
    #[pyo3(signature = (
        address, opcode, *, isa = "a64", length = None, is_executed = None, taken = None, target = None,
        accesses = None, registers = None, core = 0, time = None
    ))]
    #[allow(clippy::too_many_arguments, reason = "these are keywords")]
    fn instruction(
        &self,
        py: Python<'_>,
        address: u64,
        opcode: Option<u32>,
        isa: &str,
        length: Option<u8>,
        is_executed: Option<bool>,
        taken: Option<bool>,
        target: Option<u64>,
        accesses: Option<&Bound<'_, PyAny>>,
        registers: Option<&Bound<'_, PyAny>>,
        core: u32,
        time: Option<u64>,
    ) -> PyResult<()> {
        let isa = self::isa(isa)?;
        let length = length.or(opcode.map(|opcode| isa.opcode_length(opcode)));
        let Some(length) = length else { return Err(PyValueError::new_err("give the length of an unknown opcode")) };
        let branch = taken.map(|taken| Branch { taken, target: target.filter(|_| taken) });
        let instruction = Instruction { address, opcode, length, isa, is_executed, branch, ..Instruction::default() };
        self.require(branch.is_none(), Facet::Branches)?;
        self.require(accesses.is_none(), Facet::Accesses)?;
        self.require(registers.is_none(), Facet::Registers)?;
        self.push(py, (core, time), |step| {
            step.event = Event::Instruction(instruction);
            accesses.map_or(Ok(()), |accesses| add_accesses(step, accesses))?;
            registers.map_or(Ok(()), |registers| add_registers(step, registers, isa))
        })
    }

    /// Writes an exception that was taken.
    ///
    /// Args:
    ///     kind: 'unknown', 'reset', 'synchronous', 'irq', 'fiq', 'serror' or 'debug'.
    ///     exception_class: Exception class (EC of ESR_ELx).
    ///     call: Immediate of the call instruction that caused it.
    ///     is_virtual: Whether an interrupt or a system error is virtual.
    ///     return_address: Address at which the interrupted program resumes.
    ///     target: Address of the handler.
    ///     core: Number of the core.
    ///     time: Time.
    #[pyo3(signature = (
        kind = "unknown", *, exception_class = None, call = None, is_virtual = None, return_address = None, target = None,
        core = 0, time = None
    ))]
    #[allow(clippy::too_many_arguments, reason = "these are keywords")]
    fn exception(
        &self,
        py: Python<'_>,
        kind: &str,
        exception_class: Option<u8>,
        call: Option<u16>,
        is_virtual: Option<bool>,
        return_address: Option<u64>,
        target: Option<u64>,
        core: u32,
        time: Option<u64>,
    ) -> PyResult<()> {
        self.require(false, Facet::Exceptions)?;
        let (kind, class) = (exception_kind(kind)?, exception_class);
        let event = Event::Exception(Exception { kind, class, call, is_virtual, return_address, target });
        self.push(py, (core, time), |step| {
            step.event = event;
            Ok(())
        })
    }

    /// Writes a return from an exception.
    #[pyo3(signature = (target = None, *, core = 0, time = None))]
    fn exception_return(&self, py: Python<'_>, target: Option<u64>, core: u32, time: Option<u64>) -> PyResult<()> {
        self.require(false, Facet::Exceptions)?;
        self.push(py, (core, time), |step| {
            step.event = Event::ExceptionReturn { target };
            Ok(())
        })
    }

    /// Writes the context in which execution continues. What is None does not change.
    ///
    /// Args:
    ///     level: Exception level, or privilege mode of RISC-V.
    ///     security: Security state: 'secure', 'nonsecure', 'root' or 'realm'.
    ///     is_aarch64: Whether the core is in AArch64 state.
    ///     process: Process or context identifier.
    ///     thread: Thread.
    ///     vmid: Virtual machine.
    ///     core: Number of the core.
    ///     time: Time.
    #[pyo3(signature = (
        *, level = None, security = None, is_aarch64 = None, process = None, thread = None, vmid = None, core = 0,
        time = None
    ))]
    #[allow(clippy::too_many_arguments, reason = "these are keywords")]
    fn context(
        &self,
        py: Python<'_>,
        level: Option<u8>,
        security: Option<&str>,
        is_aarch64: Option<bool>,
        process: Option<u64>,
        thread: Option<u64>,
        vmid: Option<u32>,
        core: u32,
        time: Option<u64>,
    ) -> PyResult<()> {
        self.require(level.is_none(), Facet::Levels)?;
        self.require(security.is_none(), Facet::Security)?;
        self.require(process.is_none() && thread.is_none() && vmid.is_none(), Facet::Processes)?;
        let security = security.map(self::security).transpose()?;
        let context =
            model::Context { level, security, is_aarch64, process, thread, vmid, ..model::Context::default() };
        self.push(py, (core, time), |step| {
            step.event = Event::Context(context);
            Ok(())
        })
    }

    /// Writes that a part of the execution is missing.
    ///
    /// Args:
    ///     reason: 'start', 'overflow', 'discard', 'no-code', 'damaged' or 'contradiction'.
    ///     address: Where there is no code, for 'no-code'.
    ///     core: Number of the core.
    ///     time: Time.
    #[pyo3(signature = (reason = "start", *, address = None, core = 0, time = None))]
    fn gap(&self, py: Python<'_>, reason: &str, address: Option<u64>, core: u32, time: Option<u64>) -> PyResult<()> {
        let gap = match (reason, address) {
            ("no-code", Some(address)) => Gap::NoCode(address),
            ("no-code", None) => return Err(PyValueError::new_err("give the address where there is no code")),
            (reason, _) => gap(reason)?,
        };
        self.push(py, (core, time), |step| {
            step.event = Event::Gap(gap);
            Ok(())
        })
    }

    /// Writes a note.
    #[pyo3(signature = (text, *, core = 0, time = None))]
    fn note(&self, py: Python<'_>, text: &str, core: u32, time: Option<u64>) -> PyResult<()> {
        self.push(py, (core, time), |step| {
            step.set_note(text);
            Ok(())
        })
    }

    /// Writes a step of another trace. Its time has to be in the time_unit of the writer.
    fn step(&self, py: Python<'_>, step: &Step) -> PyResult<()> {
        self.require(step.0.time.is_none(), Facet::Times)?;
        self.with_state(|state| {
            state.step.clone_from(&step.0);
            self.push_filled(py, state)
        })
    }

    /// Completes the file. Nothing can be written afterwards.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        self.finish_sink(py)
    }

    /// Removes what was written, unless the file is complete.
    fn discard(&self) -> PyResult<()> {
        let sink = self.with_state(|state| Ok(state.sink.take()))?;
        drop(sink);
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (kind, _value, _traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if kind.is_none() { self.finish_sink(py) } else { self.discard() }
    }

    fn __repr__(&self) -> String {
        format!("Writer(path='{}')", self.file)
    }
}

/// Adds accesses to a step.
fn add_accesses(step: &mut model::Step, accesses: &Bound<'_, PyAny>) -> PyResult<()> {
    for access in accesses.try_iter()? {
        let access = access?;
        if let Ok(access) = access.cast::<Access>() {
            access.get().add_to(step);
            continue;
        }
        let (name, address, data): (String, u64, Bound<'_, PyAny>) = access.cast::<PyTuple>()?.extract()?;
        match data.extract::<u64>() {
            Ok(size) => step.access(direction(&name)?, address, size),
            Err(_) => {
                let data: Vec<u8> = bytes(&data)?;
                let known = data.iter().map(|byte| (*byte, 0xff));
                step.access_known(direction(&name)?, address, data.len() as u64, known);
            }
        }
    }
    Ok(())
}

/// Adds register writes to a step.
fn add_registers(step: &mut model::Step, registers: &Bound<'_, PyAny>, isa: Isa) -> PyResult<()> {
    if let Ok(registers) = registers.cast::<PyMapping>() {
        return registers.items()?.iter().try_for_each(|item| {
            let (name, value): (String, Bound<'_, PyAny>) = item.extract()?;
            match value.extract::<u64>() {
                Ok(number) => step.write_register(&name, 0, &general(number, isa)?),
                Err(_) => step.write_register(&name, 0, &bytes(&value)?),
            }
            Ok(())
        });
    }
    for write in registers.try_iter()? {
        write?.cast::<RegisterWrite>()?.get().add_to(step);
    }
    Ok(())
}

/// A number in a general register.
fn general(number: u64, isa: Isa) -> PyResult<Vec<u8>> {
    if number > isa.address_mask() {
        return Err(PyValueError::new_err(format!("{number:#x} does not fit into a register of {}", isa.name())));
    }
    let size = if isa.address_mask() == u64::MAX { 8 } else { 4 };
    Ok(number.to_le_bytes()[..size].to_vec())
}

/// Bytes. A list is refused: it could be meant for several things.
fn bytes(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let of_bytes = |_| PyTypeError::new_err(format!("bytes or a number is wanted, not {value:?}"));
    value.cast::<pyo3::types::PyBytes>().map(|bytes| bytes.as_bytes().to_vec()).map_err(of_bytes)
}
