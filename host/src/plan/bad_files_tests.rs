//! Files that cannot be read, or that nobody is to look into.

use super::shuffle::{Bounds, Tools};
use super::tests::{Tree, planned_with};
use super::*;
use crate::model::{BadFile, SliceSize, TableInput, TableKind, Work};
use crate::protocol::PlanRequest;
use insta::assert_snapshot;
use std::fs;

/// What a planner died over is named to the next one, which says what it looks into.
#[test]
fn deadly_files_are_not_looked_into() {
    for kind in [TableKind::Csv, TableKind::Jsonl, TableKind::Parquet] {
        let tree = Tree::new(&[("in/1.csv", "x\n1\n"), ("in/2.csv", "x\n2\n")]);
        let inputs = vec![TableInput { kind, ..TableInput::default() }];
        let cut = Cut::Tables { size: SliceSize::Bytes(100), inputs, full_inference: false };
        let bad = BadFile { file: "1.csv".to_owned(), reason: "somebody died".to_owned() };
        let request = PlanRequest {
            tells_files: true,
            deadly: vec![(0, bad.clone())],
            ..PlanRequest::new(vec![tree.source("one", "in")], cut)
        };
        let start = || Err(io::Error::other("nothing is to be grouped"));
        let tools = Tools { request: &request, start: &start, bounds: Bounds::default() };
        let (mut opened, mut works) = (Vec::new(), Vec::new());
        plan_with(tools, &mut |message| {
            match message {
                FromPlanner::Opening { source: 0, file } => opened.push(file),
                // Columns are looked for as well.
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
        assert_eq!((works.len(), &works[0]), (2, &Work::Unreadable(bad)));
    }
}

#[test]
fn packed_files_and_bad_ones() {
    let tree =
        Tree::new(&[("in/2.jsonl", "{\"a\": 1, \"b\": [true]}\n{\"b\": []}\n"), ("in/3.gz", "no")]);
    let packed = zstd::encode_all(&b"{\"a\": 2}\n"[..], 1).unwrap();
    fs::write(tree.root().join("in/1.jsonl.zst"), packed).unwrap();
    let table = TableInput { kind: TableKind::Jsonl, ..TableInput::default() };
    let cut =
        Cut::Tables { size: SliceSize::Bytes(100), inputs: vec![table], full_inference: false };
    let start = || Err(io::Error::other("nothing is to be grouped"));
    let spill = tree.root().join("spill");
    let request = PlanRequest { spill, ..PlanRequest::new(vec![tree.source("one", "in")], cut) };
    let tools = Tools { request: &request, start: &start, bounds: Bounds::default() };
    let plan = planned_with(tools).unwrap();
    assert_snapshot!(tree.clean(&plan.columns.join("\n")), @"columns of input one: a int64, b list of boolean");
    let files = plan.mini_batches.iter().map(|batch| match &batch.work {
        Work::Text(slice) => (slice.file.as_str(), slice.rows, slice.unpacked.is_some()),
        Work::Unreadable(bad) => (bad.file.as_str(), 1, false),
        work => panic!("{work:?}"),
    });
    let expected = [("1.jsonl.zst", 1, true), ("2.jsonl", 2, false), ("3.gz", 1, false)];
    assert!(files.eq(expected), "{:?}", plan.mini_batches);
    // Another plan of the same files is the same.
    assert_eq!(planned_with(tools).unwrap().mini_batches, plan.mini_batches);
}

/// What is asked of its columns hides nothing.
#[test]
fn an_input_without_a_readable_file_fails_by_its_files() {
    let tree = Tree::new(&[("in/1.gz", "no")]);
    for (keys, columns) in [(vec!["key".to_owned()], None), (vec![], Some(vec!["x".to_owned()]))] {
        let table = TableInput { columns, ..TableInput::default() };
        let (size, inputs) = (SliceSize::Bytes(100), vec![table]);
        let cut = Cut::Tables { size, inputs, full_inference: false };
        let start = || Err(io::Error::other("nothing is to be grouped"));
        let request = PlanRequest {
            partition_keys: keys,
            spill: tree.root().join("spill"),
            ..PlanRequest::new(vec![tree.source("one", "in")], cut)
        };
        let tools = Tools { request: &request, start: &start, bounds: Bounds::default() };
        let plan = planned_with(tools).unwrap();
        let works: Vec<_> = plan.mini_batches.iter().map(|batch| &batch.work).collect();
        assert!(matches!(works[..], [Work::Unreadable(_)]), "{works:?}");
    }
}

#[test]
fn an_input_that_nobody_can_read_is_told() {
    let tree = Tree::new(&[("in/1", "a"), ("in/2", "b")]);
    let table = TableInput { kind: TableKind::Parquet, ..TableInput::default() };
    let cut =
        Cut::Tables { size: SliceSize::Bytes(100), inputs: vec![table], full_inference: false };
    let start = || Err(io::Error::other("nothing is to be grouped"));
    let request = PlanRequest::new(vec![tree.source("one", "in")], cut);
    let tools = Tools { request: &request, start: &start, bounds: Bounds::default() };
    let plan = planned_with(tools).unwrap();
    let told = [plan.notices, plan.columns].concat();
    let last = told.iter().find(|notice| notice.contains("none of")).unwrap();
    assert_snapshot!(last, @"input one: none of its 2 files can be read as parquet; check its format and its path");
}
