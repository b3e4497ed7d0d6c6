//! Sends the parts of a job's page when they change, and the lines that are added to a log: one stream for a tab.

use super::job::PARTS;
use super::logs::open_log;
use super::page_problem::{PageProblem, blocking};
use super::seen::{Query, SeenJob};
use crate::api::{INTERVAL, event_stream};
use crate::problem::Problem;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event;
use sandmill_model::printable;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::convert::Infallible;
use std::os::unix::fs::FileExt;
use tokio::sync::mpsc;

/// The most bytes of a log that are sent at once.
const MOST_BYTES: usize = 64 << 10;

/// What a tab follows.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct LiveAsked {
    /// The log to follow. Without it, the parts of the job's page are sent.
    log: Option<String>,
    /// The byte of the log from which on it is sent.
    from: Option<u64>,
}

/// What is sent: a part of the page, or lines of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum News {
    /// A part of the page has changed.
    Part { id: &'static str, html: String },
    /// The log has grown.
    Log { text: String },
    /// Nothing more happens.
    End,
}

/// Follows a job until it has ended.
pub(super) async fn follow(
    seen: SeenJob,
    Query(asked): Query<LiveAsked>,
    headers: HeaderMap,
) -> Result<Response, PageProblem> {
    if asked.log.is_some() {
        seen.must_read_logs()?;
    }
    let open = seen.open_stream()?;
    let (sender, events) = mpsc::channel(1);
    // A browser whose connection broke has the log up to this byte.
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let mut followed = Followed {
        at: last.or(asked.from).unwrap_or_default(),
        log: asked.log,
        sent: HashMap::new(),
        changed_by: None,
    };
    tokio::spawn(async move {
        let mut seen = seen;
        loop {
            let has_ended = seen.job.has_ended;
            let Ok((news, again, next)) = blocking(move || round(followed, seen)).await else {
                return;
            };
            (followed, seen) = (next, again);
            let end = has_ended.then_some(News::End);
            for news in news.into_iter().chain(end) {
                let Ok(event) = Event::default().id(followed.at.to_string()).json_data(&news)
                else {
                    return;
                };
                if sender.send(Ok::<_, Infallible>(event)).await.is_err() {
                    return;
                }
            }
            if has_ended || seen.is_ending() {
                break;
            }
            tokio::select! {
                () = sender.closed() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
            seen = match blocking(move || seen.again()).await {
                Ok(seen) => seen,
                Err(_) => return,
            };
        }
        drop(open);
    });
    Ok(event_stream(events))
}

/// What was sent so far.
struct Followed {
    log: Option<String>,
    /// The byte of the log that comes next.
    at: u64,
    /// The parts as they were sent.
    sent: HashMap<&'static str, String>,
    /// The job as it was when the parts were made.
    changed_by: Option<String>,
}

/// What is new since the last round.
fn round(mut followed: Followed, seen: SeenJob) -> Result<(Vec<News>, SeenJob, Followed), Problem> {
    let news = match followed.log.clone() {
        Some(log) => followed.new_lines(&seen, &log)?,
        None => followed.new_parts(&seen),
    };
    Ok((news, seen, followed))
}

impl Followed {
    fn new_parts(&mut self, seen: &SeenJob) -> Vec<News> {
        // The age of the last word grows in the browser.
        if self.changed_by.as_ref() == Some(&seen.changed_by) {
            return Vec::new();
        }
        self.changed_by = Some(seen.changed_by.clone());
        let mut news = Vec::new();
        for (id, part) in PARTS {
            let html = part(seen).into_string();
            if self.sent.get(id) != Some(&html) {
                self.sent.insert(id, html.clone());
                news.push(News::Part { id, html });
            }
        }
        news
    }

    /// The whole lines that the log has more, or the rest of it if the job has ended.
    fn new_lines(&mut self, seen: &SeenJob, log: &str) -> Result<Vec<News>, Problem> {
        let (file, length) = open_log(seen, log)?;
        // A log that is shorter was begun again.
        self.at = if length < self.at { 0 } else { self.at };
        let mut news = Vec::new();
        loop {
            let mut bytes = vec![0; MOST_BYTES];
            let read = file.read_at(&mut bytes, self.at).map_err(|e| Problem::internal(&e))?;
            bytes.truncate(read);
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let is_rest = seen.job.has_ended || read == MOST_BYTES;
            let end = if whole == 0 && is_rest { read } else { whole };
            if end == 0 {
                return Ok(news);
            }
            self.at += end as u64;
            let text = printable(&String::from_utf8_lossy(&bytes[..end])).into_owned();
            news.push(News::Log { text });
            // One round sends at most a megabyte.
            if news.len() >= 16 {
                return Ok(news);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_are_one_line_of_json() {
        let news = News::Log { text: "a\r\nb\u{2028}".to_owned() };
        let json = serde_json::to_string(&news).unwrap();
        assert_eq!(json, "{\"log\":{\"text\":\"a\\r\\nb\u{2028}\"}}");
        assert_eq!(serde_json::to_string(&News::End).unwrap(), "\"end\"");
    }
}
