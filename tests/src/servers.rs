//! Servers for tests of stores: moto (S3), Azurite (Azure), and the servers of `tests/servers`.

use crate::{TestJob, python, root};
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A running server. Dropping it stops the server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The port of 127.0.0.1 on which the server listens.
    pub port: u16,
}

impl Server {
    /// moto's server, which implements S3 and accepts every client.
    pub fn moto() -> Self {
        let port = free_port();
        let mut command = Command::new(python());
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
        Self::start_on_port(command, port)
    }

    /// Starts a server, and waits until it listens on this port.
    fn start_on_port(mut command: Command, port: u16) -> Self {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn();
        let server = Self { child: child.unwrap(), port };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{command:?} does not start");
            thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// Azurite, which implements Azure's Blob Storage, with one account `acc` and this key.
    pub fn azurite(key: &str) -> Self {
        let program = root().join("target/node/node_modules/.bin/azurite-blob");
        let shown = program.display();
        assert!(program.exists(), "{shown} is missing; `make node-env` installs it");
        let port = free_port();
        let mut command = Command::new("node");
        command.arg(program).args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()]);
        command.args(["--inMemoryPersistence", "--skipApiVersionCheck", "--silent"]);
        command.env("AZURITE_ACCOUNTS", format!("acc:{key}"));
        Self::start_on_port(command, port)
    }

    /// `tests/servers/objects.py`; its docstring says what it serves.
    pub fn objects(count: u32) -> Self {
        let script = root().join("tests/servers/objects.py");
        let mut command = Command::new(python());
        command.arg(script).arg(count.to_string());
        Self::start_and_read_port(command)
    }

    /// `tests/servers/clouds.py`, which writes the key of a service account and, if `is_secure`, a
    /// certificate for TLS into the folder.
    pub fn clouds(folder: &Path, is_secure: bool) -> Self {
        let script = root().join("tests/servers/clouds.py");
        let mut command = Command::new(python());
        command.arg(script).arg(folder).args(is_secure.then_some("tls"));
        Self::start_and_read_port(command)
    }

    /// Starts a server that chooses a port and prints it.
    fn start_and_read_port(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).process_group(0).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap() }
    }

    /// `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Writes an object, or creates a bucket.
    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let (head, _) = self.request("PUT", path, content.as_ref());
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
    }

    /// Removes an object.
    pub fn delete(&self, path: &str) {
        self.request("DELETE", path, b"");
    }

    /// Sets the environment variables with which a job uses this server as its S3 store.
    pub fn opened_for(&self, job: TestJob) -> TestJob {
        let variables = Self::variables(self.port);
        variables.iter().fold(job, |job, (name, value)| job.env(name, value))
    }

    /// The environment variables with which a process uses the server on this port as its S3 store.
    pub fn variables(port: u16) -> Vec<(String, String)> {
        let url = format!("http://127.0.0.1:{port}");
        let variables = [
            ("AWS_ENDPOINT_URL", url.as_str()),
            ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
            ("AWS_SECRET_ACCESS_KEY", "hushhush-key"),
            ("AWS_REGION", "us-east-1"),
        ];
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    /// The names of the objects of a bucket that begin with a prefix.
    pub fn names(&self, bucket: &str, prefix: &str) -> Vec<String> {
        let listed = self.get(&format!("/{bucket}?list-type=2&prefix={prefix}"));
        let names = listed.split("<Key>").skip(1);
        names.filter_map(|rest| Some(rest.split_once("</Key>")?.0.to_owned())).collect()
    }

    /// Makes a server of `tests/servers/objects.py` send the responses that it has held back until now.
    pub fn release(&self) {
        let (head, _) = self.request("POST", "/release", b"");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    }

    /// An object's content.
    pub fn get(&self, path: &str) -> String {
        String::from_utf8_lossy(&self.get_bytes(path)).into_owned()
    }

    /// An object's content, if it need not be a text.
    pub fn get_bytes(&self, path: &str) -> Vec<u8> {
        let (head, body) = self.request("GET", path, b"");
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        body
    }

    /// Sends a request. Returns the head and the body of the response.
    fn request(&self, method: &str, path: &str, content: &[u8]) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = content.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: {length}\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request, \
             SignedHeaders=host, Signature=s\r\nConnection: close\r\n\r\n",
            self.port
        );
        stream.write_all(&[head.as_bytes(), content].concat()).unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        let end = response.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let body = end.map(|end| response.split_off(end + 4)).unwrap_or_default();
        (String::from_utf8_lossy(&response).into_owned(), body)
    }
}

/// The total size of the cached objects in a folder at one moment.
pub fn bytes_here(folder: &Path) -> u64 {
    let mut before = HashMap::new();
    let mut after = HashMap::new();
    collect_sizes(folder, &mut before);
    collect_sizes(folder, &mut after);
    // A file that both passes over the folder found must have existed at the moment between them.
    let in_both = before.iter().filter(|(inode, _)| after.contains_key(*inode));
    in_both.map(|(_, bytes)| bytes).sum()
}

/// Collects the inode and size of each cached object in a folder.
fn collect_sizes(folder: &Path, found: &mut HashMap<u64, u64>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match fs::symlink_metadata(entry.path()) {
            // The folder `list` holds listings, not objects.
            Ok(metadata) if metadata.is_dir() && entry.file_name() != "list" => {
                collect_sizes(&entry.path(), found);
            }
            Ok(metadata) if metadata.is_file() => {
                found.insert(metadata.ino(), metadata.len());
            }
            _ => {}
        }
    }
}

/// A free port. Rarely, another process takes the port before the server does. Then the server fails to
/// start.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that has already ended needs no cleanup.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
