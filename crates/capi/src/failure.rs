//! The border: no panic crosses it, and the reason of a failure stays on the thread that met it.

use std::any::Any;
use std::cell::RefCell;
use std::error::Error as _;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use unspool::Error;

use crate::status::UnspoolStatus;

/// Why a function fails.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: UnspoolStatus,
    message: String,
}

thread_local! {
    /// Reason of the last failure on this thread.
    static MESSAGE: RefCell<CString> = RefCell::default();
}

impl Failure {
    pub(crate) fn new(status: UnspoolStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref().map(String::as_str));
        Self::new(UnspoolStatus::Panic, format!("defect of unspool: {}", text.unwrap_or("panic")))
    }

    /// Keeps the message for the caller.
    fn report(self) -> UnspoolStatus {
        let message = CString::new(self.message.replace('\0', "\u{fffd}")).unwrap_or_default();
        // While a thread ends, it may have no memory of its own any more.
        let _ = MESSAGE.try_with(|last| last.replace(message));
        self.status
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(UnspoolStatus::of(&error), with_causes(&error))
    }
}

/// Message of an error, with those of its causes that it does not end with.
fn with_causes(error: &Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.ends_with(&text) {
            message = format!("{message}: {text}");
        }
        cause = error.source();
    }
    message
}

/// Runs the body of a function. A panic ends here.
pub(crate) fn guard(body: impl FnOnce() -> Result<UnspoolStatus, Failure>) -> UnspoolStatus {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => status,
        Ok(Err(failure)) => failure.report(),
        Err(panic) => Failure::of_panic(&*panic).report(),
    }
}

/// Reason of the last failure on this thread: UTF-8, and empty if there was none. Valid until the next call on this
/// thread that fails; UNSPOOL_STATUS_END and UNSPOOL_STATUS_ABSENT are no failures.
#[unsafe(no_mangle)]
pub extern "C" fn unspool_error_message() -> *const c_char {
    MESSAGE.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn message() -> String {
        // SAFETY: the text ends with NUL, and nothing fails on this thread while it is read.
        unsafe { CStr::from_ptr(unspool_error_message()) }.to_str().unwrap().to_string()
    }

    #[test]
    fn a_panic_is_a_status() {
        assert_eq!(guard(|| panic!("a defect in {}", "a test")), UnspoolStatus::Panic);
        assert_eq!(message(), "defect of unspool: a defect in a test");
        assert_eq!(guard(|| panic!("no arguments")), UnspoolStatus::Panic);
        assert_eq!(message(), "defect of unspool: no arguments");
        assert_eq!(guard(|| std::panic::panic_any(7)), UnspoolStatus::Panic);
        assert_eq!(message(), "defect of unspool: panic");
    }

    #[test]
    fn messages_belong_to_their_thread() {
        assert_eq!(guard(|| Err(Failure::new(UnspoolStatus::Other, "a\0b"))), UnspoolStatus::Other);
        assert_eq!(message(), "a\u{fffd}b");
        assert_eq!(std::thread::spawn(message).join().unwrap(), "");
        assert_eq!(guard(|| Ok(UnspoolStatus::End)), UnspoolStatus::End);
        assert_eq!(message(), "a\u{fffd}b");
    }
}
