//! What browsers may not do, on every route of the portal. The routes come from the table in the code, so a new route is
//! tried, too.

use sandmill_server::portal_routes;
use sandmill_tests::{Browser, JobServer, Shown, guest};
use serde_json::json;

/// Fails if the answer lacks a header that protects its page.
#[track_caller]
fn check_headers(shown: &Shown) {
    let policy = shown.header("content-security-policy");
    for part in
        ["default-src 'none'", "script-src 'self'", "form-action 'self'", "frame-ancestors 'none'"]
    {
        assert!(policy.contains(part), "{shown:?}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(shown.header("x-content-type-options"), "nosniff", "{shown:?}");
    assert_eq!(shown.header("referrer-policy"), "no-referrer", "{shown:?}");
    assert_eq!(shown.header("cache-control"), "no-store", "{shown:?}");
}

#[test]
fn no_page_shows_another_tenants_things_and_no_form_works_without_its_secret() {
    let server = JobServer::start("");
    let ada = server.tenant("ada", &json!({}));
    let bob = server.tenant("bob", &json!({}));
    server.file("ada", "a.txt", "1");
    server.file("ada", "bad.txt", "1");
    let component = server.upload(&ada, &guest("outcomes"));
    let job = server.submit(&ada, &server.job_file("ada", "error_threshold: -1"), &component);
    server.wait_for(&ada, &job, "completed");
    let tokens = server.get(&ada, "/v1/tokens").has(200).json();
    let token = tokens["items"][0]["id"].as_str().unwrap().to_owned();
    let stranger = Browser::new(server.url());
    let own = Browser::signed_in(&server, &ada);
    let other = Browser::signed_in(&server, &bob);
    let mut tried = (0, 0, 0);
    for (method, route) in portal_routes() {
        let is_job = route.starts_with("/portal/jobs/");
        let fill = |job: &str, token: &str, digest: &str, tenant: &str| {
            let file =
                if route.contains("/logs/") { "job_result.txt" } else { "parallel_run_step.txt" };
            let id = if is_job { job } else { token };
            let parts = [
                ("{id}", id),
                ("{digest}", digest),
                ("{name}", tenant),
                ("{number}", "0"),
                ("{*path}", file),
            ];
            parts.iter().fold(route.clone(), |path, (name, value)| path.replace(name, value))
        };
        let path = fill(&job, &token, &component, "ada");
        let place = format!("{method} {path}");
        // A stranger has to sign in first.
        let answer = stranger.send(method, &path, &[], b"");
        assert_eq!(answer.status, 303, "{place}");
        assert!(answer.header("location").starts_with("/portal/sign-in"), "{place}");
        check_headers(&answer);
        tried.0 += 1;
        let is_upload = ["/portal/submit", "/portal/components"].contains(&route.as_str());
        let send = |browser: &Browser| match (method, is_upload) {
            ("GET", _) => browser.get(&path),
            (_, false) => browser.post(&path, &[]),
            (_, true) => browser.post_file(&path, &[], None),
        };
        if method == "POST" {
            // The forms of other sites have no secret, or another one.
            own.post_without_secret(&path, &[]).has(403);
            own.post_without_secret(&path, &[("form_secret", &other.secret())]).has(403);
            own.send("POST", &path, &[("content-type", "application/json")], b"{}").has(403);
            own.send(
                "POST",
                &path,
                &[("content-type", "multipart/form-data; boundary=x")],
                b"--x--\r\n",
            )
            .has(403);
            let from_other_site = own.send(
                "POST",
                &path,
                &[
                    ("content-type", "application/x-www-form-urlencoded"),
                    ("sec-fetch-site", "cross-site"),
                ],
                format!("form_secret={}", own.secret()).as_bytes(),
            );
            assert_eq!(from_other_site.status, 403, "{place}");
            tried.1 += 1;
        } else {
            let answer = send(&own);
            // To a tenant, the pages of operators do not exist.
            let expected = if route == "/portal/tenants" { 404 } else { 200 };
            assert_eq!(answer.status, expected, "{place}: {answer:?}");
            check_headers(&answer);
        }
        if route.contains('{') || route.starts_with("/portal/tenants") {
            let answer = send(&other);
            assert_eq!(answer.status, 404, "{place}: {answer:?}");
            assert!(
                !answer.text.contains("outcomes") && !answer.text.contains("a.txt"),
                "{answer:?}"
            );
            // A thing of another tenant looks exactly like one that does not exist.
            let missing =
                fill("zzzzzzzzzzzzzzzzzzzzzzzz", "zzzzzzzzzzzz", &"0".repeat(64), "no-such-tenant");
            let missing = match method {
                "GET" => other.get(&missing),
                _ => other.post(&missing, &[]),
            };
            assert_eq!((missing.status, &missing.text), (404, &answer.text), "{place}");
            tried.2 += 1;
        }
    }
    assert!(tried.0 >= 31 && tried.1 >= 11 && tried.2 >= 22, "{tried:?}");
    for page in
        ["/portal/jobs?tenant=ada", "/portal/components?tenant=ada", "/portal/tokens?tenant=ada"]
    {
        other.get(page).has(404);
    }
    // Nothing that was refused has changed anything.
    let after = server.get(&ada, &format!("/v1/jobs/{job}")).has(200).json();
    assert_eq!((&after["phase"], &after["priority"]), (&json!("completed"), &json!(0)));
    server.get(&ada, "/v1/me").has(200);
    own.get("/portal/jobs").has(200);
}

#[test]
fn a_session_begins_with_a_token_and_ends_when_the_user_signs_out() {
    let server = JobServer::start("");
    let token = server.tenant("ada", &json!({}));
    let browser = Browser::new(server.url());
    let next = browser.get("/portal/jobs?q=a").has(303).header("location");
    assert_eq!(next, "/portal/sign-in?next=%2Fportal%2Fjobs%3Fq%3Da");
    let form = browser.get(&next).has(200).shows("value=\"/portal/jobs?q=a\"");
    check_headers(&form);
    let cookie = form.header("set-cookie");
    assert!(cookie.contains("HttpOnly; SameSite=Lax") && !cookie.contains("Secure"), "{cookie}");
    // The form has a secret of its own, too.
    browser.post_without_secret("/portal/sign-in", &[("token", &token)]).has(403);
    browser.get("/portal/sign-in").has(200);
    for wrong in ["", "sm_000000000000_x", &token[..token.len() - 1]] {
        browser.post("/portal/sign-in", &[("token", wrong)]).has(401).shows("the token is unknown");
    }
    let signed_in = browser
        .post("/portal/sign-in", &[("token", &token), ("next", "/portal/jobs?q=a")])
        .has(303);
    assert_eq!(signed_in.header("location"), "/portal/jobs?q=a");
    let cookie =
        signed_in.all("set-cookie").find(|cookie| cookie.starts_with("sandmill_session=")).unwrap();
    assert!(cookie.contains("Path=/portal; HttpOnly; SameSite=Lax"), "{cookie}");
    // The text of the token is in no cookie and on no page, and the API does not know the cookie.
    assert!(!cookie.contains("sm_"), "{cookie}");
    let page = browser.get("/portal/jobs").has(200);
    assert!(!page.text.contains(&token), "{}", page.text);
    browser.get("/v1/jobs").has(401);
    browser.post("/portal/sign-out", &[]).has(303);
    browser.get("/portal/jobs").has(303);
    // Over https, cookies are only for https.
    let proxied = Browser::new(server.url());
    let form = proxied.send("GET", "/portal/sign-in", &[("x-forwarded-proto", "https")], b"");
    assert!(form.header("set-cookie").contains("; Secure"), "{form:?}");
}
