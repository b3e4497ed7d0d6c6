use super::{errors, job, job_with};

const FILES: &str = "entry_script: script.wasm\n\
    inputs: {songs: {path: data, partition_format: \"{user}/{season}/{genre}.wav\"}}\n";
const TABLES: &str = "entry_script: script.wasm\ninputs: {sales: {path: data, format: csv}}\n";

/// Rules C8 and M4 in docs/parallel-run-step.md: for files, the keys are parts of paths.
#[test]
fn files_by_a_template() {
    let spec = job_with(FILES, &[("partition_keys", "[user, genre]")]);
    assert_eq!(spec.partition_keys, ["user", "genre"]);
    let format = spec.inputs[0].partition_format.as_deref();
    assert_eq!(format, Some("{user}/{season}/{genre}.wav"));
    let spec = job_with(FILES, &[("inputs.songs.partition_format", "/{user}/x.wav")]);
    assert_eq!(spec.inputs[0].partition_format.as_deref(), Some("{user}/x.wav"));
    insta::assert_snapshot!(spec.notices.join("\n"), @"inputs.songs.partition_format has no effect: there are no partition_keys");
}

/// C8, M5: for tables, the keys are folder levels or columns.
#[test]
fn tables_by_folder_or_column() {
    let spec = job_with(TABLES, &[("partition_keys", "[store]")]);
    assert_eq!(spec.inputs[0].partition_format, None);
    let by_folder = ("inputs.sales.partition_format", "'{region}/{store}'");
    let spec = job_with(TABLES, &[("partition_keys", "[store]"), by_folder]);
    assert_eq!(spec.inputs[0].partition_format.as_deref(), Some("{region}/{store}"));
    let schema = ("inputs.sales.schema", "{store: string, amount: float64}");
    assert_eq!(
        job_with(TABLES, &[("partition_keys", "[store]"), schema]).partition_keys,
        ["store"]
    );
}

/// C8: a key is a folder level or a column. Without a schema, only the planner knows the columns.
#[test]
fn tables_by_folder_and_column() {
    let by_folder = ("inputs.sales.partition_format", "'{region}/{store}'");
    let keys = ("partition_keys", "[store, brand]");
    assert_eq!(job_with(TABLES, &[keys, by_folder]).partition_keys, ["store", "brand"]);
    let schema = ("inputs.sales.schema", "{brand: string}");
    assert_eq!(job_with(TABLES, &[keys, by_folder, schema]).partition_keys, ["store", "brand"]);
    insta::assert_snapshot!(errors(&format!(
        "{}partition_keys: [store, colour]\n",
        TABLES.replace(
            "format: csv",
            "format: csv, partition_format: '{region}/{store}', schema: {brand: string}"
        )
    )), @r#"job.yaml:3: partition_keys[1]: found "colour", which is not in the partition_format and schema of input sales; expected one of: region, store, brand"#);
    // In tables that are cut by size, the columns from the path are useful, too.
    assert_eq!(job_with(TABLES, &[by_folder]).notices, Vec::<String>::new());
}

/// C8: a text instead of a list, elements that are not text, both keys and a size, and keys that an input
/// lacks.
#[test]
fn keys_that_do_not_fit() {
    let error = |text: &str| errors(&format!("{FILES}{text}\n"));
    insta::assert_snapshot!(error("partition_keys: user"), @r#"job.yaml:3: partition_keys: found "user"; expected a list of texts (e.g. [store, brand])"#);
    insta::assert_snapshot!(error("partition_keys: [user, 5, true, [x]]"), @"
    job.yaml:3: partition_keys[1]: found 5; expected a text (a number or a truth value in quotes)
    job.yaml:3: partition_keys[2]: found true; expected a text (a number or a truth value in quotes)
    job.yaml:3: partition_keys[3]: found a list; expected a text (a number or a truth value in quotes)
    ");
    insta::assert_snapshot!(error("partition_keys: []"), @"job.yaml:3: partition_keys: found an empty list; name at least one key, or leave the key out");
    insta::assert_snapshot!(error("partition_keys: [user, user, ' ']"), @r#"
    job.yaml:3: partition_keys[1]: found "user" a second time; remove it
    job.yaml:3: partition_keys[2]: found an empty text; expected the name of a key
    "#);
    insta::assert_snapshot!(error("partition_keys: [user]\nmini_batch_size: 5"), @"job.yaml:3: partition_keys: found together with mini_batch_size (5); mini-batches are made by keys or by size: choose one, and remove the other");
    insta::assert_snapshot!(error("partition_keys: [user, store]"), @r#"job.yaml:3: partition_keys[1]: found "store", which is not in the partition_format of input songs; expected one of: user, season, genre"#);
    insta::assert_snapshot!(errors("entry_script: script.wasm\ninputs: {a: data}\npartition_keys: [store]\n"), @r#"job.yaml:2: inputs.a: input a has no partition_format, which names the keys in its files' paths: add one (e.g. partition_format: "{store}/{file}"), or format: csv, if the keys are columns"#);
    insta::assert_snapshot!(errors(&format!(
        "{}partition_keys: [store, region]\n",
        TABLES.replace("format: csv", "format: csv, schema: {store: string}")
    )), @r#"job.yaml:3: partition_keys[1]: found "region", which is not in the schema of input sales; expected one of: store"#);
}

/// M4: invalid templates.
#[test]
fn templates_that_do_not_fit() {
    let error = |template: &str| errors(&FILES.replace("{user}/{season}/{genre}.wav", template));
    insta::assert_snapshot!(error("data"), @r#"job.yaml:2: inputs.songs.partition_format: found "data"; it names no key; write one as in {store}/{file}.csv"#);
    insta::assert_snapshot!(error("{a}//{b}"), @r#"job.yaml:2: inputs.songs.partition_format: found "{a}//{b}"; it has an empty, . or .. part"#);
    insta::assert_snapshot!(error("../{a}"), @r#"job.yaml:2: inputs.songs.partition_format: found "../{a}"; it has an empty, . or .. part"#);
    insta::assert_snapshot!(error("{a}/{a}"), @r#"job.yaml:2: inputs.songs.partition_format: found "{a}/{a}"; {a} appears twice"#);
    insta::assert_snapshot!(error("{date:yyyy/MM}/x.csv"), @r#"job.yaml:2: inputs.songs.partition_format: found "{date:yyyy/MM}/x.csv"; {date:...} gives a format, which is not supported; name each part, as in {year}/{month}/{day}"#);
}

#[test]
fn the_number_of_keys_is_limited() {
    let many: Vec<String> = (0..100_000).map(|index| format!("k{index}")).collect();
    let text = format!("{FILES}partition_keys: [{}]\n", many.join(", "));
    insta::assert_snapshot!(errors(&text), @"job.yaml:3: partition_keys: found 100000 keys; at most 64 are allowed");
    let template = many.iter().map(|key| format!("{{{key}}}")).collect::<Vec<_>>().join("/");
    let errors = errors(&FILES.replace("{user}/{season}/{genre}.wav", &template));
    assert!(errors.contains("it has more than 64 keys"));
}

/// C26: void mini-batches have no keys.
#[test]
fn void_jobs_have_no_keys() {
    let spec = job("entry_script: script.wasm\nrank_mini_batch_count: 2\npartition_keys: [a]\n");
    assert!(spec.partition_keys.is_empty());
    insta::assert_snapshot!(spec.notices.join("\n"), @"partition_keys are ignored: rank_mini_batch_count is above 0");
}
