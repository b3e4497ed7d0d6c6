//! Inputs and outputs of jobs: finding, cutting and reading the inputs, and writing rows.
//!
//! This crate uses `model`, `files`, `wire` and `wall`; `store`, `guest` and `node` may use it. `leader` and
//! `report` may not, because they never read the content of an input or the results of a guest.
//!
//! - [`dataset`]: which files belong to an input, how tables are cut, how a worker reads its mini-batch;
//! - [`plan`]: the process that cuts inputs into mini-batches, and groups rows by keys;
//! - [`output`]: rows as a worker formats them;
//! - [`attempt`]: what a worker passes to a call of `run`, and how it judges the results;
//! - [`typed_output`]: the process that makes a Parquet or Arrow file from the rows;
//! - [`sample`]: tables for trying out entry scripts.
//!
//! The other crates have short names here, such as `model`. The modules form layers, lowest first; a file
//! imports only from lower layers or from its own folder:
//!
//! 0. `model`, `opening`, `protocol` and `wall`, which are other crates or parts of one
//! 1. `dataset`, `output`, `sample`
//! 2. `attempt`, `plan`, `typed_output`

#![cfg_attr(
    test,
    expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "numbers of tests are small, or are to be cut off"
    )
)]

pub mod attempt;
pub mod dataset;
pub mod output;
pub mod plan;
pub mod sample;
pub mod typed_output;

use sandmill_files::opening;
use sandmill_model as model;
use sandmill_wall as wall;
use sandmill_wire as protocol;
