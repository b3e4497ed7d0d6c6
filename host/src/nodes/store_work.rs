//! What a leader does in the job's store for its nodes, on threads of its own: a store that is slow must not hold up the
//! leader. It gives out numbers of nodes, and reads the rows and files that nodes have put there.

use super::log_tails::NodeTails;
use super::pack::{ended_worker, success_of};
use super::proof::{record_backends, recorded_backends, take_number, was_given};
use super::remote_node::ReportedPack;
use super::row_mirror::{MirrorError, RowMirror};
use super::uncommitted_packs::PackInStore;
use super::upload::{object_below, object_name, rows_folder};
use crate::bus::StoredPack;
use crate::engine::{LogStore, OBJECT_BYTES, RemoteWork, remove_objects};
use crate::model::{MiniBatchId, NodeId, WorkerId, random_name};
use crate::opening::at_its_path;
use crate::protocol::{NodeNews, NodeReport};
use rustix::fs::{Mode, OFlags};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Cursor, Read, Seek, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A store that fails for this long costs the node whose rows cannot be read.
const PATIENCE: Duration = Duration::from_secs(300);
/// A store that fails for this long gives out no number.
const NUMBER_PATIENCE: Duration = Duration::from_secs(20);
/// The pause between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// What was done in the store.
#[derive(Debug)]
pub(super) struct StoreResult {
    /// The incarnation of the node for which it was done.
    pub(super) incarnation: String,
    pub(super) outcome: StoreOutcome,
}

/// How it ended. The texts of errors are for users.
#[derive(Debug)]
pub(super) enum StoreOutcome {
    /// The node has this number. The text is the proof in its object.
    Number(Result<GivenNumber, String>, String),
    /// The backends of the job are recorded.
    Recorded,
    /// The backends of the job could not be recorded, for this reason.
    NotRecorded(String),
    /// The rows and files of these reports are in the leader's job directory. They were in this pack.
    Fetched(Result<Vec<NodeReport>, FetchError>, PackInStore),
}

/// A number of a node.
#[derive(Debug)]
pub(super) struct GivenNumber {
    pub(super) number: NodeId,
    /// What the store records of the job's backends. `None` if it records nothing, or if the job has no models.
    pub(super) backends: Option<Vec<u8>>,
}

/// Why the rows and files of reports are not on this machine.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// The store does not have what the node reported.
    #[error("its rows are not in the job's store as it reported them: {0}")]
    Wrong(String),
    /// An object is missing.
    #[error("its rows are not in the job's store as it reported them: {0} is missing")]
    Missing(String),
    /// The store failed for too long.
    #[error("its rows cannot be read in the job's store: {0}")]
    Store(io::Error),
    /// The disk of this machine failed.
    #[error("{0}")]
    Disk(String),
}

impl From<MirrorError> for FetchError {
    fn from(error: MirrorError) -> Self {
        match error {
            MirrorError::Wrong(text) => Self::Wrong(text),
            error @ (MirrorError::Disk { .. } | MirrorError::Part(_)) => {
                Self::Disk(error.to_string())
            }
        }
    }
}

/// The leader's part of the store.
#[derive(Debug)]
pub(super) struct StoreWork {
    shared: Arc<Shared>,
    /// To the thread that removes packs. `None` if there are none.
    useless: Option<mpsc::Sender<PackInStore>>,
    sender: UnboundedSender<StoreResult>,
    results: UnboundedReceiver<StoreResult>,
}

#[derive(Debug)]
struct Shared {
    objects: Arc<dyn LogStore>,
    run: String,
    /// The number that the next node probably gets.
    next_number: AtomicU32,
    /// Whether the job has models.
    has_models: bool,
    /// The folder for what is being read.
    temporary: PathBuf,
    /// `None` if nodes write to a folder that all machines share.
    mirror: Option<RowMirror>,
    /// As `mirror`.
    tails: Option<NodeTails>,
}

impl StoreWork {
    pub(super) fn new(work: &RemoteWork) -> Self {
        let mirror = || RowMirror::new(work.folder.clone(), work.keeps_rows);
        let tails = || NodeTails::start(work.objects.clone(), work.folder.clone());
        let (sender, results) = unbounded_channel();
        let shared = Shared {
            objects: work.objects.clone(),
            run: work.run.clone(),
            next_number: AtomicU32::new(0),
            has_models: !work.backends.is_empty(),
            temporary: work.folder.work(),
            mirror: (!work.is_folder_shared).then(mirror),
            tails: (!work.is_folder_shared).then(tails),
        };
        let shared = Arc::new(shared);
        let useless = shared.mirror.is_some().then(|| remove_packs(shared.objects.clone()));
        Self { shared, useless, sender, results }
    }

    /// Removes a pack.
    pub(super) fn remove_pack(&self, pack: PackInStore) {
        // Packs that stay are removed at the job's end.
        let _ = self.useless.as_ref().map(|useless| useless.send(pack));
    }

    /// Whether the rows of nodes are objects of the store.
    pub(super) fn has_rows(&self) -> bool {
        self.shared.mirror.is_some()
    }

    /// Waits for the next result. The future can be dropped while it waits.
    pub(super) async fn next(&mut self) -> StoreResult {
        match self.results.recv().await {
            Some(result) => result,
            // This value has a sender, too.
            None => std::future::pending().await,
        }
    }

    /// The next result, if there is one.
    pub(super) fn try_next(&mut self) -> Option<StoreResult> {
        self.results.try_recv().ok()
    }

    /// Takes a number for a node: `kept`, if an earlier leader has given it to a node, or otherwise one that no node has
    /// had.
    pub(super) fn take_number(&self, incarnation: &str, kept: Option<NodeId>) {
        self.spawn(incarnation, move |shared| {
            let proof = random_name();
            let begun = Instant::now();
            let number = retried((begun, NUMBER_PATIENCE), || {
                let was_given = |kept: &NodeId| was_given(&*shared.objects, &shared.run, *kept);
                match kept.map(|kept| (kept, was_given(&kept))) {
                    Some((kept, Ok(true))) => Ok(kept),
                    Some((_, Err(error))) => Err(error),
                    Some((_, Ok(false))) | None => {
                        take_number(&*shared.objects, &shared.run, &shared.next_number, &proof)
                    }
                }
            });
            // No other number is taken if this fails for a while.
            let given = number.and_then(|number| {
                retried((begun, NUMBER_PATIENCE), || shared.with_backends(number))
            });
            StoreOutcome::Number(given.map_err(|error| error.to_string()), proof)
        });
    }

    /// Records the backends of the job, unless that was done. The incarnation is that of the node that has them.
    pub(super) fn record_backends(&self, incarnation: &str, bytes: Vec<u8>) {
        self.spawn(incarnation, move |shared| {
            let record = || record_backends(&*shared.objects, &shared.run, &bytes);
            match retried((Instant::now(), PATIENCE), record) {
                Ok(()) => StoreOutcome::Recorded,
                Err(error) => StoreOutcome::NotRecorded(error.to_string()),
            }
        });
    }

    /// Copies the logs of a node while it works. `rows`: the name of the folder for its rows. `continues`: whether an
    /// earlier leader has copied some of the logs.
    pub(super) fn copy_logs(&self, (node, rows): (NodeId, &str), continues: bool) {
        if let Some(tails) = &self.shared.tails {
            tails.add(rows_folder(&self.shared.run, rows), node, continues);
        }
    }

    /// Reads the rows and files of reports. `rows`: the name of the folder for the node's rows.
    pub(super) fn fetch(
        &self,
        incarnation: &str,
        (node, rows): (NodeId, &str),
        reports: Vec<NodeReport>,
        reported: ReportedPack,
    ) {
        let ReportedPack { pack, was_reported } = reported;
        let folder = rows_folder(&self.shared.run, rows);
        let mut pack = PackInStore { incarnation: incarnation.to_owned(), folder, pack };
        self.spawn(incarnation, move |shared| {
            let fetched = match was_reported {
                true => shared.fetch_again(node, reports, &mut pack),
                false => shared.fetch(node, reports, &pack),
            };
            StoreOutcome::Fetched(fetched, pack)
        });
    }

    fn spawn(
        &self,
        incarnation: &str,
        work: impl FnOnce(&Shared) -> StoreOutcome + Send + 'static,
    ) {
        let incarnation = incarnation.to_owned();
        let shared = self.shared.clone();
        let sender = self.sender.clone();
        let run = move || {
            let outcome = work(&shared);
            // If this fails, the job has ended.
            let _ = sender.send(StoreResult { incarnation, outcome });
        };
        // Without a thread, the node gets no answer, and is given up when it leaves.
        let _ = thread::Builder::new().name("store-work".to_owned()).spawn(run);
    }

    /// Notes that the rows of this attempt, and of all attempts that its worker reported before, are in the output.
    pub(super) fn reclaim(&self, worker: WorkerId, id: MiniBatchId, attempt: u32) {
        if let Some(mirror) = &self.shared.mirror {
            mirror.reclaim(worker, id, attempt);
        }
    }
}

/// Repeats a request to the store while it fails, for so long since the first try.
fn retried<T>(
    (begun, patience): (Instant, Duration),
    request: impl Fn() -> io::Result<T>,
) -> io::Result<T> {
    loop {
        match request() {
            Err(_) if begun.elapsed() < patience => thread::sleep(PAUSE),
            result => return result,
        }
    }
}

impl Shared {
    /// The number, and what the store records of the job's backends.
    fn with_backends(&self, number: NodeId) -> io::Result<GivenNumber> {
        let backends = match self.has_models {
            true => recorded_backends(&*self.objects, &self.run)?,
            false => None,
        };
        Ok(GivenNumber { number, backends })
    }

    fn fetch(
        &self,
        node: NodeId,
        mut reports: Vec<NodeReport>,
        pack: &PackInStore,
    ) -> Result<Vec<NodeReport>, FetchError> {
        let mut bytes = self.read(&pack.folder, &pack.pack)?;
        if let Some(tails) = self.tails.as_ref().filter(|_| have_ended(&reports)) {
            tails.complete(&pack.folder);
        }
        if let Some(mirror) = &self.mirror {
            mirror.take_over(node, &mut reports, &mut *bytes)?;
        }
        Ok(reports)
    }

    /// As [`fetch`](Self::fetch), for reports that an earlier leader has got, too. If the pack is gone, the mini-batches are
    /// committed, or run again.
    fn fetch_again(
        &self,
        node: NodeId,
        mut reports: Vec<NodeReport>,
        pack: &mut PackInStore,
    ) -> Result<Vec<NodeReport>, FetchError> {
        let mut bytes = match self.read(&pack.folder, &pack.pack) {
            Err(FetchError::Missing(name)) => {
                // Nothing is left to remove, whatever the node says about the number of objects.
                pack.pack.objects = 0;
                return Ok(without_pack(&reports, &name));
            }
            read => read?,
        };
        if let Some(mirror) = &self.mirror {
            mirror.take_over_again(node, &mut reports, &mut *bytes)?;
        }
        Ok(reports)
    }

    /// The bytes of a pack. Their length and digest are those that the node reported.
    fn read(&self, folder: &str, pack: &StoredPack) -> Result<Box<dyn Read>, FetchError> {
        let object_bytes = OBJECT_BYTES as u64;
        if u64::from(pack.objects) != pack.bytes.div_ceil(object_bytes) {
            return Err(FetchError::Wrong("its length is impossible".to_owned()));
        }
        let mut digest = Sha256::new();
        let mut left = pack.bytes;
        let mut rest = if pack.objects > 1 { Some(self.temporary_file()?) } else { None };
        let mut whole = Vec::new();
        for object in 0..pack.objects {
            let name = object_name(folder, pack.number, object);
            let bytes = self.read_object(&name)?;
            let bytes = bytes.ok_or_else(|| FetchError::Missing(name.clone()))?;
            if bytes.len() as u64 != left.min(object_bytes) {
                return Err(FetchError::Wrong(format!("{name} has another length")));
            }
            left -= bytes.len() as u64;
            digest.update(&bytes);
            match &mut rest {
                None => whole = bytes,
                Some(file) => file.write_all(&bytes).map_err(|error| self.disk(&error))?,
            }
        }
        if <[u8; 32]>::from(digest.finalize()) != pack.sha256 {
            return Err(FetchError::Wrong("its content is not that of the report".to_owned()));
        }
        match rest {
            None => Ok(Box::new(Cursor::new(whole))),
            Some(mut file) => {
                file.rewind().map_err(|error| self.disk(&error))?;
                Ok(Box::new(io::BufReader::new(file)))
            }
        }
    }

    fn read_object(&self, name: &str) -> Result<Option<Vec<u8>>, FetchError> {
        let begun = Instant::now();
        loop {
            match self.objects.read(name) {
                Ok(found) => return Ok(found),
                Err(error) if begun.elapsed() >= PATIENCE => return Err(FetchError::Store(error)),
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    /// A file without a name.
    fn temporary_file(&self) -> Result<File, FetchError> {
        let path = self.temporary.join(format!("fetched-{}", random_name()));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = at_its_path(&path, flags, Mode::RUSR | Mode::WUSR);
        let file = file.and_then(|file| fs::remove_file(&path).map(|()| File::from(file)));
        file.map_err(|error| self.disk(&error))
    }

    fn disk(&self, error: &io::Error) -> FetchError {
        FetchError::Disk(format!("cannot write to {}: {error}", self.temporary.display()))
    }
}

/// Starts a thread that removes packs. It ends when the sender is dropped.
fn remove_packs(objects: Arc<dyn LogStore>) -> mpsc::Sender<PackInStore> {
    let (sender, useless) = mpsc::channel::<PackInStore>();
    let remove = move || {
        while let Ok(first) = useless.recv() {
            let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for PackInStore { folder, pack, .. } in [first].into_iter().chain(useless.try_iter()) {
                let objects = (0..pack.objects).map(|object| object_below(pack.number, object));
                names.entry(folder).or_default().extend(objects);
            }
            for (folder, names) in names {
                // Objects that stay are removed at the job's end.
                let _ = remove_objects(&*objects, &folder, &names);
            }
        }
    };
    // Without a thread, all packs are removed at the job's end.
    let _ = thread::Builder::new().name("useless-packs".to_owned()).spawn(remove);
    sender
}

/// What reports mean whose pack is gone: their mini-batches are committed, or run again.
fn without_pack(reports: &[NodeReport], missing: &str) -> Vec<NodeReport> {
    let returned = NodeNews::Returned(reports.iter().filter_map(success_of).collect());
    let ended = reports.iter().filter_map(ended_worker).map(|worker| worker.to_string());
    let ended = ended.collect::<Vec<_>>().join(", ");
    let lost = (!ended.is_empty()).then(|| {
        NodeReport::Notice(format!(
            "the files that init and shutdown made in {ended} are lost: {missing} is not in the job's store"
        ))
    });
    lost.into_iter().chain([NodeReport::News(returned)]).collect()
}

/// Whether a node reports that all of its workers have ended. Then its logs come, too.
fn have_ended(reports: &[NodeReport]) -> bool {
    let is_end = |report: &NodeReport| match report {
        NodeReport::News(NodeNews::Standing(standing)) => {
            standing.is_ending && standing.workers() == 0
        }
        _ => false,
    };
    reports.iter().any(is_end)
}
