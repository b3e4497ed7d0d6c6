//! An ordinary guest (not a hostile one): exports only `entry-run`, through wit-bindgen without the SDK.
//! Returns the name of each file as a row.

mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "run-only" });
}

use bindings::exports::sandmill::entry::entry_run::Guest;
use bindings::sandmill::entry::host;
use bindings::sandmill::entry::types::{MiniBatch, MiniBatchContext, Results};

struct Component;

impl Guest for Component {
    fn run(batch: MiniBatch, context: MiniBatchContext) -> Result<Results, String> {
        host::log(host::LogLevel::Info, &format!("mini-batch {}", context.id));
        match batch {
            MiniBatch::Files(files) => {
                let name = |file: &String| file.rsplit('/').next().unwrap_or("").to_owned();
                Ok(Results::Rows(files.iter().map(name).collect()))
            }
            MiniBatch::Table(bytes) => Ok(Results::Table(bytes)),
            MiniBatch::Void => Ok(Results::Rows(vec![format!("void {}", context.id)])),
        }
    }
}

bindings::export!(Component with_types_in bindings);
