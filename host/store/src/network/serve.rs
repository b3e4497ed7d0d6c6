//! The main function of the fetcher process, the only process of Sandmill that uses the network.

use super::cache_dir::WRITABLE_FOLDERS;
use super::download_all::serve as serve_requests;
use super::error_text::FetchError;
use super::head::check;
use super::listing::{ListingExtent, list};
use super::object_calls::serve_calls;
use super::put_files::put_files;
use super::upload::upload_folder;
use crate::protocol::store::{FetchRequest, Fetched, FromFetcher, StoreTask};
use crate::protocol::{PROTOCOL_VERSION, encode, read_frame};
use crate::wall::{self, FolderRights, GrantedPath, ResourceLimits, Wall, WallRole};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::net::ToSocketAddrs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use tokio::net::unix::pipe::Receiver;

/// The maximum amount of memory that the process may allocate, in bytes.
const MEMORY_BYTES: u64 = 4 << 30;
/// The maximum size of an object in bytes.
const MAX_FILE_BYTES: u64 = 1 << 40;
/// The maximum number of files and connections that are open at the same time.
const MAX_OPEN_FILES: u64 = 1024;

/// The files and folders that name resolution and TLS need.
const NETWORK_FILES: [&str; 14] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/nsswitch.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust",
    "/etc/ca-certificates",
    "/usr/lib/ssl",
    "/usr/share/ca-certificates",
    "/run/systemd/resolve",
];

/// Reads a request from standard input, and writes messages to standard output. Fails if there is no valid
/// request, if the sandbox cannot be built, or if the leader stops reading.
pub fn serve() -> io::Result<()> {
    wall::enter()?;
    // We read without the standard library's buffer, which would swallow requests that are read later.
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let request: Option<FetchRequest> =
        read_frame(&mut input, &mut Vec::new()).map_err(io::Error::other)?;
    let Some(request) = request else {
        return Err(io::Error::new(
            ErrorKind::UnexpectedEof,
            "there is no request on standard input",
        ));
    };
    if request.protocol != PROTOCOL_VERSION {
        return Err(io::Error::other(
            "the program sandmill was replaced while the job began; start the job again",
        ));
    }
    // Loads the libraries for name resolution: in the sandbox, they cannot be loaded.
    let _ = "localhost:1".to_socket_addrs();
    // Fails if a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // The runtime makes a pair of sockets, which the sandbox forbids, so we start it first. It runs
    // on this thread.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let requests = match request.task {
        StoreTask::Serve | StoreTask::Objects | StoreTask::Publish => {
            let _guard = runtime.enter();
            Some(Receiver::from_file(input)?)
        }
        _ => None,
    };
    lock_down(&request)?;
    let mut out = io::stdout().lock();
    let mut report = |message| send_message(&mut out, &message).map_err(FetchError::Leader);
    let result = runtime.block_on(Box::pin(work(&request, requests, &mut report)));
    send_message(
        &mut out,
        &result.map_or_else(|error| FromFetcher::Failed(error.into()), FromFetcher::Done),
    )
}

async fn work(
    request: &FetchRequest,
    requests: Option<Receiver>,
    report: &mut dyn FnMut(FromFetcher) -> Result<(), FetchError>,
) -> Result<Fetched, FetchError> {
    let mut progress = |so_far| report(FromFetcher::Progress(so_far));
    match (&request.task, requests) {
        (StoreTask::List { wanted, most, must_fit, on_demand, refuses_tables }, _) => {
            let must_fit = *must_fit;
            let on_demand = *on_demand;
            let refuses_tables = *refuses_tables;
            let extent = ListingExtent { max_bytes: *most, must_fit, on_demand, refuses_tables };
            list(request, wanted, extent, &mut progress).await
        }
        (StoreTask::Put, _) => upload_folder(request, None, report).await,
        (StoreTask::Publish, go_on) => upload_folder(request, go_on, report).await,
        (StoreTask::PutFiles(files), _) => put_files(request, files, &mut progress).await,
        (StoreTask::Check(name), _) => check(request, name).await.map(|()| Fetched::default()),
        (StoreTask::Serve, Some(requests)) => {
            serve_requests(request, requests, report).await.map(|()| Fetched::default())
        }
        (StoreTask::Objects, Some(calls)) => {
            serve_calls(request, calls, report).await.map(|()| Fetched::default())
        }
        (StoreTask::Serve | StoreTask::Objects, None) => Ok(Fetched::default()),
    }
}

fn send_message(out: &mut impl Write, message: &FromFetcher) -> io::Result<()> {
    let mut bytes = Vec::new();
    encode(message, &mut bytes).map_err(io::Error::other)?;
    out.write_all(&bytes)?;
    out.flush()
}

fn lock_down(request: &FetchRequest) -> io::Result<()> {
    let rule = |path: PathBuf, rights| GrantedPath::new(path, rights);
    let slot_folders = |rights| {
        let folders = WRITABLE_FOLDERS.iter().map(|below| request.folder.join(below));
        folders.map(|folder| rule(folder, rights)).collect::<Vec<_>>()
    };
    let mut folders = match &request.task {
        StoreTask::List { .. } | StoreTask::Serve => slot_folders(FolderRights::Write),
        StoreTask::Put | StoreTask::Publish => {
            vec![rule(request.folder.clone(), FolderRights::Read)]
        }
        StoreTask::PutFiles(files) => {
            files.iter().map(|file| rule(file.path.clone(), FolderRights::Read)).collect()
        }
        StoreTask::Objects | StoreTask::Check(_) => Vec::new(),
    };
    folders.extend(NETWORK_FILES.iter().map(|path| rule(path.into(), FolderRights::Read)));
    let certificates = ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().filter_map(std::env::var_os);
    folders.extend(certificates.map(|path| rule(path.into(), FolderRights::Read)));
    let credential_files = request.store.options.iter().filter(|(name, _)| is_file_option(name));
    let credential_files = credential_files.flat_map(|(_, path)| readable_paths(Path::new(path)));
    folders.extend(credential_files.map(|path| rule(path, FolderRights::Read)));
    folders.retain(|folder| folder.path.exists());
    let bounds = ResourceLimits {
        memory: Some(MEMORY_BYTES),
        cpu_seconds: None,
        largest_file: MAX_FILE_BYTES,
        open_files: MAX_OPEN_FILES,
    };
    Wall { role: WallRole::Fetcher, mode: request.os_sandbox, folders, bounds }
        .build()
        .map(drop)
        .map_err(io::Error::other)
}

/// The paths that must be readable so that the library can read a credentials file again, after a token in it
/// has expired. In Kubernetes, the path is a link to a file below the link's own folder, and later
/// leads to another file there. So the whole folder, which holds only tokens, must be readable.
fn readable_paths(path: &Path) -> Vec<PathBuf> {
    let mut readable = vec![path.to_owned()];
    if path.is_symlink()
        && let Some(folder) = path.parent().and_then(|folder| folder.canonicalize().ok())
        && path.canonicalize().is_ok_and(|target| target.starts_with(&folder))
    {
        readable.push(folder);
    }
    readable
}

/// Whether an option's value is the path of a file.
fn is_file_option(option: &str) -> bool {
    option.ends_with("_file")
        || option.ends_with("service_account")
        || option.ends_with("service_account_path")
        || option.ends_with("application_credentials")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kubernetes stores tokens in this layout, and replaces the link `..data` to update them.
    #[test]
    fn a_pods_token_stays_readable_after_its_link_changes() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let path = |name: &str| folder.join(name);
        std::fs::create_dir_all(path("pod/..today")).unwrap();
        std::fs::write(path("pod/..today/token"), "").unwrap();
        std::os::unix::fs::symlink("..today", path("pod/..data")).unwrap();
        std::os::unix::fs::symlink("..data/token", path("pod/token")).unwrap();
        assert_eq!(readable_paths(&path("pod/token")), [path("pod/token"), path("pod")]);
        // A link that leads out of its folder does not make the folder readable.
        std::fs::write(path("plain"), "").unwrap();
        std::os::unix::fs::symlink("../plain", path("pod/away")).unwrap();
        for name in ["plain", "pod/away", "pod/none"] {
            assert_eq!(readable_paths(&path(name)), [path(name)], "{name}");
        }
    }
}
