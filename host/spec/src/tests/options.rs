use super::{LEAST, describe, errors, job, job_with};
use std::time::Duration;

fn with_arguments(arguments: &str) -> String {
    format!("{LEAST}arguments: [{arguments}]\n")
}

/// Rules A1 to A9 in docs/parallel-run-step.md: options of ParallelRunStep's driver set the job's settings,
/// and stay in the arguments.
#[test]
fn driver_options_set_the_job() {
    let spec = job(&format!(
        "{}parent: up\n",
        with_arguments(
            "--task_overhead_timeout, 100, --progress_update_timeout=700, \
             --first_task_creation_timeout, 50, --resource_monitor_interval, 20, \
             --profiling_module=cProfile, --copy_logs_to_parent, \"True\", \
             --metrics_name_prefix, m_, --push_metrics_to_parent=true, \
             --append_row_dataframe_header, true, --mine, 1"
        )
    ));
    assert_eq!(spec.settings.task_overhead_timeout, Duration::from_secs(100));
    assert_eq!(spec.progress_update_timeout, Duration::from_secs(700));
    assert_eq!(spec.settings.first_task_creation_timeout, Duration::from_secs(50));
    assert_eq!(spec.settings.resource_monitor_interval, Some(Duration::from_secs(20)));
    assert!(spec.worker.profiling_module.is_some() && spec.output_format.header);
    assert_eq!(spec.settings.metrics_name_prefix, "m_");
    let parent = spec.parent.clone().expect("a parent");
    assert!(parent.copy_logs && parent.push_metrics);
    assert_eq!(spec.arguments.len(), 17);
    insta::assert_snapshot!(describe(&spec), @"
    arguments: --task_overhead_timeout sets task_overhead_timeout to 100; the entry script gets it too
    arguments: --progress_update_timeout sets progress_update_timeout to 700; the entry script gets it too
    arguments: --first_task_creation_timeout sets first_task_creation_timeout to 50; the entry script gets it too
    arguments: --resource_monitor_interval sets resource_monitor_interval to 20; the entry script gets it too
    arguments: --profiling_module sets profiling_module to cProfile; the entry script gets it too
    arguments: --copy_logs_to_parent sets copy_logs_to_parent to True; the entry script gets it too
    arguments: --metrics_name_prefix sets metrics_name_prefix to m_; the entry script gets it too
    arguments: --push_metrics_to_parent sets push_metrics_to_parent to true; the entry script gets it too
    arguments: --append_row_dataframe_header sets append_row_dataframe_header to true; the entry script gets it too
    ");
}

/// A4: a name may be abbreviated within its last word. A shorter name is an option of the script.
#[test]
fn driver_options_may_be_abbreviated() {
    let spec = job(&with_arguments(
        "--resource_monitor_interva, 20, --task, classify, --profile, x, --outputs, y",
    ));
    assert_eq!(spec.settings.resource_monitor_interval, Some(Duration::from_secs(20)));
    insta::assert_snapshot!(describe(&spec), @"
    arguments: --resource_monitor_interva is read as --resource_monitor_interval
    arguments: --resource_monitor_interval sets resource_monitor_interval to 20; the entry script gets it too
    ");
}

/// A1, A2, A3, A4, A5, A6, A7, A8, A9: a setting may be given only once. The error of a wrong value names the
/// setting and the argument's line.
#[test]
fn driver_options_that_do_not_fit() {
    insta::assert_snapshot!(errors(&format!(
        "{}task_overhead_timeout: 5\n",
        with_arguments("--task_overhead_timeout, 6")
    )), @"job.yaml:3: arguments[0]: given twice: --task_overhead_timeout here, and the key task_overhead_timeout in the job file; remove one of them");
    insta::assert_snapshot!(errors(&with_arguments(
        "--progress_update_timeout, 0, --first_task_creation_timeout=x, \
         --resource_monitor_interval, -1, --profiling_module, perf, --copy_logs_to_parent, \
         --push_metrics_to_parent, maybe, --append_row_dataframe_header, 2, \
         --metrics_name_prefix, a, --metrics_name_prefix, b"
    )), @r#"
    job.yaml:3: arguments[7]: --copy_logs_to_parent has no value; write one after it
    job.yaml:3: arguments[14]: --metrics_name_prefix is given twice; remove one of them
    job.yaml:3: first_task_creation_timeout: found "x"; expected seconds, more than 0 and at most 259200 (e.g. 600)
    job.yaml:3: resource_monitor_interval: found "-1"; expected seconds from 0 (never) to 2147483647 (e.g. 600)
    job.yaml:3: profiling_module: found "perf"; expected cProfile, profile or guest
    job.yaml:3: append_row_dataframe_header: found "2"; expected true or false
    job.yaml:3: progress_update_timeout: found "0"; expected seconds, more than 0 and at most 259200 (e.g. 600)
    job.yaml:3: push_metrics_to_parent: found "maybe"; expected true or false
    "#);
}

/// C24: the twelve reserved names are refused with or without "=", and the error names the key to use.
#[test]
fn reserved_names_lead_to_their_keys() {
    for name in [
        "mini_batch_size",
        "error_threshold",
        "allowed_failed_count",
        "allowed_failed_percent",
        "output",
        "output_action",
        "logging_level",
        "process_count_per_node",
        "run_invocation_timeout",
        "run_max_try",
        "append_row_file_name",
        "partition_keys",
    ] {
        let expected = format!("--{name} is a setting of the job: write the key {name} in the job");
        for arguments in [format!("--{name}, 1"), format!("--{name}=1")] {
            let errors = errors(&with_arguments(&arguments));
            assert!(errors.contains(&expected), "{arguments}: {errors}");
        }
    }
    assert_eq!(job(&with_arguments("--outputs, x, output")).arguments.len(), 3);
}

/// C6, G3: with GPUs there is one worker, unless the job file gives a number.
#[test]
fn gpus_decide_the_number_of_workers() {
    let spec = job_with(LEAST, &[("gpus", "2")]);
    assert_eq!((spec.gpus, spec.process_count), (2, 1));
    insta::assert_snapshot!(describe(&spec), @"process_count_per_node is not given: 1 worker, on one of 2 GPUs; for one worker per GPU set it to 2");
    let spec = job_with(LEAST, &[("gpus", "2"), ("process_count_per_node", "3")]);
    assert_eq!((spec.gpus, spec.process_count, spec.notices.len()), (2, 3, 0));
}
