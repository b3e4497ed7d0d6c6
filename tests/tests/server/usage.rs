//! What jobs and tenants have used, over HTTP.

use sandmill_tests::{JobServer, guest};
use serde_json::{Value, json};

#[test]
fn a_tenant_sees_what_its_jobs_used() {
    let server = JobServer::start("");
    let ada = server.tenant("ada", &json!({}));
    let bob = server.tenant("bob", &json!({}));
    for name in ["a.txt", "b.txt", "c.txt"] {
        server.file("ada", name, "1");
    }
    let component = server.upload(&ada, &guest("outcomes"));
    let job = server.submit(&ada, &server.job_file("ada", ""), &component);
    server.wait_for(&ada, &job, "completed");
    let sums = server.get(&ada, &format!("/v1/jobs/{job}/receipt")).has(200).json();
    assert_eq!((&sums["receipts"], &sums["is_final"]), (&json!(3), &json!(true)), "{sums:#}");
    assert_eq!(sums["billable"]["attempts"], 3);
    let mut receipts: Vec<Value> = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/jobs/{job}/receipts?limit=2{cursor}");
        let page = server.get(&ada, &path).has(200).json();
        receipts.extend(page["items"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(receipts.len(), 3);
    assert_eq!(receipts[2]["hash"], sums["head"]);
    assert_eq!(receipts[0]["receipt"]["tenant"], "ada");
    let wall = |value: &Value| value["usage"]["wall_us"].as_u64().unwrap();
    let total: u64 = receipts.iter().map(|sealed| wall(&sealed["receipt"])).sum();
    assert_eq!(sums["billable"]["wall_us"], total);
    let used = server.get(&ada, "/v1/tenants/ada/usage").has(200).json();
    assert_eq!((&used["jobs"], &used["running"]), (&json!(1), &json!(0)), "{used:#}");
    assert_eq!(used["total"]["billable"], sums["billable"]);
    assert_eq!(used["items"][0]["billable"]["wall_us"], total);
    for (query, attempts) in [
        ("by=month", 3),
        ("by=component&from=2020-01-01T00:00:00Z", 3),
        ("to=2020-01-01T00:00:00Z", 0),
        ("from=2100-01-01T00:00:00Z", 0),
    ] {
        let used = server.get(&ada, &format!("/v1/tenants/ada/usage?{query}")).has(200).json();
        assert_eq!(used["total"]["billable"]["attempts"], attempts, "{query}: {used:#}");
    }
    server.get(&ada, "/v1/tenants/ada/usage?from=yesterday").has(400);
    server.get(&ada, "/v1/tenants/ada/usage?by=worker").has(400);
    server.get(&ada, &format!("/v1/jobs/{job}/receipts?cursor=x")).has(400);
    // Another tenant sees nothing of it.
    for path in [
        format!("/v1/jobs/{job}/receipt"),
        format!("/v1/jobs/{job}/receipts"),
        "/v1/tenants/ada/usage".to_owned(),
    ] {
        server.get(&bob, &path).has(404);
    }
    let none = server.get(&bob, "/v1/tenants/bob/usage").has(200).json();
    assert_eq!((&none["jobs"], &none["items"]), (&json!(0), &json!([])));
}
