//! A hostile guest: returns the bytes of its file as a table. A file whose name ends in `good.txt` gives one
//! row instead: its name.

mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "run-only" });
}

use bindings::exports::sandmill::entry::entry_run::Guest;
use bindings::sandmill::entry::host;
use bindings::sandmill::entry::types::{MiniBatch, MiniBatchContext, Results};

struct Component;

impl Guest for Component {
    fn run(batch: MiniBatch, _context: MiniBatchContext) -> Result<Results, String> {
        let MiniBatch::Files(files) = batch else { return Err("no files".into()) };
        let name = files[0].rsplit('/').next().unwrap_or_default();
        if name.ends_with("good.txt") {
            return Ok(Results::Rows(vec![name.to_owned()]));
        }
        host::read(&files[0]).map(Results::Table)
    }
}

bindings::export!(Component with_types_in bindings);
