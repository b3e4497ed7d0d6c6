//! The types that all crates of Sandmill share: ids, mini-batch descriptors, outcomes, policies, limits,
//! statistics and the paths of a job directory. They are plain data, without I/O.
//!
//! This crate depends on no other crate of Sandmill, and all of them may use it.

mod address;
mod bounded_vec;
mod content_ref;
mod errno;
pub mod event;
pub mod fail_point;
mod failure;
mod feature;
mod file_stamp;
mod guest_paths;
mod ids;
mod inference;
mod inference_note;
mod input;
mod job_text;
mod machine_caps;
mod memory_budget;
mod mini_batch;
mod names;
mod nearest;
mod number;
mod output_format;
mod partition_format;
mod paths;
mod percent;
mod policy;
mod python;
mod receipt;
mod registered;
mod report;
mod restored;
mod sample;
mod settings;
mod signer;
mod size;
mod stored_bytes;
mod stored_spill;
mod table;
#[cfg(any(test, feature = "testing"))]
mod testing;
mod text;
mod uploaded;
mod wall;
mod worker_exit;

/// Bytes in hexadecimal, two lower-case digits each.
pub use ::hex::encode as hex;
pub use address::{Address, ParseAddressError, StoreKind, StorePlace};
pub use content_ref::ContentRef;
pub use errno::with_errno_names;
pub use failure::{Failure, FailureKind, is_full};
pub use feature::{Absence, Feature};
pub use file_stamp::FileStamp;
pub use guest_paths::{
    GUEST_INPUTS, GUEST_LOGS, GUEST_MODELS, GUEST_OUTPUT, GUEST_SIDE_INPUTS, GUEST_SOURCE,
    GUEST_TEMPORARY,
};
pub use ids::{MiniBatchId, NodeId, WorkerId, is_random_name, random_name};
pub use inference::{
    Backend, BackendsUsed, Device, DeviceChoice, GpuLease, InferenceSettings, InferenceStats,
    JobModel, NVIDIA_DEVICES,
};
pub use inference_note::{InferenceNote, InferenceWork};
pub use input::{InputKind, JobInput};
pub use job_text::{FoundName, JobText};
pub use machine_caps::{MachineCaps, ProcessLists};
pub use memory_budget::MemoryBudget;
pub use mini_batch::{
    BadFile, ItemLocation, MiniBatch, MiniBatchWork, Mount, Source, SpilledRows, TableSlice,
    TextSlice, is_plainly_below,
};
pub use names::Names;
pub use nearest::{near, nearest};
pub use number::{count_u32, to_f64, to_usize, whole};
pub use output_format::{
    Compression, Join, OnConflict, OutputFormat, OutputKind, OutputLayout, Quoting, unfinished,
};
pub use partition_format::{ParsePartitionFormatError, PartitionFormat};
pub use paths::{CONTROL_SOCKET, JobDir, LOCK_FILE, is_inside, only_name, rotated};
pub use percent::{AllowedPercent, ParsePercentError};
pub use policy::{ErrorThreshold, LoggingLevel, OutputAction, ParsePolicyError, Profiler};
pub use python::{PythonRuntime, ScriptLanguage, package_name};
pub use receipt::{
    AttemptReceipt, AttemptUsage, NotBillable, Receipt, ReceiptEnd, ReceiptOutcome, ReceiptRun,
    ReceiptTotals, UsageSum,
};
pub use registered::{
    Latest, ParseRegisteredNameError, REGISTERED_NAME_EXPECTED, Registered, RegisteredContent,
    RegisteredKind, RegisteredName, is_registered_name,
};
pub use report::{
    AttemptReport, CallStats, EndedBy, FailedItem, FirstFailure, ItemCounts, JobResult, JobStatus,
    OutputHeader, Segment, UnknownKeys, add_bytes,
};
pub use restored::{MiniBatchSet, Restored};
pub use sample::{ParseSampleError, Sample};
pub use settings::{JobLimits, JobSettings, Limits, Setting, WorkerSettings};
pub use signer::{ParseSignerKeyError, SignerKey};
pub use size::{ByteSize, SliceSize};
pub use stored_bytes::{StoredBytes, StoredSpill};
pub use stored_spill::SpillPart;
pub use table::{
    Column, ColumnType, CsvFormat, ParseColumnTypeError, TableFormat, TableInput, TableKind,
};
pub use text::{
    count, counted, in_short, is_plain, is_terminal_control, on_one_line, os_error, printable,
    printable_json, shell_word, text_cell,
};
pub use uploaded::{
    FoundUpload, UPLOADS_FOLDER, UploadedChange, UploadedData, UploadedFolder, UploadedMeaning,
    is_uploaded,
};
pub use wall::{OsSandbox, WallState};
pub use worker_exit::WorkerExit;
