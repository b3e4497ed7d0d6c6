//! One memory budget for everything that an instance can grow.

use crate::model::ByteSize;
use wasmtime::{Error, ResourceLimiter, Result};

/// The host's memory for one element of a table, in bytes.
const TABLE_ELEMENT_BYTES: usize = size_of::<usize>();

/// The maximum number of core instances, and of tables, of an entry script. A Python component with native
/// libraries has some dozens of each.
const MAX_INSTANCES_OR_TABLES: usize = 1000;
/// The maximum number of linear memories of an entry script. Each reserves gigabytes of address space.
const MAX_MEMORIES: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GrowthRefusal {
    /// The bytes that were in use before.
    pub(super) used: u64,
    /// The additional bytes that were requested.
    pub(super) asked: u64,
    /// The memory's own maximum (4 GB, unless the component was built with a lower one), if the growth would
    /// have exceeded it. `None` if the growth would have exceeded the budget.
    pub(super) maximum: Option<u64>,
}

/// Counts all linear memories and tables of an instance against one limit.
///
/// Memory is never subtracted. wasmtime refuses a growth beyond a memory's own maximum before it asks here.
/// After that, a growth that this budget permits can fail only if the machine lacks memory.
#[derive(Debug)]
pub(super) struct Budget {
    limit: u64,
    used: u64,
    refused: Option<GrowthRefusal>,
}

impl Budget {
    pub(super) fn new(limit: ByteSize) -> Self {
        Self { limit: limit.0, used: 0, refused: None }
    }

    /// Returns and clears the last refusal. A trap after a refusal is most likely its consequence.
    pub(super) fn take_refusal(&mut self) -> Option<GrowthRefusal> {
        self.refused.take()
    }

    fn grow(&mut self, delta: usize) -> bool {
        let asked = delta as u64;
        match self.used.checked_add(asked) {
            Some(used) if used <= self.limit => {
                self.used = used;
                true
            }
            _ => {
                self.refused = Some(GrowthRefusal { used: self.used, asked, maximum: None });
                false
            }
        }
    }
}

impl ResourceLimiter for Budget {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        if let Some(maximum) = maximum.filter(|maximum| desired > *maximum) {
            let used = current as u64;
            let asked = desired.saturating_sub(current) as u64;
            self.refused = Some(GrowthRefusal { used, asked, maximum: Some(maximum as u64) });
            return Ok(false);
        }
        Ok(self.grow(desired.saturating_sub(current)))
    }

    fn memory_grow_failed(&mut self, _: Error) -> Result<()> {
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        Ok(self.grow(desired.saturating_sub(current).saturating_mul(TABLE_ELEMENT_BYTES)))
    }

    fn table_grow_failed(&mut self, _: Error) -> Result<()> {
        Ok(())
    }

    fn instances(&self) -> usize {
        MAX_INSTANCES_OR_TABLES
    }

    fn tables(&self) -> usize {
        MAX_INSTANCES_OR_TABLES
    }

    fn memories(&self) -> usize {
        MAX_MEMORIES
    }
}

/// The message if the engine's error says that an entry script has too many instances, tables or memories.
/// `None` for other errors.
pub(super) fn too_many_parts(error: &str) -> Option<String> {
    let (_, what) = error.split_once("resource limit exceeded: ")?;
    let (what, _) = what.split_once(" count too high")?;
    let limit = if what == "memory" { MAX_MEMORIES } else { MAX_INSTANCES_OR_TABLES };
    let parts = match what {
        "memory" => "memories",
        "table" => "tables",
        _ => "instances of modules",
    };
    Some(format!("the entry script has more than {limit} {parts}: no setting allows that"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_and_tables_share_one_budget() {
        let mut budget = Budget::new(ByteSize(1000));
        assert!(budget.memory_growing(0, 400, None).expect("answers"));
        assert!(budget.memory_growing(0, 400, None).expect("answers"), "a second memory");
        assert!(budget.table_growing(0, 25, None).expect("answers"), "25 times 8 bytes");
        assert_eq!(budget.take_refusal(), None);
        assert!(!budget.table_growing(25, 26, None).expect("answers"));
        assert_eq!(
            budget.take_refusal(),
            Some(GrowthRefusal { used: 1000, asked: 8, maximum: None })
        );
        assert_eq!(budget.take_refusal(), None, "returned once");
        assert!(!budget.memory_growing(0, usize::MAX, None).expect("answers"), "no overflow");
    }

    #[test]
    fn growth_beyond_a_memorys_own_maximum_is_not_counted() {
        let mut budget = Budget::new(ByteSize(1000));
        assert!(!budget.memory_growing(100, 900, Some(800)).expect("answers"));
        let refusal = GrowthRefusal { used: 100, asked: 800, maximum: Some(800) };
        assert_eq!(budget.take_refusal(), Some(refusal));
        assert!(budget.memory_growing(0, 1000, None).expect("answers"));
    }
}
