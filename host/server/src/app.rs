//! What all requests share.

use crate::auth::{Rates, Sessions};
use crate::folders::StateFolder;
use crate::jobs::{JobProcesses, JobViews, KeeperHandle};
use crate::names::{TenantName, TokenId};
use crate::state::{ServerState, StateError};
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// How long the quotas of a tenant may be remembered.
const QUOTAS_KEPT: Duration = Duration::from_secs(2);

/// The most processes that look at job files at the same time. Each may take a gigabyte.
const MOST_LOOKS: usize = 4;
/// The most streams of events of one token at the same time.
const MOST_STREAMS: usize = 50;

/// A server. All requests share it.
pub(crate) struct Server {
    pub(crate) state: Arc<dyn ServerState>,
    pub(crate) folders: StateFolder,
    pub(crate) processes: JobProcesses,
    pub(crate) keeper: KeeperHandle,
    pub(crate) views: Arc<JobViews>,
    pub(crate) rates: Rates,
    pub(crate) uses: TokenUses,
    /// The processes that look at job files at the same time.
    pub(crate) looks: Arc<Semaphore>,
    pub(crate) streams: Streams,
    pub(crate) sessions: Sessions,
    request_rates: Mutex<HashMap<TenantName, (Option<u32>, Instant)>>,
    is_ending: AtomicBool,
}

impl Server {
    pub(crate) fn new(
        state: Arc<dyn ServerState>,
        processes: JobProcesses,
        keeper: KeeperHandle,
        views: Arc<JobViews>,
    ) -> Self {
        Self {
            state,
            folders: processes.folders.clone(),
            processes,
            keeper,
            views,
            rates: Rates::default(),
            uses: TokenUses::default(),
            looks: Arc::new(Semaphore::new(MOST_LOOKS)),
            streams: Streams::default(),
            sessions: Sessions::default(),
            request_rates: Mutex::default(),
            is_ending: AtomicBool::new(false),
        }
    }

    /// The requests in a second that a tenant's quotas give. `None` if they give no number. May read the state.
    pub(crate) fn rate_of(&self, tenant: Option<&TenantName>) -> Option<u32> {
        let tenant = tenant?;
        let kept = || self.request_rates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((rate, _)) = kept().get(tenant).filter(|(_, at)| at.elapsed() < QUOTAS_KEPT) {
            return *rate;
        }
        let found = self.state.tenant(tenant).ok().flatten();
        let rate = found.and_then(|tenant| tenant.quotas.requests_per_second);
        kept().insert(tenant.clone(), (rate, Instant::now()));
        rate
    }

    /// The server is about to end: it accepts and starts no jobs. It still answers, and ends jobs that users cancel.
    pub(crate) fn begin_to_end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.keeper.start_nothing();
    }

    /// Whether the server ends.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }
}

/// When tokens were used, until it is written into the state. It is written now and then, because a write for each request
/// would make all requests slow.
#[derive(Debug, Default)]
pub(crate) struct TokenUses(Mutex<HashMap<TokenId, Timestamp>>);

impl TokenUses {
    /// Notes that a token was used.
    pub(crate) fn note(&self, id: &TokenId, at: Timestamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), at);
    }

    /// Writes what was noted into the state.
    ///
    /// # Errors
    /// If the state fails.
    pub(crate) fn write(&self, state: &dyn ServerState) -> Result<(), StateError> {
        let noted = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if noted.is_empty() {
            return Ok(());
        }
        state.note_uses(&noted.into_iter().collect::<Vec<_>>())
    }
}

/// The streams of events that are open, by token.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams(Arc<Mutex<HashMap<TokenId, usize>>>);

/// An open stream. It no longer counts when this is dropped.
#[derive(Debug)]
pub(crate) struct OpenStream(Streams, TokenId);

impl Streams {
    /// Counts a stream. `None` if the token has too many.
    pub(crate) fn open(&self, token: &TokenId) -> Option<OpenStream> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(token.clone()).or_default();
        if *count >= MOST_STREAMS {
            return None;
        }
        *count += 1;
        Some(OpenStream(self.clone(), token.clone()))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let Self(streams, token) = self;
        let mut open = streams.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.get(token).copied().unwrap_or_default();
        match count {
            0 | 1 => open.remove(token),
            more => open.insert(token.clone(), more - 1),
        };
    }
}
