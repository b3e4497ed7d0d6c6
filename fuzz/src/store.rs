//! Of the stores, what is said to the process that fetches and what it says.

#[path = "../../host/src/store/error.rs"]
mod error;
#[path = "../../host/src/store/message.rs"]
mod message;

pub(crate) use message::{FetchRequest, FromFetcher};
