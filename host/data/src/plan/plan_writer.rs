//! Gives a number to the descriptor of each mini-batch, and groups descriptors into messages.

use super::mini_batch_digest::MiniBatchDigest;
use super::position::{FileTurn, PlanCourse};
use super::share::PlannedShare;
use super::{PlanError, err};
use crate::dataset::FileVersion;
use crate::model::{BadFile, ByteSize, MiniBatch, MiniBatchId, MiniBatchWork, Names, Sample};
use crate::protocol::{FromPlanner, MayOpen, PlanPlace, PlanPosition};
use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

/// The most descriptors in a message.
const MAX_GROUP: usize = 64;
/// A message is sent when its descriptors have this many bytes.
const GROUP_BYTES: usize = 64 << 10;
/// If the last message was sent this long ago, the next descriptor is sent immediately, together
/// with the pending ones.
const GROUP_TIME: Duration = Duration::from_millis(5);
/// The longest descriptor of one mini-batch, in bytes. It must fit into a message.
const MAX_MINI_BATCH_BYTES: usize = 12 << 20;
/// How many notices are sent. Further notices are only counted.
const MAX_NOTICES: u64 = 20;
/// The longest reason why a file cannot be read, in bytes.
const MAX_REASON_BYTES: usize = 2000;

/// Sends messages to the leader.
pub(super) struct PlanWriter<'a> {
    emit: &'a mut dyn FnMut(FromPlanner) -> io::Result<()>,
    /// Waits for the leader's next answer; `None` if the planner may not ask the leader for files.
    next_answer: Option<&'a dyn Fn() -> io::Result<MayOpen>>,
    next_id: u64,
    pending: Vec<MiniBatch>,
    pending_bytes: usize,
    sent_at: Option<Instant>,
    notices: u64,
    unreadable_files: u64,
    /// The memory that the entry script may use, in bytes.
    memory: u64,
    /// Files that an earlier plan could not read, with the indices of their sources. In that plan,
    /// each file was one failing mini-batch. The file's first mini-batch now gets the number of
    /// that mini-batch.
    retried_files: HashSet<(u32, &'a str)>,
    /// The number of mini-batches of the file that is being cut; `None` if the file is not in `retried_files`.
    mini_batches_of_file: Option<u64>,
    /// Which mini-batches belong to the plan.
    sample: Sample,
    /// How many mini-batches were made so far, including those outside of the sample.
    cut: u64,
    /// The progress of the plan; `None` if it cannot be measured.
    share: Option<PlannedShare>,
    /// Mini-batches that come at the end of the plan: all but the first of each file in `retried_files`.
    deferred: Vec<(u32, MiniBatchWork, MiniBatchDigest)>,
    course: PlanCourse,
    /// The position after the pending mini-batches.
    position: Option<PlanPosition>,
}

impl<'a> PlanWriter<'a> {
    /// `memory` is the memory that the entry script may use, in bytes. `retried_files` are the
    /// files that an earlier plan could not read (`PlanRequest::retried_files`), with the indices
    /// of their sources.
    pub(super) fn new(
        emit: &'a mut dyn FnMut(FromPlanner) -> io::Result<()>,
        memory: u64,
        retried_files: &'a [(u32, String)],
    ) -> Self {
        Self {
            emit,
            next_answer: None,
            next_id: 0,
            pending: Vec::new(),
            pending_bytes: 0,
            sent_at: None,
            notices: 0,
            unreadable_files: 0,
            memory,
            retried_files: retried_files
                .iter()
                .map(|(source, file)| (*source, file.as_str()))
                .collect(),
            mini_batches_of_file: None,
            sample: Sample::ALL,
            cut: 0,
            share: None,
            deferred: Vec::new(),
            course: PlanCourse::default(),
            position: None,
        }
    }

    /// From now on the planner follows this course. `from`: the position from which the plan continues.
    pub(super) fn follow(&mut self, course: PlanCourse, from: Option<&PlanPosition>) {
        self.course = course;
        self.next_id = from.map_or(0, |position| position.mini_batches);
    }

    /// The planner's course.
    pub(super) fn course(&mut self) -> &mut PlanCourse {
        &mut self.course
    }

    /// Goes to the next file of the inputs. `version`: its state, if the planner opens it.
    ///
    /// # Errors
    /// If the plan cannot continue from its position.
    pub(super) fn enter_file(
        &mut self,
        source: u32,
        file: &str,
        version: Option<FileVersion>,
    ) -> Result<FileTurn, PlanError> {
        self.proceed(|course| course.enter(source, file, version))
    }

    /// Passes the mini-batches without data that an earlier planner has sent. Returns how many there are.
    ///
    /// # Errors
    /// If the plan cannot continue from its position.
    pub(super) fn skip_void(&mut self) -> Result<u64, PlanError> {
        self.proceed(PlanCourse::skip_void)
    }

    /// Takes a step of the course. Says so if it passes the place from which the plan continues.
    fn proceed<T>(
        &mut self,
        step: impl FnOnce(&mut PlanCourse) -> Result<T, PlanError>,
    ) -> Result<T, PlanError> {
        let was_before = self.course.is_before_target();
        let result = step(&mut self.course)?;
        if was_before && !self.course.is_before_target() {
            self.send(FromPlanner::Continues)?;
        }
        Ok(result)
    }

    /// The next mini-batch ends at this place of its file.
    pub(super) fn reach(&mut self, place: PlanPlace) {
        self.course.reach(place);
    }

    /// No other planner can continue after what comes next.
    pub(super) fn end_positions(&mut self) {
        self.course.end_positions();
    }

    /// From now on the planner may ask the leader for files. `next_answer` waits for the next answer.
    pub(super) fn set_next_answer(&mut self, next_answer: &'a dyn Fn() -> io::Result<MayOpen>) {
        self.next_answer = Some(next_answer);
    }

    /// From now on mini-batches that do not belong to the sample are left out.
    pub(super) fn keep_sample(&mut self, sample: Sample) {
        self.sample = sample;
    }

    /// From now on the planner reports its progress.
    pub(super) fn report_share(&mut self, share: Option<PlannedShare>) {
        self.share = share;
    }

    /// The progress of the plan; `None` if the planner does not report it.
    pub(super) fn share(&mut self) -> Option<&mut PlannedShare> {
        self.share.as_mut()
    }

    /// Whether an earlier plan could not read this file of a source.
    pub(super) fn is_reread(&self, source: u32, file: &str) -> bool {
        self.retried_files.contains(&(source, file))
    }

    /// Begins to cut a file that an earlier plan could not read.
    pub(super) fn begin_reread(&mut self) {
        self.mini_batches_of_file = Some(0);
    }

    /// Ends cutting a file that an earlier plan could not read. If the file gave no mini-batch, a
    /// mini-batch that fails takes its place.
    pub(super) fn end_reread(&mut self, source: u32, file: String) -> Result<(), PlanError> {
        if self.mini_batches_of_file.take() != Some(0) {
            return Ok(());
        }
        let reason = format!("{file} could not be read when the job began, and holds no rows now");
        self.add_bad(source, file, reason, MiniBatchDigest::new())
    }

    /// Sends a message other than mini-batches.
    pub(super) fn send(&mut self, message: FromPlanner) -> io::Result<()> {
        (self.emit)(message)
    }

    /// Reports the file that the planner opens next. First sends everything about the files before
    /// it.
    pub(super) fn report_opening(&mut self, source: u32, file: &str) -> io::Result<()> {
        self.flush()?;
        let file = file.to_owned();
        self.send(FromPlanner::Opening { source, file, waits: false, next: Vec::new() })
    }

    /// As [`Self::report_opening`], but also waits until the leader has fetched the file. Returns the reason
    /// if the file cannot be fetched. `next` are the files that follow.
    pub(super) fn ask_for(
        &mut self,
        source: u32,
        file: &str,
        next: Vec<String>,
    ) -> io::Result<Option<BadFile>> {
        let Some(next_answer) = self.next_answer else { return Ok(None) };
        self.flush()?;
        self.send(FromPlanner::Opening { source, file: file.to_owned(), waits: true, next })?;
        loop {
            let answer = next_answer()?;
            // An answer to an earlier planner, which died, may come first.
            if (answer.source, answer.file.as_str()) == (source, file) {
                let bad = |reason| BadFile { file: answer.file, reason };
                return Ok(answer.unfetched.map(bad));
            }
        }
    }

    /// Sends a notice; after the first [`MAX_NOTICES`], only counts them.
    pub(super) fn notice(&mut self, text: String) -> io::Result<()> {
        self.notices += 1;
        if self.notices <= MAX_NOTICES { self.send(FromPlanner::Notice(text)) } else { Ok(()) }
    }

    /// Adds the next mini-batch. The first mini-batch is sent immediately, so that work can begin. Later
    /// mini-batches are sent in groups.
    pub(super) fn add(
        &mut self,
        source: u32,
        work: MiniBatchWork,
        stamp: MiniBatchDigest,
    ) -> Result<(), PlanError> {
        if let Some(count) = &mut self.mini_batches_of_file {
            *count += 1;
            if *count > 1 {
                self.deferred.push((source, work, stamp));
                return Ok(());
            }
        }
        self.add_group(source, work, Vec::new(), stamp)
    }

    /// Adds a failing mini-batch for a file that cannot be read. `reason` says why, and names the file.
    pub(super) fn add_bad(
        &mut self,
        source: u32,
        file: String,
        mut reason: String,
        stamp: MiniBatchDigest,
    ) -> Result<(), PlanError> {
        if reason.len() > MAX_REASON_BYTES {
            reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
            reason.push('…');
        }
        self.unreadable_files += 1;
        self.notice(format!("a file cannot be read, so its mini-batch fails: {reason}"))?;
        self.add(source, MiniBatchWork::Unreadable(BadFile { file, reason }), stamp)
    }

    pub(super) fn unreadable_files(&self) -> u64 {
        self.unreadable_files
    }

    /// Adds the next mini-batch. `partition` lists the partition keys with their values. It is
    /// empty if the mini-batch was not made by keys.
    pub(super) fn add_group(
        &mut self,
        source: u32,
        work: MiniBatchWork,
        partition: Vec<(String, String)>,
        stamp: MiniBatchDigest,
    ) -> Result<(), PlanError> {
        if matches!(work, MiniBatchWork::Unreadable(_)) {
            if !self.course.may_be_unreadable() {
                return Err(PlanError::CannotContinue);
            }
            // The file may be readable for the next planner.
            self.course.end_positions();
        }
        if self.course.is_before_target() {
            return Err(PlanError::CannotContinue);
        }
        self.cut += 1;
        if !self.course.add() {
            return Ok(());
        }
        if !self.sample.has(self.cut - 1) {
            return Ok(());
        }
        let stamp = stamp.finish(source, &work, &partition);
        let id = MiniBatchId(self.next_id);
        let mini_batch = MiniBatch { partition, stamp, ..MiniBatch::new(id, source, work) };
        let bytes = wire_size(&mini_batch);
        if bytes > MAX_MINI_BATCH_BYTES {
            let (subject, remedy) = match mini_batch.partition.is_empty() {
                true => (
                    "mini_batch_size is too large: the names of one mini-batch's files".to_owned(),
                    "choose a smaller mini_batch_size",
                ),
                false => (
                    format!("the names of the files with {}", mini_batch.keys()),
                    "add a key to partition_keys that divides these files",
                ),
            };
            return err!(
                "{subject} take {bytes} bytes, and at most {MAX_MINI_BATCH_BYTES} can be sent to a \
                 worker; {remedy}"
            );
        }
        self.report_size(&mini_batch)?;
        if self.pending_bytes + bytes > MAX_MINI_BATCH_BYTES {
            self.flush()?;
        }
        self.pending.push(mini_batch);
        self.next_id += 1;
        self.position = self.course.position(self.next_id);
        self.pending_bytes += bytes;
        let is_due = self.sent_at.is_none_or(|sent| sent.elapsed() >= GROUP_TIME);
        if is_due || self.pending.len() >= MAX_GROUP || self.pending_bytes >= GROUP_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Sends a notice if a mini-batch may not fit into the entry script's memory.
    fn report_size(&mut self, mini_batch: &MiniBatch) -> io::Result<()> {
        let bytes = match &mini_batch.work {
            MiniBatchWork::Text(slice) => slice.length,
            MiniBatchWork::Table(slice) => slice.bytes,
            MiniBatchWork::TextGroup(slices) => slices.iter().map(|(_, slice)| slice.length).sum(),
            MiniBatchWork::TableGroup(slices) => slices.iter().map(|(_, slice)| slice.bytes).sum(),
            MiniBatchWork::Rows(rows) => rows.text.length,
            MiniBatchWork::Files(_)
            | MiniBatchWork::FileGroup(_)
            | MiniBatchWork::Unreadable(_)
            | MiniBatchWork::Void => 0,
        };
        if bytes <= self.memory {
            return Ok(());
        }
        let location = match &mini_batch.work {
            MiniBatchWork::Text(slice) => format!("{}, line {}", slice.file, slice.first_line),
            MiniBatchWork::Table(slice) => format!("{}, row {}", slice.file, slice.first_row + 1),
            _ => mini_batch.keys(),
        };
        self.notice(format!(
            "mini-batch {} ({location}) holds {}, and the entry script has {} of memory (limits.memory): the \
             mini-batch may not fit; choose smaller mini-batches, or raise that limit",
            mini_batch.id,
            ByteSize(bytes),
            ByteSize(self.memory),
        ))
    }

    /// Sends the pending mini-batches.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if !self.pending.is_empty() {
            let group = std::mem::take(&mut self.pending);
            self.pending_bytes = 0;
            if let Some(share) = self.share.as_mut().and_then(PlannedShare::unreported) {
                self.send(FromPlanner::Share(share))?;
            }
            if let Some(position) = self.position.take() {
                self.send(FromPlanner::Position(position))?;
            }
            self.send(FromPlanner::MiniBatches(group))?;
            self.sent_at = Some(Instant::now());
        }
        Ok(())
    }

    /// Sends the pending and deferred mini-batches, and the number of notices that were not sent.
    pub(super) fn close(&mut self) -> Result<(), PlanError> {
        if self.course.end_files()? {
            self.send(FromPlanner::Continues)?;
        }
        if self.next_answer.is_some() && !self.deferred.is_empty() {
            self.flush()?;
            self.send(FromPlanner::Closed)?;
        }
        for (source, work, stamp) in std::mem::take(&mut self.deferred) {
            self.add_group(source, work, Vec::new(), stamp)?;
        }
        self.flush()?;
        if let Some(end) = self.course.end(self.next_id) {
            self.send(FromPlanner::Position(end))?;
        }
        match self.notices.saturating_sub(MAX_NOTICES) {
            0 => Ok(()),
            more => {
                let text = format!("… and {more} more notices like these");
                Ok(self.send(FromPlanner::Notice(text))?)
            }
        }
    }
}

/// The most bytes that a descriptor takes in a message. The constants are upper bounds for the encoded
/// numbers.
fn wire_size(mini_batch: &MiniBatch) -> usize {
    let names_size = |files: &Names| files.text_len() + 8 * files.len();
    let work = match &mini_batch.work {
        MiniBatchWork::Files(files) => names_size(files),
        MiniBatchWork::FileGroup(parts) => parts.iter().map(|(_, files)| names_size(files)).sum(),
        MiniBatchWork::Text(slice) => slice.file.len() + 32,
        MiniBatchWork::TextGroup(slices) => {
            slices.iter().map(|(_, slice)| slice.file.len() + 40).sum()
        }
        MiniBatchWork::Rows(rows) => {
            rows.text.file.len() + rows.origins.len() + rows.names.len() + 80
        }
        MiniBatchWork::Table(slice) => slice.file.len() + 40,
        MiniBatchWork::TableGroup(slices) => {
            slices.iter().map(|(_, slice)| slice.file.len() + 48).sum()
        }
        MiniBatchWork::Unreadable(bad) => bad.file.len() + bad.reason.len() + 16,
        MiniBatchWork::Void => 1,
    };
    let keys = mini_batch.partition.iter();
    work + keys.map(|(key, value)| key.len() + value.len() + 16).sum::<usize>()
}
