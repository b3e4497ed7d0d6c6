//! Resumed jobs, order, header and files, as the leader sees them.

use super::tests::CommitFixture;
use super::*;
use crate::commit::message::FinalFailure;
use crate::model::{ItemCounts, MiniBatchId, OnConflict, WorkerId};
use std::fs;

impl CommitFixture {
    /// Ends the committer, and starts another one on the same files.
    fn restart(&mut self, retry_failed: bool) -> Restored {
        self.restart_as(self.target(), retry_failed).unwrap()
    }

    pub(super) fn restart_as(
        &mut self,
        target: CommitTarget,
        retry_failed: bool,
    ) -> Result<Restored, CommitError> {
        let journal = self.journal();
        let (sender, replies) = mpsc::unbounded_channel();
        let (committer, restored) = Committer::start(target, journal, retry_failed, sender)?;
        (self.committer, self.replies) = (Some(committer), replies);
        Ok(restored)
    }

    fn failure(&self, id: u64) -> CommitRequest {
        CommitRequest::Failure(FinalFailure {
            id: MiniBatchId(id),
            items: ItemCounts::from_returned(2, 0),
            ..FinalFailure::sample()
        })
    }

    /// Leaves a file in the output folder of a worker that ends normally.
    fn leave(&self, worker: u32, name: &str, text: &str) {
        let worker = WorkerId(worker);
        let path = self.job.worker_output(worker).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self.committer().submit(CommitRequest::WorkerDone(worker));
    }

    /// The last reply after `end_job`.
    fn end(&mut self) -> CommitReply {
        self.committer().end_job(JobStatus::Completed);
        let mut last = None;
        while let Some(reply) = self.replies.blocking_recv() {
            last = Some(reply);
        }
        last.expect("the committer ended without a reply")
    }
}

fn rejections(replies: &[CommitReply]) -> Vec<String> {
    let text = |reply: &CommitReply| match reply {
        CommitReply::Rejected { id, failure } => format!("{id}: {failure}"),
        reply => panic!("{reply:?}"),
    };
    replies.iter().map(text).collect()
}

/// Rule W15 in docs/parallel-run-step.md.
#[test]
fn failed_mini_batches_run_again_only_on_request() {
    let mut bench = CommitFixture::new(Some("rows.txt"));
    let success = bench.success(4, 0, "a\n");
    bench.submit(&success);
    // Rule W4: one of the two items could not be read, and was not passed to `run`. So the mini-batch is not
    // short.
    let success = bench.success(4, 2, "c\n");
    bench.submit(&Success { is_short: false, ..success });
    bench.committer().submit(bench.failure(1));
    let restored = bench.restart(false);
    assert_eq!((restored.succeeded, restored.failed, restored.short), (2, 1, 1));
    assert_eq!((restored.rows, restored.next_worker), (2, 5));
    assert!(restored.finished.contains(MiniBatchId(1)));
    let restored = bench.restart(true);
    assert_eq!((restored.succeeded, restored.failed), (2, 0));
    assert!(!restored.finished.contains(MiniBatchId(1)));
    let success = bench.success(5, 1, "b\n");
    bench.submit(&success);
    assert_eq!(bench.end_job(), (vec![1], vec![]));
    assert_eq!(bench.output("rows.txt"), "a\nc\nb\n");
}

#[test]
fn ordered_rows_wait_for_lower_ids() {
    let mut bench = CommitFixture::new(None);
    let ordered = |bench: &CommitFixture| CommitTarget {
        output_file: Some("rows.txt".into()),
        ordered: true,
        ..bench.target()
    };
    let target = ordered(&bench);
    bench.restart_as(target, false).unwrap();
    for (id, rows) in [(3, "3\n"), (1, "1\n"), (5, "5\n")] {
        let success = bench.success(0, id, rows);
        bench.submit(&success);
        bench.committer().flush();
        bench.reply();
    }
    assert_eq!(bench.output("rows.txt"), "");
    let success = bench.success(1, 0, "0\n");
    bench.submit(&success);
    bench.committer().flush();
    bench.reply();
    assert_eq!(bench.output("rows.txt"), "0\n1\n");
    // If the job ends with a gap, the output also has the rows after the gap. When the job resumes,
    // these rows are removed again.
    bench.committer().end_job(JobStatus::Failed);
    while bench.replies.blocking_recv().is_some() {}
    assert_eq!(bench.output("rows.txt"), "0\n1\n3\n5\n");
    let target = ordered(&bench);
    let restored = bench.restart_as(target, false).unwrap();
    assert_eq!(restored.succeeded, 4);
    assert_eq!(bench.output("rows.txt"), "0\n1\n");
    bench.committer().submit(bench.failure(2));
    let success = bench.success(2, 4, "4\n");
    bench.submit(&success);
    bench.end_job();
    assert_eq!(bench.output("rows.txt"), "0\n1\n3\n4\n5\n");
    // When a failed mini-batch runs again, the rows after it are removed from the output until the
    // mini-batch succeeds.
    let target = ordered(&bench);
    assert_eq!(bench.restart_as(target, true).unwrap().ended(), 5);
    assert_eq!(bench.output("rows.txt"), "0\n1\n");
    let success = bench.success(3, 2, "2\n");
    bench.submit(&success);
    bench.end_job();
    assert_eq!(bench.output("rows.txt"), "0\n1\n2\n3\n4\n5\n");
}

/// Rule A9.
#[test]
fn the_first_header_is_written_and_different_ones_are_refused() {
    let mut bench = CommitFixture::new(Some("rows.txt"));
    let target = CommitTarget { header_wanted: true, ..bench.target() };
    bench.restart_as(target, false).unwrap();
    for (id, header) in [(0, None), (1, Some("")), (2, Some("a b")), (3, Some("a b\n"))] {
        let success = bench.success(0, id, &format!("{id}\n"));
        bench.submit(&Success { header: header.map(Into::into), ..success });
        bench.committer().flush();
        bench.reply();
    }
    let success = bench.success(0, 4, "4\n");
    bench.submit(&Success { header: Some("a c".into()), ..success });
    let (_, rejected) = bench.end_job();
    insta::assert_snapshot!(rejections(&rejected).join("\n"), @r#"4: the mini-batch's table has the columns "a c", but the output file begins with "a b": return the same columns, in the same order, from every call of run, or do without the header line"#);
    assert_eq!(bench.output("rows.txt"), "a b\n0\n1\n2\n3\n");
    assert_eq!(bench.journal().counts().rows, 4);
    assert_eq!(bench.restart(false).rows, 4);
    assert_eq!(bench.output("rows.txt"), "a b\n0\n1\n2\n3\n");
}

#[test]
fn files_are_appended_or_replaced_as_configured() {
    for (on_conflict, wanted) in
        [(OnConflict::Append, "of 0of 1of 2"), (OnConflict::Overwrite, "of 2")]
    {
        let mut bench = CommitFixture::new(Some("rows.txt"));
        let target = CommitTarget { on_conflict, ..bench.target() };
        bench.restart_as(target, false).unwrap();
        let names = [(0, "same"), (1, "same"), (2, "same"), (3, "same/below"), (4, "rows.txt")];
        for (id, name) in names {
            let success = bench.with_file(bench.success(0, id, ""), name);
            bench.submit(&success);
        }
        let (ids, rejected) = bench.end_job();
        assert_eq!(ids, [0, 1, 2]);
        let texts = rejections(&rejected).join("\n");
        let texts = texts.replace(&bench.dir.path().display().to_string(), "DIR");
        insta::allow_duplicates! {
            insta::assert_snapshot!(texts, @r#"
            3: the output "same" conflicts with the same name in DIR/output: one of them is a folder and the other a file; give them different names
            4: the output "rows.txt" cannot be published because the file of that name in the output folder is not one that mini-batches write: choose another name
            "#);
        }
        assert_eq!(bench.output("same"), wanted);
    }
}

#[test]
fn the_error_names_an_appended_file_that_lost_bytes() {
    let mut bench = CommitFixture::new(None);
    let target = CommitTarget { on_conflict: OnConflict::Append, ..bench.target() };
    bench.restart_as(target.clone(), false).unwrap();
    let success = bench.with_file(bench.success(0, 0, ""), "log");
    bench.submit(&success);
    bench.end_job();
    let path = bench.job.default_output().join("log");
    fs::write(&path, "of 0, and foreign bytes").unwrap();
    bench.restart_as(target.clone(), false).unwrap();
    assert_eq!(bench.output("log"), "of 0");
    fs::write(&path, "of").unwrap();
    let error = bench.restart_as(target, false).unwrap_err().to_string();
    let error = error.replace(&bench.dir.path().display().to_string(), "DIR");
    insta::assert_snapshot!(error, @"DIR/output/log has 2 bytes, and mini-batches of this job have written 4 to it: restore the file, or run the job again with --overwrite");
}

#[test]
fn files_of_init_and_shutdown_are_published_on_completion() {
    let mut bench = CommitFixture::new(None);
    bench.leave(0, "labels", "same");
    bench.leave(0, "of/0", "zero");
    bench.leave(1, "labels", "same");
    bench.committer().flush();
    let success = bench.success(0, 0, "");
    bench.submit(&success);
    bench.reply();
    assert!(!bench.job.default_output().join("labels").exists());
    // An interruption does not lose the files. But the files of a worker that did not end normally are
    // removed.
    let stray = bench.job.worker_output(WorkerId(3));
    fs::create_dir_all(&stray).unwrap();
    fs::write(stray.join("stray"), "").unwrap();
    assert_eq!(bench.restart(false).next_worker, 4);
    assert!(!stray.exists());
    assert_eq!(bench.end(), CommitReply::Finished);
    assert_eq!((bench.output("labels"), bench.output("of/0")), ("same".into(), "zero".into()));
    assert!(!bench.job.default_output().join("stray").exists());
}

#[test]
fn errors_name_workers_that_wrote_conflicting_files() {
    let mut texts = Vec::new();
    let mut case = |leave: &dyn Fn(&mut CommitFixture)| {
        let mut bench = CommitFixture::new(Some("rows.txt"));
        leave(&mut bench);
        let CommitReply::Fatal(error) = bench.end() else { panic!("it was published") };
        texts.push(error.to_string().replace(&bench.dir.path().display().to_string(), "DIR"));
        assert_eq!(bench.journal().finished().unwrap(), Some(JobStatus::Failed));
    };
    case(&|bench| {
        bench.leave(0, "sums", "1");
        bench.leave(2, "sums", "2");
    });
    case(&|bench| {
        let success = bench.with_file(bench.success(0, 0, ""), "sums");
        bench.submit(&success);
        bench.leave(1, "sums", "1");
    });
    case(&|bench| {
        bench.leave(0, "sums", "1");
        bench.leave(1, "sums/1", "1");
    });
    case(&|bench| bench.leave(0, "rows.txt", "1"));
    case(&|bench| {
        bench.leave(0, "a", "1");
        let link = bench.job.worker_output(WorkerId(0)).join("link");
        std::os::unix::fs::symlink("/etc/passwd", link).unwrap();
    });
    insta::assert_snapshot!(texts.join("\n"), @r#"
    the workers process000 and process002 both wrote the output "sums" in init or shutdown, with different content: put the agent name into the name of a file that each worker writes, or set output_files to append or overwrite
    process001 wrote the output "sums" in init or shutdown, and a mini-batch wrote a file of that name, with different content: put the agent name into the name of a file that each worker writes, or set output_files to append or overwrite
    in init or shutdown, one of the workers process000 and process001 wrote the output "sums" as a file, and the other as a folder: give them different names
    what process000 wrote in init or shutdown cannot be published: the output "rows.txt" cannot be published because the file of that name in the output folder is not one that mini-batches write: choose another name
    what process000 wrote in init or shutdown cannot be published: the output "link" is a symbolic link: only ordinary files and folders are published, so write the data itself
    "#);
}

#[test]
fn lifecycle_files_are_appended_or_replaced_as_configured() {
    for (on_conflict, wanted) in [(OnConflict::Append, "of 0ab"), (OnConflict::Overwrite, "b")] {
        let mut bench = CommitFixture::new(None);
        let target = CommitTarget { on_conflict, ..bench.target() };
        bench.restart_as(target, false).unwrap();
        let success = bench.with_file(bench.success(0, 0, ""), "log");
        bench.submit(&success);
        bench.leave(1, "log", "a");
        bench.leave(2, "log", "b");
        bench.leave(1, "labels", "x");
        bench.leave(2, "labels", "x");
        assert_eq!(bench.end(), CommitReply::Finished);
        assert_eq!((bench.output("log").as_str(), bench.output("labels").as_str()), (wanted, "x"));
    }
}
