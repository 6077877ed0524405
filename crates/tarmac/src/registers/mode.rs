//! Modes as instruction lines print them: `svc_s`, `EL3h_s`, `el0t_ns`, `thread`, `---_-`.

use unspool_model::Security;

/// Mode of execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Mode {
    /// Exception level or mode.
    pub level: Level,
    /// The Security state; `None`: the line has none.
    pub security: Option<Security>,
}

/// An AArch64 Exception level, an AArch32 mode or an M-profile mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Level {
    /// Unknown.
    #[default]
    Unknown,
    /// An AArch64 Exception level, with its own stack pointer (`h`) or that of EL0 (`t`).
    El {
        /// 0 to 3.
        el: u8,
        /// `h`: the stack pointer of the level; `None`: unknown.
        own_stack: Option<bool>,
    },
    /// User.
    Usr,
    /// System.
    Sys,
    /// Supervisor.
    Svc,
    /// Abort.
    Abt,
    /// Undefined.
    Und,
    /// Interrupt.
    Irq,
    /// Fast interrupt.
    Fiq,
    /// Hyp.
    Hyp,
    /// Monitor.
    Mon,
    /// Thread mode of M-profile.
    Thread,
    /// Handler mode of M-profile.
    Handler,
}

impl Mode {
    /// Parses a mode, ignoring case.
    pub fn of(text: &[u8]) -> Self {
        let (level, security) = match text.iter().position(|byte| *byte == b'_') {
            Some(at) => (&text[..at], security_of(&text[at + 1..])),
            None => (text, None),
        };
        Self { level: Level::of(level), security }
    }

    /// The Exception level. AArch32 modes imply one, except that those of Secure state are at EL1 or EL3 depending on the
    /// state of EL3. M-profile modes have none.
    pub fn exception_level(self) -> Option<u8> {
        match self.level {
            Level::El { el, .. } => Some(el),
            Level::Usr => Some(0),
            Level::Sys | Level::Svc | Level::Abt | Level::Und | Level::Irq | Level::Fiq => {
                (self.security == Some(Security::NonSecure)).then_some(1)
            }
            Level::Hyp => Some(2),
            Level::Mon => Some(3),
            Level::Thread | Level::Handler | Level::Unknown => None,
        }
    }

    /// Name of the Security state.
    pub fn security_name(self) -> Option<&'static str> {
        self.security.map(|security| match security {
            Security::Secure => "secure",
            Security::NonSecure => "nonsecure",
            Security::Root => "root",
            Security::Realm => "realm",
        })
    }
}

/// Names of the AArch64 levels: with the stack pointer of EL0, with their own, and with an unknown one.
const ELS: [[&str; 3]; 4] = [["el0t"; 3], ["el1t", "el1h", "el1"], ["el2t", "el2h", "el2"], ["el3t", "el3h", "el3"]];

impl Level {
    fn of(text: &[u8]) -> Self {
        let mut lower = [0; 8];
        let Some(lower) = lower.get_mut(..text.len()) else { return Self::Unknown };
        lower.copy_from_slice(text);
        lower.make_ascii_lowercase();
        match &*lower {
            [b'e', b'l', el @ b'0'..=b'3', stack @ (b't' | b'h')] => {
                Self::El { el: el - b'0', own_stack: Some(*stack == b'h') }
            }
            b"el0" => Self::El { el: 0, own_stack: Some(false) },
            [b'e', b'l', el @ b'1'..=b'3'] | [b'e', b'l', el @ b'1'..=b'3', b'-'] => {
                Self::El { el: el - b'0', own_stack: None }
            }
            b"usr" => Self::Usr,
            b"sys" => Self::Sys,
            b"svc" => Self::Svc,
            b"abt" => Self::Abt,
            b"und" => Self::Und,
            b"irq" => Self::Irq,
            b"fiq" => Self::Fiq,
            b"hyp" => Self::Hyp,
            b"mon" => Self::Mon,
            b"thread" | b"thrd" => Self::Thread,
            b"handler" | b"hndlr" | b"hdlr" => Self::Handler,
            _ => Self::Unknown,
        }
    }

    /// Name of the level.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::El { el, own_stack } => ELS[usize::from(el.min(3))][own_stack.map_or(2, usize::from)],
            Self::Usr => "usr",
            Self::Sys => "sys",
            Self::Svc => "svc",
            Self::Abt => "abt",
            Self::Und => "und",
            Self::Irq => "irq",
            Self::Fiq => "fiq",
            Self::Hyp => "hyp",
            Self::Mon => "mon",
            Self::Thread => "thread",
            Self::Handler => "handler",
        }
    }
}

fn security_of(text: &[u8]) -> Option<Security> {
    let is = |names: &[&[u8]]| names.iter().any(|name| text.eq_ignore_ascii_case(name));
    match () {
        () if is(&[b"s"]) => Some(Security::Secure),
        () if is(&[b"ns", b"n"]) => Some(Security::NonSecure),
        () if is(&[b"rt", b"root"]) => Some(Security::Root),
        () if is(&[b"rl", b"realm", b"r"]) => Some(Security::Realm),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        let el = |el, own_stack| Level::El { el, own_stack };
        let rows = [
            ("svc_s", Level::Svc, Some(Security::Secure)),
            ("svc", Level::Svc, None),
            ("hyp_n", Level::Hyp, Some(Security::NonSecure)),
            ("EL3h_s", el(3, Some(true)), Some(Security::Secure)),
            ("el0t_ns", el(0, Some(false)), Some(Security::NonSecure)),
            ("el3t_rt", el(3, Some(false)), Some(Security::Root)),
            ("el2_ns", el(2, None), Some(Security::NonSecure)),
            ("el1-_-", el(1, None), None),
            ("EL0", el(0, Some(false)), None),
            ("thrd_s", Level::Thread, Some(Security::Secure)),
            ("handler", Level::Handler, None),
            ("---_-", Level::Unknown, None),
            ("", Level::Unknown, None),
            ("an unknown mode", Level::Unknown, None),
        ];
        for (text, level, security) in rows {
            assert_eq!(Mode::of(text.as_bytes()), Mode { level, security }, "{text}");
        }
    }
}
