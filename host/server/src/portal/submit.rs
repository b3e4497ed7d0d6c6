//! Submits a job from a form.

use super::frame::{FORM_SECRET, Page};
use super::page_problem::PageProblem;
use super::submit_form::{Filled, checked, form};
use super::visitor::{Visitor, check_site};
use crate::api::{check_job, form_text, form_upload, may_submit, submit, wrong_form};
use crate::app::Server;
use crate::names::{JobId, TenantName};
use crate::problem::{Problem, blocking};
use crate::state::{Scope, WorkerNeeds};
use axum::extract::multipart::Field;
use axum::extract::{FromRequest, Multipart, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use std::sync::Arc;

/// A job file to begin with.
const EXAMPLE: &str = "name: my-job\nentry_script: score.wasm\ninputs: {texts: /srv/data/my-tenant}\nmini_batch_size: 10\n";

/// Shows the form.
pub(super) async fn show(visitor: Visitor) -> Result<Page, PageProblem> {
    visitor.caller.must_have(Scope::WriteJobs)?;
    let frame = visitor.frame();
    let filled = Filled { job: EXAMPLE.to_owned(), ..Filled::default() };
    Ok(frame.page("Submit a job", &html! { (form(&frame, &filled, None)) }))
}

/// Submits the job of a form. If it has errors, the form is shown again.
pub(super) async fn send(
    State(server): State<Arc<Server>>,
    visitor: Visitor,
    request: Request,
) -> Result<Response, PageProblem> {
    check_site(request.headers())?;
    let form = Multipart::from_request(request, &()).await;
    // A form of another kind has no secret.
    let mut form = form.map_err(|_| Problem::forged())?;
    let first = form.next_field().await.map_err(wrong_form)?;
    let first = first.filter(|field| field.name() == Some(FORM_SECRET));
    let secret = match first {
        Some(field) => form_text(field, FORM_SECRET).await?,
        None => String::new(),
    };
    visitor.check(&secret)?;
    visitor.caller.must_have(Scope::WriteJobs)?;
    let mut filled = Filled::default();
    match read(&server, &visitor, form, &mut filled).await {
        Ok(Sent::Submitted(id)) => Ok(Redirect::to(&format!("/portal/jobs/{id}")).into_response()),
        Ok(Sent::Checked(name, needs)) => {
            let frame = visitor.frame();
            let contents = html! { (checked(&name, needs)) (self::form(&frame, &filled, None)) };
            Ok(frame.page("Submit a job", &contents).into_response())
        }
        Err(problem) => {
            let refused = problem.status();
            let status =
                if refused.is_client_error() { refused } else { StatusCode::SERVICE_UNAVAILABLE };
            let frame = visitor.frame();
            let contents = html! { (self::form(&frame, &filled, Some(&problem))) };
            Ok((status, frame.page("Submit a job", &contents)).into_response())
        }
    }
}

/// What was done with a form.
enum Sent {
    /// The job was submitted.
    Submitted(JobId),
    /// The job file has no errors: the job's name and needs.
    Checked(String, WorkerNeeds),
}

/// Reads the rest of the form, and submits the job, or only checks it. `filled` has what was read, also after an error.
async fn read(
    server: &Arc<Server>,
    visitor: &Visitor,
    mut form: Multipart,
    filled: &mut Filled,
) -> Result<Sent, Problem> {
    let mut has_fields = false;
    while let Some(field) = form.next_field().await.map_err(wrong_form)? {
        has_fields = true;
        let name = field.name().unwrap_or_default().to_owned();
        let place = match name.as_str() {
            "job" => &mut filled.job,
            "digest" => &mut filled.digest,
            "priority" => &mut filled.priority,
            "labels" => &mut filled.labels,
            "tenant" => &mut filled.tenant,
            "key" => &mut filled.key,
            "check" => &mut filled.check,
            // A browser sends an empty file if the user has chosen none.
            "component" if field.file_name().is_none_or(str::is_empty) => continue,
            "component" => {
                let digest = upload(server, visitor, &filled.tenant, field).await?;
                // The form that is shown after an error has the digest: the file is not sent again.
                filled.digest = digest;
                continue;
            }
            _ => return Err(Problem::invalid(format!("the form has the unknown field {name:?}"))),
        };
        let text = form_text(field, &name).await?;
        // A chosen file counts more than a digest.
        if name != "digest" || place.is_empty() {
            *place = text;
        }
    }
    if !has_fields {
        return Err(Problem::invalid("the form has no job file"));
    }
    let body = filled.body()?;
    let tenant = tenant(visitor, &filled.tenant)?;
    let permit = may_submit(server, &body).await?;
    let server = server.clone();
    let caller = visitor.caller.clone();
    let key = (1..=200).contains(&filled.key.len()).then(|| format!("portal {}", filled.key));
    let is_check = !filled.check.is_empty();
    blocking(move || {
        let sent = match is_check {
            true => {
                check_job(&server, &tenant, &body).map(|(name, needs)| Sent::Checked(name, needs))
            }
            false => submit(&server, &caller, &tenant, &body, key)
                .map(|(job, _)| Sent::Submitted(job.id)),
        };
        drop(permit);
        sent
    })
    .await
}

/// The tenant for whom the user acts.
fn tenant(visitor: &Visitor, asked: &str) -> Result<TenantName, Problem> {
    let asked = Some(asked.trim().to_owned()).filter(|asked| !asked.is_empty());
    visitor.caller.acts_for(asked.map(TenantName::try_from).transpose()?)
}

async fn upload(
    server: &Arc<Server>,
    visitor: &Visitor,
    asked: &str,
    field: Field<'_>,
) -> Result<String, Problem> {
    let tenant = tenant(visitor, asked)?;
    Ok(form_upload(server, &visitor.caller, &tenant, field).await?.to_string())
}
