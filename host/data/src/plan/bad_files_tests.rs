//! Files that cannot be read, or that the planner must not open.

use super::shuffle::{ShuffleContext, ShuffleLimits};
use super::tests::{TreeFixture, no_answer, planned, planned_with};
use super::*;
use crate::dataset::{FileVersion, ManifestWriter};
use crate::model::{
    BadFile, Column, ColumnType, MiniBatch, MiniBatchWork, SliceSize, Source, TableInput, TableKind,
};
use crate::protocol::{ObjectsToAsk, PlanRequest};
use insta::assert_snapshot;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs;

/// If a file has killed a planner, the next planner receives the file's name and does not open the
/// file. It also reports the name of each other file before it opens that file.
#[test]
fn files_that_killed_a_planner_are_not_opened() {
    for kind in [TableKind::Csv, TableKind::Jsonl, TableKind::Parquet] {
        // The content must not look like another format: the planner would refuse it.
        let (one, two) = if kind.is_text() { ("x\n1\n", "x\n2\n") } else { ("\u{1}", "\u{2}") };
        let tree = TreeFixture::new(&[("in/1.csv", one), ("in/2.csv", two)]);
        let inputs = vec![TableInput { kind, ..TableInput::default() }];
        let cut = CutOptions::Tables { size: SliceSize::Bytes(100), inputs, full_inference: false };
        let bad = BadFile { file: "1.csv".to_owned(), reason: "a planner died".to_owned() };
        let request = PlanRequest {
            reports_files: true,
            deadly: vec![(0, bad.clone())],
            ..PlanRequest::new(vec![tree.source("one", "in")], cut)
        };
        let start = || Err(io::Error::other("nothing is to be grouped"));
        let tools =
            ShuffleContext { request: &request, start: &start, bounds: ShuffleLimits::default() };
        let mut opened = Vec::new();
        let mut works = Vec::new();
        plan_with(tools, &no_answer, &mut |message| {
            match message {
                FromPlanner::Opening { source: 0, file, .. } => opened.push(file),
                // Before this message, the planner has already opened a file to find the columns.
                FromPlanner::Tables(_) => assert_eq!(opened, ["2.csv"], "{}", kind.name()),
                FromPlanner::MiniBatches(batches) => {
                    works.extend(batches.into_iter().map(|batch| batch.work));
                }
                _ => {}
            }
            Ok(())
        })
        .unwrap();
        opened.dedup();
        assert_eq!(opened, ["2.csv"], "{}", kind.name());
        assert_eq!((works.len(), &works[0]), (2, &MiniBatchWork::Unreadable(bad)));
    }
}

/// The files below `data`, as objects of a store. Objects without a file are not fetched yet.
pub(super) fn stored(tree: &TreeFixture, names: &[&str]) -> Source {
    let source = tree.source("one", "data");
    fs::create_dir_all(tree.root().join("list")).unwrap();
    let manifest = tree.root().join("list/manifest");
    let mut list = ManifestWriter::new(tree.root().join("part")).unwrap();
    for name in names {
        let metadata = source.root.join(name).metadata();
        let found = metadata.map_or(FileVersion::sample(), |found| FileVersion::from(&found));
        list.add(name, Ok(found.into())).unwrap();
    }
    list.finish(&manifest).unwrap();
    Source { manifest: Some(manifest), ..source }
}

/// If all objects are fetched anyway, the planner waits only for objects that are not fetched yet.
#[test]
fn the_planner_waits_for_missing_objects() {
    let tree = TreeFixture::new(&[("data/1", "x\n1\n"), ("data/4", "x\n4\n"), ("in/5", "x\n5\n")]);
    let sources = || {
        vec![
            stored(&tree, &["1", "2", "3", "4"]),
            Source { dataset: "two".into(), ..tree.source("two", "in") },
        ]
    };
    let inputs = vec![TableInput::default(); 2];
    let cut = CutOptions::Tables { size: SliceSize::Rows(1), inputs, full_inference: false };
    for reports_files in [false, true] {
        let _ = fs::remove_file(tree.root().join("data/2"));
        let request = PlanRequest {
            asks: ObjectsToAsk::Absent,
            reports_files,
            ..PlanRequest::new(sources(), cut.clone())
        };
        let asked: RefCell<Vec<(u32, String)>> = RefCell::default();
        let next_answer = || {
            let (source, file) = asked.borrow().last().cloned().unwrap();
            if file == "2" {
                fs::write(tree.root().join("data/2"), "x\n2\n").unwrap();
            }
            let unfetched = (file == "3").then(|| "gone".to_owned());
            Ok(MayOpen { source, file, unfetched })
        };
        let start = || Err(io::Error::other("nothing is to be grouped"));
        let tools =
            ShuffleContext { request: &request, start: &start, bounds: ShuffleLimits::default() };
        let mut cut = Vec::new();
        let mut reported = Vec::new();
        plan_with(tools, &next_answer, &mut |message| {
            match message {
                FromPlanner::Opening { waits: false, file, .. } => reported.push(file),
                FromPlanner::Opening { source, file, next, .. } => {
                    assert!(next.is_empty());
                    asked.borrow_mut().push((source, file));
                }
                FromPlanner::MiniBatches(batches) => {
                    cut.extend(batches.iter().map(|batch| match &batch.work {
                        MiniBatchWork::Text(slice) => slice.file.clone(),
                        MiniBatchWork::Unreadable(bad) => format!("{} {}", bad.file, bad.reason),
                        work => panic!("{work:?}"),
                    }));
                }
                FromPlanner::Failed(reason) => panic!("{reason}"),
                _ => {}
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(cut, ["1", "2", "3 gone", "4", "5"]);
        // The planner asks for these objects when it looks for the columns, and again when it cuts
        // the files.
        let asked: BTreeSet<_> = asked.take().into_iter().map(|(_, file)| file).collect();
        assert!(asked.iter().eq(["2", "3"]), "{asked:?}");
        let reported: BTreeSet<_> = reported.into_iter().collect();
        let others: &[&str] = if reports_files { &["1", "4", "5"] } else { &[] };
        assert!(reported.iter().eq(others), "{reported:?}");
    }
}

/// Without its WAL file, a database would be read without its latest changes.
#[test]
fn a_database_waits_for_its_wal_file() {
    let tree = TreeFixture::new(&[("data/shop.db", "")]);
    let source = stored(&tree, &["shop.db", "shop.db-wal"]);
    let table = TableInput {
        kind: TableKind::Sqlite,
        query: Some("select 1".to_owned()),
        ..TableInput::default()
    };
    let cut =
        CutOptions::Tables { size: SliceSize::Rows(1), inputs: vec![table], full_inference: false };
    let request = PlanRequest { asks: ObjectsToAsk::Absent, ..PlanRequest::new(vec![source], cut) };
    let asked: RefCell<Vec<String>> = RefCell::default();
    let next_answer = || {
        let file = asked.borrow().last().cloned().unwrap();
        Ok(MayOpen { source: 0, file, unfetched: Some("gone".to_owned()) })
    };
    let start = || Err(io::Error::other("nothing is to be grouped"));
    let tools =
        ShuffleContext { request: &request, start: &start, bounds: ShuffleLimits::default() };
    let mut bad = Vec::new();
    plan_with(tools, &next_answer, &mut |message| {
        match message {
            FromPlanner::Opening { file, .. } => asked.borrow_mut().push(file),
            FromPlanner::MiniBatches(batches) => {
                bad.extend(batches.iter().map(|batch| match &batch.work {
                    MiniBatchWork::Unreadable(bad) => format!("{} {}", bad.file, bad.reason),
                    work => panic!("{work:?}"),
                }));
            }
            _ => {}
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(bad, ["shop.db gone", "shop.db-wal gone"]);
    assert!(asked.take().iter().all(|file| file == "shop.db-wal"));
}

/// The planner sends everything about a file before it asks for the next one, and it opens no file without an
/// answer.
#[test]
fn each_file_is_opened_only_after_an_answer() {
    for (kind, full_inference) in [(TableKind::Csv, false), (TableKind::Jsonl, true)] {
        let texts = match kind {
            TableKind::Csv => ["x\n1\n2\n", "x\n3\n", "x\n4\n"],
            _ => ["{\"x\": 1}\n{\"x\": 2}\n", "{\"x\": 3}\n", "{\"x\": 4}\n"],
        };
        let [one, two, three] = texts;
        let tree = TreeFixture::new(&[("data/1", one), ("data/2", two), ("data/3", three)]);
        let inputs = vec![TableInput { kind, ..TableInput::default() }];
        let cut = CutOptions::Tables { size: SliceSize::Rows(1), inputs, full_inference };
        let request = PlanRequest {
            asks: ObjectsToAsk::Each,
            retried_files: vec![(0, "1".to_owned())],
            ..PlanRequest::new(vec![stored(&tree, &["1", "2", "3"])], cut)
        };
        let asked: RefCell<Vec<String>> = RefCell::default();
        let stale = Cell::new(true);
        let next_answer = || {
            let asked = asked.borrow();
            let file = if stale.replace(!stale.get()) { "0" } else { asked.last().unwrap() };
            let unfetched = (file == "2").then(|| "gone".to_owned());
            Ok(MayOpen { source: 0, file: file.to_owned(), unfetched })
        };
        let start = || Err(io::Error::other("nothing is to be grouped"));
        let tools =
            ShuffleContext { request: &request, start: &start, bounds: ShuffleLimits::default() };
        let mut events = Vec::new();
        plan_with(tools, &next_answer, &mut |message| {
            events.push(match message {
                FromPlanner::Opening { file, next, .. } => {
                    asked.borrow_mut().push(file.clone());
                    let next: Vec<_> = next.iter().map(|file| format!(" ({file})")).collect();
                    format!("open {file}{}", next.concat())
                }
                FromPlanner::MiniBatches(batches) => {
                    let of = |batch: &MiniBatch| match &batch.work {
                        MiniBatchWork::Text(slice) => {
                            format!("{} {}", slice.file, slice.first_line)
                        }
                        MiniBatchWork::Unreadable(bad) => format!("{} {}", bad.file, bad.reason),
                        _ => String::new(),
                    };
                    batches.iter().map(of).collect::<Vec<_>>().join(", ")
                }
                FromPlanner::Tables(_) => "tables".to_owned(),
                FromPlanner::Closed => "closed".to_owned(),
                _ => return Ok(()),
            });
            Ok(())
        })
        .unwrap();
        let events = events.join("; ");
        // Without full inference the planner may stop after any file, so it names no following files.
        let inference = match full_inference {
            true => "open 1 (2) (3); open 2 (3); open 3; tables; ",
            false => "open 1; open 2; open 3; tables; ",
        };
        let cut = events.strip_prefix(inference).unwrap_or_else(|| panic!("{events}"));
        let (first, second) = if kind == TableKind::Csv { (2, 3) } else { (1, 2) };
        let expected = format!(
            "open 1 (2) (3); 1 {first}; open 2 (3); 2 gone; open 3; 3 {first}; closed; 1 {second}"
        );
        assert_eq!(cut, expected);
    }
}

#[test]
fn compressed_files_are_unpacked_and_broken_ones_fail() {
    let tree = TreeFixture::new(&[
        ("in/2.jsonl", "{\"a\": 1, \"b\": [true]}\n{\"b\": []}\n"),
        ("in/3.gz", "no"),
    ]);
    let packed = zstd::encode_all(&b"{\"a\": 2}\n"[..], 1).unwrap();
    fs::write(tree.root().join("in/1.jsonl.zst"), packed).unwrap();
    let table = TableInput { kind: TableKind::Jsonl, ..TableInput::default() };
    let cut = CutOptions::Tables {
        size: SliceSize::Bytes(100),
        inputs: vec![table],
        full_inference: false,
    };
    let start = || Err(io::Error::other("nothing is to be grouped"));
    let spill = tree.root().join("spill");
    let request = PlanRequest { spill, ..PlanRequest::new(vec![tree.source("one", "in")], cut) };
    let tools =
        ShuffleContext { request: &request, start: &start, bounds: ShuffleLimits::default() };
    let plan = planned_with(tools).unwrap();
    assert_snapshot!(tree.clean(&plan.columns.join("\n")), @"columns of input one: a int64, b list of boolean");
    let files = plan.mini_batches.iter().map(|batch| match &batch.work {
        MiniBatchWork::Text(slice) => (slice.file.as_str(), slice.rows, slice.unpacked.is_some()),
        MiniBatchWork::Unreadable(bad) => (bad.file.as_str(), 1, false),
        work => panic!("{work:?}"),
    });
    let expected = [("1.jsonl.zst", 1, true), ("2.jsonl", 2, false), ("3.gz", 1, false)];
    assert!(files.eq(expected), "{:?}", plan.mini_batches);
    // A second plan of the same files is the same.
    assert_eq!(planned_with(tools).unwrap().mini_batches, plan.mini_batches);
}

/// The job's choice of keys or columns must not hide that no file is readable.
#[test]
fn an_input_without_readable_files_fails_file_by_file() {
    let tree = TreeFixture::new(&[("in/1.gz", "no")]);
    for (keys, columns) in [(vec!["key".to_owned()], None), (vec![], Some(vec!["x".to_owned()]))] {
        let table = TableInput { columns, ..TableInput::default() };
        let size = SliceSize::Bytes(100);
        let inputs = vec![table];
        let cut = CutOptions::Tables { size, inputs, full_inference: false };
        let start = || Err(io::Error::other("nothing is to be grouped"));
        let request = PlanRequest {
            partition_keys: keys,
            spill: tree.root().join("spill"),
            ..PlanRequest::new(vec![tree.source("one", "in")], cut)
        };
        let tools =
            ShuffleContext { request: &request, start: &start, bounds: ShuffleLimits::default() };
        let plan = planned_with(tools).unwrap();
        let works: Vec<_> = plan.mini_batches.iter().map(|batch| &batch.work).collect();
        assert!(matches!(works[..], [MiniBatchWork::Unreadable(_)]), "{works:?}");
    }
}

/// A file of another format counts as unreadable. But if the first two files or the only file have another
/// format, the whole input is refused.
#[test]
fn an_input_of_another_format_is_refused() {
    let good = "id\n1\n";
    let parquet = "PAR1\u{15}\u{4}\u{15}";
    let plan = |files: &[&str], schema: bool| {
        let names: Vec<_> = (0..files.len()).map(|number| format!("in/{number}")).collect();
        let files: Vec<_> = names.iter().map(String::as_str).zip(files.iter().copied()).collect();
        let tree = TreeFixture::new(&files);
        let column = Column { name: "id".to_owned(), kind: ColumnType::Int64 };
        let schema = schema.then(|| vec![column]);
        let inputs = vec![TableInput { schema, ..TableInput::default() }];
        let cut = CutOptions::Tables { size: SliceSize::Bytes(100), inputs, full_inference: false };
        let plan = planned(vec![tree.source("one", "in")], cut);
        let reported = match plan {
            Err(error) => error.to_string(),
            Ok(plan) => plan.mini_batches.iter().map(|batch| describe(&batch.work)).collect(),
        };
        tree.clean(&reported)
    };
    let reported = [
        plan(&[parquet], false),
        plan(&[parquet, parquet, good], false),
        plan(&["", parquet, good], false),
        plan(&[good, parquet, parquet], false),
        plan(&[parquet, parquet], true),
        plan(&[good, parquet], true),
    ];
    assert_snapshot!(reported.join("\n"), @"
    input 'one': /d/in/0 is not csv, but a Parquet file: write format: parquet; or name the files with a glob that leaves it out
    input 'one': /d/in/0 is not csv, but a Parquet file: write format: parquet; or name the files with a glob that leaves it out
    (/d/in/1 is not csv, but a Parquet file: write format: parquet; or name the files with a glob that leaves it out)(1 rows of 2)
    (1 rows of 0)(/d/in/1 is not csv, but a Parquet file: write format: parquet; or name the files with a glob that leaves it out)(/d/in/2 is not csv, but a Parquet file: write format: parquet; or name the files with a glob that leaves it out)
    input 'one': /d/in/0 is not csv, but a Parquet file: write format: parquet; or name the files with a glob that leaves it out
    (1 rows of 0)(/d/in/1 is not csv, but a Parquet file: write format: parquet; or name the files with a glob that leaves it out)
    ");
}

fn describe(work: &MiniBatchWork) -> String {
    match work {
        MiniBatchWork::Unreadable(bad) => format!("({})", bad.reason),
        MiniBatchWork::Text(slice) => format!("({} rows of {})", slice.rows, slice.file),
        work => panic!("{work:?}"),
    }
}

#[test]
fn an_input_without_readable_files_gives_a_notice() {
    let tree = TreeFixture::new(&[("in/1", "\u{1}"), ("in/2", "\u{2}")]);
    let table = TableInput { kind: TableKind::Parquet, ..TableInput::default() };
    let cut = CutOptions::Tables {
        size: SliceSize::Bytes(100),
        inputs: vec![table],
        full_inference: false,
    };
    let start = || Err(io::Error::other("nothing is to be grouped"));
    let request = PlanRequest::new(vec![tree.source("one", "in")], cut);
    let tools =
        ShuffleContext { request: &request, start: &start, bounds: ShuffleLimits::default() };
    let plan = planned_with(tools).unwrap();
    let reported = [plan.notices, plan.columns].concat();
    let last = reported.iter().find(|notice| notice.contains("none of")).unwrap();
    assert_snapshot!(last, @"input one: none of its 2 files can be read as parquet; check its format and its path");
}
