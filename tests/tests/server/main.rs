//! `sandmill serve`: real servers, and requests to them over HTTP.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

mod actions;
mod api;
mod isolation;
mod lost;
mod portal;
mod portal_guards;
mod portal_job;
mod submits;
mod usage;
