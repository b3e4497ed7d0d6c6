//! The current model call of a worker, for the message of a time-out: a backend may hang, and a killed worker
//! cannot report anything.

use crate::inference::has_inference;
use crate::model::{InferenceNote, InferenceWork, JobDir, WorkerId};
use crate::protocol::WorkerSetup;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

/// Describes the worker's current model call, such as `loading the model "a" for the last 2.0 s`.
/// `None` if no model call is running. `most`: how long the guest has been inside `init` or `run`;
/// its model call cannot have taken longer. `template`: the set-up of workers.
pub(super) fn current_model_call(
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
    describe_note(read_note(job_dir, worker)?, &names, most)
}

/// The worker's last note. The worker is untrusted, so we check that the note is valid.
fn read_note(job_dir: &JobDir, worker: WorkerId) -> Option<InferenceNote> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut options = OpenOptions::new();
    let options = options.read(true).custom_flags(flags);
    let file = options.open(job_dir.worker_inference(worker)).ok()?;
    let mut bytes = Vec::with_capacity(InferenceNote::BYTES + 1);
    file.take(InferenceNote::BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
    InferenceNote::decode(&bytes)
}

/// Describes a note, such as `computing with the model "digits" for the last 1.9 s`. `None` if there is no
/// such model.
fn describe_note(note: InferenceNote, names: &[&str], most: Duration) -> Option<String> {
    let model = match note.model {
        None => "a model that the entry script supplied".to_owned(),
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
            describe_note(read_note(&job_dir, WorkerId(3))?, &["a", "b"], Duration::from_secs(2))
        };
        let note =
            |work, model| InferenceNote::encode(Some(InferenceNote { work, model, since: 0 }));
        let computing = note(InferenceWork::Computing, Some(1));
        insta::assert_snapshot!(describe(&computing).unwrap(), @r#"computing with the model "b" for the last 2.0 s"#);
        insta::assert_snapshot!(describe(&note(InferenceWork::Loading, None)).unwrap(), @"loading a model that the entry script supplied for the last 2.0 s");
        assert_eq!(
            describe(&note(InferenceWork::Loading, Some(2))),
            None,
            "there is no such model"
        );
        assert_eq!(describe(&InferenceNote::encode(None)), None);
        assert_eq!(describe(&[2; 4000]), None);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert_eq!(read_note(&job_dir, WorkerId(3)), None);
    }
}
