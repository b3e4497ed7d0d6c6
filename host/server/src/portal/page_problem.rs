//! The answers to requests of browsers that fail.

use super::frame::Frame;
use super::link::Link;
use super::text::message;
use crate::problem::Problem;
use axum::extract::rejection::QueryRejection;
use axum::http::StatusCode;
use axum::http::header::WWW_AUTHENTICATE;
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;

/// The page on which a user signs in.
pub(super) const SIGN_IN: &str = "/portal/sign-in";

/// Why a page cannot be shown.
#[derive(Debug)]
pub(super) enum PageProblem {
    /// The user must sign in first, and then gets to this page.
    SignIn {
        /// The path and query of the page. Empty for the first page.
        next: String,
    },
    /// The page cannot be shown.
    Problem(Problem),
}

impl From<Problem> for PageProblem {
    fn from(problem: Problem) -> Self {
        match problem.status() {
            StatusCode::UNAUTHORIZED => Self::SignIn { next: String::new() },
            _ => Self::Problem(problem),
        }
    }
}

impl From<QueryRejection> for PageProblem {
    fn from(rejection: QueryRejection) -> Self {
        Self::Problem(rejection.into())
    }
}

impl IntoResponse for PageProblem {
    fn into_response(self) -> Response {
        match self {
            Self::SignIn { next } => {
                Redirect::to(&Link::new(SIGN_IN).with("next", Some(next)).address()).into_response()
            }
            Self::Problem(problem) => {
                let page = Frame::default().page(
                    problem.title(),
                    &html! {
                        p.message { (message(problem.detail())) }
                        p { a href="/" { "To the first page" } }
                    },
                );
                let mut response = (problem.status(), page).into_response();
                response.headers_mut().extend(problem.headers().iter().cloned());
                response.headers_mut().remove(WWW_AUTHENTICATE);
                response
            }
        }
    }
}

/// Runs work that waits for files or the database on a thread where it may wait.
///
/// # Errors
/// Those of the work.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, PageProblem> {
    Ok(crate::problem::blocking(work).await?)
}
