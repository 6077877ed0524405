//! The state of the PE: what the source tells of it, what follows from instructions, and what the user vouches for.

use unspool_model::{Context, Modes, Security};

use super::super::builder::{Process, State};
use super::word;

/// Has a context to be written before the next instruction?
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Due {
    #[default]
    No,
    /// If it says something new.
    IfNew,
    Yes,
}

/// What is known of the state.
#[derive(Debug)]
pub(super) struct Known {
    /// What the source said last.
    told: Context,
    assumed: Context,
    /// Which stack pointer is used, told or derived.
    handler: Option<bool>,
    /// Told, derived or assumed.
    modes: Modes,
    /// The source tells of stack pointers and of modes, so nothing is derived.
    tells_handler: bool,
    tells_modes: bool,
    /// A context is to be written.
    pub(super) due: Due,
    /// Execution was redirected behind the last context and the last instruction.
    pub(super) is_redirected: bool,
    /// The context that is to be written said all that one has to say.
    is_whole: bool,
    /// It did not say whether it is one of AArch64.
    is_vague: bool,
}

impl Known {
    pub(super) fn new(assumed: Context) -> Self {
        Self {
            told: Context::default(),
            assumed,
            handler: None,
            modes: assumed.modes.unwrap_or_default(),
            tells_handler: false,
            tells_modes: false,
            due: Due::Yes,
            is_redirected: false,
            is_whole: false,
            is_vague: false,
        }
    }

    /// The source tells a context.
    pub(super) fn tell(&mut self, context: &Context, is_basic: bool) {
        let before = self.told;
        self.told = context.over(&before);
        let is_whole = is_whole(context);
        if is_whole {
            // What says all the rest has no process if it names none.
            (self.told.process, self.told.thread) = (context.process, context.thread);
        }
        (self.is_whole, self.is_vague) = (is_whole, is_whole && context.is_aarch64.is_none());
        let is_derived = self.is_redirected && !self.tells_handler;
        if let Some(handler) = context.is_handler {
            (self.handler, self.tells_handler) = (Some(handler), true);
        } else if (self.told.level != before.level || self.is_redirected) && !is_derived
            || context.is_aarch64 == Some(false)
        {
            // AArch32 has no such choice, and who else tells of it is silent here.
            self.handler = None;
        }
        if let Some(modes) = context.modes {
            (self.modes, self.tells_modes) = (modes, true);
        }
        let must = is_basic || self.is_redirected;
        self.due = self.due.max(if must { Due::Yes } else { Due::IfNew });
    }

    /// A context waits that said everything: what follows may be written behind it.
    pub(super) fn waits(&self) -> bool {
        self.due != Due::No && self.is_whole
    }

    /// The context that waits did not say whether it is one of AArch64.
    pub(super) fn is_vague(&self) -> bool {
        self.waits() && self.is_vague
    }

    /// An instruction of AArch64 comes, or one of AArch32.
    #[inline]
    pub(super) fn execute(&mut self, is_aarch64: bool) {
        let before = self.told.is_aarch64.replace(is_aarch64);
        if before == Some(!is_aarch64) {
            self.due = Due::Yes;
        }
    }

    /// It was said to be AArch64.
    pub(super) fn is_aarch64(&self) -> bool {
        self.told.is_aarch64 == Some(true)
    }

    /// It was said to be AArch32.
    pub(super) fn is_aarch32(&self) -> bool {
        self.told.is_aarch64 == Some(false)
    }

    /// An exception was taken, which selects the stack pointer of the Exception level; or it returned.
    pub(super) fn redirect(&mut self, is_exception: bool) {
        self.is_redirected = true;
        if !self.tells_handler {
            self.handler = is_exception.then_some(true);
        }
    }

    /// An instruction may have set something that the source does not tell of.
    pub(super) fn set(&mut self, opcode: u32) {
        let (mut handler, mut modes) = (self.handler, self.modes);
        word::set(opcode, &mut handler, &mut modes);
        if !self.tells_handler && handler != self.handler {
            (self.handler, self.due) = (handler, self.due.max(Due::IfNew));
        }
        if !self.tells_modes && modes != self.modes {
            (self.modes, self.due) = (modes, self.due.max(Due::IfNew));
        }
    }

    /// Somebody says how long vectors are.
    pub(super) fn has_modes(&self) -> bool {
        self.tells_modes || self.assumed.modes.is_some()
    }

    /// A thread is known, and its process is not.
    pub(super) fn is_thread_alone(&self) -> bool {
        self.told.thread.is_some() && self.told.process.or(self.assumed.process).is_none()
    }

    pub(super) fn level(&self) -> Option<u8> {
        self.told.level.or(self.assumed.level)
    }

    /// The stack pointer is that of Exception level `el`, at which this is.
    fn handler(&self, el: u8) -> Option<bool> {
        self.handler.or((el == 0).then_some(false)).or(self.assumed.is_handler)
    }

    /// The Exception level whose stack pointer is in use.
    pub(super) fn stack(&self) -> Option<u8> {
        let el = self.level()?;
        self.handler(el).map(|handler| if handler { el } else { 0 })
    }

    /// The state as the format has it, or why it cannot be told.
    pub(super) fn state(&self) -> Result<State, &'static str> {
        let el = self.level().ok_or("nobody says at which Exception level this is: assume one (--assume el=0..3)")?;
        let secure = match self.told.security.or(self.assumed.security) {
            Some(Security::Secure) => true,
            Some(Security::NonSecure) => false,
            Some(Security::Root | Security::Realm) => {
                return Err("ASTF has no Root and no Realm state: leave such instructions out");
            }
            None => {
                return Err(
                    "nobody says in which Security state this is: assume one (--assume security=secure|nonsecure)",
                );
            }
        };
        let handler =
            self.handler(el).ok_or("nobody says which stack pointer is used: assume one (--assume sp=0|x)")?;
        Ok(State { el, secure, handler, ..self.rest() })
    }

    /// The same of a mode that the format does not support: what is known of it.
    pub(super) fn unsupported(&self) -> State {
        let secure = self.told.security.or(self.assumed.security) == Some(Security::Secure);
        let (el, handler) = (self.level().unwrap_or(0), self.handler.unwrap_or(false));
        State { el, secure, handler, unsupported: true, ..self.rest() }
    }

    fn rest(&self) -> State {
        let Modes { streaming, dit, ssbs, vector_length, tag_check_fault } = self.modes;
        let process = self.told.process.or(self.assumed.process);
        let tid = self.told.thread.or(self.assumed.thread);
        let process = process.map(|pid| Process { pid, tid });
        State { evl: vector_length, streaming, dit, ssbs, tag_check_fault, process, ..State::default() }
    }

    /// The context was written.
    pub(super) fn written(&mut self) {
        (self.due, self.is_whole, self.is_vague, self.is_redirected) = (Due::No, false, false, false);
    }
}

/// Does it say all that the format has to say?
pub(super) fn is_whole(context: &Context) -> bool {
    context.level.is_some() && context.security.is_some()
}
