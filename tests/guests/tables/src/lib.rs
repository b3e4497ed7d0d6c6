//! Empty: the guests are in `examples`.
