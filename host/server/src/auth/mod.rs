//! The secrets of callers, and how often they may call.
//!
//! - `secret`: makes the texts of tokens, and compares them;
//! - `rates`: limits how many requests a token makes;
//! - `sessions`: the people who have signed in with a browser.

mod rates;
mod secret;
mod sessions;

pub(crate) use rates::Rates;
pub(crate) use secret::{NewSecret, id_in, matches, new_secret, random_text, same};
pub(crate) use sessions::{Session, Sessions};
