//! The arguments that the emulator hands over: `out=PATH`, `memory=PATH`, `from=ADDRESS`, `from-code=OFFSET`, `skip=N`, `limit=N`,
//! `log=PATH`, `data=on`, `registers=on`, or `idle=on`.

/// What to record, and where it goes.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// A socket that somebody listens at, or a file.
    pub(crate) out: String,
    /// A file in memory with buffers that are lent to us.
    pub(crate) memory: Option<String>,
    /// Recording starts when the instruction there is executed for the first time.
    pub(crate) from: Option<From>,
    /// So many instructions of each thread are left out.
    pub(crate) skip: u64,
    /// So many instructions of each thread are recorded.
    pub(crate) limit: Option<u64>,
    /// Of a system, where the emulator logs exceptions; `%d` stands for the number of a thread.
    pub(crate) log: Option<String>,
    /// What is read and written is told, if the emulator tells it.
    pub(crate) has_data: bool,
    /// What instructions write into registers is told.
    pub(crate) has_registers: bool,
    /// Nothing is recorded: every instruction and every access is told to us, and we do nothing. To measure against.
    pub(crate) is_idle: bool,
}

/// An address.
#[derive(Debug, Clone, Copy)]
pub(crate) enum From {
    /// As the program sees it.
    Address(u64),
    /// Counted from where the code of the program starts, wherever it was loaded.
    Code(u64),
}

impl Options {
    /// Reads them; what is wrong is told.
    pub(crate) fn read<'a>(arguments: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut options = Self::default();
        for argument in arguments {
            let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
            let number = || number(value).ok_or_else(|| format!("'{argument}': this is no number"));
            match name {
                "out" => options.out = value.to_string(),
                "memory" => options.memory = Some(value.to_string()),
                "from" => options.from = Some(From::Address(number()?)),
                "from-code" => options.from = Some(From::Code(number()?)),
                "skip" => options.skip = number()?,
                "log" => options.log = Some(value.to_string()),
                "data" => options.has_data = value == "on",
                "registers" => options.has_registers = value == "on",
                "idle" => options.is_idle = value == "on",
                "limit" => options.limit = Some(number()?),
                _ => return Err(format!("'{argument}': there is no such argument")),
            }
        }
        if options.out.is_empty() && !options.is_idle {
            return Err("out=PATH is missing".into());
        }
        Ok(options)
    }
}

/// Decimal, or hexadecimal behind 0x.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
