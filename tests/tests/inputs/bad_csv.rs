//! CSV files with invalid content.

#![cfg(unix)]

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest};
use std::fmt::Write;

/// A job for one worker over CSV files.
fn job(files: &[(&str, &[u8])]) -> TestJob {
    let job = TestJob::new(&guest("echo_table")).yaml(
        "inputs: { rows: { path: input, format: csv } }\n\
         process_count_per_node: 1\n\
         run_max_try: 1\n\
         mini_batch_size: 64 KB",
    );
    files.iter().fold(job, |job, (name, content)| job.file(&format!("input/{name}"), content))
}

/// Numbered lines, each with an integer and 0.5.
fn lines(count: usize) -> String {
    (0..count).fold(String::new(), |mut text, i| {
        let _ = writeln!(text, "{i},0.5");
        text
    })
}

/// The text of a file that begins with good records and ends with bad ones, and the number of good records.
fn with_bad_records() -> (String, usize) {
    let good_count = 200_000;
    let bad = "word,0.5\n7,0.5,1\n8\n\"9\n9\",0.5\n10,\"\n\nx\"\n11,0.5\n";
    (format!("id,x\n{}{bad}", lines(good_count)), good_count)
}

#[test]
fn bad_records_are_failed_items() {
    let (text, good_count) = with_bad_records();
    let ran = job(&[("a.csv", text.as_bytes())]).run(&["--set", "error_threshold=5"]);
    ran.exits_with(0);
    let rows = ran.output();
    assert_eq!(rows.lines().count(), good_count + 1, "all good records");
    assert!(rows.ends_with("\n11 0.5\n"), "{}", &rows[rows.len() - 50..]);
    // Line numbers count the lines of the file, also after records of several lines.
    let mut failed = ran.failed_items();
    for (line, name) in [(1, "BAD"), (2, "BAD+1"), (3, "BAD+2"), (4, "BAD+3"), (6, "BAD+5")] {
        let number = good_count + 1 + line;
        failed = failed.replace(&format!("line {number}\""), &format!("line {name}\""));
        failed = failed.replace(&format!(",{number},,1,"), &format!(",{name},,1,"));
    }
    assert_snapshot!(without_batch(&failed), @r#"
    item,file,line,row,attempt,worker,reason
    "/inputs/rows/a.csv, line BAD",/inputs/rows/a.csv,BAD,,1,[WORKER],"column 1 'id': ""word"" is not a valid int64"
    "/inputs/rows/a.csv, line BAD+1",/inputs/rows/a.csv,BAD+1,,1,[WORKER],"3 fields, but the table has 2 columns"
    "/inputs/rows/a.csv, line BAD+2",/inputs/rows/a.csv,BAD+2,,1,[WORKER],"1 field, but the table has 2 columns"
    "/inputs/rows/a.csv, line BAD+3",/inputs/rows/a.csv,BAD+3,,1,[WORKER],"column 1 'id': ""9\n9"" is not a valid int64"
    "/inputs/rows/a.csv, line BAD+5",/inputs/rows/a.csv,BAD+5,,1,[WORKER],"column 2 'x': ""\n\nx"" is not a valid float64"
    "#);
}

/// `failed_items.csv` without the mini-batch ids, which depend on where the file was split.
fn without_batch(failed: &str) -> String {
    let rest = |line: &str| line.split_once(',').map_or(String::new(), |(_, rest)| rest.to_owned());
    failed.lines().map(rest).collect::<Vec<_>>().join("\n")
}

/// Rule C9 in docs/parallel-run-step.md.
#[test]
fn one_more_than_the_threshold_ends_the_job() {
    let (text, _) = with_bad_records();
    let ran = job(&[("a.csv", text.as_bytes())]).run(&["--set", "error_threshold=4"]);
    ran.exits_with(42);
    let messages = ran.messages();
    let counters = |line: &&str| !["  mini-batches", "  items"].iter().any(|c| line.starts_with(c));
    let messages: Vec<_> = messages.lines().filter(counters).collect();
    assert_snapshot!(messages.join("\n"), @r#"
    job test: 1 worker
    Job test failed after [TIME]: 5 items failed, more than error_threshold allows (4); to continue despite failures, set error_threshold to the number to tolerate, or to -1
      first cause   column 1 'id': "word" is not a valid int64
      item          /inputs/rows/a.csv, line 200002
      where         mini-batch 31, [WORKER]
      kept          200,001 rows, in job/output/parallel_run_step.txt
      read next     job/logs/failed_items.csv
      what to do    to tolerate more and resume: sandmill resume job --set error_threshold=N; -1 tolerates all
      next command  sandmill explain job
    "#);
}

/// The reasons why files cannot be read. If there is only one file, adds a good file.
fn reasons_of_refusal(files: &[(&str, &[u8])]) -> String {
    let job = job(files);
    let job = if files.len() == 1 { job.file("input/z.csv", "id,x\n1,2\n") } else { job };
    let ran = job.run(&["--set", "error_threshold=-1"]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "1 2\n", "the good file is not affected");
    reasons(&ran)
}

fn reasons(ran: &Ran) -> String {
    let failed = ran.failed_items().replace(&ran.dir().display().to_string(), "[DIR]");
    let rest =
        |line: &str| line.split_once(",,,1,[WORKER],").map_or("?", |(_, reason)| reason).to_owned();
    failed.lines().skip(1).map(rest).collect::<Vec<_>>().join("\n")
}

/// A file without a matching header is a failed item.
#[test]
fn invalid_headers_fail_their_files() {
    let huge = vec![b'x'; 3 << 20];
    let unclosed_quote = [b"\"", &huge[..]].concat();
    let messages = [
        reasons_of_refusal(&[("a.csv", b"id,x\n1,2\n"), ("b.csv", b"id,y\n1,2\n")]),
        reasons_of_refusal(&[("a.csv", b"id,x\n1,2\n"), ("b.csv", b"id\n1\n")]),
        reasons_of_refusal(&[
            ("a.csv", b"id,x\n1,2\n"),
            ("b.csv", b"\xff\xd8\xff\xe0 no table at all\n"),
        ]),
        reasons_of_refusal(&[("a.csv", b"id,id\n1,2\n")]),
        reasons_of_refusal(&[("a.csv", b"id,caf\xe9\n1,2\n")]),
        reasons_of_refusal(&[("a.csv", b"\x7fELF\x02\x01\0\0\0\0\n\0\0")]),
        reasons_of_refusal(&[("a.csv", b"\xff\xfei\0d\0\n\0")]),
        reasons_of_refusal(&[("a.csv", &huge)]),
        reasons_of_refusal(&[("a.csv", &unclosed_quote)]),
    ];
    assert_snapshot!(messages.join("\n"), @r#"
    "the whole mini-batch (1 item): [DIR]/input/b.csv: the header does not fit [DIR]/input/a.csv; expected 2 columns: id, x; found 2 columns: id, y: give them the same columns in the same order, or make them inputs of separate jobs"
    "the whole mini-batch (1 item): [DIR]/input/b.csv: the header does not fit [DIR]/input/a.csv; expected 2 columns: id, x; found 1 column: id: give them the same columns in the same order, or make them inputs of separate jobs"
    "the whole mini-batch (1 item): [DIR]/input/b.csv is not csv, but a JPEG image: use format: files, which gives entry scripts paths; or name the files with a glob that leaves it out"
    "the whole mini-batch (1 item): [DIR]/input/a.csv: columns 1 and 2 of the header are both named 'id'; rename one, or set `duplicate_names: rename`, which numbers them (if the file has no header, set `header: false`)"
    "the whole mini-batch (1 item): [DIR]/input/a.csv: the name of column 2 in the header, ""caf�"", is not UTF-8; save the file as UTF-8"
    "the whole mini-batch (1 item): [DIR]/input/a.csv: the name of column 1 in the header, ""\u{7f}ELF\u{2}\u{1}\0\0\0\0"", holds a null character, so this is not a CSV file; move it away, or name the files with a glob that leaves it out"
    "the whole mini-batch (1 item): [DIR]/input/a.csv: the name of column 1 in the header, ""��i\0d\0"", is not UTF-8; save the file as UTF-8"
    "the whole mini-batch (1 item): [DIR]/input/a.csv: the header does not end within 1 MB; its first line is longer, or has no end: use fewer columns or shorter names"
    the whole mini-batch (1 item): [DIR]/input/a.csv: the header does not end within 1 MB; look for a quote that is not closed in the first line
    "#);
    let ran = job(&[("a.csv", b"id,x\n1,2\n")])
        .run(&["--set", "inputs.rows.schema={id: int64, width: float64}"]);
    ran.exits_with(42);
    assert_snapshot!(reasons(&ran), @r#""the whole mini-batch (1 item): [DIR]/input/a.csv: the header does not fit the schema in the job file; expected 2 columns: id, width; found 2 columns: id, x: give them the same columns in the same order, or make them inputs of separate jobs""#);
}

/// Runs a job over a file that can be read only in part. Returns the rows, failed items and notes.
fn outcome(content: &[u8]) -> String {
    let ran = job(&[("a.csv", content)]).run(&["--set", "error_threshold=-1"]);
    ran.exits_with(0);
    let notes: Vec<_> = ran.stderr.lines().filter(|line| line.starts_with("note: ")).collect();
    let failed: Vec<String> = ran.failed_items().lines().skip(1).map(str::to_owned).collect();
    let text = format!("{:?}\n{}\n{}\n", ran.output(), failed.join("\n"), notes.join("\n"));
    text.replace(&ran.dir().display().to_string(), "[DIR]")
}

#[test]
fn text_that_is_not_utf8() {
    assert_snapshot!(outcome(b"id,x\n1,caf\xe9\n2,ok\n"), @r#"
    "2 ok\n"
    0,"/inputs/rows/a.csv, line 2",/inputs/rows/a.csv,2,,1,[WORKER],"column 2 'x': ""caf�"" is not UTF-8"
    "#);
}

#[test]
fn a_quote_that_is_not_closed() {
    let text = format!("id,x\n1,2\n\"3,4\n{}", lines(50_000));
    let messages = outcome(text.as_bytes());
    let (rows, messages) = messages.split_once("\n").unwrap();
    assert!(rows.ends_with("\\n49999 0.5\\n\"") && rows.matches("\\n").count() == 50_001);
    assert_snapshot!(messages, @r#"0,"/inputs/rows/a.csv, line 3",/inputs/rows/a.csv,3,,1,[WORKER],"column 1 'id': ""\""3,4"" has no closing quote""#);
}

#[test]
fn stray_quotes_are_handled() {
    let text = b"id,text\n1,\"ab\"cd\n2,\"b\n3,c\n4,5\" pipe\n5,\"d\n6,e\"\n7,f\n";
    assert_snapshot!(outcome(text), @r#"
    "3 c\n4 \"5\"\" pipe\"\n5 \"d\n6,e\"\n7 f\n"
    0,"/inputs/rows/a.csv, line 2",/inputs/rows/a.csv,2,,1,[WORKER],"column 2 'text': ""\""ab\""cd"" has text after its closing quote"
    0,"/inputs/rows/a.csv, line 3",/inputs/rows/a.csv,3,,1,[WORKER],"column 2 'text': ""\""b"" has no closing quote"
    note: [DIR]/input/a.csv: lines that look like records are inside a quoted field: lines 6 to 7; if a quote is stray there, set quoted_newlines to false, which makes each line a record
    "#);
    let set = ["--set", "error_threshold=-1", "--set", "inputs.rows.quoted_newlines=false"];
    let ran = job(&[("a.csv", text)]).run(&set);
    ran.exits_with(0);
    assert_eq!(ran.output(), "3 c\n4 \"5\"\" pipe\"\n6 \"e\"\"\"\n7 f\n");
    assert_eq!(ran.failed_items().lines().count(), 1 + 3);
}

/// DuckDB infers the same types.
#[test]
fn codes_keep_their_leading_zeros() {
    let text = "name,phone,zip\nAnn,+14155550100,01234\nBob,+442079460000,00501\n";
    let ran = job(&[("a.csv", text.as_bytes())]).run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "Ann +14155550100 01234\nBob +442079460000 00501\n");
    let plan = ran.into_job().command(&["plan", "job.yaml"]);
    assert!(plan.stderr.contains("name string, phone string, zip string"), "{plan}");
}

#[test]
fn one_huge_line() {
    let mut text = b"id,x\n1,2\n".to_vec();
    text.resize(20 << 20, b'x');
    text.extend_from_slice(b"\n3,4\n");
    assert_snapshot!(outcome(&text), @r#"
    "1 2\n3 4\n"
    0,"/inputs/rows/a.csv, line 3",/inputs/rows/a.csv,3,,1,[WORKER],"1 field, but the table has 2 columns"
    "#);
}

#[test]
fn files_without_rows() {
    let ran = job(&[("a.csv", b""), ("b.csv", b"id,x\n"), ("c.csv", b"id,x\n1,2")]).run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "1 2\n");
    assert_snapshot!(ran.messages(), @"
    job test: 1 worker
    note: [DIR]/input/a.csv is empty and gives no mini-batch
    note: [DIR]/input/b.csv holds a header and no rows and gives no mini-batch
    Job test completed in [TIME].
      mini-batches  1
      items         1
      rows          1
      output        job/output/parallel_run_step.txt
    ");
}
