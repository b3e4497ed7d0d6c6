//! Brings what a job reads from stores to this machine, by way of a process that fetches.

use super::config::configure;
use super::message::{FetchRequest, Fetched, FromFetcher, StoreConfig, Task, Wanted};
use super::serve::FETCH_COMMAND;
use super::slot::{self, Slot};
use crate::model::{Address, ByteSize, Input, OsSandbox, StoreKind};
use crate::protocol::{FrameError, PROTOCOL_VERSION, encode, read_frame};
use crate::spec::Datastores;
use crate::wall::{self, death};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// What a job reads cannot be fetched; for people, complete.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

/// Who fetches, and where to.
#[derive(Debug)]
pub struct Stager<'a> {
    /// The `sandmill` binary.
    pub program: &'a Path,
    /// The folder for objects.
    pub cache: &'a Path,
    /// How much of the process wall must stand.
    pub os_sandbox: OsSandbox,
    /// Stores by name.
    pub datastores: &'a Datastores,
    /// On whose behalf.
    pub tenant: &'a str,
}

/// How often it is looked whether somebody wants the end.
const TICK: Duration = Duration::from_millis(100);
/// How often progress is told.
const TELL: Duration = Duration::from_secs(10);
/// Bytes of what the process says when it breaks down.
const STDERR: u64 = 4 << 10;
/// The longest that it may say nothing while it is alive: far longer than all attempts at a request take.
const SILENCE: Duration = Duration::from_secs(600);
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

/// What is fetched together: all that an input wants of one folder of a store.
struct Part {
    store: StoreConfig,
    prefix: String,
    wanted: Wanted,
    shown: String,
    /// Where the input's paths lead, below the slot's folder for objects.
    paths: Vec<String>,
}

impl Stager<'_> {
    /// Fetches all that an input names in stores. Returns the input with paths of this machine, and what must
    /// be kept for as long as anybody reads there. Inputs of this machine are left as they are.
    ///
    /// # Errors
    /// If a store cannot be listed, does not have what is named, or holds more than fits. An object that
    /// cannot be fetched is none: it becomes a failed item.
    pub fn stage(
        &self,
        input: &Input,
        stop: &dyn Fn() -> bool,
        say: &mut dyn FnMut(&str),
    ) -> Result<(Input, Vec<Slot>), StoreError> {
        let named = |text: String| StoreError(format!("input '{}': {text}", input.name));
        let (mut paths, mut slots) = (Vec::new(), Vec::new());
        for part in self.parts(input).map_err(named)? {
            slot::prune(self.cache, self.datastores.cache_size().0);
            let slot = Slot::take(self.cache, &part.place()).map_err(|error| {
                let cache = self.cache.display();
                named(format!("the folder for objects {cache} cannot be used: {error}"))
            })?;
            say(&format!("input '{}': fetching {}", input.name, part.shown));
            let began = Instant::now();
            let so_far = self.fetch(&part, &slot, stop, say).map_err(named)?;
            say(&format!("input '{}': {}", input.name, summary(&so_far, began.elapsed())));
            let data = slot.data();
            let below = |path: &String| data.join(path).to_string_lossy().into_owned();
            paths.extend(part.paths.iter().map(below));
            slots.push(slot);
        }
        if slots.is_empty() {
            return Ok((input.clone(), slots));
        }
        Ok((Input { paths, ..input.clone() }, slots))
    }

    /// What an input names, by folder.
    fn parts(&self, input: &Input) -> Result<Vec<Part>, String> {
        let mut parts: Vec<Part> = Vec::new();
        for address in input.addresses() {
            let environment = std::env::vars_os();
            let (store, before) = configure(&address, self.datastores, self.tenant, environment)?;
            if store.kind == StoreKind::Http && (address.key.ends_with('/') || address.is_glob()) {
                return Err(format!(
                    "{address}: a web server does not list its folders; name each object by paths"
                ));
            }
            let (folder, rest) = address.split();
            let prefix = format!("{before}{folder}");
            let wanted = match rest {
                "" => Wanted::All,
                rest if address.is_glob() => Wanted::Glob(rest.to_owned()),
                name => Wanted::Named(vec![name.to_owned()]),
            };
            let same = parts.iter_mut().find(|part| part.store == store && part.prefix == prefix);
            match (same, &wanted) {
                (Some(Part { wanted: Wanted::Named(names), paths, .. }), Wanted::Named(more)) => {
                    names.extend(more.iter().filter(|name| !paths.contains(name)).cloned());
                    paths.push(rest.to_owned());
                }
                _ => parts.push(Part {
                    store,
                    prefix,
                    wanted,
                    shown: shown(&address),
                    paths: vec![rest.to_owned()],
                }),
            }
        }
        Ok(parts)
    }

    fn fetch(
        &self,
        part: &Part,
        slot: &Slot,
        stop: &dyn Fn() -> bool,
        say: &mut dyn FnMut(&str),
    ) -> Result<Fetched, String> {
        let task =
            Task::Fetch { wanted: part.wanted.clone(), most: self.datastores.cache_size().0 };
        let request = FetchRequest {
            protocol: PROTOCOL_VERSION,
            os_sandbox: self.os_sandbox,
            store: part.store.clone(),
            prefix: part.prefix.clone(),
            task,
            shown: part.shown.clone(),
            folder: slot.folder().to_owned(),
        };
        self.ask(&request, stop, say)
    }

    /// Puts all files of a folder to an address.
    ///
    /// # Errors
    /// If one of them did not arrive. Those that did stay there.
    pub fn put(
        &self,
        folder: &Path,
        address: &Address,
        stop: &dyn Fn() -> bool,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), StoreError> {
        let environment = std::env::vars_os();
        let (store, before) =
            configure(address, self.datastores, self.tenant, environment).map_err(StoreError)?;
        let below = address.key.trim_end_matches('/');
        let below = if below.is_empty() { String::new() } else { format!("{below}/") };
        let request = FetchRequest {
            protocol: PROTOCOL_VERSION,
            os_sandbox: self.os_sandbox,
            store,
            prefix: format!("{before}{below}"),
            task: Task::Put,
            shown: address.to_string(),
            folder: folder.to_owned(),
        };
        say(&format!("writing the results to {address}"));
        let so_far = self.ask(&request, stop, say).map_err(StoreError)?;
        let noun = if so_far.objects == 1 { "object" } else { "objects" };
        say(&format!("{} {noun}, {}", so_far.objects, ByteSize(so_far.bytes).rounded()));
        Ok(())
    }

    /// Has a process do it.
    fn ask(
        &self,
        request: &FetchRequest,
        stop: &dyn Fn() -> bool,
        say: &mut dyn FnMut(&str),
    ) -> Result<Fetched, String> {
        let mut frame = Vec::new();
        encode(request, &mut frame).map_err(|error| format!("too much is named: {error}"))?;
        let broken =
            |error: io::Error| format!("the process that fetches cannot be started: {error}");
        let mut command = Command::new(self.program);
        command.arg(FETCH_COMMAND).env_clear().current_dir("/");
        command.envs(PASSED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        wall::keep_apart(&mut command);
        let (stdin, stdout) = (Stdio::piped(), Stdio::piped());
        let child = command.stdin(stdin).stdout(stdout).stderr(Stdio::piped()).spawn();
        let mut child = Ended(child.map_err(broken)?);
        if let Some(mut stdin) = child.0.stdin.take() {
            // If it does not listen, its end says more.
            let _ = stdin.write_all(&frame);
        }
        let complaint = complaint(&mut child.0);
        let messages = listen(&mut child.0);
        let heard = wait(&messages, stop, say);
        if let Heard::Said(result) = heard {
            return result;
        }
        if let Heard::Stopped(text) = heard {
            return Err(text);
        }
        // It has closed its output, so that it is ending.
        let status = child.0.wait().map_err(broken)?;
        let said = complaint.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        Err(broke_down(status, &said, &request.store))
    }
}

impl Part {
    /// What tells this part from others, of the same job or of others.
    fn place(&self) -> String {
        let public = ["endpoint", "account_name", "region"];
        let options: Vec<_> = self
            .store
            .options
            .iter()
            .filter(|(name, _)| public.iter().any(|public| name.ends_with(public)))
            .collect();
        let Self { store, prefix, wanted, .. } = self;
        format!("{:?} {} {options:?} {prefix:?} {wanted:?}", store.kind, store.container)
    }
}

/// The folder of an address, or all of it if it is a glob.
fn shown(address: &Address) -> String {
    match address.split() {
        (folder, _) if !address.is_glob() && address.key != folder => {
            format!("{}/{folder}", address.place)
        }
        _ => address.to_string(),
    }
}

/// A process that does not outlive its use.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

enum Heard {
    Said(Result<Fetched, String>),
    /// In words, why nobody waits any more.
    Stopped(String),
    Nothing,
}

fn wait(
    messages: &Receiver<Result<FromFetcher, FrameError>>,
    stop: &dyn Fn() -> bool,
    say: &mut dyn FnMut(&str),
) -> Heard {
    let (mut told, mut heard) = (Instant::now(), Instant::now());
    loop {
        match messages.recv_timeout(TICK) {
            Ok(Ok(FromFetcher::Done(so_far))) => return Heard::Said(Ok(so_far)),
            Ok(Ok(FromFetcher::Failed(text))) => return Heard::Said(Err(printable(&text))),
            Ok(Ok(FromFetcher::Progress(so_far))) => {
                heard = Instant::now();
                if told.elapsed() >= TELL {
                    told = Instant::now();
                    let bytes = ByteSize(so_far.bytes).rounded();
                    say(&format!("so far {} objects, {bytes}", so_far.objects));
                }
            }
            Ok(Err(error)) => {
                return Heard::Stopped(format!("the process that fetches says nonsense: {error}"));
            }
            Err(RecvTimeoutError::Disconnected) => return Heard::Nothing,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop() {
            return Heard::Stopped("fetching was stopped, as was asked".to_owned());
        }
        if heard.elapsed() > SILENCE {
            let seconds = SILENCE.as_secs();
            return Heard::Stopped(format!("nothing arrived for {seconds} s; fetching was ended"));
        }
    }
}

/// What the process says, on a thread.
fn listen(child: &mut Child) -> Receiver<Result<FromFetcher, FrameError>> {
    let (sender, receiver) = mpsc::channel();
    if let Some(mut stdout) = child.stdout.take() {
        thread::spawn(move || {
            let mut buffer = Vec::new();
            while let Some(message) = read_frame(&mut stdout, &mut buffer).transpose() {
                let is_last = message.is_err();
                if sender.send(message).is_err() || is_last {
                    return;
                }
            }
        });
    }
    receiver
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

fn broke_down(status: ExitStatus, said: &str, store: &StoreConfig) -> String {
    let said = super::words::scrub(said.trim(), store);
    let said = if said.is_empty() { said } else { format!("; what it said: {said}") };
    format!("the process that fetches {}{said}", death(status))
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn summary(so_far: &Fetched, took: Duration) -> String {
    let Fetched { objects, bytes, fetched, failed } = *so_far;
    let noun = if objects == 1 { "object" } else { "objects" };
    let bytes = ByteSize(bytes).rounded();
    let bad = if failed > 0 { format!(", {failed} could not be fetched") } else { String::new() };
    let seconds = took.as_secs_f64();
    format!("{objects} {noun}, {bytes}; {fetched} fetched in {seconds:.1} s{bad}")
}
