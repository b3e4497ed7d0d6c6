//! Models of jobs: inference for entry scripts, on each backend and device.

mod backends;
mod gpu_real;
mod gpus;
mod javascript;
mod models;
mod nn;
mod nn_conformance;
mod nn_hostile;
mod nn_sdk;
mod onnxruntime;
mod python;
