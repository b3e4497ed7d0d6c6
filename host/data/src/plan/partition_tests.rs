//! Partition keys: files by path, tables by folder and by column, compared with groups made by hand.

use super::groups::check_size;
use super::shuffle::{Helper, ShuffleContext, ShuffleLimits, serve_on};
use super::tests::{PlanFixture, TreeFixture, joined, planned_with};
use crate::dataset::csv::MAX_SLICE;
use crate::dataset::{DatasetError, TableReader};
use crate::model::{Column, MiniBatch, MiniBatchWork, SliceSize, Source, TableInput, TextSlice};
use crate::protocol::{CutOptions, PlanRequest};
use arrow::array::AsArray;
use arrow::ipc::reader::StreamReader;
use insta::assert_snapshot;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io;
use std::io::Cursor;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};

/// A shuffle process, as a thread.
pub(super) fn start() -> io::Result<Helper> {
    let (planner_end, helper_end) = UnixStream::pair()?;
    std::thread::spawn(move || serve_on(&mut helper_end.try_clone()?, &mut &helper_end));
    Ok(Helper {
        input: Box::new(planner_end.try_clone()?),
        output: Box::new(planner_end),
        child: None,
    })
}

/// Bounds of a few bytes, so that everything is cut, spilled and merged.
const TINY: ShuffleLimits = ShuffleLimits { task: 20, run: 100, fan_in: 2 };

fn formatted(source: Source, format: &str) -> Source {
    Source { partition_format: Some(format.to_owned()), ..source }
}

fn request(
    tree: &TreeFixture,
    sources: Vec<Source>,
    cut: CutOptions,
    keys: &[&str],
) -> PlanRequest {
    PlanRequest {
        partition_keys: keys.iter().map(|&key| key.to_owned()).collect(),
        spill: tree.root().join("spill"),
        processes: 2,
        ..PlanRequest::new(sources, cut)
    }
}

fn files(
    tree: &TreeFixture,
    sources: Vec<Source>,
    keys: &[&str],
) -> Result<PlanFixture, DatasetError> {
    let request = request(tree, sources, CutOptions::Files { count: 10 }, keys);
    planned_with(ShuffleContext { request: &request, start: &start, bounds: TINY })
        .map_err(|DatasetError(text)| DatasetError(tree.clean(&text)))
}

fn csv_cut(sources: &[Source], columns: Option<Vec<Column>>) -> CutOptions {
    let table = TableInput { schema: columns, ..TableInput::default() };
    let inputs = vec![table; sources.len()];
    CutOptions::Tables { size: SliceSize::Bytes(1 << 20), inputs, full_inference: false }
}

fn tables(
    tree: &TreeFixture,
    sources: Vec<Source>,
    keys: &[&str],
) -> Result<PlanFixture, DatasetError> {
    let cut = csv_cut(&sources, None);
    let request = request(tree, sources, cut, keys);
    planned_with(ShuffleContext { request: &request, start: &start, bounds: TINY })
        .map_err(|DatasetError(text)| DatasetError(tree.clean(&text)))
}

fn file_groups(plan: &PlanFixture) -> Vec<String> {
    let group = |batch: &MiniBatch| match &batch.work {
        MiniBatchWork::Files(files) => {
            format!("{}: {}: {}", batch.source, batch.keys(), joined(files))
        }
        MiniBatchWork::FileGroup(parts) => {
            let parts: Vec<_> = parts
                .iter()
                .map(|(source, files)| format!("{source}: {}", joined(files)))
                .collect();
            format!("{}: {}", batch.keys(), parts.join("; "))
        }
        work => panic!("{work:?}"),
    };
    plan.mini_batches.iter().map(group).collect()
}

const SONGS: [(&str, &str); 6] = [
    ("in/ann/winter/pop.wav", "1"),
    ("in/ann/summer/pop.wav", "2"),
    ("in/ann/summer/jazz.wav", "3"),
    ("in/bob/winter/pop.wav", "4"),
    ("in/bob/winter/folk.wav", "5"),
    ("in/cy/winter/pop.wav", "6"),
];

/// Rules M4 and C8 in docs/parallel-run-step.md: six files under five (user, genre) pairs.
#[test]
fn files_are_grouped_by_keys_of_their_paths() {
    let tree = TreeFixture::new(&SONGS);
    let source = || formatted(tree.source("songs", "in"), "{user}/{season}/{genre}.wav");
    let plan = files(&tree, vec![source()], &["user", "genre"]).unwrap();
    assert_snapshot!(file_groups(&plan).join("\n"), @"
    0: user=ann, genre=jazz: ann/summer/jazz.wav
    0: user=ann, genre=pop: ann/summer/pop.wav ann/winter/pop.wav
    0: user=bob, genre=folk: bob/winter/folk.wav
    0: user=bob, genre=pop: bob/winter/pop.wav
    0: user=cy, genre=pop: cy/winter/pop.wav
    ");
    assert_eq!(plan.mini_batches[1].planned_items(), 2);
    assert_snapshot!(plan.mini_batches[1].location(&[source()]), @"/inputs/songs with user=ann, genre=pop: 2 files");
    // The order of the keys is the job file's order.
    let plan = files(&tree, vec![source()], &["genre"]).unwrap();
    assert_snapshot!(file_groups(&plan).join("\n"), @"
    0: genre=folk: bob/winter/folk.wav
    0: genre=jazz: ann/summer/jazz.wav
    0: genre=pop: ann/summer/pop.wav ann/winter/pop.wav bob/winter/pop.wav cy/winter/pop.wav
    ");
}

/// Rule C21: each input is grouped on its own, but all of its folders together.
#[test]
fn each_input_is_grouped_separately() {
    let tree = TreeFixture::new(&[("a/x/1", ""), ("a/y/2", ""), ("b/x/3", ""), ("b/x/4", "")]);
    let source = |dataset, folder| formatted(tree.source(dataset, folder), "{k}/{file}");
    let sources = vec![source("one", "a"), source("one", "b"), source("two", "a")];
    let plan = files(&tree, sources, &["k"]).unwrap();
    assert_snapshot!(file_groups(&plan).join("\n"), @"
    k=x: 0: x/1; 1: x/3 x/4
    0: k=y: y/2
    2: k=x: x/1
    2: k=y: y/2
    ");
}

/// Rule C8 in docs/parallel-run-step.md.
#[test]
fn files_that_cannot_be_grouped_are_refused() {
    let tree = TreeFixture::new(&SONGS);
    let songs = |format| vec![formatted(tree.source("songs", "in"), format)];
    let none = vec![tree.source("songs", "in")];
    let keys = &["user", "genre"];
    let errors = [
        files(&tree, none, keys),
        files(&tree, songs("{user}/{genre}.wav"), keys),
        files(&tree, songs("{user}/winter/{genre}.wav"), keys),
        files(&tree, songs("{user}/{season}/{file}"), keys),
        files(&tree, songs("{user/{genre}"), keys),
    ];
    let errors = errors.map(|plan| plan.unwrap_err().to_string()).join("\n");
    assert_snapshot!(errors, @r#"
    input 'songs' has no partition_format, so its files cannot be grouped by partition_keys; add one, such as partition_format: '{user}/{genre}/{file}'
    input 'songs': the path ann/summer/jazz.wav does not match partition_format '{user}/{genre}.wav'; move the file away, name the files with a glob that leaves it out, or change the template
    input 'songs': the path ann/summer/jazz.wav does not match partition_format '{user}/winter/{genre}.wav'; move the file away, name the files with a glob that leaves it out, or change the template
    input 'songs': partition_keys names 'genre', and partition_format '{user}/{season}/{file}' has the keys user, season, file; use one of these, or add 'genre' to partition_format
    input 'songs': partition_format "{user/{genre}" is not a path template: a '{' is not closed; write it as in '{user}/{season}/{genre}.wav'
    "#);
    let void = request(&tree, Vec::new(), CutOptions::Void { count: 3 }, keys);
    let void = planned_with(ShuffleContext { request: &void, start: &start, bounds: TINY });
    assert_snapshot!(void.unwrap_err(), @"partition_keys needs inputs; remove it, or name inputs");
}

/// The rows of each mini-batch as text, as a worker reads them, and which of them were rejected.
fn rows(tree: &TreeFixture, sources: &[Source], plan: &PlanFixture) -> Vec<(String, Vec<String>)> {
    let mut all = Vec::new();
    for batch in &plan.mini_batches {
        let format = &plan.tables[batch.source as usize];
        let mut reader = TableReader::new(format).unwrap();
        let mut rows_reader = TableReader::for_rows(format).unwrap();
        let loaded = match &batch.work {
            MiniBatchWork::Rows(rows) => {
                rows_reader.read_rows(&tree.root().join("spill"), rows, "some rows").unwrap()
            }
            MiniBatchWork::TextGroup(slices) => {
                let parts = slices.iter().map(|(source, slice)| crate::dataset::TablePart {
                    root: &sources[*source as usize].root,
                    slice,
                    item: &slice.file,
                });
                reader.read_group(parts, "some files").unwrap()
            }
            work => panic!("{work:?}"),
        };
        assert_eq!(loaded.rows + loaded.rejected_count, batch.planned_items());
        let mut texts: Vec<_> = StreamReader::try_new(Cursor::new(loaded.ipc.to_vec()), None)
            .unwrap()
            .flat_map(|table| {
                let table = table.unwrap();
                let cells = |row| {
                    let columns = table.columns().iter().map(move |column| {
                        let text = arrow::util::display::array_value_to_string(column, row);
                        text.unwrap()
                    });
                    columns.collect::<Vec<_>>().join("|")
                };
                (0..table.num_rows()).map(cells).collect::<Vec<_>>()
            })
            .collect();
        let rejected = loaded.rejected.into_iter();
        texts.extend(
            rejected.map(|row| {
                format!("{} {}: {}", row.item, row.line.unwrap_or_default(), row.reason)
            }),
        );
        all.push((batch.keys(), texts));
    }
    all
}

fn shown(rows: &[(String, Vec<String>)]) -> String {
    let lines = rows.iter().map(|(keys, rows)| format!("{keys}: {}\n", rows.join("  ")));
    lines.collect()
}

/// Rule M5: key columns are made from the path, after the data columns.
#[test]
fn tables_are_grouped_by_folder_level() {
    let tree = TreeFixture::new(&[
        ("in/n/4/a.csv", "x,y\n1,a\n2,b\n"),
        ("in/n/4/b.csv", "x,y\n3,c\n"),
        ("in/n/5/a.csv", "x,y\n4,d\noops\n"),
        ("in/s/4/deep/er/a.csv", "x,y\n5,e\n"),
        ("in/s/6/none.csv", "x,y\n"),
        ("more/n/4/z.csv", "x,y\n6,f\n"),
    ]);
    let source = |folder| formatted(tree.source("sales", folder), "{region}/{store}");
    let sources = vec![source("in"), source("more")];
    let plan = tables(&tree, sources.clone(), &["region", "store"]).unwrap();
    let names: Vec<_> = plan.tables[0].columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["x", "y", "region", "store"]);
    assert_snapshot!(shown(&rows(&tree, &sources, &plan)), @"
    region=n, store=4: 1|a|n|4  2|b|n|4  3|c|n|4  6|f|n|4
    region=n, store=5: 4|d|n|5  n/5/a.csv 3: 1 field, but the table has 2 columns
    region=s, store=4: 5|e|s|4
    ");
    let plan = tables(&tree, sources.clone(), &["region"]).unwrap();
    assert_snapshot!(shown(&rows(&tree, &sources, &plan)), @"
    region=n: 1|a|n|4  2|b|n|4  3|c|n|4  4|d|n|5  6|f|n|4  n/5/a.csv 3: 1 field, but the table has 2 columns
    region=s: 5|e|s|4
    ");
    let spilled = std::fs::read_dir(tree.root().join("spill")).map_or(0, Iterator::count);
    assert_eq!(spilled, 0, "nothing was gathered");
}

#[test]
fn path_columns_must_not_exist_in_the_files() {
    let tree = TreeFixture::new(&[("in/n/a.csv", "x,region\n1,a\n")]);
    let source = formatted(tree.source("sales", "in"), "{region}");
    assert_snapshot!(tables(&tree, vec![source], &["region"]).unwrap_err(), @"input 'sales': partition_format '{region}' makes a column 'region' of the files' paths, and the files have a column of that name; give the key another name");
    let source = formatted(tree.source("sales", "in"), "{a}/{b}");
    assert_snapshot!(tables(&tree, vec![source], &["a"]).unwrap_err(), @"input 'sales': the path n/a.csv does not match partition_format '{a}/{b}', which has one folder for each level; move the file away, name the files with a glob that leaves it out, or change the template");
    let source = formatted(tree.source("sales", "in"), "{r}");
    assert_snapshot!(tables(&tree, vec![source], &["store", "r"]).unwrap_err(), @"input 'sales' has no column 'store', which partition_keys names; its columns are: x, region, r");
}

#[test]
fn rows_are_gathered_by_column_from_all_files() {
    let tree = TreeFixture::new(&[
        ("in/a.csv", "store,x\n4,1\n5,2\n4,3\n\"4\",\"4\n4\"\n"),
        ("in/b.csv", "store,x\r\n5,5\r\n,6\r\n 4,7\r\n4,8"),
        ("more/c.csv", "store,x\n6,9\n5,\"10\n5,11\n5,\"12\"x"),
    ]);
    let sources = vec![tree.source("sales", "in"), tree.source("sales", "more")];
    let plan = tables(&tree, sources.clone(), &["store"]).unwrap();
    assert_snapshot!(shown(&rows(&tree, &sources, &plan)), @r#"
    store=: |6
    store= 4: 4|7
    store=4: 4|1  4|3  4|4
    4  4|8
    store=5: 5|2  5|5  5|11  /inputs/sales/c.csv 3: column 2 'x': "\"10" has no closing quote  /inputs/sales/c.csv 5: column 2 'x': "\"12\"x" has text after its closing quote
    store=6: 6|9
    "#);
    assert_snapshot!(plan.notices.join("\n").replace(tree.root().to_str().unwrap(), "/d"), @r#"
    input sales: x is read as string (a.csv, line 5: "4\n4" is not a valid int64); set schema to fix types (sandmill plan --write-schema prints one)
    all of input sales is read and its rows are grouped by store before its first mini-batch
    "#);
    assert_snapshot!(plan.mini_batches[2].location(&sources), @"/inputs/sales with store=4: 4 records");
    let left = std::fs::read_dir(tree.root().join("spill/0")).unwrap().count();
    assert_eq!(left, 3 * 32 + 2, "text, origins and index of each bucket, and names");
}

#[test]
fn rejected_rows_are_reported_with_file_and_line() {
    let tree = TreeFixture::new(&[
        ("in/a.csv", "x,store\n1,4\n\n\"2\n\",4\nshort\n"),
        ("in/b.csv", "x,store\n3,4,long\n5,4\n6,\n7,\n"),
    ]);
    let sources = vec![tree.source("sales", "in")];
    let columns = ["x", "store"]
        .map(|name| Column { name: name.to_owned(), kind: crate::model::ColumnType::Int64 });
    let cut = csv_cut(&sources, Some(columns.to_vec()));
    let request = request(&tree, sources.clone(), cut, &["store"]);
    let tools = ShuffleContext { request: &request, start: &start, bounds: TINY };
    let plan = planned_with(tools).unwrap();
    assert_snapshot!(shown(&rows(&tree, &sources, &plan)), @"
    store=: 6|  7|  /inputs/sales/a.csv 6: 1 field, but the table has 2 columns
    store=4: 1|4  2|4  5|4  /inputs/sales/b.csv 2: 3 fields, but the table has 2 columns
    ");
}

#[test]
fn path_keys_and_column_keys_can_be_combined() {
    let tree = TreeFixture::new(&[
        ("in/n/a.csv", "user,x\nann,1\nbob,2\n"),
        ("in/s, \"1\"/a.csv", "user,x\nann,3\nann\n"),
        ("in/n/b.csv", "user,x\nann,4\n"),
    ]);
    let sources = vec![formatted(tree.source("sales", "in"), "{region}")];
    let plan = tables(&tree, sources.clone(), &["user", "region"]).unwrap();
    assert_snapshot!(shown(&rows(&tree, &sources, &plan)), @r#"
    user=ann, region=n: ann|1|n  ann|4|n
    user=ann, region=s, "1": ann|3|s, "1"  /inputs/sales/s, "1"/a.csv 3: 2 fields, but the table has 3 columns
    user=bob, region=n: bob|2|n
    "#);
    let plan = tables(&tree, sources.clone(), &["user"]).unwrap();
    assert_snapshot!(shown(&rows(&tree, &sources, &plan)), @r#"
    user=ann: ann|1|n  ann|4|n  ann|3|s, "1"  /inputs/sales/s, "1"/a.csv 3: 2 fields, but the table has 3 columns
    user=bob: bob|2|n
    "#);
}

/// Rule C21 in docs/parallel-run-step.md.
#[test]
fn gathered_inputs_are_grouped_separately() {
    let tree = TreeFixture::new(&[("a/1.csv", "k,x\n1,1\n2,2\n"), ("b/1.csv", "y,k\n3,1\n")]);
    let sources = vec![tree.source("one", "a"), tree.source("two", "b")];
    let plan = tables(&tree, sources.clone(), &["k"]).unwrap();
    assert_snapshot!(shown(&rows(&tree, &sources, &plan)), @"
    k=1: 1|1
    k=2: 2|2
    k=1: 3|1
    ");
    let wrong = tables(&tree, sources, &["x"]).unwrap_err();
    assert_snapshot!(wrong, @"input 'two' has no column 'x', which partition_keys names; its columns are: y, k");
}

#[test]
fn stamps_of_gathered_rows_change_with_the_rows() {
    let tree = TreeFixture::new(&[("in/a.csv", "k,x\n1,1\n2,2\n"), ("in/b.csv", "k,x\n1,3\n")]);
    let stamps = || {
        let plan = tables(&tree, vec![tree.source("one", "in")], &["k"]).unwrap();
        plan.mini_batches.iter().map(|batch| batch.stamp).collect::<Vec<_>>()
    };
    let before = stamps();
    assert_eq!(before, stamps());
    std::fs::write(tree.root().join("in/b.csv"), "k,x\n1,4\n").unwrap();
    let after = stamps();
    assert_ne!(before[0], after[0]);
    assert_eq!(before[1], after[1], "the other key's rows are the same");
}

#[test]
fn dead_processes_are_replaced_and_their_tasks_repeated() {
    let text: String = (0..200).map(|n| format!("{},{n}\n", n % 7)).collect();
    let tree = TreeFixture::new(&[("in/a.csv", &format!("k,x\n{text}"))]);
    let sources = vec![tree.source("one", "in")];
    let expected = rows(&tree, &sources, &tables(&tree, sources.clone(), &["k"]).unwrap());
    let request = request(&tree, sources.clone(), csv_cut(&sources, None), &["k"]);
    // The shuffle would fail if three processes in a row died over the same task. Here that never happens.
    let started = AtomicU32::new(0);
    let frail = || {
        let number = started.fetch_add(1, Ordering::Relaxed);
        // An answer has five bytes.
        Ok(cut_short(start()?, if number == 4 { 0 } else { 17 }))
    };
    let tools = ShuffleContext { request: &request, start: &frail, bounds: TINY };
    let plan = planned_with(tools).unwrap();
    assert_eq!(rows(&tree, &sources, &plan), expected);
    assert!(started.load(Ordering::Relaxed) > 10);
    let dead = || start().map(|helper| cut_short(helper, 0));
    let tools = ShuffleContext { request: &request, start: &dead, bounds: TINY };
    let error = tree.clean(&planned_with(tools).unwrap_err().to_string());
    assert!(error.starts_with("rows cannot be grouped by key: 3 processes ended"), "{error}");
    assert!(error.contains("/d/in/a.csv from line"), "{error}");
    // Use another folder, because the threads of the dead processes may still be writing.
    let tree = TreeFixture::new(&[("in/a.csv", "k,x\n1,1\n")]);
    let sources = vec![tree.source("one", "in")];
    let request = self::request(&tree, sources.clone(), csv_cut(&sources, None), &["k"]);
    let none = || Err(io::Error::other("no more processes"));
    let tools = ShuffleContext { request: &request, start: &none, bounds: TINY };
    let error = planned_with(tools).unwrap_err().to_string();
    assert!(error.contains("(no more processes, no more processes, no more processes)"), "{error}");
}

/// A process whose answers end after this many bytes.
fn cut_short(mut helper: Helper, bytes: u64) -> Helper {
    let output = std::mem::replace(&mut helper.output, Box::new(io::empty()));
    helper.output = Box::new(io::Read::take(output, bytes));
    helper
}

#[test]
fn an_unwritable_spill_folder_is_reported() {
    let tree = TreeFixture::new(&[("in/a.csv", "k,x\n1,1\n"), ("spill", "no folder")]);
    let error = tables(&tree, vec![tree.source("one", "in")], &["k"]).unwrap_err();
    assert_snapshot!(error, @"rows cannot be kept in /d/spill while they are grouped: Not a directory (os error 20)");
}

#[test]
fn groups_too_large_for_a_mini_batch_are_refused() {
    let keys = ["a".to_owned(), "b".to_owned()];
    let values = ["1".to_owned(), "x y".to_owned()];
    check_size("sales", &keys, &values, MAX_SLICE).unwrap();
    let error = check_size("sales", &keys, &values, MAX_SLICE + (1 << 20)).unwrap_err();
    assert_snapshot!(error, @"input 'sales': the rows with a=1, b=x y take 1025 MB or more, and a mini-batch can take at most 1 GB, because a worker holds it in memory; add a key to partition_keys that divides these rows");
    let long = format!("k,x\n{},1\n", "k".repeat(70_000));
    let tree = TreeFixture::new(&[("in/a.csv", &long)]);
    let error = tables(&tree, vec![tree.source("one", "in")], &["k"]).unwrap_err();
    assert_snapshot!(error, @"/d/in/a.csv, line 2: the values of the partition keys take 70002 bytes, and at most 64 KB can name a mini-batch; group by a column of shorter values");
}

/// Random rows: a key, a text, and the number of the file.
fn random_rows() -> impl Strategy<Value = Vec<(String, String, usize)>> {
    let field = prop::collection::vec(
        prop::sample::select(vec!["a", "b", "é", ",", "\n", "\r\n", "\"", " "]),
        0..4,
    );
    let key = prop::sample::select(vec!["", "1", "2", "a,b", "a\nb", "\"", "x", "y", "z"]);
    prop::collection::vec(
        (key.prop_map(str::to_owned), field.prop_map(|parts| parts.concat()), 0..3usize),
        0..60,
    )
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// For any number of processes and any memory bounds, the rows of a key come together, in the order of
    /// the files, and the plan is the same.
    #[test]
    fn a_shuffle_is_a_group_by(
        rows_by_hand in random_rows(), processes in 1u32..5, task in 1u64..200, run in 1usize..400,
        fan_in in 2usize..5,
    ) {
        let mut texts = [const { String::new() }; 3];
        texts.iter_mut().for_each(|text| text.push_str("x,k\r\n"));
        let mut expected: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (file, text) in texts.iter_mut().enumerate() {
            for (key, value, _) in rows_by_hand.iter().filter(|row| row.2 == file) {
                text.push_str(&format!("{},{}\n", quoted(value), quoted(key)));
                expected.entry(key).or_default().push(value.clone());
            }
        }
        let tree = TreeFixture::new(&[("in/0", &texts[0]), ("in/1", &texts[1]), ("in/2", &texts[2])]);
        let sources = vec![tree.source("one", "in")];
        let columns = ["x", "k"].map(|name| Column {
            name: name.to_owned(),
            kind: crate::model::ColumnType::String,
        });
        let cut = csv_cut(&sources, Some(columns.to_vec()));
        let mut request = request(&tree, sources, cut, &["k"]);
        request.processes = processes;
        let bounds = ShuffleLimits { task, run, fan_in };
        let plan = planned_with(ShuffleContext { request: &request, start: &start, bounds }).unwrap();
        let seen: Vec<_> = plan.mini_batches.iter().map(|batch| batch.partition[0].1.as_str()).collect();
        prop_assert_eq!(&seen, &expected.keys().copied().collect::<Vec<_>>());
        let mut reader = TableReader::new(&plan.tables[0]).unwrap();
        for (batch, expected) in plan.mini_batches.iter().zip(expected.values()) {
            let MiniBatchWork::Rows(rows) = &batch.work else { panic!("{batch:?}") };
            let loaded = reader.read_rows(&request.spill, rows, "rows").unwrap();
            prop_assert_eq!(loaded.rejected_count, 0);
            let table = StreamReader::try_new(Cursor::new(loaded.ipc.to_vec()), None).unwrap().next().unwrap().unwrap();
            let column = table.column(0).as_string::<i32>();
            let values: Vec<_> = column.iter().map(|v| v.unwrap_or_default().to_owned()).collect();
            prop_assert_eq!(&values, expected);
        }
        request.processes = 1;
        let again = ShuffleContext { request: &request, start: &start, bounds: ShuffleLimits::default() };
        prop_assert_eq!(planned_with(again).unwrap().mini_batches, plan.mini_batches);
    }
}

/// Rules M1, M2 and M6: ids are integers from 0 and rise by one, over all inputs; no mini-batch spans files.
#[test]
fn mini_batches_by_size_never_span_files() {
    let tree = TreeFixture::new(&[
        ("in/a.csv", "x\n1\n2\n3\n4\n"),
        ("in/b.csv", "x\n5\n"),
        ("more/c.csv", "x\n6\n"),
    ]);
    let sources = vec![tree.source("one", "in"), tree.source("two", "more")];
    let inputs = vec![TableInput::default(); 2];
    let cut = CutOptions::Tables { size: SliceSize::Bytes(4), inputs, full_inference: false };
    let request = PlanRequest::new(sources, cut);
    let plan =
        planned_with(ShuffleContext { request: &request, start: &start, bounds: TINY }).unwrap();
    let slices: Vec<(u64, &TextSlice)> = plan
        .mini_batches
        .iter()
        .map(|batch| match &batch.work {
            MiniBatchWork::Text(slice) => (batch.id.0, slice),
            work => panic!("{work:?}"),
        })
        .collect();
    let shown: Vec<_> = slices
        .iter()
        .map(|(id, slice)| format!("{id} {} {} rows", slice.file, slice.rows))
        .collect();
    assert_eq!(shown, ["0 a.csv 2 rows", "1 a.csv 2 rows", "2 b.csv 1 rows", "3 c.csv 1 rows"]);
}
