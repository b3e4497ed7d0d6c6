//! The form with which a job is submitted: what is in its fields, and how it looks.

use super::frame::Frame;
use super::text::{bytes, message, name};
use crate::api::SubmitBody;
use crate::auth::random_text;
use crate::problem::{JobFileError, Problem};
use crate::state::{ScriptDigest, WorkerNeeds};
use maud::{Markup, html};
use sandmill_model::counted;
use std::collections::BTreeMap;

/// The name of the job file in messages.
const JOB_FILE: &str = "job.yaml";

/// What a user has filled in.
#[derive(Clone, Debug, Default)]
pub(super) struct Filled {
    /// The job file.
    pub(super) job: String,
    /// The digest of an uploaded entry script. May be empty.
    pub(super) digest: String,
    pub(super) priority: String,
    /// Notes, one `KEY=VALUE` a line.
    pub(super) labels: String,
    /// For operators: the tenant.
    pub(super) tenant: String,
    /// Whether the job file is only checked. Empty if the job is submitted.
    pub(super) check: String,
    /// The key of the request: a form that is sent twice submits one job.
    pub(super) key: String,
}

impl Filled {
    /// What is submitted.
    ///
    /// # Errors
    /// If a field is not as documented.
    pub(super) fn body(&self) -> Result<SubmitBody, Problem> {
        let digest = self.digest.trim();
        let component = match digest.is_empty() {
            true => None,
            false => {
                let digest = ScriptDigest::try_from(digest.to_owned());
                Some(digest.map_err(|error| Problem::invalid(format!("digest: {error}")))?)
            }
        };
        let priority = match self.priority.trim() {
            "" => 0,
            text => text.parse().map_err(|_| {
                Problem::invalid(format!("priority: found {text:?}; expected -100 to 100"))
            })?,
        };
        let mut labels = BTreeMap::new();
        for line in self.labels.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let pair = line.split_once('=').ok_or_else(|| {
                Problem::invalid(format!(
                    "labels: found {line:?}; expected KEY=VALUE, as in team=red"
                ))
            })?;
            labels.insert(pair.0.trim().to_owned(), pair.1.trim().to_owned());
        }
        let job = self.job.replace("\r\n", "\n");
        Ok(SubmitBody { job, component, settings: BTreeMap::new(), priority, labels })
    }
}

/// What a check has found in a job file without errors.
pub(super) fn checked(job: &str, needs: WorkerNeeds) -> Markup {
    html! {
        section.checked role="status" {
            p {
                "The job file has no errors. The job " code { (name(job)) } " wants " (counted(u64::from(needs.workers), "worker"))
                @if needs.memory > 0 { ", each with at most " (bytes(needs.memory)) " of memory" }
                @if needs.gpus > 0 { ", and " (counted(u64::from(needs.gpus), "GPU")) }
                ". It was not submitted."
            }
        }
    }
}

/// The form. `problem`: why the job was not submitted.
pub(super) fn form(frame: &Frame, filled: &Filled, problem: Option<&Problem>) -> Markup {
    html! {
        @if let Some(problem) = problem { (refused(problem, &filled.job)) }
        form.wide method="post" action="/portal/submit" enctype="multipart/form-data" {
            // The secret comes first: without it, nothing else is read.
            (frame.secret_field())
            input type="hidden" name="key" value=(random_text());
            @if frame.is_operator() {
                label for="tenant" { "Tenant" }
                input #tenant name="tenant" required value=(filled.tenant);
            }
            label for="job" { "Job file (YAML)" }
            textarea #job name="job" rows="16" required spellcheck="false" aria-describedby="job-help" { "\n" (filled.job) }
            p.help #job-help { "The paths in it are those of the server's machine. The entry script below replaces its entry_script." }
            label for="component" { "Entry script" }
            input #component name="component" type="file" accept=".wasm,.wat,.py,.js,.mjs,.ts";
            label for="digest" { "Or the digest of an uploaded one" }
            input #digest name="digest" spellcheck="false" value=(filled.digest) aria-describedby="digest-help";
            p.help #digest-help { "The page " a href="/portal/components" { "Components" } " lists them." }
            label for="priority" { "Priority" }
            input #priority name="priority" type="number" min="-100" max="100" placeholder="0" value=(filled.priority);
            label for="labels" { "Labels, one KEY=VALUE a line" }
            textarea #labels name="labels" rows="2" spellcheck="false" { "\n" (filled.labels) }
            div.actions {
                button { "Submit" }
                button name="check" value="yes" { "Only check the job file" }
            }
        }
    }
}

/// Why the job was not submitted. Errors in the job file are shown at their lines.
fn refused(problem: &Problem, job: &str) -> Markup {
    let errors = problem.errors();
    let is_at_line =
        |error: &JobFileError| error.file.as_deref() == Some(JOB_FILE) && error.line.is_some();
    let others: Vec<&JobFileError> = errors.iter().filter(|error| !is_at_line(error)).collect();
    html! {
        section.refused role="alert" tabindex="-1" {
            h2 { (problem.title()) }
            p.message { (message(problem.detail())) }
            @if !others.is_empty() {
                ul { @for error in others { li { (error_text(error)) } } }
            }
            @if errors.iter().any(is_at_line) { (lines_with_errors(job, errors)) }
        }
    }
}

fn error_text(error: &JobFileError) -> Markup {
    html! {
        @if let Some(file) = error.file.as_deref().filter(|file| *file != JOB_FILE) {
            (name(file)) @if let Some(line) = error.line { ":" (line) } ": "
        }
        @if !error.key.is_empty() { code { (name(&error.key)) } ": " }
        (message(&error.message))
    }
}

/// The lines of the job file that have errors, and those around them.
fn lines_with_errors(job: &str, errors: &[JobFileError]) -> Markup {
    let at = |number: u64| {
        errors.iter().filter(move |error| {
            error.line == Some(number) && error.file.as_deref() == Some(JOB_FILE)
        })
    };
    let is_near =
        |number: u64| (number.saturating_sub(2)..=number + 2).any(|near| at(near).next().is_some());
    let lines = (1u64..).zip(job.lines()).filter(|(number, _)| is_near(*number));
    html! {
        ol.job-lines {
            @for (number, line) in lines {
                li value=(number) {
                    code { (name(line)) }
                    @for error in at(number) { p.error { (error_text(error)) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: Option<u64>, message: &str) -> JobFileError {
        JobFileError {
            file: line.map(|_| JOB_FILE.to_owned()),
            line,
            key: "inputs".to_owned(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn errors_are_shown_at_their_lines() {
        let job = "name: a\n<script>alert(1)</script>\ninputs: none\na: 1\nb: 2\nc: 3\nd: 4\n";
        let problem =
            Problem::job_file(vec![error(Some(3), "expected <a path>"), error(None, "too few")]);
        let text = refused(&problem, job).into_string();
        assert!(!text.contains("<script") && !text.contains("<a path>"), "{text}");
        let line = text.find("<li value=\"3\">").unwrap();
        let next = text.find("<li value=\"4\">").unwrap();
        assert!(text[line..next].contains("expected &lt;a path&gt;"), "{text}");
        assert!(text.contains("too few") && !text.contains("c: 3"), "{text}");
    }

    #[test]
    fn fields_are_read_as_documented() {
        let filled = Filled {
            job: "name: a\r\n".to_owned(),
            priority: " 5 ".to_owned(),
            labels: "team = red\n\nrun=a=b".to_owned(),
            ..Filled::default()
        };
        let body = filled.body().unwrap();
        assert_eq!((body.job.as_str(), body.priority, body.component), ("name: a\n", 5, None));
        assert_eq!((body.labels["team"].as_str(), body.labels["run"].as_str()), ("red", "a=b"));
        for wrong in [
            Filled { priority: "high".to_owned(), ..Filled::default() },
            Filled { labels: "red".to_owned(), ..Filled::default() },
            Filled { digest: "12".to_owned(), ..Filled::default() },
        ] {
            assert!(wrong.body().is_err(), "{wrong:?}");
        }
    }
}
