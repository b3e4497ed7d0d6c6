//! `sandmill signer`: the keys with which leaders sign jobs. Also the option that names such a key.

use super::exit::{Exit, Problem};
use super::{print, say};
use crate::bus::{Broker, SigningKey};
use crate::opening::regular;
use anyhow::{Context, anyhow};
use clap::Subcommand;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The environment variable with the path of the key.
const VARIABLE: &str = "SANDMILL_SIGNING_KEY";
/// The file of a key is shorter.
const MAX_BYTES: u64 = 4096;

#[derive(Debug, Subcommand)]
pub(super) enum SignerCommand {
    /// Makes a key: writes the private key to a new file, and prints the public key.
    New {
        /// The file for the private key. It must not exist.
        file: PathBuf,
    },
    /// Prints the public key that belongs to a private key.
    Show {
        /// The file with the private key.
        file: PathBuf,
    },
}

/// The key with which the leader signs a job.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct SigningKeyArgument {
    /// With a broker: the private key that signs the job, made by `sandmill signer new` [default:
    /// $SANDMILL_SIGNING_KEY].
    #[arg(long, value_name = "FILE")]
    signing_key: Option<PathBuf>,
}

impl SigningKeyArgument {
    /// Reads the key. `None` if none is named, or if there is no broker.
    pub(super) fn load(&self, broker: Option<&Broker>) -> Result<Option<SigningKey>, Problem> {
        let file = self.signing_key.clone().or_else(key_of_environment);
        match (file, broker) {
            (Some(file), Some(_)) => read(&file).map(Some).map_err(Problem::usage),
            _ => Ok(None),
        }
    }
}

/// The file of the key that the environment names. `None` if it names none.
pub(super) fn key_of_environment() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from)
}

pub(super) fn signer(command: &SignerCommand) -> Result<Exit, Problem> {
    match command {
        SignerCommand::New { file } => {
            let key = create(file).map_err(Problem::usage)?.public();
            print(&format!("{key}\n"))?;
            say(&format!(
                "the private key is in {}: sign jobs with --signing-key, and keep the file secret. On each machine whose agent \
                 shall run these jobs, name the public key in the policy file, as in `signers: {{NAME: {{keys: [\"{key}\"]}}}}`",
                file.display()
            ));
        }
        SignerCommand::Show { file } => {
            let key = read(file).map_err(Problem::usage)?.public();
            print(&format!("{key}\n"))?;
        }
    }
    Ok(Exit::Completed)
}

/// Writes a new key to a file that only its owner can read.
fn create(path: &Path) -> anyhow::Result<SigningKey> {
    let text = SigningKey::new_text()?;
    let key = SigningKey::parse(&text).context("a new key cannot be used")?;
    let opened = File::options().write(true).create_new(true).mode(0o600).open(path);
    let mut file = match opened {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(anyhow!(
                "{} exists, and a new key replaces no file: name another file",
                path.display()
            ));
        }
        opened => opened.with_context(|| format!("{} cannot be created", path.display()))?,
    };
    let written = file.write_all(format!("{text}\n").as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        // Half a key would be in the way of the next try.
        let _ = fs::remove_file(path);
    }
    written.with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(key)
}

/// Reads a key. Refuses a file that other users can read or change.
fn read(path: &Path) -> anyhow::Result<SigningKey> {
    let shown = path.display();
    let opened = regular(path).with_context(|| format!("the signing key {shown} cannot be read"));
    let (file, metadata) = opened?;
    let user = rustix::process::geteuid().as_raw();
    if metadata.mode() & 0o077 != 0 || ![user, 0].contains(&metadata.uid()) {
        return Err(anyhow!(
            "the signing key {shown} is not secret: other users can read or change it (mode {:03o}, user {}); become its \
             owner, and run chmod 600 {shown}",
            metadata.mode() & 0o777,
            metadata.uid()
        ));
    }
    let mut text = String::new();
    let read = file.take(MAX_BYTES).read_to_string(&mut text);
    read.with_context(|| format!("the signing key {shown} cannot be read"))?;
    SigningKey::parse(&text).with_context(|| {
        format!(
            "{shown} is not a signing key, which is a line with sandmill-signing-key: and 64 hexadecimal digits; make one \
             with sandmill signer new"
        )
    })
}
