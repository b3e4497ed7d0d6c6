//! Tests of the repository: architecture, documents, scripts, examples, and the test harness.

mod cycles;
mod examples;
mod floors;
mod harness;
mod python;
mod rules;
mod setup;
