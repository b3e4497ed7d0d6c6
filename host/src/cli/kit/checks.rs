//! The checks of the conformance kit: the input of each, and how it judges the outcome.
//!
//! `tests/kit/README.md` explains the commands.

use super::plan::{
    CheckFailure, CheckVerdict, FILES_FOLDER, KitData, KitMiniBatch, KitPlan, PlanResult, command,
    contains, equal, wrong,
};
use crate::model::FailureKind;
use crate::node::trial::TrialTableKind;
use std::time::{SystemTime, UNIX_EPOCH};

/// A check of the kit's script.
pub(super) struct CheckSpec {
    /// The stable name of the check.
    pub(super) name: &'static str,
    /// The items of the WIT that the check covers.
    pub(super) covers: &'static str,
    /// The inputs, each for its own process.
    pub(super) plans: fn() -> Vec<KitPlan>,
    /// Judges the outcomes, one for each plan.
    pub(super) judge: fn(&[PlanResult]) -> CheckVerdict,
}

/// The script's answer to the command `kit`.
const KIT_ANSWER: &str = "sandmill kit 1";
/// The length of the text of [`long_text`], in bytes.
const LONG_TEXT_BYTES: usize = 10_000;
/// The maximum number of bytes by which memory may grow over the last 9,000 of 10,000 mini-batches. If the
/// data of each mini-batch leaked, memory would grow by four times as much.
const MAX_GROWTH_BYTES: u64 = 8 << 20;
const LARGE_FILE_BYTES: usize = 20 << 20;
/// The guest's memory limit in the check that exhausts it.
const SMALL_MEMORY_BYTES: u64 = 256 << 20;
/// How many seconds the script's clock may be off.
const CLOCK_TOLERANCE_SECONDS: u64 = 300;

/// Checks that the component has the kit's script.
pub(super) const SCRIPT: CheckSpec = check(
    "script",
    "entry.run",
    || single_plan([&["kit"]]),
    |results| equal("the answer to `kit`", &results[0].rows(0)?, &[KIT_ANSWER]),
);

/// All checks except the one for the kit's script, in the order in which they run.
pub(super) const CHECKS: &[CheckSpec] = &[
    check(
        "init-once",
        "entry.init",
        || single_plan([&["count"][..], &["count"]]),
        |results| {
            equal("calls of init and run", &results[0].rows(0)?, &["1 1"])?;
            equal("calls of init and run", &results[0].rows(1)?, &["1 2"])
        },
    ),
    check(
        "init-error",
        "entry.init",
        || vec![plan([&["count"]]).with_arguments(&["fail-init", "no licence"])],
        init_error,
    ),
    check("arguments", "wasi:cli/environment.get-arguments", arguments, |results| {
        let long_text = long_text();
        let expected = ["first", "", "Grüße 世界", "--flag=a b", &long_text];
        equal("the job's arguments", &results[0].rows(0)?, &expected)
    }),
    check("environment", "wasi:cli/environment.get-environment", environment, |results| {
        equal("the environment", &results[0].rows(0)?, &["KIT_A=1", "KIT_B=ä=b "])
    }),
    check(
        "host",
        "host.agent-name, host.log-dir, host.output-dir",
        || single_plan([&["host"]]),
        |results| {
            equal(
                "its names and folders",
                &results[0].rows(0)?,
                &["process000", "/logs", "/output"],
            )
        },
    ),
    check("files", "types.mini-batch.files", files, |results| {
        let names = ["turn0.txt", "z.txt", "Grüße 世界.txt", "empty.bin"];
        let expected = names.map(|name| format!("{FILES_FOLDER}/{name}"));
        equal("the paths", &results[0].rows(0)?, &expected)
    }),
    check("read", "host.read", || large("read"), read_whole),
    check("open", "wasi:filesystem/types.descriptor", || large("open"), read_whole),
    check("read-errors", "host.read", read_errors, |results| {
        (0..3).try_for_each(|index| check_error_has_text(&results[0], index))?;
        equal("an empty file", &results[0].rows(3)?, &["0 0"])
    }),
    check("read-limit", "host.read", read_limit, |results| check_error_has_text(&results[0], 0)),
    check("read-only", "wasi:filesystem/preopens", read_only, |results| {
        check_error_has_text(&results[0], 0)?;
        check_error_has_text(&results[0], 1)
    }),
    check("output", "host.output-dir", output, |results| {
        results[0].rows(0)?;
        equal("the file's content", &results[0].output, "Grüße")
    }),
    check("rows", "types.results.rows", rows, |results| {
        let expected = ["a", "", "Grüße 世界 🌍", " b "];
        equal("the rows", &results[0].rows(0)?, &expected)
    }),
    check("rows-break", "types.results.rows", rows_break, |results| {
        whole_or_refused(&results[0], 0, "a\nb")?;
        whole_or_refused(&results[0], 1, "a\rb")
    }),
    check("rows-many", "types.results.rows", many_rows, |results| {
        let rows = results[0].rows(0)?;
        equal("the number of rows", &rows.len(), &5000)?;
        equal("the last row", rows[4999], "row 4999")
    }),
    check("outcomes", "types.results.outcomes", outcomes, |results| {
        let expected = [Ok("a".to_owned()), Err("Grüße".to_owned()), Ok("c".to_owned())];
        equal("the outcomes", results[0].outcomes(0)?, &expected[..])
    }),
    check(
        "table",
        "types.mini-batch.table, types.results.table",
        || table(TrialTableKind::Types),
        |results| same_table(&results[0], TrialTableKind::Types),
    ),
    check(
        "table-empty",
        "types.mini-batch.table, types.results.table",
        || table(TrialTableKind::Empty),
        |results| same_table(&results[0], TrialTableKind::Empty),
    ),
    check(
        "table-integers",
        "types.mini-batch.table, types.results.table",
        || table(TrialTableKind::Integers),
        |results| same_table(&results[0], TrialTableKind::Integers),
    ),
    check(
        "table-wide",
        "types.mini-batch.table, types.results.table",
        || table(TrialTableKind::Wide),
        |results| same_table(&results[0], TrialTableKind::Wide),
    ),
    check("void", "types.mini-batch.void", void, |results| {
        equal("the rows", &results[0].rows(0)?, &["one", "two"])
    }),
    check("context", "types.mini-batch-context", context, |results| {
        let expected = ["9007199254740993", "kit Grüße", "3", "store=10", "a key=Grüße"];
        equal("the context", &results[0].rows(0)?, &expected)
    }),
    check(
        "error",
        "entry.run",
        || single_plan([&["error", "why\nmore of it"][..], &["count"]]),
        |results| {
            fails_as(&results[0], 0, FailureKind::ScriptError)?;
            let failure = results[0].failure(0)?;
            contains("the reason", &failure.message, "why")?;
            let all = format!("{}\n{}", failure.message, failure.detail);
            contains("the reason and its details", &all, "more of it")?;
            equal("calls of init and run, as the instance stays", &results[0].rows(1)?, &["1 2"])
        },
    ),
    check(
        "trap",
        "entry.run",
        || single_plan([&["count"][..], &["trap"], &["count"]]),
        |results| {
            fails_as(&results[0], 1, FailureKind::Trap)?;
            equal("calls of init and run of the new instance", &results[0].rows(2)?, &["1 1"])
        },
    ),
    check(
        "exit",
        "wasi:cli/exit",
        || single_plan([&["exit", "0"][..], &["exit", "1"], &["rows", "after"]]),
        |results| {
            results[0].failure(0)?;
            results[0].failure(1)?;
            equal("the rows of the next mini-batch", &results[0].rows(2)?, &["after"])
        },
    ),
    check("shutdown", "entry.shutdown", shutdown, |results| {
        results[0].rows(1)?;
        equal("what shutdown wrote", &results[0].output, "shutdown")
    }),
    check("log", "host.log", log, |results| {
        let log = &results[0].log;
        for level in ["error", "warning", "info", "debug"] {
            let text = format!("kit says {level}");
            let line = log.lines().find(|line| line.contains(&text));
            let line = line.ok_or_else(|| wrong(format!("the log has no line {text:?}")))?;
            contains("the line's level", &line.replace(&text, "").to_lowercase(), level)?;
        }
        contains("the log", log, "two")?;
        contains("the log", log, "lines Grüße")
    }),
    check(
        "logging-level",
        "host.logging-level",
        || single_plan([&["logging-level"]]),
        |results| equal("the level", &results[0].rows(0)?, &["debug"]),
    ),
    check(
        "print",
        "wasi:cli/stdout",
        || single_plan([&["print", "Grüße"][..], &["print", "end"]]),
        |results| equal("standard output", &results[0].stdout, "Grüßeend"),
    ),
    check(
        "complain",
        "wasi:cli/stderr",
        || single_plan([&["complain", "oh"][..], &["complain", "no"]]),
        |results| equal("standard error", &results[0].stderr, "ohno"),
    ),
    check("memory", "limits.memory", memory, |results| {
        results[0].failure(0)?;
        equal("the rows of the next mini-batch", &results[0].rows(1)?, &["after"])
    }),
    check("endless", "entry.run", endless, |results| match results[0].results() {
        Err(_) if matches!(results[0].ending, super::plan::InstanceEnding::TimedOut) => Ok(()),
        Err(why) => Err(why),
        Ok(_) => results[0].failure(0).and(Err(wrong("it did not loop"))),
    }),
    check("memory-flat", "entry.run", flat_memory, |results| {
        results[0].rows(1)?;
        let [before, after] = [results[0].mini_batch(0)?.peak, results[0].mini_batch(1)?.peak];
        grows_little(before, after)
    }),
    check(
        "random",
        "wasi:random/random",
        || vec![plan([&["random"]]), plan([&["random"]])],
        |results| {
            let [first, other] = [results[0].rows(0)?, results[1].rows(0)?];
            match first.first().is_some_and(|row| row.len() >= 8) && first != other {
                true => Ok(()),
                false => Err(wrong(format!("two workers had {first:?} and {other:?}"))),
            }
        },
    ),
    check(
        "clock",
        "wasi:clocks/wall-clock",
        || single_plan([&["clock"]]),
        |results| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
            near_now(&results[0].rows(0)?, now)
        },
    ),
];

const fn check(
    name: &'static str,
    covers: &'static str,
    plans: fn() -> Vec<KitPlan>,
    judge: fn(&[PlanResult]) -> CheckVerdict,
) -> CheckSpec {
    CheckSpec { name, covers, plans, judge }
}

/// A plan with a mini-batch for each command. The mini-batch's file contains the command.
fn plan<'a>(commands: impl IntoIterator<Item: AsRef<[&'a str]>>) -> KitPlan {
    KitPlan::from_mini_batches(
        commands.into_iter().map(|parts| KitMiniBatch::command(parts.as_ref())),
    )
}

fn single_plan<'a>(commands: impl IntoIterator<Item: AsRef<[&'a str]>>) -> Vec<KitPlan> {
    vec![plan(commands)]
}

fn long_text() -> String {
    "x".repeat(LONG_TEXT_BYTES)
}

fn arguments() -> Vec<KitPlan> {
    let long_text = long_text();
    let given = ["first", "", "Grüße 世界", "--flag=a b", &long_text];
    vec![plan([&["arguments"]]).with_arguments(&given)]
}

fn environment() -> Vec<KitPlan> {
    let variables = [("KIT_B", "ä=b "), ("KIT_A", "1")];
    let environment = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    vec![KitPlan { environment, ..plan([&["environment"]]) }]
}

fn files() -> Vec<KitPlan> {
    let mini_batch = KitMiniBatch::command(&["items"]).and("z.txt", "z");
    vec![KitPlan::from_mini_batches([mini_batch.and("Grüße 世界.txt", "ä").and("empty.bin", "")])]
}

/// A large file that contains almost all byte values.
fn large(verb: &str) -> Vec<KitPlan> {
    let path = format!("{FILES_FOLDER}/large.bin");
    vec![KitPlan::from_mini_batches([
        KitMiniBatch::command(&[verb, &path]).and("large.bin", large_file())
    ])]
}

fn large_file() -> Vec<u8> {
    let cycle: Vec<u8> = (0..=250).collect();
    let mut bytes = cycle.repeat(LARGE_FILE_BYTES / cycle.len() + 1);
    bytes.truncate(LARGE_FILE_BYTES);
    bytes
}

fn read_whole(results: &[PlanResult]) -> CheckVerdict {
    let rest: usize = (0..LARGE_FILE_BYTES % 251).sum();
    let sum = LARGE_FILE_BYTES / 251 * (0..251).sum::<usize>() + rest;
    equal(
        "length and sum of the bytes",
        &results[0].rows(0)?,
        &[format!("{LARGE_FILE_BYTES} {sum}")],
    )
}

fn read_errors() -> Vec<KitPlan> {
    let missing = format!("{FILES_FOLDER}/missing.txt");
    let empty = format!("{FILES_FOLDER}/nothing.bin");
    let read = |path: &str| KitMiniBatch::command(&["read", path]);
    let mini_batches = [read(&missing), read("/etc/passwd"), read(FILES_FOLDER)];
    vec![KitPlan::from_mini_batches(
        mini_batches.into_iter().chain([read(&empty).and("nothing.bin", "")]),
    )]
}

fn read_limit() -> Vec<KitPlan> {
    let path = format!("{FILES_FOLDER}/large.bin");
    let mini_batch = KitMiniBatch::command(&["read", &path]).and("large.bin", vec![1; 2 << 20]);
    vec![KitPlan { read: Some(1 << 20), ..KitPlan::from_mini_batches([mini_batch]) }]
}

fn read_only() -> Vec<KitPlan> {
    let inside = format!("{FILES_FOLDER}/new.txt");
    single_plan([&["write", &inside, "no"][..], &["write", "/new.txt", "no"]])
}

fn output() -> Vec<KitPlan> {
    single_plan([&["write", "/output/kit.txt", "Grüße"]])
}

fn rows() -> Vec<KitPlan> {
    single_plan([&["rows", "a", "", "Grüße 世界 🌍", " b "]])
}

/// Rows with line breaks. In most jobs, the host fails an attempt with such a row. Here the host accepts the
/// row, so that the check sees what the bindings do: they must refuse the row, or pass it to the host
/// unchanged, but not as two rows.
fn rows_break() -> Vec<KitPlan> {
    single_plan([&["rows", "a\nb"], &["rows", "a\rb"]])
}

fn many_rows() -> Vec<KitPlan> {
    let rows: Vec<String> = (0..5000).map(|index| format!("row {index}")).collect();
    let parts: Vec<&str> = std::iter::once("rows").chain(rows.iter().map(String::as_str)).collect();
    single_plan([parts])
}

fn outcomes() -> Vec<KitPlan> {
    let mini_batch = KitMiniBatch::command(&["outcomes", "+a", "-Grüße", "+c"]);
    vec![KitPlan::from_mini_batches([mini_batch.and("b.txt", "").and("c.txt", "")])]
}

fn table(kind: TrialTableKind) -> Vec<KitPlan> {
    vec![
        KitPlan::from_mini_batches([KitMiniBatch::from_data(KitData::Table(kind))])
            .with_arguments(&["table"]),
    ]
}

fn void() -> Vec<KitPlan> {
    let mini_batch = KitMiniBatch::from_data(KitData::Void);
    vec![
        KitPlan::from_mini_batches([mini_batch])
            .with_arguments(&[&command(&["rows", "one", "two"])]),
    ]
}

fn context() -> Vec<KitPlan> {
    let keys = [("store", "10"), ("a key", "Grüße")];
    vec![KitPlan::from_mini_batches([KitMiniBatch {
        id: (1 << 53) + 1,
        dataset: "kit Grüße".to_owned(),
        attempt: 3,
        keys: keys.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        ..KitMiniBatch::command(&["context"])
    }])]
}

fn shutdown() -> Vec<KitPlan> {
    vec![plan([&["count"], &["count"]]).with_arguments(&["shutdown"])]
}

fn log() -> Vec<KitPlan> {
    let levels = ["error", "warning", "info", "debug"];
    let logs_at_levels =
        levels.map(|level| KitMiniBatch::command(&["log", level, &format!("kit says {level}")]));
    let lines = KitMiniBatch::command(&["log", "info", "two\nlines Grüße"]);
    vec![KitPlan::from_mini_batches(logs_at_levels.into_iter().chain([lines]))]
}

fn memory() -> Vec<KitPlan> {
    let plan = plan([&["allocate"][..], &["rows", "after"]]);
    vec![KitPlan { memory: Some(SMALL_MEMORY_BYTES), ..plan }]
}

fn endless() -> Vec<KitPlan> {
    vec![KitPlan { seconds: 2, ..plan([&["loop"]]) }]
}

fn flat_memory() -> Vec<KitPlan> {
    let text = "y".repeat(4096);
    let mini_batch = || KitMiniBatch::command(&["rows", &text]);
    vec![KitPlan::from_mini_batches([mini_batch().times(1000), mini_batch().times(9000)])]
}

fn init_error(results: &[PlanResult]) -> CheckVerdict {
    let Some(failure) = &results[0].results()?.init else {
        return Err(wrong("init went well, and should have failed"));
    };
    contains("the reason", &failure.message, "no licence")?;
    kind_is(failure.kind, FailureKind::ScriptError)
}

/// Checks that a row arrived unchanged, or that the language's bindings refused it.
fn whole_or_refused(results: &PlanResult, index: usize, row: &str) -> CheckVerdict {
    match &results.mini_batch(index)?.failure {
        Some(_) => fails_as(results, index, FailureKind::ScriptError),
        None => equal("the row", &results.rows(index)?, &[row]),
    }
}

fn fails_as(results: &PlanResult, index: usize, kind: FailureKind) -> CheckVerdict {
    kind_is(results.failure(index)?.kind, kind)
}

fn kind_is(found: FailureKind, expected: FailureKind) -> CheckVerdict {
    equal("the kind of failure", &found, &expected)
}

/// Checks that the script returned an error with a message.
fn check_error_has_text(results: &PlanResult, index: usize) -> CheckVerdict {
    fails_as(results, index, FailureKind::ScriptError)?;
    match results.failure(index)?.message.contains("without a text") {
        true => Err(wrong("the error has no message")),
        false => Ok(()),
    }
}

fn same_table(results: &PlanResult, kind: TrialTableKind) -> CheckVerdict {
    results.outcomes(0)?;
    let expected = kind.rows().map_err(CheckFailure::Skipped)?;
    match &results.mini_batch(0)?.table {
        None => Err(wrong("no table came back")),
        Some(Err(why)) => Err(wrong(format!("the table cannot be read: {why}"))),
        Some(Ok(found)) => {
            let pair = found.iter().zip(&expected).find(|(found, expected)| found != expected);
            pair.map_or(Ok(()), |(found, expected)| equal("a row", found, expected))?;
            equal("the number of rows", &found.len(), &expected.len())
        }
    }
}

fn grows_little(before: u64, after: u64) -> CheckVerdict {
    if before == 0 || after == 0 {
        return Err(CheckFailure::Skipped(
            "this system does not say how much memory is used".to_owned(),
        ));
    }
    match after.saturating_sub(before) {
        grown if grown <= MAX_GROWTH_BYTES => Ok(()),
        grown => Err(wrong(format!(
            "the process grew by {} MB in the last 9,000 mini-batches; at most {} MB are allowed",
            grown >> 20,
            MAX_GROWTH_BYTES >> 20
        ))),
    }
}

fn near_now(rows: &[&str], now: u64) -> CheckVerdict {
    match rows {
        [row] if row.parse::<u64>().is_ok_and(|it| it.abs_diff(now) <= CLOCK_TOLERANCE_SECONDS) => {
            Ok(())
        }
        _ => Err(wrong(format!("found {rows:?}, expected about {now} seconds since 1970"))),
    }
}
