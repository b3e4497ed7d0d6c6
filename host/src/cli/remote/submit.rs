//! `sandmill submit`: submits a job to a server.

use super::super::exit::{Exit, Problem};
use super::super::run::{KeyAndValue, setting};
use super::super::say;
use super::super::terminal::{print, print_json};
use super::client::ServerClient;
use super::jobs::wait_for_end;
use anyhow::{Context as _, anyhow};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A job to submit.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SubmitArguments {
    /// The job file. Its paths are those of the server's machine, except the entry script given with --component.
    #[arg(value_name = "JOB.yaml")]
    job: PathBuf,
    /// The entry script, which is uploaded and replaces the one in the job file: a component or core module (.wasm), or a
    /// script (.py, .js, .mjs, .ts). Or the digest of one that was uploaded before.
    #[arg(long, value_name = "FILE")]
    component: Option<PathBuf>,
    /// Sets KEY of the job file to VALUE, written as in the file; may be given many times.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    sets: Vec<KeyAndValue>,
    /// Jobs with a higher priority start first, -100 to 100.
    #[arg(long, value_name = "N", default_value = "0", allow_negative_numbers = true)]
    priority: i32,
    /// Notes KEY=VALUE about the job, by which jobs can be listed; may be given many times.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = setting)]
    labels: Vec<KeyAndValue>,
    /// Submits nothing if the same KEY was used before for the same job; then prints that job.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Waits until the job has ended, and exits as `run` does.
    #[arg(long)]
    wait: bool,
    /// Prints the submitted job as JSON.
    #[arg(long)]
    json: bool,
}

/// Submits a job, and prints its id.
pub(in crate::cli) fn submit(
    arguments: &SubmitArguments,
    server: &ServerClient,
) -> Result<Exit, Problem> {
    let job = std::fs::read_to_string(&arguments.job)
        .with_context(|| format!("the job file {}", arguments.job.display()))
        .map_err(Problem::usage)?;
    let component = arguments.component.as_deref();
    let component = component.map(|file| uploaded(server, file)).transpose()?;
    let pairs = |pairs: &[KeyAndValue]| pairs.iter().cloned().collect::<BTreeMap<_, _>>();
    let mut body = json!({
        "job": job, "settings": pairs(&arguments.sets), "labels": pairs(&arguments.labels), "priority": arguments.priority,
    });
    if let Some(digest) = component {
        body["component"] = digest.into();
    }
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(arguments.idempotency_key.as_deref().map(|key| ("idempotency-key", key)));
    let answer = server.send("POST", "/v1/jobs", &headers, body.to_string().as_bytes())?;
    let job: Value = serde_json::from_slice(&answer.bytes).map_err(Problem::usage)?;
    let id = job["id"].as_str().unwrap_or_default();
    match arguments.json {
        true => print_json(&format!("{job:#}\n"))?,
        false => print(&format!("{id}\n"))?,
    }
    let name = job["name"].as_str().unwrap_or_default();
    let how = if answer.status == 200 { "was submitted before" } else { "is submitted" };
    say(&format!("job {name} {how} to {}; see it with: sandmill status {id}", server.url()));
    if arguments.wait { wait_for_end(server, id) } else { Ok(Exit::Completed) }
}

/// Uploads an entry script. Returns its digest.
fn uploaded(server: &ServerClient, file: &Path) -> Result<String, Problem> {
    let given = file.to_string_lossy();
    let is_digest = given.len() == 64 && given.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_digest && !file.exists() {
        return Ok(given.into_owned());
    }
    let bytes = std::fs::read(file)
        .with_context(|| format!("the entry script {}", file.display()))
        .map_err(Problem::usage)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    let headers = [("content-type", "application/octet-stream")];
    let answer = server.send("POST", &format!("/v1/components?name={name}"), &headers, &bytes)?;
    let answer: Value = serde_json::from_slice(&answer.bytes).map_err(Problem::usage)?;
    let digest = answer["digest"].as_str().map(str::to_owned);
    digest.ok_or_else(|| Problem::usage(anyhow!("the server's answer has no digest")))
}
