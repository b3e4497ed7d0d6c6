//! The manners of the API: its document, its problems, its pages.

use sandmill_tests::JobServer;
use serde_json::{Value, json};

/// Headers of a request: names and values.
type Headers<'a> = &'a [(&'a str, &'a str)];

#[test]
fn every_operation_is_described() {
    let server = JobServer::start("");
    let document = server.get("", "/openapi.json").has(200).json();
    assert_eq!(document["openapi"], "3.1.0");
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let place = format!("{method} {path}");
            assert!(
                operation["summary"].as_str().is_some_and(|text| text.ends_with('.')),
                "{place}"
            );
            assert!(operation["operationId"].is_string(), "{place}");
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.keys().any(|status| status.starts_with('2')), "{place}");
            let parts = path.matches('{').count();
            let given = operation["parameters"].as_array().map_or(0, |parameters| {
                parameters.iter().filter(|parameter| parameter["in"] == "path").count()
            });
            assert_eq!(parts, given, "{place}");
        }
    }
}

#[test]
fn every_wrong_request_gets_a_problem() {
    let server = JobServer::start("");
    let ada = server.tenant("ada", &json!({}));
    let bearer = format!("Bearer {ada}");
    let json_kind = ("content-type", "application/json");
    let token = ("authorization", bearer.as_str());
    let cases: [(&str, &str, Headers, &str, u16); 16] = [
        ("GET", "/v1/nothing", &[token], "", 404),
        ("GET", "/nothing", &[], "", 404),
        ("DELETE", "/v1/jobs", &[token], "", 405),
        ("GET", "/v1/jobs?limit=0", &[token], "", 400),
        ("GET", "/v1/jobs?limit=ten", &[token], "", 400),
        ("GET", "/v1/jobs?cursor=%21", &[token], "", 400),
        ("GET", "/v1/jobs?phase=asleep", &[token], "", 400),
        ("GET", "/v1/jobs?label=red", &[token], "", 400),
        ("GET", "/v1/jobs/..%2f..%2fetc", &[token], "", 404),
        ("POST", "/v1/jobs", &[token], "{}", 415),
        ("POST", "/v1/jobs", &[token, json_kind], "{", 400),
        ("POST", "/v1/jobs", &[token, json_kind], "{\"jobs\": 1}", 422),
        ("POST", "/v1/jobs", &[token, json_kind], "{\"job\": \"\", \"priority\": 1000}", 422),
        (
            "POST",
            "/v1/jobs",
            &[token, json_kind],
            "{\"job\": \"\", \"settings\": {\"tenant\": \"bob\"}}",
            422,
        ),
        ("POST", "/v1/components?name=../x.wasm", &[token], "x", 400),
        ("POST", "/v1/components", &[token], "", 422),
    ];
    for (method, path, headers, body, status) in cases {
        let answer = server.send(method, path, headers, body.as_bytes());
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert_eq!(answer.kind, "application/problem+json", "{method} {path}");
        let problem = answer.json();
        assert_eq!(problem["status"], status, "{method} {path}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(!detail.is_empty() && problem["title"].is_string(), "{method} {path}");
        assert!(problem["type"].as_str().unwrap().starts_with("urn:sandmill:problem:"));
    }
}

#[test]
fn operators_add_tenants_and_change_their_quotas() {
    let server = JobServer::start("");
    let operator = &server.operator;
    let made = server.post(operator, "/v1/tenants", &json!({"name": "ada", "weight": 3})).has(201);
    assert_eq!(made.json()["weight"], 3);
    server.post(operator, "/v1/tenants", &json!({"name": "ada"})).has(409);
    server.post(operator, "/v1/tenants", &json!({"name": "A B"})).has(422);
    let put = |etag: &str, body: &Value| {
        let bearer = format!("Bearer {operator}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("if-match", etag),
        ];
        server.send("PUT", "/v1/tenants/ada/quota", &headers, body.to_string().as_bytes())
    };
    let quotas = json!({"weight": 2, "quotas": {"running_jobs": 4}});
    let changed = put(&made.etag, &quotas).has(200);
    put(&made.etag, &quotas).has(412);
    put(&changed.etag, &json!({"weight": 0})).has(422);
    let seen = server.get(operator, "/v1/tenants/ada").has(200);
    assert_eq!((&seen.etag, &seen.json()["quotas"]), (&changed.etag, &json!({"running_jobs": 4})));
    for name in ["bob", "eve"] {
        server.post(operator, "/v1/tenants", &json!({"name": name})).has(201);
    }
    let mut names = Vec::new();
    let mut path = "/v1/tenants?limit=2".to_owned();
    loop {
        let page = server.get(operator, &path).has(200).json();
        let items = page["items"].as_array().unwrap().iter();
        names.extend(items.map(|tenant| tenant["name"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/tenants?limit=2&cursor={next}");
    }
    assert_eq!(names, ["ada", "bob", "eve"]);
    let audit = server.get(operator, "/v1/audit?limit=1").has(200).json();
    assert_eq!(audit["items"][0]["action"], "tenant.add");
    assert_eq!(audit["items"][0]["target"], "eve");
}
