//! `--limit N`: runs a job over the first items of its inputs.

use super::exit::Problem;
use crate::model::{InputKind, TableKind};
use crate::spec::JobSpec;
use std::num::NonZeroU64;

/// Why `--limit` cannot be used with a job.
#[derive(Debug, thiserror::Error)]
enum NoLimit {
    #[error(
        "--limit cannot be used with partition_keys, because grouping needs all items; --sample 1% runs a share of the groups"
    )]
    Groups,
    #[error(
        "--limit cannot be used with inputs of format sqlite ({0}): write LIMIT into its query, or use --sample 1%"
    )]
    Database(String),
}

/// The settings that make a job take only the first `limit` items of each input.
///
/// # Errors
/// If the job's inputs cannot be limited.
pub(super) fn settings(
    spec: &JobSpec,
    limit: NonZeroU64,
) -> Result<Vec<(String, String)>, Problem> {
    let limit = limit.get();
    if let InputKind::Void { count } = spec.input_kind {
        return Ok(vec![("rank_mini_batch_count".to_owned(), limit.min(count).to_string())]);
    }
    if !spec.partition_keys.is_empty() {
        return Err(Problem::usage(NoLimit::Groups));
    }
    if let InputKind::Tables { inputs, .. } = &spec.input_kind {
        let is_database = |kind: TableKind| kind.is_database();
        let database = spec.inputs.iter().zip(inputs).find(|(_, table)| is_database(table.kind));
        if let Some((input, _)) = database {
            return Err(Problem::usage(NoLimit::Database(input.name.clone())));
        }
    }
    let take = |take: Option<u64>| take.unwrap_or(u64::MAX).min(limit).to_string();
    let inputs = spec.inputs.iter();
    Ok(inputs.map(|input| (format!("inputs.{}.take", input.name), take(input.take))).collect())
}
