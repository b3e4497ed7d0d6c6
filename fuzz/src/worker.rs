//! Of the worker, what judges results.

#[path = "../../host/node/src/worker/load.rs"]
mod load;
#[path = "../../host/node/src/worker/loaded.rs"]
mod loaded;
#[path = "../../host/node/src/worker/process.rs"]
mod process;
#[path = "../../host/node/src/worker/report.rs"]
mod report;
#[path = "../../host/node/src/worker/sink.rs"]
mod sink;
#[path = "../../host/node/src/worker/stage.rs"]
mod stage;
#[path = "../../host/node/src/worker/tally.rs"]
mod tally;

pub use sink::fuzzing::judge as fuzz_judge;
