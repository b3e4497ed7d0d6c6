//! Checks that a job does not read what it writes.

use super::error::NodeError;
use super::real_paths::resolve;
use super::staging::Staged;
use crate::dataset;
use crate::model::{self, Source};
use crate::spec::{JobSpec, JobStorePlace};
use std::path::{Path, PathBuf};

/// Fails if a path that the job reads contains a folder that the job writes, or is inside such a folder. Also
/// fails if one of these paths is not UTF-8: messages and `job.json` could not hold it.
pub(super) fn refuse_overlap(
    spec: &JobSpec,
    staged: &Staged,
    job_dir: &Path,
) -> Result<(), NodeError> {
    let written = WrittenFolders::of(spec, job_dir)?;
    for source in &staged.sources {
        written.refuse_input(source)?;
    }
    for (reader, path) in shown_whole(spec, staged) {
        written.refuse_whole(reader, path)?;
    }
    Ok(())
}

/// The folders that a job writes, without links, and what they are.
pub(super) struct WrittenFolders {
    folders: Vec<(&'static str, PathBuf)>,
    /// The job's name.
    job: String,
}

impl WrittenFolders {
    /// # Errors
    /// If a path cannot be resolved, or is not UTF-8.
    pub(super) fn of(spec: &JobSpec, job_dir: &Path) -> Result<Self, NodeError> {
        let mut folders = vec![("the job directory", utf8("the job directory", job_dir)?)];
        if let Some(output) = &spec.output {
            folders.push(("the output folder", utf8("the output folder", output)?));
        }
        if let Some(store) = spec.job_store.as_ref().and_then(JobStorePlace::folder) {
            // Other folders in the same store may hold inputs.
            folders.push(("the job store", utf8("the job store", &store.join(&spec.name))?));
        }
        Ok(Self { folders, job: spec.name.clone() })
    }

    /// Fails if a source of an input, which is without links, has files in these folders.
    pub(super) fn refuse_input(&self, source: &Source) -> Result<(), NodeError> {
        for (what, folder) in self.not_uploaded(&source.root) {
            if source.root.starts_with(folder) || dataset::reaches(source, folder)? {
                let advice = advice(what).unwrap_or(
                    "choose another job directory with --job-dir, or narrow the input (e.g. data/*.png)",
                );
                let reader = format!("input '{}'", source.dataset);
                return refused(reader, what, folder, advice.to_owned());
            }
        }
        Ok(())
    }

    /// Fails if the entry script would see files of these folders below a path that it sees whole. `reader`: the name of
    /// what has the path, for messages.
    pub(super) fn refuse_whole(&self, reader: String, path: &Path) -> Result<(), NodeError> {
        let shown = utf8(&reader, path)?;
        for (what, folder) in self.not_uploaded(&shown) {
            if shown.starts_with(folder) || folder.starts_with(&shown) {
                let other_dir = || {
                    format!("choose another job directory, {}", option_beside(&shown, &self.job))
                };
                let advice = advice(what).map_or_else(other_dir, str::to_owned);
                return refused(reader, what, folder, advice);
            }
        }
        Ok(())
    }

    /// The folders that a path must not overlap.
    fn not_uploaded(&self, path: &Path) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        // What was uploaded is in the job's folder, and no run writes it.
        let folders = self.folders.iter().filter(move |(what, folder)| {
            *what != "the job store" || !model::is_uploaded(folder, path)
        });
        folders.map(|(what, folder)| (*what, folder))
    }
}

fn refused(
    reader: String,
    what: &'static str,
    folder: &Path,
    advice: String,
) -> Result<(), NodeError> {
    Err(NodeError::Overlap { reader, what, folder: folder.to_owned(), advice })
}

/// What the user should change. `None` for the job directory.
fn advice(what: &str) -> Option<&'static str> {
    match what {
        "the output folder" => Some("name another folder for `output`"),
        "the job store" => Some("name another folder for `job_store`"),
        _ => None,
    }
}

/// The command-line option that puts the job directory beside the folder, not inside it.
fn option_beside(folder: &Path, job: &str) -> String {
    let beside = folder.parent().unwrap_or(Path::new("/")).join("jobs").join(job);
    format!("e.g. with --job-dir '{}'", beside.display().to_string().replace('\'', r"'\''"))
}

/// The files and folders that the entry script sees whole: side inputs, source folder and models.
/// Each comes with its name for messages.
fn shown_whole<'a>(
    spec: &'a JobSpec,
    staged: &'a Staged,
) -> impl Iterator<Item = (String, &'a Path)> {
    let side_inputs = staged.side_inputs.iter();
    let side_inputs = side_inputs
        .map(|mount| (format!("the side input at {}", mount.guest), mount.host.as_path()));
    let source = spec.source_directory.as_deref();
    let models = staged.models.iter().map(|model| {
        let path = model.folder.as_deref().unwrap_or(&model.file);
        (format!("model {}", model.name), path)
    });
    side_inputs.chain(source.map(|path| ("source_directory".to_owned(), path))).chain(models)
}

/// The path without links. Fails if the path or its target is not UTF-8.
fn utf8(what: &str, path: &Path) -> Result<PathBuf, NodeError> {
    let resolved = resolve(path)?;
    for path in [path, &resolved] {
        if path.to_str().is_none() {
            return Err(NodeError::NotUtf8 { what: what.to_owned(), path: path.to_owned() });
        }
    }
    Ok(resolved)
}
