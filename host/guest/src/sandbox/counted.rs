//! The kinds of limits on what a guest writes, and the messages if one is exceeded.

use crate::model::ByteSize;

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitKind {
    /// Bytes of stdout, stderr and the log: `limits.logs`.
    Logs,
    /// Bytes of files: `limits.output`.
    Output,
    /// Files and folders that the guest creates: `limits.files`.
    Files,
}

/// The guest exceeded a limit. The guest receives no error: the call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("beyond the limit on {counted:?}: {asked} of {allowed}")]
pub(super) struct OverLimit {
    pub(super) counted: LimitKind,
    /// The limit.
    pub(super) allowed: u64,
    /// The total, including the last request.
    pub(super) asked: u64,
    /// Whether the limit is the one on the log folder, whose files stay after a call. Otherwise it is the
    /// limit on one call.
    pub(super) in_log_folder: bool,
}

impl OverLimit {
    /// The message for the user. `during` is for example "in run".
    pub(super) fn message(&self, during: &str) -> String {
        let allowed = ByteSize(self.allowed);
        let asked = ByteSize(self.asked).rounded();
        match self.counted {
            LimitKind::Output if self.in_log_folder => format!(
                "limits.output allows {allowed} for each worker in the log folder, where files stay; \
                 {during} this worker's share of the folder came to {}. Have the entry script write less \
                 there, remove files that are not needed, or raise the limit",
                if self.asked == u64::MAX { "more".to_owned() } else { asked }
            ),
            LimitKind::Files if self.in_log_folder => format!(
                "limits.files allows {} for each worker in the log folder, where they stay; {during} \
                 this worker's share of the folder came to {}. Have the entry script append to fewer files, \
                 remove files that are not needed, or raise the limit",
                count(self.allowed),
                if self.asked == u64::MAX { "more".to_owned() } else { self.asked.to_string() }
            ),
            LimitKind::Logs => format!(
                "limits.logs allows {allowed} for stdout, stderr and the log of one call; {during} \
                 the entry script wrote {asked}. Have it print less, or raise the limit"
            ),
            LimitKind::Output => format!(
                "limits.output allows {allowed} for the files of one call; {during} the entry \
                 script wrote {asked}. Have it write less, make mini_batch_size smaller, or raise \
                 the limit"
            ),
            LimitKind::Files => format!(
                "limits.files allows one call to make {}; {during} the entry script asked for {}. \
                 Have it put more into each, make mini_batch_size smaller, or raise the limit",
                count(self.allowed),
                self.asked
            ),
        }
    }
}

fn count(files: u64) -> String {
    match files {
        0 => "no files or folders".to_owned(),
        1 => "1 file or folder".to_owned(),
        more => format!("{more} files and folders"),
    }
}
