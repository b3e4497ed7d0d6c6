//! Of the worker, what judges results.

#[path = "../../host/src/worker/load.rs"]
mod load;
#[path = "../../host/src/worker/loaded.rs"]
mod loaded;
#[path = "../../host/src/worker/process.rs"]
mod process;
#[path = "../../host/src/worker/report.rs"]
mod report;
#[path = "../../host/src/worker/sink.rs"]
mod sink;
#[path = "../../host/src/worker/stage.rs"]
mod stage;
#[path = "../../host/src/worker/tally.rs"]
mod tally;

pub use sink::fuzzing::judge as fuzz_judge;
