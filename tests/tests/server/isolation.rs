//! What callers may not do, on every route. The routes come from the server's own document, so a new route is tried, too.

use sandmill_tests::{JobServer, guest};
use serde_json::{Value, json};

/// The routes that need no token.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// A route of the API.
#[derive(Debug)]
struct Route {
    method: String,
    path: String,
    has_json: bool,
}

fn routes(server: &JobServer) -> Vec<Route> {
    let document = server.get("", "/openapi.json").has(200).json();
    let paths = document["paths"].as_object().unwrap();
    let mut routes = Vec::new();
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().unwrap() {
            let content = &operation["requestBody"]["content"];
            let has_json = content["application/json"].is_object();
            routes.push(Route { method: method.to_uppercase(), path: path.clone(), has_json });
        }
    }
    routes
}

impl Route {
    /// The path with these values in place of its parts.
    fn with(&self, values: &[(&str, &str)]) -> String {
        let fill = |path: String, (name, value): &(&str, &str)| {
            path.replace(&format!("{{{name}}}"), value)
        };
        values.iter().fold(self.path.clone(), fill)
    }

    fn call(&self, server: &JobServer, token: Option<&str>, path: &str) -> (u16, Value) {
        let token = token.map(|token| format!("Bearer {token}"));
        let mut headers: Vec<(&str, &str)> = Vec::new();
        headers.extend(token.as_deref().map(|token| ("authorization", token)));
        headers.extend(self.has_json.then_some(("content-type", "application/json")));
        let body = match (self.path.as_str(), self.has_json) {
            ("/v1/jobs/{id}/priority", _) => json!({"priority": 1}),
            ("/v1/tokens", _) => json!({"scopes": ["jobs:read"], "tenant": "ada"}),
            ("/v1/tenants", _) => json!({"name": "new"}),
            ("/v1/jobs", _) => json!({"job": ""}),
            _ => json!({}),
        };
        let body = if self.method == "GET" { String::new() } else { body.to_string() };
        let answer = server.send(&self.method, path, &headers, body.as_bytes());
        let problem = serde_json::from_str(&answer.text).unwrap_or_default();
        (answer.status, problem)
    }
}

#[test]
fn no_route_works_without_a_token_or_shows_another_tenants_things() {
    let server = JobServer::start("");
    let ada = server.tenant("ada", &json!({}));
    let bob = server.tenant("bob", &json!({}));
    server.file("ada", "a.txt", "1");
    let component = server.upload(&ada, &guest("outcomes"));
    let job = server.submit(&ada, &server.job_file("ada", ""), &component);
    server.wait_for(&ada, &job, "completed");
    let tokens = server.get(&ada, "/v1/tokens").has(200).json();
    let token = tokens["items"][0]["id"].as_str().unwrap().to_owned();
    let mut tried = (0, 0);
    for route in routes(&server) {
        let file =
            if route.path.contains("/logs/") { "job_result.txt" } else { "parallel_run_step.txt" };
        let is_job = route.path.starts_with("/v1/jobs/");
        let id = if is_job { &job } else { &token };
        let values = [
            ("id", id.as_str()),
            ("digest", &component),
            ("name", "ada"),
            ("path", file),
            ("number", "0"),
        ];
        let path = route.with(&values);
        if !OPEN.contains(&route.path.as_str()) {
            let (status, _) = route.call(&server, None, &path);
            assert_eq!(status, 401, "{route:?}");
            let (status, _) = route.call(&server, Some("sm_000000000000_x"), &path);
            assert_eq!(status, 401, "{route:?}");
            tried.0 += 1;
        }
        if route.path.contains('{') {
            let (status, problem) = route.call(&server, Some(&bob), &path);
            // Only operators may change quotas, of any tenant.
            let expected = if route.path == "/v1/tenants/{name}/quota" { 403 } else { 404 };
            assert_eq!(status, expected, "{route:?}: {problem:#}");
            // A thing of another tenant looks exactly like one that does not exist.
            let missing = [
                ("id", if is_job { "zzzzzzzzzzzzzzzzzzzzzzzz" } else { "zzzzzzzzzzzz" }),
                ("digest", "0000000000000000000000000000000000000000000000000000000000000000"),
                ("name", "no-such-tenant"),
                ("path", file),
                ("number", "0"),
            ];
            assert_eq!(route.call(&server, Some(&bob), &route.with(&missing)), (status, problem));
            tried.1 += 1;
        }
    }
    assert!(tried.0 >= 31 && tried.1 >= 21, "{tried:?}");
    // Lists have nothing of another tenant.
    for path in ["/v1/jobs", "/v1/components"] {
        assert_eq!(server.get(&bob, path).has(200).json()["items"], json!([]), "{path}");
        server.get(&bob, &format!("{path}?tenant=ada")).has(404);
    }
    let audit = server.get(&bob, "/v1/audit").has(200).text;
    assert!(!audit.contains(&job) && !audit.contains("\"ada\""), "{audit}");
    server.post(&bob, "/v1/tokens", &json!({"tenant": "ada", "scopes": ["jobs:read"]})).has(404);
    let body = json!({"job": server.job_file("ada", ""), "component": component});
    server.post(&bob, "/v1/jobs?tenant=ada", &body).has(404);
    // Bob's own job can use neither Ada's component nor her data.
    let refused = server.post(&bob, "/v1/jobs", &body).has(422).json();
    assert!(refused["detail"].as_str().unwrap().contains("no entry script"), "{refused:#}");
    let own = server.upload(&bob, &guest("outcomes"));
    let body = json!({"job": server.job_file("ada", ""), "component": own});
    let refused = server.post(&bob, "/v1/jobs", &body).has(422).json();
    assert!(refused.to_string().contains("allows inputs only below"), "{refused:#}");
    let script = server.root().join(format!("state/submitted/ada/{job}/outcomes.wasm"));
    assert!(script.exists());
    let text = format!(
        "name: a\nentry_script: {}\ninputs: {{texts: {}}}\n",
        script.display(),
        server.root().join("data/bob").display()
    );
    let refused = server.post(&bob, "/v1/jobs", &json!({"job": text})).has(422).json();
    assert!(refused.to_string().contains("allows entry scripts"), "{refused:#}");
}

#[test]
fn a_token_does_only_what_its_scopes_say() {
    let server = JobServer::start("");
    let ada = server.tenant("ada", &json!({}));
    server.file("ada", "a.txt", "1");
    let component = server.upload(&ada, &guest("outcomes"));
    let job = server.submit(&ada, &server.job_file("ada", ""), &component);
    server.wait_for(&ada, &job, "completed");
    let scoped = |scope: &str| server.token(&json!({"tenant": "ada", "scopes": [scope]}));
    let (reads, writes, logs) = (scoped("jobs:read"), scoped("jobs:write"), scoped("logs:read"));
    server.get(&reads, &format!("/v1/jobs/{job}")).has(200);
    server.get(&reads, &format!("/v1/jobs/{job}/logs")).has(403);
    server.get(&logs, &format!("/v1/jobs/{job}/logs/job_result.txt")).has(200);
    server.get(&logs, &format!("/v1/jobs/{job}/outputs")).has(403);
    server.get(&writes, &format!("/v1/jobs/{job}")).has(403);
    server.post(&reads, &format!("/v1/jobs/{job}/cancel"), &json!({})).has(403);
    server.post(&reads, "/v1/tokens", &json!({"scopes": ["jobs:read"]})).has(403);
    // A token gives no more than it has, and none of a tenant is an operator's.
    let tokens = scoped("tokens:write");
    server.post(&tokens, "/v1/tokens", &json!({"scopes": ["jobs:read"]})).has(403);
    server.post(&ada, "/v1/tokens", &json!({"scopes": ["admin"]})).has(422);
    server.post(&ada, "/v1/tenants", &json!({"name": "eve"})).has(403);
    server.get(&ada, "/metrics").has(403);
    server.get(&server.operator, "/metrics").has(200);
}

#[test]
fn a_token_counts_until_it_is_revoked() {
    let server = JobServer::start("");
    let ada = server.tenant("ada", &json!({"requests_per_second": 1000}));
    let made = server
        .post(&ada, "/v1/tokens", &json!({"scopes": ["jobs:read"], "days": 1}))
        .has(201)
        .json();
    let (id, text) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    assert!(made["expires"].is_string());
    server.get(text, "/v1/me").has(200);
    let delete = |id: &str| {
        let token = format!("Bearer {ada}");
        server.send("DELETE", &format!("/v1/tokens/{id}"), &[("authorization", &token)], b"")
    };
    delete(id).has(204);
    server.get(text, "/v1/me").has(401);
    delete(id).has(204);
    delete("zzzzzzzzzzzz").has(404);
    // The state has only digests.
    for file in ["server.db", "server.db-wal"] {
        let bytes = std::fs::read(server.root().join("state").join(file)).unwrap();
        let secret = ada.rsplit('_').next().unwrap().as_bytes();
        assert!(!bytes.windows(secret.len()).any(|part| part == secret), "{file}");
    }
}

#[test]
fn a_token_that_asks_too_often_has_to_wait() {
    let server = JobServer::start("");
    let ada = server.tenant("ada", &json!({"requests_per_second": 2}));
    let statuses: Vec<u16> = (0..12).map(|_| server.get(&ada, "/v1/me").status).collect();
    assert!(statuses.contains(&429) && statuses.contains(&200), "{statuses:?}");
    // Others do not wait.
    server.get(&server.operator, "/v1/me").has(200);
}
