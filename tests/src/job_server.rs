//! A running `sandmill serve`, and requests to it.

use crate::sandmill;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use ureq::http::Request;

/// How long a job or a server may take until it has done what a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with its state and policy in a folder of its own. The data of each tenant is below `data/NAME`.
#[derive(Debug)]
pub struct JobServer {
    dir: TempDir,
    child: Child,
    url: String,
    /// The token of the operator.
    pub operator: String,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The value of `ETag`. Empty if there is none.
    pub etag: String,
    /// The media type.
    pub kind: String,
    /// The body.
    pub text: String,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Panics if the status is another one.
    #[track_caller]
    pub fn has(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

impl JobServer {
    /// Starts a server with these lines in its policy, in addition to the roots.
    pub fn start(policy: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let shown = root.display();
        let policy = format!(
            "{policy}\nroots:\n  inputs: ['{shown}/data/${{tenant}}']\n  side_inputs: []\n  \
             entry_scripts: ['{shown}/state/submitted/${{tenant}}']\n  outputs: []\n  \
             job_directories: ['{shown}/state/jobs/${{tenant}}']\n"
        );
        fs::write(root.join("policy.yaml"), policy).unwrap();
        let (child, url) = start(&root, "127.0.0.1:0");
        let operator = fs::read_to_string(root.join("state/operator-token")).unwrap();
        Self { dir, child, url, operator: operator.trim().to_owned() }
    }

    /// The server's folder.
    pub fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    /// The address of the server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Kills the server, as `kill -9` does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts a server with the same state after the first one was killed or has ended. It has another address.
    pub fn start_again(&mut self) {
        let (child, url) = start(&self.root(), "127.0.0.1:0");
        (self.child, self.url) = (child, url);
    }

    /// Sends a signal, and waits until the server ends. Returns its exit code.
    pub fn end(&mut self, signal: rustix::process::Signal) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
        self.child.wait().unwrap().code()
    }

    /// Adds a tenant with a folder for data, and returns a token with all scopes of a tenant.
    pub fn tenant(&self, name: &str, quotas: &Value) -> String {
        fs::create_dir_all(self.root().join("data").join(name)).unwrap();
        let body = json!({"name": name, "quotas": quotas});
        self.post(&self.operator, "/v1/tenants", &body).has(201);
        let scopes = ["jobs:read", "jobs:write", "logs:read", "tokens:write"];
        self.token(&json!({"tenant": name, "scopes": scopes}))
    }

    /// Makes a token.
    pub fn token(&self, body: &Value) -> String {
        let made = self.post(&self.operator, "/v1/tokens", body).has(201);
        made.json()["token"].as_str().unwrap().to_owned()
    }

    /// Sends a request with these headers and this body.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        let agent = config.allow_non_standard_methods(true).build().new_agent();
        let mut answer = agent.run(request.body(body).unwrap()).unwrap();
        let header = |name: &str| {
            let value = answer.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let (etag, kind) = (header("etag"), header("content-type"));
        let status = answer.status().as_u16();
        let mut bytes = Vec::new();
        answer.body_mut().as_reader().read_to_end(&mut bytes).unwrap();
        Answer { status, etag, kind, text: String::from_utf8_lossy(&bytes).into_owned() }
    }

    /// Sends a request with a token and without a body.
    pub fn get(&self, token: &str, path: &str) -> Answer {
        self.send("GET", path, &[("authorization", &format!("Bearer {token}"))], b"")
    }

    /// Sends a request with JSON.
    pub fn post(&self, token: &str, path: &str, body: &Value) -> Answer {
        let token = format!("Bearer {token}");
        let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
        self.send("POST", path, &headers, body.to_string().as_bytes())
    }

    /// Uploads an entry script. Returns its digest.
    pub fn upload(&self, token: &str, script: &Path) -> String {
        let name = script.file_name().unwrap().to_string_lossy();
        let token = format!("Bearer {token}");
        let headers = [("authorization", token.as_str())];
        let bytes = fs::read(script).unwrap();
        let answer = self.send("POST", &format!("/v1/components?name={name}"), &headers, &bytes);
        assert!([200, 201].contains(&answer.status), "{answer:?}");
        answer.json()["digest"].as_str().unwrap().to_owned()
    }

    /// Writes a file of a tenant's data.
    pub fn file(&self, tenant: &str, name: &str, text: &str) {
        let path = self.root().join("data").join(tenant).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The text of a job file over all files of a tenant, one file in each mini-batch.
    pub fn job_file(&self, tenant: &str, lines: &str) -> String {
        let data = self.root().join("data").join(tenant);
        format!(
            "name: test\nentry_script: none.wasm\ninputs: {{texts: {}}}\nmini_batch_size: 1\n{lines}\n",
            data.display()
        )
    }

    /// Submits a job. Returns its id.
    pub fn submit(&self, token: &str, job: &str, component: &str) -> String {
        let body = json!({"job": job, "component": component});
        let answer = self.post(token, "/v1/jobs", &body).has(201);
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// Waits until a job is as wanted, and returns it.
    pub fn wait(&self, token: &str, id: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let job = self.get(token, &format!("/v1/jobs/{id}")).has(200).json();
            if is_wanted(&job) {
                return job;
            }
            assert!(begun.elapsed() < PATIENCE, "{job:#}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until a job is in this phase, and returns it.
    pub fn wait_for(&self, token: &str, id: &str, phase: &str) -> Value {
        self.wait(token, id, |job| job["phase"] == phase)
    }
}

impl Drop for JobServer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server, and waits until it listens. Returns the process and its address.
fn start(root: &Path, listen: &str) -> (Child, String) {
    let mut command = Command::new(sandmill());
    command.args(["serve", "--state", "state", "--policy", "policy.yaml", "--listen", listen]);
    command.env("SANDMILL_CACHE_DIR", root.join("cache")).current_dir(root);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut text = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    let mut said = String::new();
    while text.read_line(&mut line).unwrap() > 0 {
        if let Some(url) = line.trim().strip_prefix("listening at ") {
            let url = url.to_owned();
            // What the server says later goes nowhere, but the pipe must not fill.
            thread::spawn(move || text.read_to_end(&mut Vec::new()));
            return (child, url);
        }
        said += &std::mem::take(&mut line);
    }
    panic!("the server ended with {}: {said}", child.wait().unwrap());
}
