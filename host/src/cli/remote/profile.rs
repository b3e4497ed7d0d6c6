//! Finds the server that a command talks to, and the token.

use super::super::config::Config;
use super::super::exit::Problem;
use super::super::policy::PolicyArgument;
use super::client::ServerClient;
use anyhow::{Context as _, anyhow};
use std::path::PathBuf;

/// The environment variable with the server's address, or the name of a profile.
const SERVER_VARIABLE: &str = "SANDMILL_SERVER";
/// The environment variable with the token.
const TOKEN_VARIABLE: &str = "SANDMILL_TOKEN";

/// The message if a command needs a server and there is none.
const NO_SERVER: &str = "no server is given: name it with --server URL, or with the name of a server in the user's config file";

/// The server of a command.
#[derive(Clone, Debug, Default, clap::Args)]
pub(in crate::cli) struct ServerArgument {
    /// The server of `sandmill serve` that has the job, as https://HOST:PORT or by its name in the user's config file, for
    /// submit, jobs, status, logs, explain, cancel, pause and resume [default: $SANDMILL_SERVER, else this machine].
    #[arg(long, value_name = "URL", global = true, help_heading = "Server")]
    server: Option<String>,
}

impl ServerArgument {
    /// The server. `None` if the command is about this machine.
    ///
    /// # Errors
    /// If there is no token, or the config file is wrong.
    pub(in crate::cli) fn find(&self) -> Result<Option<ServerClient>, Problem> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(given) = self.server.clone().or_else(|| variable(SERVER_VARIABLE)) else {
            return Ok(None);
        };
        let config = Config::load(&PolicyArgument::default())?;
        let profile = config.server(&given);
        let (url, token_file) = match profile {
            Some((url, token_file)) => (url, token_file),
            None if given.contains("://") => (given, None),
            None => {
                return Err(Problem::usage(anyhow!(
                    "--server: found {given:?}; expected an address such as https://HOST:8470, or the name of a server in the \
                     user's config file (servers: {{{given}: {{url: https://HOST:8470}}}})"
                )));
            }
        };
        let token = match (variable(TOKEN_VARIABLE), token_file) {
            (Some(token), _) => token,
            (None, Some(file)) => read_token(&file)?,
            (None, None) => {
                return Err(Problem::usage(anyhow!(
                    "there is no token for {url}: put it into ${TOKEN_VARIABLE}, or name a file with it in the user's config file \
                     (token_file)"
                )));
            }
        };
        Ok(Some(ServerClient::new(&url, token.trim())))
    }

    /// The server of a command that works only with one.
    ///
    /// # Errors
    /// If there is no server.
    pub(in crate::cli) fn must_find(&self) -> Result<ServerClient, Problem> {
        self.find()?.ok_or_else(|| Problem::usage(anyhow!(NO_SERVER)))
    }
}

fn read_token(file: &PathBuf) -> Result<String, Problem> {
    let text = std::fs::read_to_string(file);
    text.with_context(|| format!("the file with the token, {}", file.display()))
        .map_err(Problem::usage)
}
