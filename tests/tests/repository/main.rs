//! The repository itself: its architecture, its documents, its scripts, its examples and the harness of the tests.

mod circles;
mod examples;
mod floors;
mod harness;
mod python;
mod rules;
mod setup;
