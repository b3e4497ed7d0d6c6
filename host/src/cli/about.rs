//! Prints the version of this program and shell completions, and writes man pages.

use super::exit::{Exit, Problem};
use super::terminal::{print, print_json, say};
use crate::compile::WASMTIME_VERSION;
use clap::Command;
use clap_complete::Shell;
use std::path::{Path, PathBuf};

/// The commit that a release was built from. `None` for development builds, which usually contain uncommitted
/// changes.
const COMMIT: Option<&str> = option_env!("SANDMILL_BUILT_FROM");

#[derive(Debug, clap::Args)]
pub(super) struct VersionArguments {
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArguments {
    /// The shell to complete commands for.
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(super) struct ManArguments {
    /// The folder for the pages, one for each command; it is created if it is missing.
    dir: PathBuf,
}

/// Prints the version, the commit, and the features of the build.
pub(super) fn version(arguments: &VersionArguments) -> Result<Exit, Problem> {
    let version = env!("CARGO_PKG_VERSION");
    let features = [
        ("inference", cfg!(feature = "inference")),
        ("cuda", cfg!(feature = "cuda")),
        ("server", cfg!(feature = "server")),
        ("stores", cfg!(feature = "stores")),
    ];
    let features: Vec<&str> =
        features.into_iter().filter(|(_, is_enabled)| *is_enabled).map(|(name, _)| name).collect();
    if arguments.json {
        let value = serde_json::json!({
            "version": 1,
            "sandmill": version,
            "commit": COMMIT,
            "features": features,
            "wasmtime": WASMTIME_VERSION,
        });
        print_json(&format!("{value:#}\n"))?;
        return Ok(Exit::Completed);
    }
    let commit = COMMIT.unwrap_or("built for development");
    let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    print(&format!(
        "sandmill {version} ({commit})\nfeatures: {features}\nwasmtime: {WASMTIME_VERSION}\n"
    ))?;
    Ok(Exit::Completed)
}

/// Prints the completion script for a shell.
pub(super) fn completions(
    arguments: &CompletionsArguments,
    mut command: Command,
) -> Result<Exit, Problem> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "sandmill", &mut script);
    print_json(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Completed)
}

/// Writes the man pages.
pub(super) fn man(arguments: &ManArguments, command: Command) -> Result<Exit, Problem> {
    let dir = &arguments.dir;
    let written =
        std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(command, dir));
    written.map_err(|error| cannot_write(dir, &error))?;
    say(&format!(
        "the pages are in {}: man -l {}",
        dir.display(),
        dir.join("sandmill.1").display()
    ));
    Ok(Exit::Completed)
}

fn cannot_write(dir: &Path, error: &std::io::Error) -> Problem {
    Problem::usage(anyhow::anyhow!(
        "pages cannot be written to {}: {error}; name another folder",
        dir.display()
    ))
}
