//! Reads the parts of a request. If a part is not as documented, the answer is a problem like every other.

use crate::problem::Problem;
use axum::extract::{FromRequest, FromRequestParts};
use axum::http::header::{ETAG, IF_MATCH};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};

/// The query.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(Problem))]
pub(crate) struct Query<T>(pub(crate) T);

/// The variable parts of the path.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(Problem))]
pub(crate) struct Path<T>(pub(crate) T);

/// The body, as JSON.
#[derive(FromRequest)]
#[from_request(via(axum::Json), rejection(Problem))]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: serde::Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

/// The ETag of something with this version.
pub(crate) fn etag(version: u64) -> HeaderValue {
    HeaderValue::try_from(format!("\"{version}\""))
        .unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// An answer with the ETag of what it shows.
pub(crate) fn tagged(version: u64, body: impl IntoResponse) -> Response {
    ([(ETAG, etag(version))], body).into_response()
}

/// Fails if the caller wants to change a version other than this one. Without `If-Match`, any version will do.
///
/// # Errors
/// If the version in the header is another one.
pub(crate) fn check_version(headers: &HeaderMap, version: u64) -> Result<(), Problem> {
    let Some(wanted) = headers.get(IF_MATCH) else { return Ok(()) };
    let current = etag(version);
    let is_current = wanted.as_bytes().split(|byte| *byte == b',').any(|one| {
        let one = one.trim_ascii();
        one == b"*" || one == current.as_bytes()
    });
    is_current.then_some(()).ok_or_else(Problem::changed)
}
