//! Downloads the objects from stores that the planner asks for.

use crate::model::Source;
use crate::protocol::{FromPlanner, MayOpen};
use crate::store::{JobObjects, StagingReport};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::error::Elapsed;

/// The file that the planner asked for last, and the files that it will probably ask for next.
/// After the answer, the object of the requested file stays on this machine until the planner asks
/// for another file, or no longer needs files. The objects of the next files are downloaded in
/// advance if there is room.
#[derive(Debug)]
pub struct PlannerReads {
    roots: Vec<PathBuf>,
    files: VecDeque<PlannerRead>,
}

/// A file that was requested.
#[derive(Debug)]
struct PlannerRead {
    /// The number of the request to the store.
    number: u64,
    source: u32,
    file: String,
    /// The answer for the planner. `None` until the object has arrived.
    answer: Option<MayOpen>,
}

impl PlannerReads {
    /// The reads of a planner that has not asked for a file of these sources yet.
    pub fn new(sources: &[Source]) -> Self {
        let roots = sources.iter().map(|source| source.root.clone()).collect();
        Self { roots, files: VecDeque::new() }
    }

    /// Handles the planner's request for a file of a source. `next`: the files that the planner will probably
    /// ask for next. Returns the answer if it is known; otherwise [`arrived`](Self::arrived) returns it
    /// later. If a new planner repeats its predecessor's request, the object is kept.
    pub fn open(
        &mut self,
        source: u32,
        file: String,
        next: Vec<String>,
        objects: &mut JobObjects,
    ) -> Option<MayOpen> {
        let index = self.files.iter().position(|read| read.is_of(source, &file));
        // Release first: there may be room for one object only, and objects are downloaded in the order of
        // the requests.
        self.release(0, index.unwrap_or(self.files.len()), objects);
        for (index, file) in std::iter::once(file).chain(next).enumerate() {
            if self.files.get(index).is_some_and(|read| !read.is_of(source, &file)) {
                self.release(index, self.files.len(), objects);
            }
            if index == self.files.len() {
                let number = objects.want_one(self.path(source, &file));
                self.files.push_back(PlannerRead { number, source, file, answer: None });
            }
        }
        self.files.front()?.answer.clone()
    }

    pub(super) fn path(&self, source: u32, file: &str) -> PathBuf {
        let root = self.roots.get(source as usize);
        root.map_or_else(|| PathBuf::from(file), |root| root.join(file))
    }

    /// Handles an arrival. Returns the answer for the planner, if the planner waits for it.
    pub fn arrived(&mut self, arrival: &StagingReport) -> Option<MayOpen> {
        let StagingReport::Ready(number, failed) = arrival else { return None };
        let index = self.files.iter().position(|read| read.number == *number)?;
        let read = self.files.get_mut(index)?;
        let unfetched = failed.first().map(|object| object.reason.clone());
        read.answer = Some(MayOpen { source: read.source, file: read.file.clone(), unfetched });
        read.answer.clone().filter(|_| index == 0)
    }

    /// Releases all objects, because the planner needs no file now.
    pub fn close(&mut self, objects: &JobObjects) {
        self.release(0, self.files.len(), objects);
    }

    fn release(&mut self, from: usize, to: usize, objects: &JobObjects) {
        let numbers: Vec<u64> = self.files.drain(from..to).map(|read| read.number).collect();
        if !numbers.is_empty() {
            objects.release(numbers);
        }
    }
}

impl PlannerRead {
    fn is_of(&self, source: u32, file: &str) -> bool {
        (self.source, self.file.as_str()) == (source, file)
    }
}

/// A planner whose mini-batches are inspected, not run. Each object is released when the planner
/// asks for the next file.
pub(super) struct InspectionPlanner<'a> {
    /// The planner's messages.
    pub(super) incoming: mpsc::Receiver<FromPlanner>,
    /// Sends answers to the planner.
    pub(super) answer: &'a dyn Fn(MayOpen),
    /// The files that the planner asks for.
    pub(super) reads: PlannerReads,
    /// The objects of the job's inputs.
    pub(super) objects: &'a mut JobObjects,
}

impl InspectionPlanner<'_> {
    /// The planner's next message; `None` after the last one. The planner's requests for files are answered
    /// here, and not returned. If the disk has no room for an object, returns `Failed`, as if the planner had
    /// failed. Fails if neither the planner nor a download has made progress for `patience`.
    pub(super) async fn next(
        &mut self,
        patience: Duration,
    ) -> Result<Option<FromPlanner>, Elapsed> {
        loop {
            let message = async {
                tokio::select! {
                    message = self.incoming.recv() => Ok(message),
                    arrival = self.objects.arrival() => Err(arrival),
                }
            };
            let answer = match tokio::time::timeout(patience, message).await? {
                Ok(Some(FromPlanner::Opening { source, file, waits: true, next })) => {
                    self.reads.open(source, file, next, self.objects)
                }
                Ok(message) => return Ok(message),
                Err(StagingReport::NoSpace(text)) => return Ok(Some(FromPlanner::Failed(text))),
                Err(arrival) => self.reads.arrived(&arrival),
            };
            if let Some(answer) = answer {
                (self.answer)(answer);
            }
        }
    }
}

impl Drop for InspectionPlanner<'_> {
    fn drop(&mut self) {
        self.reads.close(self.objects);
    }
}

/// The next message of the planner. `None` if there is no planner, or if it has ended.
pub(super) async fn next_of(
    planner: &mut Option<mpsc::Receiver<FromPlanner>>,
) -> Option<FromPlanner> {
    planner.as_mut()?.recv().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::UnfetchedObject;

    /// The number of the first request.
    const FIRST_NUMBER: u64 = 1 << 63;

    fn answer(file: &str, unfetched: Option<&str>) -> Option<MayOpen> {
        let file = file.to_owned();
        let unfetched = unfetched.map(str::to_owned);
        Some(MayOpen { source: 0, file, unfetched })
    }

    /// The arrival of the object of request `number`, counted from 0.
    fn ready(number: u64) -> StagingReport {
        StagingReport::Ready(FIRST_NUMBER + number, vec![])
    }

    struct ReadsFixture(PlannerReads, JobObjects);

    impl ReadsFixture {
        fn open(&mut self, file: &str, next: &[&str]) -> Option<MayOpen> {
            let next = next.iter().map(|&file| file.to_owned()).collect();
            self.0.open(0, file.to_owned(), next, &mut self.1)
        }

        fn numbers(&self) -> Vec<(&str, u64)> {
            let files = self.0.files.iter();
            files.map(|read| (read.file.as_str(), read.number - FIRST_NUMBER)).collect()
        }
    }

    #[test]
    fn each_request_is_answered_when_its_file_arrives() {
        let mut bench = ReadsFixture(PlannerReads::new(&[]), JobObjects::default());
        assert_eq!(bench.open("a", &[]), None);
        assert_eq!(bench.0.arrived(&StagingReport::Progress), None);
        assert_eq!(
            bench.0.arrived(&StagingReport::Ready(0, vec![])),
            None,
            "the object of a mini-batch"
        );
        assert_eq!(bench.0.arrived(&ready(0)), answer("a", None));
        assert_eq!(bench.open("a", &[]), answer("a", None), "another planner asks");
        assert_eq!(bench.open("b", &[]), None);
        // The planner that asked for "b" has died.
        assert_eq!(bench.open("c", &[]), None);
        assert_eq!(bench.0.arrived(&ready(1)), None);
        let gone =
            UnfetchedObject { file: 0, reason: "gone".to_owned(), is_final: true, is_other: false };
        let failed = StagingReport::Ready(FIRST_NUMBER + 2, vec![gone]);
        assert_eq!(bench.0.arrived(&failed), answer("c", Some("gone")));
        assert_eq!(bench.open("a", &[]), None, "the object was released");
    }

    #[test]
    fn likely_next_files_are_requested_once_in_order() {
        let mut bench = ReadsFixture(PlannerReads::new(&[]), JobObjects::default());
        assert_eq!(bench.open("a", &["b", "c"]), None);
        assert_eq!(bench.0.arrived(&ready(1)), None, "no planner waits for it yet");
        assert_eq!(bench.0.arrived(&ready(0)), answer("a", None));
        assert_eq!(bench.open("b", &["c", "d"]), answer("b", None));
        assert_eq!(bench.numbers(), [("b", 1), ("c", 2), ("d", 3)]);
        // The planner asks for other files than announced, and then for an earlier one: objects that were
        // requested too early are released, so that they take no room.
        assert_eq!(bench.open("c", &["x", "d"]), None);
        assert_eq!(bench.numbers(), [("c", 2), ("x", 4), ("d", 5)]);
        assert_eq!(bench.open("a", &["b", "c"]), None);
        assert_eq!(bench.numbers(), [("a", 6), ("b", 7), ("c", 8)]);
        assert_eq!(bench.open("c", &[]), None);
        assert_eq!(bench.numbers(), [("c", 8)]);
        bench.0.close(&bench.1);
        assert_eq!(bench.0.arrived(&ready(8)), None);
    }
}
