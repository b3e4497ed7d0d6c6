//! Who calls the API, and what the caller may do.
//!
//! - `secret`: makes the texts of tokens, and compares them;
//! - `caller`: finds the token of a request;
//! - `rates`: limits how many requests a token makes.

mod caller;
mod rates;
mod secret;

pub(crate) use caller::Caller;
pub(crate) use rates::Rates;
pub(crate) use secret::{NewSecret, new_secret};
