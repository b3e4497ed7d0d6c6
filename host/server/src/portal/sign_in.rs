//! Signs in with a token, and out.

use super::frame::{FORM_SECRET, Frame, Page};
use super::page_problem::{PageProblem, SIGN_IN};
use super::text::message;
use super::visitor::{COOKIE_NAME, Posted, check_site, cookie, fields_of};
use crate::api::Caller;
use crate::app::Server;
use crate::auth::{random_text, same};
use crate::problem::Problem;
use axum::extract::{Request, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Instant;

/// The first page.
pub(super) const FIRST: &str = "/portal/jobs";
/// The name of the cookie that belongs to the form on which a user signs in. There is no session yet.
const FORM_COOKIE: &str = "sandmill_sign_in";

/// Where a user gets after signing in.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct SignInAsked {
    next: Option<String>,
}

/// Shows the form.
pub(super) async fn show(
    headers: HeaderMap,
    axum::extract::Query(asked): axum::extract::Query<SignInAsked>,
) -> Response {
    form(&headers, &asked.next.unwrap_or_default(), None)
}

fn form(headers: &HeaderMap, next: &str, problem: Option<&Problem>) -> Response {
    let secret = random_text();
    let page: Page = Frame::default().page(
        "Sign in",
        &html! {
            @if let Some(problem) = problem {
                p.error role="alert" { (message(problem.detail())) }
            }
            form.wide method="post" action=(SIGN_IN) {
                input type="hidden" name=(FORM_SECRET) value=(secret);
                input type="hidden" name="next" value=(next);
                label for="token" { "Token" }
                input #token name="token" type="password" required autocomplete="current-password" spellcheck="false"
                    aria-describedby="token-help";
                p.help #token-help {
                    "The text of an API token: it begins with sm_. The operator, or a person with the scope tokens:write, makes one."
                }
                button { "Sign in" }
            }
        },
    );
    let status = problem.map_or(StatusCode::OK, Problem::status);
    let mut response = (status, page).into_response();
    set_cookie(headers, &mut response, (FORM_COOKIE, &secret), None);
    response
}

/// Begins a session.
pub(super) async fn begin(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, PageProblem> {
    check_site(&headers)?;
    let fields = fields_of(request).await?;
    let expected = cookie(&headers, FORM_COOKIE).unwrap_or_default();
    if expected.is_empty() || !same(&expected, fields.get(FORM_SECRET)) {
        return Err(Problem::forged().into());
    }
    let next = fields.get("next");
    let token = fields.get("token").trim().to_owned();
    let caller = match Caller::with_text(&server, token).await {
        Ok(caller) => caller,
        Err(problem) => return Ok(form(&headers, next, Some(&problem))),
    };
    let secret = server.sessions.begin(caller.token().clone(), Instant::now());
    let mut response = Redirect::to(own_page(next)).into_response();
    set_cookie(&headers, &mut response, (COOKIE_NAME, &secret), None);
    set_cookie(&headers, &mut response, (FORM_COOKIE, ""), Some(0));
    Ok(response)
}

/// Ends the session.
pub(super) async fn end(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
    _: Posted,
) -> Response {
    if let Some(secret) = cookie(&headers, COOKIE_NAME) {
        server.sessions.end(&secret);
    }
    let mut response = Redirect::to(SIGN_IN).into_response();
    set_cookie(&headers, &mut response, (COOKIE_NAME, ""), Some(0));
    response
}

/// The page after signing in: one of the portal, whatever the query says.
fn own_page(next: &str) -> &str {
    let is_plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_own = next.starts_with("/portal/") && !next.starts_with(SIGN_IN) && is_plain;
    if is_own { next } else { FIRST }
}

/// Sets a cookie that scripts cannot read, and that other sites' forms do not send.
fn set_cookie(
    headers: &HeaderMap,
    response: &mut Response,
    (name, value): (&str, &str),
    seconds: Option<u32>,
) {
    let proxied = headers.get("x-forwarded-proto").map(|scheme| scheme.as_bytes());
    let secure = if proxied == Some(b"https") { "; Secure" } else { "" };
    let age = seconds.map(|seconds| format!("; Max-Age={seconds}")).unwrap_or_default();
    let text = format!("{name}={value}; Path=/portal; HttpOnly; SameSite=Lax{secure}{age}");
    if let Ok(text) = HeaderValue::try_from(text) {
        response.headers_mut().append(SET_COOKIE, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_stays_on_the_portal_after_signing_in() {
        assert_eq!(own_page("/portal/jobs?q=a"), "/portal/jobs?q=a");
        for next in [
            "",
            "//evil.example",
            "/portal",
            "https://evil.example",
            "/portal/\\x",
            "/portal/a\nb",
            SIGN_IN,
        ] {
            assert_eq!(own_page(next), FIRST, "{next}");
        }
    }

    #[test]
    fn cookies_are_secure_where_the_browser_uses_https() {
        let cookie = |scheme: &'static str| {
            let headers = HeaderMap::from_iter([(
                "x-forwarded-proto".parse().unwrap(),
                HeaderValue::from_static(scheme),
            )]);
            let mut response = StatusCode::OK.into_response();
            set_cookie(&headers, &mut response, ("a", "b"), None);
            response.headers()[SET_COOKIE].to_str().unwrap().to_owned()
        };
        assert_eq!(cookie("https"), "a=b; Path=/portal; HttpOnly; SameSite=Lax; Secure");
        assert_eq!(cookie("http"), "a=b; Path=/portal; HttpOnly; SameSite=Lax");
    }
}
