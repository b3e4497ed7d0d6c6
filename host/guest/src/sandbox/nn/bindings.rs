//! The code that wasmtime generates from the world `inference` of `wit/`.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "inference",
    imports: { default: trappable },
    with: {
        "wasi:nn/tensor.tensor": super::resources::GuestTensor,
        "wasi:nn/graph.graph": super::resources::Graph,
        "wasi:nn/inference.graph-execution-context": super::resources::Execution,
        "wasi:nn/errors.error": super::resources::NnErrorResource,
    },
});
