//! `sandmill cache`: shows what this machine caches for later jobs, and removes cached files.

use super::config::Config;
use super::datastores::DatastoresArgument;
use super::exit::{Exit, Problem};
use super::policy::PolicyArgument;
use super::terminal::{print, print_json};
use crate::compile::{self, Cache};
use crate::engine;
use crate::model::{ByteSize, counted};
use crate::{node, runtimes, store};
use anyhow::Context;
use serde::Serialize;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Incremented when the JSON changes incompatibly.
const VERSION: u32 = 1;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct CacheArguments {
    #[command(subcommand)]
    command: Option<CacheCommand>,
    #[command(flatten)]
    location: CacheLocation,
}

/// The location of the cache, and how to print.
#[derive(Debug, clap::Args)]
struct CacheLocation {
    /// The cache folder of compiled entry scripts, as for `run`.
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    datastores: DatastoresArgument,
    #[command(flatten)]
    policy: PolicyArgument,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum CacheCommand {
    /// Removes cached files. Later jobs compile and fetch them again.
    ///
    /// This is safe at any time: files that a running job or build uses stay.
    #[command(
        after_help = "Examples:\n  sandmill cache clear\n  sandmill cache clear objects guests"
    )]
    Clear {
        /// Only files of these kinds; by default, all kinds except runtimes.
        #[arg(value_enum)]
        which: Vec<CacheKind>,
        #[command(flatten)]
        location: CacheLocation,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CacheKind {
    /// Compiled entry scripts.
    Compiled,
    /// Objects of stores.
    Objects,
    /// The crates that guest crates depend on, compiled by cargo.
    Guests,
    /// Runtimes of scripts. They must be installed again.
    Runtimes,
    /// Copies of the logs of jobs in job stores.
    Logs,
}

/// The folder of compiled code, the folder of objects, and the size limit of the folder of objects.
struct CacheFolders {
    compiled: PathBuf,
    objects: PathBuf,
    limit: ByteSize,
}

/// A number of files and their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct CacheAmount {
    files: u64,
    bytes: u64,
}

/// The contents of a folder of the cache. The names of the fields are those of the JSON.
#[derive(Debug, Serialize)]
struct FolderContents {
    folder: PathBuf,
    #[serde(flatten)]
    amount: CacheAmount,
    /// The maximum number of bytes that the folder may hold. Null if there is no limit.
    limit: Option<u64>,
}

#[derive(Debug, Serialize)]
struct CacheContents {
    version: u32,
    compiled: FolderContents,
    objects: FolderContents,
    guests: FolderContents,
    runtimes: FolderContents,
    logs: FolderContents,
}

/// What was removed. Null for kinds of files that were not selected.
#[derive(Debug, Default, Serialize)]
struct Cleared {
    version: u32,
    compiled: Option<CacheAmount>,
    objects: Option<CacheAmount>,
    /// The objects that were kept: running jobs use them, or they could not be removed.
    objects_in_use: Option<CacheAmount>,
    guests: Option<CacheAmount>,
    /// Whether the files of guest crates were kept because a build was using them.
    guests_in_use: bool,
    runtimes: Option<CacheAmount>,
    /// The runtimes that were kept because the command named no kinds.
    runtimes_kept: CacheAmount,
    logs: Option<CacheAmount>,
}

/// Prints what the cache holds, or clears it and prints what was removed.
pub(super) fn cache(arguments: &CacheArguments) -> Result<Exit, Problem> {
    let (as_json, text, json) = match &arguments.command {
        None => {
            let contents = CacheFolders::from_arguments(&arguments.location)?.contents()?;
            (arguments.location.json, contents.text(), serde_json::to_string_pretty(&contents))
        }
        Some(CacheCommand::Clear { which, location }) => {
            let cleared = CacheFolders::from_arguments(location)?.clear(which)?;
            (location.json, cleared.text(), serde_json::to_string_pretty(&cleared))
        }
    };
    if as_json {
        print_json(&(json.map_err(Problem::usage)? + "\n"))?;
    } else {
        print(&text)?;
    }
    Ok(Exit::Completed)
}

impl CacheFolders {
    fn from_arguments(arguments: &CacheLocation) -> Result<Self, Problem> {
        let datastores = arguments.datastores.load()?;
        let config = Config::load(&arguments.policy)?;
        let named = config.cache_dir(arguments.cache_dir.as_deref());
        let objects = node::objects_folder(&datastores, named.as_deref());
        let compiled = named.or_else(Cache::default_folder);
        let (Some(compiled), Some(objects)) = (compiled, objects) else {
            return Err(Problem::usage(anyhow::anyhow!(
                "there is no cache: none of SANDMILL_CACHE_DIR, XDG_CACHE_HOME and HOME is set; name its folder with \
                 --cache-dir DIR"
            )));
        };
        Ok(Self { compiled, objects, limit: datastores.cache_size() })
    }

    fn contents(self) -> Result<CacheContents, Problem> {
        let cache = &self.compiled;
        let contents_of = |folder: PathBuf, found: io::Result<compile::FileCount>| {
            let amount = readable(found, &folder)?.into();
            Ok(FolderContents { folder, amount, limit: None })
        };
        let logs =
            engine::copied_logs(cache).map(|(files, bytes)| compile::FileCount { files, bytes });
        let objects = readable(store::held(&self.objects), &self.objects)?.into();
        Ok(CacheContents {
            version: VERSION,
            compiled: contents_of(cache.clone(), compile::compiled(cache))?,
            guests: contents_of(compile::guests_folder(cache), compile::built_guests(cache))?,
            runtimes: contents_of(runtimes::installed_folder(cache), runtimes::installed(cache))?,
            logs: contents_of(engine::copied_logs_folder(cache), logs)?,
            objects: FolderContents {
                folder: self.objects,
                amount: objects,
                limit: Some(self.limit.0),
            },
        })
    }

    fn clear(&self, which: &[CacheKind]) -> Result<Cleared, Problem> {
        let cache = &self.compiled;
        // If no kinds are named, keep the runtimes: only the user can reinstall them, not a job.
        let is_selected =
            |one| which.contains(&one) || (which.is_empty() && one != CacheKind::Runtimes);
        let mut cleared = Cleared { version: VERSION, ..Cleared::default() };
        if is_selected(CacheKind::Compiled) {
            cleared.compiled = Some(cleaned(compile::clear_compiled(cache), cache)?.into());
        }
        if is_selected(CacheKind::Objects) {
            let (removed, left) = cleaned(store::clear(&self.objects), &self.objects)?;
            cleared.objects = Some(removed.into());
            cleared.objects_in_use = Some(left.into());
        }
        if is_selected(CacheKind::Guests) {
            let (removed, in_use) = cleaned(compile::clear_built_guests(cache), cache)?;
            cleared.guests = Some(removed.into());
            cleared.guests_in_use = in_use;
        }
        if is_selected(CacheKind::Runtimes) {
            cleared.runtimes = Some(cleaned(runtimes::clear_installed(cache), cache)?.into());
        }
        if is_selected(CacheKind::Logs) {
            let (files, bytes) = cleaned(engine::clear_copied_logs(cache), cache)?;
            cleared.logs = Some(CacheAmount { files, bytes });
        }
        if which.is_empty() {
            cleared.runtimes_kept = readable(runtimes::installed(cache), cache)?.into();
        }
        Ok(cleared)
    }
}

/// If there is an error, adds that the folder cannot be read.
fn readable<T>(found: io::Result<T>, folder: &Path) -> Result<T, Problem> {
    let context = || format!("the cache {} cannot be read", folder.display());
    found.with_context(context).map_err(Problem::usage)
}

/// If there is an error, adds that the folder cannot be emptied.
fn cleaned<T>(done: io::Result<T>, folder: &Path) -> Result<T, Problem> {
    let context = || {
        let folder = folder.display();
        format!("the cache {folder} cannot be emptied; run this as the user whose cache it is")
    };
    done.with_context(context).map_err(Problem::usage)
}

impl CacheContents {
    fn text(&self) -> String {
        let line = |name: &str, contents: &FolderContents| {
            let limit = contents.limit.map_or_else(
                || "without a limit".to_owned(),
                |limit| format!("at most {}", ByteSize(limit).rounded()),
            );
            format!("{name:<14} {}, {limit}: {}\n", contents.amount, contents.folder.display())
        };
        line("compiled code", &self.compiled)
            + &line("guest crates", &self.guests)
            + &line("runtimes", &self.runtimes)
            + &line("copied logs", &self.logs)
            + &line("objects", &self.objects)
    }
}

impl Cleared {
    fn text(&self) -> String {
        let mut text = String::new();
        let guests = self.guests.filter(|_| !self.guests_in_use);
        for (name, amount) in [
            ("compiled code", self.compiled),
            ("the compiled dependencies of guest crates", guests),
            ("runtimes", self.runtimes),
            ("copied logs", self.logs),
            ("objects", self.objects),
        ] {
            if let Some(amount) = amount {
                text += &format!("removed {name}: {amount}\n");
            }
        }
        if self.guests_in_use {
            text += "kept the compiled dependencies of guest crates, because a build uses them\n";
        }
        if self.runtimes_kept.files > 0 {
            let amount = self.runtimes_kept;
            text += &format!(
                "kept runtimes of Python: {amount}; to remove them: sandmill cache clear runtimes\n"
            );
        }
        if let Some(amount) = self.objects_in_use.filter(|left| left.files > 0) {
            text += &format!("kept objects: {amount}, in use by running jobs or not removable\n");
        }
        text
    }
}

/// `3 files, 26 MB`.
impl fmt::Display for CacheAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", counted(self.files, "file"), ByteSize(self.bytes).rounded())
    }
}

impl From<compile::FileCount> for CacheAmount {
    fn from(kept: compile::FileCount) -> Self {
        Self { files: kept.files, bytes: kept.bytes }
    }
}

impl From<store::CachedObjects> for CacheAmount {
    fn from(held: store::CachedObjects) -> Self {
        Self { files: held.objects, bytes: held.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_printed() {
        let contents_of = |folder: &str, files, bytes, limit| FolderContents {
            folder: folder.into(),
            amount: CacheAmount { files, bytes },
            limit,
        };
        let contents = CacheContents {
            version: VERSION,
            compiled: contents_of("/cache", 30, 27_262_976, None),
            objects: contents_of("/cache/objects", 1, 512, Some(10 << 30)),
            guests: contents_of("/cache/guests", 4_321, 300 << 20, None),
            runtimes: contents_of("/cache/runtimes", 0, 0, None),
            logs: contents_of("/cache/stored-jobs", 2, 4096, None),
        };
        insta::assert_snapshot!(contents.text(), @"
        compiled code  30 files, 26 MB, without a limit: /cache
        guest crates   4,321 files, 300 MB, without a limit: /cache/guests
        runtimes       0 files, 0 bytes, without a limit: /cache/runtimes
        copied logs    2 files, 4 KB, without a limit: /cache/stored-jobs
        objects        1 file, 512 bytes, at most 10 GB: /cache/objects
        ");
        let objects = Some(CacheAmount { files: 2, bytes: 2048 });
        let runtimes_kept = CacheAmount { files: 1, bytes: 24 << 20 };
        let cleared = Cleared {
            objects,
            objects_in_use: objects,
            guests: objects,
            guests_in_use: true,
            runtimes_kept,
            ..Cleared::default()
        };
        insta::assert_snapshot!(cleared.text(), @"
        removed objects: 2 files, 2 KB
        kept the compiled dependencies of guest crates, because a build uses them
        kept runtimes of Python: 1 file, 24 MB; to remove them: sandmill cache clear runtimes
        kept objects: 2 files, 2 KB, in use by running jobs or not removable
        ");
    }
}
