//! The leader's side of a process that fetches.

use super::error::StoreError;
use super::secrets::scrub;
use crate::model::StoreKind;
use crate::protocol::store::{Bring, FetchRequest, Fetched, FromFetcher, StoreConfig};
use crate::protocol::{FrameError, encode, read_frame};
use crate::wall::{self, death};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// The hidden subcommand that must end in `serve`.
pub const FETCH_COMMAND: &str = "fetch-worker";

/// Objects that are asked for at the same time.
pub(super) const AT_ONCE: usize = 16;
/// How often it is looked whether somebody wants the end.
const TICK: Duration = Duration::from_millis(100);
/// The longest that a process may take to end that has closed its output, and how often it is looked whether it has.
const ENDING: Duration = Duration::from_secs(5);
const MOMENT: Duration = Duration::from_millis(2);
/// Bytes of what the process says when it breaks down.
const STDERR: u64 = 4 << 10;
/// The longest that it may say nothing while it is at work: far longer than all attempts at a request take.
pub(super) const SILENCE: Duration = Duration::from_secs(600);
/// What it finds in its environment, where it is set: how the network is reached.
const PASSED: [&str; 10] = [
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
/// And for a kind: where the identity of a machine comes from, as far as the library looks at it by itself.
fn identity(kind: StoreKind) -> &'static [&'static str] {
    match kind {
        StoreKind::Azure => &["IDENTITY_ENDPOINT", "IDENTITY_HEADER"],
        StoreKind::Gcs => &["GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"],
        StoreKind::S3 | StoreKind::Http => &[],
    }
}

/// Who tells what this machine is, from wherever it does as usual.
const NEAR: [&str; 6] = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "metadata.google.internal",
];
/// Options and variables that name others who do.
const TELLS: [&str; 4] =
    ["identity_endpoint", "metadata_endpoint", "container_credentials_full_uri", "msi_endpoint"];
const TELLS_GOOGLE: [&str; 3] = ["GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"];

/// Whom no proxy is asked for: beside those that are named, who tells what this machine is, as a proxy would see
/// what leads into stores, or tell what it is itself.
fn direct(store: &StoreConfig, variable: impl Fn(&str) -> Option<String>) -> String {
    let named = variable("NO_PROXY").or_else(|| variable("no_proxy"));
    let told = store.options.iter().filter(|(name, _)| TELLS.iter().any(|it| name.ends_with(it)));
    let told =
        told.map(|(_, url)| url.clone()).chain(TELLS_GOOGLE.iter().filter_map(|it| variable(it)));
    let told = told.filter_map(|url| {
        let (_, rest) = url.split_once("://").unwrap_or(("", &url));
        let authority = rest.split(['/', '?', '#']).next()?.rsplit('@').next()?;
        let host = match authority.strip_prefix('[') {
            Some(six) => six.split(']').next(),
            None => authority.split(':').next(),
        };
        host.map(str::to_owned)
    });
    let all = named.into_iter().chain(NEAR.map(str::to_owned)).chain(told);
    all.filter(|host| !host.is_empty()).collect::<Vec<_>>().join(",")
}

/// What a process said; none at its end.
pub(super) type Said = Option<Result<FromFetcher, FrameError>>;

/// A process that fetches. It does not outlive this.
#[derive(Debug)]
pub(super) struct Fetcher {
    child: Child,
    /// Where more can be asked for.
    asks: Option<Sender<Vec<u8>>>,
    complaint: Receiver<String>,
    store: StoreConfig,
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Fetcher {
    /// Starts one; all that it says goes to `hear`, on a thread. It ends with the thread that started it.
    pub(super) fn start(
        program: &Path,
        request: &FetchRequest,
        hear: impl FnMut(Said) -> bool + Send + 'static,
    ) -> Result<Self, StoreError> {
        let mut frame = Vec::new();
        encode(request, &mut frame).map_err(StoreError::Request)?;
        let mut command = Command::new(program);
        command.arg(FETCH_COMMAND).env_clear().current_dir("/");
        let passed = PASSED.iter().chain(identity(request.store.kind));
        command.envs(passed.filter_map(|name| Some((name, std::env::var_os(name)?))));
        let direct = direct(&request.store, |name| std::env::var(name).ok());
        command.envs(["NO_PROXY", "no_proxy"].map(|name| (name, &direct)));
        wall::keep_apart(&mut command);
        let stdin = Stdio::piped();
        let stdout = Stdio::piped();
        let child = command.stdin(stdin).stdout(stdout).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(StoreError::Start)?;
        let complaint = complaint(&mut child);
        listen(&mut child, hear);
        let asks = talk(&mut child);
        // If it does not listen, its end says more.
        let _ = asks.send(frame);
        Ok(Self { child, asks: Some(asks), complaint, store: request.store.clone() })
    }

    /// Asks for an object. If it does not listen, its end says more.
    pub(super) fn bring(&self, object: &Bring) {
        let mut frame = Vec::new();
        if let (Some(asks), Ok(())) = (&self.asks, encode(object, &mut frame)) {
            let _ = asks.send(frame);
        }
    }

    /// How it ended; to be asked once it says nothing more.
    pub(super) fn end(mut self) -> StoreError {
        let status = match ended(&mut self.child) {
            Ok(status) => status,
            Err(error) => return StoreError::Start(error),
        };
        let said = self.complaint.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        StoreError::Died { how: death(status), faults: scrub(said.trim(), &self.store) }
    }
}

/// Has a process do all that is asked for at once. `tell` hears how far it is.
pub(super) fn ask(
    program: &Path,
    request: &FetchRequest,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(Fetched),
) -> Result<Fetched, StoreError> {
    let (sender, messages) = mpsc::channel();
    let hear = move |said: Said| said.is_some_and(|said| sender.send(said).is_ok());
    let mut fetcher = Fetcher::start(program, request, hear)?;
    fetcher.asks = None;
    let mut heard = Instant::now();
    loop {
        match messages.recv_timeout(TICK) {
            Ok(Ok(FromFetcher::Done(so_far))) => return Ok(so_far),
            Ok(Ok(FromFetcher::Failed(failed))) => return Err(failed.into()),
            Ok(Ok(FromFetcher::Progress(so_far))) => {
                heard = Instant::now();
                tell(so_far);
            }
            Ok(Ok(FromFetcher::Brought(..))) => {}
            Ok(Err(error)) => return Err(StoreError::Nonsense(error)),
            Err(RecvTimeoutError::Disconnected) => return Err(fetcher.end()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop() {
            return Err(StoreError::Stopped);
        }
        if heard.elapsed() > SILENCE {
            return Err(StoreError::Silent(SILENCE));
        }
    }
}

/// Writes to the process what is asked of it, on a thread: one that was taken over need not read. Nothing more is asked
/// once the sender is dropped.
fn talk(child: &mut Child) -> Sender<Vec<u8>> {
    let (sender, frames) = mpsc::channel::<Vec<u8>>();
    if let Some(mut stdin) = child.stdin.take() {
        thread::spawn(move || {
            while let Ok(frame) = frames.recv() {
                // It is killed, or does not listen any more.
                if stdin.write_all(&frame).is_err() {
                    return;
                }
            }
        });
    }
    sender
}

/// How a process ended that has closed its output, so that it is ending. One that is not, is ended.
fn ended(child: &mut Child) -> std::io::Result<ExitStatus> {
    let begun = Instant::now();
    while begun.elapsed() < ENDING {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(MOMENT);
    }
    child.kill()?;
    child.wait()
}

/// What the process says, on a thread, until nobody wants to hear it.
fn listen(child: &mut Child, mut hear: impl FnMut(Said) -> bool + Send + 'static) {
    let Some(mut stdout) = child.stdout.take() else { return };
    thread::spawn(move || {
        let mut buffer = Vec::new();
        loop {
            let said = read_frame(&mut stdout, &mut buffer).transpose();
            let is_last = !matches!(said, Some(Ok(_)));
            if !hear(said) || is_last {
                return;
            }
        }
    });
}

/// What it says when it breaks down, on a thread.
fn complaint(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    if let Some(stderr) = child.stderr.take() {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // What was read before an error is all there is to tell.
            let _ = stderr.take(STDERR).read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        });
    }
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{Found, Object};
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    /// Starts a process that does what a shell script says.
    fn started(script: &str) -> (tempfile::TempDir, Fetcher) {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("fetches");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o700)).unwrap();
        let fetcher =
            Fetcher::start(&program, &FetchRequest::sample(dir.path()), |_| true).unwrap();
        (dir, fetcher)
    }

    /// One that was taken over must not hold up who asks it.
    #[test]
    fn a_process_that_does_not_listen_holds_nobody_up() {
        let (_dir, fetcher) = started("exec sleep 60");
        let object = Bring {
            name: "x".repeat(30_000),
            known: Object { found: Found::sample(), version: 0 },
        };
        let begun = Instant::now();
        (0..100).for_each(|_| fetcher.bring(&object));
        drop(fetcher);
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_process_that_closes_its_output_and_stays_is_ended() {
        let (_dir, fetcher) = started("exec sleep 60 >&- 2>&-");
        let begun = Instant::now();
        let error = fetcher.end().to_string();
        assert!(begun.elapsed() < Duration::from_secs(30) && error.contains("signal 9"), "{error}");
    }

    #[test]
    fn no_proxy_is_told_what_this_machine_is() {
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
        insta::assert_snapshot!(direct(&store, variable), @"intern.example,169.254.169.254,169.254.170.2,169.254.170.23,fd00:ec2::254,fd00:ec2::23,metadata.google.internal,127.0.0.1,::1,tells,meta");
    }
}
