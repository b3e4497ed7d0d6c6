//! `sandmill serve`: runs jobs of many tenants, and answers requests over HTTP.

use super::datastores::DatastoresArgument;
use super::exit::{Exit, Problem};
use super::policy::{ANY_TENANT, PolicyArgument};
use super::run::{current_dir, this_program};
use super::{say, signals};
use anyhow::anyhow;
use sandmill_server::{Listening, ServeError, ServeOptions, StateFolder, serve as run_server};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use tokio::runtime::Builder;

/// The message without a policy.
const NO_POLICY: &str = "a server needs a policy, which says what the jobs of strangers may do: name it with --policy FILE";

#[derive(Debug, clap::Args)]
pub(super) struct ServeArguments {
    /// The address at which the server listens. Put a proxy with TLS before it, unless it is a loopback address.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8470")]
    listen: SocketAddr,
    /// The folder for everything that the server keeps: tenants, tokens, jobs with their results.
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// The most jobs that run at a time. Their workers share the machine as `machine` in the policy says.
    #[arg(long, value_name = "N", default_value = "16")]
    max_jobs: NonZeroUsize,
    #[command(flatten)]
    policy: PolicyArgument,
    #[command(flatten)]
    datastores: DatastoresArgument,
}

/// Runs a server until SIGTERM or Ctrl-C.
pub(super) fn serve(arguments: &ServeArguments) -> Result<Exit, Problem> {
    let here = current_dir()?;
    let state = here.join(&arguments.state);
    // The policy can name only folders that exist.
    let folder = StateFolder::open(&state).map_err(usage)?;
    let policy = arguments.policy.which().ok_or_else(|| usage_text(NO_POLICY.to_owned()))?;
    let policy = here.join(policy);
    let checked = arguments.policy.load_for_any_tenant()?;
    let missing = checked.missing_for_server(ANY_TENANT, (&folder.jobs(), &folder.submitted()));
    if !missing.is_empty() {
        return Err(usage_text(format!(
            "{}: a server needs roots that keep tenants apart; below roots, write:\n{}\nand name the folders of each tenant's data \
             with ${{tenant}}, too",
            policy.display(),
            missing.join("\n")
        )));
    }
    let options = ServeOptions {
        listen: arguments.listen,
        policy,
        datastores: arguments.datastores.which().map(|file| here.join(file)),
        program: this_program()?,
        most_running: arguments.max_jobs.get(),
    };
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Problem::usage(anyhow!("{error}")))?;
    runtime.block_on(async {
        let signal = signals::first_end().map_err(Problem::usage)?;
        let end = async move {
            signal.await;
            say("the server ends: it finishes its requests, and jobs go on; start it again to see them");
        };
        run_server(folder, options, announce, end).await.map_err(usage)
    })?;
    Ok(Exit::Completed)
}

fn announce(listening: &Listening) {
    say(&format!("listening at http://{}", listening.address));
    if let Some(file) = &listening.new_token {
        say(&format!(
            "the token of the first operator is in {}: keep it safe, or replace it by one of POST /v1/tokens and revoke it",
            file.display()
        ));
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn usage(error: ServeError) -> Problem {
    Problem::usage(anyhow!("{error}"))
}

fn usage_text(text: String) -> Problem {
    Problem::usage(anyhow::Error::msg(text))
}
