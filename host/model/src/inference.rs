//! Models that a job gives to its entry script, what runs them, and where.

use super::{FileStamp, Mount};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// What computes with a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// ONNX Runtime where its library is found, else tract.
    #[default]
    Auto,
    /// tract, which is a part of Sandmill.
    Tract,
    /// ONNX Runtime, whose library the machine must have.
    OnnxRuntime,
}

impl Backend {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Tract, Self::OnnxRuntime];

    /// As in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Tract => "tract",
            Self::OnnxRuntime => "onnxruntime",
        }
    }
}

/// Where a model is to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceChoice {
    /// On the worker's leased GPU where it has one that a backend can use, else on the CPU.
    #[default]
    Auto,
    /// On the CPU.
    Cpu,
    /// On the worker's leased GPU, and nowhere else unless the job says so.
    Gpu,
}

impl DeviceChoice {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Cpu, Self::Gpu];

    /// As in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
        }
    }
}

/// Where a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// The processor.
    Cpu,
    /// The GPU of this index.
    Gpu(u32),
}

/// `cpu`, `gpu 0`.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu(index) => write!(f, "gpu {index}"),
        }
    }
}

/// A model of the job, as its workers find it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// What the entry script loads it by.
    pub name: String,
    /// The folder that holds the model and nothing that does not belong to it. Absolute.
    pub host: PathBuf,
    /// The ONNX file, relative to the folder.
    pub file: String,
    /// Where the folder is mounted, read-only.
    pub guest: String,
    /// What runs it.
    pub backend: Backend,
    /// Where it is to run.
    pub device: DeviceChoice,
    /// Whether it may run on the CPU where there is no GPU for it.
    pub fallback: bool,
    /// What the ONNX file was when the job began; none if that is not known.
    pub stamp: Option<FileStamp>,
    /// What the other files of its folder were then, by their paths there; none if that is not known.
    pub beside: Option<Vec<(String, FileStamp)>>,
}

impl Model {
    /// The folder as the guest sees it.
    pub fn mount(&self) -> Mount {
        Mount { host: self.host.clone(), guest: self.guest.clone(), writable: false }
    }
}

/// What inference may use in this job, beside the models and limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InferenceSettings {
    /// Whether an entry script may bring models of its own as bytes.
    pub allow_guest_models: bool,
    /// Threads of a worker that compute with a model on the CPU; none means that workers share the
    /// machine's cores evenly, one thread at least.
    pub threads: Option<u32>,
    /// Bytes of the device's memory that a worker's models may take, where the backend can say so.
    pub gpu_memory: Option<super::ByteSize>,
    /// ONNX Runtime's library, as the leader found it. Absolute. Never from a job file: it is native code
    /// that runs with the rights of the worker process.
    pub onnxruntime: Option<PathBuf>,
    /// Folders with the CUDA libraries, as the leader found them. Absolute.
    pub cuda: Vec<PathBuf>,
}

/// The backends that computed something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendsUsed {
    tract: bool,
    onnxruntime: bool,
}

impl BackendsUsed {
    /// Whether there was none.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Both these and one more. `Auto` is none.
    #[must_use]
    pub fn and(self, backend: Backend) -> Self {
        Self {
            tract: self.tract || backend == Backend::Tract,
            onnxruntime: self.onnxruntime || backend == Backend::OnnxRuntime,
        }
    }
}

/// `tract`, `onnxruntime and tract`; nothing if there was none.
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

/// What an attempt's inference came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InferenceStats {
    /// Computations.
    pub calls: u64,
    /// Wall time of all of them.
    pub seconds: f64,
    /// Bytes of input tensors.
    pub bytes_in: u64,
    /// Bytes of output tensors.
    pub bytes_out: u64,
    /// Where they ran, the GPU if on both; none without a computation.
    pub device: Option<Device>,
    /// Whether a model ran on the CPU that was meant for a GPU, as the job allows.
    pub fell_back: bool,
    /// What computed; none in what older versions wrote.
    #[serde(default)]
    pub backends: BackendsUsed,
}

impl InferenceStats {
    /// Whether numbers that come from a worker process can be.
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
        // A GPU is greater than the CPU, and anything than none.
        self.device = self.device.max(other.device);
        self.fell_back |= other.fell_back;
        self.backends.tract |= other.backends.tract;
        self.backends.onnxruntime |= other.backends.onnxruntime;
    }
}

/// Device files of the driver that a process with a GPU needs, beside the GPU's own. Whoever lacks one
/// would have the driver start a program that makes it, which no worker may.
pub const NVIDIA_DEVICES: [&str; 2] = ["/dev/nvidiactl", "/dev/nvidia-uvm"];

/// A GPU that is one worker's for as long as it lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuLease {
    /// Counted as `nvidia-smi` does.
    pub index: u32,
    /// What `CUDA_VISIBLE_DEVICES` says: the index, or the UUID of a part of a GPU (MIG).
    pub visible: String,
    /// The number in `/dev/nvidiaN`, where the driver told.
    pub minor: Option<u32>,
    /// A file that the worker keeps locked while it lives, so that no other job takes the GPU. Absolute.
    pub lock: Option<PathBuf>,
    /// The folder of what tract has compiled for the GPU, which its worker reads alone. Absolute.
    pub kernels: Option<PathBuf>,
}

impl GpuLease {
    /// A lease of which no more than the index is known.
    pub fn plain(index: u32) -> Self {
        Self { index, visible: index.to_string(), minor: None, lock: None, kernels: None }
    }
}
