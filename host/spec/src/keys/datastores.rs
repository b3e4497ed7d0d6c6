//! The keys of the file of datastores.

use super::key::{BOOL_EXPECTED, Key, KeyKind, NAME_EXPECTED, key};
use crate::model::StoreKind;

/// The keys at the top level.
pub(crate) const DATASTORES: &[Key] = &[
    key(
        "cache",
        KeyKind::Group(CACHE),
        "a map with folder or size",
        "{size: 50 GB}",
        "Where objects are kept while jobs work on them.",
    ),
    key(
        "datastores",
        KeyKind::Named(DATASTORE),
        "a map of names to stores (e.g. nightly: {type: s3, bucket: scans})",
        "{nightly: {type: s3, bucket: scans}}",
        "Stores by name, with their credentials.",
    ),
];

/// The keys below `cache`.
const CACHE: &[Key] = &[
    key(
        "folder",
        KeyKind::Text,
        "an absolute path to a folder",
        "/var/cache/sandmill",
        "The cache's folder.",
    ),
    key(
        "size",
        KeyKind::Size { min: 1 << 20, max: u64::MAX },
        "a size of at least 1 MB (e.g. 50 GB)",
        "50 GB",
        "The maximum size of the cache. 10 GB unless given.",
    ),
];

/// The keys of one store.
const DATASTORE: &[Key] = &[
    key(
        "name",
        KeyKind::Name,
        NAME_EXPECTED,
        "nightly",
        "The store's name, if datastores is a list.",
    ),
    key(
        "type",
        KeyKind::Choice(|| StoreKind::ALL.map(StoreKind::name).to_vec()),
        "s3, azure, gcs or http",
        "s3",
        "Which protocol the store uses.",
    ),
    text("bucket", "For s3 and gcs: the bucket."),
    text("container", "For azure: the container."),
    text("account", "For azure: the storage account."),
    text("url", "For http: where the objects are."),
    text("endpoint", "For s3, azure and gcs: the address of the server, if it is not the default."),
    text("region", "For s3: the region."),
    text("prefix", "A prefix for every path."),
    key(
        "tenants",
        KeyKind::Texts,
        "a list of names",
        "[radiology]",
        "Tenants whose jobs may use the store. All unless given.",
    ),
    text("access_key_id", "For s3, with secret_access_key: a key's id."),
    text("secret_access_key", "For s3: the key."),
    text("session_token", "For s3: the session token of a temporary key."),
    text("role_arn", "For s3, with token_file: the role of a workload identity."),
    text("account_key", "For azure: the account's key."),
    text("sas_token", "For azure: a shared access signature."),
    text("tenant_id", "For azure, with client_id and client_secret: a service principal's tenant."),
    text("client_id", "For azure: a service principal or a managed identity."),
    text("client_secret", "For azure: a service principal's secret."),
    text("authority_host", "For azure: the server that issues tokens, if it is not the default."),
    text("token_file", "For azure and s3: the file with the token of a workload identity."),
    key(
        "managed_identity",
        KeyKind::Bool,
        BOOL_EXPECTED,
        "true",
        "Whether the machine's own identity is used (for s3: the machine's role).",
    ),
    text("service_account", "For gcs: the file of a service account."),
    text("username", "For http, with password: the user's name."),
    text("password", "For http, with username: the password."),
    text("bearer_token", "For http and azure: a token."),
    key(
        "anonymous",
        KeyKind::Bool,
        BOOL_EXPECTED,
        "true",
        "Whether the store is open to all and needs no credentials.",
    ),
];

const fn text(name: &'static str, description: &'static str) -> Key {
    key(name, KeyKind::Text, "a text", "text", description)
}
