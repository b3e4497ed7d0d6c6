//! Errors in a job file: all errors are reported together, each with its line. Also the error types that
//! supply the messages.

use super::error_text::KeyNames;
use crate::model::{REGISTERED_NAME_EXPECTED, on_one_line};
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a setting was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingOrigin {
    /// No line: the setting is missing, or the error concerns the file as a whole.
    File,
    /// This line of the job file, from 1.
    Line(usize),
    /// This line, from 1, of another file that the job file names.
    In(Arc<str>, usize),
    /// The command line: `--set` with this key.
    Set(Arc<str>),
}

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// Where the setting was written.
    pub origin: SettingOrigin,
    /// The key's path, such as `inputs[0].path`. Empty if the error concerns the file as a whole.
    pub key: String,
    /// What was found, what is allowed, and what to do.
    pub message: String,
}

/// All errors in a job file. Never empty. Prints one line for each error:
/// `job.yaml:12: mini_batch_size: found "ten"; expected ...`. Keys and messages may contain text from the
/// file, so each error is forced onto one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecErrors {
    /// The job file, as the user named it.
    pub file: String,
    /// The errors, sorted by line. Errors in `--set` come last.
    pub errors: Vec<SpecError>,
}

impl fmt::Display for SpecErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = on_one_line(&self.file);
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            match &error.origin {
                SettingOrigin::File => write!(f, "{file}: ")?,
                SettingOrigin::Line(line) => write!(f, "{file}:{line}: ")?,
                SettingOrigin::In(other, line) => write!(f, "{}:{line}: ", on_one_line(other))?,
                SettingOrigin::Set(key) => {
                    // `--job` picks the job of a pipeline. It is a separate option, not a key of `--set`.
                    f.write_str(if &**key == "job" { "--" } else { "--set " })?;
                    if **key != error.key {
                        write!(f, "{}: ", on_one_line(key))?;
                    }
                }
            }
            if !error.key.is_empty() {
                write!(f, "{}: ", on_one_line(&error.key))?;
            }
            f.write_str(&on_one_line(&error.message))?;
        }
        Ok(())
    }
}

impl std::error::Error for SpecErrors {}

/// At most this many errors are reported: a longer list does not help the user.
const MOST_ERRORS: usize = 100;

/// Collects errors and notices while a file is read.
#[derive(Debug, Default)]
pub(super) struct ErrorReport {
    errors: RefCell<Vec<SpecError>>,
    notices: RefCell<Vec<String>>,
    conversions: RefCell<Vec<String>>,
    names: KeyNames,
    file_lists: RefCell<Vec<String>>,
    asked_nodes: RefCell<Option<AskedNodes>>,
}

/// The nodes that a file from Azure asks for, if it asks for more than one.
#[derive(Clone, Debug)]
pub(super) struct AskedNodes {
    /// How many. `None` means all nodes of a cluster.
    pub(super) count: Option<u64>,
    /// Where the number was written.
    pub(super) origin: SettingOrigin,
    /// The file's own key for it.
    pub(super) key: String,
}

impl ErrorReport {
    pub(super) fn error(&self, origin: &SettingOrigin, key: &str, message: impl Into<String>) {
        if self.is_full() {
            return;
        }
        let error =
            SpecError { origin: origin.clone(), key: key.to_owned(), message: message.into() };
        self.errors.borrow_mut().push(error);
    }

    pub(super) fn notice(&self, line: impl Into<String>) {
        let line = line.into();
        self.notices.borrow_mut().push(on_one_line(&line).into_owned());
    }

    /// Records how a setting of an Azure file was converted, if it means the same here as in Azure.
    pub(super) fn conversion(&self, line: impl Into<String>) {
        let line = line.into();
        self.conversions.borrow_mut().push(on_one_line(&line).into_owned());
    }

    /// Records the file's own name for one of our keys and for all keys below it. Errors use that name.
    pub(super) fn record_name(&self, ours: &str, theirs: &str) {
        self.names.record(ours, theirs);
    }

    /// The file's own name for one of our keys.
    pub(super) fn name_in_file<'k>(&self, key: &'k str) -> Cow<'k, str> {
        self.names.name_for(key)
    }

    /// Records that an input is an MLTable whose files are passed on as files, not as a table.
    pub(super) fn record_file_list(&self, input: &str) {
        self.file_lists.borrow_mut().push(input.to_owned());
    }

    /// Whether an input is an MLTable whose files are passed on as files.
    pub(super) fn is_file_list(&self, input: &str) -> bool {
        self.file_lists.borrow().iter().any(|name| name == input)
    }

    /// Records that a file from Azure asks for more than one node.
    pub(super) fn record_asked_nodes(&self, asked: AskedNodes) {
        self.asked_nodes.replace(Some(asked));
    }

    /// The nodes that a file from Azure asks for. `None` if it asks for one node, or for no number.
    pub(super) fn asked_nodes(&self) -> Option<AskedNodes> {
        self.asked_nodes.borrow().clone()
    }

    /// Whether an error is already known for the key, or for a key below it.
    pub(super) fn has_error_at(&self, key: &str) -> bool {
        self.errors.borrow().iter().any(|error| {
            error
                .key
                .strip_prefix(key)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    /// Whether the limit of errors is reached, so that further errors are dropped.
    pub(super) fn is_full(&self) -> bool {
        self.errors.borrow().len() >= MOST_ERRORS
    }

    pub(super) fn is_clean(&self) -> bool {
        self.errors.borrow().is_empty()
    }

    pub(super) fn take_notices(&self) -> Vec<String> {
        self.notices.take()
    }

    pub(super) fn take_conversions(&self) -> Vec<String> {
        self.conversions.take()
    }

    /// The errors in reading order, with the file's own names for keys.
    pub(super) fn into_errors(self, file: &str) -> SpecErrors {
        let mut errors = self.errors.into_inner();
        for error in &mut errors {
            // If the user typed our key on the command line, the error names our key, too.
            let is_typed = match &error.origin {
                SettingOrigin::Set(key) => first_name(key) == first_name(&error.key),
                _ => false,
            };
            if !is_typed {
                error.key = self.names.name_for(&error.key).into_owned();
            }
        }
        errors.sort_by(|a, b| a.origin.cmp(&b.origin));
        if errors.len() >= MOST_ERRORS {
            let message = String::from("there may be more errors; these are the first");
            errors.push(SpecError { origin: SettingOrigin::File, key: String::new(), message });
        }
        SpecErrors { file: file.to_owned(), errors }
    }
}

fn first_name(key: &str) -> &str {
    key.split(['.', '[']).next().unwrap_or_default()
}

/// An error that concerns a file of settings as a whole. The text follows the file's name.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("there is no such file")]
    NotThere,
    #[error("is a folder; name the {what} in it")]
    Folder {
        /// What kind of file was expected, as a word.
        what: &'static str,
    },
    /// It is a fifo, a socket or a device.
    #[error("{source}; name a {what}")]
    Special {
        /// What kind of file was expected, as a word.
        what: &'static str,
        /// The error that says whether it is a fifo, a socket or a device.
        source: io::Error,
    },
    #[error("cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// It is larger than the limit.
    #[error("is larger than 1 MB, the limit for a {what}")]
    TooLarge {
        /// What kind of file was expected, as a word.
        what: &'static str,
    },
    #[error("is not text in UTF-8 (byte {byte}); save it as UTF-8")]
    NotUtf8 {
        /// The first byte that is wrong, from 1.
        byte: usize,
    },
    /// The current folder is unknown, so relative paths cannot be resolved.
    #[error("the current folder cannot be found: {0}")]
    NoCurrentFolder(#[source] io::Error),
    /// The folder's path is not UTF-8, so the paths in the file could not be text.
    #[error("the path of its folder is not text in UTF-8; move it")]
    FolderNotUtf8,
    /// The operating system does not report the file's permissions.
    #[error(transparent)]
    NoRights(io::Error),
    /// The file names code, and another user may have written it.
    #[error(
        "names code that Sandmill loads, and another user may have written it (mode {mode:03o}, user {user}); become \
         its owner, and run chmod o-w"
    )]
    NotOwn {
        /// Its permissions.
        mode: u32,
        /// Its owner's user ID.
        user: u32,
    },
    /// Other users can read or change secrets.
    #[error(
        "holds credentials of stores, and other users can read or change it (mode {mode:03o}, user {user}); \
         become its owner, and run chmod 600"
    )]
    NotPrivate {
        /// Its permissions.
        mode: u32,
        /// Its owner's user ID.
        user: u32,
    },
    /// Another user owns the file, or a folder or link on the way to it.
    #[error(
        "is not used, because {what} belongs to user {owner}, neither to you (user {user}) nor to root, and the owner could change what jobs may do; run: {command} {user} {}",
        path.display()
    )]
    Owner {
        /// What the other user owns, as a phrase in the message.
        what: &'static str,
        /// Its owner's user ID.
        owner: u32,
        /// The user ID of this process.
        user: u32,
        /// The command that changes the owner.
        command: &'static str,
        path: PathBuf,
    },
    /// Other users can write to the file, or to a folder that leads to it.
    #[error(
        "is not used, because other users can write to {what} (mode {mode:03o}) and so change what jobs may do; \
         run: chmod go-w {}",
        path.display()
    )]
    Writable {
        /// What they can write to, as a phrase in the message.
        what: &'static str,
        /// Its permissions.
        mode: u32,
        path: PathBuf,
    },
}

/// Why a path cannot be resolved to a form without symbolic links.
#[derive(Debug, thiserror::Error)]
pub(super) enum PathError {
    /// The operating system refused to follow the path.
    #[error("{} cannot be found: {source}", path.display())]
    Unfollowed {
        /// What could not be followed: the path, or a folder above it.
        path: PathBuf,
        source: io::Error,
    },
    #[error("{} has .. after a folder that does not exist", path.display())]
    Back { path: PathBuf },
    /// A link whose target does not exist.
    #[error("{} is a link that leads nowhere", link.display())]
    Dangling { link: PathBuf },
    /// No part of the path exists, not even the root.
    #[error("{} cannot be found", path.display())]
    Lost { path: PathBuf },
}

/// The message for a path that cannot be found or read.
pub(super) fn missing(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("there is no {}", path.display()),
        _ => format!("{} cannot be read: {error}", path.display()),
    }
}

/// Why no model was found.
#[derive(Debug, thiserror::Error)]
pub enum ModelPathError {
    /// The name is not allowed.
    #[error("found the name {name:?}; expected {REGISTERED_NAME_EXPECTED}")]
    Name {
        /// The name that was given.
        name: String,
    },
    /// The current folder is unknown, so relative paths cannot be resolved.
    #[error("{}: {source}", path.display())]
    Relative {
        /// The path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The path does not exist.
    #[error("{}; name an ONNX file, or a folder with one", missing(path, source))]
    NotThere {
        /// The path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file or folder at the path cannot be inspected.
    #[error("{}", missing(path, source))]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The job names a version, but the path is not a folder of versions.
    #[error("{} is not a folder with a subfolder for each version; remove the key `version`", path.display())]
    NoVersions {
        /// The path.
        path: PathBuf,
    },
    /// A folder without models.
    #[error(
        "{} holds neither an ONNX file (.onnx) nor a subfolder for a version, such as 1 or 2; name an ONNX file, \
         or a folder with one; for models of other kinds, such as pickles, name the file, or name the folder under \
         side_inputs",
        path.display()
    )]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// Neither a file nor a folder.
    #[error("{} is neither a file nor a folder; name an ONNX file, or a folder with one", path.display())]
    Special {
        /// The path.
        path: PathBuf,
    },
    /// The requested version does not exist.
    #[error("{} has no version {version}; versions: {}", path.display(), listed(there))]
    NoVersion {
        /// The folder.
        path: PathBuf,
        /// The version.
        version: u64,
        /// The versions that exist, the highest last.
        there: Vec<u64>,
    },
    /// A version without a model.
    #[error(
        "{} holds no ONNX file; put model.onnx into it, or set another version",
        folder.display()
    )]
    EmptyVersion {
        /// The version's folder.
        folder: PathBuf,
    },
    /// Several files, each of which may be meant.
    #[error(
        "{} holds {count} ONNX files, such as {first} and {second}; name one of them, or rename one to model.onnx",
        folder.display()
    )]
    Several {
        /// The folder.
        folder: PathBuf,
        /// The number of ONNX files.
        count: usize,
        /// The name of one of them.
        first: String,
        /// The name of another of them.
        second: String,
    },
    /// A link to a file outside of the model's folder. Workers can see only this folder.
    #[error(
        "{} is a link out of its folder, to {}; name that file, or replace the link by a copy",
        link.display(),
        to.display()
    )]
    Outside {
        /// The link.
        link: PathBuf,
        /// The file.
        to: PathBuf,
    },
}

/// Why a datastore was not found.
#[derive(Debug, thiserror::Error)]
pub enum NoDatastore {
    /// No file of datastores is named.
    #[error(
        "there is no datastore {name:?}, because no file of datastores is given; give one by --datastores FILE \
         or SANDMILL_DATASTORES"
    )]
    NoFile {
        /// The name.
        name: String,
    },
    /// The file does not have this store for the tenant.
    #[error(
        "{} has no datastore {name:?} for tenant {tenant}; it has: {}",
        file.display(),
        listed(there)
    )]
    Unknown {
        /// The file.
        file: PathBuf,
        /// The name.
        name: String,
        /// The tenant whose job names the store.
        tenant: String,
        /// The stores that the tenant has.
        there: Vec<String>,
    },
}

fn listed<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

/// Why a text is not a valid template of paths.
#[derive(Debug, thiserror::Error)]
pub(super) enum TemplateError {
    #[error("a }} has no {{")]
    NotOpened,
    #[error("a {{ is not closed by }}")]
    NotClosed,
    /// Nothing separates a key from the next key, so the end of the first value is unknown.
    #[error("{{{key}}} and the key after it have nothing between them")]
    Adjacent {
        /// The first of the two keys.
        key: String,
    },
    /// A key with a date format.
    #[error(
        "{{{key}:...}} gives a format, which is not supported; name each part, as in \
         {{year}}/{{month}}/{{day}}"
    )]
    Format { key: String },
    /// A key with characters that it may not have.
    #[error("{{{key}}} is not a key; expected letters, digits and _, no digit first")]
    NoKey {
        /// The text between the braces.
        key: String,
    },
    #[error("it has more than {limit} keys")]
    TooMany { limit: usize },
    #[error("{{{key}}} appears twice")]
    Twice { key: String },
    /// No key at all.
    #[error("it names no key; write one as in {{store}}/{{file}}.csv")]
    Plain,
    /// A part of a path that is empty, `.` or `..`. No path below the input has such a part.
    #[error("it has an empty, . or .. part")]
    Part,
}

/// Why the value at a key's path cannot be set.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepError {
    /// An index into a map.
    #[error("{path} is a map and has no [{index}]; write {path}.NAME")]
    Map {
        /// The path of the map.
        path: String,
        index: String,
    },
    /// A list does not have the named or numbered entry.
    #[error(
        "{path} is a list of {count} without {step}; write an entry's name, or its number from 0"
    )]
    List {
        /// The path of the list.
        path: String,
        /// How many entries the list has.
        count: usize,
        /// The next step of the key's path.
        step: String,
    },
    /// Further steps below a single value.
    #[error("{path} is {found}, which has nothing below it")]
    Leaf {
        /// The path of the value.
        path: String,
        /// The value, as the message shows it.
        found: String,
    },
}

/// Why a text is not a valid command line.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum CommandLineError {
    #[error("a ' is not closed")]
    SingleQuote,
    #[error("a \" is not closed")]
    DoubleQuote,
    /// A group of optional arguments is left open.
    #[error("a $[[ is not closed by ]]")]
    Group,
    /// A backslash at the end, with nothing to escape.
    #[error("a \\ is at the end")]
    Backslash,
}

/// Why a keyword of `DataFrame.to_csv` is not accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeywordError {
    /// The keyword may not have this value.
    #[error("{keyword}: found {found}; expected {expected}")]
    Value {
        keyword: String,
        /// The value, as JSON.
        found: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// An unsupported keyword.
    #[error("found {keyword:?}; the supported keywords are sep, header, index, na_rep, quoting")]
    Unknown { keyword: String },
}
