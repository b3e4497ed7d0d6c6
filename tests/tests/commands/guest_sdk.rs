//! The SDK in components, and the commands that an author of entry scripts uses first.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its results fails")]

use arrow::array::{
    ArrayRef, DictionaryArray, Float32Array, Int8Array, Int16Array, Int32Array, Int64Array,
    RecordBatch, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::datatypes::Int32Type;
use arrow::ipc::writer::FileWriter;
use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest, onnx_model, root, texts};
use std::fs;
use std::process::Command;
use std::sync::Arc;

/// A job over three files in two folders.
fn over_files(entry_script: &str) -> TestJob {
    TestJob::new(&guest(entry_script))
        .yaml("inputs: { files: input }\nprocess_count_per_node: 1")
        .file("input/a.txt", "")
        .file("input/b.txt", "xx")
        .file("input/c/d.txt", "y\n")
}

/// The log lines of the entry script, without time, level and worker name.
fn logged(ran: &Ran) -> String {
    let mut text = String::new();
    for entry in files_below(&ran.dir().join("job/logs/user")) {
        text.push_str(&fs::read_to_string(entry).unwrap());
    }
    let words =
        |line: &str| line.split_once(" process000 ").map_or("", |(_, words)| words).to_owned();
    text.lines().map(words).collect::<Vec<_>>().join("\n")
}

fn files_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            files.extend(files_below(&entry.path()));
        } else {
            files.push(entry.path());
        }
    }
    files
}

#[test]
fn a_script_may_have_types_named_as_in_the_sdk() {
    let ran = over_files("natural_names").run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["a.txt", "b.txt", "d.txt"]);
}

#[test]
fn a_component_sees_arguments_variables_and_error_kinds() {
    let paths = "/inputs/files/none.txt, /inputs/files/c, /inputs/files/a.txt/x, /inputs/files/b.txt, \
                 /inputs/files/../x, /etc/passwd, /inputs/files/a.txt";
    let ran = over_files("sdk_answers")
        .yaml(&format!(
            "environment_variables: {{ MODE: slow }}\nlimits: {{ read: 1 }}\narguments: [--fast, \
             --also, {paths}]"
        ))
        .run(&[]);
    ran.exits_with(0);
    // With Debian's libc, the error for a path outside all granted folders has another kind.
    let logged = logged(&ran).replace("Uncategorized", "NotFound");
    assert_snapshot!(logged, @r#"
    fast true None Some("slow")
    /inputs/files/none.txt|NotFound
    /inputs/files/c|IsADirectory
    /inputs/files/a.txt/x|NotADirectory
    /inputs/files/b.txt|Other
    /inputs/files/../x|PermissionDenied
    /etc/passwd|NotFound
    /inputs/files/a.txt|read
    "#);
    assert_eq!(ran.sorted_output()[0], "/inputs/files/a.txt|read");
}

/// Tables have the types that the comments of `wit/entry.wit` name.
#[test]
fn tables_have_the_types_that_the_contract_names() {
    let columns = "i,f,s,b,d,t\n1,0.5,x,true,2026-11-21,2026-11-21T10:00:00\n";
    let ran = TestJob::new(&guest("echo_table"))
        .yaml("inputs: { rows: { path: rows.csv, format: csv } }\narguments: [--types]")
        .file("rows.csv", columns)
        .run(&[]);
    ran.exits_with(0);
    assert_snapshot!(ran.output().trim_end(), @r#"Int64 true; Float64 true; Utf8 true; Boolean true; Date32 true; Timestamp(Microsecond, Some("+00:00")) true"#);
    let contract = fs::read_to_string(sandmill_tests::root().join("wit/entry.wit")).unwrap();
    for name in ["Int64", "Float64", "Utf8", "Boolean", "Date32"] {
        assert!(contract.contains(&format!("`{name}`")), "{name}");
    }
    assert!(contract.contains("`Timestamp(Microsecond, \"+00:00\")`"));
}

/// Rule E16 in docs/parallel-run-step.md.
#[test]
fn the_native_test_host_gives_the_jobs_messages() {
    for (harm, sentence) in [
        (
            "rows-with-line-ends",
            "row 0 (counted from 0) of the results holds a line break, but a row \
          is one line of the output: replace the line break, or return a table, whose fields may \
          hold one",
        ),
        (
            "outcomes-too-few",
            "run returned 2 outcomes for 3 items: return one outcome for each item, \
          in the order of the mini-batch",
        ),
    ] {
        let ran = over_files("hostile_files").yaml(&format!("arguments: [--do, {harm}]")).run(&[]);
        ran.exits_with(42);
        let report = ran.log("job_result.txt");
        assert!(format!("{report}{}", ran.stderr).contains(sentence), "{harm}\n{ran}\n{report}");
    }
}

#[test]
fn a_new_entry_script_runs() {
    // The dependencies were downloaded for the other guests.
    let ran = TestJob::empty().env("CARGO_NET_OFFLINE", "true").command(&["new", "first"]);
    ran.exits_with(0);
    let ran = ran.into_job().spawn(&["run", "first/job.yaml", "--job-dir", "job"]).wait();
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["hello.txt: 2", "second.txt: 11"]);
}

#[test]
fn a_new_entry_script_over_a_table_or_with_a_model_runs() {
    let doubles = onnx_model(["N", "2"], &[("Add", &["x", "x"], "y")]);
    let people = ["1 Ann 1.6 64", "2 Ben 2.0 80", "3 Cleo 1.5 45"];
    let with_column = |column: [&str; 3]| {
        people.iter().zip(column).map(|(person, value)| format!("{person} {value}")).collect()
    };
    let doubled = ["first.txt: [2.0, 4.0]", "second.txt: [6.0, 8.0]"].map(str::to_owned).to_vec();
    let bmi = || with_column(["24.999999999999996", "20.0", "20.0"]);
    let [python, js, ts] = ["--language=python", "--language=javascript", "--language=typescript"];
    let words = || ["hello.txt: 2", "second.txt: 11"].map(str::to_owned).to_vec();
    let doubled_in_javascript =
        ["first.txt: [2,4]", "second.txt: [6,8]"].map(str::to_owned).to_vec();
    let cases: [(&[&str], Vec<String>); 13] = [
        (&["--table"], bmi()),
        (&["--model"], doubled.clone()),
        (&["--table", "--model"], with_column(["3.2", "4.0", "3.0"])),
        (&[python], words()),
        (&[js], words()),
        (&[js, "--table"], bmi()),
        (&[ts], words()),
        (&[ts, "--table"], bmi()),
        (&[js, "--model"], doubled_in_javascript),
        // JavaScript and Python calculate with 64 bits, so they print more digits of an f32.
        (&[ts, "--table", "--model"], with_column(["3.200000047683716", "4.0", "3.0"])),
        (&[python, "--table"], bmi()),
        (&[python, "--model"], doubled),
        (&[python, "--table", "--model"], with_column(["3.200000047683716", "4.0", "3.0"])),
    ];
    for (options, expected) in cases {
        let created = TestJob::empty()
            .env("CARGO_NET_OFFLINE", "true")
            .command(&[&["new", "first"], options].concat());
        created.exits_with(0);
        if options.contains(&"--model") {
            fs::write(created.dir().join("first/model.onnx"), &doubles).unwrap();
        }
        let ran = created.into_job().spawn(&["run", "first/job.yaml", "--job-dir", "job"]).wait();
        ran.exits_with(0);
        assert_eq!(ran.sorted_output(), expected, "{options:?}");
    }
}

#[test]
fn output_without_a_line_end_is_kept() {
    let ran = texts("unfinished_lines").run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.log("user/stdout/0/process000.stdout.txt"), "init,run,run,run,shutdown");
}

#[test]
fn an_entry_script_in_cpp_runs() {
    let source = fs::read_to_string(root().join("tests/guests/cpp/words.cpp")).unwrap();
    let job = "name: test\nentry_script: words\ninputs: {texts: in}\nprocess_count_per_node: 1";
    let job = TestJob::with_compilers().file("words/words.cpp", source).yaml(job);
    let job = job.file("in/a.txt", "one two two").file("in/b.txt", "");
    let ran = job.run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["a.txt: two 2", "b.txt:"]);
}

#[test]
fn a_new_entry_script_in_c_runs() {
    let people = ["1 Ann 1.6 64 24.999999999999996", "2 Ben 2.0 80 20.0", "3 Cleo 1.5 45 20.0"];
    let cases: [(&[&str], &[&str]); 2] =
        [(&[], &["hello.txt: 2", "second.txt: 11"]), (&["--table"], &people)];
    for (options, expected) in cases {
        let created = TestJob::with_compilers()
            .command(&[&["new", "first", "--language=c"], options].concat());
        created.exits_with(0);
        let ran = created.into_job().spawn(&["run", "first/job.yaml", "--job-dir", "job"]).wait();
        ran.exits_with(0);
        assert_eq!(ran.sorted_output(), expected, "{options:?}");
    }
}

/// An Arrow file with a column for each type of numbers, and a dictionary column. Signed types also have
/// negative numbers.
fn numbers() -> Vec<u8> {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i8", Arc::new(Int8Array::from(vec![i8::MIN, -1, i8::MAX]))),
        ("i16", Arc::new(Int16Array::from(vec![i16::MIN, -1, i16::MAX]))),
        ("i32", Arc::new(Int32Array::from(vec![i32::MIN, -1, i32::MAX]))),
        ("i64", Arc::new(Int64Array::from(vec![i64::MIN, -1, i64::MAX]))),
        ("u8", Arc::new(UInt8Array::from(vec![0, 1, u8::MAX]))),
        ("u16", Arc::new(UInt16Array::from(vec![0, 1, u16::MAX]))),
        ("u32", Arc::new(UInt32Array::from(vec![0, 1, u32::MAX]))),
        ("u64", Arc::new(UInt64Array::from(vec![0, 1, u64::MAX / 2]))),
        ("f32", Arc::new(Float32Array::from(vec![-1.5, 0.0, 2.25]))),
        ("word", Arc::new(DictionaryArray::<Int32Type>::from_iter(["b", "a", "b"]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut file = Vec::new();
    let mut writer = FileWriter::try_new(&mut file, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    file
}

#[test]
fn numbers_of_each_width_arrive_in_each_language() {
    let rows = [
        "-128 -32768 -2147483648 -9223372036854775808 0 0 0 0 -1.5 b",
        "-1 -1 -1 -1 1 1 1 1 0.0 a",
        "127 32767 2147483647 9223372036854775807 255 65535 4294967295 9223372036854775807 2.25 b",
    ];
    let c = "#include \"sandmill.h\"
SANDMILL_TAKES_TABLE
const char *sandmill_init(void) { return NULL; }
const char *sandmill_run(const sandmill_mini_batch *batch, sandmill_results *results) {
    for (size_t index = 0; index < batch->table->column_count; index++)
        sandmill_return_column(results, &batch->table->columns[index], batch->count);
    return NULL;
}
";
    let javascript = "export const run = (table) => table.with({});";
    let python = "def run(table):\n    return table\n";
    for (script, text, runtime) in [
        ("c", c, ""),
        ("score.js", javascript, ""),
        ("score.py", python, "python: {runtime: light}\n"),
    ] {
        let file = if script == "c" { "c/score.c" } else { script };
        let job = TestJob::with_compilers().file("numbers.arrow", numbers()).file(file, text).yaml(&format!(
            "name: test\nentry_script: {script}\n{runtime}inputs: {{t: {{path: numbers.arrow, format: arrow}}}}\nordered: true"
        ));
        let ran = job.run(&[]);
        ran.exits_with(0);
        assert_eq!(ran.output().lines().collect::<Vec<_>>(), rows, "{script}");
    }
}

#[test]
fn c_compile_errors_are_reported_with_their_lines() {
    let ran = TestJob::with_compilers()
        .file("score.c", "int f(void) { return missing; }\n")
        .command(&["build", "."]);
    ran.exits_with(2).says("do not compile with ");
    ran.says("score.c:1:22: error: use of undeclared identifier 'missing'");
}

#[test]
fn new_refuses_a_folder_without_the_sdk() {
    let ran = TestJob::empty().command(&["new", "first", "--sdk", "elsewhere"]);
    ran.exits_with(2);
    assert!(!ran.has("first"));
    assert_snapshot!(ran.redacted(), @"error: --sdk elsewhere: it is not the folder of the sandmill-guest crate, which is called guest-sdk in Sandmill's repository");
}

#[test]
fn a_crate_that_exports_nothing_is_refused() {
    let manifest = "[package]\nname = \"silent\"\nedition = \"2024\"\n[lib]\ncrate-type = \
                    [\"cdylib\"]\n[workspace]\n";
    let ran = TestJob::empty()
        .file("Cargo.toml", manifest)
        .file("src/lib.rs", "pub fn nothing() {}")
        .command(&["build", "."]);
    ran.exits_with(2);
    assert_eq!(ran.stdout, "");
    // Debian's toolchain builds a core module without metadata, so its message differs.
    if !ran.stderr.contains("is a core module without WIT metadata") {
        ran.says("the component exports nothing. An entry script exports");
        ran.says("Does the crate call `sandmill_guest::export!(TYPE)` exactly once?");
    }
}

#[test]
fn a_new_entry_script_builds_runs_and_passes_its_tests() {
    // The dependencies were downloaded with the test guests.
    let created = TestJob::empty().env("CARGO_NET_OFFLINE", "true").command(&["new", "my-script"]);
    created.exits_with(0);
    assert_snapshot!(created.redacted(), @r"
    made my-script/, an entry script with a job and a little data. Next:
      cd my-script
      sandmill run job.yaml
    ");
    let again = created.into_job().command(&["new", "my-script"]);
    again.exits_with(2).says("my-script is there already");
    let ran = again.into_job().command(&["run", "my-script/job.yaml", "--job-dir", "job"]);
    ran.exits_with(0);
    assert_snapshot!(ran.sorted_output().join("\n"), @r"
    hello.txt: 2
    second.txt: 11
    ");
    let tests = Command::new("cargo")
        .args(["test", "--quiet"])
        .current_dir(ran.dir().join("my-script"))
        .env("CARGO_TARGET_DIR", root().join("target/outside"))
        .env("CARGO_NET_OFFLINE", "true")
        .output()
        .expect("cargo is there");
    let stdout = String::from_utf8_lossy(&tests.stdout);
    assert!(tests.status.success(), "{stdout}{}", String::from_utf8_lossy(&tests.stderr));
    assert!(stdout.contains("test result: ok. 1 passed"), "{stdout}");
}
