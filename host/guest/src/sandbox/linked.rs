//! Types of the functions that Sandmill links for guests.

use super::state::InstanceState;
use wasmtime::component::Resource;
use wasmtime::{Result, StoreContextMut};
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::sync::filesystem::types::ErrorCode;

/// The store of the instance that calls.
pub(super) type CallContext<'a> = StoreContextMut<'a, InstanceState>;

/// The result of a function of `wasi:filesystem`. The outer error is a trap.
pub(super) type FileReply<T> = Result<(std::result::Result<T, ErrorCode>,)>;

/// A guest's handle of an open file or folder.
pub(super) type DescriptorHandle = Resource<Descriptor>;
