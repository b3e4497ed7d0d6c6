//! Jobs that tenants submit.

use insta::assert_snapshot;
use sandmill_tests::{JobServer, guest};
use serde_json::json;
use std::io::{Read, Write};

/// Failed items do not end the job.
const TOLERANT: &str = "error_threshold: -1";

/// A server with a tenant that has three files.
pub(crate) fn server() -> (JobServer, String) {
    let server = JobServer::start("");
    let token = server.tenant("ada", &json!({}));
    for (name, text) in [("a.txt", "1"), ("b.txt", "22"), ("bad.txt", "333")] {
        server.file("ada", name, text);
    }
    (server, token)
}

#[test]
fn a_job_runs_and_shows_its_results() {
    let (server, token) = server();
    let component = server.upload(&token, &guest("outcomes"));
    let id = server.submit(&token, &server.job_file("ada", TOLERANT), &component);
    let job = server.wait_for(&token, &id, "completed");
    let counts = &job["counts"];
    assert_eq!((&counts["succeeded"], &counts["rows"]), (&json!(3), &json!(2)), "{job:#}");
    assert_eq!(counts["items_failed"], 1);
    let get = |path: &str| server.get(&token, &format!("/v1/jobs/{id}{path}")).has(200);
    let files = get("/outputs").json();
    assert_eq!(files["items"][0]["path"], "parallel_run_step.txt");
    let rows = get("/outputs/parallel_run_step.txt").text;
    let mut rows: Vec<&str> = rows.lines().collect();
    rows.sort_unstable();
    assert_eq!(rows, ["a.txt: 1", "b.txt: 2"]);
    let part = server.send(
        "GET",
        &format!("/v1/jobs/{id}/outputs/parallel_run_step.txt"),
        &[("authorization", &format!("Bearer {token}")), ("range", "bytes=0-0")],
        b"",
    );
    assert_eq!((part.status, part.text.len()), (206, 1));
    let failed = get("/failed-items").json();
    assert_eq!(failed["items"][0]["reason"], "bad.txt is called bad", "{failed:#}");
    let page = get("/mini-batches?limit=2").json();
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    let next = page["next"].as_str().unwrap();
    let last = get(&format!("/mini-batches?limit=2&cursor={next}")).json();
    assert_eq!((&last["items"][0]["id"], &last["next"]), (&json!(2), &json!(null)));
    assert_eq!(get("/mini-batches/2").json()["attempts_made"][0]["state"], "succeeded");
    let result = get("/logs/job_result.txt").text;
    assert!(get("/explain").json()["text"].as_str().unwrap().contains("completed"));
    assert!(result.contains("completed"), "{result}");
    let events = get("/events").text;
    assert!(events.starts_with("event: job\nid: "), "{events}");
    let path = format!("/v1/jobs/{id}/logs/job_result.txt?tail=1");
    let last = server.get(&token, &path).has(206).text;
    assert_eq!(last.lines().count(), 1, "{last}");
}

#[test]
fn a_form_submits_a_job_with_its_entry_script() {
    let (server, token) = server();
    let job = server.job_file("ada", TOLERANT);
    let mut body = Vec::new();
    let part = |name: &str, file: &str| {
        format!("--x\r\ncontent-disposition: form-data; name=\"{name}\"{file}\r\n\r\n")
    };
    body.extend(part("job", "").into_bytes());
    body.extend(job.bytes());
    body.extend(b"\r\n");
    body.extend(part("labels", "").into_bytes());
    body.extend(br#"{"team": "red"}"#);
    body.extend(b"\r\n");
    body.extend(part("component", "; filename=\"outcomes.wasm\"").into_bytes());
    body.extend(std::fs::read(guest("outcomes")).unwrap());
    body.extend(b"\r\n--x--\r\n");
    let headers = [
        ("authorization", &*format!("Bearer {token}")),
        ("content-type", "multipart/form-data; boundary=x"),
    ];
    let answer = server.send("POST", "/v1/jobs", &headers, &body).has(201).json();
    let id = answer["id"].as_str().unwrap();
    server.wait_for(&token, id, "completed");
    let listed = server.get(&token, "/v1/jobs?label=team=red").json();
    assert_eq!(listed["items"][0]["id"], id);
    let none = server.get(&token, "/v1/jobs?label=team=blue").json();
    assert_eq!(none["items"], json!([]));
}

#[test]
fn all_errors_of_a_job_file_are_answered_with_their_lines() {
    let (server, token) = server();
    let job =
        "name: a\nentry_script: x.wasm\ninputs: {texts: /etc}\nmini_batch_size: ten\ntenant: bob\n";
    let answer = server.post(&token, "/v1/jobs", &json!({"job": job})).has(422);
    assert_eq!(answer.kind, "application/problem+json");
    let problem = answer.json();
    let errors: Vec<String> = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| {
            let line = &error["line"];
            let text = format!(
                "{}:{line}: {}: {}",
                error["file"].as_str().unwrap(),
                error["key"].as_str().unwrap(),
                error["message"].as_str().unwrap()
            );
            text.replace(&server.root().display().to_string(), "DIR")
        })
        .collect();
    assert_snapshot!(errors.join("\n"), @"
    job.yaml:2: entry_script: there is no x.wasm; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)
    job.yaml:3: inputs.texts.path: found /etc; the operator's policy allows inputs only below DIR/data/ada (DIR/policy.yaml:3)
    job.yaml:4: mini_batch_size: found \"ten\"; expected a whole number of files of at least 1 (e.g. 10)
    job.yaml:5: tenant: found \"bob\"; the job runs for the tenant ada (--tenant): leave the key out
    ");
    assert_eq!(server.get(&token, "/v1/jobs").json()["items"], json!([]));
    // Nothing remains of it.
    let submitted = server.root().join("state/submitted/ada");
    assert_eq!(std::fs::read_dir(submitted).unwrap().count(), 0);
}

#[test]
fn a_repeated_request_submits_one_job() {
    let (server, token) = server();
    let component = server.upload(&token, &guest("outcomes"));
    let body = json!({"job": server.job_file("ada", ""), "component": component});
    let send = |key: &str, body: &serde_json::Value| {
        let token = format!("Bearer {token}");
        let headers = [
            ("authorization", token.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", key),
        ];
        server.send("POST", "/v1/jobs", &headers, body.to_string().as_bytes())
    };
    let first = send("k", &body).has(201).json();
    let second = send("k", &body).has(200).json();
    assert_eq!(first["id"], second["id"]);
    let other = json!({"job": server.job_file("ada", "run_max_try: 1"), "component": component});
    send("k", &other).has(409);
    assert_ne!(send("l", &body).has(201).json()["id"], first["id"]);
}

#[test]
fn a_job_that_fails_says_why() {
    let (server, token) = server();
    let component = server.upload(&token, &guest("outcomes"));
    let id = server.submit(&token, &server.job_file("ada", "error_threshold: 0"), &component);
    let job = server.wait_for(&token, &id, "failed");
    assert!(job["reason"].as_str().unwrap().contains("error_threshold"), "{job:#}");
    // A component that is none is found when the job begins.
    let broken = server.root().join("broken.wasm");
    std::fs::write(&broken, "no component").unwrap();
    let component = server.upload(&token, &broken);
    let id = server.submit(&token, &server.job_file("ada", ""), &component);
    let job = server.wait_for(&token, &id, "failed");
    assert!(job["reason"].as_str().unwrap().contains("broken.wasm"), "{job:#}");
}

#[test]
fn quotas_limit_jobs_and_uploads() {
    let server = JobServer::start("");
    let token = server.tenant("ada", &json!({"unfinished_jobs": 1, "upload_bytes": 1_000_000}));
    server.file("ada", "a.txt", "1");
    let component = server.upload(&token, &guest("surroundings"));
    let job = server.job_file("ada", "arguments: [--nap, '20000']");
    let id = server.submit(&token, &job, &component);
    let body = json!({"job": job, "component": component});
    let refused = server.post(&token, "/v1/jobs", &body).has(429).json();
    assert!(refused["detail"].as_str().unwrap().contains("unfinished_jobs"), "{refused:#}");
    let headers = [("authorization", &*format!("Bearer {token}"))];
    let large = vec![0; 1_000_001];
    server.send("POST", "/v1/components", &headers, &large).has(429);
    server.post(&token, &format!("/v1/jobs/{id}/cancel"), &json!({"at_once": true})).has(200);
    server.wait_for(&token, &id, "cancelled");
}

/// What is too large is refused before it is kept, and nothing remains of an upload that was broken off.
#[test]
fn large_and_broken_uploads_leave_nothing() {
    let (server, token) = server();
    let bearer = format!("Bearer {token}");
    let address = server.url().strip_prefix("http://").unwrap().to_owned();
    let mut stream = std::net::TcpStream::connect(&address).unwrap();
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: a\r\nauthorization: {bearer}\r\ncontent-type: application/json\r\n\
         content-length: 9000000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The server does not read the rest.
    let _ = stream.write_all(&vec![b' '; 9_000_000]);
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    let mut stream = std::net::TcpStream::connect(&address).unwrap();
    let head = format!(
        "POST /v1/components HTTP/1.1\r\nhost: a\r\nauthorization: {bearer}\r\ncontent-length: 9000000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&vec![0; 3 << 20]).unwrap();
    let uploads = || std::fs::read_dir(server.root().join("state/uploads")).unwrap().count();
    let until = |count: usize| {
        let begun = std::time::Instant::now();
        while uploads() != count {
            assert!(begun.elapsed().as_secs() < 30, "{} uploads, not {count}", uploads());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    until(1);
    drop(stream);
    until(0);
}
