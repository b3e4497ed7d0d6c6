//! Links with queries.

use super::text::encoded;
use std::fmt::Display;

/// A link to a page with filters. The next page of a list has the same filters, and another cursor.
#[derive(Clone, Debug)]
pub(super) struct Link {
    path: String,
    query: Vec<(&'static str, String)>,
}

impl Link {
    /// A link without filters.
    pub(super) fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), query: Vec::new() }
    }

    /// With a value in the query. It replaces an earlier value; `None` and an empty text remove it.
    pub(super) fn with(&self, key: &'static str, value: Option<impl Display>) -> Self {
        let mut query = self.query.clone();
        query.retain(|(known, _)| *known != key);
        let value = value.map(|value| value.to_string()).filter(|value| !value.is_empty());
        query.extend(value.map(|value| (key, value)));
        Self { path: self.path.clone(), query }
    }

    /// The address.
    pub(super) fn address(&self) -> String {
        let pairs = self.query.iter().map(|(key, value)| format!("{key}={}", encoded(value)));
        let query = pairs.collect::<Vec<_>>().join("&");
        if query.is_empty() { self.path.clone() } else { format!("{}?{query}", self.path) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_keeps_the_filters() {
        let filtered = Link::new("/portal/jobs")
            .with("q", Some("a&b \"c\""))
            .with("phase", Some("failed"))
            .with("tenant", None::<String>)
            .with("label", Some(""));
        let next = filtered.with("cursor", Some("abc")).with("cursor", Some("def"));
        assert_eq!(next.address(), "/portal/jobs?q=a%26b%20%22c%22&phase=failed&cursor=def");
        assert_eq!(next.with("cursor", None::<u8>).address(), filtered.address());
        assert_eq!(Link::new("/a").address(), "/a");
    }
}
