use super::version2::JOB;
use super::{LEAST, SpecFixture};
use proptest::prelude::*;
use std::time::{Duration, Instant};

/// A job file that uses every kind of setting.
const RICH: &str = r#"
name: nightly
entry_script: script.wasm
inputs:
  images: {path: data, format: csv, schema: {a: int64}, null_values: [NA], header: true}
  more:
    paths: [a, "b"]
side_inputs: &sides
  model: {path: weights, mount_path: /models/x}
arguments: ["--model", "${{side_inputs.model}}/x"]
environment_variables: {A: 1}
mini_batch_size: 1 MB
limits: {memory: 512 MB, fuel: 100}
parallel_run_config:
  node_count: 2
  environment: *sides
"#;

fn never_hangs(text: impl AsRef<[u8]>) -> String {
    let start = Instant::now();
    let result = SpecFixture::new().load(text, &[]);
    assert!(start.elapsed() < Duration::from_secs(20), "took {:?}", start.elapsed());
    result.map(|_| String::new()).unwrap_or_else(|errors| errors)
}

#[test]
fn deep_nesting_is_an_error() {
    insta::assert_snapshot!(never_hangs("- ".repeat(400_000)), @"job.yaml:1: lists and maps are nested more than 32 deep");
    insta::assert_snapshot!(never_hangs("[".repeat(900_000)), @"job.yaml:1: not valid YAML (column 256): recursion limit exceeded");
    insta::assert_snapshot!(never_hangs("{a: ".repeat(200_000)), @"job.yaml:1: not valid YAML (column 1021): recursion limit exceeded");
    insta::assert_snapshot!(never_hangs("? ".repeat(400_000)), @"job.yaml:1: lists and maps are nested more than 32 deep");
    let stairs: String = (0..1000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    insta::assert_snapshot!(never_hangs(stairs), @"job.yaml:33: lists and maps are nested more than 32 deep");
}

#[test]
fn alias_bombs_are_an_error() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..20 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    insta::assert_snapshot!(never_hangs(text), @"job.yaml:4: aliases add more than 10000 values");
    insta::assert_snapshot!(never_hangs("a: &a [*a]\n"), @"job.yaml:1: a[0]: found an alias inside the value that it names");
    insta::assert_snapshot!(never_hangs("a: *b\n"), @"job.yaml:1: not valid YAML (column 4): while parsing node, found unknown anchor; text that starts with * must be in quotes");
}

#[test]
fn many_errors_are_cut() {
    let keys: String = (0..60_000).map(|index| format!("key{index}: 1\n")).collect();
    let errors = never_hangs(keys);
    assert_eq!(errors.lines().count(), 101);
    assert!(errors.ends_with("job.yaml: there may be more errors; these are the first"));
    let longest = format!("{LEAST}name: \"{}\"\n", "x".repeat(100_000));
    assert!(never_hangs(longest).len() < 500);
}

thread_local! {
    /// One folder for all cases of a test.
    static FIXTURE: SpecFixture = SpecFixture::new();
}

/// Damages a job file: each entry of `cuts` replaces a part of the text. Loading the result must
/// neither panic nor hang.
fn mutated(base: &str, cuts: Vec<(usize, usize, String)>) -> String {
    let mut text = base.to_owned();
    for (start, length, insert) in cuts {
        let start = start.min(text.len());
        let end = (start + length).min(text.len());
        text.replace_range(start..end, &insert);
    }
    text
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = FIXTURE.with(|fixture| fixture.load(&bytes, &[]));
    }

    #[test]
    fn random_yaml_like_text_never_panics(
        text in r#"([a-z_]{0,4}|[-:?,\[\]{}#&*!|>'"%@` \n\t~]|: |\n- |\n  |\$\{\{|\}\}|[0-9.]{1,4}|null|\u{e4}){0,60}"#,
        key in r"[a-z.\[\]0-9]{0,12}",
    ) {
        let _ = FIXTURE.with(|fixture| fixture.load(&text, &[(&key, &text)]));
    }

    #[test]
    fn mutations_of_a_good_file_never_panic(
        cuts in proptest::collection::vec((0..RICH.len(), 0..12_usize, r#"[-:\[\]{}&*'"x0 \n]{0,3}"#), 1..4),
    ) {
        let text = mutated(RICH, cuts);
        let _ = FIXTURE.with(|fixture| fixture.load(&text, &[("limits.memory", "1 GB"), ("inputs.images.path", "x")]));
    }

    #[test]
    fn mutations_of_a_version_2_file_never_panic(
        cuts in proptest::collection::vec((0..JOB.len(), 0..12_usize, r#"[-:\[\]{}&*'"$x0 \n]{0,3}"#), 1..4),
    ) {
        let text = mutated(JOB, cuts);
        let _ = FIXTURE.with(|fixture| fixture.load(&text, &[("inputs.job_data_path.path", "x")]));
        let pipeline = format!("jobs: {{a: {{{}}}}}", text.replace('\n', ", "));
        let _ = FIXTURE.with(|fixture| fixture.load(&pipeline, &[("job", "a")]));
    }
}

/// References of a pipeline cannot make a file grow without bound.
#[test]
fn reference_bombs_are_an_error() {
    let words = "${{parent.inputs.x}} ".repeat(20_000);
    let text = format!(
        "type: pipeline\ninputs: {{x: \"{}\", d: {{path: data}}}}\njobs:\n  a:\n    type: parallel\n    \
         inputs: {{d: \"${{{{parent.inputs.d}}}}\"}}\n    input_data: ${{{{inputs.d}}}}\n    \
         task: {{entry_script: script.wasm, program_arguments: \"--a {words}\"}}\n",
        "y".repeat(300_000)
    );
    assert!(never_hangs(text).contains("unknown reference"));
}
