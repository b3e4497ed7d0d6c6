//! Empty: the guests are the examples.
