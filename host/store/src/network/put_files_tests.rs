//! Tests of uploads of a submitter's files, with a small store in this process that speaks the protocol of S3.

use super::put_files::put_files;
use super::upload::PART_BYTES;
use crate::model::{OsSandbox, StoreKind};
use crate::protocol::PROTOCOL_VERSION;
use crate::protocol::store::{FetchRequest, Fetched, FileToPut, StoreConfig, StoreTask};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use tempfile::TempDir;

/// How many objects a page of the store's list has.
const PAGE: usize = 3;

#[derive(Default)]
struct Objects {
    /// The content of each object, and the number of its version.
    all: BTreeMap<String, (Vec<u8>, usize)>,
    /// What another upload writes as soon as the first object is written.
    rival: BTreeMap<String, Vec<u8>>,
    /// The first lines of all requests.
    requests: Vec<String>,
}

impl Objects {
    fn write(&mut self, key: &str, content: Vec<u8>) {
        let version = self.requests.len();
        self.all.insert(key.to_owned(), (content, version));
    }

    /// The head and the body of the answer.
    fn answer(
        &mut self,
        line: &str,
        headers: &BTreeMap<String, String>,
        body: Vec<u8>,
    ) -> (String, Vec<u8>) {
        self.requests.push(line.to_owned());
        let mut words = line.split(' ');
        let method = words.next().unwrap();
        let (path, query) =
            words.next().map(|path| path.split_once('?').unwrap_or((path, ""))).unwrap();
        let key = path.trim_start_matches("/box").trim_start_matches('/').to_owned();
        let found = self.all.get(&key).cloned();
        let tag = |version| {
            format!("ETag: \"{version}\"\r\nLast-Modified: Tue, 01 Jan 2030 00:00:00 GMT\r\n")
        };
        if method == "PUT" {
            for (key, content) in std::mem::take(&mut self.rival) {
                self.write(&key, content);
            }
        }
        match method {
            "GET" if query.contains("list-type=2") => ("200 OK\r\n".to_owned(), self.list(query)),
            "GET" | "HEAD" => match found {
                Some((content, version)) => (format!("200 OK\r\n{}", tag(version)), content),
                None => ("404 Not Found\r\n".to_owned(), Vec::new()),
            },
            "PUT" if query.contains("partNumber") => (format!("200 OK\r\n{}", tag(0)), Vec::new()),
            "PUT" => {
                let version = self.all.get(&key).map(|(_, version)| format!("\"{version}\""));
                let is_refused = match headers.get("if-match") {
                    Some(expected) => version.as_ref() != Some(expected),
                    None => headers.contains_key("if-none-match") && version.is_some(),
                };
                if is_refused {
                    return ("412 Precondition Failed\r\n".to_owned(), Vec::new());
                }
                self.write(&key, body);
                (format!("200 OK\r\n{}", tag(self.requests.len())), Vec::new())
            }
            "POST" if query.contains("uploadId") => {
                self.write(&key, b"in parts".to_vec());
                let done =
                    "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>";
                ("200 OK\r\n".to_owned(), done.into())
            }
            "POST" => {
                let begun = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
                ("200 OK\r\n".to_owned(), begun.into())
            }
            _ => ("204 No Content\r\n".to_owned(), Vec::new()),
        }
    }

    fn list(&self, query: &str) -> Vec<u8> {
        let value = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let value = pairs.find(|(known, _)| *known == name).map(|(_, value)| value);
            value.unwrap_or_default().replace("%2F", "/")
        };
        let after = value("start-after").max(value("continuation-token"));
        let mut found = self.all.iter().filter(|(key, _)| **key > after).peekable();
        let mut text = "<ListBucketResult>".to_owned();
        let mut last = String::new();
        for (key, (content, version)) in found.by_ref().take(PAGE) {
            text += &format!(
                "<Contents><Key>{key}</Key><LastModified>2030-01-01T00:00:00.000Z</LastModified>\
                 <ETag>\"{version}\"</ETag><Size>{}</Size></Contents>",
                content.len()
            );
            last.clone_from(key);
        }
        if found.peek().is_some() {
            text += &format!("<NextContinuationToken>{last}</NextContinuationToken>");
        }
        (text + "</ListBucketResult>").into()
    }
}

fn serve(mut connection: TcpStream, objects: &Mutex<Objects>) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let (head, content) = objects.lock().unwrap().answer(line.trim_end(), &headers, body);
    let length = content.len();
    write!(connection, "HTTP/1.1 {head}Content-Length: {length}\r\nConnection: close\r\n\r\n")
        .unwrap();
    if !line.starts_with("HEAD") {
        connection.write_all(&content).unwrap();
    }
}

/// A store, and a folder with the files that are uploaded to it.
struct Place {
    dir: TempDir,
    objects: Arc<Mutex<Objects>>,
    request: FetchRequest,
}

impl Place {
    fn new() -> Self {
        // Fails if a provider is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let objects = Arc::new(Mutex::new(Objects::default()));
        let served = Arc::clone(&objects);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let served = Arc::clone(&served);
                thread::spawn(move || serve(connection.unwrap(), &served));
            }
        });
        let options = [
            ("aws_endpoint", format!("http://127.0.0.1:{port}")),
            ("aws_access_key_id", "a".to_owned()),
            ("aws_secret_access_key", "b".to_owned()),
        ];
        let store = StoreConfig {
            kind: StoreKind::S3,
            container: "box".to_owned(),
            options: options.map(|(name, value)| (name.to_owned(), value)).into(),
            credentials: String::new(),
        };
        let request = FetchRequest {
            protocol: PROTOCOL_VERSION,
            os_sandbox: OsSandbox::BestEffort,
            store,
            prefix: "in/".to_owned(),
            task: StoreTask::PutFiles(Vec::new()),
            shown: "s3://box/in/".to_owned(),
            folder: PathBuf::new(),
        };
        Self { dir: tempfile::tempdir().unwrap(), objects, request }
    }

    fn file(&self, name: &str, content: &[u8]) -> FileToPut {
        let path = self.dir.path().join(name);
        fs::write(&path, content).unwrap();
        let length = content.len() as u64;
        FileToPut { name: name.to_owned(), path, length, sha256: Sha256::digest(content).into() }
    }

    /// Uploads files. Returns what was uploaded, and how often progress was reported.
    fn put(&self, files: &[FileToPut]) -> Result<(Fetched, usize), String> {
        self.objects.lock().unwrap().requests.clear();
        let mut reports = 0;
        let mut report = |_| {
            reports += 1;
            Ok(())
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let sent = runtime.block_on(put_files(&self.request, files, &mut report));
        sent.map(|sent| (sent, reports)).map_err(|error| error.to_string())
    }

    fn write(&self, key: &str, content: &[u8]) {
        self.objects.lock().unwrap().write(key, content.to_vec());
    }

    fn content(&self, key: &str) -> Vec<u8> {
        self.objects.lock().unwrap().all[key].0.clone()
    }

    /// The requests whose first line has this text.
    fn requests(&self, text: &str) -> Vec<String> {
        let requests = self.objects.lock().unwrap().requests.clone();
        requests.into_iter().filter(|line| line.contains(text)).collect()
    }
}

/// Two submitters upload the same data at the same time, and a job of the first one reads it.
#[test]
fn objects_of_another_upload_stay() {
    let place = Place::new();
    let large = vec![7; usize::try_from(PART_BYTES).unwrap() + 1];
    let files = [place.file("a", b"small"), place.file("b", &large)];
    let rival = [("in/a".to_owned(), b"small".to_vec()), ("in/b".to_owned(), large)];
    place.objects.lock().unwrap().rival = rival.into();
    place.put(&files).unwrap();
    assert_eq!(place.requests("PUT /box/in/a ").len(), 1, "it is refused");
    assert_eq!(place.requests("DELETE /box/in/b?uploadId=u").len(), 1);
    assert_eq!(place.requests("POST /box/in/b?uploadId=u").len(), 0);
    let versions = |place: &Place| -> Vec<usize> {
        place.objects.lock().unwrap().all.values().map(|(_, version)| *version).collect()
    };
    let before = versions(&place);
    assert_eq!(before[0], before[1], "both are those of the other upload");
    place.put(&files).unwrap();
    assert_eq!(versions(&place), before);
}

/// Objects of other lengths are replaced, unless another process has replaced them meanwhile.
#[test]
fn incomplete_objects_are_replaced() {
    let place = Place::new();
    let large = vec![7; usize::try_from(PART_BYTES).unwrap() + 1];
    let files = [place.file("a", b"small"), place.file("b", &large)];
    place.write("in/a", b"sm");
    place.write("in/b", b"");
    place.put(&files).unwrap();
    assert_eq!(place.content("in/a"), b"small");
    assert_eq!(place.content("in/b"), b"in parts");
    place.write("in/a", b"sm");
    place.objects.lock().unwrap().rival = [("in/a".to_owned(), b"other".to_vec())].into();
    let error = place.put(&files[..1]).unwrap_err();
    assert!(error.contains("in/a"), "{error}");
    assert_eq!(place.content("in/a"), b"other");
}

/// Each part of the files lists only its part of the objects.
#[test]
fn only_the_objects_of_the_files_are_listed() {
    let place = Place::new();
    let names: Vec<String> = (10..40).map(|number| number.to_string()).collect();
    let files: Vec<FileToPut> =
        names.iter().map(|name| place.file(name, name.as_bytes())).collect();
    for file in &files {
        place.write(&format!("in/{}", file.name), file.name.as_bytes());
    }
    let (sent, reports) = place.put(&files[10..15]).unwrap();
    assert_eq!(sent, Fetched::default());
    let lists = place.requests("list-type=2");
    assert_eq!(lists.len(), 2, "{lists:?}");
    assert!(lists[0].contains("start-after=in%2F20"), "{lists:?}");
    assert_eq!(reports, 2);
    assert_eq!(place.put(&files).unwrap().0, Fetched::default());
    assert_eq!(place.requests("PUT").len(), 0);
    place.objects.lock().unwrap().all.remove("in/10");
    place.objects.lock().unwrap().all.remove("in/39");
    assert_eq!(place.put(&files).unwrap().0.objects, 2);
}
