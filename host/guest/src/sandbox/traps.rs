//! Turns wasmtime's errors into failures with advice for the user.

use super::counted::OverLimit;
use super::limits::{GrowthRefusal, too_many_parts};
use super::nn::CallEnd;
use super::panics::last_panic;
use super::types::ErrorText;
use crate::compile::MAX_FRAMES;
use crate::model::{ByteSize, Failure, FailureKind, Limits, with_errno_names};
use std::fmt::Write as _;
use wasmtime::{Error, ThrownException, Trap, WasmBacktrace};
use wasmtime_wasi::{I32Exit, ResourceTableError};

/// The engine's message if an instance has too many handles. The engine has no type for this error.
const TOO_MANY_HANDLES: &str = "store handle limit exceeded";
/// The engine's message if one call copies too many bytes.
const TOO_MUCH_COPIED: &str = "fuel allocated for hostcalls has been exhausted";

/// What is known about a call that ended with an error.
pub(super) struct TrapContext<'a> {
    /// The function: `init`, `run`, `shutdown`, or `starting` for the instantiation.
    pub(super) function: &'static str,
    pub(super) limits: &'a Limits,
    /// A memory growth that was refused during the call.
    pub(super) refusal: Option<GrowthRefusal>,
    /// The text that the guest wrote to stderr during the call, or the end of that text.
    pub(super) stderr: String,
}

impl TrapContext<'_> {
    fn during(&self) -> String {
        match self.function {
            "starting" => "while it was started".to_owned(),
            function => format!("in {function}"),
        }
    }
}

/// Turns a wasmtime error into a failure.
pub(super) fn failure(error: &Error, context: &TrapContext<'_>) -> Failure {
    let (kind, message) = classify(error, context);
    Failure::new(kind, message).with_detail(detail(error, &context.stderr))
}

fn classify(error: &Error, context: &TrapContext<'_>) -> (FailureKind, String) {
    let during = context.during();
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return (FailureKind::Exit, exit_message(exit.0, &during));
    }
    if let Some(CallEnd { kind, message }) = error.downcast_ref() {
        return (*kind, format!("inference failed {during}: {message}"));
    }
    if let Some(refusal) = context.refusal {
        return (FailureKind::OutOfMemory, out_of_memory(refusal, context.limits, &during));
    }
    if let Some(message) = over_limit(error, context, &during) {
        return (FailureKind::OverLimit, message);
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => {
            let fuel = context.limits.fuel.unwrap_or(u64::MAX);
            let text = format!(
                "the entry script used up its fuel {during}: limits.fuel allows {fuel} for one \
                 call. Raise the limit, or look for a loop that does not end"
            );
            (FailureKind::OutOfFuel, text)
        }
        Some(Trap::StackOverflow) => {
            let text = format!(
                "the entry script's stack overflowed {during}: limits.stack allows {}. Use \
                 less recursion, or raise the limit",
                context.limits.stack
            );
            (FailureKind::Trap, text)
        }
        trap => {
            let text = match (last_panic(&context.stderr, error.downcast_ref()), trap) {
                (Some(panic), _) => {
                    format!("the entry script panicked {during}{}", with_errno_names(&panic))
                }
                (None, Some(trap)) => {
                    format!("the entry script trapped {during}: {}", describe_trap(*trap))
                }
                (None, None) if error.is::<ThrownException>() => format!(
                    "the entry script threw an exception {during} and did not catch it. Have it catch the \
                     exception and return an error"
                ),
                (None, None) => format!("the entry script failed {during}: {}", root_cause(error)),
            };
            (FailureKind::Trap, text)
        }
    }
}

/// The message for a limit that has no failure kind of its own.
fn over_limit(error: &Error, context: &TrapContext<'_>, during: &str) -> Option<String> {
    if let Some(over) = error.downcast_ref::<OverLimit>() {
        return Some(over.message(during));
    }
    let text = root_cause(error);
    let is_table_full = matches!(error.downcast_ref(), Some(ResourceTableError::Full));
    if is_table_full || text.contains(TOO_MANY_HANDLES) {
        return Some(format!(
            "limits.handles allows {} open files and other handles at once; {during} the entry \
             script asked for more. Have it close what it does not need, or raise the limit",
            context.limits.handles
        ));
    }
    if text.contains(TOO_MUCH_COPIED) {
        return Some(format!(
            "limits.transfer allows {} in one call between host and entry script; {during} the entry \
             script handed over more. Have it hand over less at a time, or raise the limit",
            context.limits.transfer
        ));
    }
    too_many_parts(&text)
}

fn out_of_memory(refusal: GrowthRefusal, limits: &Limits, during: &str) -> String {
    if let Some(maximum) = refusal.maximum {
        let maximum = ByteSize(maximum).rounded();
        let held = ByteSize(refusal.used).rounded();
        let asked = ByteSize(refusal.asked).rounded();
        return format!(
            "the entry script ran out of memory {during}: its memory cannot grow beyond {maximum}, \
             although limits.memory allows {}; it held {held} and asked for {asked} more. Hold \
             less at a time: make mini_batch_size smaller",
            limits.memory
        );
    }
    format!(
        "the entry script ran out of memory {during}: limits.memory allows {}, it held {} and \
         asked for {} more. Raise the limit, or hold less at a time",
        limits.memory,
        ByteSize(refusal.used).rounded(),
        ByteSize(refusal.asked).rounded()
    )
}

/// The message for an exit. WASI 0.2 reports only success (0) or failure (1); newer versions also report
/// other codes.
fn exit_message(code: i32, during: &str) -> String {
    let code = match code {
        0 => "exit code 0".to_owned(),
        1 => "an exit code other than 0".to_owned(),
        code => format!("exit code {code}"),
    };
    format!("the entry script ended itself {during}, with {code}: return an error instead")
}

/// A trap's text, with the most frequent cause of the trap.
fn describe_trap(trap: Trap) -> String {
    let text = trap.to_string();
    let text = text.strip_prefix("wasm trap: ").unwrap_or(&text);
    let cause = match trap {
        Trap::UnreachableCodeReached => " (it aborted itself)",
        // Compilers put the stack at the start of the memory, so an overflow leaves the memory.
        Trap::MemoryOutOfBounds => " (an invalid pointer, or too much recursion)",
        _ => "",
    };
    format!("{text}{cause}")
}

/// The last cause of an error, without the backtrace that wasmtime puts first.
fn root_cause(error: &Error) -> String {
    error.chain().last().map_or_else(|| error.to_string(), ToString::to_string)
}

fn detail(error: &Error, stderr: &str) -> String {
    let mut text = String::new();
    if let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() {
        text.push_str(&describe_stack(backtrace));
    }
    let stderr = stderr.trim();
    if !stderr.is_empty() {
        let stderr = with_errno_names(stderr).replace('\n', "\n  ");
        let _ = write!(text, "stderr of the entry script:\n  {stderr}\n");
    }
    text
}

fn describe_stack(backtrace: &WasmBacktrace) -> String {
    let all_frames = backtrace.frames();
    if all_frames.is_empty() {
        return String::new();
    }
    // Leave out the frames of the panic machinery: only the function that panicked matters.
    let panicking = all_frames.iter().rposition(|frame| {
        let name = frame.func_name().map(|name| format!("{:#}", rustc_demangle::demangle(name)));
        name.is_some_and(|name| name.ends_with("core::panicking::panic_fmt"))
    });
    let frames = &all_frames[panicking.map_or(0, |index| index + 1)..];
    let mut text = String::from("stack of the entry script, innermost call first:\n");
    for (number, frame) in frames.iter().take(MAX_FRAMES).enumerate() {
        // A frame has several symbols if functions were inlined.
        let symbol = frame.symbols().first();
        let name = symbol.and_then(|symbol| symbol.name()).or(frame.func_name());
        let _ = match name {
            // The alternate form leaves out the hash, which is useless to the user.
            Some(name) => write!(text, "{number:4}: {:#}", rustc_demangle::demangle(name)),
            None => write!(text, "{number:4}: function {}", frame.func_index()),
        };
        if let Some((symbol, file)) = symbol.and_then(|s| s.file().map(|file| (s, file))) {
            let _ = write!(text, " at {file}:{}", symbol.line().unwrap_or(0));
        }
        text.push('\n');
    }
    text
}

/// The failure for an error that the entry script returned.
pub(super) fn script_error(function: &str, text: &ErrorText) -> Failure {
    let text = with_errno_names(text.0.trim());
    let mut lines = text.splitn(2, '\n');
    let first = match lines.next() {
        None | Some("") => format!("{function} returned an error without a text"),
        Some(first) => first.trim_end().to_owned(),
    };
    Failure::new(FailureKind::ScriptError, first).with_detail(lines.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_errors_are_split_into_line_and_detail() {
        let failure = script_error("run", &ErrorText("no model\nlooked in /x\n".into()));
        assert_eq!(
            (failure.message.as_str(), failure.detail.as_str()),
            ("no model", "looked in /x")
        );
        let failure =
            script_error("run", &ErrorText("no model (os error 44)\n[Errno 2] no".into()));
        assert_eq!(
            (failure.message.as_str(), failure.detail.as_str()),
            (
                "no model (os error 44, which is ENOENT in WASI)",
                "[Errno 2, which is EACCES in WASI] no"
            )
        );
        let failure = script_error("init", &ErrorText(String::new()));
        assert_eq!(failure.message, "init returned an error without a text");
    }
}
