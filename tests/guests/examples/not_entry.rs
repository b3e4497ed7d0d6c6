//! A hostile guest: a valid component, but not an entry script. It exports `greet` instead of `run`.

mod bindings {
    wit_bindgen::generate!({
        inline: r#"
            package other:greeter@1.0.0;

            world greeter {
                export greet: func(name: string) -> string;
            }
        "#,
    });
}

struct Component;

impl bindings::Guest for Component {
    fn greet(name: String) -> String {
        format!("hello {name}")
    }
}

bindings::export!(Component with_types_in bindings);
