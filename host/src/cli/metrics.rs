//! `sandmill metrics`: the jobs below a folder or in a job store as OpenMetrics, for Prometheus and for the textfile
//! collector of its node exporter.

use super::config::Config;
use super::datastores::DatastoresArgument;
use super::exit::{Exit, Problem};
use super::job_source::{open_stored, stored_history};
use super::job_store_place::open_place;
use super::jobs::{list_jobs, stored_in};
use super::jobs_found::{CurrentState, FoundJob, RootArgument};
use super::policy::PolicyArgument;
use super::terminal::print_json;
use crate::engine::StorePlace;
use crate::model::to_f64;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct MetricsArguments {
    #[command(flatten)]
    root: RootArgument,
    /// Prints the jobs in this job store, instead of job directories. They may run on other machines.
    #[arg(long, value_name = "STORE", conflicts_with = "root")]
    store: Option<PathBuf>,
    #[command(flatten)]
    datastores: DatastoresArgument,
    /// Only the job with this name.
    #[arg(value_name = "JOB", requires = "store")]
    job: Option<String>,
}

pub(super) fn metrics(arguments: &MetricsArguments) -> Result<Exit, Problem> {
    let jobs = match &arguments.store {
        Some(store) => {
            jobs_in(&open_place(store, &arguments.datastores)?, arguments.job.as_deref())?
        }
        None => list_jobs(&arguments.root.folder()?)?,
    };
    // `print` would escape the backslashes of labels, which are escaped already.
    print_json(&text(&jobs))?;
    Ok(Exit::Completed)
}

/// The jobs in a job store, or the one with this name.
fn jobs_in(store: &StorePlace, job: Option<&str>) -> Result<Vec<FoundJob>, Problem> {
    let config = Config::load(&PolicyArgument::default())?;
    let names = match job {
        Some(job) => vec![job.to_owned()],
        None => stored_in(store)?.into_iter().map(|job| job.name).collect(),
    };
    let mut found = Vec::new();
    for name in names {
        let mut view = open_stored(store, &name, &config)?;
        if view.is_superseded() {
            continue;
        }
        view.read_logs().map_err(Problem::usage)?;
        let state = view.state().map_err(Problem::usage)?;
        let history = stored_history(&view)?;
        let now = CurrentState::determine(&state, &history, view.is_live());
        found.push(FoundJob { dir: PathBuf::from(view.place()), state, history, now });
    }
    Ok(found)
}

/// A family of metrics: the name, the help text, and the values of a job, each with an optional label.
struct Family {
    name: &'static str,
    help: &'static str,
    values: ReadSamples,
}

/// The name and the value of a label.
type Label = (&'static str, &'static str);

/// The values of a job in a family.
type ReadSamples = fn(&FoundJob) -> Vec<(Option<Label>, f64)>;

fn unix_seconds(time: Timestamp) -> f64 {
    time.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64()
}

const FAMILIES: [Family; 7] = [
    Family {
        name: "sandmill_job_mini_batches",
        help: "Mini-batches of a job that are known, that succeeded, and that failed for good.",
        values: |job| {
            let history = &job.history;
            let of = |state, count| (Some(("state", state)), to_f64(count));
            vec![
                of("planned", history.planned),
                of("succeeded", history.succeeded),
                of("failed", history.failed),
            ]
        },
    },
    Family {
        name: "sandmill_job_items",
        help: "Items of a job that has ended, by what became of them.",
        values: |job| {
            let items = &job.history.items;
            let of = |state, count| (Some(("state", state)), to_f64(count));
            vec![of("succeeded", items.succeeded), of("failed", items.failed)]
        },
    },
    Family {
        name: "sandmill_job_rows",
        help: "Rows of a job that are committed.",
        values: |job| vec![(None, to_f64(job.history.rows))],
    },
    Family {
        name: "sandmill_job_processor_seconds",
        help: "CPU seconds of the workers in all attempts of the last run of a job.",
        values: |job| vec![(None, job.history.processor_seconds)],
    },
    Family {
        name: "sandmill_job_read_bytes",
        help: "Bytes that the workers read in all attempts of the last run of a job.",
        values: |job| {
            job.history.bytes_read.map(|bytes| (None, to_f64(bytes))).into_iter().collect()
        },
    },
    Family {
        name: "sandmill_job_started_timestamp_seconds",
        help: "When the last run of a job was started.",
        values: |job| vec![(None, unix_seconds(job.state.started))],
    },
    Family {
        name: "sandmill_job_ended_timestamp_seconds",
        help: "When the last run of a job ended, or wrote its last event.",
        values: |job| {
            let ended = job.ended().map(unix_seconds);
            ended.map(|ended| (None, ended)).into_iter().collect()
        },
    },
];

fn text(jobs: &[FoundJob]) -> String {
    let mut text = String::new();
    head(&mut text, "sandmill_jobs", "Jobs by state.");
    for now in CurrentState::ALL {
        let count = jobs.iter().filter(|job| job.now == now).count();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "sandmill_jobs{{state=\"{now}\"}} {count}");
    }
    for family in &FAMILIES {
        head(&mut text, family.name, family.help);
        for job in jobs {
            for (label, value) in (family.values)(job) {
                let labels = labels(job, label);
                let _ = writeln!(text, "{}{{{labels}}} {value}", family.name);
            }
        }
    }
    text.push_str("# EOF\n");
    text
}

fn head(text: &mut String, name: &str, help: &str) {
    // All metrics are gauges and not counters, because a job that starts anew counts from zero, and counters
    // must not fall.
    let _ = writeln!(text, "# TYPE {name} gauge\n# HELP {name} {help}");
}

/// The labels of a job, and an extra one. No label is called `job`, because Prometheus reserves this name.
fn labels(job: &FoundJob, extra: Option<Label>) -> String {
    let dir = job.dir.display().to_string();
    let named = [("name", job.state.name.as_str()), ("tenant", job.tenant()), ("directory", &dir)];
    let all: BTreeMap<&str, &str> = named.into_iter().chain(extra).collect();
    let all = all.into_iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    all.collect::<Vec<_>>().join(",")
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::jobs_found::jobs_below;
    use crate::cli::jobs_found::testing::job;
    use regex::Regex;
    use std::collections::HashSet;

    /// Parses OpenMetrics by its ABNF, as far as gauges need it: the lines of a family are together, its
    /// description comes first, no value occurs twice, and the end is marked.
    fn check(text: &str) -> usize {
        let label = r#"[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*""#;
        let sample =
            format!(r"^([a-z_]+)(\{{{label}(?:,{label})*\}})? (-?[0-9.]+(?:e[+-]?[0-9]+)?)$");
        let sample = Regex::new(&sample).unwrap();
        let head = Regex::new("^# (TYPE|HELP) ([a-z_]+) (.+)$").unwrap();
        let text = text.strip_suffix("# EOF\n").expect("the end is not marked");
        let (mut family, mut known, mut seen) = (String::new(), HashSet::new(), HashSet::new());
        for line in text.lines() {
            if let Some(found) = head.captures(line) {
                if &found[1] == "TYPE" {
                    family = found[2].to_owned();
                    assert!(known.insert(family.clone()), "{family} comes twice");
                    assert_eq!(&found[3], "gauge");
                }
                assert_eq!(found[2], family);
            } else {
                let found = sample.captures(line).unwrap_or_else(|| panic!("no sample: {line}"));
                assert_eq!(found[1], family);
                assert!(found[3].parse::<f64>().is_ok());
                let labels = found.get(2).map(|labels| labels.as_str().to_owned());
                assert!(seen.insert((family.clone(), labels)), "twice: {line}");
            }
        }
        seen.len()
    }

    #[test]
    fn the_text_is_open_metrics() {
        let dir = tempfile::tempdir().unwrap();
        job(&dir.path().join("iris"), "2026-11-01T10:00:00Z", "completed");
        job(&dir.path().join("x\"\\\ny"), "2026-11-03T09:00:00Z", "running");
        let (mut jobs, _) = jobs_below(dir.path()).unwrap();
        jobs[1].history.tenant = "ada".to_owned();
        (jobs[1].history.rows, jobs[1].history.processor_seconds) = (120, 1.25);
        let text = text(&jobs);
        assert_eq!(check(&text), 6 + 2 * (3 + 2 + 1 + 1 + 1 + 1));
        let text = text.replace(&dir.path().display().to_string(), "jobs");
        for line in [
            "sandmill_jobs{state=\"interrupted\"} 1",
            "sandmill_jobs{state=\"running\"} 0",
            "sandmill_job_rows{directory=\"jobs/iris\",name=\"iris\",tenant=\"ada\"} 120",
            "sandmill_job_processor_seconds{directory=\"jobs/iris\",name=\"iris\",tenant=\"ada\"} 1.25",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert_eq!(check(&super::text(&[])), 6);
    }
}
