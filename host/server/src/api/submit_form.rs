//! Reads the form with which a job and its entry script are submitted at once.

use super::caller::Caller;
use super::components::{add_bytes, keep, script_name};
use super::submit_body::{MOST_JOB_FILE, SubmitBody};
use crate::app::Server;
use crate::names::TenantName;
use crate::problem::Problem;
use crate::state::ScriptDigest;
use crate::uploads::Upload;
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest, Multipart, Request};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use utoipa::ToSchema;

/// A job to be submitted, as a form.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct SubmitForm {
    /// The job file.
    job: String,
    /// The file of the entry script. Its name decides how it is run. Or the digest of an uploaded entry script.
    #[schema(format = Binary)]
    component: Option<String>,
    /// Settings that replace those of the job file: an object of texts, as JSON.
    settings: Option<String>,
    /// Jobs of the tenant with a higher priority start first, -100 to 100.
    priority: Option<String>,
    /// Notes about the job: an object of texts, as JSON.
    labels: Option<String>,
}

/// Reads a form, and keeps the entry script that it has.
///
/// # Errors
/// If the form is not as documented.
pub(crate) async fn read_form(
    server: &Arc<Server>,
    caller: &Caller,
    tenant: &TenantName,
    request: Request,
) -> Result<SubmitBody, Problem> {
    let form = Multipart::from_request(request, &()).await;
    let mut form = form.map_err(|rejection| Problem::bad_request(rejection.body_text()))?;
    let mut body = SubmitBody::default();
    let mut has_job = false;
    let mut seen = BTreeSet::new();
    while let Some(field) = form.next_field().await.map_err(wrong)? {
        let name = field.name().unwrap_or_default().to_owned();
        if !seen.insert(name.clone()) {
            return Err(Problem::invalid(format!("the form has the part {name:?} twice")));
        }
        match name.as_str() {
            "job" => {
                body.job = text(field, &name).await?;
                has_job = true;
            }
            "component" if field.file_name().is_some() => {
                let digest = upload(server, caller, tenant, field).await?;
                body.component = Some(digest);
            }
            "component" => {
                let digest = ScriptDigest::try_from(text(field, &name).await?);
                let digest = digest.map_err(|e| Problem::invalid(format!("component: {e}")))?;
                body.component = Some(digest);
            }
            "settings" => body.settings = texts(field, &name).await?,
            "labels" => body.labels = texts(field, &name).await?,
            "priority" => {
                let text = text(field, &name).await?;
                body.priority = text.trim().parse().map_err(|_| {
                    Problem::invalid(format!("priority: found {text:?}; expected -100 to 100"))
                })?;
            }
            _ => {
                return Err(Problem::invalid(format!(
                    "the form has the part {name:?}; the known parts are job, component, settings, priority and labels"
                )));
            }
        }
    }
    has_job
        .then_some(body)
        .ok_or_else(|| Problem::invalid("the form has no part `job`: the job file"))
}

/// A form that is not as documented.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn wrong(error: MultipartError) -> Problem {
    Problem::bad_request(error.body_text())
}

/// Keeps an entry script that a form has. Returns its digest.
///
/// # Errors
/// If it has no good name, is too large, or a quota is used up.
pub(crate) async fn upload(
    server: &Arc<Server>,
    caller: &Caller,
    tenant: &TenantName,
    mut field: Field<'_>,
) -> Result<ScriptDigest, Problem> {
    let name = script_name(field.file_name())?;
    let mut upload = Upload::begin(&server.folders).await?;
    while let Some(chunk) = field.chunk().await.map_err(wrong)? {
        add_bytes(&mut upload, &chunk).await?;
    }
    let (script, _) = keep(server, caller, (tenant.clone(), name), upload).await?;
    Ok(script.digest)
}

/// The text of a part of a form.
///
/// # Errors
/// If it is too long, or not UTF-8.
pub(crate) async fn text(mut field: Field<'_>, name: &str) -> Result<String, Problem> {
    let mut bytes = Vec::new();
    while let Some(chunk) = field.chunk().await.map_err(wrong)? {
        if bytes.len() + chunk.len() > MOST_JOB_FILE {
            let detail = format!("{name}: the part may have at most {MOST_JOB_FILE} bytes");
            return Err(Problem::too_large(detail));
        }
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8(bytes).map_err(|_| Problem::invalid(format!("{name}: expected UTF-8")))
}

async fn texts(field: Field<'_>, name: &str) -> Result<BTreeMap<String, String>, Problem> {
    let text = text(field, name).await?;
    serde_json::from_str(&text).map_err(|error| {
        Problem::invalid(format!("{name}: expected an object of texts, as JSON: {error}"))
    })
}
