use super::version2::JOB;
use super::{LEAST, errors, errors_with, job, job_with};
use crate::model::InputKind;

/// A pipeline with these jobs.
fn pipeline(jobs: &[(&str, &str)]) -> String {
    let mut text = String::from(
        "type: pipeline\ndisplay_name: Nightly\nsettings: {default_compute: azureml:c}\n\
         inputs:\n  images: {type: uri_folder, path: ./data}\n  size: 7\n  \
         keys: {type: string, default: '[\"user\"]'}\n\
         outputs:\n  rows: {type: uri_file, path: out/rows.txt}\njobs:\n",
    );
    for (name, job) in jobs {
        text.push_str(&format!("  {name}:\n"));
        for line in job.lines() {
            text.push_str(&format!("    {line}\n"));
        }
    }
    text
}

const PREPARE: &str = "type: command\ncommand: prepare\n";

fn score() -> String {
    JOB.replace("{type: uri_folder, path: ./data, mode: ro_mount}", "${{parent.inputs.images}}")
        .replace("mini_batch_size: \"4\"", "mini_batch_size: ${{parent.inputs.size}}")
        .replace("{type: uri_file, mode: rw_mount}", "${{parent.outputs.rows}}")
        .replace("name: Batch_Prediction 1\n", "")
        .replace("$schema: https://example.org/parallelJob.schema.json\n", "")
}

/// Rule C27 in docs/parallel-run-step.md: a pipeline's only parallel job runs, with references to the
/// pipeline's inputs and outputs replaced.
#[test]
fn the_one_parallel_job_is_picked() {
    let text = pipeline(&[("prepare", PREPARE), ("score", &score())]);
    let spec = job(&text);
    assert_eq!(spec.name, "score");
    assert_eq!(spec.inputs[0].paths, ["/dir/data"]);
    assert_eq!(spec.append_row_file_name, "rows.txt");
    assert_eq!(spec.output.as_deref().and_then(|path| path.to_str()), Some("/dir/out"));
    assert!(spec.arguments.windows(2).any(|two| two == ["--mini_batch_size", "7"]));
    insta::assert_snapshot!(spec.conversions[0], @"jobs.prepare: not run; only the job score of the pipeline runs");
    assert_eq!(
        job_with(&text, &[("inputs.job_data_path.path", "data/*.png")]).inputs[0].paths,
        ["/dir/data/*.png"]
    );
}

/// The error for other kinds of Azure files differs from that for a misspelt job file.
#[test]
fn only_parallel_jobs_and_pipelines_run() {
    insta::assert_snapshot!(errors("type: command\ncommand: echo\n"), @r#"job.yaml:1: type: found "command"; Sandmill runs only Azure files of type parallel or pipeline, and batch deployments; a Sandmill job file must not have the key type"#);
}

/// As in Azure's samples: the job says how its input is mounted, and the pipeline where it is.
#[test]
fn a_path_may_be_the_pipelines_input() {
    for kind in ["", "type: uri_folder, "] {
        let own = format!("{{{kind}path: '${{{{parent.inputs.images}}}}', mode: eval_mount}}");
        let text = score().replace("${{parent.inputs.images}}", &own);
        assert_eq!(job(&pipeline(&[("score", &text)])).inputs[0].paths, ["/dir/data"]);
    }
}

/// C8: partition keys that are an input of the pipeline are JSON text.
#[test]
fn a_pipelines_partition_keys_are_json_text() {
    let text = score().replace(
        "mini_batch_size: ${{parent.inputs.size}}",
        "partition_keys: ${{parent.inputs.keys}}",
    );
    let text = pipeline(&[("score", &text)]);
    let format = ("inputs.job_data_path.partition_format", "'{user}/x.png'");
    assert_eq!(job_with(&text, &[format]).partition_keys, ["user"]);
}

#[test]
fn several_parallel_jobs_are_picked_by_name() {
    let text = pipeline(&[("one", &score()), ("prepare", PREPARE), ("two", &score())]);
    insta::assert_snapshot!(errors(&text), @"job.yaml: jobs: there are several parallel jobs; pick one by --job NAME: one, two");
    assert_eq!(job_with(&text, &[("job", "two")]).name, "two");
    insta::assert_snapshot!(errors_with(&text, &[("job", "tow")]), @r#"--job: found "tow", which is not a parallel job of this pipeline; its parallel jobs are one, two; did you mean two?"#);
    insta::assert_snapshot!(errors_with(&text, &[("job", "prepare")]), @r#"--job: found "prepare", which is not a parallel job of this pipeline; its parallel jobs are one, two"#);
    insta::assert_snapshot!(errors(&pipeline(&[("prepare", PREPARE)])), @"job.yaml: jobs: the pipeline has no job of type parallel, and only parallel jobs run here");
    insta::assert_snapshot!(errors("type: pipeline\njobs: []\n"), @"job.yaml:2: jobs: expected a map of names to jobs");
    insta::assert_snapshot!(errors_with(LEAST, &[("job", "one")]), @r#"--job: found "one", but the file contains a single job, not a pipeline; leave out --job"#);
}

/// A6, A8: the pipeline is the parent.
#[test]
fn the_pipeline_is_the_parent() {
    let text = score().replace("--allowed_failed_percent 30", "--copy_logs_to_parent True");
    let spec = super::SpecFixture::new().load(pipeline(&[("score", &text)]), &[]).expect("a job");
    let parent = spec.parent.expect("a parent");
    assert!(parent.copy_logs && !parent.push_metrics);
    assert!(parent.folder.ends_with("jobs/job.pipeline"));
}

/// The results of another job of the pipeline must be replaced by files on this machine.
#[test]
fn results_of_other_jobs_are_named() {
    let text = score().replace("${{parent.inputs.images}}", "${{parent.jobs.prepare.outputs.x}}");
    let text = pipeline(&[("prepare", PREPARE), ("score", &text)]);
    insta::assert_snapshot!(errors(&text), @"job.yaml:20: inputs.job_data_path.path: found the reference ${{parent.jobs.prepare.outputs.x}}, which names nothing on this machine; name a file, a folder or a glob (--set inputs.job_data_path.path=...)");
    assert_eq!(job_with(&text, &[("inputs.job_data_path", "data")]).inputs[0].paths, ["/dir/data"]);
}

/// M3: rows of an SQL table must come from a database that is a file.
#[test]
fn an_sql_table_must_come_from_a_file() {
    let import = "    type: import_data\n    source:\n      type: database\n      query: select * from REGION\n      \
                  connection: azureml:my_sql_connection\n    outputs: {sink: {type: mltable}}\n";
    let text = score().replace("${{parent.inputs.images}}", "${{parent.jobs.import.outputs.sink}}");
    let text = pipeline(&[("import", import), ("score", &text)]);
    insta::assert_snapshot!(errors(&text), @r#"job.yaml:13: inputs.job_data_path.path: comes from an SQL table, and Sandmill cannot connect to SQL servers; write the rows into an SQLite database, and name it by --set inputs.job_data_path.path=FILE --set inputs.job_data_path.format=sqlite --set inputs.job_data_path.query="select * from REGION", or write them as Parquet or CSV"#);
    let sets = [
        ("inputs.job_data_path.path", "data"),
        ("inputs.job_data_path.format", "sqlite"),
        ("inputs.job_data_path.query", "select * from REGION"),
        ("mini_batch_size", "1 MB"),
    ];
    let InputKind::Tables { inputs, .. } = job_with(&text, &sets).input_kind else {
        panic!("no tables")
    };
    assert_eq!(inputs[0].query.as_deref(), Some("select * from REGION"));
}
