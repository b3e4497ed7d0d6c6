//! Opens stores.

use super::message::StoreConfig;
use crate::model::StoreKind;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::azure::{MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};
use object_store::http::{HttpBuilder, HttpStore};
use object_store::list::{PaginatedListOptions, PaginatedListResult, PaginatedListStore};
use object_store::{BackoffConfig, ClientOptions, Error, ObjectStore, RetryConfig};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use std::time::Duration;

/// A store that is open.
#[derive(Debug)]
pub(super) enum Store {
    S3(AmazonS3),
    Azure(MicrosoftAzure),
    Gcs(GoogleCloudStorage),
    Http(HttpStore),
}

/// The longest that a server may take to take a call.
const CONNECT: Duration = Duration::from_secs(10);
/// The longest that it may say nothing.
const SILENCE: Duration = Duration::from_secs(30);

impl Store {
    /// Fails if what leads into the store cannot be right; asks nobody.
    pub(super) fn open(config: &StoreConfig) -> Result<Self, Error> {
        // Where identities come from is another matter.
        let endpoint = config.options.iter().filter(|(name, _)| {
            name.contains("endpoint") && !["identity", "msi"].iter().any(|it| name.contains(it))
        });
        let is_plain = endpoint.into_iter().any(|(_, url)| url.starts_with("http://"))
            || config.container.starts_with("http://");
        let client = client(is_plain);
        let container = config.container.as_str();
        Ok(match config.kind {
            StoreKind::S3 => {
                let mut builder =
                    AmazonS3Builder::new().with_client_options(client).with_retry(retry());
                for (name, value) in &config.options {
                    let name = if name == "token_file" { "web_identity_token_file" } else { name };
                    if let Ok(key) = name.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                // Last: the environment has names for buckets, too.
                Self::S3(builder.with_bucket_name(container).build()?)
            }
            StoreKind::Azure => {
                let mut builder =
                    MicrosoftAzureBuilder::new().with_client_options(client).with_retry(retry());
                for (name, value) in &config.options {
                    let name = if name == "token_file" { "federated_token_file" } else { name };
                    if let Ok(key) = name.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                Self::Azure(builder.with_container_name(container).build()?)
            }
            StoreKind::Gcs => {
                let mut builder = GoogleCloudStorageBuilder::new()
                    .with_client_options(client)
                    .with_retry(retry());
                for (name, value) in &config.options {
                    let name = if name == "endpoint" { "base_url" } else { name };
                    if let Ok(key) = name.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                Self::Gcs(builder.with_bucket_name(container).build()?)
            }
            StoreKind::Http => {
                let client = match authorization(&config.options) {
                    Some(header) => {
                        client.with_default_headers(HeaderMap::from_iter([(AUTHORIZATION, header)]))
                    }
                    None => client,
                };
                let builder = HttpBuilder::new().with_url(container).with_client_options(client);
                Self::Http(builder.with_retry(retry()).build()?)
            }
        })
    }

    /// As one of the library.
    pub(super) fn objects(&self) -> &dyn ObjectStore {
        match self {
            Self::S3(store) => store,
            Self::Azure(store) => store,
            Self::Gcs(store) => store,
            Self::Http(store) => store,
        }
    }

    /// A page of what there is; none if there are no lists.
    pub(super) async fn page(
        &self,
        prefix: &str,
        page_token: Option<String>,
    ) -> Option<Result<PaginatedListResult, Error>> {
        let store: &dyn PaginatedListStore = match self {
            Self::S3(store) => store,
            Self::Azure(store) => store,
            Self::Gcs(store) => store,
            Self::Http(_) => return None,
        };
        let prefix = Some(prefix).filter(|prefix| !prefix.is_empty());
        let options = PaginatedListOptions { page_token, ..Default::default() };
        Some(store.list_paginated(prefix, options).await)
    }
}

fn client(is_plain: bool) -> ClientOptions {
    ClientOptions::new()
        .with_allow_http(is_plain)
        .with_connect_timeout(CONNECT)
        // An object may be long, a pause may not.
        .with_timeout_disabled()
        .with_read_timeout(SILENCE)
}

/// About half a minute in all.
fn retry() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(8),
            base: 2.0,
        },
        max_retries: 8,
        retry_timeout: Duration::from_secs(60),
    }
}

/// What leads into a web server's folder.
fn authorization(options: &[(String, String)]) -> Option<HeaderValue> {
    let option = |wanted: &str| options.iter().find(|(name, _)| name == wanted).map(|(_, it)| it);
    let text = match (option("bearer_token"), option("username"), option("password")) {
        (Some(token), ..) => format!("Bearer {token}"),
        (None, Some(user), Some(password)) => {
            format!("Basic {}", base64(&format!("{user}:{password}")))
        }
        _ => return None,
    };
    let mut header = HeaderValue::from_str(&text).ok()?;
    header.set_sensitive(true);
    Some(header)
}

fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let number =
            chunk.iter().chain([&0, &0]).take(3).fold(0, |n, &byte| n << 8 | usize::from(byte));
        for at in 0..4 {
            let letter = LETTERS[number >> (18 - 6 * at) & 63] as char;
            out.push(if at > chunk.len() { '=' } else { letter });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_written_as_the_web_wants_it() {
        for (text, written) in [
            ("", ""),
            ("a", "YQ=="),
            ("ab", "YWI="),
            ("abc", "YWJj"),
            ("Aladdin:open sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        ] {
            assert_eq!(base64(text), written);
        }
    }
}
