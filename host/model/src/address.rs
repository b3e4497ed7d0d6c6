//! Addresses of objects in stores, as a job file writes them, for example `s3://bucket/path`.

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The protocol of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreKind {
    /// Amazon's S3, and compatible stores.
    S3,
    /// Azure's Blob Storage.
    Azure,
    /// Google's Cloud Storage.
    Gcs,
    /// A web server: single objects, no listing.
    Http,
}

impl StoreKind {
    /// All kinds, in the order of the docs.
    pub const ALL: [Self; 4] = [Self::S3, Self::Azure, Self::Gcs, Self::Http];

    /// The name in the datastores file.
    pub fn name(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Azure => "azure",
            Self::Gcs => "gcs",
            Self::Http => "http",
        }
    }
}

/// A store, without its credentials.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StorePlace {
    /// A named store of the datastores file.
    Datastore(String),
    /// A bucket of S3.
    S3(String),
    /// A container of Azure, with the account if the address names it.
    Azure(String, Option<String>),
    /// A bucket of Google Cloud Storage.
    Gcs(String),
    /// A web server, such as `https://host:port`.
    Http(String),
}

/// The address of one object, of a folder of objects, or of the objects that a glob matches. Contains no
/// secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The store.
    pub place: StorePlace,
    /// The path in the store, without a `/` in front. It ends with a `/` if it is certainly a folder. It is
    /// empty for the whole store.
    pub key: String,
}

/// Error: the text is not an address. The message says what is wrong and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseAddressError(String);

/// The allowed forms of an address, for the end of an error message.
const EXPECTED: &str = "s3://bucket/path, az://container/path, gs://bucket/path, \
                        https://server/path or datastore://NAME/path";
/// The domain of Azure's blob storage.
const BLOB_DOMAIN: &str = ".blob.core.windows.net";
/// The domain of Azure's Data Lake Storage, which serves the same objects.
const DFS_DOMAIN: &str = ".dfs.core.windows.net";

impl Address {
    /// Whether a path in a job file is meant as an address.
    pub fn looks_like_one(path: &str) -> bool {
        path.contains("://")
    }

    /// Splits the key after the last `/` before the first wildcard. Returns the folder, which ends with a `/`
    /// or is empty, and the rest.
    pub fn split(&self) -> (&str, &str) {
        let wildcard = self.key.find(['*', '?', '[', '{']).unwrap_or(self.key.len());
        let end = self.key[..wildcard].rfind('/').map_or(0, |slash| slash + 1);
        self.key.split_at(end)
    }

    /// Whether the key is a glob, which may match several objects.
    pub fn is_glob(&self) -> bool {
        self.key.contains(['*', '?', '[', '{'])
    }
}

impl FromStr for Address {
    type Err = ParseAddressError;

    /// Reads an address. Refuses parts of it that might be secrets, and does not repeat them in the error.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |message: String| Err(ParseAddressError(message));
        // A control character could steer the terminal of a user who prints the address.
        if text.trim().contains(char::is_control) {
            return wrong(
                "found an address with a control character; name the folder of the object, or use a glob"
                    .to_owned(),
            );
        }
        let Some((scheme, rest)) = text.trim().split_once("://") else {
            return wrong(format!("found no address; expected {EXPECTED}"));
        };
        let (host, key) = rest.split_once('/').unwrap_or((rest, ""));
        if key.split(['/', '\\']).any(leads_up) {
            return wrong(
                "found an address with a part that servers may read as `..`, which leads out of its \
                 folder; name the folder itself"
                    .to_owned(),
            );
        }
        let scheme = scheme.to_ascii_lowercase();
        if let "http" | "https" = scheme.as_str() {
            return parse_web_address(&scheme, host, key);
        }
        let host_named = |what: &str| match host.is_empty() || host.contains('@') {
            true => Err(ParseAddressError(format!(
                "found an address of {scheme} without {what}; expected {EXPECTED}"
            ))),
            false => Ok(host.to_owned()),
        };
        let place = match scheme.as_str() {
            "s3" | "s3a" => StorePlace::S3(host_named("a bucket")?),
            "gs" => StorePlace::Gcs(host_named("a bucket")?),
            "az" | "azure" => StorePlace::Azure(host_named("a container")?, None),
            "abfs" | "abfss" => match host.split_once('@') {
                Some((container, server)) if !container.is_empty() => {
                    let account =
                        server.strip_suffix(DFS_DOMAIN).or(server.strip_suffix(BLOB_DOMAIN));
                    let Some(account) = account.filter(|account| !account.is_empty()) else {
                        return wrong(format!(
                            "found an address of {scheme} whose server is not ACCOUNT{DFS_DOMAIN}"
                        ));
                    };
                    StorePlace::Azure(container.to_owned(), Some(account.to_owned()))
                }
                _ => StorePlace::Azure(host_named("a container")?, None),
            },
            "datastore" => StorePlace::Datastore(host_named("a name")?),
            _ => return wrong(format!("found an address of {scheme:?}; expected {EXPECTED}")),
        };
        Ok(Self { place, key: key.trim_start_matches('/').to_owned() })
    }
}

/// Whether a server may read a part of a path as `..`. The part may have parameters (`..;`), and
/// may be percent-encoded once or twice.
fn leads_up(part: &str) -> bool {
    let mut part = part.to_owned();
    for _ in 0..3 {
        let name = part.split(';').next().unwrap_or_default();
        if name.split(['/', '\\']).any(|name| name.trim() == "..") {
            return true;
        }
        part = percent_decode_str(&part).decode_utf8_lossy().into_owned();
    }
    false
}

/// Reads an address that begins with `http`. It may be an address of Azure's storage.
fn parse_web_address(scheme: &str, host: &str, key: &str) -> Result<Address, ParseAddressError> {
    let wrong = |message: String| Err(ParseAddressError(message));
    if host.contains('@') || key.contains(['?', '#']) || host.contains(['?', '#']) {
        return wrong(
            "found an address with a user, a query (?...) or a fragment, which may be a secret; job files \
             are kept and shown, so define a datastore with the secret in the datastores file, and \
             write datastore: NAME here"
                .to_owned(),
        );
    }
    if host.is_empty() {
        return wrong(format!("found an address without a server; expected {EXPECTED}"));
    }
    if let Some(account) = host.strip_suffix(BLOB_DOMAIN) {
        let (container, key) = key.split_once('/').unwrap_or((key, ""));
        if container.is_empty() {
            return wrong(format!("found {scheme}://{host} without a container after it"));
        }
        let place = StorePlace::Azure(container.to_owned(), Some(account.to_owned()));
        return Ok(Address { place, key: key.to_owned() });
    }
    let address =
        Address { place: StorePlace::Http(format!("{scheme}://{host}")), key: key.into() };
    if key.is_empty() || key.ends_with('/') || address.is_glob() {
        return wrong(format!(
            "found {address}; a web server does not list its folders: name each object, as in paths: \
             [{scheme}://{host}/a.csv, ...]"
        ));
    }
    Ok(address)
}

impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Datastore(name) => write!(f, "datastore://{name}"),
            Self::S3(bucket) => write!(f, "s3://{bucket}"),
            Self::Azure(container, None) => write!(f, "az://{container}"),
            Self::Azure(container, Some(account)) => {
                write!(f, "https://{account}{BLOB_DOMAIN}/{container}")
            }
            Self::Gcs(bucket) => write!(f, "gs://{bucket}"),
            Self::Http(server) => f.write_str(server),
        }
    }
}

/// Prints the address as a job file writes it.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.place, self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_are_read_and_printed() {
        for (text, printed) in [
            ("s3://b/a/*.csv", "s3://b/a/*.csv"),
            ("S3A://b", "s3://b/"),
            ("gs://b//x", "gs://b/x"),
            ("az://c/a/", "az://c/a/"),
            ("abfss://c@acc.dfs.core.windows.net/a", "https://acc.blob.core.windows.net/c/a"),
            ("https://acc.blob.core.windows.net/c", "https://acc.blob.core.windows.net/c/"),
            ("http://localhost:80/a/b.csv", "http://localhost:80/a/b.csv"),
            ("datastore://nightly/a/b", "datastore://nightly/a/b"),
        ] {
            assert_eq!(parse(text).to_string(), printed);
            assert_eq!(parse(printed), parse(text), "the printed form is read back");
        }
    }

    #[test]
    fn the_folder_ends_before_the_first_wildcard() {
        let split = |text: &str| {
            let address = parse(text);
            let (folder, rest) = address.split();
            (folder.to_owned(), rest.to_owned())
        };
        let pair = |folder: &str, rest: &str| (folder.to_owned(), rest.to_owned());
        assert_eq!(split("s3://b/a/b/"), pair("a/b/", ""));
        assert_eq!(split("s3://b/a/b"), pair("a/", "b"));
        assert_eq!(split("s3://b"), pair("", ""));
        assert_eq!(split("s3://b/a/x-*/b/*.csv"), pair("a/", "x-*/b/*.csv"));
    }

    #[test]
    fn parts_that_lead_up_are_refused() {
        for key in [
            "..",
            "a/../b",
            "..;/x",
            "a/..;v=1/x",
            "%2e%2e/x",
            "a/.%2E/x",
            "%252e%252e/x",
            "..%2fx",
            "a\\..\\b",
            "..%3b/x",
            "%2e%2e;/x",
        ] {
            for place in ["https://example.org", "datastore://web", "s3://b"] {
                let error = format!("{place}/{key}").parse::<Address>().unwrap_err().to_string();
                assert!(error.contains("may read as `..`"), "{key}: {error}");
            }
        }
        for key in ["a..b", "...", "..a/x", "a;b/c", "100%/x", "%zz", "a%20b"] {
            parse(&format!("datastore://web/{key}"));
        }
    }

    #[test]
    fn secrets_are_refused_and_not_repeated() {
        for text in [
            "s3://b/\u{1b}hushhush",
            "https://acc.blob.core.windows.net/c/a?sv=1&sig=hushhush",
            "https://me:hushhush@example.org/a",
            "https://example.org?hushhush",
            "s3://AKIA:hushhush@b/x",
            "ftp://me:hushhush@host/x",
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(!error.contains("hushhush"), "{error}");
        }
        let error = "https://example.org/folder/".parse::<Address>().unwrap_err();
        insta::assert_snapshot!(error, @"found https://example.org/folder/; a web server does not list its folders: name each object, as in paths: [https://example.org/a.csv, ...]");
        let error = "ftp://host/x".parse::<Address>().unwrap_err();
        insta::assert_snapshot!(error, @r#"found an address of "ftp"; expected s3://bucket/path, az://container/path, gs://bucket/path, https://server/path or datastore://NAME/path"#);
    }
}
