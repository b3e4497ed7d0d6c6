//! The secrets of callers, and how often they may call.
//!
//! - `secret`: makes the texts of tokens, and compares them;
//! - `rates`: limits how many requests a token makes.

mod rates;
mod secret;

pub(crate) use rates::Rates;
pub(crate) use secret::{NewSecret, id_in, matches, new_secret};
