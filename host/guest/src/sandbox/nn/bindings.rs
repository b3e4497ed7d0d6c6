//! What wasmtime generates from the world `inference` of `wit/`.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "inference",
    imports: { default: trappable },
    with: {
        "wasi:nn/tensor.tensor": super::tensors::Tensor,
        "wasi:nn/graph.graph": super::graphs::Graph,
        "wasi:nn/inference.graph-execution-context": super::graphs::Execution,
        "wasi:nn/errors.error": super::errors::NnError,
    },
});
