//! The portal, as a person uses it who has a browser without scripts.

use crate::submits::server;
use sandmill_tests::{Browser, JobServer, guest};
use serde_json::json;

/// The largest page, in bytes.
const MOST_BYTES: usize = 100_000;

/// Fails if the page is too large, or if it has what the policy of contents forbids.
fn check(page: &str) {
    assert!(page.len() < MOST_BYTES, "{} bytes", page.len());
    assert!(!page.contains(" style=") && !page.contains(" onclick="), "{page}");
    assert_eq!(page.matches("<script").count(), page.matches("<script src=\"/portal/").count());
}

/// Submits a job with an error, mends it, watches it to its end, and reads what it left.
#[test]
fn a_user_submits_a_job_and_reads_what_it_left() {
    let (server, token) = server();
    let browser = Browser::signed_in(&server, &token);
    browser.get("/").has(303);
    browser.get("/portal/jobs").has(200).shows("No job matches");
    browser.get("/portal/submit").has(200).shows("name=\"job\"");
    let wrong = server.job_file("ada", "mini_batch_size: ten").replace("mini_batch_size: 1\n", "");
    let component = std::fs::read(guest("outcomes")).unwrap();
    let file = Some(("component", "outcomes.wasm", component.as_slice()));
    let refused = browser.post_file("/portal/submit", &[("job", &wrong)], file).has(422);
    let at_line = refused.text.split_once("<li value=\"4\">").unwrap().1;
    let at_line = at_line.split_once("</li>").unwrap().0;
    assert!(at_line.contains("mini_batch_size: ten"), "{at_line}");
    assert!(at_line.contains("expected a whole number"), "{at_line}");
    // The entry script was kept, and the form has what the user has typed.
    let digest = refused.text.split_once("name=\"digest\"").unwrap().1;
    let digest = digest.split_once("value=\"").unwrap().1.split('"').next().unwrap().to_owned();
    assert_eq!(digest.len(), 64, "{}", refused.text);
    assert!(refused.text.contains("mini_batch_size: ten\n</textarea>"), "{}", refused.text);
    let job = server.job_file("ada", "error_threshold: -1");
    // A check submits nothing, and keeps nothing of the job.
    let fields = [("job", job.as_str()), ("digest", &digest), ("check", "yes")];
    browser.post_file("/portal/submit", &fields, None).has(200).shows("The job file has no errors");
    assert_eq!(server.get(&token, "/v1/jobs").json()["items"], json!([]));
    let kept = server.root().join("state/submitted/ada");
    assert_eq!(std::fs::read_dir(kept).unwrap().count(), 0);
    let fields =
        [("job", job.as_str()), ("digest", &digest), ("labels", "team=red\r\n"), ("key", "k")];
    let submitted = browser.post_file("/portal/submit", &fields, None).has(303);
    let page = submitted.header("location");
    // A form that is sent twice submits one job.
    let again = browser.post_file("/portal/submit", &fields, None).has(303);
    assert_eq!(again.header("location"), page);
    let id = page.rsplit('/').next().unwrap();
    server.wait_for(&token, id, "completed");
    let shown = browser.get(&page).has(200).shows("phase-completed").shows("team=red");
    check(&shown.text);
    assert!(!shown.text.contains("data-live"), "{}", shown.text);
    let pages = [
        ("/mini-batches", "aria-label=\"0: 1 succeeded\""),
        ("/mini-batches?state=succeeded&from=2", "<th scope=\"row\">"),
        ("/mini-batches?state=failed", "No mini-batch matches"),
        ("/mini-batches/0", "Attempt 1"),
        ("/failures", "Nothing has failed"),
        ("/failed-items", "bad.txt is called bad"),
        ("/workers", "does not run"),
        ("/logs", "job_result.txt"),
        ("/logs?q=completed", "job_result.txt"),
        ("/logs/job_result.txt", "completed"),
        ("/logs/job_result.txt?q=COMPLETED", "completed"),
        ("/outputs", "parallel_run_step.txt"),
        ("/outputs/parallel_run_step.txt", "a.txt: 1"),
        ("/explain", "completed"),
    ];
    for (end, text) in pages {
        let shown = browser.get(&format!("{page}{end}")).has(200).shows(text);
        check(&shown.text);
    }
    let csv = browser.get(&format!("{page}/failed-items.csv")).has(200);
    assert!(csv.text.starts_with("mini_batch,item,") && csv.text.contains("bad.txt"), "{csv:?}");
    assert!(csv.header("content-disposition").contains("failed_items.csv"), "{csv:?}");
    let rows = browser.get(&format!("{page}/outputs/parallel_run_step.txt?download=1")).has(200);
    assert_eq!(
        (rows.text.lines().count(), rows.header("content-type").as_str()),
        (2, "application/octet-stream")
    );
    let log = browser.get(&format!("{page}/logs/job_result.txt?download=1")).has(200);
    assert_eq!(log.text, server.get(&token, &format!("/v1/jobs/{id}/logs/job_result.txt")).text);
    browser.get("/portal/jobs?phase=completed&q=test&label=team%3Dred").has(200).shows(&page);
    let none = browser.get("/portal/jobs?phase=failed").has(200);
    assert!(!none.text.contains(&page), "{}", none.text);
    for end in [
        "/logs/no.txt",
        "/logs/..%2fjob.json",
        "/outputs/no.txt",
        "/mini-batches/99",
        "/mini-batches/x",
    ] {
        browser.get(&format!("{page}{end}")).has(404);
    }
    browser.get(&format!("{page}/mini-batches?cursor=%21")).has(400);
    browser.get("/portal/nothing").has(404).shows("<html");
}

/// The failure page leads to the mini-batches of a cause. Names of files and messages are shown as they are.
#[test]
fn failures_are_grouped_and_hostile_names_are_harmless() {
    let server = JobServer::start("");
    let token = server.tenant("ada", &json!({}));
    server.file("ada", "good.txt", "1");
    server.file("ada", "<img src=x onerror=alert(1)>bad\u{202e}.txt", "1");
    let component = server.upload(&token, &guest("outcomes"));
    // A mini-batch without a row for each item fails.
    let lines =
        "run_max_try: 1\nstrict_cardinality: true\nallowed_failed_count: 5\nerror_threshold: -1";
    let id = server.submit(&token, &server.job_file("ada", lines), &component);
    let job = server
        .wait(&token, &id, |job| ["completed", "failed"].contains(&job["phase"].as_str().unwrap()));
    let browser = Browser::signed_in(&server, &token);
    let page = format!("/portal/jobs/{id}");
    for end in ["", "/mini-batches", "/failures", "/failed-items", "/explain", "/logs?q=bad"] {
        let shown = browser.get(&format!("{page}{end}")).has(200);
        check(&shown.text);
        assert!(
            !shown.text.contains("<img") && !shown.text.contains('\u{202e}'),
            "{end}: {}",
            shown.text
        );
    }
    let items = browser.get(&format!("{page}/failed-items")).text;
    let failures = browser.get(&format!("{page}/failures")).text;
    let seen = format!("{items}{failures}");
    assert!(seen.contains("&lt;img src=x onerror=alert(1)&gt;bad\\u{202e}.txt"), "{job:#} {seen}");
}

#[test]
fn a_job_is_paused_cancelled_and_resumed_on_its_page() {
    let server = JobServer::start("");
    let token = server.tenant("ada", &json!({}));
    for number in 0..12 {
        server.file("ada", &format!("{number}.txt"), "1");
    }
    let component = server.upload(&token, &guest("surroundings"));
    let lines = "arguments: [--nap, '300']\nprocess_count_per_node: 2";
    let id = server.submit(&token, &server.job_file("ada", lines), &component);
    let browser = Browser::signed_in(&server, &token);
    let page = format!("/portal/jobs/{id}");
    server.wait(&token, &id, |job| job["counts"]["succeeded"].as_u64() > Some(0));
    browser.get(&page).has(200).shows("data-live=").shows("/cancel").shows("Pause");
    browser.get(&format!("{page}/workers")).has(200).shows("process000");
    assert_eq!(
        browser.post(&format!("{page}/priority"), &[("priority", "7")]).has(303).header("location"),
        page
    );
    browser.post(&format!("{page}/priority"), &[("priority", "700")]).has(422);
    browser.post(&format!("{page}/priority"), &[("priority", "high")]).has(422);
    browser.post(&format!("{page}/pause"), &[]).has(303);
    let paused = server.wait_for(&token, &id, "paused");
    assert_eq!(paused["priority"], 7);
    browser.get(&page).has(200).shows("Resume");
    browser.post(&format!("{page}/resume"), &[]).has(303);
    server.wait_for(&token, &id, "running");
    browser.post(&format!("{page}/cancel-at-once"), &[]).has(303);
    server.wait_for(&token, &id, "cancelled");
    browser.post(&format!("{page}/cancel"), &[]).has(409).shows("the job has ended");
    browser.post(&format!("{page}/resume"), &[]).has(303);
    let number =
        server.get(&token, &format!("/v1/jobs/{id}/mini-batches")).json()["items"][0]["id"].clone();
    browser
        .get(&format!("{page}/mini-batches/{number}"))
        .has(200)
        .shows("arguments=")
        .shows("class=\"log\"");
    server.wait_for(&token, &id, "completed");
    let actions = server.get(&token, "/v1/audit").json();
    let audit = browser.get("/portal/audit").has(200).shows("job.cancel").shows("at once");
    assert_eq!(audit.text.matches("job.resume").count(), 2, "{actions:#}");
}

/// One stream has the parts of the page, and another one the lines of a log.
#[test]
fn a_tab_follows_a_job_and_a_log_to_the_end() {
    let server = JobServer::start("");
    let token = server.tenant("ada", &json!({}));
    for number in 0..4 {
        server.file("ada", &format!("{number}.txt"), "1");
    }
    let component = server.upload(&token, &guest("surroundings"));
    let lines = "arguments: [--nap, '500']\nprocess_count_per_node: 1";
    let id = server.submit(&token, &server.job_file("ada", lines), &component);
    let browser = Browser::signed_in(&server, &token);
    // The stream ends when the job has ended.
    let live = browser.get(&format!("/portal/jobs/{id}/live")).has(200);
    assert_eq!(live.header("content-type"), "text/event-stream");
    let news: Vec<serde_json::Value> = live
        .text
        .lines()
        .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
        .collect();
    let parts = news.iter().filter(|news| news["part"]["id"] == "progress").count();
    assert!(parts > 1, "{news:#?}");
    assert!(live.text.contains("phase-completed"), "{}", live.text);
    assert_eq!(news.last(), Some(&json!("end")));
    let log = "user%2Fstdout%2F0%2Fprocess000.stdout.txt";
    let path = format!("/portal/jobs/{id}/live?log={log}&from=0");
    let followed = browser.get(&path).has(200).shows("init to stdout").shows("run 3 attempt 1");
    // A browser whose connection broke gets only the rest.
    let last = followed.text.lines().rev().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let rest = browser.send("GET", &path, &[("last-event-id", last)], b"").has(200);
    assert!(!rest.text.contains("init to stdout") && rest.text.contains("\"end\""), "{rest:?}");
}

#[test]
fn tokens_are_made_shown_once_and_revoked() {
    let server = JobServer::start("");
    let token = server.tenant("ada", &json!({}));
    let browser = Browser::signed_in(&server, &token);
    browser.get("/portal/tokens").has(200).shows("tokens:write");
    let fields =
        [("label", "<b>for CI"), ("scope", "jobs:read"), ("scope", "logs:read"), ("days", "1")];
    let made = browser.post("/portal/tokens", &fields).has(200);
    assert_eq!(made.header("cache-control"), "no-store");
    let text = made.text.split_once("sm_").unwrap().1.split('<').next().unwrap();
    let text = format!("sm_{text}");
    let caller = server.get(&text, "/v1/me").has(200).json();
    assert_eq!(caller["scopes"], json!(["jobs:read", "logs:read"]));
    let list = browser.get("/portal/tokens").has(200).shows("&lt;b&gt;for CI");
    assert!(!list.text.contains(&text), "{}", list.text);
    // Its session ends with it.
    let other = Browser::signed_in(&server, &text);
    other.get("/portal/jobs").has(200);
    let tokens = other.get("/portal/tokens");
    assert_eq!(tokens.status, 403, "{tokens:?}");
    let id = text.split('_').nth(1).unwrap();
    browser.post(&format!("/portal/tokens/{id}/revoke"), &[]).has(303);
    other.get("/portal/jobs").has(303);
    server.get(&text, "/v1/me").has(401);
    browser.post("/portal/tokens", &[("scope", "admin")]).has(422);
    browser.post("/portal/tokens", &[]).has(422);
}

#[test]
fn an_operator_adds_a_tenant_and_acts_for_it() {
    let server = JobServer::start("");
    let browser = Browser::signed_in(&server, &server.operator);
    browser.get("/portal/tenants").has(200).shows("Add a tenant");
    let fields = [("name", "ada"), ("weight", "2"), ("running_jobs", "1")];
    let added = browser.post("/portal/tenants", &fields).has(303);
    assert_eq!(added.header("location"), "/portal/tenants/ada");
    browser.post("/portal/tenants", &fields).has(409);
    browser.get("/portal/tenants/ada").has(200).shows(
        "name=\"running_jobs\" type=\"number\" min=\"0\" placeholder=\"no limit\" value=\"1\"",
    );
    let change = |version: &str| {
        browser.post("/portal/tenants/ada/quota", &[("version", version), ("weight", "3")])
    };
    change("1").has(303);
    change("1").has(412);
    assert_eq!(server.get(&server.operator, "/v1/tenants/ada").json()["quotas"], json!({}));
    browser.get("/portal/components").has(200);
    let component = std::fs::read(guest("outcomes")).unwrap();
    let file = Some(("component", "outcomes.wasm", component.as_slice()));
    browser.post_file("/portal/components?tenant=ada", &[], file).has(303);
    let list = browser.get("/portal/components?tenant=ada").has(200).shows("outcomes.wasm");
    let digest = list.text.split_once("/portal/components/").unwrap().1.get(..64).unwrap();
    browser.get(&format!("/portal/components/{digest}?tenant=ada")).has(200).shows(digest);
    server.file("ada", "a.txt", "1");
    let job = server.job_file("ada", "");
    let fields = [("tenant", "ada"), ("job", job.as_str()), ("digest", digest)];
    let page = browser.post_file("/portal/submit", &fields, None).has(303).header("location");
    server.wait_for(&server.operator, page.rsplit('/').next().unwrap(), "completed");
    browser.get("/portal/jobs?tenant=ada").has(200).shows(&page);
    browser.get("/portal/tokens?tenant=ada").has(200);
}
