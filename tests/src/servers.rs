//! Servers of objects, as real as can be had on this machine.

use crate::{Job, python, root};
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

/// A server, which ends with this.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens on this machine.
    pub port: u16,
}

impl Server {
    /// moto's server, which speaks S3 and lets everybody in.
    pub fn moto() -> Self {
        let port = free_port();
        let mut command = Command::new(python());
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
        Self::started(command, port)
    }

    fn started(mut command: Command, port: u16) -> Self {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn();
        let server = Self { child: child.unwrap(), port };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{command:?} does not start");
            thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// Azurite, which speaks Azure's Blob Storage, with one account `acc` and this key.
    pub fn azurite(key: &str) -> Self {
        let program = root().join("target/node/node_modules/.bin/azurite-blob");
        let shown = program.display();
        assert!(program.exists(), "{shown} is not there; `make node-env` brings it");
        let port = free_port();
        let mut command = Command::new("node");
        command.arg(program).args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()]);
        command.args(["--inMemoryPersistence", "--skipApiVersionCheck", "--silent"]);
        command.env("AZURITE_ACCOUNTS", format!("acc:{key}"));
        Self::started(command, port)
    }

    /// `tests/servers/objects.py`, which says what it serves.
    pub fn objects(count: u32) -> Self {
        let script = root().join("tests/servers/objects.py");
        let mut command = Command::new(python());
        command.arg(script).arg(count.to_string());
        Self::told(command)
    }

    /// `tests/servers/clouds.py`, which puts a certificate and a key into the folder.
    pub fn clouds(folder: &Path, is_secure: bool) -> Self {
        let script = root().join("tests/servers/clouds.py");
        let mut command = Command::new(python());
        command.arg(script).arg(folder).args(is_secure.then_some("tls"));
        Self::told(command)
    }

    /// A server that prints its port.
    fn told(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).process_group(0).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap() }
    }

    /// `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Puts an object, or makes a bucket.
    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let (head, _) = self.ask("PUT", path, content.as_ref());
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
    }

    /// Removes an object.
    pub fn delete(&self, path: &str) {
        self.ask("DELETE", path, b"");
    }

    /// A job whose environment leads into this store, if it is one of S3's.
    pub fn opened_for(&self, job: Job) -> Job {
        job.env("AWS_ENDPOINT_URL", &self.url())
            .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
            .env("AWS_SECRET_ACCESS_KEY", "hushhush-key")
            .env("AWS_REGION", "us-east-1")
    }

    /// Lets a server of `tests/servers/objects.py` answer what it held back.
    pub fn release(&self) {
        let (head, _) = self.ask("POST", "/release", b"");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    }

    /// What is there.
    pub fn get(&self, path: &str) -> String {
        let (head, body) = self.ask("GET", path, b"");
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        body
    }

    fn ask(&self, method: &str, path: &str, content: &[u8]) -> (String, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = content.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: {length}\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request, \
             SignedHeaders=host, Signature=s\r\nConnection: close\r\n\r\n",
            self.port
        );
        stream.write_all(&[head.as_bytes(), content].concat()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        (head.to_owned(), body.to_owned())
    }
}

/// Bytes of the objects in a folder that are here at one moment.
pub fn bytes_here(folder: &Path) -> u64 {
    let mut before = HashMap::new();
    let mut after = HashMap::new();
    look(folder, &mut before);
    look(folder, &mut after);
    // Those that both have found were there between the two.
    let both = before.iter().filter(|(inode, _)| after.contains_key(*inode));
    both.map(|(_, bytes)| bytes).sum()
}

/// The inodes of the objects in a folder that are here, with their bytes.
fn look(folder: &Path, found: &mut HashMap<u64, u64>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match fs::symlink_metadata(entry.path()) {
            // That of the list is no object's.
            Ok(it) if it.is_dir() && entry.file_name() != "list" => look(&entry.path(), found),
            Ok(it) if it.is_file() => drop(found.insert(it.ino(), it.len())),
            _ => {}
        }
    }
}

/// Somebody else may take it meanwhile, which is rare; then the server says so and ends.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing to do about one that is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
