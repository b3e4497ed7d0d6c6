//! `sandmill dataset` and `sandmill model`: names with versions for the datasets and models of jobs.

use super::error::ArgumentError;
use super::exit::{Exit, Problem};
use super::policy::PolicyArgument;
use super::{print, print_json, refused, say};
use crate::dataset::{self, SourceListing};
use crate::model::{
    Address, JobInput, Latest, Registered, RegisteredContent, RegisteredKind, RegisteredName,
    counted, is_registered_name, printable,
};
use crate::node;
use crate::registry::{NewVersion, Registry, RegistryError, default_file};
use crate::spec::{ModelSpec, NotRegistered, Registrations};
use anyhow::{Context, anyhow};
use clap::Subcommand;
use jiff::Timestamp;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub(super) enum DatasetCommand {
    /// Registers files, folders and globs under a name, for inputs: `dataset: NAME@VERSION`.
    Register {
        #[command(flatten)]
        new: VersionToAdd,
        /// Files, folders or globs. With --datastore, paths in the datastore.
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<String>,
        /// The datastore that holds the paths. Such paths are not checked.
        #[arg(long, value_name = "NAME")]
        datastore: Option<String>,
    },
    /// Lists the latest version of each dataset.
    List(ListArguments),
    /// Shows a registered dataset.
    Show(ShowArguments),
    /// Unregisters a version of a dataset, or all versions. The files stay.
    Remove(RemoveArguments),
}

#[derive(Debug, Subcommand)]
pub(super) enum ModelCommand {
    /// Registers a model under a name, for models: `model: NAME@VERSION`. The file's SHA-256 is recorded, and
    /// a job does not start if the file has changed.
    Register {
        #[command(flatten)]
        new: VersionToAdd,
        /// An ONNX file; a folder with one; or a folder with a folder for each version, of which the highest
        /// is used.
        #[arg(value_name = "PATH")]
        path: String,
    },
    /// Lists the latest version of each model.
    List(ListArguments),
    /// Shows a registered model.
    Show(ShowArguments),
    /// Unregisters a version of a model, or all versions. The files stay.
    Remove(RemoveArguments),
}

#[derive(Debug, clap::Args)]
pub(super) struct VersionToAdd {
    /// The name.
    #[arg(value_parser = name)]
    name: String,
    /// Adds a version if the name exists.
    #[arg(long)]
    new_version: bool,
    /// A description, for people.
    #[arg(long, value_name = "TEXT", value_parser = description)]
    description: Option<String>,
    #[command(flatten)]
    policy: PolicyArgument,
}

#[derive(Debug, clap::Args)]
pub(super) struct ListArguments {
    /// Lists all versions.
    #[arg(long)]
    all: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ShowArguments {
    /// NAME@VERSION, or NAME for the latest version.
    #[arg(value_name = "NAME[@VERSION]")]
    name: RegisteredName,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct RemoveArguments {
    /// NAME@VERSION, or NAME for all versions.
    #[arg(value_name = "NAME[@VERSION]")]
    name: RegisteredName,
}

fn name(text: &str) -> Result<String, ArgumentError> {
    match is_registered_name(text) {
        true => Ok(text.to_owned()),
        false => Err(ArgumentError::Name),
    }
}

const MAX_DESCRIPTION_BYTES: usize = 4096;

fn description(text: &str) -> Result<String, ArgumentError> {
    match text.len() <= MAX_DESCRIPTION_BYTES {
        true => Ok(text.to_owned()),
        false => Err(ArgumentError::Long { limit: MAX_DESCRIPTION_BYTES }),
    }
}

/// Looks up the names of a job file in the registry. A resumed job keeps the versions that were the latest
/// when it began.
#[derive(Debug, Default)]
pub(super) struct RegistryNames {
    latest: Vec<Latest>,
}

impl RegistryNames {
    pub(super) fn with(latest: Vec<Latest>) -> Self {
        Self { latest }
    }
}

impl Registrations for RegistryNames {
    fn find(
        &self,
        kind: RegisteredKind,
        wanted: &RegisteredName,
    ) -> Result<Registered, NotRegistered> {
        let is_wanted = |known: &&Latest| known.kind == kind && known.name == wanted.name;
        let known = self.latest.iter().find(is_wanted).map(|known| known.version);
        let version = wanted.version.or(known);
        let wanted = RegisteredName { name: wanted.name.clone(), version };
        find(kind, &wanted).map_err(|error| match error {
            RegistryError::NoName { .. } | RegistryError::NoVersion { .. } => {
                NotRegistered::Unknown(error.to_string())
            }
            error => NotRegistered::Failed(error.to_string()),
        })
    }

    fn means(&self, kind: RegisteredKind, name: &str) -> &'static str {
        match self.latest.iter().any(|known| known.kind == kind && known.name == name) {
            true => "the latest when the job was begun",
            false => "the latest",
        }
    }
}

fn find(kind: RegisteredKind, wanted: &RegisteredName) -> Result<Registered, RegistryError> {
    match Registry::open(&file()?)? {
        Some(registry) => registry.find(kind, wanted),
        None => {
            let nearest = Vec::new();
            Err(RegistryError::NoName { kind, wanted: wanted.clone(), nearest })
        }
    }
}

fn file() -> Result<PathBuf, RegistryError> {
    default_file().ok_or(RegistryError::NoPlace)
}

/// Runs `sandmill dataset`.
pub(super) fn dataset(command: &DatasetCommand) -> Result<Exit, Problem> {
    let kind = RegisteredKind::Dataset;
    match command {
        DatasetCommand::Register { new, paths, datastore } => {
            let policy = new.policy.load()?;
            if let Some(address) = paths.iter().find(|path| Address::looks_like_one(path)) {
                return Err(in_a_store(&new.name, address));
            }
            let (paths, content) = match datastore {
                // These paths are checked when a job reads them.
                Some(datastore) => {
                    name(datastore).map_err(|why| {
                        Problem::usage(anyhow!("--datastore: found {datastore:?}; {why}"))
                    })?;
                    policy.check_datastore(datastore).map_err(refused)?;
                    (paths.clone(), None)
                }
                None => {
                    let paths = paths.iter().map(|path| absolute(path));
                    let paths = paths.collect::<Result<Vec<String>, Problem>>()?;
                    policy
                        .check_registered(kind, paths.iter().map(String::as_str))
                        .map_err(refused)?;
                    let content = content(&new.name, &paths)?;
                    (paths, Some(content))
                }
            };
            let datastore = datastore.clone();
            register(
                kind,
                new,
                NewVersion { paths, datastore, held: content, ..NewVersion::default() },
            )
        }
        DatasetCommand::List(list) => self::list(kind, list),
        DatasetCommand::Show(show) => self::show(kind, show),
        DatasetCommand::Remove(remove) => self::remove(kind, remove),
    }
}

/// Runs `sandmill model`.
pub(super) fn model(command: &ModelCommand) -> Result<Exit, Problem> {
    let kind = RegisteredKind::Model;
    match command {
        ModelCommand::Register { new, path } => {
            if Address::looks_like_one(path) {
                return Err(Problem::usage(anyhow!(
                    "found {path}, which is in a store; a model must be on this machine: download it \
                     first, and register the file or the folder"
                )));
            }
            let policy = new.policy.load()?;
            let allowed = |path: &str| policy.check_registered(kind, [path]).map_err(refused);
            let path = absolute(path)?;
            allowed(&path)?;
            let model = ModelSpec::at(&new.name, path.as_ref());
            let model = model.map_err(|why| Problem::usage(anyhow!("{why}")))?;
            // The policy allowed the path that the user gave. Check the model file that was found below it,
            // too, because a subfolder with a version of the model may be a link to another place.
            allowed(&text(&model.file)?)?;
            let digests = node::model_digests(&model).map_err(Problem::usage)?;
            let paths = vec![text(model.folder.as_ref().unwrap_or(&model.file))?];
            let content = Some(RegisteredContent {
                files: digests.files,
                bytes: digests.bytes,
                newest: None,
            });
            let digest = Some(digests.file);
            let folder_digest = digests.folder;
            let new_version =
                NewVersion { paths, digest, folder_digest, held: content, ..NewVersion::default() };
            register(kind, new, new_version)
        }
        ModelCommand::List(list) => self::list(kind, list),
        ModelCommand::Show(show) => self::show(kind, show),
        ModelCommand::Remove(remove) => self::remove(kind, remove),
    }
}

/// Registers a version and prints it: `NAME@VERSION` on standard output.
fn register(
    kind: RegisteredKind,
    new: &VersionToAdd,
    version: NewVersion,
) -> Result<Exit, Problem> {
    let version =
        NewVersion { name: new.name.clone(), description: new.description.clone(), ..version };
    let mut registry =
        file().and_then(|file| Registry::open_or_make(&file)).map_err(Problem::usage)?;
    let registered = registry.register(kind, version, new.new_version).map_err(Problem::usage)?;
    let title = registered.title();
    let what =
        registered.held.map_or_else(String::new, |content| format!(", {}", content_text(&content)));
    let word = kind.word();
    say(&format!("registered; for a job file: {word}: {title}{what}"));
    print(&format!("{title}\n"))?;
    Ok(Exit::Completed)
}

/// The error for the address of a store, such as `s3://...`. An address is not enough: a registered dataset
/// must name a datastore that the operator has set up, so that every user of the dataset's name has access.
fn in_a_store(name: &str, address: &str) -> Problem {
    Problem::usage(anyhow!(
        "found {address}, the address of a store; to register data in a store, name a datastore and a \
         path in it: sandmill dataset register {name} PATH --datastore NAME (or write the address \
         into the job file, as the input's path)"
    ))
}

fn absolute(path: &str) -> Result<String, Problem> {
    let absolute = std::path::absolute(path)
        .with_context(|| format!("found {path:?}; expected a file, a folder or a glob"))
        .map_err(Problem::usage)?;
    text(&absolute)
}

fn text(path: &Path) -> Result<String, Problem> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        Problem::usage(anyhow!("the path {path:?} is not text in UTF-8; rename the folder"))
    })
}

/// What the paths contain now: the number of files, their size, and the latest change. Lists the files as a
/// job would list them.
fn content(name: &str, paths: &[String]) -> Result<RegisteredContent, Problem> {
    let input = JobInput {
        name: name.to_owned(),
        paths: paths.to_vec(),
        partition_format: None,
        take: None,
    };
    let mut content = RegisteredContent::default();
    for source in dataset::resolve(&[input]).map_err(Problem::usage)? {
        let mut files = SourceListing::new(&source).map_err(Problem::usage)?;
        while let Some(file) = files.next_file().map_err(Problem::usage)? {
            let path = source.root.join(file);
            let metadata = path.metadata().with_context(|| path.display().to_string());
            let metadata = metadata.map_err(Problem::usage)?;
            content.files += 1;
            content.bytes = content.bytes.saturating_add(metadata.len());
            let changed = metadata.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
            content.newest = content.newest.max(changed);
        }
        if let Some(bad) = files.take_bad().first() {
            return Err(Problem::usage(anyhow!("{}", bad.reason)));
        }
        if let (0, Some(nothing)) = (content.files, files.take_notices().pop()) {
            return Err(Problem::usage(anyhow!(nothing)));
        }
    }
    Ok(content)
}

fn list(kind: RegisteredKind, list: &ListArguments) -> Result<Exit, Problem> {
    let file = file().map_err(Problem::usage)?;
    let registry = Registry::open(&file).map_err(Problem::usage)?;
    let all = match &registry {
        Some(registry) if list.all => registry.all_versions(kind).map_err(Problem::usage)?,
        Some(registry) => registry.all(kind).map_err(Problem::usage)?,
        None => Vec::new(),
    };
    if list.json {
        return print_json(&json(&all)).map(|()| Exit::Completed);
    }
    let word = kind.word();
    if all.is_empty() {
        say(&format!(
            "no {word} is registered in {}; `sandmill {word} register NAME PATH` adds one",
            file.display()
        ));
    }
    let titles: Vec<String> = all.iter().map(Registered::title).collect();
    let width = titles.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for (title, one) in titles.iter().zip(&all) {
        // Writing to a string cannot fail.
        let _ =
            writeln!(text, "{title:width$}  {}  {}", time_text(one.registered), location_text(one));
    }
    print(&text)?;
    Ok(Exit::Completed)
}

/// Unregisters versions, and prints them: `NAME@VERSION` on standard output.
fn remove(kind: RegisteredKind, remove: &RemoveArguments) -> Result<Exit, Problem> {
    let file = file().map_err(Problem::usage)?;
    let removed = match Registry::open(&file).map_err(Problem::usage)? {
        Some(mut registry) => registry.remove(kind, &remove.name).map_err(Problem::usage)?,
        // Fails with the message that the name is not registered.
        None => vec![find(kind, &remove.name).map_err(Problem::usage)?],
    };
    let mut text = String::new();
    for one in &removed {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", one.title());
    }
    say(&format!(
        "removed from {}; the files stay, and the version numbers are not reused",
        file.display()
    ));
    print(&text)?;
    Ok(Exit::Completed)
}

fn show(kind: RegisteredKind, show: &ShowArguments) -> Result<Exit, Problem> {
    let found = find(kind, &show.name).map_err(Problem::usage)?;
    if show.json {
        return print_json(&json(&found)).map(|()| Exit::Completed);
    }
    print(&description_of(kind, &found))?;
    Ok(Exit::Completed)
}

fn json(value: &impl serde::Serialize) -> String {
    // Plain data always serializes.
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

fn description_of(kind: RegisteredKind, one: &Registered) -> String {
    let mut text = format!("{} {}\n", kind.word(), one.title());
    let mut line = |what: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {what:<12}{}", printable(value));
    };
    if let Some(description) = &one.description {
        line("description", description);
    }
    line("registered", &format!("{} by {}", time_text(one.registered), one.by));
    if let Some(datastore) = &one.datastore {
        line("datastore", datastore);
    }
    for (index, path) in one.paths.iter().enumerate() {
        line(if index == 0 { "path" } else { "" }, path);
    }
    if let Some(content) = &one.held {
        line("contained", &content_text(content));
        if let Some(newest) = content.newest {
            line("newest", &time_text(newest));
        }
    }
    if let Some(digest) = &one.digest {
        line("sha256", digest);
    }
    if let Some(digest) = &one.folder_digest {
        line("of folder", digest);
    }
    text
}

fn content_text(content: &RegisteredContent) -> String {
    format!("{} with {}", counted(content.files, "file"), counted(content.bytes, "byte"))
}

fn time_text(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// Where a registered dataset or model is, in short.
fn location_text(one: &Registered) -> String {
    let more = match one.paths.len() {
        0 | 1 => String::new(),
        paths => format!(" and {}", counted(paths as u64 - 1, "more path")),
    };
    let datastore = one.datastore.as_ref().map_or_else(String::new, |name| format!("{name}: "));
    let first = one.paths.first().map_or("", String::as_str);
    printable(&format!("{datastore}{first}{more}")).into_owned()
}
