//! A hostile guest: an entry script that imports an interface that no host provides:
//! `evil:power/launch@1.0.0`.

mod bindings {
    wit_bindgen::generate!({
        inline: r#"
            package evil:power@1.0.0;

            interface launch {
                launch: func(target: string) -> bool;
            }

            world greedy {
                include sandmill:entry/entry-script@0.2.0;
                import launch;
            }
        "#,
        path: "../../wit",
        world: "evil:power/greedy",
        generate_all,
    });
}

use bindings::evil::power::launch;
use bindings::exports::sandmill::entry::entry::Guest;
use bindings::sandmill::entry::types::{MiniBatch, MiniBatchContext, Results};

struct Component;

impl Guest for Component {
    fn init() -> Result<(), String> {
        Ok(())
    }

    fn run(_batch: MiniBatch, _context: MiniBatchContext) -> Result<Results, String> {
        Ok(Results::Rows(vec![launch::launch("everywhere").to_string()]))
    }

    fn shutdown() {}
}

bindings::export!(Component with_types_in bindings);
