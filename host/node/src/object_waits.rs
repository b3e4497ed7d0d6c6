//! The attempts whose objects, and bytes of the planner's files, are fetched before a worker gets them, on a machine that
//! runs workers for a leader on another machine. A worker gets its attempts in the order in which they were assigned to
//! it.

use super::fetched_spill::{local_name, local_names};
use crate::model::{MiniBatchId, StoredSpill, WorkerId};
use crate::protocol::Assignment;
use crate::protocol::store::UnfetchedObject;
use std::collections::{HashMap, VecDeque};

/// A try at a mini-batch, by its number.
type AttemptKey = (MiniBatchId, u32);

/// The attempts that have requested objects.
#[derive(Debug, Default)]
pub(super) struct ObjectWaits {
    /// The number of the next request.
    next_request: u64,
    /// By worker: the attempts that it has not got, in order.
    waiting: HashMap<WorkerId, VecDeque<WaitingAttempt>>,
    /// The requests of all attempts that have not ended.
    requests: HashMap<AttemptKey, AttemptRequests>,
}

/// An attempt that its worker has not got.
#[derive(Debug)]
struct WaitingAttempt {
    assignment: Assignment,
    /// The requests that it waits for. Empty if it only waits for its turn.
    awaited: Vec<u64>,
}

#[derive(Clone, Debug)]
struct AttemptRequests {
    worker: WorkerId,
    numbers: Vec<u64>,
}

/// What must be requested for an attempt, each with the number of the request.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Requests {
    /// The objects of the [assignment](Assignment::objects).
    pub(super) objects: Option<u64>,
    /// The bytes of the planner's files.
    pub(super) spill: Option<(u64, StoredSpill)>,
}

/// What follows from an arrival.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ObjectsArrived {
    /// The attempts that the worker gets now, in order.
    pub(super) ready: Vec<Assignment>,
    /// The attempt that cannot begin, with the objects that are missing.
    pub(super) unfetched: Option<(AttemptKey, Vec<UnfetchedObject>)>,
}

impl ObjectWaits {
    /// Takes an attempt that a worker shall get. Returns what must be requested for it. The worker then gets a mini-batch
    /// that reads copies on this machine.
    pub(super) fn add(&mut self, worker: WorkerId, mut assignment: Assignment) -> Requests {
        let mut requests = Requests::default();
        let mut numbers = Vec::new();
        let mut next_number = || {
            let number = self.next_request;
            self.next_request += 1;
            numbers.push(number);
            number
        };
        if !assignment.objects.is_empty() {
            requests.objects = Some(next_number());
        }
        let batch = &mut assignment.mini_batch;
        if batch.must_fetch_spill()
            && let Some(spill) = batch.spill.clone()
        {
            let number = next_number();
            batch.read_spill_from(&local_name(number), &local_names(&spill));
            requests.spill = Some((number, *spill));
        }
        if !numbers.is_empty() {
            let key = (batch.id, assignment.attempt);
            self.requests.insert(key, AttemptRequests { worker, numbers: numbers.clone() });
        }
        let queue = self.waiting.entry(worker).or_default();
        queue.push_back(WaitingAttempt { assignment, awaited: numbers });
        requests
    }

    /// Whether a worker has attempts that it has not got.
    pub(super) fn has_queue(&self, worker: WorkerId) -> bool {
        self.waiting.contains_key(&worker)
    }

    /// Handles the answer to a request of objects. Returns the worker, too. `None` if no attempt waits for this request.
    pub(super) fn arrived(
        &mut self,
        number: u64,
        failed: Vec<UnfetchedObject>,
    ) -> Option<(WorkerId, ObjectsArrived)> {
        self.answered(number, |assignment| {
            // The positions of the leader are those of the mini-batch.
            let objects = failed.into_iter().filter_map(|object| {
                let file = assignment.objects.get(object.file as usize)?.file;
                Some(UnfetchedObject { file, ..object })
            });
            objects.collect()
        })
    }

    /// As [`arrived`](Self::arrived), for bytes of the planner's files. `failed`: why they could not be fetched.
    pub(super) fn spill_arrived(
        &mut self,
        number: u64,
        failed: Option<String>,
    ) -> Option<(WorkerId, ObjectsArrived)> {
        self.answered(number, |assignment| {
            let file = assignment.mini_batch.spill_position();
            // Another machine may be able to fetch them.
            let unfetched =
                |reason| UnfetchedObject { file, reason, is_final: false, is_other: false };
            failed.map(unfetched).into_iter().collect()
        })
    }

    fn answered(
        &mut self,
        number: u64,
        failed: impl FnOnce(&Assignment) -> Vec<UnfetchedObject>,
    ) -> Option<(WorkerId, ObjectsArrived)> {
        let is_asked = |requests: &&AttemptRequests| requests.numbers.contains(&number);
        let worker = self.requests.values().find(is_asked)?.worker;
        let queue = self.waiting.get_mut(&worker)?;
        let place = queue.iter().position(|waiting| waiting.awaited.contains(&number))?;
        let waiting = queue.get_mut(place)?;
        let failed = failed(&waiting.assignment);
        let mut unfetched = None;
        if failed.is_empty() {
            waiting.awaited.retain(|awaited| *awaited != number);
        } else {
            let WaitingAttempt { assignment, .. } = queue.remove(place)?;
            let key = (assignment.mini_batch.id, assignment.attempt);
            unfetched = Some((key, failed));
        }
        Some((worker, ObjectsArrived { ready: self.take_ready(worker), unfetched }))
    }

    /// Takes an attempt back that its worker has not got. Returns the attempts that the worker gets now instead.
    pub(super) fn withdraw(&mut self, worker: WorkerId, key: AttemptKey) -> Vec<Assignment> {
        if let Some(queue) = self.waiting.get_mut(&worker) {
            queue.retain(|WaitingAttempt { assignment, .. }| {
                (assignment.mini_batch.id, assignment.attempt) != key
            });
        }
        self.take_ready(worker)
    }

    fn take_ready(&mut self, worker: WorkerId) -> Vec<Assignment> {
        let mut ready = Vec::new();
        let Some(queue) = self.waiting.get_mut(&worker) else { return ready };
        while let Some(next) = queue.pop_front_if(|next| next.awaited.is_empty()) {
            ready.push(next.assignment);
        }
        if queue.is_empty() {
            self.waiting.remove(&worker);
        }
        ready
    }

    /// Notes that an attempt has ended. Returns its requests, which need not be kept.
    pub(super) fn end(&mut self, key: AttemptKey) -> Vec<u64> {
        self.requests.remove(&key).map(|requests| requests.numbers).unwrap_or_default()
    }

    /// Notes that a worker is gone. Returns the requests of its attempts, which need not be kept.
    pub(super) fn end_all_of(&mut self, worker: WorkerId) -> Vec<u64> {
        self.waiting.remove(&worker);
        let of_worker = self.requests.extract_if(|_, requests| requests.worker == worker);
        of_worker.flat_map(|(_, requests)| requests.numbers).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{FileVersion, ManifestObject};
    use crate::model::{MiniBatch, MiniBatchWork, StoredBytes, TextSlice};
    use crate::protocol::GrantedObject;

    const WORKER: WorkerId = WorkerId(7);

    /// The first attempt at a mini-batch that reads these of its files from a store.
    fn assignment(id: u64, objects: &[u32]) -> Assignment {
        let known = ManifestObject::from(FileVersion { length: 1, seconds: 1, nanos: 1 });
        let work = MiniBatchWork::Files(["a", "b", "c"].into());
        Assignment {
            mini_batch: MiniBatch::new(MiniBatchId(id), 0, work),
            attempt: 1,
            is_last: false,
            objects: objects.iter().map(|&file| GrantedObject { file, known }).collect(),
        }
    }

    /// Adds an attempt. Returns the number of the request of its objects.
    fn add(waits: &mut ObjectWaits, worker: WorkerId, assignment: Assignment) -> Option<u64> {
        let requests = waits.add(worker, assignment);
        assert_eq!(requests.spill, None);
        requests.objects
    }

    fn key(id: u64) -> AttemptKey {
        (MiniBatchId(id), 1)
    }

    fn ids(assignments: &[Assignment]) -> Vec<u64> {
        assignments.iter().map(|assignment| assignment.mini_batch.id.0).collect()
    }

    fn arrives(waits: &mut ObjectWaits, number: u64) -> Vec<u64> {
        let (worker, arrived) = waits.arrived(number, Vec::new()).unwrap();
        assert_eq!((worker, arrived.unfetched), (WORKER, None));
        ids(&arrived.ready)
    }

    #[test]
    fn a_worker_gets_its_attempts_in_order() {
        let mut waits = ObjectWaits::default();
        assert_eq!(add(&mut waits, WORKER, assignment(0, &[0])), Some(0));
        assert_eq!(add(&mut waits, WORKER, assignment(1, &[])), None);
        assert_eq!(add(&mut waits, WORKER, assignment(2, &[1])), Some(1));
        assert_eq!(add(&mut waits, WorkerId(8), assignment(3, &[1])), Some(2));
        assert_eq!(arrives(&mut waits, 1), [0; 0]);
        assert_eq!(arrives(&mut waits, 0), [0, 1, 2]);
        assert!(!waits.has_queue(WORKER) && waits.has_queue(WorkerId(8)));
        assert_eq!(waits.arrived(0, Vec::new()), None, "it is no longer waited for");
        assert_eq!((waits.end(key(0)), waits.end(key(0))), (vec![0], vec![]));
        assert_eq!(waits.end_all_of(WORKER), [1]);
        assert_eq!(waits.arrived(9, Vec::new()), None);
    }

    #[test]
    fn an_attempt_without_its_objects_does_not_hold_up_the_next() {
        let mut waits = ObjectWaits::default();
        waits.add(WORKER, assignment(0, &[0, 2]));
        waits.add(WORKER, assignment(1, &[0]));
        waits.add(WORKER, assignment(2, &[0]));
        assert_eq!(arrives(&mut waits, 1), [0; 0]);
        let failed = |file| UnfetchedObject {
            file,
            reason: "why".to_owned(),
            is_final: true,
            is_other: false,
        };
        let (_, arrived) = waits.arrived(0, vec![failed(1)]).unwrap();
        assert_eq!(arrived.unfetched, Some((key(0), vec![failed(2)])), "as the leader counts");
        assert_eq!(ids(&arrived.ready), [1]);
        assert_eq!(ids(&waits.withdraw(WORKER, key(2))), [0; 0]);
        assert!(!waits.has_queue(WORKER));
    }

    /// An attempt at a group of a packed text and one that is not packed, which is in a store.
    fn group(id: u64) -> Assignment {
        let packed = TextSlice { unpacked: Some("a".to_owned()), length: 9, ..TextSlice::sample() };
        let work = MiniBatchWork::TextGroup(vec![(0, packed), (0, TextSlice::sample())]);
        let parts = StoredBytes { epoch: 1, object: 2, offset: 3, length: 9, sha256: [0; 32] };
        let spill = Some(Box::new(StoredSpill { parts, names: None }));
        let mini_batch = MiniBatch { spill, ..MiniBatch::new(MiniBatchId(id), 0, work) };
        Assignment { mini_batch, ..assignment(id, &[1]) }
    }

    /// A worker gets such an attempt when both the object and the unpacked text are here. It then reads the copy.
    #[test]
    fn a_worker_waits_for_the_planners_files_too() {
        let mut waits = ObjectWaits::default();
        for (id, first) in [(0, true), (1, false)] {
            let Requests { objects: Some(objects), spill: Some((number, spill)) } =
                waits.add(WORKER, group(id))
            else {
                panic!("{waits:?}")
            };
            assert_eq!(spill.parts.object, 2);
            let answer = |waits: &mut ObjectWaits, is_spill| match is_spill {
                true => waits.spill_arrived(number, None).unwrap().1,
                false => waits.arrived(objects, Vec::new()).unwrap().1,
            };
            assert_eq!(answer(&mut waits, first), ObjectsArrived::default());
            let ready = answer(&mut waits, !first).ready;
            let read = ready[0].mini_batch.spill_parts();
            assert_eq!((read.len(), read[0].file, read[0].offset), (1, &*number.to_string(), 0));
            assert!(!ready[0].mini_batch.must_fetch_spill());
            assert_eq!(waits.end(key(id)), [objects, number]);
        }
        // A copy that could not be fetched.
        let (number, _) = waits.add(WORKER, group(2)).spill.unwrap();
        let (_, arrived) = waits.spill_arrived(number, Some("why".to_owned())).unwrap();
        let lacking =
            UnfetchedObject { file: 2, reason: "why".to_owned(), is_final: false, is_other: false };
        assert_eq!(arrived.unfetched, Some((key(2), vec![lacking])));
        assert_eq!(waits.end(key(2)).len(), 2, "the object is released, too");
        // If it is known that no machine can fetch it, the worker gets the attempt, which fails.
        let mut hopeless = group(3);
        hopeless.mini_batch.set_unfetched(vec![(2, "gone".to_owned())]);
        hopeless.objects.clear();
        assert_eq!(waits.add(WORKER, hopeless), Requests::default());
    }
}
