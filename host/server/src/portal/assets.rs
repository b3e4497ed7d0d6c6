//! The style and the script of all pages. They are parts of the program, and hold nothing of tenants.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use sandmill_model::hex;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

const STYLE: &str = include_str!("portal.css");
const SCRIPT: &str = include_str!("portal.js");
/// Browsers may keep them for a day. Their addresses change when they change.
const KEPT: &str = "public, max-age=86400";

/// The addresses of the style and of the script.
static ADDRESSES: LazyLock<(String, String)> = LazyLock::new(|| {
    let mark =
        |text: &str| hex(Sha256::digest(text.as_bytes())).chars().take(12).collect::<String>();
    (
        format!("/portal/assets/portal.css?v={}", mark(STYLE)),
        format!("/portal/assets/portal.js?v={}", mark(SCRIPT)),
    )
});

/// The address of the style.
pub(super) fn style_address() -> &'static str {
    &ADDRESSES.0
}

/// The address of the script.
pub(super) fn script_address() -> &'static str {
    &ADDRESSES.1
}

/// Sends the style.
pub(super) async fn style() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/css; charset=utf-8"), (CACHE_CONTROL, KEPT)], STYLE)
}

/// Sends the script.
pub(super) async fn script() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8"), (CACHE_CONTROL, KEPT)], SCRIPT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_small_and_loads_nothing_from_other_sites() {
        assert!(SCRIPT.len() < 20_000, "{} bytes", SCRIPT.len());
        for text in [STYLE, SCRIPT] {
            assert!(!text.contains("http:") && !text.contains("https:"), "{text}");
            assert!(!text.contains("url(") && !text.contains("@import"), "{text}");
        }
    }
}
