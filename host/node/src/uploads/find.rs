//! Finds the files of a job that only this machine may have.

use super::LocalFile;
use crate::dataset::{SourceListing, resolve};
use crate::error::NodeError;
use crate::model::{InputKind, JobInput, Source, TableKind, UploadedMeaning};
use crate::overlap::WrittenFolders;
use crate::spec::{JobSpec, ModelSpec, StoredKind};
use crate::staging::{check_table_log, refuses_tables};
use crate::upload_error::UploadError;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// One input, side input or model on this machine.
#[derive(Debug)]
pub(super) struct LocalData {
    /// The key in the job file.
    pub(super) key: String,
    /// Its paths, in their order.
    pub(super) folders: Vec<LocalFolder>,
    /// The input's `partition_format` below these paths.
    pub(super) partition_format: Option<String>,
}

/// What a path of the job file means.
#[derive(Debug)]
pub(super) struct LocalFolder {
    /// The folder, for messages.
    pub(super) path: PathBuf,
    pub(super) files: Vec<LocalFile>,
    pub(super) means: UploadedMeaning,
}

/// Everything of a job that is on this machine. Fails if that is something that the job writes, to `job_dir` or another
/// folder: it would be uploaded, and read, instead of what the job writes.
pub(super) fn find(
    spec: &JobSpec,
    job_dir: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<LocalData>, NodeError> {
    let written = WrittenFolders::of(spec, job_dir)?;
    let mut found = Vec::new();
    for (index, input) in spec.inputs.iter().enumerate() {
        if input.addresses().next().is_none() {
            found.push(find_input((spec, &written), index, input, say)?);
        }
    }
    for (index, mount) in spec.side_inputs.iter().enumerate() {
        if spec.stored_at(StoredKind::SideInput(index)).is_none() {
            let name = spec.side_input_names.get(index).map_or("", String::as_str);
            let key = format!("side_inputs.{name}");
            written.refuse_whole(key.clone(), &mount.host)?;
            let folder = match mount.host.is_file() {
                true => single_file(&key, &mount.host)?,
                false => whole_folder(&key, &mount.host, say)?,
            };
            found.push(LocalData { key, folders: vec![folder], partition_format: None });
        }
    }
    for (index, ModelSpec { name, file, folder, .. }) in spec.models.iter().enumerate() {
        if spec.stored_at(StoredKind::Model(index)).is_none() {
            let key = format!("models.{name}");
            written.refuse_whole(key.clone(), folder.as_deref().unwrap_or(file))?;
            let folder = match folder {
                Some(folder) => whole_folder(&key, folder, say)?,
                None => single_file(&key, file)?,
            };
            found.push(LocalData { key, folders: vec![folder], partition_format: None });
        }
    }
    Ok(found)
}

fn find_input(
    (spec, written): (&JobSpec, &WrittenFolders),
    index: usize,
    input: &JobInput,
    say: &mut dyn FnMut(&str),
) -> Result<LocalData, NodeError> {
    let key = format!("inputs.{}", input.name);
    let kind = match &spec.input_kind {
        InputKind::Tables { inputs, .. } => inputs.get(index).map(|table| table.kind),
        _ => None,
    };
    let mut folders = Vec::new();
    let mut formats = Vec::new();
    for source in resolve(std::slice::from_ref(input))? {
        written.refuse_input(&source)?;
        check_table_log(spec, input, &source, say)?;
        let mut files = list(&key, &source, (kind, refuses_tables(spec, input)), say)?;
        if kind.is_some_and(TableKind::is_database) {
            add_files_beside(&mut files);
        }
        let means = match source.pattern {
            None => UploadedMeaning::Folder,
            Some(_) => UploadedMeaning::Files,
        };
        folders.push(LocalFolder { path: source.root, files, means });
        formats.push(source.partition_format);
    }
    formats.dedup();
    match formats.len() {
        0 | 1 => Ok(LocalData { key, folders, partition_format: formats.pop().flatten() }),
        _ => Err(UploadError::Format(key).into()),
    }
}

/// The files of a source, as a job that reads them here would find them.
fn list(
    key: &str,
    source: &Source,
    (kind, refuses_tables): (Option<TableKind>, bool),
    say: &mut dyn FnMut(&str),
) -> Result<Vec<LocalFile>, NodeError> {
    let listing = match kind {
        Some(_) => SourceListing::of_rows(source)?,
        None => SourceListing::new(source)?,
    };
    let mut listing = if refuses_tables { listing.refusing_tables() } else { listing };
    let mut files = Vec::new();
    while let Some(name) = listing.next_file()? {
        files.push(LocalFile { path: source.root.join(&name), name });
    }
    if let Some(bad) = listing.take_bad().into_iter().next() {
        return Err(UploadError::Unusable { key: key.to_owned(), reason: bad.reason }.into());
    }
    listing.take_notices().iter().for_each(|notice| say(notice));
    Ok(files)
}

/// Adds the files in which databases keep changes. A job refuses a database whose changes are not in it yet.
fn add_files_beside(files: &mut Vec<LocalFile>) {
    for index in 0..files.len() {
        for end in ["-wal", "-journal"] {
            let LocalFile { name, path } = &files[index];
            let name = format!("{name}{end}");
            let mut path = OsString::from(path);
            path.push(end);
            let path = PathBuf::from(path);
            let is_filled = path.metadata().is_ok_and(|found| found.is_file() && found.len() > 0);
            if is_filled && files.iter().all(|file| file.name != name) {
                files.push(LocalFile { name, path });
            }
        }
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
}

/// A side input or model that is a single file.
fn single_file(key: &str, path: &Path) -> Result<LocalFolder, UploadError> {
    let name = path.file_name().and_then(|name| name.to_str());
    let odd = || UploadError::OddName { key: key.to_owned(), path: path.to_owned() };
    let name = name.ok_or_else(odd)?.to_owned();
    let file = LocalFile { name: name.clone(), path: path.to_owned() };
    let means = UploadedMeaning::File(name);
    Ok(LocalFolder { path: path.to_owned(), files: vec![file], means })
}

/// A side input or model that is a folder. Leaves out links that an entry script could not follow.
fn whole_folder(
    key: &str,
    folder: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<LocalFolder, UploadError> {
    let unusable = |reason| UploadError::Unusable { key: key.to_owned(), reason };
    let read = |source| UploadError::Read { path: folder.to_owned(), source };
    let root = folder.canonicalize().map_err(read)?;
    let mut files = Vec::new();
    for entry in WalkDir::new(&root).sort_by_file_name() {
        let entry = entry.map_err(|error| unusable(error.to_string()))?;
        let path = entry.path();
        if entry.file_type().is_dir() {
            continue;
        }
        let is_file = path.metadata().is_ok_and(|found| found.is_file());
        let is_inside = path.canonicalize().is_ok_and(|real| real.starts_with(&root));
        if !is_file || !is_inside {
            say(&format!(
                "{key}: {} is not uploaded: it is neither a file nor a link to a file in the folder",
                path.display()
            ));
            continue;
        }
        let name = path.strip_prefix(&root).ok().and_then(Path::to_str);
        let odd = || UploadError::OddName { key: key.to_owned(), path: path.to_owned() };
        files.push(LocalFile { name: name.ok_or_else(odd)?.to_owned(), path: path.to_owned() });
    }
    Ok(LocalFolder { path: folder.to_owned(), files, means: UploadedMeaning::Folder })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::load_plain;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A folder with files, and the data that a job with these lines finds in it.
    fn found(files: &[&str], lines: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        for name in files.iter().chain(&["script.wasm"]) {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        if dir.path().join("in").is_dir() {
            symlink("a.csv", dir.path().join("in/link.csv")).unwrap();
        }
        let job = dir.path().join("job.yaml");
        fs::write(&job, format!("entry_script: script.wasm\n{lines}\n")).unwrap();
        let spec = load_plain(&job, &[]).unwrap();
        let data = find(&spec, &dir.path().join("jobs/x"), &mut |_| ()).unwrap();
        let shown = data.iter().flat_map(|data| {
            data.folders.iter().map(|folder| {
                let names: Vec<&str> = folder.files.iter().map(|file| &*file.name).collect();
                let format = data.partition_format.as_deref().unwrap_or_default();
                let shown = format!("{} {:?} {names:?} {format}", data.key, folder.means);
                shown.trim_end().to_owned()
            })
        });
        shown.collect::<Vec<_>>().join("\n")
    }

    const FILES: [&str; 4] = ["in/a.csv", "in/deep/b.csv", "in/.hidden", "in/_SUCCESS"];

    #[test]
    fn the_files_are_those_that_the_job_reads() {
        let shown = |lines: &str| found(&FILES, lines);
        insta::assert_snapshot!(shown("inputs: {x: in}"), @r#"inputs.x Folder [".hidden", "_SUCCESS", "a.csv", "deep/b.csv", "link.csv"]"#);
        insta::assert_snapshot!(shown("inputs: {x: 'in/**/*.csv'}"), @r#"inputs.x Files ["a.csv", "deep/b.csv", "link.csv"]"#);
        insta::assert_snapshot!(shown("inputs: {x: {paths: [in/a.csv, in/deep]}}"), @r#"
        inputs.x Files ["a.csv"]
        inputs.x Folder ["b.csv"]
        "#);
        insta::assert_snapshot!(shown("inputs: {x: {path: in, format: csv}}"), @r#"inputs.x Folder ["a.csv", "deep/b.csv", "link.csv"]"#);
        let format = "inputs: {x: {path: 'in/deep/*.csv', partition_format: 'deep/{name}.csv', format: csv}}";
        insta::assert_snapshot!(shown(format), @r#"inputs.x Files ["b.csv"] {name}.csv"#);
        let side = "inputs: {x: 's3://b/x'}\nside_inputs: {one: in/a.csv, all: in}";
        insta::assert_snapshot!(shown(side), @r#"
        side_inputs.one File("a.csv") ["a.csv"]
        side_inputs.all Folder [".hidden", "_SUCCESS", "a.csv", "deep/b.csv", "link.csv"]
        "#);
    }

    /// A job does not read what it writes, and does not upload it either.
    #[test]
    fn what_the_job_writes_is_not_uploaded() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["in/a.csv", "out/b.csv", "jobs/job/uploads/x/c", "script.wasm"] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "1").unwrap();
        }
        let said = |lines: &str, job_dir: &str| {
            let job = root.join("job.yaml");
            let rest = "name: job\nentry_script: script.wasm\noutput: out\njob_store: jobs";
            fs::write(&job, format!("{rest}\n{lines}\n")).unwrap();
            let spec = load_plain(&job, &[]).unwrap();
            let error = find(&spec, &root.join(job_dir), &mut |_| ()).map(drop).unwrap_err();
            error.to_string().replace(root.to_str().unwrap(), "ROOT")
        };
        for (lines, job_dir, expected) in [
            ("inputs: {x: .}", "own", "input 'x' and the job directory ROOT/own overlap"),
            ("inputs: {x: out}", "own", "input 'x' and the output folder ROOT/out overlap"),
            ("inputs: {x: '**/*'}", "/own", "input 'x' and the output folder ROOT/out overlap"),
            ("inputs: {x: jobs}", "/own", "input 'x' and the job store ROOT/jobs/job overlap"),
            (
                "inputs: {x: in}\nside_inputs: {y: jobs}",
                "/own",
                "side_inputs.y and the job store ROOT/jobs/job overlap",
            ),
        ] {
            let error = said(lines, job_dir);
            assert!(error.starts_with(expected), "{lines}: {error}");
        }
    }

    /// What a database has not taken over yet is uploaded, too: the job refuses such a database, as it does here.
    #[test]
    fn the_files_beside_a_database_are_uploaded() {
        let files = ["in/x.db", "in/x.db-wal"];
        let lines = "inputs: {x: {path: in/x.db, format: sqlite, table: t}}";
        insta::assert_snapshot!(found(&files, lines), @r#"inputs.x Files ["x.db", "x.db-wal"]"#);
    }
}
