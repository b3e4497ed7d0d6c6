//! Opens stores.

use super::config::is_endpoint;
use crate::model::StoreKind;
use crate::protocol::store::StoreConfig;
use base64::prelude::{BASE64_STANDARD, Engine};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::azure::{MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::client::{HttpClient, HttpConnector};
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};
use object_store::http::{HttpBuilder, HttpStore};
use object_store::list::{PaginatedListOptions, PaginatedListResult, PaginatedListStore};
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, Error, ObjectStore, RetryConfig,
};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::redirect::{Action, Attempt, Policy};
use std::time::Duration;

#[derive(Debug)]
pub(super) enum OpenStore {
    S3(AmazonS3),
    Azure(MicrosoftAzure),
    Gcs(GoogleCloudStorage),
    Http(HttpStore),
}

/// The longest time that a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest pause of a server while it sends an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_REDIRECTS: usize = 5;

impl OpenStore {
    /// Fails if the settings or credentials are invalid. Sends no request.
    pub(super) fn open(config: &StoreConfig) -> Result<Self, Error> {
        let endpoint = config.options.iter().filter(|(name, _)| is_endpoint(name));
        let is_plain_http = endpoint.into_iter().any(|(_, url)| url.starts_with("http://"))
            || config.container.starts_with("http://");
        let client = client_options(is_plain_http);
        let connector = DirectConnector { headers: HeaderMap::new() };
        let container = config.container.as_str();
        Ok(match config.kind {
            StoreKind::S3 => {
                let mut builder =
                    AmazonS3Builder::new().with_client_options(client).with_retry(retry_config());
                builder = builder.with_http_connector(connector);
                for (name, value) in &config.options {
                    let name = if name == "token_file" { "web_identity_token_file" } else { name };
                    if let Ok(key) = name.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                // This comes last, because environment variables may also name a bucket.
                Self::S3(builder.with_bucket_name(container).build()?)
            }
            StoreKind::Azure => {
                let mut builder = MicrosoftAzureBuilder::new()
                    .with_client_options(client)
                    .with_retry(retry_config());
                builder = builder.with_http_connector(connector);
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
                    .with_retry(retry_config())
                    .with_http_connector(connector);
                for (name, value) in &config.options {
                    let name = if name == "endpoint" { "base_url" } else { name };
                    if let Ok(key) = name.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                Self::Gcs(builder.with_bucket_name(container).build()?)
            }
            StoreKind::Http => {
                let header = authorization(&config.options).map(|header| (AUTHORIZATION, header));
                let connector = DirectConnector { headers: HeaderMap::from_iter(header) };
                let builder = HttpBuilder::new().with_url(container).with_client_options(client);
                let builder = builder.with_http_connector(connector).with_retry(retry_config());
                Self::Http(builder.build()?)
            }
        })
    }

    /// The store as the library's trait.
    pub(super) fn objects(&self) -> &dyn ObjectStore {
        match self {
            Self::S3(store) => store,
            Self::Azure(store) => store,
            Self::Gcs(store) => store,
            Self::Http(store) => store,
        }
    }

    /// Lists a page of objects. `None` if the store has no lists.
    pub(super) async fn page(
        &self,
        prefix: &str,
        range: &PageRange,
    ) -> Option<Result<PaginatedListResult, Error>> {
        let store: &dyn PaginatedListStore = match self {
            Self::S3(store) => store,
            Self::Azure(store) => store,
            Self::Gcs(store) => store,
            Self::Http(_) => return None,
        };
        let prefix = Some(prefix).filter(|prefix| !prefix.is_empty());
        let options = PaginatedListOptions {
            page_token: range.token.clone(),
            offset: range.after.clone(),
            max_keys: range.max_keys,
            ..Default::default()
        };
        Some(store.list_paginated(prefix, options).await)
    }
}

/// The start of a page, and its length.
#[derive(Clone, Debug, Default)]
pub(super) struct PageRange {
    /// The store's token for the end of the previous page.
    pub(super) token: Option<String>,
    /// The key after which the page begins.
    pub(super) after: Option<String>,
    /// The maximum number of objects of the page.
    pub(super) max_keys: Option<usize>,
}

/// Makes HTTP clients that do not follow redirects to other servers: a redirect could lead to a server that
/// only this machine can reach.
#[derive(Debug)]
struct DirectConnector {
    headers: HeaderMap,
}

impl HttpConnector for DirectConnector {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient, Error> {
        let allowed = options.get_config_value(&ClientConfigKey::AllowHttp);
        let client = reqwest::Client::builder()
            .user_agent(concat!("sandmill/", env!("CARGO_PKG_VERSION")))
            .default_headers(self.headers.clone())
            .https_only(allowed.is_none_or(|allowed| allowed != "true"))
            .connect_timeout(CONNECT_TIMEOUT)
            // There is no limit on the whole time, which may be long for an object.
            .read_timeout(READ_TIMEOUT)
            .redirect(Policy::custom(follow_redirect))
            .build();
        let client = client
            .map_err(|source| Error::Generic { store: "the network", source: Box::new(source) })?;
        Ok(HttpClient::new(client))
    }
}

/// Follows a redirect if it leads to the same server, or from `http` to `https`. Otherwise, the request
/// fails.
fn follow_redirect(attempt: Attempt<'_>) -> Action {
    let to = attempt.url();
    let from = attempt.previous().last();
    let is_allowed = from.is_some_and(|from| {
        let is_same = to.port_or_known_default() == from.port_or_known_default();
        let is_safer = (from.scheme(), to.scheme()) == ("http", "https");
        to.host_str() == from.host_str() && (is_same && to.scheme() == from.scheme() || is_safer)
    });
    let host = to.host_str().unwrap_or_default().to_owned();
    if !is_allowed {
        return attempt.error(format!(
            "it redirects to another server, {host}, which Sandmill does not follow: use the object's \
             address on that server"
        ));
    }
    if attempt.previous().len() > MAX_REDIRECTS {
        return attempt.error("it redirects too often");
    }
    attempt.follow()
}

fn client_options(is_plain_http: bool) -> ClientOptions {
    ClientOptions::new().with_allow_http(is_plain_http)
}

/// The settings for retries. All retries of a request together take about half a minute.
fn retry_config() -> RetryConfig {
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

/// The header with the credentials of a web server.
fn authorization(options: &[(String, String)]) -> Option<HeaderValue> {
    let option =
        |wanted: &str| options.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    let text = match (option("bearer_token"), option("username"), option("password")) {
        (Some(token), ..) => format!("Bearer {token}"),
        (None, Some(user), Some(password)) => {
            format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
        }
        _ => return None,
    };
    let mut header = HeaderValue::from_str(&text).ok()?;
    header.set_sensitive(true);
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorization_headers_are_encoded_as_http_requires() {
        let header_text = |options: &[(&str, &str)]| {
            let options: Vec<_> =
                options.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            let header = authorization(&options)?;
            assert!(header.is_sensitive(), "logs leave it out");
            Some(header.to_str().unwrap().to_owned())
        };
        // The examples of RFC 7617 (the second has a character beyond ASCII), and a third text. No text's
        // length is a multiple of three bytes.
        for (user, password, expected) in [
            ("Aladdin", "open sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            ("test", "123\u{a3}", "Basic dGVzdDoxMjPCow=="),
            ("a", "?>~", "Basic YTo/Pn4="),
        ] {
            let options = [("username", user), ("password", password)];
            assert_eq!(header_text(&options).as_deref(), Some(expected));
        }
        assert_eq!(header_text(&[("bearer_token", "t0k")]).as_deref(), Some("Bearer t0k"));
        assert_eq!(header_text(&[("username", "a")]), None);
    }
}
