//! CSV inputs: the rows and types that guests receive, and what happens to rows that do not match the
//! columns.

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest};
use std::process::Command;

/// A job that returns each row of `in.csv` as text. `input`: further keys of the input, after a comma.
fn table(csv: impl AsRef<[u8]>, input: &str) -> TestJob {
    TestJob::new(&guest("echo_table")).file("in.csv", csv).yaml(&format!(
        "inputs: {{rows: {{path: in.csv, format: csv{input}}}}}\n\
         process_count_per_node: 1\narguments: [--rows]"
    ))
}

/// The rows that the guest receives.
#[track_caller]
fn rows(csv: impl AsRef<[u8]>, input: &str) -> Vec<String> {
    let ran = table(csv, input).run(&[]);
    ran.exits_with(0);
    ran.output().lines().map(str::to_owned).collect()
}

/// The output if the guest returns its table, so that types are visible.
#[track_caller]
fn typed_output(csv: &str, input: &str) -> String {
    let ran = table(csv, input).run(&["--set", "arguments=[]"]);
    ran.exits_with(0);
    ran.output()
}

#[test]
fn quoted_fields_may_hold_commas_and_line_ends() {
    let csv = "id,text\n1,\"a, b\"\n2,\"say \"\"hi\"\"\"\n3,\"two\nlines\"\n4,end\n";
    // Returned tables may contain line ends, but rows of text may not. With this mini_batch_size, the file
    // could be split after any line.
    let ran = table(csv, "").run(&["--set", "mini_batch_size=8", "--set", "arguments=[]"]);
    ran.exits_with(0).says("items         4\n");
    assert_eq!(ran.output(), "1 \"a, b\"\n2 \"say \"\"hi\"\"\"\n3 \"two\nlines\"\n4 end\n");
}

#[test]
fn equivalent_spellings_give_the_same_table() {
    let expected = ["1,one", "2,two"];
    assert_eq!(rows("id,name\n1,one\n2,two\n", ""), expected);
    assert_eq!(rows("id,name\n1,one\n2,two", ""), expected, "no last line end");
    assert_eq!(rows("id,name\r\n1,one\r\n2,two\r\n", ""), expected, "CRLF");
    assert_eq!(rows("id,name\r\n1,one\r\n2,two", ""), expected, "CRLF, no last line end");
    assert_eq!(rows("\u{feff}id,name\n1,one\n2,two\n", ""), expected, "BOM");
    assert_eq!(rows("id;name\n1;one\n2;two\n", ", delimiter: ';'"), expected);
    assert_eq!(rows("id\tname\n1\tone\n2\ttwo\n", ", delimiter: tab"), expected);
    assert_eq!(rows("1,one\n2,two\n", ", header: false"), expected);
    assert_eq!(rows("\u{feff}1,one\n2,two\n", ", header: false"), expected, "BOM");
    assert_eq!(rows("id,name\n1,one\n\n2,two\n\n", ""), expected, "empty lines");
}

#[test]
fn other_dialects_are_read() {
    let expected = ["1,one", "2,two"];
    let commented = "by a program\nof 2026\n# names\nid,name\n1,one\n#2,no\n2,two\n# end\n";
    assert_eq!(rows(commented, ", skip_lines: 2, comment: '#'"), expected);
    assert_eq!(rows("id,name\n1,'one'\n'2',two\n", ", quote: \"'\""), expected);
    assert_eq!(rows("id,name\n1,\"one\n2,5\" two\n", ", quote: none"), ["1,\"one", "2,5\" two"]);
    assert_eq!(rows("a,a\n1,x\n", ", duplicate_names: rename, columns: [a_1]"), ["x"]);
}

/// `plan` writes the schema that it infers. A job with this schema has the same columns as a job without a
/// schema, also for JSON lines with lists.
#[test]
fn a_written_schema_gives_the_same_columns() {
    let job = || {
        TestJob::new(&guest("echo_table"))
            .file("in/a.csv", "id,no,\"a: b\",day\n1,x,2.5,2026-01-02\n")
            .file("in/b.jsonl", "{\"id\": 1, \"tags\": [1]}\n")
            .file("in/c.jsonl", "{\"id\": 1, \"when\": \"2026-01-02T03:04:05Z\"}\n")
    };
    let inputs = "inputs:
  rows: {path: in/a.csv, format: csv}
  lines: {path: in/b.jsonl, format: jsonl}
  more: {path: in/c.jsonl, format: jsonl}
";
    let ran = job().yaml(inputs).command(&["plan", "job.yaml", "--write-schema"]);
    ran.exits_with(0);
    assert_snapshot!(ran.stdout, @r#"
    inputs:
      rows:
        schema:
          id: int64
          "no": string
          "a: b": float64
          day: date
      lines:
        types:
          id: int64
          # tags: has nested fields; Sandmill infers their types
      more:
        schema:
          id: int64
          when: string
    "#);
    // The job file with the schema: adds the path and the format of each input.
    let mut with_schema = ran.stdout.clone();
    for (name, path, format) in
        [("rows", "a.csv", "csv"), ("lines", "b.jsonl", "jsonl"), ("more", "c.jsonl", "jsonl")]
    {
        let keys = format!("  {name}:\n    path: in/{path}\n    format: {format}\n");
        with_schema = with_schema.replace(&format!("  {name}:\n"), &keys);
    }
    let again = job().yaml(&with_schema).command(&["plan", "job.yaml", "--write-schema"]);
    again.exits_with(0);
    assert_eq!(again.stdout.replace("    # replaces the key types\n", ""), ran.stdout, "{again}");
    let files = job().yaml("inputs: {x: in}").command(&["plan", "job.yaml", "--write-schema"]);
    files.exits_with(2).says("--write-schema is for inputs of tables");
}

/// Python's `csv` writes files in several dialects. Sandmill must read the same rows as Python, also if a
/// file is split.
#[test]
fn files_written_by_python_are_read_as_python_does() {
    let script = r#"
import csv, random, sys
random.seed(29)
dialects = [
    dict(quotechar="'", escapechar="\\", doublequote=False),
    dict(quoting=csv.QUOTE_NONE, escapechar="\\", delimiter=";"),
    dict(quotechar="|", quoting=csv.QUOTE_ALL),
    dict(escapechar="^", doublequote=False, delimiter="\t"),
]
rows = [["id", "text"]] + [
    [str(id), "x" + "".join(random.choices("a\"'|,;\t\\^# é", k=9))] for id in range(300)]
for number, dialect in enumerate(dialects):
    with open(f"{number}.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n", **dialect).writerows(rows)
    with open(f"{number}.csv", newline="") as file:
        assert list(csv.reader(file, **dialect)) == rows
with open("rows", "w") as file:
    file.writelines(f"{id},{text}\n" for id, text in rows[1:])
"#;
    let folder = tempfile::tempdir().unwrap();
    let python = Command::new("python3").args(["-c", script]).current_dir(&folder).status();
    assert!(python.unwrap().success());
    let content = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let dialects = [
        ", quote: \"'\", escape: '\\'",
        ", quote: none, escape: '\\', delimiter: ;",
        ", quote: '|'",
        ", escape: ^, delimiter: tab",
    ];
    for (number, dialect) in dialects.iter().enumerate() {
        let ran = table(content(&format!("{number}.csv")), dialect)
            .run(&["--set", "mini_batch_size=700"]);
        ran.exits_with(0);
        let mut rows: Vec<_> = ran.output().lines().map(str::to_owned).collect();
        rows.sort_by_key(|row| row.split(',').next().and_then(|id| id.parse::<u32>().ok()));
        assert!(rows.iter().map(String::as_str).eq(content("rows").lines()), "{dialect}: {rows:?}");
    }
}

#[test]
fn small_mini_batches_never_split_a_row() {
    let mut csv = "id,text\n".to_owned();
    for id in 0..500 {
        csv.push_str(&format!("{id},\"text\nof {id}\"\n"));
    }
    let ran = table(&csv, "").run(&["--set", "mini_batch_size=100", "--set", "arguments=[]"]);
    ran.exits_with(0).says("items         500\n");
    let ids: Vec<String> = ran
        .output()
        .lines()
        .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
        .filter(|id| id.parse::<u32>().is_ok())
        .collect();
    assert!(ids.iter().map(String::as_str).eq((0..500).map(|id| id.to_string())), "{ran}");
}

#[test]
fn types_are_inferred() {
    let csv = "a,b,c,d,e,f\n1,1.5,true,x,2026-01-02,\n2,,false,,2026-01-03,\n";
    assert_eq!(rows(csv, ""), ["1,1.5,true,x,<Date32>,-", "2,-,false,-,<Date32>,-"]);
    assert_snapshot!(typed_output(csv, ""), @r"
    1 1.5 True x 2026-01-02 
    2  False  2026-01-03
    ");
}

#[test]
fn null_values_are_null() {
    let csv = "a,b\n1,x\nNA,-\n3,NA\n";
    assert_eq!(rows(csv, ", null_values: [NA, '-']"), ["1,x", "-,-", "3,-"]);
    // Without this setting, the column is text.
    assert_eq!(rows(csv, ""), ["1,x", "NA,-", "3,NA"]);
}

#[test]
fn a_schema_overrides_the_inferred_types() {
    let csv = "a,b\n01,1\n02,2\n";
    assert_eq!(rows(csv, ""), ["01,1", "02,2"], "codes are text");
    assert_eq!(rows(csv, ", schema: {a: int64, b: int64}"), ["1,1", "2,2"]);
    assert_eq!(rows(csv, ", schema: {a: string, b: float64}"), ["01,1", "02,2"]);
    assert_eq!(typed_output(csv, ", schema: {a: string, b: float64}"), "01 1.0\n02 2.0\n");
}

#[test]
fn rows_that_do_not_fit_are_failed_items() {
    let csv = "id,width\n1,1.5\ntwo,2.5\n3\n4,4.5,more\n5,5.5\n\"six\n\",6.5\n7,7.5\n";
    let ran =
        table(csv, ", schema: {id: int64, width: float64}").run(&["--set", "error_threshold=-1"]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "1,1.5\n5,5.5\n7,7.5\n");
    assert_snapshot!(ran.failed_items(), @r#"
    mini_batch,item,file,line,row,attempt,worker,reason
    0,"/inputs/rows/in.csv, line 3",/inputs/rows/in.csv,3,,1,[WORKER],"column 1 'id': ""two"" is not a valid int64"
    0,"/inputs/rows/in.csv, line 4",/inputs/rows/in.csv,4,,1,[WORKER],"1 field, but the table has 2 columns"
    0,"/inputs/rows/in.csv, line 5",/inputs/rows/in.csv,5,,1,[WORKER],"3 fields, but the table has 2 columns"
    0,"/inputs/rows/in.csv, line 7",/inputs/rows/in.csv,7,,1,[WORKER],"column 1 'id': ""six\n"" is not a valid int64"
    "#);
    let ran = ran.into_job().run(&["--overwrite"]);
    ran.exits_with(42);
    assert_snapshot!(ran.redacted(), @r#"
    job test: 1 worker
    Job test failed after [TIME]: 4 items failed, more than error_threshold allows (0); to continue despite failures, set error_threshold to the number to tolerate, or to -1
      first cause   column 1 'id': "two" is not a valid int64
      item          /inputs/rows/in.csv, line 3
      where         mini-batch 0, process000
      mini-batches  1
      items         7, of which 4 failed (see job/logs/failed_items.csv)
      kept          3 rows, in job/output/parallel_run_step.txt
      read next     job/logs/failed_items.csv
      what to do    to tolerate more and resume: sandmill resume job --set error_threshold=N; -1 tolerates all
      next command  sandmill explain job
    "#);
}

/// Rule E8 (docs/parallel-run-step.md): an entry script fails rows by their position in the table. Reports
/// name the line in the file.
#[test]
fn rows_that_fail_are_named_by_their_line() {
    let csv = "id,text\n1,good\n2,bad\n\nx,3\n4,\"two\nlines, bad\"\r\n5,good\n6,bad\n";
    let ran = table(csv, ", schema: {id: int64, text: string}").run(&[
        "--set",
        "error_threshold=-1",
        "--set",
        "arguments=[--fail, bad]",
    ]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "1,good\n5,good\n");
    let failed = ran.log("failed_items.csv");
    // The item's name contains a comma.
    let lines: Vec<&str> =
        failed.lines().skip(1).filter_map(|line| line.split(',').nth(4)).collect();
    assert_eq!(lines, ["5", "3", "6", "9"], "{failed}");
    assert!(failed.contains("bad\"\" is not wanted"), "{failed}");
}

#[test]
fn later_misfits_fail_unless_inference_reads_everything() {
    // By default, types are inferred from fewer rows than this file has.
    let mut csv = "id,value\n".to_owned();
    for id in 0..200_000 {
        csv.push_str(&format!("{id},{id}\n"));
    }
    csv.push_str("200000,text\n");
    let row_count = |ran: &Ran| ran.output().lines().count();
    let ran = table(&csv, "").run(&["--set", "error_threshold=1"]);
    ran.exits_with(0);
    assert_eq!(row_count(&ran), 200_000);
    assert_snapshot!(ran.failed_items(), @r#"
    mini_batch,item,file,line,row,attempt,worker,reason
    2,"/inputs/rows/in.csv, line 200002",/inputs/rows/in.csv,200002,,1,[WORKER],"column 2 'value': ""text"" is not a valid int64"
    "#);
    let ran = ran.into_job().run(&["--overwrite", "--set", "schema_inference=full"]);
    ran.exits_with(0);
    assert_eq!(row_count(&ran), 200_001);
    assert!(ran.output().ends_with("200000,text\n"));
}

/// Rules M2, D7.
#[test]
fn files_of_an_input_share_columns_but_no_mini_batch() {
    let job = TestJob::new(&guest("echo_table"))
        .yaml("inputs: {rows: {path: 'in/*.csv', format: csv}}\nprocess_count_per_node: 1\narguments: [--rows]")
        .file("in/a.csv", "id,x\n1,1\n2,2\n")
        .file("in/b.csv", "id,x\n3,3.5\n")
        // The types are inferred from all small files together.
        .file("in/c.csv", "id,x\n")
        .file("in/d.csv", "")
        .file("in/e.csv", "id,x\r\n5,\r\n");
    let plan = job.command(&["plan", "job.yaml"]);
    plan.exits_with(0);
    assert_snapshot!(plan.stdout, @r"
    mini-batch  input      items  where
             0  rows           2  a.csv, from line 2, 8 bytes
             1  rows           1  b.csv, from line 2, 6 bytes
             2  rows           1  e.csv, from line 2, 4 bytes
    ");
    assert_snapshot!(plan.redacted(), @"
    note: columns of input rows: id int64, x float64
    note: [DIR]/in/c.csv holds a header and no rows and gives no mini-batch
    note: [DIR]/in/d.csv is empty and gives no mini-batch
    3 mini-batches, 4 items, 18 bytes; 1 worker; the results go to jobs/test/output
    ");
    let ran = plan.into_job().run(&[]);
    ran.exits_with(0);
    assert_snapshot!(ran.output(), @r"
    1,1
    2,2
    3,3.5
    5,-
    ");
}

#[test]
fn a_file_with_other_columns_is_reported() {
    let ran = TestJob::new(&guest("echo_table"))
        .yaml("inputs: {rows: {path: in, format: csv}}\nprocess_count_per_node: 1\narguments: [--rows]")
        .file("in/a.csv", "id,x\n1,1\n")
        .file("in/b.csv", "x,id\n2,2\n")
        .run(&[]);
    ran.exits_with(42);
    assert_snapshot!(ran.messages(), @"
    job test: 1 worker
    note: a file cannot be read, so its mini-batch fails: [DIR]/in/b.csv: the header does not fit [DIR]/in/a.csv; expected 2 columns: id, x; found 2 columns: x, id: give them the same columns in the same order, or make them inputs of separate jobs
    mini-batch 1, attempt 1 ([WORKER]): [DIR]/in/b.csv: the header does not fit [DIR]/in/a.csv; expected 2 columns: id, x; found 2 columns: x, id: give them the same columns in the same order, or make them inputs of separate jobs
    Job test failed after [TIME]: 1 item failed, more than error_threshold allows (0); to continue despite failures, set error_threshold to the number to tolerate, or to -1
      first cause   [DIR]/in/b.csv: the header does not fit [DIR]/in/a.csv; expected 2 columns: id, x; found 2 columns: x, id: give them the same columns in the same order, or make them inputs of separate jobs
      where         mini-batch 1, [WORKER]
      mini-batches  2, of which 1 failed
      items         2, of which 1 failed (see job/logs/failed_items.csv)
      kept          1 row, in job/output/parallel_run_step.txt
      read next     job/logs/failed_items.csv
      what to do    to tolerate more and resume: sandmill resume job --set error_threshold=N; -1 tolerates all
      next command  sandmill explain job
    ");
}

/// Rule W10: without rows to write, the job fails. With `summary_only`, it completes.
#[test]
fn tables_without_rows_fail_the_job() {
    for csv in ["", "id,x\n", "id,x", "\u{feff}", "\n\n"] {
        let ran = table(csv, "").run(&["--set", "error_threshold=-1"]);
        ran.exits_with(42).says("gives no mini-batch\n").says("the inputs hold no items");
        assert_eq!(ran.output(), "", "{csv:?}");
    }
    let ran = table("id,x\n", "").run(&["--set", "output_action=summary_only"]);
    ran.exits_with(0);
    assert_snapshot!(ran.redacted(), @"
    job test: 1 worker
    note: [DIR]/in.csv holds a header and no rows and gives no mini-batch
    Job test completed in [TIME].
      mini-batches  0
      items         0
      output        job/output
    ");
}

#[test]
fn a_plan_shows_lines_and_bytes() {
    let mut csv = "id,x\n".to_owned();
    for id in 0..1000 {
        csv.push_str(&format!("{id},\"a\nb\"\n"));
    }
    let plan = table(&csv, "").command(&["plan", "job.yaml", "--set", "mini_batch_size=4KB"]);
    plan.exits_with(0);
    assert_snapshot!(plan.stdout, @r"
    mini-batch  input      items  where
             0  rows         421  in.csv, from line 2, 4100 bytes
             1  rows         410  in.csv, from line 844, 4100 bytes
             2  rows         169  in.csv, from line 1664, 1690 bytes
    ");
    assert_snapshot!(plan.redacted(), @"
    note: columns of input rows: id int64, x string
    3 mini-batches, 1,000 items, 9.7 KiB; 1 worker; the results go to jobs/test/output
    ");
}

/// With `mini_batch_size: N rows`, each mini-batch has N rows. Only the last one of a file has fewer.
#[test]
fn mini_batches_have_a_maximum_number_of_rows() {
    let mut csv = "id,x\n".to_owned();
    for id in 0..1000 {
        csv.push_str(&format!("{id},\"a\nb\"\n"));
    }
    let rows = ["--set", "mini_batch_size=400 rows", "--set", "arguments=[]"];
    let plan = table(&csv, "").command(&[&["plan", "job.yaml"], &rows[..]].concat());
    plan.exits_with(0);
    assert_snapshot!(plan.stdout, @"
    mini-batch  input      items  where
             0  rows         400  in.csv, from line 2, 3890 bytes
             1  rows         400  in.csv, from line 802, 4000 bytes
             2  rows         200  in.csv, from line 1602, 2000 bytes
    ");
    let ran = table(&csv, "").run(&rows);
    ran.exits_with(0);
    let by_size = table(&csv, "").run(&["--set", "arguments=[]"]);
    assert_eq!(ran.sorted_output(), by_size.sorted_output());
    // With another split, the result is not reused.
    let other = ["--set", "mini_batch_size=300 rows", "--set", "arguments=[]"];
    let refused = ran.into_job().run(&other);
    refused.exits_with(2);
    assert_snapshot!(refused.redacted(), @r#"error: job 'test' is finished in [DIR]/job, and its result is not reused: mini_batch_size: was 400 rows, is now 300 rows; use --overwrite to run it again, or --job-dir for another place"#);
}
