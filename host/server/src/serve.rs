//! Starts and ends a server.

use crate::api::openapi;
use crate::app::Server;
use crate::auth::new_secret;
use crate::error::ServeError;
use crate::folders::StateFolder;
use crate::jobs::{JobProcesses, JobViews, Keeper};
use crate::names::{JobId, now};
use crate::options::ServeOptions;
use crate::router::router;
use crate::state::{AuditEntry, Scope, ServerState, SqliteState, TokenRecord};
use axum::serve::ListenerExt;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// How often the uses of tokens are written down.
const USES_INTERVAL: Duration = Duration::from_secs(30);
/// How long requests may take after the server was asked to end.
const DRAIN: Duration = Duration::from_secs(10);

/// What the server says to the operator when it starts.
#[derive(Clone, Debug)]
pub struct Listening {
    /// The address at which it listens.
    pub address: SocketAddr,
    /// The file with the token of the first operator, if this server made it.
    pub new_token: Option<PathBuf>,
}

/// The document that describes the API (OpenAPI 3.1), as JSON.
pub fn openapi_text() -> String {
    openapi().to_pretty_json().unwrap_or_default()
}

/// Runs a server until `end` is ready. Then it finishes the requests that it has. Jobs go on.
///
/// # Errors
/// If the server cannot run.
pub async fn serve(
    folders: StateFolder,
    options: ServeOptions,
    say: impl FnOnce(&Listening),
    end: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let path = folders.path().to_owned();
    let locked = lock(&folders.lock());
    let locked = locked.map_err(|error| ServeError::Folder { path: path.clone(), error })?;
    let _lock = locked.ok_or(ServeError::InUse(path))?;
    let state: Arc<dyn ServerState> = Arc::new(SqliteState::open(&folders.database())?);
    let new_token = first_operator(&*state, &folders.operator_token())?;
    clear_unfinished(&*state, &folders)?;
    let listener = TcpListener::bind(options.listen).await;
    let listen = |error| ServeError::Listen { address: options.listen, error };
    let listener = listener.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let processes = JobProcesses {
        program: options.program,
        policy: options.policy,
        datastores: options.datastores,
        folders: folders.clone(),
    };
    let (keeper, thread) = Keeper::start(state.clone(), processes.clone(), options.most_running)?;
    let views = Arc::new(JobViews::new(folders));
    let server = Arc::new(Server::new(state, processes, keeper, views));
    say(&Listening { address, new_token });
    let uses = tokio::spawn(write_uses(server.clone()));
    let ended = run(listener, server.clone(), end).await;
    uses.abort();
    // The next server counts the uses since the last write as unused: it is a note for people.
    let _ = server.uses.write(&*server.state);
    server.keeper.end();
    // The keeper has written down all that it knows.
    let _ = tokio::task::spawn_blocking(move || thread.join()).await;
    ended.map_err(ServeError::Failed)
}

/// Answers requests until `end` is ready, and then those that it has for some time.
async fn run(
    listener: TcpListener,
    server: Arc<Server>,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (ending, mut is_ending) = tokio::sync::watch::channel(false);
    let app = router(server.clone());
    let shutdown = async move {
        end.await;
        server.begin_to_end();
        // There is a receiver.
        let _ = ending.send(true);
    };
    // Small answers go out at once.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let serving = axum::serve(listener, app).with_graceful_shutdown(shutdown);
    let drained = async move {
        // The sender lives until the server ends.
        let _ = is_ending.wait_for(|ending| *ending).await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        ended = serving => ended,
        () = drained => Ok(()),
    }
}

async fn write_uses(server: Arc<Server>) {
    loop {
        tokio::time::sleep(USES_INTERVAL).await;
        let server = server.clone();
        let written = tokio::task::spawn_blocking(move || server.uses.write(&*server.state)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!("the uses of tokens were not written down: {error}");
        }
    }
}

/// Locks the state. `None` if another process has the lock.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    let file =
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Makes a token for an operator, if no operator has one that counts. Returns the file with its text.
fn first_operator(state: &dyn ServerState, file: &Path) -> Result<Option<PathBuf>, ServeError> {
    let mut after = None;
    loop {
        let tokens = state.tokens(None, after.as_ref(), 100)?;
        let counts =
            |token: &TokenRecord| token.scopes.contains(&Scope::Admin) && token.counts_at(now());
        if tokens.iter().any(counts) {
            return Ok(None);
        }
        let Some(last) = tokens.last() else { break };
        after = Some(last.id.clone());
    }
    let made = new_secret();
    let failed = |error| ServeError::Folder { path: file.to_owned(), error };
    // The file comes first: a server that is killed between the two steps makes another token.
    // It is missing, unless a server was killed then.
    let _ = std::fs::remove_file(file);
    let mut text =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(failed)?;
    writeln!(text, "{}", made.text).and_then(|()| text.sync_all()).map_err(failed)?;
    let now = now();
    let entry = AuditEntry {
        at: now,
        tenant: None,
        actor: "server".to_owned(),
        action: "token.make",
        target: made.id.to_string(),
        detail: "the first operator".to_owned(),
    };
    let token = TokenRecord {
        id: made.id,
        hash: made.hash,
        tenant: None,
        scopes: Scope::NAMED.iter().map(|(_, scope)| *scope).collect(),
        label: "the first operator".to_owned(),
        created: now,
        expires: None,
        last_used: None,
        revoked: None,
    };
    state.add_token(&token, &entry)?;
    Ok(Some(file.to_owned()))
}

/// Removes what a server left that was killed while jobs and entry scripts were submitted.
fn clear_unfinished(state: &dyn ServerState, folders: &StateFolder) -> Result<(), ServeError> {
    for upload in entries(&folders.uploads()) {
        // What cannot be removed takes room, and nothing else.
        let _ = std::fs::remove_file(upload);
    }
    for folder in entries(&folders.submitted()).iter().flat_map(|tenant| entries(tenant)) {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Ok(id) = JobId::try_from(name.to_owned()) else { continue };
        let tenant = folder.parent().and_then(|tenant| tenant.file_name()).unwrap_or_default();
        // If the database was restored from a backup, it does not know the latest jobs.
        let has_begun = folders.jobs().join(tenant).join(name).exists();
        if !has_begun && state.job(&id)?.is_none() {
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let found =
        std::fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()));
    found.map(Iterator::collect).unwrap_or_default()
}
