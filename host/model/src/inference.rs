//! The models of a job, their backends and their devices.

use super::{FileStamp, Mount};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// The library that runs a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// ONNX Runtime if its library is found, otherwise tract.
    #[default]
    Auto,
    /// tract, which is a part of Sandmill.
    Tract,
    /// ONNX Runtime. Its library must be installed on the machine.
    OnnxRuntime,
}

impl Backend {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Tract, Self::OnnxRuntime];

    /// The name in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Tract => "tract",
            Self::OnnxRuntime => "onnxruntime",
        }
    }
}

/// The device on which a model should run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceChoice {
    /// The worker's leased GPU, or the CPU if it has no GPU that a backend can use.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// Only the worker's leased GPU, unless the job allows a fallback.
    Gpu,
}

impl DeviceChoice {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Cpu, Self::Gpu];

    /// The name in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
        }
    }
}

/// The device on which a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// The CPU.
    Cpu,
    /// The GPU with this index.
    Gpu(u32),
}

/// Prints `cpu` or `gpu 0`.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu(index) => write!(f, "gpu {index}"),
        }
    }
}

/// A model of the job, in the form that its workers use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobModel {
    /// The name by which the entry script loads it.
    pub name: String,
    /// The folder that holds the model and no other files. Absolute.
    pub host: PathBuf,
    /// The ONNX file, relative to the folder.
    pub file: String,
    /// The guest's path of the folder, which is mounted read-only.
    pub guest: String,
    /// The backend that runs the model.
    pub backend: Backend,
    /// The device on which the model should run.
    pub device: DeviceChoice,
    /// Whether the model may run on the CPU if the worker has no GPU for it.
    pub fallback: bool,
    /// The state of the ONNX file when the job began. `None` if it is not known.
    pub stamp: Option<FileStamp>,
    /// The state of the folder's other files when the job began, by their paths in the folder. `None` if it
    /// is not known.
    pub beside: Option<Vec<(String, FileStamp)>>,
}

impl JobModel {
    /// The folder as the guest sees it.
    pub fn mount(&self) -> Mount {
        Mount { host: self.host.clone(), guest: self.guest.clone(), writable: false }
    }
}

/// The job's inference settings, except models and limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InferenceSettings {
    /// Whether an entry script may load models from its own bytes.
    pub allow_guest_models: bool,
    /// How many threads of a worker run models on the CPU. `None` means that workers share the machine's
    /// cores evenly, with at least one thread each.
    pub threads: Option<u32>,
    /// How much GPU memory a worker's models may take, if the backend can enforce a limit.
    pub gpu_memory: Option<super::ByteSize>,
    /// The absolute path at which the leader found ONNX Runtime's library. It never comes from a
    /// job file, because native code runs with the rights of the worker process.
    pub onnxruntime: Option<PathBuf>,
    /// Folders with the CUDA libraries, as the leader found them. Absolute.
    pub cuda: Vec<PathBuf>,
}

/// The backends that ran models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendsUsed {
    tract: bool,
    onnxruntime: bool,
}

impl BackendsUsed {
    /// Whether no backend ran a model.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// These backends and another one. `Auto` adds none.
    #[must_use]
    pub fn and(self, backend: Backend) -> Self {
        Self {
            tract: self.tract || backend == Backend::Tract,
            onnxruntime: self.onnxruntime || backend == Backend::OnnxRuntime,
        }
    }
}

/// Prints `tract` or `onnxruntime and tract`. Empty if no backend ran a model.
impl fmt::Display for BackendsUsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.onnxruntime, self.tract) {
            (false, false) => "",
            (false, true) => "tract",
            (true, false) => "onnxruntime",
            (true, true) => "onnxruntime and tract",
        })
    }
}

/// Statistics of an attempt's inference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InferenceStats {
    /// How often a model was run.
    pub calls: u64,
    /// The wall time of all these runs.
    pub seconds: f64,
    /// Bytes of input tensors.
    pub bytes_in: u64,
    /// Bytes of output tensors.
    pub bytes_out: u64,
    /// The device. The GPU if both CPU and GPU were used. `None` if no model was run.
    pub device: Option<Device>,
    /// Whether a model for a GPU ran on the CPU, as the job allows.
    pub fell_back: bool,
    /// The backends that ran models. Empty in reports of older versions.
    #[serde(default)]
    pub backends: BackendsUsed,
}

impl InferenceStats {
    /// Whether the numbers are possible. A worker process may report any numbers.
    pub fn is_plausible(&self) -> bool {
        let counts = [self.calls, self.bytes_in, self.bytes_out];
        counts.iter().all(|&count| count < 1 << 60) && (0.0..1e12).contains(&self.seconds)
    }
}

impl std::ops::AddAssign for InferenceStats {
    fn add_assign(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.seconds += other.seconds;
        self.bytes_in = self.bytes_in.saturating_add(other.bytes_in);
        self.bytes_out = self.bytes_out.saturating_add(other.bytes_out);
        // By its derived order, a GPU is greater than the CPU, and the CPU is greater than `None`.
        self.device = self.device.max(other.device);
        self.fell_back |= other.fell_back;
        self.backends.tract |= other.backends.tract;
        self.backends.onnxruntime |= other.backends.onnxruntime;
    }
}

/// The device files of NVIDIA's driver that a process with a GPU needs, besides the device file of the GPU.
/// If one is missing, the driver's library starts a program that creates it, but a worker may not start
/// programs.
pub const NVIDIA_DEVICES: [&str; 2] = ["/dev/nvidiactl", "/dev/nvidia-uvm"];

/// A GPU that is leased to one worker for the worker's lifetime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuLease {
    /// The index by which `nvidia-smi` names the GPU.
    pub index: u32,
    /// The value of `CUDA_VISIBLE_DEVICES`: the index, or the UUID of a part of a GPU (MIG).
    pub visible: String,
    /// The number in `/dev/nvidiaN`, if the driver reported it.
    pub minor: Option<u32>,
    /// A file that the worker keeps locked, so that no other job takes the GPU. Absolute.
    pub lock: Option<PathBuf>,
    /// The folder of kernels that tract has compiled for the GPU. The worker may only read the folder.
    /// Absolute.
    pub kernels: Option<PathBuf>,
}

impl GpuLease {
    /// A lease of which only the index is known.
    pub fn plain(index: u32) -> Self {
        Self { index, visible: index.to_string(), minor: None, lock: None, kernels: None }
    }
}
