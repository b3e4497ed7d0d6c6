//! The leader's side of a fetcher process.

use super::error::StoreError;
use super::secrets::scrub;
use crate::model::StoreKind;
use crate::protocol::store::{
    FetchRequest, Fetched, FromFetcher, MayPublish, ObjectCall, ObjectRequest, StoreConfig,
    StoreTask,
};
use crate::protocol::{FrameError, encode, read_frame};
use crate::wall::{self, death};
use serde::Serialize;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// The hidden subcommand that starts the fetcher process. For this subcommand, the binary must call
/// `serve`.
pub const FETCH_COMMAND: &str = "fetch-worker";

/// The maximum number of objects that a process fetches at the same time.
pub(super) const PARALLEL_FETCHES: usize = 16;
/// The interval at which we check whether the caller wants to stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// How long a process may take to exit after it closed its output, and the interval at which we check whether
/// it has exited.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
const EXIT_CHECK_INTERVAL: Duration = Duration::from_millis(2);
/// At most this many bytes of the process's stderr are kept.
const MAX_STDERR_BYTES: u64 = 4 << 10;
/// The longest time that a busy process may report nothing: far longer than all attempts at a request take.
pub(super) const MAX_SILENCE: Duration = Duration::from_secs(600);
/// The environment variables that are passed to the process: they say how to reach the network.
const PASSED_VARIABLES: [&str; 10] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

/// More such variables for a kind of store. With these, the library `object_store` finds the
/// machine's identity by itself.
fn identity_variables(kind: StoreKind) -> &'static [&'static str] {
    match kind {
        StoreKind::Azure => &["IDENTITY_ENDPOINT", "IDENTITY_HEADER"],
        StoreKind::Gcs => &["GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"],
        StoreKind::S3 | StoreKind::Http => &[],
    }
}

/// The usual metadata servers, from which a process gets the credentials of its machine.
const METADATA_SERVERS: [&str; 6] = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "metadata.google.internal",
];
/// An option whose name ends in one of these gives another address for the metadata server. The
/// [`GOOGLE_ENDPOINT_VARIABLES`] do the same for Google's stores.
const ENDPOINT_OPTIONS: [&str; 4] =
    ["identity_endpoint", "metadata_endpoint", "container_credentials_full_uri", "msi_endpoint"];
const GOOGLE_ENDPOINT_VARIABLES: [&str; 3] =
    ["GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"];

/// The value of `NO_PROXY` for the process: the hosts that the user named, and all metadata servers. A proxy
/// would see the credentials that these servers return, or would return the credentials of its own machine.
fn no_proxy(store: &StoreConfig, variable: impl Fn(&str) -> Option<String>) -> String {
    let user_hosts = variable("NO_PROXY").or_else(|| variable("no_proxy"));
    let endpoints = store
        .options
        .iter()
        .filter(|(name, _)| ENDPOINT_OPTIONS.iter().any(|end| name.ends_with(end)));
    let endpoints = endpoints
        .map(|(_, url)| url.clone())
        .chain(GOOGLE_ENDPOINT_VARIABLES.iter().filter_map(|name| variable(name)));
    let endpoints = endpoints.filter_map(|url| {
        let (_, rest) = url.split_once("://").unwrap_or(("", &url));
        let authority = rest.split(['/', '?', '#']).next()?.rsplit('@').next()?;
        let host = match authority.strip_prefix('[') {
            Some(ipv6) => ipv6.split(']').next(),
            None => authority.split(':').next(),
        };
        host.map(str::to_owned)
    });
    let hosts = user_hosts.into_iter().chain(METADATA_SERVERS.map(str::to_owned)).chain(endpoints);
    hosts.filter(|host| !host.is_empty()).collect::<Vec<_>>().join(",")
}

/// A report of a fetcher process. `None` if the process has closed its output.
pub(super) type FetcherReport = Option<Result<FromFetcher, FrameError>>;

/// A fetcher process. It is killed when this value is dropped.
#[derive(Debug)]
pub(super) struct Fetcher {
    child: Child,
    /// Sends requests to the process. If the process handles only one request, this is `None` after
    /// that request was sent.
    requests: Option<Sender<Vec<u8>>>,
    stderr: Receiver<String>,
    store: StoreConfig,
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        // Fails if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Fetcher {
    /// Starts a process. A new thread passes its reports to `on_report`. The process dies with the thread
    /// that called this function.
    pub(super) fn start(
        program: &Path,
        request: &FetchRequest,
        on_report: impl FnMut(FetcherReport) -> bool + Send + 'static,
    ) -> Result<Self, StoreError> {
        let mut frame = Vec::new();
        encode(request, &mut frame).map_err(StoreError::Request)?;
        let mut command = Command::new(program);
        command.arg(FETCH_COMMAND).env_clear().current_dir("/");
        let passed = PASSED_VARIABLES.iter().chain(identity_variables(request.store.kind));
        command.envs(passed.filter_map(|name| Some((name, std::env::var_os(name)?))));
        let no_proxy = no_proxy(&request.store, |name| std::env::var(name).ok());
        command.envs(["NO_PROXY", "no_proxy"].map(|name| (name, &no_proxy)));
        wall::keep_apart(&mut command);
        let stdin = Stdio::piped();
        let stdout = Stdio::piped();
        let child = command.stdin(stdin).stdout(stdout).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(StoreError::Start)?;
        let stderr = read_stderr(&mut child);
        read_reports(&mut child, on_report);
        let requests = write_requests(&mut child);
        // An error is ignored: if the process does not read its input, its exit status says more.
        let _ = requests.send(frame);
        Ok(Self { child, requests: Some(requests), stderr, store: request.store.clone() })
    }

    /// Requests an object. If the process does not read its input, its exit status says more.
    pub(super) fn request(&self, object: &ObjectRequest) {
        self.send(object);
    }

    /// Calls the process. If the process does not read its input, its exit status says more.
    pub(super) fn call(&self, call: &ObjectCall) {
        self.send(call);
    }

    fn send(&self, message: &impl Serialize) {
        let mut frame = Vec::new();
        if let (Some(requests), Ok(())) = (&self.requests, encode(message, &mut frame)) {
            let _ = requests.send(frame);
        }
    }

    /// Waits for the process, and returns how it ended. The process must have closed its output
    /// already.
    pub(super) fn end(mut self) -> StoreError {
        let status = match wait_for_exit(&mut self.child) {
            Ok(status) => status,
            Err(error) => return StoreError::Start(error),
        };
        let printed = self.stderr.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        StoreError::Died { how: death(status), faults: scrub(printed.trim(), &self.store) }
    }
}

/// Starts a process for one request, and waits until the request is done. `report` receives the
/// progress. `may_publish` is asked once the process knows which objects the results would replace.
pub(super) fn run_request(
    program: &Path,
    request: &FetchRequest,
    (stop, may_publish): (&dyn Fn() -> bool, &dyn Fn() -> bool),
    report: &mut dyn FnMut(Fetched),
) -> Result<Fetched, StoreError> {
    let (sender, messages) = mpsc::channel();
    let on_report =
        move |report: FetcherReport| report.is_some_and(|report| sender.send(report).is_ok());
    let mut fetcher = Fetcher::start(program, request, on_report)?;
    if request.task != StoreTask::Publish {
        fetcher.requests = None;
    }
    let mut received = Instant::now();
    loop {
        match messages.recv_timeout(STOP_CHECK_INTERVAL) {
            Ok(Ok(FromFetcher::Done(so_far))) => return Ok(so_far),
            Ok(Ok(FromFetcher::Failed(failed))) => return Err(failed.into()),
            Ok(Ok(FromFetcher::Progress(so_far))) => {
                received = Instant::now();
                report(so_far);
            }
            Ok(Ok(FromFetcher::Noted)) if !may_publish() => return Err(StoreError::Superseded),
            Ok(Ok(FromFetcher::Noted)) => {
                received = Instant::now();
                fetcher.send(&MayPublish);
            }
            Ok(Ok(FromFetcher::Downloaded(..) | FromFetcher::Answer(..))) => {}
            Ok(Err(error)) => return Err(StoreError::Nonsense(error)),
            Err(RecvTimeoutError::Disconnected) => return Err(fetcher.end()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop() {
            return Err(StoreError::Stopped);
        }
        if received.elapsed() > MAX_SILENCE {
            return Err(StoreError::Silent(MAX_SILENCE));
        }
    }
}

/// Returns a sender for requests. A thread writes them to the process, because a compromised process might
/// not read them. The process's input is closed when the sender is dropped.
fn write_requests(child: &mut Child) -> Sender<Vec<u8>> {
    let (sender, frames) = mpsc::channel::<Vec<u8>>();
    if let Some(mut stdin) = child.stdin.take() {
        thread::spawn(move || {
            while let Ok(frame) = frames.recv() {
                // The process was killed, or it no longer reads.
                if stdin.write_all(&frame).is_err() {
                    return;
                }
            }
        });
    }
    sender
}

/// Waits for the exit of a process that has closed its output. Kills it if it does not exit.
fn wait_for_exit(child: &mut Child) -> std::io::Result<ExitStatus> {
    let begun = Instant::now();
    while begun.elapsed() < EXIT_TIMEOUT {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(EXIT_CHECK_INTERVAL);
    }
    child.kill()?;
    child.wait()
}

/// Passes the reports of the process to `on_report`, on a thread, until `on_report` returns false.
fn read_reports(
    child: &mut Child,
    mut on_report: impl FnMut(FetcherReport) -> bool + Send + 'static,
) {
    let Some(mut stdout) = child.stdout.take() else { return };
    thread::spawn(move || {
        let mut buffer = Vec::new();
        loop {
            let report = read_frame(&mut stdout, &mut buffer).transpose();
            let is_last = !matches!(report, Some(Ok(_)));
            if !on_report(report) || is_last {
                return;
            }
        }
    });
}

/// Reads the process's stderr, on a thread.
fn read_stderr(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    if let Some(stderr) = child.stderr.take() {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // After an error, what was read so far is used.
            let _ = stderr.take(MAX_STDERR_BYTES).read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        });
    }
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{FileVersion, ManifestObject};
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    /// Starts a process that runs a shell script.
    fn started(script: &str) -> (tempfile::TempDir, Fetcher) {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("fetches");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o700)).unwrap();
        let fetcher =
            Fetcher::start(&program, &FetchRequest::sample(dir.path()), |_| true).unwrap();
        (dir, fetcher)
    }

    /// A compromised process must not block the caller.
    #[test]
    fn a_process_that_does_not_read_cannot_block_us() {
        let (_dir, fetcher) = started("exec sleep 60");
        let object = ObjectRequest {
            name: "x".repeat(30_000),
            known: ManifestObject { found: FileVersion::sample(), version: 0 },
        };
        let begun = Instant::now();
        (0..100).for_each(|_| fetcher.request(&object));
        drop(fetcher);
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_process_that_closes_its_output_is_killed() {
        let (_dir, fetcher) = started("exec sleep 60 >&- 2>&-");
        let begun = Instant::now();
        let error = fetcher.end().to_string();
        assert!(begun.elapsed() < Duration::from_secs(30) && error.contains("signal 9"), "{error}");
    }

    #[test]
    fn metadata_servers_are_reached_without_a_proxy() {
        let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let store = StoreConfig {
            options: vec![
                option("aws_container_credentials_full_uri", "http://127.0.0.1:8080/pod"),
                option("identity_endpoint", "http://[::1]:42/msi/token"),
                option("aws_metadata_endpoint", "http://me:pw@tells?x"),
                option("aws_endpoint_url", "http://store:9000"),
            ],
            ..StoreConfig::sample()
        };
        let variable = |name: &str| match name {
            "no_proxy" => Some("intern.example".to_owned()),
            "GCE_METADATA_HOST" => Some("meta:80".to_owned()),
            _ => None,
        };
        insta::assert_snapshot!(no_proxy(&store, variable), @"intern.example,169.254.169.254,169.254.170.2,169.254.170.23,fd00:ec2::254,fd00:ec2::23,metadata.google.internal,127.0.0.1,::1,tells,meta");
    }
}
