//! `sandmill portal`: the pages of one job directory, for a browser on the same machine.

use super::guards::only_this_machine;
use super::one_job::OneJob;
use super::routes::job_routes;
use crate::error::ServeError;
use sandmill_model::JobDir;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::TcpListener;

/// How long requests may take after the end was asked for.
const DRAIN: Duration = Duration::from_secs(1);

/// What the portal of a job needs to know.
#[derive(Clone, Debug)]
pub struct PortalOptions {
    /// The job directory. Absolute.
    pub job_dir: PathBuf,
    /// The address at which it listens. It must be one that only this machine reaches.
    pub listen: SocketAddr,
}

/// Shows a job to browsers of this machine until `end` is ready. Changes nothing.
///
/// # Errors
/// If the address can be reached from other machines, or cannot be used.
pub async fn serve_job(
    options: PortalOptions,
    say: impl FnOnce(SocketAddr),
    end: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let PortalOptions { job_dir, listen } = options;
    if !listen.ip().is_loopback() {
        return Err(ServeError::NotLoopback(listen));
    }
    let failed = |error| ServeError::Listen { address: listen, error };
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let guard = axum::middleware::from_fn_with_state(address, only_this_machine);
    let app = job_routes().layer(guard).with_state(OneJob::new(JobDir::new(job_dir)));
    say(address);
    let (ending, is_ending) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async move {
        end.await;
        drop(ending);
    };
    let serving = axum::serve(listener, app).with_graceful_shutdown(shutdown);
    let drained = async move {
        // The sender is dropped when the end is asked for.
        let _ = is_ending.await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        ended = serving => ended.map_err(ServeError::Failed),
        () = drained => Ok(()),
    }
}
