//! The checks of the conformance kit: the input of each, and how it judges the outcome.
//!
//! `tests/kit/README.md` explains the commands.

use super::plan::{
    CheckFailure, FOLDER, KitData, KitMiniBatch, KitPlan, PlanResult, Verdict, command, equal,
    holds, wrong,
};
use crate::model::FailureKind;
use crate::node::trial::TrialTableKind;
use std::time::{SystemTime, UNIX_EPOCH};

/// A check of the kit's script.
pub(super) struct CheckSpec {
    /// Its stable name.
    pub(super) name: &'static str,
    /// The items of the WIT that it checks.
    pub(super) holds: &'static str,
    /// The inputs, each for its own process.
    pub(super) plans: fn() -> Vec<KitPlan>,
    /// Judges the outcomes, one for each plan.
    pub(super) judge: fn(&[PlanResult]) -> Verdict,
}

/// The answer to the command `kit`.
const ANSWER: &str = "sandmill kit 1";
/// The length of the text of [`long`], in bytes.
const LONG: usize = 10_000;
/// The most bytes by which memory may grow over 10,000 mini-batches. A leak of each mini-batch's data would
/// be four times that.
const GROWTH: u64 = 8 << 20;
/// The length of the large file, in bytes.
const LARGE: usize = 20 << 20;
/// The guest's memory limit in the check that exhausts it.
const LITTLE_MEMORY: u64 = 256 << 20;
/// How many seconds a clock may be off.
const CLOCK: u64 = 300;

/// Checks that the component has the kit's script.
pub(super) const SCRIPT: CheckSpec = check(
    "script",
    "entry.run",
    || one([&["kit"]]),
    |seen| equal("the answer to `kit`", &seen[0].rows(0)?, &[ANSWER]),
);

/// All other checks, in the order in which they run.
pub(super) const CHECKS: &[CheckSpec] = &[
    check(
        "init-once",
        "entry.init",
        || one([&["count"][..], &["count"]]),
        |seen| {
            equal("calls of init and run", &seen[0].rows(0)?, &["1 1"])?;
            equal("calls of init and run", &seen[0].rows(1)?, &["1 2"])
        },
    ),
    check(
        "init-error",
        "entry.init",
        || vec![plan([&["count"]]).with_arguments(&["fail-init", "no licence"])],
        init_error,
    ),
    check("arguments", "wasi:cli/environment.get-arguments", arguments, |seen| {
        let long = long();
        let expected = ["first", "", "Grüße 世界", "--flag=a b", &long];
        equal("the job's arguments", &seen[0].rows(0)?, &expected)
    }),
    check("environment", "wasi:cli/environment.get-environment", environment, |seen| {
        equal("the environment", &seen[0].rows(0)?, &["KIT_A=1", "KIT_B=ä=b "])
    }),
    check(
        "host",
        "host.agent-name, host.log-dir, host.output-dir",
        || one([&["host"]]),
        |seen| {
            equal("its names and folders", &seen[0].rows(0)?, &["process000", "/logs", "/output"])
        },
    ),
    check("files", "types.mini-batch.files", files, |seen| {
        let names = ["turn0.txt", "z.txt", "Grüße 世界.txt", "empty.bin"];
        let expected = names.map(|name| format!("{FOLDER}/{name}"));
        equal("the paths", &seen[0].rows(0)?, &expected)
    }),
    check("read", "host.read", || large("read"), read_whole),
    check("open", "wasi:filesystem/types.descriptor", || large("open"), read_whole),
    check("read-errors", "host.read", read_errors, |seen| {
        (0..3).try_for_each(|index| explained(&seen[0], index))?;
        equal("an empty file", &seen[0].rows(3)?, &["0 0"])
    }),
    check("read-limit", "host.read", read_limit, |seen| explained(&seen[0], 0)),
    check("read-only", "wasi:filesystem/preopens", read_only, |seen| {
        explained(&seen[0], 0)?;
        explained(&seen[0], 1)
    }),
    check("output", "host.output-dir", output, |seen| {
        seen[0].rows(0)?;
        equal("the file's content", &seen[0].output, "Grüße")
    }),
    check("rows", "types.results.rows", rows, |seen| {
        let expected = ["a", "", "Grüße 世界 🌍", " b "];
        equal("the rows", &seen[0].rows(0)?, &expected)
    }),
    check("rows-break", "types.results.rows", rows_break, |seen| {
        whole_or_refused(&seen[0], 0, "a\nb")?;
        whole_or_refused(&seen[0], 1, "a\rb")
    }),
    check("rows-many", "types.results.rows", many, |seen| {
        let rows = seen[0].rows(0)?;
        equal("the number of rows", &rows.len(), &5000)?;
        equal("the last row", rows[4999], "row 4999")
    }),
    check("outcomes", "types.results.outcomes", outcomes, |seen| {
        let expected = [Ok("a".to_owned()), Err("Grüße".to_owned()), Ok("c".to_owned())];
        equal("the outcomes", seen[0].outcomes(0)?, &expected[..])
    }),
    check(
        "table",
        "types.mini-batch.table, types.results.table",
        || table(TrialTableKind::Types),
        |seen| same_table(&seen[0], TrialTableKind::Types),
    ),
    check(
        "table-empty",
        "types.mini-batch.table, types.results.table",
        || table(TrialTableKind::Empty),
        |seen| same_table(&seen[0], TrialTableKind::Empty),
    ),
    check(
        "table-wide",
        "types.mini-batch.table, types.results.table",
        || table(TrialTableKind::Wide),
        |seen| same_table(&seen[0], TrialTableKind::Wide),
    ),
    check("void", "types.mini-batch.void", void, |seen| {
        equal("the rows", &seen[0].rows(0)?, &["one", "two"])
    }),
    check("context", "types.mini-batch-context", context, |seen| {
        let expected = ["9007199254740993", "kit Grüße", "3", "store=10", "a key=Grüße"];
        equal("the context", &seen[0].rows(0)?, &expected)
    }),
    check(
        "error",
        "entry.run",
        || one([&["error", "why\nmore of it"][..], &["count"]]),
        |seen| {
            fails_as(&seen[0], 0, FailureKind::ScriptError)?;
            let failure = seen[0].failure(0)?;
            holds("the reason", &failure.message, "why")?;
            let all = format!("{}\n{}", failure.message, failure.detail);
            holds("the reason and what is kept beside it", &all, "more of it")?;
            equal("calls of init and run, as the instance stays", &seen[0].rows(1)?, &["1 2"])
        },
    ),
    check(
        "trap",
        "entry.run",
        || one([&["count"][..], &["trap"], &["count"]]),
        |seen| {
            fails_as(&seen[0], 1, FailureKind::Trap)?;
            equal("calls of init and run of the new instance", &seen[0].rows(2)?, &["1 1"])
        },
    ),
    check(
        "exit",
        "wasi:cli/exit",
        || one([&["exit", "0"][..], &["exit", "1"], &["rows", "after"]]),
        |seen| {
            seen[0].failure(0)?;
            seen[0].failure(1)?;
            equal("the rows of the next mini-batch", &seen[0].rows(2)?, &["after"])
        },
    ),
    check("shutdown", "entry.shutdown", shutdown, |seen| {
        seen[0].rows(1)?;
        equal("what shutdown wrote", &seen[0].output, "shutdown")
    }),
    check("log", "host.log", log, |seen| {
        let log = &seen[0].log;
        for level in ["error", "warning", "info", "debug"] {
            let text = format!("kit says {level}");
            let line = log.lines().find(|line| line.contains(&text));
            let line = line.ok_or_else(|| wrong(format!("the log has no line {text:?}")))?;
            holds("the line's level", &line.replace(&text, "").to_lowercase(), level)?;
        }
        holds("the log", log, "two")?;
        holds("the log", log, "lines Grüße")
    }),
    check(
        "print",
        "wasi:cli/stdout",
        || one([&["print", "Grüße"][..], &["print", "end"]]),
        |seen| equal("standard output", &seen[0].stdout, "Grüßeend"),
    ),
    check(
        "complain",
        "wasi:cli/stderr",
        || one([&["complain", "oh"][..], &["complain", "no"]]),
        |seen| equal("standard error", &seen[0].stderr, "ohno"),
    ),
    check("memory", "limits.memory", memory, |seen| {
        seen[0].failure(0)?;
        equal("the rows of the next mini-batch", &seen[0].rows(1)?, &["after"])
    }),
    check("endless", "entry.run", endless, |seen| match seen[0].lived() {
        Err(_) if matches!(seen[0].ending, super::plan::InstanceEnding::TimedOut) => Ok(()),
        Err(why) => Err(why),
        Ok(_) => seen[0].failure(0).and(Err(wrong("it did not loop"))),
    }),
    check("memory-flat", "entry.run", flat, |seen| {
        seen[0].rows(1)?;
        let [before, after] = [seen[0].came(0)?.peak, seen[0].came(1)?.peak];
        grows_little(before, after)
    }),
    check(
        "random",
        "wasi:random/random",
        || vec![plan([&["random"]]), plan([&["random"]])],
        |seen| {
            let [one, other] = [seen[0].rows(0)?, seen[1].rows(0)?];
            match one.first().is_some_and(|row| row.len() >= 8) && one != other {
                true => Ok(()),
                false => Err(wrong(format!("two workers had {one:?} and {other:?}"))),
            }
        },
    ),
    check(
        "clock",
        "wasi:clocks/wall-clock",
        || one([&["clock"]]),
        |seen| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
            near_now(&seen[0].rows(0)?, now)
        },
    ),
];

const fn check(
    name: &'static str,
    holds: &'static str,
    plans: fn() -> Vec<KitPlan>,
    judge: fn(&[PlanResult]) -> Verdict,
) -> CheckSpec {
    CheckSpec { name, holds, plans, judge }
}

/// A plan of commands, each in a file.
fn plan<'a>(commands: impl IntoIterator<Item: AsRef<[&'a str]>>) -> KitPlan {
    KitPlan::of(commands.into_iter().map(|parts| KitMiniBatch::command(parts.as_ref())))
}

fn one<'a>(commands: impl IntoIterator<Item: AsRef<[&'a str]>>) -> Vec<KitPlan> {
    vec![plan(commands)]
}

fn long() -> String {
    "x".repeat(LONG)
}

fn arguments() -> Vec<KitPlan> {
    let long = long();
    let given = ["first", "", "Grüße 世界", "--flag=a b", &long];
    vec![plan([&["arguments"]]).with_arguments(&given)]
}

fn environment() -> Vec<KitPlan> {
    let variables = [("KIT_B", "ä=b "), ("KIT_A", "1")];
    let environment = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    vec![KitPlan { environment, ..plan([&["environment"]]) }]
}

fn files() -> Vec<KitPlan> {
    let turn = KitMiniBatch::command(&["items"]).and("z.txt", "z");
    vec![KitPlan::of([turn.and("Grüße 世界.txt", "ä").and("empty.bin", "")])]
}

/// A large file that contains almost all byte values.
fn large(verb: &str) -> Vec<KitPlan> {
    let path = format!("{FOLDER}/large.bin");
    vec![KitPlan::of([KitMiniBatch::command(&[verb, &path]).and("large.bin", large_file())])]
}

fn large_file() -> Vec<u8> {
    let cycle: Vec<u8> = (0..=250).collect();
    let mut bytes = cycle.repeat(LARGE / cycle.len() + 1);
    bytes.truncate(LARGE);
    bytes
}

fn read_whole(seen: &[PlanResult]) -> Verdict {
    let rest: usize = (0..LARGE % 251).sum();
    let sum = LARGE / 251 * (0..251).sum::<usize>() + rest;
    equal("length and sum of the bytes", &seen[0].rows(0)?, &[format!("{LARGE} {sum}")])
}

fn read_errors() -> Vec<KitPlan> {
    let missing = format!("{FOLDER}/missing.txt");
    let empty = format!("{FOLDER}/nothing.bin");
    let read = |path: &str| KitMiniBatch::command(&["read", path]);
    let turns = [read(&missing), read("/etc/passwd"), read(FOLDER)];
    vec![KitPlan::of(turns.into_iter().chain([read(&empty).and("nothing.bin", "")]))]
}

fn read_limit() -> Vec<KitPlan> {
    let path = format!("{FOLDER}/large.bin");
    let turn = KitMiniBatch::command(&["read", &path]).and("large.bin", vec![1; 2 << 20]);
    vec![KitPlan { read: Some(1 << 20), ..KitPlan::of([turn]) }]
}

fn read_only() -> Vec<KitPlan> {
    let inside = format!("{FOLDER}/new.txt");
    one([&["write", &inside, "no"][..], &["write", "/new.txt", "no"]])
}

fn output() -> Vec<KitPlan> {
    one([&["write", "/output/kit.txt", "Grüße"]])
}

fn rows() -> Vec<KitPlan> {
    one([&["rows", "a", "", "Grüße 世界 🌍", " b "]])
}

/// The host fails such attempts. It must not receive another row, or two rows.
fn rows_break() -> Vec<KitPlan> {
    one([&["rows", "a\nb"], &["rows", "a\rb"]])
}

fn many() -> Vec<KitPlan> {
    let rows: Vec<String> = (0..5000).map(|index| format!("row {index}")).collect();
    let parts: Vec<&str> = std::iter::once("rows").chain(rows.iter().map(String::as_str)).collect();
    one([parts])
}

fn outcomes() -> Vec<KitPlan> {
    let turn = KitMiniBatch::command(&["outcomes", "+a", "-Grüße", "+c"]);
    vec![KitPlan::of([turn.and("b.txt", "").and("c.txt", "")])]
}

fn table(kind: TrialTableKind) -> Vec<KitPlan> {
    vec![KitPlan::of([KitMiniBatch::of(KitData::Table(kind))]).with_arguments(&["table"])]
}

fn void() -> Vec<KitPlan> {
    let turn = KitMiniBatch::of(KitData::Void);
    vec![KitPlan::of([turn]).with_arguments(&[&command(&["rows", "one", "two"])])]
}

fn context() -> Vec<KitPlan> {
    let keys = [("store", "10"), ("a key", "Grüße")];
    vec![KitPlan::of([KitMiniBatch {
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
    let says =
        levels.map(|level| KitMiniBatch::command(&["log", level, &format!("kit says {level}")]));
    let lines = KitMiniBatch::command(&["log", "info", "two\nlines Grüße"]);
    vec![KitPlan::of(says.into_iter().chain([lines]))]
}

fn memory() -> Vec<KitPlan> {
    let plan = plan([&["allocate"][..], &["rows", "after"]]);
    vec![KitPlan { memory: Some(LITTLE_MEMORY), ..plan }]
}

fn endless() -> Vec<KitPlan> {
    vec![KitPlan { seconds: 2, ..plan([&["loop"]]) }]
}

fn flat() -> Vec<KitPlan> {
    let text = "y".repeat(4096);
    let turn = || KitMiniBatch::command(&["rows", &text]);
    vec![KitPlan::of([turn().times(1000), turn().times(9000)])]
}

fn init_error(seen: &[PlanResult]) -> Verdict {
    let Some(failure) = &seen[0].lived()?.init else {
        return Err(wrong("init went well, and should have failed"));
    };
    holds("the reason", &failure.message, "no licence")?;
    kind_is(failure.kind, FailureKind::ScriptError)
}

/// Checks that a row arrived unchanged, or that the language's bindings refused it.
fn whole_or_refused(seen: &PlanResult, index: usize, row: &str) -> Verdict {
    match &seen.came(index)?.failure {
        Some(_) => fails_as(seen, index, FailureKind::ScriptError),
        None => equal("the row", &seen.rows(index)?, &[row]),
    }
}

fn fails_as(seen: &PlanResult, index: usize, kind: FailureKind) -> Verdict {
    kind_is(seen.failure(index)?.kind, kind)
}

fn kind_is(found: FailureKind, expected: FailureKind) -> Verdict {
    equal("the kind of failure", &found, &expected)
}

/// Checks that the script returned an error with a message.
fn explained(seen: &PlanResult, index: usize) -> Verdict {
    fails_as(seen, index, FailureKind::ScriptError)?;
    match seen.failure(index)?.message.contains("without a text") {
        true => Err(wrong("the error has no words")),
        false => Ok(()),
    }
}

fn same_table(seen: &PlanResult, kind: TrialTableKind) -> Verdict {
    seen.outcomes(0)?;
    let expected = kind.rows().map_err(CheckFailure::Skipped)?;
    match &seen.came(0)?.table {
        None => Err(wrong("no table came back")),
        Some(Err(why)) => Err(wrong(format!("the table cannot be read: {why}"))),
        Some(Ok(found)) => {
            let pair = found.iter().zip(&expected).find(|(found, expected)| found != expected);
            pair.map_or(Ok(()), |(found, expected)| equal("a row", found, expected))?;
            equal("the number of rows", &found.len(), &expected.len())
        }
    }
}

fn grows_little(before: u64, after: u64) -> Verdict {
    if before == 0 || after == 0 {
        return Err(CheckFailure::Skipped(
            "this system does not say how much memory is used".to_owned(),
        ));
    }
    match after.saturating_sub(before) {
        grown if grown <= GROWTH => Ok(()),
        grown => Err(wrong(format!(
            "the process grew by {} MB in the last 9,000 mini-batches; at most {} MB are allowed",
            grown >> 20,
            GROWTH >> 20
        ))),
    }
}

fn near_now(rows: &[&str], now: u64) -> Verdict {
    match rows {
        [row] if row.parse::<u64>().is_ok_and(|it| it.abs_diff(now) <= CLOCK) => Ok(()),
        _ => Err(wrong(format!("found {rows:?}, expected about {now} seconds since 1970"))),
    }
}
