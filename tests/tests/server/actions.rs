//! Jobs that are cancelled, paused and resumed.

use sandmill_tests::{JobServer, guest};
use serde_json::json;

/// A server with a job whose mini-batches take half a second each.
fn slow_job(server: &JobServer, token: &str) -> String {
    for number in 0..12 {
        server.file("ada", &format!("{number}.txt"), "1");
    }
    let component = server.upload(token, &guest("surroundings"));
    let lines = "arguments: [--nap, '500']\nprocess_count_per_node: 2";
    server.submit(token, &server.job_file("ada", lines), &component)
}

#[test]
fn a_job_is_paused_resumed_and_cancelled() {
    let server = JobServer::start("");
    let token = server.tenant("ada", &json!({}));
    let id = slow_job(&server, &token);
    let act = |action: &str| server.post(&token, &format!("/v1/jobs/{id}/{action}"), &json!({}));
    server.wait(&token, &id, |job| job["counts"]["succeeded"].as_u64() > Some(0));
    act("pause").has(200);
    let paused = server.wait_for(&token, &id, "paused");
    let done = paused["counts"]["succeeded"].as_u64();
    assert!(done > Some(0) && done < Some(12), "{paused:#}");
    act("resume").has(200);
    let resumed = server.wait(&token, &id, |job| job["counts"]["succeeded"].as_u64() > done);
    assert_eq!(resumed["starts"], 2);
    act("cancel").has(200);
    let cancelled = server.wait_for(&token, &id, "cancelled");
    assert!(cancelled["ended"].is_string(), "{cancelled:#}");
    act("cancel").has(409);
    act("pause").has(409);
    act("resume").has(200);
    let completed = server.wait_for(&token, &id, "completed");
    assert_eq!(completed["counts"]["succeeded"], 12);
    act("resume").has(409);
}

#[test]
fn a_job_that_was_changed_meanwhile_is_not_changed_again() {
    let server = JobServer::start("");
    let token = server.tenant("ada", &json!({}));
    let id = slow_job(&server, &token);
    server.wait_for(&token, &id, "running");
    let seen = server.get(&token, &format!("/v1/jobs/{id}"));
    let change = |etag: &str, priority: i32| {
        let token = format!("Bearer {token}");
        let headers = [
            ("authorization", token.as_str()),
            ("content-type", "application/json"),
            ("if-match", etag),
        ];
        let body = json!({"priority": priority}).to_string();
        server.send("POST", &format!("/v1/jobs/{id}/priority"), &headers, body.as_bytes())
    };
    let changed = change(&seen.etag, 5).has(200);
    assert_eq!(changed.json()["priority"], 5);
    change(&seen.etag, 6).has(412);
    change(&changed.etag, 7).has(200);
    change(&changed.etag, 700).has(422);
    server.post(&token, &format!("/v1/jobs/{id}/cancel"), &json!({"at_once": true})).has(200);
    server.wait_for(&token, &id, "cancelled");
}

/// The server runs one job at a time. Those of a higher priority come first, and a waiting job says why it waits.
#[test]
fn jobs_wait_in_the_order_of_their_priorities() {
    let server = JobServer::start("");
    let token = server.tenant("ada", &json!({"running_jobs": 1}));
    let first = slow_job(&server, &token);
    server.wait_for(&token, &first, "running");
    let component = server.upload(&token, &guest("surroundings"));
    let submit = |priority: i32| {
        let body = json!({"job": server.job_file("ada", ""), "component": component, "priority": priority});
        let answer = server.post(&token, "/v1/jobs", &body).has(201).json();
        answer["id"].as_str().unwrap().to_owned()
    };
    let (low, high) = (submit(-1), submit(1));
    let waiting = server.wait(&token, &low, |job| job["waits"].is_string());
    assert!(waiting["waits"].as_str().unwrap().contains("running_jobs"), "{waiting:#}");
    server.post(&token, &format!("/v1/jobs/{first}/cancel"), &json!({"at_once": true})).has(200);
    let began = |id: &str| {
        let job = server.wait_for(&token, id, "completed");
        job["began"].as_str().unwrap().to_owned()
    };
    assert!(began(&high) < began(&low));
}

/// A tenant whose jobs fill the server and all workers keeps no other tenant waiting.
#[test]
fn a_tenant_that_fills_the_server_leaves_room_for_others() {
    let slots = tempfile::tempdir().unwrap();
    let slots_folder = slots.path().join("slots");
    let server = JobServer::start(&format!(
        "machine: {{ workers: 2, directory: '{}' }}",
        slots_folder.display()
    ));
    let ada = server.tenant("ada", &json!({}));
    let bob = server.tenant("bob", &json!({}));
    // With so many mini-batches, the first job runs until it is cancelled.
    for number in 12..200 {
        server.file("ada", &format!("{number}.txt"), "1");
    }
    let jobs: Vec<String> = (0..5).map(|_| slow_job(&server, &ada)).collect();
    server.wait(&ada, &jobs[0], |job| job["counts"]["succeeded"].as_u64() > Some(0));
    server.file("bob", "one.txt", "1");
    let component = server.upload(&bob, &guest("echo_files"));
    let id = server.submit(&bob, &server.job_file("bob", ""), &component);
    server.wait_for(&bob, &id, "completed");
    let first = server.get(&ada, &format!("/v1/jobs/{}", jobs[0])).has(200).json();
    assert_eq!(first["phase"], "running", "{first:#}");
    for job in &jobs {
        server.post(&ada, &format!("/v1/jobs/{job}/cancel"), &json!({"at_once": true})).has(200);
    }
    for job in &jobs {
        server.wait_for(&ada, job, "cancelled");
    }
}
