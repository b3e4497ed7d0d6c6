//! Turns the paths in a job file into folders and patterns.

use super::pattern::{Pattern, is_glob, of_names};
use super::{DatasetError, err};
use crate::model::{GUEST_INPUTS, JobInput, Source};
use crate::opening::regular;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The maximum number of sources in a job. The limit has two reasons: each source needs two open
/// folders in each instance, and one message contains the columns of all tables.
const MAX_SOURCES: usize = 256;
/// The maximum total size of the paths and names of all sources, in bytes. One message contains
/// them all.
const MAX_NAME_BYTES: usize = 8 << 20;

/// Finds the sources of each input. Checks only the paths in the job file, and lists no folder. Fails if a
/// path is missing, cannot be read, or is neither a file, a folder nor a glob, or if there are too many
/// sources.
///
/// If an input names several files of one folder, they become one source, so that a mini-batch can hold
/// several files. A file that is named twice counts once.
///
/// Follows a path that is a link, wherever the link leads, because the job file names it. So the
/// guest sees a linked file under the name of the link's target.
pub fn resolve(inputs: &[JobInput]) -> Result<Vec<Source>, DatasetError> {
    resolve_with(inputs, &mut |_| false)
}

/// Like [`resolve`], but the files for which `is_file` is true need not exist yet.
pub fn resolve_with(
    inputs: &[JobInput],
    is_file: &mut dyn FnMut(&Path) -> bool,
) -> Result<Vec<Source>, DatasetError> {
    let mut sources = Vec::new();
    for input in inputs {
        let kinds = path_kinds(input, is_file)
            .map_err(|error| DatasetError(format!("input '{}': {}", input.name, error.0)))?;
        let is_only = kinds.len() == 1;
        for (index, kind) in kinds.into_iter().enumerate() {
            let guest = match is_only {
                true => format!("{GUEST_INPUTS}/{}", input.name),
                false => format!("{GUEST_INPUTS}/{}/{index}", input.name),
            };
            let mut partition_format = input.partition_format.clone();
            let (root, pattern) = match kind {
                PathKind::Folder(root) => (root, None),
                PathKind::Glob(root, glob) => {
                    partition_format = partition_format.map(|format| below_root(&root, &format));
                    (root, Some(glob))
                }
                PathKind::Files(root, names) => (root, Some(of_names(&names))),
            };
            sources.push(Source {
                dataset: input.name.clone(),
                root,
                guest,
                pattern,
                partition_format,
                take: input.take,
                manifest: None,
            });
        }
    }
    check_size(&sources)?;
    Ok(sources)
}

/// The part of a template below the root of a glob. For `data/*/*.csv`, the template may be
/// `data/{user}/{day}.csv`: the result is `{user}/{day}.csv`.
fn below_root(root: &Path, format: &str) -> String {
    let levels: Vec<&str> = format.split('/').collect();
    let fixed = levels.iter().take_while(|level| !level.contains('{')).count();
    let folders: Vec<&str> = root.iter().filter_map(|folder| folder.to_str()).collect();
    let are_in_root = |count: &usize| folders.ends_with(&levels[..*count]);
    let in_root = (0..=fixed).rev().find(are_in_root).unwrap_or_default();
    levels[in_root..].join("/")
}

fn check_size(sources: &[Source]) -> Result<(), DatasetError> {
    if sources.len() > MAX_SOURCES {
        return err!(
            "the inputs name {} different folders and globs, and at most {MAX_SOURCES} can be \
             read: name a folder above them or a glob over them, such as data/**/*.csv",
            sources.len(),
        );
    }
    let names = sources.iter().map(|source| {
        source.root.as_os_str().len() + source.pattern.as_ref().map_or(0, String::len)
    });
    let bytes: usize = names.sum();
    if bytes > MAX_NAME_BYTES {
        return err!(
            "the names of the files that the inputs list take {bytes} bytes, and at most \
             {MAX_NAME_BYTES} can be sent to a worker: name their folder or a glob instead, such as \
             data/*.csv"
        );
    }
    Ok(())
}

/// What a path of an input refers to.
#[derive(Debug)]
enum PathKind {
    Folder(PathBuf),
    /// The folder before the first wildcard, and the glob below the folder.
    Glob(PathBuf, String),
    /// A folder, and the names of files in the folder.
    Files(PathBuf, BTreeSet<String>),
}

/// What the input's paths refer to, in order. All files of one folder are one element, at the position of the
/// first file.
fn path_kinds(
    input: &JobInput,
    is_file: &mut dyn FnMut(&Path) -> bool,
) -> Result<Vec<PathKind>, DatasetError> {
    let mut kinds: Vec<PathKind> = Vec::new();
    // The index of each folder in `kinds`.
    let mut folders: HashMap<PathBuf, usize> = HashMap::new();
    for path in &input.paths {
        let found = match is_file(Path::new(path)) {
            true => file(Path::new(path))?,
            false => find(path)?,
        };
        match found {
            PathKind::Files(root, names) => {
                let index = *folders.entry(root.clone()).or_insert(kinds.len());
                match kinds.get_mut(index) {
                    Some(PathKind::Files(_, known)) => known.extend(names),
                    _ => kinds.push(PathKind::Files(root, names)),
                }
            }
            kind => kinds.push(kind),
        }
    }
    Ok(kinds)
}

/// Whether files in `folder` or below it may belong to the source, even if they do not exist yet. The
/// folder's path must be absolute and without links. Fails if the source's pattern is not a glob.
pub fn reaches(source: &Source, folder: &Path) -> Result<bool, DatasetError> {
    let Ok(below) = folder.strip_prefix(&source.root) else { return Ok(false) };
    let pattern = Pattern::new(source.pattern.as_deref())?;
    Ok(below.iter().enumerate().all(|(depth, name)| pattern.enters(name.as_bytes(), depth)))
}

/// What a path in the job file refers to.
fn find(path: &str) -> Result<PathKind, DatasetError> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if is_missing(&error) && is_glob(path) => return find_glob(path),
        Err(error) => return err!("{}", explain(path, &error)),
    };
    if metadata.is_dir() {
        let root = real(path)?;
        return match fs::read_dir(&root) {
            Ok(_) => Ok(PathKind::Folder(root)),
            Err(error) => err!("{}", explain(path, &error)),
        };
    }
    if !metadata.is_file() {
        return err!(
            "{path} is neither a file nor a folder but a device, fifo or socket; inputs are read \
             from files"
        );
    }
    if let Err(error) = regular(Path::new(path)) {
        return err!("{}", explain(path, &error));
    }
    file(&real(path)?)
}

/// A single file, given by its path without links.
fn file(path: &Path) -> Result<PathKind, DatasetError> {
    match (path.parent(), path.file_name().and_then(|name| name.to_str())) {
        (Some(parent), Some(name)) => {
            Ok(PathKind::Files(parent.to_owned(), BTreeSet::from([name.to_owned()])))
        }
        _ => err!("{} has no usable file name", path.display()),
    }
}

/// Splits a glob before the first part with a wildcard. The folders before that part are the root.
fn find_glob(path: &str) -> Result<PathKind, DatasetError> {
    let mut start = 0;
    for part in path.split_inclusive('/') {
        if is_glob(part) {
            break;
        }
        start += part.len();
    }
    let (folder, glob) = path.split_at(start);
    let folder = if folder.is_empty() { "." } else { folder };
    Pattern::new(Some(glob))?;
    match fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return err!("the glob {path} cannot match: {folder} is not a folder"),
        Err(error) => return err!("the glob {path} cannot match: {}", explain(folder, &error)),
    }
    match fs::read_dir(folder) {
        Ok(_) => Ok(PathKind::Glob(real(folder)?, glob.to_owned())),
        Err(error) => err!("the glob {path} cannot be used: {}", explain(folder, &error)),
    }
}

/// The path without links. It must be UTF-8, because it is sent to other processes and put into reports.
fn real(path: &str) -> Result<PathBuf, DatasetError> {
    match fs::canonicalize(path) {
        Ok(real) if real.to_str().is_some() => Ok(real),
        Ok(real) => err!("{path} leads to {real:?}, a name that is not UTF-8; rename it"),
        Err(error) => err!("{}", explain(path, &error)),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Why a path cannot be used, and what to check.
fn explain(path: &str, error: &io::Error) -> String {
    match error.kind() {
        _ if is_missing(error) => match first_missing(Path::new(path)) {
            Some(missing) if missing != Path::new(path) => {
                format!("{path} is not there: there is no {}; check the path", missing.display())
            }
            _ => format!("{path} is not there; check the path"),
        },
        ErrorKind::PermissionDenied => format!(
            "{path} may not be read by this user; check its permissions and those of the folders \
             above it"
        ),
        _ => format!("{path} cannot be read: {error}"),
    }
}

/// The topmost part of the path that does not exist.
fn first_missing(path: &Path) -> Option<&Path> {
    path.ancestors().take_while(|part| fs::symlink_metadata(part).is_err()).last()
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn input(paths: &[String]) -> Vec<JobInput> {
        vec![JobInput { paths: paths.to_vec(), ..JobInput::sample() }]
    }

    struct ResolveFixture(tempfile::TempDir);

    impl ResolveFixture {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join("in/a")).unwrap();
            for file in ["in/x.csv", "in/a/y[1].csv", "in/z*.csv"] {
                fs::write(dir.path().join(file), "1\n").unwrap();
            }
            Self(dir)
        }

        fn path(&self, path: &str) -> String {
            format!("{}/{path}", self.0.path().display())
        }

        /// The root and the pattern of an input with this path.
        fn one(&self, path: &str) -> (String, Option<String>) {
            let sources = resolve(&input(&[self.path(path)])).unwrap();
            let root = sources[0].root.to_str().unwrap();
            let base = fs::canonicalize(self.0.path()).unwrap();
            let root = root.strip_prefix(base.to_str().unwrap()).unwrap().to_owned();
            (root, sources[0].pattern.clone())
        }

        fn error(&self, path: &str) -> String {
            let error = resolve(&input(&[self.path(path)])).unwrap_err();
            error.to_string().replace(self.0.path().to_str().unwrap(), "/d")
        }
    }

    #[test]
    fn folders_files_and_globs_are_found() {
        let tree = ResolveFixture::new();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(tree.one("in"), ("/in".to_owned(), None));
        assert_eq!(tree.one("in/a/../"), ("/in".to_owned(), None));
        assert_eq!(tree.one("in/x.csv"), ("/in".to_owned(), some("x.csv")));
        assert_eq!(tree.one("in/a/y[1].csv"), ("/in/a".to_owned(), some("y[[]1[]].csv")));
        assert_eq!(tree.one("in/z*.csv"), ("/in".to_owned(), some("z[*].csv")));
        assert_eq!(tree.one("in/*.csv"), ("/in".to_owned(), some("*.csv")));
        assert_eq!(tree.one("in/**/y*"), ("/in".to_owned(), some("**/y*")));
        assert_eq!(tree.one("in/a?/b/*.csv"), ("/in".to_owned(), some("a?/b/*.csv")));
    }

    /// Row M4 of docs/parallel-run-step.md: a template may include the folders before the first wildcard of a
    /// glob.
    #[test]
    fn templates_of_globs_may_begin_above_them() {
        let tree = ResolveFixture::new();
        let base = fs::canonicalize(tree.0.path()).unwrap();
        let whole = format!("{}/in/{{user}}/x.csv", base.display());
        for (path, format, below) in [
            ("in/*/x.csv", "{user}/x.csv", "{user}/x.csv"),
            ("in/*/x.csv", "in/{user}/x.csv", "{user}/x.csv"),
            ("in/*/x.csv", whole.trim_start_matches('/'), "{user}/x.csv"),
            ("in/a/*.csv", "in/a/{day}.csv", "{day}.csv"),
            ("in/a/*.csv", "a/{day}.csv", "{day}.csv"),
            ("in/*/x.csv", "a/{user}/x.csv", "a/{user}/x.csv"),
            ("in/*/x.csv", "in/a/{user}.csv", "a/{user}.csv"),
            // A folder is not a glob: its template begins below the folder.
            ("in", "in/{user}/x.csv", "in/{user}/x.csv"),
        ] {
            let mut inputs = input(&[tree.path(path)]);
            inputs[0].partition_format = Some(format.to_owned());
            let sources = resolve(&inputs).unwrap();
            assert_eq!(sources[0].partition_format.as_deref(), Some(below), "{path} {format}");
        }
    }

    #[test]
    fn links_named_by_the_job_are_followed() {
        let tree = ResolveFixture::new();
        std::os::unix::fs::symlink("in/x.csv", tree.path("latest.csv")).unwrap();
        std::os::unix::fs::symlink("in/a", tree.path("dir")).unwrap();
        assert_eq!(tree.one("latest.csv"), ("/in".to_owned(), Some("x.csv".to_owned())));
        assert_eq!(tree.one("dir"), ("/in/a".to_owned(), None));
    }

    /// The caller knows the objects of a store, even if they have not been fetched. What is on the disk at
    /// the paths of these objects does not matter.
    #[test]
    fn files_that_the_caller_knows_need_not_exist() {
        let tree = ResolveFixture::new();
        let folder = fs::canonicalize(tree.0.path()).unwrap();
        let paths = ["in/x.csv", "in/none.csv", "in/[1].csv", "in"].map(|path| tree.path(path));
        std::os::unix::fs::symlink("/etc/passwd", tree.path("in/[1].csv")).unwrap();
        let mut is_file = |path: &Path| path.extension().is_some();
        let sources = resolve_with(&input(&paths), &mut is_file).unwrap();
        let found: Vec<_> =
            sources.iter().map(|source| (&source.root, source.pattern.as_deref())).collect();
        let root = folder.join("in");
        assert_eq!(found, [(&root, Some("{[[]1[]].csv,none.csv,x.csv}")), (&root, None)]);
        assert!(resolve_with(&input(&paths), &mut |_| false).is_err());
        let up = input(&[tree.path("in/..")]);
        assert!(resolve_with(&up, &mut |_| true).is_err());
    }

    #[test]
    fn guests_see_one_folder_for_each_path() {
        let tree = ResolveFixture::new();
        let one = resolve(&input(&[tree.path("in")])).unwrap();
        assert_eq!(one[0].guest, "/inputs/data");
        let two = resolve(&input(&[tree.path("in"), tree.path("in/a/*")])).unwrap();
        let guests: Vec<_> = two.iter().map(|source| source.guest.as_str()).collect();
        assert_eq!(guests, ["/inputs/data/0", "/inputs/data/1"]);
        assert!(two.iter().all(|source| source.dataset == "data"));
    }

    #[test]
    fn files_of_one_folder_are_one_source() {
        let tree = ResolveFixture::new();
        fs::write(tree.path("in/o,k.csv"), "1\n").unwrap();
        let paths = ["in/x.csv", "in/a/y[1].csv", "in", "in/z*.csv", "in/x.csv", "in/o,k.csv"];
        let sources = resolve(&input(&paths.map(|path| tree.path(path)))).unwrap();
        let sources: Vec<_> = sources
            .iter()
            .map(|source| (source.guest.as_str(), source.pattern.as_deref().unwrap_or_default()))
            .collect();
        let list = "{o[,]k.csv,x.csv,z[*].csv}";
        let expected =
            [("/inputs/data/0", list), ("/inputs/data/1", "y[[]1[]].csv"), ("/inputs/data/2", "")];
        assert_eq!(sources, expected);
        let two = resolve(&input(&[tree.path("in/x.csv"), tree.path("in/z*.csv")])).unwrap();
        assert_eq!((two.len(), two[0].guest.as_str()), (1, "/inputs/data"));
    }

    #[test]
    fn too_many_sources_are_refused() {
        let tree = ResolveFixture::new();
        let many = input(&vec![tree.path("in"); 257]);
        assert_snapshot!(resolve(&many).unwrap_err(), @"the inputs name 257 different folders and globs, and at most 256 can be read: name a folder above them or a glob over them, such as data/**/*.csv");
        assert_eq!(resolve(&input(&vec![tree.path("in"); 256])).unwrap().len(), 256);
        let mut sources = resolve(&input(&[tree.path("in")])).unwrap();
        sources[0].pattern = Some("x".repeat(9 << 20));
        let root = sources[0].root.as_os_str().len();
        let error = check_size(&sources).unwrap_err().to_string();
        assert_snapshot!(error.replace(&((9 << 20) + root).to_string(), "N"), @"the names of the files that the inputs list take N bytes, and at most 8388608 can be sent to a worker: name their folder or a glob instead, such as data/*.csv");
    }

    #[test]
    fn unusable_paths_are_refused() {
        let tree = ResolveFixture::new();
        assert_snapshot!(tree.error("in/nope.csv"), @"input 'data': /d/in/nope.csv is not there; check the path");
        assert_snapshot!(tree.error("im/x.csv"), @"input 'data': /d/im/x.csv is not there: there is no /d/im; check the path");
        assert_snapshot!(tree.error("im/b/*.csv"), @"input 'data': the glob /d/im/b/*.csv cannot match: /d/im/b/ is not there: there is no /d/im; check the path");
        assert_snapshot!(tree.error("in/x.csv/*"), @"input 'data': the glob /d/in/x.csv/* cannot match: /d/in/x.csv/ is not there; check the path");
        assert_snapshot!(tree.error("in/[a"), @r#"input 'data': "[a" is not a glob: unclosed character class; missing ']'"#);
        let socket = std::os::unix::net::UnixListener::bind(tree.path("socket")).unwrap();
        assert_snapshot!(tree.error("socket"), @"input 'data': /d/socket is neither a file nor a folder but a device, fifo or socket; inputs are read from files");
        drop(socket);
    }

    /// Row T2 of docs/parallel-run-step.md. The test also works for a user who may read everything.
    #[test]
    fn unreadable_paths_are_named() {
        let error = io::Error::from(ErrorKind::PermissionDenied);
        assert_snapshot!(explain("/data/a.csv", &error), @"/data/a.csv may not be read by this user; check its permissions and those of the folders above it");
    }
}
