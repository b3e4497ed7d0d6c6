//! Sandmill runs entry scripts, compiled to WebAssembly components, over large inputs in parallel.

