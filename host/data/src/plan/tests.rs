//! Plans of files and tables by size, and the messages to the user.

use super::serve::serve_request;
use super::shuffle::ShuffleLimits;
use super::*;
use crate::dataset::{DatasetError, TableReader};
use crate::model::{
    Column, ColumnType, CsvFormat, JobInput, MiniBatch, MiniBatchId, MiniBatchWork, Names,
    SliceSize, Source, TableFormat, TableInput, TextSlice,
};
use crate::protocol::{PROTOCOL_VERSION, PlanRequest, decode};
use arrow::array::ArrayRef;
use arrow::ipc::reader::StreamReader;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use insta::assert_snapshot;
use std::fs;
use std::io::Cursor;
use std::path::PathBuf;

pub(super) struct TreeFixture(tempfile::TempDir);

impl TreeFixture {
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self(dir)
    }

    pub(super) fn root(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    /// A source of the dataset, with all files below `folder`.
    pub(super) fn source(&self, dataset: &str, folder: &str) -> Source {
        Source::new(dataset, self.root().join(folder))
    }

    pub(super) fn clean(&self, text: &str) -> String {
        text.replace(self.root().to_str().unwrap(), "/d")
    }
}

#[derive(Debug, Default)]
pub(super) struct PlanFixture {
    pub(super) tables: Vec<TableFormat>,
    groups: Vec<usize>,
    pub(super) mini_batches: Vec<MiniBatch>,
    pub(super) notices: Vec<String>,
    /// The messages about inferred columns.
    pub(super) columns: Vec<String>,
}

/// Returns the plan, after checks that hold for every plan, or its failure.
pub(super) fn planned(sources: Vec<Source>, cut: CutOptions) -> Result<PlanFixture, DatasetError> {
    let request = PlanRequest::new(sources, cut);
    let start = || Err(io::Error::other("nothing is to be grouped"));
    planned_with(ShuffleContext {
        request: &request,
        start: &start,
        bounds: ShuffleLimits::default(),
    })
}

fn plan(
    request: &PlanRequest,
    emit: &mut dyn FnMut(FromPlanner) -> io::Result<()>,
) -> io::Result<()> {
    let start = || Err(io::Error::other("nothing is to be grouped"));
    plan_with(
        ShuffleContext { request, start: &start, bounds: ShuffleLimits::default() },
        &no_answer,
        emit,
    )
}

/// Answers nothing: for planners that do not ask.
pub(super) fn no_answer() -> io::Result<MayOpen> {
    Err(io::Error::other("no answer is expected"))
}

pub(super) fn planned_with(tools: ShuffleContext<'_>) -> Result<PlanFixture, DatasetError> {
    let mut messages = Vec::new();
    plan_with(tools, &no_answer, &mut |message| {
        messages.push(message);
        Ok(())
    })
    .unwrap();
    let last = messages.pop().unwrap();
    if let FromPlanner::Failed(text) = last {
        return Err(DatasetError(text));
    }
    assert_eq!(last, FromPlanner::Finished);
    let mut plan = PlanFixture::default();
    for (index, message) in messages.into_iter().enumerate() {
        match message {
            FromPlanner::Tables(tables) => {
                assert_eq!(index, 0);
                plan.tables = tables;
            }
            FromPlanner::MiniBatches(group) => {
                plan.groups.push(group.len());
                plan.mini_batches.extend(group);
            }
            FromPlanner::Columns(text) => plan.columns.push(text),
            FromPlanner::Notice(text) if text.contains("column") => plan.columns.push(text),
            FromPlanner::Notice(text) => plan.notices.push(text),
            FromPlanner::Share(share) => assert!(share <= 1000),
            message => panic!("{message:?}"),
        }
    }
    for (id, mini_batch) in (0..).zip(&plan.mini_batches) {
        assert_eq!(mini_batch.id, MiniBatchId(id));
    }
    Ok(plan)
}

fn tables(
    sources: Vec<Source>,
    bytes: u64,
    columns: Option<Vec<Column>>,
) -> Result<PlanFixture, DatasetError> {
    let table = TableInput { schema: columns, ..TableInput::default() };
    let inputs = vec![table; sources.len()];
    planned(
        sources,
        CutOptions::Tables { size: SliceSize::Bytes(bytes), inputs, full_inference: false },
    )
}

fn slices(plan: &PlanFixture) -> Vec<(u32, &str, u64, u64)> {
    let slices = plan.mini_batches.iter().map(|mini_batch| match &mini_batch.work {
        MiniBatchWork::Text(slice) => {
            (mini_batch.source, slice.file.as_str(), slice.offset, slice.rows)
        }
        work => panic!("{work:?}"),
    });
    slices.collect()
}

pub(super) fn joined(names: &Names) -> String {
    names.iter().collect::<Vec<_>>().join(" ")
}

/// Rules M1 and C7 in docs/parallel-run-step.md: groups of consecutive files of one source, inputs in their
/// order.
#[test]
fn files_are_grouped_within_their_source() {
    let tree = TreeFixture::new(&[("a/1", ""), ("a/2", ""), ("a/3/x", ""), ("b/1", "")]);
    let sources = vec![tree.source("one", "a"), tree.source("one", "b"), tree.source("two", "a")];
    let plan = planned(sources, CutOptions::Files { count: 2 }).unwrap();
    let work: Vec<_> = plan
        .mini_batches
        .iter()
        .map(|mini_batch| match &mini_batch.work {
            MiniBatchWork::Files(files) => format!("{}: {}", mini_batch.source, joined(files)),
            work => panic!("{work:?}"),
        })
        .collect();
    assert_eq!(work, ["0: 1 2", "0: 3/x", "1: 1", "2: 1 2", "2: 3/x"]);
    assert!(plan.tables.is_empty() && plan.notices.is_empty());
    assert_eq!(plan.groups[0], 1, "the first mini-batch is sent immediately");
}

#[test]
fn listed_files_are_grouped_like_all_others() {
    let names: Vec<String> = (0..700).map(|index| format!("a/{index:03}")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
    let tree = TreeFixture::new(&files);
    let paths = names.iter().map(|name| tree.root().join(name).display().to_string());
    let input = JobInput { paths: paths.collect(), ..JobInput::sample() };
    let sources = crate::dataset::resolve(&[input]).unwrap();
    assert_eq!(sources.len(), 1);
    let plan = planned(sources, CutOptions::Files { count: 50 }).unwrap();
    assert_eq!(plan.mini_batches.len(), 14);
    assert!(plan.mini_batches.iter().all(|batch| batch.planned_items() == 50));
}

/// Rule C26: the requested number of void mini-batches, regardless of the inputs.
#[test]
fn void_mini_batches_are_counted_and_grouped() {
    let plan = planned(Vec::new(), CutOptions::Void { count: 1000 }).unwrap();
    assert_eq!(plan.mini_batches.len(), 1000);
    assert!(
        plan.mini_batches
            .iter()
            .all(|batch| batch.work == MiniBatchWork::Void && batch.source == 0)
    );
    assert_eq!(plan.groups[0], 1);
    assert!(plan.groups.iter().all(|&group| group <= 64));
    assert!(planned(Vec::new(), CutOptions::Void { count: 0 }).unwrap().mini_batches.is_empty());
}

/// Rule M2: a mini-batch never spans files; a small file is a mini-batch by itself, and a large one is split.
#[test]
fn tables_are_cut_within_their_files() {
    let tree = TreeFixture::new(&[
        ("a/1.csv", "x,y\n1,a\n2,b\n3,c\n"),
        ("a/2.csv", "x,y\n4,d"),
        ("b/3.csv", "x,y\r\n5,e\r\n"),
        ("c/4.csv", "z\n1.5\n"),
    ]);
    let sources = vec![tree.source("one", "a"), tree.source("one", "b"), tree.source("two", "c")];
    let plan = tables(sources, 5, None).unwrap();
    assert_eq!(
        slices(&plan),
        [
            (0, "1.csv", 4, 2),
            (0, "1.csv", 12, 1),
            (0, "2.csv", 4, 1),
            (1, "3.csv", 5, 1),
            (2, "4.csv", 2, 1)
        ]
    );
    assert_eq!(plan.tables.len(), 3);
    assert_eq!(plan.tables[0], plan.tables[1]);
    let column = |name: &str, kind| Column { name: name.to_owned(), kind };
    assert_eq!(plan.tables[0].columns[0], column("x", ColumnType::Int64));
    assert_eq!(plan.tables[2].columns, [column("z", ColumnType::Float64)]);
    assert_eq!(plan.notices, [""; 0]);
}

#[test]
fn odd_files_give_a_notice() {
    let tree = TreeFixture::new(&[
        ("a/1.csv", ""),
        ("a/2.csv", "x\n"),
        ("a/3.csv", "x\n1\n"),
        ("a/4.csv", "x\n\"open\n"),
        ("a/5.csv", "\u{feff}\r\n"),
        ("a/6.csv", "\"x\n1\n"),
        ("a/7.csv", "x\n\"two\nlines\"\n"),
    ]);
    let plan = tables(vec![tree.source("one", "a")], 100, None).unwrap();
    assert_eq!(plan.mini_batches.len(), 4);
    assert_snapshot!(tree.clean(&plan.notices.join("\n")), @r#"
    input one: x is read as string (7.csv, line 2: "two\nlines" is not a valid int64); set schema to fix types (sandmill plan --write-schema prints one)
    /d/a/1.csv is empty and gives no mini-batch
    /d/a/2.csv holds a header and no rows and gives no mini-batch
    /d/a/5.csv is empty and gives no mini-batch
    /d/a/6.csv: a quote in the header is stray; the names are taken to be x
    "#);
    let tree = TreeFixture::new(&[("a/1.csv", "x,y\n1,\"two\n2,lines\"\n")]);
    let plan = tables(vec![tree.source("one", "a")], 100, None).unwrap();
    assert_snapshot!(tree.clean(&plan.notices.join("\n")), @"/d/a/1.csv: lines that look like records are inside a quoted field: lines 2 to 3; if a quote is stray there, set quoted_newlines to false, which makes each line a record");
}

#[test]
fn notices_beyond_the_limit_are_only_counted() {
    let files: Vec<_> = (0..50).map(|index| (format!("a/{index}.csv"), "x\n")).collect();
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let tree = TreeFixture::new(&files);
    let plan = tables(vec![tree.source("one", "a")], 100, None).unwrap();
    assert_eq!(plan.notices.len(), 21);
    assert_eq!(plan.notices[20], "… and 30 more notices like these");
    assert!(plan.mini_batches.is_empty());
}

#[test]
fn headers_must_agree() {
    let tree = TreeFixture::new(&[("a/1.csv", "x,y\n1,2\n"), ("a/2.csv", "y,x\n1,2\n")]);
    // A file with another header becomes a mini-batch that fails.
    let bad = |plan: &PlanFixture| -> String {
        let bad = plan.mini_batches.iter().filter_map(|batch| match &batch.work {
            MiniBatchWork::Unreadable(bad) => Some(bad.reason.clone()),
            _ => None,
        });
        tree.clean(&bad.collect::<Vec<_>>().join("\n"))
    };
    let plan = tables(vec![tree.source("one", "a")], 100, None).unwrap();
    assert_eq!(plan.mini_batches.len(), 2);
    assert_snapshot!(bad(&plan), @"/d/a/2.csv: the header does not fit /d/a/1.csv; expected 2 columns: x, y; found 2 columns: y, x: give them the same columns in the same order, or make them inputs of separate jobs");
    let given = |names: [&str; 2]| {
        let names = names.iter();
        let columns =
            names.map(|name| Column { name: (*name).to_owned(), kind: ColumnType::String });
        tables(vec![tree.source("one", "a")], 100, Some(columns.collect()))
    };
    assert_snapshot!(bad(&given(["x", "z"]).unwrap()), @"
    /d/a/1.csv: the header does not fit the schema in the job file; expected 2 columns: x, z; found 2 columns: x, y: give them the same columns in the same order, or make them inputs of separate jobs
    /d/a/2.csv: the header does not fit the schema in the job file; expected 2 columns: x, z; found 2 columns: y, x: give them the same columns in the same order, or make them inputs of separate jobs
    ");
    let plan = given(["x", "y"]).unwrap();
    assert!(bad(&plan).starts_with("/d/a/2.csv"));
    assert_eq!(plan.tables[0].columns[0].kind, ColumnType::String);
}

#[test]
fn bad_requests_are_refused_with_a_message() {
    let tree = TreeFixture::new(&[("a/1.csv", "x,y\n1,2\n")]);
    let sources = vec![tree.source("one", "a")];
    let plan_with = |csv: CsvFormat| {
        let size = SliceSize::Bytes(10);
        let cut = CutOptions::Tables {
            size,
            inputs: vec![TableInput { csv, ..TableInput::default() }],
            full_inference: true,
        };
        planned(sources.clone(), cut)
    };
    let quote = CsvFormat { delimiter: b'"', ..CsvFormat::default() };
    assert_snapshot!(plan_with(quote).unwrap_err(), @"input 'one': its quote is also its delimiter; choose another character");
    assert_eq!(plan_with(CsvFormat::default()).unwrap().mini_batches.len(), 1);
    let error = planned(sources.clone(), CutOptions::Files { count: 0 }).unwrap_err();
    assert_snapshot!(error, @"mini_batch_size must be at least 1 file");
    let missing = vec![tree.source("one", "b")];
    let error = planned(missing, CutOptions::Files { count: 1 }).unwrap_err();
    assert_snapshot!(tree.clean(&error.to_string()), @"input 'one': cannot list /d/b: No such file or directory (os error 2)");
    let mut messages = Vec::new();
    let request =
        PlanRequest { protocol: 0, ..PlanRequest::new(sources, CutOptions::Void { count: 1 }) };
    plan(&request, &mut |message| {
        messages.push(message);
        Ok(())
    })
    .unwrap();
    let [FromPlanner::Failed(error)] = messages.as_slice() else { panic!("{messages:?}") };
    let error = error.replace(&format!("version {PROTOCOL_VERSION} "), "version [NOW] ");
    assert_snapshot!(error, @"the planner speaks version [NOW] of the protocol, the leader version 0: the program was replaced while a job ran; start the job again");
}

#[test]
fn a_leader_that_stops_listening_ends_planning() {
    let request = PlanRequest::new(Vec::new(), CutOptions::Void { count: u64::MAX });
    let mut calls = 0;
    let error = plan(&request, &mut |_| {
        calls += 1;
        if calls == 3 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    })
    .unwrap_err();
    assert_eq!((calls, error.kind()), (3, io::ErrorKind::BrokenPipe));
}

#[test]
fn names_too_long_for_a_message_are_refused() {
    let mut emit = |_| Ok(());
    let mut writer = PlanWriter::new(&mut emit, u64::MAX, &[]);
    let files = vec!["x".repeat(200); 70_000].into_iter().collect();
    let error = writer
        .add(0, MiniBatchWork::Files(files), mini_batch_digest::MiniBatchDigest::new())
        .unwrap_err();
    assert_snapshot!(error, @"mini_batch_size is too large: the names of one mini-batch's files take 14560000 bytes, and at most 12582912 can be sent to a worker; choose a smaller mini_batch_size");
}

#[test]
fn messages_are_framed() {
    let tree = TreeFixture::new(&[("a/1.csv", "x\n1\n")]);
    let cut = CutOptions::Tables {
        size: SliceSize::Bytes(10),
        inputs: vec![TableInput::default()],
        full_inference: false,
    };
    let sources = vec![tree.source("one", "a")];
    let request = PlanRequest::new(sources, cut);
    let mut out = Vec::new();
    let start = || Err(io::Error::other("nothing is to be grouped"));
    let tools =
        ShuffleContext { request: &request, start: &start, bounds: ShuffleLimits::default() };
    serve_request(tools, &no_answer, &mut out).unwrap();
    let mut seen = Vec::new();
    let mut rest = out.as_slice();
    while let Some((length, body)) = rest.split_first_chunk::<4>() {
        let (body, after) = body.split_at(u32::from_le_bytes(*length) as usize);
        seen.push(decode::<FromPlanner>(body).unwrap());
        rest = after;
    }
    let slice = TextSlice {
        file: "1.csv".to_owned(),
        offset: 2,
        length: 2,
        first_line: 2,
        rows: 1,
        ..TextSlice::sample()
    };
    let FromPlanner::MiniBatches(sent) = &seen[3] else { panic!("{seen:?}") };
    assert_ne!(sent[0].stamp, 0);
    let mini_batch = MiniBatch {
        stamp: sent[0].stamp,
        ..MiniBatch::new(MiniBatchId(0), 0, MiniBatchWork::Text(slice))
    };
    assert!(matches!(&seen[0], FromPlanner::Tables(tables) if tables.len() == 1));
    assert!(matches!(&seen[1], FromPlanner::Columns(columns) if columns.contains("x int64")));
    let all = FromPlanner::Share(1000);
    assert_eq!(seen[2..], [all, FromPlanner::MiniBatches(vec![mini_batch]), FromPlanner::Finished]);
}

#[test]
fn inferred_columns_are_reported() {
    let tree = TreeFixture::new(&[
        (
            "a/1.csv",
            "id,x,y,z\n1,oops,2026-01-02,a\n\n2,5.5,,\n3,7,2026-01-03,b\n4,8,2026-13-45,3\n",
        ),
        ("b/1.csv", "id;x\n1;2\n"),
    ]);
    let plan = tables(vec![tree.source("a", "a"), tree.source("b", "b")], 100, None).unwrap();
    assert_snapshot!(plan.columns.join("\n"), @r#"
    columns of input a: id int64, x string, y string, z string
    columns of input b: id;x string
    input b has a single column, "id;x", because its delimiter is ','; if the files have several columns, set delimiter to ';'
    "#);
    let columns = vec![Column { name: "id;x".to_owned(), kind: ColumnType::String }];
    let plan = tables(vec![tree.source("b", "b")], 100, Some(columns)).unwrap();
    assert_eq!(plan.columns.len(), 0, "the job file has the schema");
}

/// Each mini-batch's table as text: a header, and one line for each row.
fn texts(tree: &TreeFixture, plan: &PlanFixture) -> Vec<String> {
    let read = |batch: &MiniBatch| {
        let MiniBatchWork::Text(slice) = &batch.work else { return format!("{:?}", batch.work) };
        let mut reader = TableReader::new(&plan.tables[batch.source as usize]).unwrap();
        let table = reader.read(&tree.root().join("in"), slice, &slice.file).unwrap();
        let batch = StreamReader::try_new(Cursor::new(table.ipc.to_vec()), None)
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        let names: Vec<_> =
            batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        let null = FormatOptions::default().with_null("-");
        let cell = |column: &ArrayRef, row| {
            ArrayFormatter::try_new(column, &null).unwrap().value(row).to_string()
        };
        let row = |row| {
            let cells: Vec<_> = batch.columns().iter().map(|column| cell(column, row)).collect();
            cells.join(" ")
        };
        let rows: Vec<_> = (0..batch.num_rows()).map(row).collect();
        format!("{}: {}", names.join(" "), rows.join(", "))
    };
    plan.mini_batches.iter().map(read).collect()
}

fn one_table(tree: &TreeFixture, table: TableInput) -> Result<PlanFixture, DatasetError> {
    let cut = CutOptions::Tables {
        size: SliceSize::Bytes(100),
        inputs: vec![table],
        full_inference: false,
    };
    planned(vec![tree.source("one", "in")], cut)
}

#[test]
fn hive_style_folders_become_columns() {
    let tree = TreeFixture::new(&[
        ("in/year=2026/city=a%20b/1.csv", "x\n1\n2\n"),
        ("in/year=__HIVE_DEFAULT_PARTITION__/city=c/more/2.csv", "x\n3\n"),
        ("in/year=/city=d/0.csv", "x\n0\n"),
        ("in/z.csv", "x\n4\n"),
    ]);
    let plan = one_table(&tree, TableInput::default()).unwrap();
    let root = tree.root().display().to_string();
    let describe = |lines: &[String]| lines.join("\n").replace(&root, "/d");
    assert_snapshot!(describe(&texts(&tree, &plan)), @r#"
    x year city: 0 - d
    x year city: 1 2026 a b, 2 2026 a b
    x year city: 3 - c
    Unreadable(BadFile { file: "z.csv", reason: "/d/in/z.csv is not in folders like the input's first file, year={year}/city={city}; move it there, or set hive to false" })
    "#);
    assert_snapshot!(describe(&plan.notices), @"a file cannot be read, so its mini-batch fails: /d/in/z.csv is not in folders like the input's first file, year={year}/city={city}; move it there, or set hive to false");
    let off = TableInput { hive: Some(false), ..TableInput::default() };
    let plan = one_table(&tree, off).unwrap();
    assert_snapshot!(describe(&texts(&tree, &plan)), @"
    x: 0
    x: 1, 2
    x: 3
    x: 4
    ");
    let tree = TreeFixture::new(&[("in/a/k=1/1.csv", "x\n1\n")]);
    let on = TableInput { hive: Some(true), ..TableInput::default() };
    let error = one_table(&tree, on).unwrap_err().to_string();
    assert_snapshot!(error.replace(tree.root().to_str().unwrap(), "/d"), @"input 'one': hive is true, and its first file, a/k=1/1.csv, is not in folders named key=value below /d/in; name the folder above such folders as the input's path, or remove hive");
    let tree = TreeFixture::new(&[("in/k=1/1.csv", "k,x\n1,2\n")]);
    assert_snapshot!(one_table(&tree, TableInput::default()).unwrap_err(), @"input 'one': the folders 'k={k}' make a column 'k', and the files have a column of that name; set hive to false to use the column in the files");
}

#[test]
fn the_job_can_choose_columns() {
    let tree = TreeFixture::new(&[("in/k=v/1.csv", "id,width,note\n1,0.5,a\n2,1.5,b\n")]);
    let with = |names: &[&str]| {
        let columns = Some(names.iter().map(|&name| name.to_owned()).collect());
        one_table(&tree, TableInput { columns, ..TableInput::default() })
    };
    assert_snapshot!(texts(&tree, &with(&["note", "id"]).unwrap()).join("\n"), @"note id k: a 1 v, b 2 v");
    assert_snapshot!(with(&["id", "wdith"]).unwrap_err(), @"input 'one' has no column 'wdith', which columns names; its columns are: id, width, note; did you mean 'width'?");
    assert_snapshot!(with(&["k"]).unwrap_err(), @"input 'one': columns names 'k', which comes from the files' paths; such columns always come after the others: leave it out of the list");
    // Columns that the job does not ask for need not fit the schema.
    let column = |name: &str, kind| Column { name: name.to_owned(), kind };
    let schema = ["id", "width", "note"].map(|name| column(name, ColumnType::Int64));
    let columns = Some(vec!["id".to_owned()]);
    let table = TableInput { columns, schema: Some(schema.to_vec()), ..TableInput::default() };
    assert_snapshot!(texts(&tree, &one_table(&tree, table).unwrap()).join("\n"), @"id k: 1 v, 2 v");
}

#[test]
fn large_mini_batches_give_a_notice() {
    let tree = TreeFixture::new(&[("in/1.csv", "x\n1\n22\n333\n")]);
    let start = || Err(io::Error::other("nothing is to be grouped"));
    let cut = CutOptions::Tables {
        size: SliceSize::Rows(2),
        inputs: vec![TableInput::default()],
        full_inference: false,
    };
    let request =
        PlanRequest { memory: 4, ..PlanRequest::new(vec![tree.source("one", "in")], cut) };
    let plan = planned_with(ShuffleContext {
        request: &request,
        start: &start,
        bounds: ShuffleLimits::default(),
    });
    assert_snapshot!(plan.unwrap().notices.join("\n"), @"mini-batch 0 (1.csv, line 2) holds 5 bytes, and the entry script has 4 bytes of memory (limits.memory): the mini-batch may not fit; choose smaller mini-batches, or raise that limit");
}
