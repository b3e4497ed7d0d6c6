//! The job of a page: one of the server that the user may see, or the one of `sandmill portal`.

use super::frame::{Frame, Page};
use super::one_job::OneJob;
use super::page_problem::{PageProblem, blocking};
use super::shown_job::ShownJob;
use super::visitor::Visitor;
use crate::api::{Caller, output_folder_of, report_paths, shown_job, visible_job};
use crate::app::Server;
use crate::jobs::{JobView, ViewError};
use crate::names::now;
use crate::problem::Problem;
use crate::state::{JobRecord, Scope};
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use maud::{Markup, html};
use sandmill_leader::{JobState, is_locked};
use sandmill_model::{JobDir, shell_word};
use sandmill_report::ReportPaths;
use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

/// The pages of a job: the ends of their addresses, and their names.
const BESIDE: [(&str, &str); 7] = [
    ("", "Overview"),
    ("/mini-batches", "Mini-batches"),
    ("/failures", "Failures"),
    ("/failed-items", "Failed items"),
    ("/workers", "Workers"),
    ("/logs", "Logs"),
    ("/outputs", "Outputs"),
];

/// Where a job is.
#[derive(Clone)]
pub(super) enum Source {
    /// On the server.
    Server { server: Arc<Server>, caller: Caller, record: Box<JobRecord> },
    /// In a directory.
    One(OneJob),
}

/// A job that the user may see.
#[derive(Clone)]
pub(super) struct SeenJob {
    pub(super) job: ShownJob,
    /// The address of its first page.
    pub(super) base: String,
    pub(super) frame: Frame,
    /// A text that changes if the job does.
    pub(super) changed_by: String,
    pub(super) dir: JobDir,
    pub(super) source: Source,
}

impl SeenJob {
    fn on_server(server: Arc<Server>, visitor: Visitor, id: String) -> Result<Self, Problem> {
        visitor.caller.must_have(Scope::ReadJobs)?;
        let frame = visitor.frame();
        Self::seen(server, visitor.caller, frame, id)
    }

    fn seen(
        server: Arc<Server>,
        caller: Caller,
        frame: Frame,
        id: String,
    ) -> Result<Self, Problem> {
        let record = visible_job(&server, &caller, id)?;
        let (body, changed_by) = shown_job(&server, &record)?;
        let base = format!("/portal/jobs/{}", record.id);
        let dir = JobDir::new(server.folders.job(&record.tenant, &record.id));
        let source = Source::Server { server, caller, record: Box::new(record) };
        let seen = Self { job: body.into(), base, frame, changed_by, dir, source };
        // Without events, the job itself is shown.
        let since = seen.look(|view| Ok(view.history().waits_since)).ok().flatten();
        Ok(Self { job: seen.job.clone().waiting_since(since), ..seen })
    }

    fn in_directory(one: OneJob) -> Result<Self, Problem> {
        let state = JobState::read(&one.dir).map_err(|error| Problem::internal(&error))?;
        let state = state.ok_or_else(|| Problem::not_found("job"))?;
        let is_locked = is_locked(one.dir.root());
        let (job, changed_by) = one.look(|view| {
            let changed_by = format!("{is_locked}.{}", view.last());
            Ok((ShownJob::in_directory(state, is_locked, view), changed_by))
        })?;
        let frame = Frame { user: None, is_one_job: true };
        let dir = one.dir.clone();
        Ok(Self { job, base: "/job".to_owned(), frame, changed_by, dir, source: Source::One(one) })
    }

    /// The job as it is now. The token may have been revoked since the page was shown.
    ///
    /// # Errors
    /// If the user may no longer see the job.
    pub(super) fn again(self) -> Result<Self, Problem> {
        match self.source {
            Source::One(one) => Self::in_directory(one),
            Source::Server { server, caller, record } => {
                let token = server.state.token(caller.token())?;
                token.filter(|token| token.counts_at(now())).ok_or_else(Problem::wrong_token)?;
                Self::seen(server, caller, self.frame, record.id.to_string())
            }
        }
    }

    /// Counts a stream of events. It no longer counts when the result is dropped.
    ///
    /// # Errors
    /// If there are too many.
    pub(super) fn open_stream(&self) -> Result<Box<dyn Any + Send>, Problem> {
        match &self.source {
            Source::One(one) => {
                let permit = one.streams.clone().try_acquire_owned();
                permit.map(|permit| Box::new(permit) as _).map_err(|_| Problem::streams())
            }
            Source::Server { server, caller, .. } => {
                let open = server.streams.open(caller.token());
                open.map(|open| Box::new(open) as _).ok_or_else(Problem::streams)
            }
        }
    }

    /// Whether the streams of the job end.
    pub(super) fn is_ending(&self) -> bool {
        matches!(&self.source, Source::Server { server, .. } if server.is_ending())
    }

    /// Looks at the job's events.
    ///
    /// # Errors
    /// If they cannot be read, or not yet.
    pub(super) fn look<T>(
        &self,
        look: impl FnOnce(&JobView) -> Result<T, ViewError>,
    ) -> Result<T, Problem> {
        match &self.source {
            Source::One(one) => one.look(look),
            Source::Server { server, record, .. } => crate::api::viewed(server, record, look),
        }
    }

    /// Fails if the user may not read what entry scripts have printed.
    ///
    /// # Errors
    /// If the user may not.
    pub(super) fn must_read_logs(&self) -> Result<(), Problem> {
        self.frame.may_read_logs().then_some(()).ok_or_else(|| Problem::scope(Scope::ReadLogs))
    }

    /// The folder with the job's results. `None` if the job has not begun, or if its results go to a store.
    pub(super) fn output_folder(&self) -> Option<PathBuf> {
        output_folder_of(&self.dir)
    }

    /// The paths of the job, for its explanation.
    pub(super) fn report_paths(&self) -> ReportPaths {
        let word = self.job.id.clone();
        let word = word.unwrap_or_else(|| shell_word(&self.dir.root().display().to_string()));
        report_paths(&self.job.name, self.dir.clone(), word)
    }

    /// A page of the job. `current`: the end of the page's address among those of `BESIDE`.
    pub(super) fn page(&self, title: &str, current: &str, contents: &Markup) -> Page {
        let beside = html! {
            nav.beside aria-label="This job" {
                @for (end, label) in BESIDE {
                    @if end != "/logs" || self.frame.may_read_logs() {
                        a href={ (self.base) (end) } aria-current=[(end == current).then_some("page")] { (label) }
                    }
                }
            }
        };
        self.frame.page_of(title, &beside, contents)
    }
}

impl FromRequestParts<Arc<Server>> for SeenJob {
    type Rejection = PageProblem;

    async fn from_request_parts(
        parts: &mut Parts,
        server: &Arc<Server>,
    ) -> Result<Self, PageProblem> {
        let visitor = Visitor::from_request_parts(parts, server).await?;
        let id = PathParts::from_request_parts(parts, server).await?.get("id").to_owned();
        let server = server.clone();
        blocking(move || Self::on_server(server, visitor, id)).await
    }
}

impl FromRequestParts<OneJob> for SeenJob {
    type Rejection = PageProblem;

    async fn from_request_parts(_: &mut Parts, one: &OneJob) -> Result<Self, PageProblem> {
        let one = one.clone();
        blocking(move || Self::in_directory(one)).await
    }
}

/// The variable parts of a path.
#[derive(Clone, Debug)]
pub(super) struct PathParts(Vec<(String, String)>);

impl PathParts {
    /// The part with this name. Empty if the path does not have it.
    pub(super) fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathParts {
    type Rejection = PageProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, PageProblem> {
        let found = RawPathParams::from_request_parts(parts, state).await;
        let found = found.map_err(|_| Problem::no_route())?;
        Ok(Self(found.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }
}

/// The query of a page.
#[derive(axum::extract::FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(PageProblem))]
pub(super) struct Query<T>(pub(super) T);
