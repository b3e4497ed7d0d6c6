//! The file of datastores: named stores with their credentials. It is separate from job files, and only its
//! owner may read it.

use super::error::{ErrorReport, FileError, NoDatastore, SettingOrigin, SpecErrors};
use super::raw::choice;
use super::reading::read;
use super::scope::{Located, UnreadNames};
use super::tree::{self, YamlValue};
use crate::model::{ByteSize, StoreKind};
use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The default for the maximum size of the cache.
const DEFAULT_CACHE_SIZE: ByteSize = ByteSize(10 << 30);

/// The contents of a file of datastores. The default has no stores.
#[derive(Clone, Debug, Default)]
pub struct Datastores {
    file: Option<PathBuf>,
    stores: Vec<Datastore>,
    cache_folder: Option<PathBuf>,
    cache_size: Option<ByteSize>,
}

/// A store that jobs refer to by name.
#[derive(Clone, PartialEq, Eq)]
pub struct Datastore {
    /// Its name.
    pub name: String,
    /// Its protocol.
    pub kind: StoreKind,
    /// The bucket, the container, or the address of a web server's folder.
    pub container: String,
    /// The prefix of every path: empty, or with a `/` at its end.
    pub prefix: String,
    /// The credentials and other options, under the names of the store library. Secret.
    pub options: Vec<(String, String)>,
    tenants: Option<Vec<String>>,
}

/// Prints the names of the credentials, never their values.
impl fmt::Debug for Datastore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options: Vec<_> = self.options.iter().map(|(name, _)| name).collect();
        let Self { name, kind, container, prefix, .. } = self;
        write!(f, "Datastore({name}, {kind:?}, {container}, {prefix}, {options:?})")
    }
}

impl Datastores {
    /// Reads a file of datastores.
    ///
    /// # Errors
    /// All errors in the file. It is also an error if other users may read or write the file.
    pub fn load(path: &Path) -> Result<Self, SpecErrors> {
        let report = ErrorReport::default();
        let content =
            match fs::metadata(path).map_err(FileError::NoRights).and_then(|m| check_private(&m)) {
                Ok(()) => read(path, "file of datastores"),
                Err(error) => Err(error),
            };
        let datastores = match content {
            Ok(text) => parse(path, &text, &report),
            Err(error) => {
                report.error(&SettingOrigin::File, "", error.to_string());
                None
            }
        };
        match datastores {
            Some(datastores) if report.is_clean() => Ok(datastores),
            _ => Err(report.into_errors(&path.display().to_string())),
        }
    }

    /// Returns the store of this name, for a tenant's job. An error lists the stores that the tenant has.
    pub fn get(&self, name: &str, tenant: &str) -> Result<&Datastore, NoDatastore> {
        let Some(file) = &self.file else {
            return Err(NoDatastore::NoFile { name: name.to_owned() });
        };
        let is_allowed = |store: &&Datastore| {
            store.tenants.as_ref().is_none_or(|tenants| tenants.iter().any(|name| name == tenant))
        };
        let found = self.stores.iter().filter(is_allowed).find(|store| store.name == name);
        found.ok_or_else(|| NoDatastore::Unknown {
            file: file.clone(),
            name: name.to_owned(),
            tenant: tenant.to_owned(),
            there: self.stores.iter().filter(is_allowed).map(|it| it.name.clone()).collect(),
        })
    }

    /// The folder that caches objects while jobs work on them. `None` if the file does not give it.
    pub fn cache_folder(&self) -> Option<&Path> {
        self.cache_folder.as_deref()
    }

    /// The maximum size of the cache.
    pub fn cache_size(&self) -> ByteSize {
        self.cache_size.unwrap_or(DEFAULT_CACHE_SIZE)
    }
}

/// Refuses a file that other users can access.
fn check_private(metadata: &Metadata) -> Result<(), FileError> {
    let user = rustix::process::geteuid().as_raw();
    if metadata.is_file() && (metadata.mode() & 0o077 != 0 || ![user, 0].contains(&metadata.uid()))
    {
        let mode = metadata.mode() & 0o777;
        let user = metadata.uid();
        return Err(FileError::NotPrivate { mode, user });
    }
    Ok(())
}

fn parse(path: &Path, text: &str, report: &ErrorReport) -> Option<Datastores> {
    let root = tree::parse(text, report)?;
    let YamlValue::Map(entries) = root.value else {
        let message = "expected a map with datastores (e.g. datastores: {nightly: {type: s3, \
                       bucket: scans}})";
        report.error(&root.origin, "", message);
        return None;
    };
    let mut scope = UnreadNames::of_datastores(entries, report);
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut stores: Vec<Datastore> = Vec::new();
    for (name, scope) in scope.named("datastores").map(|setting| setting.value).unwrap_or_default()
    {
        if stores.iter().any(|store| store.name == name.value) {
            name.blame(report, "appears a second time; names must differ");
        }
        stores.extend(datastore(&name, scope, folder, report));
    }
    let mut cache_folder = None;
    let mut cache_size = None;
    if let Some(mut cache) = scope.group("cache") {
        cache_folder = cache.text("folder");
        cache_size = cache.setting("size").map(|setting| setting.value);
        cache.report_unread();
    }
    if let Some(setting) =
        cache_folder.as_ref().filter(|setting| !Path::new(&setting.value).is_absolute())
    {
        setting.blame(
            report,
            format!("found {:?}; expected an absolute path to a folder", setting.value),
        );
    }
    scope.report_unread();
    Some(Datastores {
        file: Some(path.to_owned()),
        stores,
        cache_folder: cache_folder.map(|setting| setting.value.into()),
        cache_size,
    })
}

/// The ways to authenticate to a kind of store. Each way is a list of the keys that it needs.
fn authentication_methods(kind: StoreKind) -> &'static [&'static [&'static str]] {
    match kind {
        StoreKind::S3 => &[
            &["access_key_id", "secret_access_key"],
            &["role_arn", "token_file"],
            &["managed_identity"],
            &["anonymous"],
        ],
        StoreKind::Azure => &[
            &["account_key"],
            &["sas_token"],
            &["tenant_id", "client_id", "client_secret"],
            &["tenant_id", "client_id", "token_file"],
            &["managed_identity"],
            &["bearer_token"],
            &["anonymous"],
        ],
        StoreKind::Gcs => &[&["service_account"], &["managed_identity"], &["anonymous"]],
        StoreKind::Http => &[&["username", "password"], &["bearer_token"], &["anonymous"]],
    }
}

/// Keys that are allowed with every way to authenticate.
fn common_keys(kind: StoreKind) -> &'static [&'static str] {
    match kind {
        StoreKind::S3 => &["bucket", "endpoint", "region", "session_token"],
        StoreKind::Azure => &["container", "account", "endpoint", "authority_host", "client_id"],
        StoreKind::Gcs => &["bucket", "endpoint"],
        StoreKind::Http => &["url"],
    }
}

/// Keys whose values are texts or flags, and the store library's names for them. The library's name is empty
/// if the library has no such option.
const TEXT_KEYS: [(&str, &str); 23] = [
    ("bucket", ""),
    ("container", ""),
    ("url", ""),
    ("account", "account_name"),
    ("endpoint", "endpoint"),
    ("region", "region"),
    ("access_key_id", "access_key_id"),
    ("secret_access_key", "secret_access_key"),
    ("session_token", "session_token"),
    ("role_arn", "role_arn"),
    ("account_key", "account_key"),
    ("sas_token", "sas_token"),
    ("tenant_id", "tenant_id"),
    ("client_id", "client_id"),
    ("client_secret", "client_secret"),
    ("authority_host", "authority_host"),
    ("token_file", "token_file"),
    ("service_account", "service_account"),
    ("username", "username"),
    ("password", "password"),
    ("bearer_token", "bearer_token"),
    ("managed_identity", "managed_identity"),
    ("anonymous", "skip_signature"),
];

fn datastore(
    name: &Located<String>,
    mut scope: UnreadNames<'_>,
    folder: &Path,
    report: &ErrorReport,
) -> Option<Datastore> {
    let origin = scope.origin.clone();
    let path = scope.path.clone();
    let kind = scope
        .parsed_by("type", |_, text| choice(text, &StoreKind::ALL.map(|kind| (kind.name(), kind))));
    let prefix = scope.text("prefix").map_or_else(String::new, |setting| setting.value);
    let tenants = scope.texts("tenants");
    let given: Vec<(&str, &str, Located<String>)> = TEXT_KEYS
        .iter()
        .filter_map(|&(key, option)| {
            let value = match key {
                "managed_identity" | "anonymous" => scope
                    .bool(key)
                    .filter(|setting| setting.value)
                    .map(|setting| setting.map(|_| "true".to_owned())),
                _ => scope.text(key),
            };
            Some((key, option, value?))
        })
        .collect();
    scope.report_unread();
    let Some(kind) = kind else {
        if !report.has_error_at(&path) {
            report.error(&origin, &path, "has no type; write type: s3, azure, gcs or http");
        }
        return None;
    };
    let kind = kind.value;
    check_authentication(kind, &given, &origin, &path, report);
    let container_key = match kind {
        StoreKind::S3 | StoreKind::Gcs => "bucket",
        StoreKind::Azure => "container",
        StoreKind::Http => "url",
    };
    let value = |wanted: &str| {
        let found = given.iter().find(|(key, ..)| *key == wanted);
        found.map(|(.., setting)| setting.value.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let needed = [container_key].into_iter().chain((kind == StoreKind::Azure).then_some("account"));
    for key in needed.filter(|key| value(key).is_none()) {
        report.error(
            &origin,
            &path,
            format!("has no {key}; a store of type {} needs one", kind.name()),
        );
    }
    if let Some((.., setting)) = given.iter().find(|(key, ..)| *key == "url")
        && !is_plain_url(setting.value.trim())
    {
        let message = "is not a plain address of a web server's folder; expected https://server/folder, without \
                       a user, a query (?...) or a fragment: write credentials in their own keys";
        setting.blame(report, message);
    }
    let option = |(key, option, setting): &(&str, &str, Located<String>)| {
        let text = match *key {
            // A relative path starts at the folder of this file.
            "token_file" | "service_account" => {
                folder.join(setting.value.trim()).to_string_lossy().into_owned()
            }
            _ => setting.value.trim().to_owned(),
        };
        (!option.is_empty()).then(|| ((*option).to_owned(), text))
    };
    let prefix = prefix.trim().trim_matches('/');
    Some(Datastore {
        name: name.value.clone(),
        kind,
        container: value(container_key).unwrap_or_default(),
        prefix: if prefix.is_empty() { String::new() } else { format!("{prefix}/") },
        options: given.iter().filter_map(option).collect(),
        tenants: tenants.map(|setting| setting.value.into_iter().map(|name| name.value).collect()),
    })
}

/// Whether an address can be shown in messages, because it contains no secrets.
fn is_plain_url(url: &str) -> bool {
    let rest = ["https://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    rest.is_some_and(|rest| {
        let host = rest.split('/').next().unwrap_or_default();
        !host.is_empty() && !host.contains('@') && !rest.contains(['?', '#'])
    })
}

/// Checks that a store has exactly one way to authenticate, so that it is always clear which way is used.
fn check_authentication(
    kind: StoreKind,
    given: &[(&str, &str, Located<String>)],
    origin: &SettingOrigin,
    path: &str,
    report: &ErrorReport,
) {
    let methods = authentication_methods(kind);
    let is_credential = |key: &str| methods.iter().any(|method| method.contains(&key));
    let is_known = |key: &str| common_keys(kind).contains(&key) || is_credential(key);
    let mut keys: Vec<&str> = Vec::new();
    for (key, _, setting) in given {
        if !is_known(key) {
            setting.blame(report, format!("is not for a store of type {}; remove it", kind.name()));
        } else if is_credential(key) {
            keys.push(key);
        }
    }
    // `client_id` may select one of several managed identities.
    if keys.contains(&"managed_identity") {
        keys.retain(|key| *key != "client_id");
    }
    let is_given = |method: &&[&str]| {
        method.len() == keys.len() && keys.iter().all(|key| method.contains(key))
    };
    if !report.has_error_at(path) && !methods.iter().any(is_given) {
        let methods: Vec<_> = methods.iter().map(|method| method.join(" with ")).collect();
        let found = if keys.is_empty() { "none".to_owned() } else { keys.join(", ") };
        let message = format!(
            "needs exactly one way to authenticate, found {found}; write one of: {}",
            methods.join("; ")
        );
        report.error(origin, path, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use std::os::unix::fs::PermissionsExt;

    fn load(text: &str, mode: u32) -> Result<Datastores, SpecErrors> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("stores.yaml");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let shown = "/d/stores.yaml".to_owned();
        Datastores::load(&file).map_err(|errors| SpecErrors { file: shown, ..errors })
    }

    const GOOD: &str = "
cache: {folder: /var/cache/x, size: 1 GB}
datastores:
  scans: {type: s3, bucket: b, prefix: /a/b/, access_key_id: AK, secret_access_key: hushhush}
  blobs:
    type: azure
    account: acc
    container: c
    tenant_id: t
    client_id: i
    client_secret: hushhush
    tenants: [radiology]
  web: {type: http, url: https://example.org/data, anonymous: true}
";

    #[test]
    fn stores_are_read() {
        let stores = load(GOOD, 0o600).unwrap();
        assert_eq!(stores.cache_size(), ByteSize(1 << 30));
        assert_eq!(stores.cache_folder(), Some(Path::new("/var/cache/x")));
        let scans = stores.get("scans", "default").unwrap();
        assert_eq!((scans.container.as_str(), scans.prefix.as_str()), ("b", "a/b/"));
        let key = ("secret_access_key".to_owned(), "hushhush".to_owned());
        assert!(scans.options.contains(&key));
        assert!(!format!("{stores:?}").contains("hushhush"), "{stores:?}");
        assert_eq!(stores.get("blobs", "radiology").unwrap().kind, StoreKind::Azure);
        let error = stores.get("blobs", "default").unwrap_err().to_string();
        assert!(error.ends_with("for tenant default; it has: scans, web"), "{error}");
        let none = Datastores::default().get("x", "default").unwrap_err();
        assert_snapshot!(none, @r#"there is no datastore "x", because no file of datastores is given; give one by --datastores FILE or SANDMILL_DATASTORES"#);
    }

    #[test]
    fn a_file_readable_by_others_is_refused() {
        let error = load(GOOD, 0o640).unwrap_err().to_string();
        assert!(error.starts_with("/d/stores.yaml: holds credentials of stores"), "{error}");
        assert!(error.contains("(mode 640, user "), "{error}");
    }

    #[test]
    fn errors_contain_no_secrets() {
        let error = load(
            "
datastores:
  a: {type: s3, bucket: b, access_key_id: AK}
  b: {type: s3, bucket: b, account_key: hushhush}
  c: {type: azure, container: c, account: d, sas_token: hushhush, account_key: hushhush}
  d: {bucket: x}
  e: {type: http, anonymous: true, pasword: hushhush}
  f: {type: http, url: 'https://me:hushhush@example.org/x', anonymous: true}
  g: {type: http, url: 'https://example.org/x?sig=hushhush', anonymous: true}
",
            0o600,
        );
        assert_snapshot!(error.unwrap_err(), @"
        /d/stores.yaml:3: datastores.a: needs exactly one way to authenticate, found access_key_id; write one of: access_key_id with secret_access_key; role_arn with token_file; managed_identity; anonymous
        /d/stores.yaml:4: datastores.b.account_key: is not for a store of type s3; remove it
        /d/stores.yaml:5: datastores.c: needs exactly one way to authenticate, found account_key, sas_token; write one of: account_key; sas_token; tenant_id with client_id with client_secret; tenant_id with client_id with token_file; managed_identity; bearer_token; anonymous
        /d/stores.yaml:6: datastores.d: has no type; write type: s3, azure, gcs or http
        /d/stores.yaml:7: datastores.e.pasword: unknown key; did you mean password?
        /d/stores.yaml:7: datastores.e: has no url; a store of type http needs one
        /d/stores.yaml:8: datastores.f.url: is not a plain address of a web server's folder; expected https://server/folder, without a user, a query (?...) or a fragment: write credentials in their own keys
        /d/stores.yaml:9: datastores.g.url: is not a plain address of a web server's folder; expected https://server/folder, without a user, a query (?...) or a fragment: write credentials in their own keys
        ");
    }
}
