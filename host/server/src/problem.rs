//! The answers to requests that fail: problem details as in RFC 9457.

use crate::names::{NotAJobId, NotATenantName, NotATokenId, TENANT_NAME_EXPECTED};
use crate::state::{Scope, StateError};
use axum::Json;
use axum::extract::rejection::{FormRejection, JsonRejection, PathRejection, QueryRejection};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

/// The media type of problems.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// What the body of an answer to a failed request says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProblemBody {
    /// The kind of the problem, as a URN that programs can compare.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The status of the answer.
    pub status: u16,
    /// What was wrong, what is allowed, and what to do next.
    pub detail: String,
    /// The errors in a job file, all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<JobFileError>,
}

/// An error in a job file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobFileError {
    /// The file: `job.yaml`, or a file that the job file names. Absent for a setting of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line, from 1. Absent if the error concerns the file as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The key, such as `inputs[0].path`. May be empty.
    pub key: String,
    /// What was found, what is allowed, and what to do.
    pub message: String,
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    kind: &'static str,
    title: &'static str,
    detail: String,
    errors: Vec<JobFileError>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    fn new(
        status: StatusCode,
        kind: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self { status, kind, title, detail: detail.into(), errors: Vec::new(), headers: Vec::new() }
    }

    /// The status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// The kind in words.
    pub(crate) fn title(&self) -> &'static str {
        self.title
    }

    /// What was wrong, what is allowed, and what to do next.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// The errors in a job file.
    pub(crate) fn errors(&self) -> &[JobFileError] {
        &self.errors
    }

    /// The headers of the answer.
    pub(crate) fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.headers
    }

    /// The request does not come from a form of the server's own pages.
    pub(crate) fn forged() -> Self {
        let detail = "the form is not from this session: go back, load the page again, and send it once more";
        Self::new(StatusCode::FORBIDDEN, "forged", "The form is not from this session", detail)
    }

    /// The request is not as documented.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        let title = "The request is not as documented";
        Self::new(StatusCode::BAD_REQUEST, "bad-request", title, detail)
    }

    /// The request has no token.
    pub(crate) fn no_token() -> Self {
        let detail = "the request has no token: add the header `Authorization: Bearer TOKEN`";
        Self::unauthorized(detail)
    }

    /// The token does not count.
    pub(crate) fn wrong_token() -> Self {
        Self::unauthorized("the token is unknown, has expired or was revoked: use another one")
    }

    fn unauthorized(detail: &str) -> Self {
        let title = "The caller is unknown";
        let mut problem = Self::new(StatusCode::UNAUTHORIZED, "unauthorized", title, detail);
        let challenge = HeaderValue::from_static("Bearer realm=\"sandmill\"");
        problem.headers.push((WWW_AUTHENTICATE, challenge));
        problem
    }

    /// The token lacks a scope.
    pub(crate) fn scope(scope: Scope) -> Self {
        let title = "The token does not allow this";
        let detail = format!("the token lacks the scope {}: use a token that has it", scope.name());
        Self::new(StatusCode::FORBIDDEN, "forbidden", title, detail)
    }

    /// Only operators may do this.
    pub(crate) fn operators_only() -> Self {
        Self::scope(Scope::Admin)
    }

    /// There is no such thing, or it belongs to another tenant. `what` names it.
    pub(crate) fn not_found(what: &str) -> Self {
        let detail = format!("there is no such {what}, or it belongs to another tenant");
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
    }

    /// There is nothing at this path.
    pub(crate) fn no_route() -> Self {
        let detail = "the API has nothing at this path; /openapi.json lists its paths";
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
    }

    /// The path exists, but not for this method.
    pub(crate) fn method() -> Self {
        let detail =
            "the path does not have this method; /openapi.json lists the methods of each path";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method", "The method is not allowed", detail)
    }

    /// What is there does not allow the request now.
    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", "The request does not fit the state", detail)
    }

    /// What is there was changed since the caller read it.
    pub(crate) fn changed() -> Self {
        let detail = "it was changed meanwhile: read it again, and send its new ETag in If-Match";
        let title = "It was changed meanwhile";
        Self::new(StatusCode::PRECONDITION_FAILED, "changed", title, detail)
    }

    /// The caller sent more than is allowed.
    pub(crate) fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "The request is too large", detail)
    }

    /// The body has another media type.
    pub(crate) fn media_type(detail: impl Into<String>) -> Self {
        let title = "The body has another media type";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", title, detail)
    }

    /// The range is outside of the file.
    pub(crate) fn range(length: u64) -> Self {
        let detail = format!("the range is outside of the file, which has {length} bytes");
        let title = "The range is outside of the file";
        Self::new(StatusCode::RANGE_NOT_SATISFIABLE, "range", title, detail)
    }

    /// A value is of the right type but not allowed.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        let title = "A value is not allowed";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", title, detail)
    }

    /// The job file has errors.
    pub(crate) fn job_file(errors: Vec<JobFileError>) -> Self {
        let count = errors.len();
        let detail = match count {
            1 => "the job file has an error".to_owned(),
            _ => format!("the job file has {count} errors"),
        };
        let title = "The job file has errors";
        let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "job-file", title, detail);
        Self { errors, ..problem }
    }

    /// A quota of the tenant does not allow it.
    pub(crate) fn quota(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "quota", "A quota is used up", detail)
    }

    /// The tenant has as many jobs as it may have.
    pub(crate) fn unfinished_jobs(unfinished: u32) -> Self {
        Self::quota(format!(
            "{unfinished} jobs of the tenant have not ended, and its quota allows no more (unfinished_jobs): wait until one ends, \
             or cancel one"
        ))
    }

    /// The token makes too many requests.
    pub(crate) fn too_often(wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        let detail = format!("too many requests: wait {seconds} s");
        let title = "Too many requests";
        let mut problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate", title, detail);
        problem.headers.push((RETRY_AFTER, HeaderValue::from(seconds.max(1))));
        problem
    }

    /// The answer needs some more time.
    pub(crate) fn not_yet(detail: impl Into<String>) -> Self {
        let title = "The answer is not ready yet";
        let mut problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "not-yet", title, detail);
        problem.headers.push((RETRY_AFTER, HeaderValue::from(2)));
        problem
    }

    /// The token has too many streams.
    pub(crate) fn streams() -> Self {
        let detail = "the token has too many streams of events: close one, or follow several jobs with GET /v1/jobs";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "streams", "Too many streams", detail)
    }

    /// The server ends.
    pub(crate) fn ending() -> Self {
        let detail = "the server is shutting down: try again when it runs";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ending", "The server is ending", detail)
    }

    /// The server failed. The log has the reason, which may name what the caller must not know.
    pub(crate) fn internal(error: &dyn std::error::Error) -> Self {
        tracing::error!("a request failed: {error}");
        let detail = "the server failed; its log has the reason";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "The server failed", detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = ProblemBody {
            kind: format!("urn:sandmill:problem:{}", self.kind),
            title: self.title.to_owned(),
            status: self.status.as_u16(),
            detail: self.detail,
            errors: self.errors,
        };
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        headers.extend(self.headers);
        response
    }
}

impl From<StateError> for Problem {
    fn from(error: StateError) -> Self {
        Self::internal(&error)
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        let detail = rejection.body_text();
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Self::too_large(detail),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Self::media_type(detail),
            StatusCode::UNPROCESSABLE_ENTITY => Self::invalid(detail),
            _ => Self::bad_request(detail),
        }
    }
}

impl From<FormRejection> for Problem {
    fn from(rejection: FormRejection) -> Self {
        let detail = rejection.body_text();
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Self::too_large(detail),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Self::media_type(detail),
            _ => Self::bad_request(detail),
        }
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::bad_request(rejection.body_text())
    }
}

impl From<PathRejection> for Problem {
    fn from(_: PathRejection) -> Self {
        Self::no_route()
    }
}

/// An id that cannot be one names nothing.
impl From<NotAJobId> for Problem {
    fn from(_: NotAJobId) -> Self {
        Self::not_found("job")
    }
}

impl From<NotATokenId> for Problem {
    fn from(_: NotATokenId) -> Self {
        Self::not_found("token")
    }
}

impl From<NotATenantName> for Problem {
    fn from(_: NotATenantName) -> Self {
        Self::invalid(format!("the name of a tenant: expected {TENANT_NAME_EXPECTED}"))
    }
}

/// Runs work that waits for files or the database on a thread where it may wait.
///
/// # Errors
/// Those of the work.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Problem::internal(&error)),
    }
}
