//! Turns an address into the settings that open its store.

use super::error::{LONGEST_NAME, StoreError};
use crate::model::{Address, StoreKind, StorePlace};
use crate::protocol::store::StoreConfig;
use crate::spec::Datastores;
use std::ffi::OsString;

/// Returns the settings that open an address's store, and the prefix that the datastore adds to
/// keys (empty if the address names no datastore). The error is shown to users.
pub(super) fn configure(
    address: &Address,
    datastores: &Datastores,
    tenant: &str,
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Result<(StoreConfig, String), StoreError> {
    let (kind, container, account_option) = match &address.place {
        StorePlace::Datastore(name) => {
            let store = datastores.get(name, tenant).map_err(StoreError::Datastore)?;
            check_names(store.kind, &store.container, &store.options)?;
            let mut options = store.options.clone();
            let prefixes =
                options.iter().find_map(|(name, _)| identity_variables(store.kind, name));
            options.extend(from_environment(prefixes.unwrap_or_default(), environment));
            let config = StoreConfig {
                kind: store.kind,
                container: store.container.clone(),
                options,
                credentials: format!("the credentials of datastore {name}"),
            };
            return Ok((config, store.prefix.clone()));
        }
        StorePlace::S3(bucket) => (StoreKind::S3, bucket, None),
        StorePlace::Azure(container, account) => {
            let account = account.clone().map(|account| ("account_name".to_owned(), account));
            (StoreKind::Azure, container, account)
        }
        StorePlace::Gcs(bucket) => (StoreKind::Gcs, bucket, None),
        StorePlace::Http(server) => (StoreKind::Http, server, None),
    };
    let mut options = from_environment(variables(kind), environment);
    options.extend(account_option);
    check_names(kind, container, &options)?;
    let has = |name: &str| options.iter().any(|(key, _)| key.ends_with(name));
    if kind == StoreKind::Azure && !has("account_name") {
        return Err(StoreError::NoAccount {
            address: address.to_string(),
            container: container.clone(),
        });
    }
    let credentials = match (kind, options.is_empty()) {
        (StoreKind::Http, _) => "no credentials, as web addresses are open to all".to_owned(),
        (_, true) => format!(
            "the identity of this machine, as its environment has no variables that begin with {}",
            variables(kind)[0]
        ),
        (_, false) => format!("the environment's variables that begin with {}", variables(kind)[0]),
    };
    Ok((StoreConfig { kind, container: container.clone(), options, credentials }, String::new()))
}

/// Fails if a name has characters that no valid name has: names become parts of host names and URLs.
fn check_names(
    kind: StoreKind,
    container: &str,
    options: &[(String, String)],
) -> Result<(), StoreError> {
    if kind == StoreKind::Http {
        return Ok(());
    }
    let is_plain = |name: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '$');
        !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(plain)
    };
    let what = if kind == StoreKind::Azure { "container" } else { "bucket" };
    let account = options.iter().filter(|(name, _)| name.ends_with("account_name"));
    let mut names = account.map(|(_, name)| ("account", name.as_str())).chain([(what, container)]);
    match names.find(|(_, name)| !is_plain(name)) {
        Some((what, name)) => Err(StoreError::Name { what, name: name.to_owned() }),
        None => Ok(()),
    }
}

/// The prefixes of the environment variables that configure access to a kind of store.
fn variables(kind: StoreKind) -> &'static [&'static str] {
    match kind {
        StoreKind::S3 => &["AWS_"],
        StoreKind::Azure => &["AZURE_", "IDENTITY_ENDPOINT"],
        StoreKind::Gcs => &["GOOGLE_"],
        StoreKind::Http => &[],
    }
}

/// The prefixes of the environment variables that name another source of credentials than the
/// usual metadata server, for a pod, a task or an application. They apply to a datastore with this
/// `option`, which says how to get credentials. Google's variables are not here, because the
/// library `object_store` reads them itself.
fn identity_variables(kind: StoreKind, option: &str) -> Option<&'static [&'static str]> {
    const STS_ENDPOINT: &str = "AWS_ENDPOINT_URL_STS";
    match (kind, option) {
        (StoreKind::S3, "managed_identity") => Some(&[
            "AWS_CONTAINER_",
            "AWS_METADATA_ENDPOINT",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_ROLE_",
            STS_ENDPOINT,
        ]),
        (StoreKind::S3, "role_arn") => Some(&[STS_ENDPOINT]),
        (StoreKind::Azure, "managed_identity") => Some(&["IDENTITY_ENDPOINT"]),
        _ => None,
    }
}

/// Whether an option is the address of a store. The address of a metadata server does not count.
pub(super) fn is_endpoint(option: &str) -> bool {
    let is_other = ["identity", "msi", "metadata", "sts"].iter().any(|word| option.contains(word));
    option.ends_with("base_url") || (option.contains("endpoint") && !is_other)
}

/// The environment variables with these prefixes, as options of the library `object_store`: with
/// lower-case names.
fn from_environment(
    prefixes: &[&str],
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(String, String)> {
    let mut options: Vec<_> = environment
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, value)| {
            !value.is_empty() && prefixes.iter().any(|prefix| name.starts_with(prefix))
        })
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect();
    options.sort();
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(address: &str, environment: &[(&str, &str)]) -> Result<StoreConfig, StoreError> {
        let address = address.parse::<Address>().unwrap();
        let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        configure(&address, &Datastores::default(), "default", environment)
            .map(|(config, _)| config)
    }

    #[test]
    fn invalid_bucket_names_are_refused() {
        let refused = |address: &str| configured(address, &[]).unwrap_err();
        insta::assert_snapshot!(refused("s3://a b/x"), @r#"found the bucket "a b"; its name may have 1 to 255 characters: English letters, digits, - _ . and $"#);
        for address in ["gs://bäh/x", "az://c?/x", &format!("s3://{}/x", "x".repeat(256))] {
            let error = refused(address).to_string();
            assert!(error.contains("its name may have 1 to 255 characters"), "{error}");
        }
    }

    #[test]
    fn environment_credentials_apply_only_to_their_kind_of_store() {
        let variables = [("AWS_ACCESS_KEY_ID", "ak"), ("AZURE_CLIENT_ID", "c"), ("HOME", "/")];
        let s3 = configured("s3://b/x", &variables).unwrap();
        assert_eq!(s3.options, [("aws_access_key_id".to_owned(), "ak".to_owned())]);
        assert!(!format!("{s3:?}").contains("\"ak\""), "{s3:?}");
        let web = configured("https://example.org/x", &variables).unwrap();
        assert_eq!(web.options, []);
        let named = configured("https://acc.blob.core.windows.net/c/x", &variables).unwrap();
        assert_eq!(named.options.len(), 2);
        insta::assert_snapshot!(configured("az://c/x", &variables).unwrap_err(), @"az://c/x names no storage account: write https://ACCOUNT.blob.core.windows.net/c/..., or set AZURE_STORAGE_ACCOUNT_NAME");
    }
}
