//! What a job reads and what it writes must not be in each other's way.

use super::error::NodeError;
use super::real_paths::resolve;
use super::staging::Staged;
use crate::dataset;
use crate::spec::JobSpec;
use std::path::{Path, PathBuf};

/// Nothing that is read may take in what the job writes, or lie where it would be removed. And no
/// path of either may be one that messages and `job.json` cannot hold.
pub(super) fn refuse_overlap(
    spec: &JobSpec,
    staged: &Staged,
    job_dir: &Path,
) -> Result<(), NodeError> {
    let mut places = vec![("the job directory", utf8("the job directory", job_dir)?)];
    if let Some(output) = &spec.output {
        places.push(("the output folder", utf8("the output folder", output)?));
    }
    let refused = |reader: String, what, folder: &PathBuf, advice| {
        Err(NodeError::Overlap { reader, what, folder: folder.clone(), advice })
    };
    for source in &staged.sources {
        for (what, folder) in &places {
            if source.root.starts_with(folder) || dataset::reaches(source, folder)? {
                let advice = match *what {
                    "the output folder" => "name another folder for `output`",
                    _ => "name another place with --job-dir, or narrow the input (e.g. data/*.png)",
                };
                let reader = format!("input '{}'", source.dataset);
                return refused(reader, what, folder, advice.to_owned());
            }
        }
    }
    for (reader, path) in shown_whole(spec, staged) {
        let shown = utf8(&reader, path)?;
        for (what, folder) in &places {
            if shown.starts_with(folder) || folder.starts_with(&shown) {
                let advice = match *what {
                    "the output folder" => "name another folder for `output`".to_owned(),
                    _ => format!("name another place, {}", place_beside(&shown, &spec.name)),
                };
                return refused(reader, what, folder, advice);
            }
        }
    }
    Ok(())
}

/// How to name a job directory that does not lie in the folder: beside it.
fn place_beside(folder: &Path, job: &str) -> String {
    let beside = folder.parent().unwrap_or(Path::new("/")).join("jobs").join(job);
    format!("as by --job-dir '{}'", beside.display().to_string().replace('\'', r"'\''"))
}

/// The folders, beside the inputs, that the entry script sees with all that is in them, and models that
/// are single files.
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

/// The path without links. Fails if it, or what it leads to, is not UTF-8.
fn utf8(what: &str, path: &Path) -> Result<PathBuf, NodeError> {
    let resolved = resolve(path)?;
    for path in [path, &resolved] {
        if path.to_str().is_none() {
            return Err(NodeError::NotUtf8 { what: what.to_owned(), path: path.to_owned() });
        }
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::options::NodeOptions;
    use crate::node::prepare::prepare;
    use crate::protocol::node::Prepare;
    use crate::spec;
    use insta::assert_snapshot;
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    /// What is said of a job with these lines in a folder with `in/a.txt` and `model/`.
    fn refused(lines: &str, job_dir: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        refused_in(dir.path(), lines, job_dir.as_ref())
    }

    fn refused_in(folder: &Path, lines: &str, job_dir: &OsStr) -> String {
        for made in ["in", "model"] {
            fs::create_dir_all(folder.join(made)).unwrap();
        }
        fs::write(folder.join("in/a.txt"), "a").unwrap();
        let entry = folder.join("entry.wasm");
        fs::write(&entry, "no entry script").unwrap();
        let job = folder.join("job.yaml");
        fs::write(&job, format!("name: x\nentry_script: {}\n{lines}\n", entry.display())).unwrap();
        let spec = spec::load_plain(&job, &[]).map_err(|errors| errors.to_string()).unwrap();
        let cache_dir = Some(folder.join("cache"));
        let options = NodeOptions { cache_dir, ..NodeOptions::of("/nonexistent") };
        let place = |path: &Path| resolve(path).unwrap();
        let ask = Prepare {
            job_dir: place(&folder.join(job_dir)),
            output: spec.output.as_deref().map(place),
            parent: None,
            job_file: None,
            begins: true,
        };
        let error = prepare(spec, options, &ask, &mut |_| {}).err().unwrap();
        assert!(!ask.job_dir.exists(), "{error}");
        let resolved = folder.canonicalize().unwrap();
        let text = error.to_string().replace(resolved.to_str().unwrap_or("/none"), "/d");
        let above = resolved.parent().and_then(Path::to_str).unwrap_or("/none");
        text.replace(&format!("{above}/jobs"), "/above/jobs")
    }

    #[test]
    fn nothing_that_is_read_takes_in_what_is_written() {
        let side = "inputs: {a: in}\nside_inputs: {s: model}";
        assert_snapshot!(refused("inputs: {a: .}", "jobs/x"), @"input 'a' and the job directory /d/jobs/x are in each other's way, as the job would read what it writes: name another place with --job-dir, or narrow the input (e.g. data/*.png)");
        assert_snapshot!(refused(side, "model/jobs/x"), @"the side input at /side_inputs/s and the job directory /d/model/jobs/x are in each other's way, as the job would read what it writes: name another place, as by --job-dir '/d/jobs/x'");
        assert_snapshot!(refused(&format!("{side}\noutput: model/out"), "jobs/x"), @"the side input at /side_inputs/s and the output folder /d/model/out are in each other's way, as the job would read what it writes: name another folder for `output`");
        assert_snapshot!(refused("inputs: {a: in}\nsource_directory: .", "jobs/x"), @"source_directory and the job directory /d/jobs/x are in each other's way, as the job would read what it writes: name another place, as by --job-dir '/above/jobs/x'");
        // Only the entry script is wrong with these.
        for lines in [side, "inputs: {a: '*/*.txt'}", "inputs: {a: in}\nsource_directory: model"] {
            let error = refused(lines, "jobs/x");
            assert!(error.contains("entry.wasm"), "{lines}: {error}");
        }
    }

    #[test]
    fn paths_that_no_message_holds_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let job_dir = OsStr::from_bytes(b"jobs-\xFF");
        let error = refused_in(dir.path(), "inputs: {a: in}", job_dir);
        assert_snapshot!(error, @r#"the path of the job directory is not UTF-8: "/d/jobs-\xFF"; rename the folder, or use another"#);
        // Links lead into a folder whose name is no text.
        let odd = dir.path().join(OsStr::from_bytes(b"odd-\xFF"));
        fs::create_dir(&odd).unwrap();
        std::os::unix::fs::symlink(&odd, dir.path().join("link")).unwrap();
        for lines in ["inputs: {a: in}\noutput: link", "inputs: {a: in}\nside_inputs: {s: link}"] {
            let error = refused_in(dir.path(), lines, "jobs".as_ref());
            assert!(error.contains("is not UTF-8"), "{error}");
        }
    }
}
