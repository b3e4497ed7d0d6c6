//! The attempts whose objects are fetched before a worker gets them, on a machine that runs workers for a leader on
//! another machine. A worker gets its attempts in the order in which they were assigned to it.

use crate::model::{MiniBatchId, WorkerId};
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
    requests: HashMap<AttemptKey, AttemptRequest>,
}

/// An attempt that its worker has not got.
#[derive(Debug)]
struct WaitingAttempt {
    assignment: Assignment,
    /// The request that it waits for. `None` if it only waits for its turn.
    request: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct AttemptRequest {
    worker: WorkerId,
    number: u64,
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
    /// Takes an attempt that a worker shall get. Returns the number under which its objects must be requested, if it has
    /// any.
    pub(super) fn add(&mut self, worker: WorkerId, assignment: Assignment) -> Option<u64> {
        let request = (!assignment.objects.is_empty()).then_some(self.next_request);
        if let Some(number) = request {
            self.next_request += 1;
            let key = (assignment.mini_batch.id, assignment.attempt);
            self.requests.insert(key, AttemptRequest { worker, number });
        }
        let queue = self.waiting.entry(worker).or_default();
        queue.push_back(WaitingAttempt { assignment, request });
        request
    }

    /// Whether a worker has attempts that it has not got.
    pub(super) fn has_queue(&self, worker: WorkerId) -> bool {
        self.waiting.contains_key(&worker)
    }

    /// Handles the answer to a request. Returns the worker, too. `None` if no attempt waits for this request.
    pub(super) fn arrived(
        &mut self,
        number: u64,
        failed: Vec<UnfetchedObject>,
    ) -> Option<(WorkerId, ObjectsArrived)> {
        let is_asked = |request: &&AttemptRequest| request.number == number;
        let worker = self.requests.values().find(is_asked)?.worker;
        let queue = self.waiting.get_mut(&worker)?;
        let place = queue.iter().position(|waiting| waiting.request == Some(number))?;
        let mut unfetched = None;
        if failed.is_empty() {
            queue.get_mut(place)?.request = None;
        } else {
            let WaitingAttempt { assignment, .. } = queue.remove(place)?;
            // The positions of the leader are those of the mini-batch.
            let objects = failed.into_iter().filter_map(|object| {
                let file = assignment.objects.get(object.file as usize)?.file;
                Some(UnfetchedObject { file, ..object })
            });
            let key = (assignment.mini_batch.id, assignment.attempt);
            unfetched = Some((key, objects.collect()));
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
        while let Some(next) = queue.pop_front_if(|next| next.request.is_none()) {
            ready.push(next.assignment);
        }
        if queue.is_empty() {
            self.waiting.remove(&worker);
        }
        ready
    }

    /// Notes that an attempt has ended. Returns its request, which need not be kept.
    pub(super) fn end(&mut self, key: AttemptKey) -> Option<u64> {
        self.requests.remove(&key).map(|request| request.number)
    }

    /// Notes that a worker is gone. Returns the requests of its attempts, which need not be kept.
    pub(super) fn end_all_of(&mut self, worker: WorkerId) -> Vec<u64> {
        self.waiting.remove(&worker);
        let of_worker = self.requests.extract_if(|_, request| request.worker == worker);
        of_worker.map(|(_, request)| request.number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{FileVersion, ManifestObject};
    use crate::model::{MiniBatch, MiniBatchWork};
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
        assert_eq!(waits.add(WORKER, assignment(0, &[0])), Some(0));
        assert_eq!(waits.add(WORKER, assignment(1, &[])), None);
        assert_eq!(waits.add(WORKER, assignment(2, &[1])), Some(1));
        assert_eq!(waits.add(WorkerId(8), assignment(3, &[1])), Some(2));
        assert_eq!(arrives(&mut waits, 1), [0; 0]);
        assert_eq!(arrives(&mut waits, 0), [0, 1, 2]);
        assert!(!waits.has_queue(WORKER) && waits.has_queue(WorkerId(8)));
        assert_eq!(waits.arrived(0, Vec::new()), None, "it is no longer waited for");
        assert_eq!((waits.end(key(0)), waits.end(key(0))), (Some(0), None));
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
        let failed = |file| UnfetchedObject { file, reason: "why".to_owned(), is_final: true };
        let (_, arrived) = waits.arrived(0, vec![failed(1)]).unwrap();
        assert_eq!(arrived.unfetched, Some((key(0), vec![failed(2)])), "as the leader counts");
        assert_eq!(ids(&arrived.ready), [1]);
        assert_eq!(ids(&waits.withdraw(WORKER, key(2))), [0; 0]);
        assert!(!waits.has_queue(WORKER));
    }
}
