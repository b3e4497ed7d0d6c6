//! Calls to a backend that may panic.

use super::error::Panicked;
use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

thread_local! {
    /// Whether this thread is inside of [`catch_panic`].
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Stops the printing of panics that `catch_panic` catches: the caller receives their text, and a guest could
/// cause any number of them. Sets the panic hook of the whole process, so call this only at the start of a
/// process that runs nothing but Sandmill.
pub fn quiet_panics() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !GUARDED.get() {
            usual(info);
        }
    }));
}

/// Calls a function, and returns its panic as an error. The function must not leave inconsistent state that
/// is used after a panic.
///
/// # Errors
/// The text of the panic.
pub(super) fn catch_panic<T>(call: impl FnOnce() -> T) -> Result<T, Panicked> {
    let previous = GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(call));
    GUARDED.set(previous);
    result.map_err(|panic| Panicked(panic_text(&*panic)))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it aborted without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn only_caught_panics_are_silenced() {
        let printed = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&printed);
        panic::set_hook(Box::new(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        }));
        quiet_panics();
        assert_eq!(catch_panic(|| 5), Ok(5));
        let panicked = |text: &str| Err(Panicked(text.to_owned()));
        assert_eq!(catch_panic(|| -> u32 { panic!("one of {}", 2) }), panicked("one of 2"));
        assert_eq!(catch_panic(|| -> u32 { panic!("plainly") }), panicked("plainly"));
        assert_eq!(printed.load(Ordering::Relaxed), 0);
        assert!(panic::catch_unwind(|| panic!("not guarded")).is_err());
        assert_eq!(printed.load(Ordering::Relaxed), 1);
    }
}
