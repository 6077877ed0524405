//! Settings of a trace unit of any protocol.

use unspool_coresight::trace_buffer::{BufferSettings, TriggerMode};
use unspool_coresight::{Protocol, etm3, etm4, ptm};

/// Types of an ETMv3, by its minor version.
const ETM3: [&str; 6] = ["ETM3.0", "ETM3.1", "ETM3.2", "ETM3.3", "ETM3.4", "ETM3.5"];

/// Settings of the model of a trace unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitSettings {
    /// An ETE or an ETMv4.
    Etm4(etm4::unit::Settings),
    /// A PTM.
    Ptm(ptm::unit::Settings),
    /// An ETMv3.
    Etm3(etm3::unit::Settings),
}

impl From<etm4::unit::Settings> for UnitSettings {
    fn from(settings: etm4::unit::Settings) -> Self {
        Self::Etm4(settings)
    }
}

impl From<ptm::unit::Settings> for UnitSettings {
    fn from(settings: ptm::unit::Settings) -> Self {
        Self::Ptm(settings)
    }
}

impl From<etm3::unit::Settings> for UnitSettings {
    fn from(settings: etm3::unit::Settings) -> Self {
        Self::Etm3(settings)
    }
}

impl UnitSettings {
    /// A trace unit that traces the program flow of everything and nothing else. `None`: there is no model for the protocol.
    pub fn new(protocol: Protocol) -> Option<Self> {
        match protocol {
            Protocol::Ete | Protocol::Etm4 => Some(Self::Etm4(etm4::unit::Settings::new(protocol))),
            Protocol::Ptm => Some(Self::Ptm(ptm::unit::Settings::default())),
            Protocol::Etm3 => Some(Self::Etm3(etm3::unit::Settings::default())),
            _ => None,
        }
    }

    /// The protocol.
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Etm4(settings) => settings.protocol,
            Self::Ptm(_) => Protocol::Ptm,
            Self::Etm3(_) => Protocol::Etm3,
        }
    }

    /// Sets a register by its architectural name. False: the model does not have the register.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        match self {
            Self::Etm4(settings) => settings.set(name, value),
            Self::Ptm(settings) => settings.set(name, value),
            Self::Etm3(settings) => settings.set(name, value),
        }
    }

    /// The value of a register, if it has one.
    pub fn get(&self, name: &str) -> Option<u64> {
        match self {
            Self::Etm4(settings) => settings.get(name),
            Self::Ptm(settings) => settings.get(name),
            Self::Etm3(settings) => settings.get(name),
        }
    }

    /// All registers that have a value.
    pub fn registers(&self) -> Vec<(&str, u64)> {
        match self {
            Self::Etm4(settings) => settings.registers().collect(),
            Self::Ptm(settings) => settings.registers().collect(),
            Self::Etm3(settings) => settings.registers().collect(),
        }
    }

    /// Features that the registers enable and the model does not implement, each with its register.
    pub fn unmodeled(&self) -> Vec<(String, &'static str)> {
        let owned = |(register, what): (&str, _)| (register.to_string(), what);
        match self {
            Self::Etm4(settings) => settings.unmodeled(),
            Self::Ptm(settings) => settings.unmodeled().into_iter().map(owned).collect(),
            Self::Etm3(settings) => settings.unmodeled().into_iter().map(owned).collect(),
        }
    }

    /// The reason why the trace could not be decoded, if there is one.
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Etm4(settings) => settings.refusal(),
            Self::Ptm(settings) => settings.refusal(),
            Self::Etm3(settings) => settings.refusal(),
        }
    }

    /// Sets the seed of overflows.
    pub fn set_overflow_seed(&mut self, seed: Option<u64>) {
        match self {
            Self::Etm4(settings) => settings.overflow_seed = seed,
            Self::Ptm(settings) => settings.overflow_seed = seed,
            Self::Etm3(settings) => settings.overflow_seed = seed,
        }
    }

    /// Connects the trace unit to a trace buffer. Returns whether each of them has to see at once what the other one does.
    pub(super) fn connect(&mut self, buffer: &BufferSettings) -> bool {
        let Self::Etm4(settings) = self else { return false };
        settings.signals_triggers = buffer.trigger != TriggerMode::Ignore || settings.sees_buffer();
        settings.signals_triggers
    }

    /// Whether instructions are lost to overflows.
    pub fn has_overflows(&self) -> bool {
        match self {
            Self::Etm4(settings) => settings.overflow_seed.is_some(),
            Self::Ptm(settings) => settings.overflow_seed.is_some(),
            Self::Etm3(settings) => settings.overflow_seed.is_some(),
        }
    }

    /// Whether timestamps are traced.
    pub fn has_timestamps(&self) -> bool {
        match self {
            Self::Etm4(settings) => settings.config().timestamps,
            Self::Ptm(settings) => settings.config().timestamps,
            Self::Etm3(settings) => settings.config().timestamps,
        }
    }

    /// Whether context identifiers are traced.
    pub(super) fn traces_context_ids(&self) -> bool {
        match self {
            Self::Etm4(settings) => settings.get("TRCCONFIGR").is_some_and(|value| value & 1 << 6 != 0),
            Self::Ptm(settings) => settings.config().context_id_bytes > 0,
            Self::Etm3(settings) => settings.config().context_id_bytes > 0,
        }
    }

    /// Whether data of loads and stores are traced.
    pub(super) fn traces_data(&self) -> bool {
        match self {
            Self::Etm3(settings) => settings.config().data_addresses || settings.config().data_values,
            Self::Etm4(_) | Self::Ptm(_) => false,
        }
    }

    /// Whether software may write values into the trace.
    pub(super) fn traces_instrumentation(&self) -> bool {
        if let Self::Etm4(settings) = self { settings.traces_instrumentation() } else { false }
    }

    /// Whether context and virtual context identifiers are traced or compared.
    pub(super) fn needs_ids(&self) -> (bool, bool) {
        match self {
            Self::Etm4(settings) => (settings.asks_for_context_ids(), settings.asks_for_vmids()),
            Self::Ptm(settings) => (self.traces_context_ids(), settings.config().vmids),
            Self::Etm3(settings) => (self.traces_context_ids(), settings.config().vmids),
        }
    }

    /// Name of the register with the trace id.
    pub(super) fn trace_id_register(&self) -> &'static str {
        if matches!(self, Self::Etm4(_)) { "TRCTRACEIDR" } else { "ETMTRACEIDR" }
    }

    /// Types of the trace unit and of a core that has one, in device files.
    pub(super) fn device_types(&self) -> (&'static str, &'static str) {
        match self {
            Self::Etm4(settings) if settings.protocol == Protocol::Ete => ("ETE", "ARM-AA64"),
            Self::Etm4(_) => ("ETM4.2", "ARM-AA64"),
            Self::Ptm(settings) if settings.config().version.minor == 0 => ("PTM1.0", "Cortex-A9"),
            Self::Ptm(_) => ("PTM1.1", "Cortex-A15"),
            Self::Etm3(settings) => (ETM3[usize::from(settings.config().minor.min(5))], "Cortex-A7"),
        }
    }
}
