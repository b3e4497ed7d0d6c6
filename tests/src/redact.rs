//! Removes everything that differs between runs from texts, for snapshots.

use regex::Regex;
use std::path::Path;
use std::sync::LazyLock;

/// The patterns and their replacements, in the order in which they are applied.
static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        // Only the first run of a component prints this.
        (r"(?m)^compiled .* kept for the next time\n", ""),
        (r"\b[0-9a-f]{64}\b", "[SHA256]"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?", "[WHEN]"),
        (r"\bpid \d+", "pid [PID]"),
        (r"\b0x[0-9a-f]+\b", "[ADDRESS]"),
        (r"\b\d+(\.\d+)?(/s| items/s| per second)", "[RATE]$2"),
        // These differ with the toolchain that compiled the guest, and with its options.
        (r"\.component\.wasm\b", ".wasm"),
        (r"\bwasm32-wasip1\b", "wasm32-wasip2"),
        (r"[^ ]*src/(\w+)\.rs:\d+:\d+\b", "src/$1.rs:[LINE]"),
        (r"held [\d.]+ \w+ and asked for [\d.]+ \w+ more", "held [SIZE] and asked for [SIZE] more"),
        (r"\b(\d+:)?\d\d:\d\d\b", "[TIME]"),
        (r"\b\d+\.\d+ ?(ms|s|seconds)\b", "[TIME]"),
        (r"\b\d+ ?ms\b", "[TIME]"),
    ]
    .map(|(pattern, replacement)| (Regex::new(pattern).unwrap(), replacement))
    .into()
});

/// Replaces the folder of a run, the repository, digests, times, rates, process ids and addresses. Whole
/// seconds stay, because messages about limits contain them.
pub fn redact(text: &str, folder: &Path) -> String {
    let mut text = text.to_owned();
    // The path of a temporary folder may contain a symbolic link, and messages show either form.
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    for (path, name) in [(real.as_path(), "[DIR]"), (folder, "[DIR]"), (crate::root(), "[REPO]")] {
        text = text.replace(&path.display().to_string(), name);
    }
    for (pattern, replacement) in PATTERNS.iter() {
        text = pattern.replace_all(&text, *replacement).into_owned();
    }
    // Only the first test that runs a component compiles it. Snapshots have no spaces at line ends.
    let lines = text.lines().filter(|line| !line.starts_with("compiling "));
    lines.map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Removes the reason from lines such as `wasi /etc/passwd=denied: No such file`, because the
/// reason differs between toolchains. Lines about `host` keep their reason, which is Sandmill's own
/// message.
pub fn cut_denials(text: &str) -> String {
    let cut = |line: &str| match line.split_once("=denied: ") {
        Some((attempt, _)) if !attempt.starts_with("host ") && !attempt.contains(": host ") => {
            format!("{attempt}=denied")
        }
        _ => line.to_owned(),
    };
    text.lines().map(cut).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::redact;
    use std::path::Path;

    #[test]
    fn replaces_what_differs() {
        let repository = crate::root().display();
        let text = format!(
            "read /d/run/job.yaml, made by {repository}/x; pid 4711 ended after 0.25 s at 0x1f,\n\
             2026-01-02T03:04:05.678Z, 12 ms, 1:02:03, 5.5 items/s; limit 3 seconds, 10 rows \n\
             panicked at src/lib.rs:10:20: {}",
            "0a".repeat(32)
        );
        assert_eq!(
            redact(&text, Path::new("/d/run")),
            "read [DIR]/job.yaml, made by [REPO]/x; pid [PID] ended after [TIME] at [ADDRESS],\n\
             [WHEN], [TIME], [TIME], [RATE] items/s; limit 3 seconds, 10 rows\n\
             panicked at src/lib.rs:[LINE]: [SHA256]"
        );
    }
}
