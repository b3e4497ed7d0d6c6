//! Finds the session of a request, and checks its forms.

use super::fields::Fields;
use super::frame::{FORM_SECRET, Frame, User};
use super::page_problem::PageProblem;
use crate::api::Caller;
use crate::app::Server;
use crate::auth::{Session, same};
use crate::problem::Problem;
use crate::state::Scope;
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, FromRequest, FromRequestParts, Request};
use axum::http::header::COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use std::sync::Arc;
use std::time::Instant;

/// The name of the cookie with the secret of a session.
pub(super) const COOKIE_NAME: &str = "sandmill_session";

/// A user who has signed in.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    pub(super) caller: Caller,
    form_secret: String,
}

impl Visitor {
    /// What all pages of the request have in common.
    pub(super) fn frame(&self) -> Frame {
        let may = |scope: Scope| self.caller.must_have(scope).is_ok();
        let user = User {
            actor: self.caller.actor(),
            tenant: self.caller.tenant().map(ToString::to_string),
            form_secret: self.form_secret.clone(),
            may_write: may(Scope::WriteJobs),
            may_read_logs: may(Scope::ReadLogs),
            may_make_tokens: may(Scope::WriteTokens),
        };
        Frame { user: Some(user), is_one_job: false }
    }

    /// Fails if a form does not have the secret of the session's forms.
    ///
    /// # Errors
    /// If the form comes from another site.
    pub(super) fn check(&self, secret: &str) -> Result<(), PageProblem> {
        let is_same = same(secret, &self.form_secret);
        is_same.then_some(()).ok_or_else(|| Problem::forged().into())
    }
}

/// The value of a cookie. `None` if the request does not have it.
pub(super) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.split_once('='));
    let found = pairs.find(|(known, _)| known.trim() == name);
    found.map(|(_, value)| value.trim().to_owned())
}

/// Fails if the browser says that another site has sent the request.
///
/// # Errors
/// If another site has sent it.
pub(super) fn check_site(headers: &HeaderMap) -> Result<(), PageProblem> {
    let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    let is_own = matches!(site, None | Some(b"same-origin" | b"none"));
    is_own.then_some(()).ok_or_else(|| Problem::forged().into())
}

impl FromRequestParts<Arc<Server>> for Visitor {
    type Rejection = PageProblem;

    async fn from_request_parts(
        parts: &mut Parts,
        server: &Arc<Server>,
    ) -> Result<Self, PageProblem> {
        let sign_in = || {
            let path = parts.uri.path_and_query().filter(|_| parts.method == Method::GET);
            let next = path.map_or_else(String::new, |path| path.as_str().to_owned());
            PageProblem::SignIn { next }
        };
        let secret = cookie(&parts.headers, COOKIE_NAME);
        let session = secret.and_then(|secret| server.sessions.find(&secret, Instant::now()));
        let Session { token, form_secret } = session.ok_or_else(sign_in)?;
        match Caller::with_id(server, token).await.map_err(PageProblem::from) {
            Ok(caller) => Ok(Self { caller, form_secret }),
            Err(PageProblem::SignIn { .. }) => Err(sign_in()),
            Err(problem) => Err(problem),
        }
    }
}

/// A form that a user who has signed in has sent from a page of the session.
#[derive(Debug)]
pub(super) struct Posted {
    pub(super) visitor: Visitor,
    pub(super) fields: Fields,
}

impl FromRequest<Arc<Server>> for Posted {
    type Rejection = PageProblem;

    async fn from_request(request: Request, server: &Arc<Server>) -> Result<Self, PageProblem> {
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, server).await?;
        check_site(&parts.headers)?;
        let fields = fields_of(Request::from_parts(parts, body)).await?;
        visitor.check(fields.get(FORM_SECRET))?;
        Ok(Self { visitor, fields })
    }
}

/// The fields of a form.
///
/// # Errors
/// If the request does not have a form, or one that is too long.
pub(super) async fn fields_of(request: Request) -> Result<Fields, PageProblem> {
    let form: Result<Form<Vec<(String, String)>>, FormRejection> =
        Form::from_request(request, &()).await;
    match form {
        Ok(Form(pairs)) => Ok(Fields(pairs)),
        // A form of another kind has no secret.
        Err(FormRejection::InvalidFormContentType(_)) => Err(Problem::forged().into()),
        Err(rejection) => Err(PageProblem::Problem(rejection.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_static("a=1; xsandmill_session=no"));
        headers.append(COOKIE, HeaderValue::from_static("b=2;sandmill_session=abc ; c"));
        assert_eq!(cookie(&headers, COOKIE_NAME).as_deref(), Some("abc"));
        assert_eq!(cookie(&headers, "c"), None);
    }

    #[test]
    fn requests_of_other_sites_are_refused() {
        let headers = |site: &'static str| {
            HeaderMap::from_iter([(
                "sec-fetch-site".parse().unwrap(),
                HeaderValue::from_static(site),
            )])
        };
        assert!(
            check_site(&HeaderMap::new()).is_ok() && check_site(&headers("same-origin")).is_ok()
        );
        assert!(
            check_site(&headers("cross-site")).is_err()
                && check_site(&headers("same-site")).is_err()
        );
    }
}
