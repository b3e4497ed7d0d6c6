//! What is wrong with a job file: every error at once, each with its place; and the reasons that their words
//! are made of.

use super::words::Words;
use crate::model::{REGISTERED_NAME_EXPECTED, on_one_line};
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a setting was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nowhere: it is missing, or the file as a whole is meant.
    File,
    /// On this line of the job file, from 1.
    Line(usize),
    /// In another file that the job file names, on this line, from 1.
    In(Arc<str>, usize),
    /// On the command line, by `--set` with this key.
    Set(Arc<str>),
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// Where.
    pub origin: Origin,
    /// The key's path, as in `inputs[0].path`. Empty if the file as a whole is meant.
    pub key: String,
    /// What was found, what is allowed, what to do.
    pub message: String,
}

/// All that is wrong with a job file. Never empty. Prints one line for each error:
/// `job.yaml:12: mini_batch_size: found "ten"; expected ...`. Keys and messages hold words of the
/// file, so each stays on its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecErrors {
    /// The job file, as the user named it.
    pub file: String,
    /// The errors: by line, those of `--set` last.
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
                Origin::File => write!(f, "{file}: ")?,
                Origin::Line(line) => write!(f, "{file}:{line}: ")?,
                Origin::In(other, line) => write!(f, "{}:{line}: ", on_one_line(other))?,
                Origin::Set(key) => {
                    // The job of a pipeline is picked by an option of its own.
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

/// More errors than this help nobody.
const MOST_ERRORS: usize = 100;

/// Gathers errors and notices while a file is read.
#[derive(Debug, Default)]
pub(super) struct Report {
    errors: RefCell<Vec<SpecError>>,
    notices: RefCell<Vec<String>>,
    conversions: RefCell<Vec<String>>,
    words: Words,
    file_lists: RefCell<Vec<String>>,
}

impl Report {
    pub(super) fn error(&self, origin: &Origin, key: &str, message: impl Into<String>) {
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

    /// Notes what was made of a setting of a file of Azure's that means here what it means there.
    pub(super) fn conversion(&self, line: impl Into<String>) {
        let line = line.into();
        self.conversions.borrow_mut().push(on_one_line(&line).into_owned());
    }

    /// Says what the file calls a key of ours, and all keys below it. Errors are told by that word.
    pub(super) fn call(&self, ours: &str, theirs: &str) {
        self.words.call(ours, theirs);
    }

    /// What the file calls a key of ours.
    pub(super) fn word<'k>(&self, key: &'k str) -> Cow<'k, str> {
        self.words.of(key)
    }

    /// Says of an input that it is an MLTable whose files are handed over as files.
    pub(super) fn call_file_list(&self, input: &str) {
        self.file_lists.borrow_mut().push(input.to_owned());
    }

    /// Whether an input is an MLTable whose files are handed over as files.
    pub(super) fn is_file_list(&self, input: &str) -> bool {
        self.file_lists.borrow().iter().any(|name| name == input)
    }

    /// Whether the key, or something below it, is already known to be wrong.
    pub(super) fn blames(&self, key: &str) -> bool {
        self.errors.borrow().iter().any(|error| {
            error
                .key
                .strip_prefix(key)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    /// Whether so much is wrong that no more is taken in.
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

    /// The errors in the order in which they are read best, in the words of the file.
    pub(super) fn into_errors(self, file: &str) -> SpecErrors {
        let mut errors = self.errors.into_inner();
        for error in &mut errors {
            // A key of ours on the command line is the user's word.
            let is_typed = match &error.origin {
                Origin::Set(key) => first_name(key) == first_name(&error.key),
                _ => false,
            };
            if !is_typed {
                error.key = self.words.of(&error.key).into_owned();
            }
        }
        errors.sort_by(|a, b| a.origin.cmp(&b.origin));
        if errors.len() >= MOST_ERRORS {
            let message = String::from("there may be more errors; these are the first");
            errors.push(SpecError { origin: Origin::File, key: String::new(), message });
        }
        SpecErrors { file: file.to_owned(), errors }
    }
}

fn first_name(key: &str) -> &str {
    key.split(['.', '[']).next().unwrap_or_default()
}

/// What is wrong with a file of settings as a whole: what follows its name.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// It is not there.
    #[error("there is no such file")]
    NotThere,
    /// It is a folder.
    #[error("is a folder; name the {what} in it")]
    Folder {
        /// A word for such a file.
        what: &'static str,
    },
    /// It is a fifo, a socket or a device.
    #[error("{source}; name a {what}")]
    Special {
        /// A word for such a file.
        what: &'static str,
        /// Which of them it is.
        source: io::Error,
    },
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// It is larger than it may be.
    #[error("is larger than 1 MB, which no {what} needs")]
    TooLarge {
        /// A word for such a file.
        what: &'static str,
    },
    /// It is no text.
    #[error("is not text in UTF-8 (byte {byte}); save it as UTF-8")]
    NotUtf8 {
        /// The first byte that is wrong, from 1.
        byte: usize,
    },
    /// Nothing says where a relative path begins.
    #[error("the current folder cannot be found: {0}")]
    NoCurrentFolder(#[source] io::Error),
    /// Paths in it would be no text.
    #[error("the path of its folder is not text in UTF-8; move it")]
    FolderNotUtf8,
    /// The operating system says nothing about its rights.
    #[error(transparent)]
    NoRights(io::Error),
    /// Another user can have written a file that names code.
    #[error(
        "names code that Sandmill loads, and another user may have written it (mode {mode:03o}, user {user}); make it \
         your own, and: chmod o-w"
    )]
    NotOwn {
        /// Its rights.
        mode: u32,
        /// Its owner's number.
        user: u32,
    },
    /// Others can read or change secrets.
    #[error(
        "holds what leads into stores, and others can read or change it (mode {mode:03o}, user {user}); \
         make it yours alone: chmod 600"
    )]
    NotPrivate {
        /// The rights to it.
        mode: u32,
        /// Its owner.
        user: u32,
    },
    /// Others own it, or what leads to it.
    #[error(
        "is not used, as {what} belongs to user {owner}, neither to you (user {user}) nor to root, and \
         who owns it decides what jobs may do: {command} {user} {}",
        at.display()
    )]
    Owner {
        /// What others own, for people.
        what: &'static str,
        /// Its owner.
        owner: u32,
        /// The user of this process.
        user: u32,
        /// What changes the owner.
        command: &'static str,
        /// Its path.
        at: PathBuf,
    },
    /// Others can write to it, or to what leads to it.
    #[error(
        "is not used, as others can write to {what} (mode {mode:03o}) and so decide what jobs may do: \
         chmod go-w {}",
        at.display()
    )]
    Writable {
        /// What others can write to, for people.
        what: &'static str,
        /// The rights to it.
        mode: u32,
        /// Its path.
        at: PathBuf,
    },
}

/// Why a path has no form without links.
#[derive(Debug, thiserror::Error)]
pub(super) enum PathError {
    /// The operating system refused to follow it.
    #[error("{} cannot be found: {source}", path.display())]
    Unfollowed {
        /// How far it was followed.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A step back out of a folder that is not there.
    #[error("{} has .. behind a folder that is not there", path.display())]
    Back {
        /// The path.
        path: PathBuf,
    },
    /// A link whose target is not there.
    #[error("{} is a link that leads nowhere", link.display())]
    Dangling {
        /// The link.
        link: PathBuf,
    },
    /// Not even the root is there.
    #[error("{} cannot be found", path.display())]
    Lost {
        /// The path.
        path: PathBuf,
    },
}

/// What is wrong with a path that ought to lead somewhere.
pub(super) fn missing(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("there is no {}", path.display()),
        _ => format!("{} cannot be read: {error}", path.display()),
    }
}

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub enum ModelPathError {
    /// The name is none.
    #[error("found the name {name:?}; expected {REGISTERED_NAME_EXPECTED}")]
    Name {
        /// What was given.
        name: String,
    },
    /// Nothing says where a relative path begins.
    #[error("{}: {source}", path.display())]
    Relative {
        /// The path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The path leads nowhere.
    #[error("{}; name an ONNX file, or a folder with one", missing(path, source))]
    NotThere {
        /// The path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file or folder at the path cannot be looked at.
    #[error("{}", missing(path, source))]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A version of something that is no folder.
    #[error("{} is no folder with a folder for each version; remove version", path.display())]
    NoVersions {
        /// The path.
        path: PathBuf,
    },
    /// A folder without models.
    #[error(
        "{} holds neither an ONNX file (.onnx) nor a folder of a version, as 1 or 2; name an ONNX file, \
         or a folder with one",
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
    /// A version that is not there.
    #[error("{} has no version {version}; versions: {}", path.display(), listed(there))]
    NoVersion {
        /// The folder.
        path: PathBuf,
        /// The version.
        version: u64,
        /// What is there, the highest last.
        there: Vec<u64>,
    },
    /// A version without a model.
    #[error(
        "{} holds no ONNX file; put model.onnx there, or set another version",
        folder.display()
    )]
    EmptyVersion {
        /// The version's folder.
        folder: PathBuf,
    },
    /// Several files that may be meant.
    #[error(
        "{} holds {count} ONNX files, as {first} and {second}; name one of them, or call the one model.onnx",
        folder.display()
    )]
    Several {
        /// The folder.
        folder: PathBuf,
        /// How many there are.
        count: usize,
        /// The name of one.
        first: String,
        /// The name of another one.
        second: String,
    },
    /// A link that leads out of the only folder that workers see.
    #[error(
        "{} is a link out of its folder, to {}; name that file, or put a copy here",
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

/// Why there is no such datastore.
#[derive(Debug, thiserror::Error)]
pub enum NoDatastore {
    /// No file of datastores.
    #[error(
        "there is no datastore {name:?}, as no file of datastores is named: name one by --datastores FILE \
         or SANDMILL_DATASTORES"
    )]
    NoFile {
        /// The name.
        name: String,
    },
    /// The file has no such store for the tenant.
    #[error(
        "{} has no datastore {name:?} for tenant {tenant}; there: {}",
        file.display(),
        listed(there)
    )]
    Unknown {
        /// The file.
        file: PathBuf,
        /// The name.
        name: String,
        /// Whose job asks.
        tenant: String,
        /// What is there for the tenant.
        there: Vec<String>,
    },
}

fn listed<T: ToString>(all: &[T]) -> String {
    let all: Vec<String> = all.iter().map(T::to_string).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

/// Why a text is no template of paths.
#[derive(Debug, thiserror::Error)]
pub(super) enum TemplateError {
    /// A brace that closes nothing.
    #[error("a }} has no {{")]
    NotOpened,
    /// A brace that is not closed.
    #[error("a {{ is not closed by }}")]
    NotClosed,
    /// Nothing says where a key ends and the next begins.
    #[error("{{{key}}} and the key after it have nothing between them")]
    Adjacent {
        /// The first of the two.
        key: String,
    },
    /// A key with a format of dates.
    #[error(
        "{{{key}:...}} gives a format, which is not supported; name each part, as in \
         {{year}}/{{month}}/{{day}}"
    )]
    Format {
        /// The key.
        key: String,
    },
    /// A key with characters that it may not have.
    #[error("{{{key}}} is no key; expected letters, digits and _, no digit first")]
    NoKey {
        /// What stands between the braces.
        key: String,
    },
    /// More keys than there may be.
    #[error("it has more than {limit} keys")]
    TooMany {
        /// The most that there may be.
        limit: usize,
    },
    /// A key that stands there twice.
    #[error("{{{key}}} stands twice")]
    Twice {
        /// The key.
        key: String,
    },
    /// No key at all.
    #[error("it names no key; write one as in {{store}}/{{file}}.csv")]
    Plain,
    /// A part that no path below the input has.
    #[error("it has an empty, . or .. part")]
    Part,
}

/// Why a value cannot be put where a key leads.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepError {
    /// A number, where there is a map.
    #[error("{path} is a map and has no [{index}]; write {path}.NAME")]
    Map {
        /// The way to the map.
        path: String,
        /// What follows it.
        index: String,
    },
    /// What a list does not have.
    #[error("{path} is a list of {count} without {step}; write a name in it, or a number from 0")]
    List {
        /// The way to the list.
        path: String,
        /// How much it has.
        count: usize,
        /// What follows it.
        step: String,
    },
    /// More steps, where there is a value.
    #[error("{path} is {found}, which has nothing below it")]
    Leaf {
        /// The way to the value.
        path: String,
        /// The value, for people.
        found: String,
    },
}

/// Why a text is no command line.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum CommandLineError {
    /// A single quote is left open.
    #[error("a ' is not closed")]
    SingleQuote,
    /// A double quote is left open.
    #[error("a \" is not closed")]
    DoubleQuote,
    /// A group of optional arguments is left open.
    #[error("a $[[ is not closed by ]]")]
    Group,
    /// A backslash has nothing to escape.
    #[error("a \\ stands at the end")]
    Backslash,
}

/// Why a keyword of `DataFrame.to_csv` is not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeywordError {
    /// A value that it may not have.
    #[error("{keyword}: found {found}; expected {expected}")]
    Value {
        /// The keyword.
        keyword: String,
        /// The value, as JSON.
        found: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// Another keyword than those that are known.
    #[error("found {keyword:?}; the supported keywords are sep, header, index, na_rep, quoting")]
    Unknown {
        /// The keyword.
        keyword: String,
    },
}
