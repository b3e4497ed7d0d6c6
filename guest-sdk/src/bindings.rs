//! The bindings that wit-bindgen generates from `wit/entry.wit`.

wit_bindgen::generate!({
    path: "wit",
    world: "entry-script",
    pub_export_macro: true,
    default_bindings_module: "sandmill_guest::component::bindings",
});
