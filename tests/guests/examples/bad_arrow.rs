//! A hostile guest: returns invalid Arrow streams, through wit-bindgen without the SDK. `--do WHAT`:
//! `nothing` (no bytes), `garbage`, `cut` (the first half of the guest's table), `flipped` (the table with
//! every byte after the first 64 inverted), `huge-length` (a message that claims 2 GB). If the mini-batch is
//! not a table, `cut` and `flipped` change garbage instead.

mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "run-only" });
}

use bindings::exports::sandmill::entry::entry_run::Guest;
use bindings::sandmill::entry::types::{MiniBatch, MiniBatchContext, Results};

struct Component;

impl Guest for Component {
    fn run(batch: MiniBatch, _context: MiniBatchContext) -> Result<Results, String> {
        let garbage = || b"this is not an Arrow stream, however long it is read".to_vec();
        let mut bytes = match batch {
            MiniBatch::Table(bytes) => bytes,
            _ => garbage(),
        };
        let what = std::env::args().skip_while(|a| a != "--do").nth(1);
        match what.as_deref() {
            Some("nothing") => bytes.clear(),
            Some("cut") => bytes.truncate(bytes.len() / 2),
            Some("flipped") => bytes.iter_mut().skip(64).for_each(|byte| *byte = !*byte),
            Some("huge-length") => {
                bytes = vec![0xff; 4];
                bytes.extend(i32::MAX.to_le_bytes());
            }
            _ => bytes = garbage(),
        }
        Ok(Results::Table(bytes))
    }
}

bindings::export!(Component with_types_in bindings);
