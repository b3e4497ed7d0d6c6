//! The broker through which a job reaches other machines.

use crate::bus::Broker;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// The environment variable with the broker's address.
const URL_VARIABLE: &str = "SANDMILL_BROKER";
/// The environment variable with the path of a credentials file.
const CREDENTIALS_VARIABLE: &str = "SANDMILL_BROKER_CREDENTIALS";
/// The environment variable with the path of certificates.
const CA_VARIABLE: &str = "SANDMILL_BROKER_CA";
/// The address that means no broker, although the environment names one.
const NONE: &str = "none";

/// The broker to use.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct BrokerArgument {
    /// The broker through which other machines run the workers: a NATS server, as nats://HOST:4222 or
    /// tls://HOST:4222, or several, separated by commas [default: $SANDMILL_BROKER, else none: this machine runs
    /// the workers].
    #[arg(long, value_name = "URL")]
    broker: Option<String>,
    /// The NATS credentials file for the broker [default: $SANDMILL_BROKER_CREDENTIALS].
    #[arg(long, value_name = "FILE")]
    broker_credentials: Option<PathBuf>,
    /// The certificates that may sign the broker's certificate, as PEM [default: $SANDMILL_BROKER_CA, else those
    /// of the system].
    #[arg(long, value_name = "FILE")]
    broker_ca: Option<PathBuf>,
}

/// How patient the leader is with nodes, and agents with the leader.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct PatienceArguments {
    /// With a broker: how many seconds a node may be silent. Then its mini-batches run on other nodes.
    #[arg(long, value_name = "SECONDS", default_value = "10")]
    node_timeout: NonZeroU32,
    /// With a broker: no agent continues the job if this process is lost.
    #[arg(long)]
    no_takeover: bool,
}

impl PatienceArguments {
    /// How long a node may be silent.
    pub(super) fn node_timeout(self) -> Duration {
        Duration::from_secs(u64::from(self.node_timeout.get()))
    }

    /// Whether an agent continues the job if this process is lost.
    pub(super) fn takeover(self) -> bool {
        !self.no_takeover
    }
}

impl From<Broker> for BrokerArgument {
    fn from(broker: Broker) -> Self {
        let Broker { url, credentials, root_certificate } = broker;
        Self { broker: Some(url), broker_credentials: credentials, broker_ca: root_certificate }
    }
}

impl BrokerArgument {
    /// The broker; `None` if there is none.
    pub(super) fn find(&self) -> Option<Broker> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let path = |name| variable(name).map(PathBuf::from);
        let from_environment =
            || variable(URL_VARIABLE).map(|url| url.to_string_lossy().into_owned());
        let url = self.broker.clone().or_else(from_environment).filter(|url| url != NONE)?;
        Some(Broker {
            url,
            credentials: self.broker_credentials.clone().or_else(|| path(CREDENTIALS_VARIABLE)),
            root_certificate: self.broker_ca.clone().or_else(|| path(CA_VARIABLE)),
        })
    }
}
