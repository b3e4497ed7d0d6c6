//! Tests of plans that continue from a position of an earlier planner.

use super::bad_files_tests::stored as source_in_store;
use super::partition_tests::start;
use super::tests::{TreeFixture, no_answer};
use super::*;
use crate::model::{CsvFormat, MiniBatch, SliceSize, Source, TableInput, TableKind};
use crate::protocol::{ObjectsToAsk, PlanPlace, PlanPosition};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use std::fs;
use std::process::Command;
use std::sync::Arc;

/// The messages of a planner.
fn messages(request: &PlanRequest) -> Vec<FromPlanner> {
    let mut messages = Vec::new();
    let bounds = super::shuffle::ShuffleLimits::default();
    let tools = ShuffleContext { request, start: &start, bounds };
    plan_with(tools, &no_answer, &mut |message| {
        messages.push(message);
        Ok(())
    })
    .unwrap();
    messages
}

/// The mini-batches and positions in the messages of a complete plan.
fn parts(messages: &[FromPlanner]) -> (Vec<MiniBatch>, Vec<PlanPosition>) {
    assert_eq!(messages.last(), Some(&FromPlanner::Finished), "{messages:?}");
    let batches = messages.iter().filter_map(|message| match message {
        FromPlanner::MiniBatches(batches) => Some(batches.clone()),
        _ => None,
    });
    let positions = messages.iter().filter_map(|message| match message {
        FromPlanner::Position(position) => Some(position.clone()),
        _ => None,
    });
    (batches.flatten().collect(), positions.collect())
}

fn request(sources: Vec<Source>, cut: CutOptions) -> PlanRequest {
    PlanRequest { reports_positions: true, ..PlanRequest::new(sources, cut) }
}

fn table_request(sources: Vec<Source>, table: &TableInput, size: SliceSize) -> PlanRequest {
    let inputs = vec![table.clone(); sources.len()];
    request(sources, CutOptions::Tables { size, inputs, full_inference: false })
}

/// Continues from each position of a plan. Returns the number of positions.
fn check_each_position(request: &PlanRequest) -> usize {
    let whole = messages(request);
    let (batches, positions) = parts(&whole);
    assert_eq!(positions.last().map(|last| last.place), Some(PlanPlace::PlanEnd));
    for position in &positions {
        let continue_from = Some(position.clone());
        let rest = messages(&PlanRequest { continue_from, ..request.clone() });
        let continues = rest.iter().filter(|message| **message == FromPlanner::Continues).count();
        assert_eq!(continues, 1, "{position:?}: {rest:?}");
        assert_eq!(rest[0], whole[0], "the tables");
        let (rest, later) = parts(&rest);
        assert_eq!(rest, batches[position.mini_batches as usize..], "{position:?}");
        assert_eq!(later.last(), positions.last());
    }
    positions.len()
}

/// A text with records of different lengths, quotes and line ends. Each record has an own number.
fn csv(first: u32, end: &str) -> String {
    let row = |number: u32| match number % 4 {
        0 => format!("{number},\"one{end}two\"{end}"),
        1 => format!("{number},{}{end}", "x".repeat(number as usize % 17)),
        2 => format!("{number},\"a \"\"quoted\"\" word\"{end}{end}"),
        _ => format!("{number},plain{end}"),
    };
    format!("id,text{end}{}", (first..first + 400).map(row).collect::<String>())
}

#[test]
fn a_plan_of_texts_continues_from_each_position() {
    let [unix, windows, old] = ["\n", "\r\n", "\r"].map(|end| csv(1, end));
    let tree = TreeFixture::new(&[
        ("a/1.csv", &unix),
        ("a/2.csv", &windows),
        ("a/3.csv", "id,text\n"),
        ("a/4.csv", &old),
        ("b/1.csv", &csv(900, "\n")),
    ]);
    let sources = || vec![tree.source("one", "a"), tree.source("two", "b")];
    let mut positions = 0;
    for quoted_newlines in [true, false] {
        let csv = CsvFormat { quoted_newlines, ..CsvFormat::default() };
        let table = TableInput { csv, ..TableInput::default() };
        for size in [SliceSize::Bytes(1), SliceSize::Bytes(300), SliceSize::Rows(7)] {
            positions += check_each_position(&table_request(sources(), &table, size));
        }
    }
    assert!(positions > 40, "{positions}");
}

/// What comes before the place is not fetched, except the file with the columns.
#[test]
fn a_plan_of_objects_continues_without_those_before_its_place() {
    let names = ["1", "2", "3"];
    let mut texts: Vec<String> = (1..4).map(|number| csv(number * 1000, "\n")).collect();
    // The columns come from the first megabyte.
    texts[0].push_str(&format!("1,{}\n", "x".repeat(2 << 20)));
    let files = [("data/1", &texts[0]), ("data/2", &texts[1]), ("data/3", &texts[2])];
    let tree = TreeFixture::new(&files.map(|(name, text)| (name, text.as_str())));
    let source = source_in_store(&tree, &names);
    let table = TableInput::default();
    let request = PlanRequest {
        asks: ObjectsToAsk::Absent,
        ..table_request(vec![source], &table, SliceSize::Bytes(300))
    };
    assert!(check_each_position(&request) > 3);
    let (batches, positions) = parts(&messages(&request));
    let in_last = positions.iter().find(|position| position.file == "3").unwrap().clone();
    fs::remove_file(tree.root().join("data/2")).unwrap();
    let rest = PlanRequest { continue_from: Some(in_last.clone()), ..request };
    assert_eq!(parts(&messages(&rest)).0, batches[in_last.mini_batches as usize..]);
    // The store has another object now.
    let changed = source_in_store(&tree, &names);
    let rest = PlanRequest { sources: vec![changed], ..rest };
    assert_eq!(messages(&rest).last(), Some(&FromPlanner::CannotContinue));
}

#[test]
fn a_plan_of_json_lines_continues_from_each_position() {
    let lines: String = (0..300).map(|id| format!("{{\"id\": {id}}}\n\n")).collect();
    let tree = TreeFixture::new(&[("a/1.jsonl", &lines), ("a/2.jsonl", &lines)]);
    let table = TableInput { kind: TableKind::Jsonl, ..TableInput::default() };
    let request = table_request(vec![tree.source("one", "a")], &table, SliceSize::Bytes(20));
    assert!(check_each_position(&request) > 5);
}

#[test]
fn a_plan_of_files_continues_from_each_position() {
    let names: Vec<String> = (0..500).map(|number| format!("a/{number:03}")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let tree = TreeFixture::new(&files);
    let sources = vec![tree.source("one", "a"), tree.source("two", "a")];
    for count in [1, 7, 1000] {
        assert!(check_each_position(&request(sources.clone(), CutOptions::Files { count })) > 1);
    }
}

#[test]
fn a_plan_without_data_continues_from_each_position() {
    assert!(check_each_position(&request(Vec::new(), CutOptions::Void { count: 3000 })) > 2);
}

#[test]
fn a_plan_of_parquet_files_continues_from_each_position() {
    let tree = TreeFixture::new(&[]);
    let folder = tree.root().join("a");
    fs::create_dir(&folder).unwrap();
    for number in 0..3 {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..3000));
        let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
        let file = fs::File::create(folder.join(format!("{number}.parquet"))).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }
    let table = TableInput { kind: TableKind::Parquet, ..TableInput::default() };
    let request = table_request(vec![tree.source("one", "a")], &table, SliceSize::Rows(10));
    assert!(check_each_position(&request) > 5);
}

#[test]
fn a_plan_does_not_continue_after_files_have_changed() {
    let tree = TreeFixture::new(&[("a/1.csv", &csv(1, "\n")), ("a/3.csv", &csv(1, "\n"))]);
    let table = TableInput::default();
    let request = table_request(vec![tree.source("one", "a")], &table, SliceSize::Bytes(100));
    let (_, positions) = parts(&messages(&request));
    let in_second = positions.iter().find(|position| position.file == "3.csv").unwrap().clone();
    let in_first = positions[0].clone();
    assert_eq!(in_first.file, "1.csv");
    let end = positions.last().unwrap().clone();
    let answer = |position: &PlanPosition| {
        let continue_from = Some(position.clone());
        messages(&PlanRequest { continue_from, ..request.clone() }).pop().unwrap()
    };
    let answers = || [&in_first, &in_second, &end].map(answer);
    let yes = FromPlanner::Finished;
    let no = FromPlanner::CannotContinue;
    assert_eq!(answers(), [yes.clone(), yes.clone(), yes.clone()]);
    // A later file does not matter to an earlier position.
    fs::write(tree.root().join("a/4.csv"), csv(1, "\n")).unwrap();
    assert_eq!(answers(), [yes.clone(), yes.clone(), no.clone()]);
    fs::write(tree.root().join("a/2.csv"), csv(1, "\n")).unwrap();
    assert_eq!(answers(), [yes.clone(), no.clone(), no.clone()]);
    fs::remove_file(tree.root().join("a/2.csv")).unwrap();
    fs::remove_file(tree.root().join("a/4.csv")).unwrap();
    assert_eq!(answers(), [yes.clone(), yes.clone(), yes]);
    let first = fs::File::options().write(true).open(tree.root().join("a/1.csv")).unwrap();
    first.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(answers(), [no.clone(), no.clone(), no]);
}

/// Packs a file with gzip, which adds `.gz` to its name.
fn pack(tree: &TreeFixture, file: &str) {
    assert!(Command::new("gzip").arg(tree.root().join(file)).status().unwrap().success());
}

/// A request whose mini-batches read what the leader stores of spill files.
fn stored(tree: &TreeFixture, keys: &[&str], request: PlanRequest) -> PlanRequest {
    PlanRequest {
        partition_keys: keys.iter().map(|&key| key.to_owned()).collect(),
        spill: tree.root().join("spill"),
        stores_spill: true,
        ..request
    }
}

#[test]
fn a_plan_of_packed_texts_continues_from_each_position() {
    let tree = TreeFixture::new(&[
        ("a/1.csv", &csv(1, "\n")),
        ("a/2.csv", &csv(500, "\n")),
        ("a/3.csv", &csv(1000, "\n")),
    ]);
    for file in ["a/1.csv", "a/2.csv"] {
        pack(&tree, file);
    }
    let source = vec![tree.source("one", "a")];
    let request = table_request(source, &TableInput::default(), SliceSize::Rows(7));
    assert!(check_each_position(&stored(&tree, &[], request)) > 1);
}

/// Rows with 300 values of a key, which the next ones have again.
fn keyed(first: u32) -> String {
    let row = |number: u32| format!("{},{number}\n", number * 7 % 300);
    format!("k,number\n{}", (first..first + 700).map(row).collect::<String>())
}

#[test]
fn a_plan_of_grouped_rows_continues_from_each_position() {
    let tree = TreeFixture::new(&[
        ("a/1.csv", &keyed(0)),
        ("a/2.csv", &keyed(700)),
        ("b/1.csv", &keyed(1400)),
        ("c/1.csv", &keyed(0)),
    ]);
    pack(&tree, "a/2.csv");
    // The first input has two sources.
    let sources =
        || vec![tree.source("one", "a"), tree.source("one", "b"), tree.source("two", "c")];
    let request = || table_request(sources(), &TableInput::default(), SliceSize::Bytes(1 << 20));
    let request = stored(&tree, &["k"], request());
    assert!(check_each_position(&request) > 8);
    let local = PlanRequest { stores_spill: false, ..request.clone() };
    assert_eq!(parts(&messages(&local)).1, [], "the next planner would write other files");
    // A file of an input whose groups were begun.
    let (batches, positions) = parts(&messages(&request));
    assert_eq!(batches.len(), 600);
    let answer = |position: &PlanPosition| {
        let continue_from = Some(position.clone());
        messages(&PlanRequest { continue_from, ..request.clone() }).pop().unwrap()
    };
    let in_first = positions.iter().rfind(|position| position.mini_batches < 300).unwrap();
    assert_eq!((in_first.source, answer(in_first)), (1, FromPlanner::Finished));
    fs::write(tree.root().join("b/2.csv"), keyed(9000)).unwrap();
    assert_eq!(answer(in_first), FromPlanner::CannotContinue);
    let later = positions.iter().find(|position| position.source == 2).unwrap();
    assert_eq!(answer(later), FromPlanner::CannotContinue);
    fs::remove_file(tree.root().join("b/2.csv")).unwrap();
    fs::write(tree.root().join("c/2.csv"), keyed(9000)).unwrap();
    assert_eq!(answer(in_first), FromPlanner::Finished, "an input that was not begun");
    assert_eq!(answer(later), FromPlanner::CannotContinue);
}

#[test]
fn a_plan_of_grouped_files_of_tables_continues_from_each_position() {
    let names: Vec<String> = (0..200).map(|key| format!("a/k={key:03}/1.csv")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "id\n1\n")).collect();
    let tree = TreeFixture::new(&files);
    let source = vec![tree.source("one", "a")];
    let request = table_request(source, &TableInput::default(), SliceSize::Rows(7));
    assert!(check_each_position(&stored(&tree, &["k"], request)) > 3);
}

/// What is unpacked, unreadable or sampled is planned again from the beginning.
#[test]
fn only_plans_that_can_be_repeated_have_positions() {
    let count = |request: &PlanRequest| parts(&messages(request)).1.len();
    let tree = TreeFixture::new(&[("a/1.csv", &csv(1, "\n")), ("a/2.csv", &csv(1, "\n"))]);
    let table = TableInput::default();
    let source = || vec![tree.source("one", "a")];
    let request = table_request(source(), &table, SliceSize::Bytes(1));
    let all = count(&request);
    assert!(all > 4);
    let first_rows = vec![Source { take: Some(5), ..tree.source("one", "a") }];
    assert_eq!(count(&table_request(first_rows, &table, SliceSize::Bytes(1))), 0);
    assert_eq!(count(&PlanRequest { reports_positions: false, ..request.clone() }), 0);
    pack(&tree, "a/2.csv");
    let spill = tree.root().join("spill");
    let request = PlanRequest { spill, ..request };
    let before_packed = count(&request);
    assert!((1..all - 1).contains(&before_packed), "{before_packed} of {all}");
    fs::remove_file(tree.root().join("a/2.csv.gz")).unwrap();
    fs::write(tree.root().join("a/2.csv"), "other,columns\n1,2\n").unwrap();
    let before_bad = count(&request);
    assert!((1..all - 1).contains(&before_bad), "{before_bad} of {all}");
}
