//! Hints at the proxy that the environment names: an answer may come from the proxy, not from the store.

use super::config::is_endpoint;
use crate::model::StoreKind;
use crate::protocol::store::StoreConfig;

/// The variables that name proxies for `https`.
const HTTPS_VARIABLES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
/// The variables that name proxies for `http`.
const HTTP_VARIABLES: [&str; 4] = ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"];

/// A hint, to be appended to a message, that an answer may come from the proxy. Empty if no proxy is used, or
/// if the `answer` looks like a store's.
pub(super) fn hint(
    store: &StoreConfig,
    answer: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> String {
    // Stores describe errors in an XML or JSON document.
    if answer.contains("<Code>") || answer.contains("\"error\"") {
        return String::new();
    }
    let endpoint = store.options.iter().find(|(name, _)| is_endpoint(name));
    let address = endpoint.map_or(store.container.as_str(), |(_, address)| address.as_str());
    let names = if address.starts_with("http://") { HTTP_VARIABLES } else { HTTPS_VARIABLES };
    let value = |name: &&str| variable(name).filter(|value| !value.trim().is_empty());
    let Some((name, proxy)) = names.iter().find_map(|name| Some((name, value(name)?))) else {
        return String::new();
    };
    let no_proxy = value(&"NO_PROXY").or_else(|| value(&"no_proxy")).unwrap_or_default();
    if no_proxy.split(',').map(str::trim).any(|named| is_below(host(address), named)) {
        return String::new();
    }
    let setting = match store.kind {
        StoreKind::S3 => "AWS_ENDPOINT_URL, or endpoint in the file of datastores",
        _ => "endpoint in the file of datastores",
    };
    format!(
        "; that may be the answer of the proxy {} ({name}), not of the store: check the \
         store's address ({setting}), or name its host in NO_PROXY",
        host(&proxy)
    )
}

/// The host of an address, with its port, and without a password.
fn host(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let host = rest.split(['/', '?']).next().unwrap_or(rest);
    host.rsplit_once('@').map_or(host, |(_, host)| host)
}

/// Whether a host with a port is the named host or a subdomain of it.
fn is_below(host: &str, named: &str) -> bool {
    let host = host.split_once(':').map_or(host, |(host, _)| host);
    let named = named.trim_start_matches('.');
    named == "*"
        || !named.is_empty()
            && (host == named || host.strip_suffix(named).is_some_and(|rest| rest.ends_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(endpoint: &str, answer: &str, variables: &[(&str, &str)]) -> String {
        let store = StoreConfig {
            options: vec![("endpoint".to_owned(), endpoint.to_owned())],
            ..StoreConfig::sample()
        };
        hint(&store, answer, |wanted| {
            variables.iter().find(|(name, _)| *name == wanted).map(|(_, it)| (*it).to_owned())
        })
    }

    #[test]
    fn an_answer_that_may_be_the_proxys_is_reported() {
        let proxy = [("HTTPS_PROXY", "http://ada:hush@proxy:3128/"), ("http_proxy", "plain:80")];
        let refused = "403 Forbidden: denied destination";
        insta::assert_snapshot!(describe("https://s3.lake", refused, &proxy), @"; that may be the answer of the proxy proxy:3128 (HTTPS_PROXY), not of the store: check the store's address (AWS_ENDPOINT_URL, or endpoint in the file of datastores), or name its host in NO_PROXY");
        insta::assert_snapshot!(describe("http://s3.lake", refused, &proxy), @"; that may be the answer of the proxy plain:80 (http_proxy), not of the store: check the store's address (AWS_ENDPOINT_URL, or endpoint in the file of datastores), or name its host in NO_PROXY");
        assert_eq!(
            describe("https://s3.lake", "403: <Error><Code>AccessDenied</Code></Error>", &proxy),
            ""
        );
        assert_eq!(describe("https://s3.lake", refused, &[]), "");
        for no_proxy in ["s3.lake", ".lake", "other, lake", "*"] {
            assert_eq!(
                describe("https://s3.lake:9000", refused, &[proxy[0], ("NO_PROXY", no_proxy)]),
                ""
            );
        }
        let other = [proxy[0], ("NO_PROXY", "ake, s3.lak, other")];
        assert!(describe("https://s3.lake", refused, &other).contains("proxy:3128"));
    }
}
