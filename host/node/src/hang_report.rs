//! The current model call of a worker, for the message of a time-out: a backend may hang, and a killed worker
//! cannot report anything.

use crate::inference::has_inference;
use crate::model::{InferenceNote, InferenceWork, JobDir, WorkerId};
use crate::protocol::WorkerSetup;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

/// The worker's current model call, in words. `None` if there is none. `most`: how long its guest has been in
/// the current call, an upper bound for the duration. `template`: the set-up of workers.
pub(super) fn inferring(
    template: &WorkerSetup,
    job_dir: &JobDir,
    worker: WorkerId,
    most: Duration,
) -> Option<String> {
    if !has_inference(&template.models, &template.inference) {
        return None;
    }
    let mut names: Vec<&str> = template.models.iter().map(|model| model.name.as_str()).collect();
    names.sort_unstable();
    words(read(job_dir, worker)?, &names, most)
}

/// The worker's last note. The worker is untrusted, so we check that it is a valid note.
fn read(job_dir: &JobDir, worker: WorkerId) -> Option<InferenceNote> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut options = OpenOptions::new();
    let options = options.read(true).custom_flags(flags);
    let file = options.open(job_dir.worker_inference(worker)).ok()?;
    let mut bytes = Vec::with_capacity(InferenceNote::BYTES + 1);
    file.take(InferenceNote::BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
    InferenceNote::decode(&bytes)
}

/// `computing with the model "digits" for the last 1.9 s`.
fn words(note: InferenceNote, names: &[&str], most: Duration) -> Option<String> {
    let model = match note.model {
        None => "a model of its own".to_owned(),
        Some(index) => format!("the model {:?}", names.get(index as usize)?),
    };
    let what = match note.work {
        InferenceWork::Loading => "loading",
        InferenceWork::Computing => "computing with",
    };
    Some(format!("{what} {model} for the last {:.1} s", note.lasted(most).as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inference_note_is_described_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let job_dir = JobDir::new(dir.path());
        let path = job_dir.worker_inference(WorkerId(3));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let describe = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            words(read(&job_dir, WorkerId(3))?, &["a", "b"], Duration::from_secs(2))
        };
        let note =
            |work, model| InferenceNote::encode(Some(InferenceNote { work, model, since: 0 }));
        let computing = note(InferenceWork::Computing, Some(1));
        insta::assert_snapshot!(describe(&computing).unwrap(), @r#"computing with the model "b" for the last 2.0 s"#);
        insta::assert_snapshot!(describe(&note(InferenceWork::Loading, None)).unwrap(), @"loading a model of its own for the last 2.0 s");
        assert_eq!(
            describe(&note(InferenceWork::Loading, Some(2))),
            None,
            "there is no such model"
        );
        assert_eq!(describe(&InferenceNote::encode(None)), None);
        assert_eq!(describe(&[2; 4000]), None);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert_eq!(read(&job_dir, WorkerId(3)), None);
    }
}
