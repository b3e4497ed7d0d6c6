//! What all pages have around their contents.

use super::assets::{script_address, style_address};
use super::text::name;
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

/// The name of the field with the secret of the session's forms.
pub(super) const FORM_SECRET: &str = "form_secret";

/// A page that is ready to be sent.
pub(super) struct Page(pub(super) Markup);

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        Html(self.0.into_string()).into_response()
    }
}

/// The user of a page.
#[derive(Clone, Debug)]
pub(super) struct User {
    /// The user's name in the audit.
    pub(super) actor: String,
    /// The tenant. `None` for an operator.
    pub(super) tenant: Option<String>,
    /// The secret of the session's forms.
    pub(super) form_secret: String,
    /// Whether the user may submit and change jobs.
    pub(super) may_write: bool,
    /// Whether the user may read what entry scripts have printed.
    pub(super) may_read_logs: bool,
    /// Whether the user may make tokens and read the audit.
    pub(super) may_make_tokens: bool,
}

/// What all pages of a request have in common.
#[derive(Clone, Debug, Default)]
pub(super) struct Frame {
    /// The user. `None` for `sandmill portal`, and before a user has signed in.
    pub(super) user: Option<User>,
    /// Whether the pages are those of `sandmill portal`.
    pub(super) is_one_job: bool,
}

impl Frame {
    /// The hidden field that each form must have.
    pub(super) fn secret_field(&self) -> Markup {
        html! {
            @if let Some(user) = &self.user {
                input type="hidden" name=(FORM_SECRET) value=(user.form_secret);
            }
        }
    }

    /// Whether the user is an operator.
    pub(super) fn is_operator(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.tenant.is_none())
    }

    /// Whether the user may submit and change jobs.
    pub(super) fn may_write(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.may_write)
    }

    /// Whether the user may read logs.
    pub(super) fn may_read_logs(&self) -> bool {
        self.is_one_job || self.user.as_ref().is_some_and(|user| user.may_read_logs)
    }

    /// A page with this title and these contents.
    pub(super) fn page(&self, title: &str, contents: &Markup) -> Page {
        self.page_of(title, &html! {}, contents)
    }

    /// A page with this title, links to pages beside it, and these contents.
    pub(super) fn page_of(&self, title: &str, beside: &Markup, contents: &Markup) -> Page {
        let title = name(title);
        Page(html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) " · Sandmill" }
                    link rel="stylesheet" href=(style_address());
                    script src=(script_address()) defer {}
                }
                body {
                    a.skip href="#main" { "To the contents" }
                    header {
                        a.brand href=(if self.is_one_job { "/job" } else { "/portal/jobs" }) { "Sandmill" }
                        (self.navigation())
                    }
                    (beside)
                    main id="main" tabindex="-1" {
                        h1 { (title) }
                        (contents)
                    }
                }
            }
        })
    }

    fn navigation(&self) -> Markup {
        let Some(user) = &self.user else { return html! {} };
        html! {
            nav aria-label="Pages" {
                a href="/portal/jobs" { "Jobs" }
                @if user.may_write { a href="/portal/submit" { "Submit" } }
                a href="/portal/components" { "Components" }
                @if user.may_make_tokens {
                    a href="/portal/tokens" { "Tokens" }
                    a href="/portal/audit" { "Audit" }
                }
                @match &user.tenant {
                    None => { a href="/portal/tenants" { "Tenants" } }
                    Some(tenant) => { a href={ "/portal/tenants/" (tenant) } { "Quotas" } }
                }
            }
            form.sign-out method="post" action="/portal/sign-out" {
                (self.secret_field())
                span.who title=(user.actor) { (user.tenant.as_deref().unwrap_or("operator")) }
                button { "Sign out" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_escaped_and_forms_have_the_secret() {
        let user = User {
            actor: "token:0".to_owned(),
            tenant: Some("ada".to_owned()),
            form_secret: "s3cret".to_owned(),
            may_write: false,
            may_read_logs: true,
            may_make_tokens: false,
        };
        let frame = Frame { user: Some(user), is_one_job: false };
        let Page(markup) = frame.page("<script>alert(1)</script>\u{202e}", &html! {});
        let text = markup.into_string();
        assert!(!text.contains("<script>"), "{text}");
        assert!(text.contains("&lt;script&gt;alert(1)&lt;/script&gt;\\u{202e}"), "{text}");
        assert!(text.contains("name=\"form_secret\" value=\"s3cret\""), "{text}");
        assert!(!text.contains("/portal/submit") && !text.contains("/portal/tokens"), "{text}");
        // The policy of contents allows neither.
        assert!(!text.contains("style=") && !text.contains("onclick"), "{text}");
    }
}
