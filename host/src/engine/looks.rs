//! What the planner looks into, where objects of stores come on demand.

use crate::model::Source;
use crate::protocol::{FromPlanner, MayOpen};
use crate::store::{Arrival, Objects};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::error::Elapsed;

/// The file that the planner has asked for last. Its object is here from the answer on until the planner asks for
/// another one, or says that it looks into none any more; no earlier one is, unless a mini-batch needs it.
#[derive(Debug)]
pub struct Looks {
    roots: Vec<PathBuf>,
    last: Option<Look>,
}

#[derive(Debug)]
struct Look {
    number: u64,
    source: u32,
    file: String,
    /// What became of it, once that is known.
    answer: Option<MayOpen>,
}

impl Looks {
    /// Of a planner that reads these sources. It has asked for nothing yet.
    pub fn new(sources: &[Source]) -> Self {
        let roots = sources.iter().map(|source| source.root.clone()).collect();
        Self { roots, last: None }
    }

    /// The planner asks for a file of a source. Returns the answer, if it is known; else one of those that
    /// [arrive](Self::arrived) has it. What a planner asks that took the place of one that died is no news.
    pub fn open(&mut self, source: u32, file: String, objects: &mut Objects) -> Option<MayOpen> {
        if let Some(last) = &self.last
            && (last.source, &last.file) == (source, &file)
        {
            return last.answer.clone();
        }
        // First: there may be room for one only.
        self.close(objects);
        let root = self.roots.get(source as usize);
        let path = root.map_or_else(|| PathBuf::from(&file), |root| root.join(&file));
        let number = objects.want_one(path);
        self.last = Some(Look { number, source, file, answer: None });
        None
    }

    /// Something has come. Returns the answer for the planner, if it has waited for that.
    pub fn arrived(&mut self, arrival: &Arrival) -> Option<MayOpen> {
        let Arrival::Ready(number, failed) = arrival else { return None };
        let last = self.last.as_mut().filter(|last| last.number == *number)?;
        let unfetched = failed.first().map(|(_, reason)| reason.clone());
        let (source, file) = (last.source, last.file.clone());
        last.answer = Some(MayOpen { source, file, unfetched });
        last.answer.clone()
    }

    /// The planner looks into nothing any more.
    pub fn close(&mut self, objects: &Objects) {
        if let Some(last) = self.last.take() {
            objects.release(vec![last.number]);
        }
    }
}

/// A planner whose mini-batches nobody runs: an object goes when the planner asks for the next one.
pub(super) struct LonePlanner<'a> {
    /// What it says.
    pub(super) says: mpsc::Receiver<FromPlanner>,
    /// Takes answers to it.
    pub(super) answer: &'a dyn Fn(MayOpen),
    /// What it asks for.
    pub(super) looks: Looks,
    /// Of the job's inputs.
    pub(super) objects: &'a mut Objects,
}

impl LonePlanner<'_> {
    /// The next thing that it says, but for what it asks, which is answered; none at its end. Fails if neither
    /// it nor any object has moved for so long.
    pub(super) async fn next(
        &mut self,
        patience: Duration,
    ) -> Result<Option<FromPlanner>, Elapsed> {
        loop {
            let said = async {
                tokio::select! {
                    said = self.says.recv() => Ok(said),
                    arrival = self.objects.arrival() => Err(arrival),
                }
            };
            let answer = match tokio::time::timeout(patience, said).await? {
                Ok(Some(FromPlanner::Opening { source, file })) => {
                    self.looks.open(source, file, self.objects)
                }
                Ok(said) => return Ok(said),
                Err(arrival) => self.looks.arrived(&arrival),
            };
            if let Some(answer) = answer {
                (self.answer)(answer);
            }
        }
    }
}

impl Drop for LonePlanner<'_> {
    fn drop(&mut self) {
        self.looks.close(self.objects);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_that_is_asked_for_is_answered_once_it_is_known() {
        let (mut objects, mut looks) = (Objects::default(), Looks::new(&[]));
        let answer = |file: &str, unfetched: Option<&str>| {
            let (file, unfetched) = (file.to_owned(), unfetched.map(str::to_owned));
            Some(MayOpen { source: 0, file, unfetched })
        };
        let mut open = |looks: &mut Looks, file: &str| looks.open(0, file.to_owned(), &mut objects);
        let arrived = |number: u64| Arrival::Ready(u64::MAX - number, vec![]);
        assert_eq!(open(&mut looks, "a"), None);
        assert_eq!(looks.arrived(&Arrival::Progress), None);
        assert_eq!(looks.arrived(&Arrival::Ready(0, vec![])), None, "that of a mini-batch");
        assert_eq!(looks.arrived(&arrived(0)), answer("a", None));
        assert_eq!(open(&mut looks, "a"), answer("a", None), "another planner asks");
        assert_eq!(open(&mut looks, "b"), None);
        // Somebody else asked for it, and has died.
        assert_eq!(open(&mut looks, "c"), None);
        assert_eq!(looks.arrived(&arrived(1)), None);
        let failed = Arrival::Ready(u64::MAX - 2, vec![(0, "gone".to_owned())]);
        assert_eq!(looks.arrived(&failed), answer("c", Some("gone")));
        assert_eq!(open(&mut looks, "a"), None, "it is not kept");
    }
}
