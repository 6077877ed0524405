//! The arguments of the plugin: `out=PATH`, `memory=PATH`, `from=ADDRESS`, `from-code=OFFSET`, `skip=N`, `limit=N`,
//! `log=PATH`, `data=on`, `registers=on`, `processes=on`, or `idle=on`.

/// Selection of what is recorded, and the output.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// A socket or a file.
    pub(crate) out: String,
    /// A file in shared memory with buffers for records.
    pub(crate) memory: Option<String>,
    /// Address where recording starts, when the instruction there is first executed.
    pub(crate) from: Option<From>,
    /// Instructions of each thread to skip.
    pub(crate) skip: u64,
    /// Maximum number of instructions to record of each thread.
    pub(crate) limit: Option<u64>,
    /// Of a system, the log of exceptions; `%d` is the number of a thread.
    pub(crate) log: Option<String>,
    /// Record the data of accesses, if the emulator reports it.
    pub(crate) has_data: bool,
    /// Record the values that instructions write to registers.
    pub(crate) has_registers: bool,
    /// Of a system, record times, and at the start the registers that the process follows from.
    pub(crate) has_processes: bool,
    /// Record nothing, with an empty callback for every instruction and access. A baseline for measurements.
    pub(crate) is_idle: bool,
}

/// An address.
#[derive(Debug, Clone, Copy)]
pub(crate) enum From {
    /// An address of the program.
    Address(u64),
    /// An offset from the start of the program's code, wherever it was loaded.
    Code(u64),
}

impl Options {
    pub(crate) fn read<'a>(arguments: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut options = Self::default();
        for argument in arguments {
            let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
            let number = || number(value).ok_or_else(|| format!("'{argument}': not a number"));
            match name {
                "out" => options.out = value.to_string(),
                "memory" => options.memory = Some(value.to_string()),
                "from" => options.from = Some(From::Address(number()?)),
                "from-code" => options.from = Some(From::Code(number()?)),
                "skip" => options.skip = number()?,
                "log" => options.log = Some(value.to_string()),
                "data" => options.has_data = value == "on",
                "registers" => options.has_registers = value == "on",
                "processes" => options.has_processes = value == "on",
                "idle" => options.is_idle = value == "on",
                "limit" => options.limit = Some(number()?),
                _ => return Err(format!("'{argument}': unknown argument")),
            }
        }
        if options.out.is_empty() && !options.is_idle {
            return Err("out=PATH is missing".into());
        }
        Ok(options)
    }
}

/// A decimal number, or a hexadecimal one after 0x.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
