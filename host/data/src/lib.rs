//! Inputs and outputs: finding, cutting and reading what jobs read, and writing rows.
//!
//! It uses `model`, `files`, `wire` and `wall`; `store`, `guest` and `node` may use it. `leader` and `report` may not, as they
//! never look into what an input or a guest holds.
//!
//! - [`dataset`]: what belongs to an input, how tables are cut, how a worker reads its part;
//! - [`plan`]: the process that cuts inputs into mini-batches, and groups rows by keys;
//! - [`output`]: rows as a worker formats them;
//! - [`attempt`]: what a worker gives to a call of `run`, and how it judges what comes back;
//! - [`finish`]: the process that makes a Parquet or Arrow file of them;
//! - [`sample`]: tables for trying out entry scripts.
//!
//! What other crates have is named here as it is there. Floors, lowest first; a file imports only lower floors or
//! siblings in its own folder:
//!
//! 0. `model`, `opening`, `protocol` and `wall`, which are other crates or parts of one
//! 1. `dataset`, `output`, `sample`
//! 2. `attempt`, `plan`, `finish`

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
pub mod finish;
pub mod output;
pub mod plan;
pub mod sample;

use sandmill_files::opening;
use sandmill_model as model;
use sandmill_wall as wall;
use sandmill_wire as protocol;
