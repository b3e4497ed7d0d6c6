//! Rust panics: condenses the panic message that a guest wrote to one line, and names the guest's function
//! that led to it.

use wasmtime::WasmBacktrace;

/// The type whose functions the SDK's `export!` generates in the entry script's own crate.
const GENERATED_TYPE: &str = "__SandmillComponent";

/// The last panic message in what a guest wrote to stderr, on one line: ` at src/lib.rs:10:5: boom`. For a
/// panic in another crate, the line also names the innermost function of the entry script's own crate in the
/// backtrace.
pub(super) fn last_panic(stderr: &str, backtrace: Option<&WasmBacktrace>) -> Option<String> {
    let (_, panic) = stderr.rsplit_once("panicked at ")?;
    let mut lines = panic.lines();
    let location = lines.next()?.trim_end().trim_end_matches(':');
    let message: Vec<&str> = lines
        .take_while(|line| !line.starts_with("note: ") && !line.starts_with("stack backtrace:"))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let separator = if message.is_empty() { "" } else { ": " };
    let caller = match is_foreign(location) {
        true => backtrace.and_then(|backtrace| caller(&calls(backtrace))).unwrap_or_default(),
        false => String::new(),
    };
    Some(format!(" at {}{caller}{separator}{}", shortened(location), message.join(" ")))
}

/// Whether the location is in another package. Cargo uses absolute paths for the files of other packages, and
/// relative paths for the package that it builds.
fn is_foreign(location: &str) -> bool {
    location.starts_with('/')
}

/// Removes the folders above the crate from a path, because these folders differ between machines.
fn shortened(location: &str) -> &str {
    let after = |marker: &str, skipped: usize| {
        let (_, rest) = location.split_once(marker)?;
        rest.splitn(skipped + 1, '/').nth(skipped)
    };
    if !is_foreign(location) {
        return location;
    }
    // The forms are ~/.cargo/registry/src/INDEX/CRATE-VERSION/.., ~/.cargo/git/checkouts/REPOSITORY/COMMIT/..
    // and /rustc/COMMIT/library/..
    after("/registry/src/", 1)
        .or_else(|| after("/git/checkouts/", 2))
        .or_else(|| location.strip_prefix("/rustc/")?.split_once('/').map(|(_, rest)| rest))
        .unwrap_or(location)
}

/// A call in a backtrace.
#[derive(Debug)]
struct Call {
    /// The function's name, without its hash.
    name: String,
    /// File and line, if the guest has debug information.
    line: Option<String>,
}

/// All calls, innermost first. Includes inlined calls if debug information has them.
fn calls(backtrace: &WasmBacktrace) -> Vec<Call> {
    let demangled = |name: &str| format!("{:#}", rustc_demangle::demangle(name));
    let mut calls = Vec::new();
    for frame in backtrace.frames() {
        for symbol in frame.symbols() {
            let line =
                symbol.file().zip(symbol.line()).map(|(file, line)| format!("{file}:{line}"));
            calls.extend(symbol.name().map(|name| Call { name: demangled(name), line }));
        }
        if frame.symbols().is_empty() {
            calls.extend(frame.func_name().map(|name| Call { name: demangled(name), line: None }));
        }
    }
    calls
}

/// The innermost call in the entry script's own crate, for example `, called from churn::predict`.
fn caller(calls: &[Call]) -> Option<String> {
    let generated = calls.iter().position(|call| call.name.contains(GENERATED_TYPE))?;
    let own_crate = crate_of(&calls[generated].name);
    let call = calls[..generated].iter().find(|call| crate_of(&call.name) == own_crate)?;
    let line = call.line.as_ref().map(|line| format!(" ({line})")).unwrap_or_default();
    Some(format!(", called from {}{line}", call.name))
}

/// The crate of a function: `churn` for `churn::predict` and `<churn::Churn as
/// sandmill_guest::EntryScript>::run`.
fn crate_of(name: &str) -> &str {
    let name = name.trim_start_matches(['<', '&']);
    name.split_once("::").map_or(name, |(first, _)| first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_one_line() {
        let panic = |stderr| super::last_panic(stderr, None);
        let new = "thread '<unnamed>' (1) panicked at src/lib.rs:10:5:\nboom\nnote: run with `RUST_BACKTRACE=1`\n";
        assert_eq!(panic(new).as_deref(), Some(" at src/lib.rs:10:5: boom"));
        let two = format!("{new}\nthread 'main' panicked at src/a.rs:1:2:\nfirst\n  second\n");
        assert_eq!(panic(&two).as_deref(), Some(" at src/a.rs:1:2: first second"));
        assert_eq!(panic("all is well"), None);
        assert_eq!(panic("panicked at "), None);
        let foreign =
            "panicked at /home/u/.cargo/registry/src/index-1f/arrow-60.1.0/src/cast.rs:8:3:\nno\n";
        assert_eq!(panic(foreign).as_deref(), Some(" at arrow-60.1.0/src/cast.rs:8:3: no"));
    }

    #[test]
    fn paths_are_shortened_to_their_crate() {
        for (location, short) in [
            ("/rustc/17067e9ac6/library/core/src/option.rs:2:5", "library/core/src/option.rs:2:5"),
            ("/c/git/checkouts/arrow-1f/ab12/src/a.rs:1:1", "src/a.rs:1:1"),
            ("/home/u/other/src/lib.rs:1:1", "/home/u/other/src/lib.rs:1:1"),
            ("/registry/src/", "/registry/src/"),
            ("src/registry/src/a/lib.rs:1:1", "src/registry/src/a/lib.rs:1:1"),
        ] {
            assert_eq!(shortened(location), short);
        }
    }

    #[test]
    fn the_innermost_function_of_the_own_crate_is_named() {
        let calls = |names: &[&str]| -> Vec<Call> {
            names.iter().map(|&name| Call { name: name.to_owned(), line: None }).collect()
        };
        let glue = "<churn::_::_::__SandmillComponent as sandmill_guest::bindings::Guest>::run";
        let mut stack = calls(&[
            "core::panicking::panic_fmt",
            "arrow_array::cast::as_primitive",
            "<churn::Table as churn::Columns>::age",
            "core::iter::map",
            "<churn::Churn as sandmill_guest::EntryScript>::run",
            "sandmill_guest::component::run",
            glue,
        ]);
        let found = caller(&stack);
        assert_eq!(found.as_deref(), Some(", called from <churn::Table as churn::Columns>::age"));
        stack[2].line = Some("/home/u/churn/src/lib.rs:12".to_owned());
        assert!(caller(&stack).unwrap().ends_with("::age (/home/u/churn/src/lib.rs:12)"));
        // No caller is found if everything was inlined, or the SDK did not make the component.
        assert_eq!(caller(&calls(&["arrow_array::cast::as_primitive", glue])), None);
        assert_eq!(caller(&calls(&["arrow_array::cast::as_primitive", "churn::run"])), None);
        assert_eq!(caller(&[]), None);
    }
}
