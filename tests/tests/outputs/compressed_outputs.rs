//! Compressed CSV and JSON lines. The output file is readable after every commit, even if the leader is
//! killed.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest, python};
use std::process::Command;

/// The content of a file, read by pyarrow. For gzip, checks that Python's gzip and pandas read the same.
#[track_caller]
fn read(ran: &Ran, file: &str, compression: &str) -> String {
    let code = "import sys, io, pandas as pd, pyarrow as pa\n\
                path, compression = sys.argv[1:]\n\
                text = pa.input_stream(path, compression=compression).read().decode()\n\
                if compression == 'gzip':\n\
                \x20   import gzip\n\
                \x20   assert gzip.open(path, 'rt', newline='').read() == text\n\
                \x20   assert text[0] == '{' or len(pd.read_csv(path, compression='gzip')) == text.count('\\n') - 1, text\n\
                print(text, end='')";
    let path = ran.dir().join(file);
    let output =
        Command::new(python()).args(["-c", code]).arg(path).arg(compression).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}\n{ran}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A job with three mini-batches of one row. Its entry script returns its input table unchanged.
fn job(settings: &str) -> TestJob {
    let job = TestJob::new(&guest("echo_table")).yaml(&format!(
        "inputs: {{rows: {{path: in, format: csv}}}}\nprocess_count_per_node: 1\n\
         append_row_file_name: rows\n{settings}"
    ));
    ["1,red", "2,\"dark, green\"", "3,"].iter().enumerate().fold(job, |job, (number, row)| {
        job.file(&format!("in/{number}.csv"), format!("id,colour\n{row}\n"))
    })
}

#[test]
fn compressed_lines_are_complete() {
    let text = |kind: &str, compression: &str| {
        let format = format!("output_format: {{type: {kind}, compression: {compression}}}");
        let ran = job(&format!("{format}\nordered: true")).run(&[]);
        ran.exits_with(0);
        read(&ran, "job/output/rows", compression)
    };
    let csv = text("csv", "gzip");
    assert_snapshot!(csv, @r#"
    id,colour
    1,red
    2,"dark, green"
    3,
    "#);
    assert_eq!(text("csv", "zstd"), csv);
    let json = text("jsonl", "zstd");
    assert_snapshot!(json, @r#"
    {"id":1,"colour":"red"}
    {"id":2,"colour":"dark, green"}
    {"id":3,"colour":null}
    "#);
    assert_eq!(text("jsonl", "gzip"), json);
}

/// The leader is killed after each commit. The file is then readable. After the next run, it has each row
/// once.
#[test]
fn the_compressed_file_is_readable_after_every_commit() {
    for number in 1.. {
        let csv = "output_format: {type: csv, compression: gzip}";
        let point = format!("rows-appended:{number}");
        let ran = job(csv).env("SANDMILL_FAIL_POINT", &point).run(&[]);
        if ran.code == -9 && std::fs::metadata(ran.dir().join("job/output/rows")).unwrap().len() > 0
        {
            assert!(read(&ran, "job/output/rows", "gzip").starts_with("id,colour\n"), "{ran}");
        }
        let crashed = ran.code == -9;
        let ran =
            if crashed { ran.into_job().env("SANDMILL_FAIL_POINT", "").run(&[]) } else { ran };
        ran.exits_with(0);
        let text = read(&ran, "job/output/rows", "gzip");
        let mut rows: Vec<_> = text.lines().skip(1).collect();
        rows.sort_unstable();
        assert_eq!(rows, ["1,red", "2,\"dark, green\"", "3,"], "{ran}");
        if !crashed {
            return;
        }
    }
}
