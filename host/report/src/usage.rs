//! Sums of receipts by job, tenant, month or component.

use crate::model::{NotBillable, Receipt, UsageSum};
use jiff::tz::TimeZone;
use serde::Serialize;
use std::collections::BTreeMap;

/// What receipts are summed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageBy {
    /// The job: its id.
    Job,
    /// The tenant.
    Tenant,
    /// The month in which the attempt ended, in UTC: `2026-11`.
    Month,
    /// The SHA-256 of the entry script.
    Component,
}

impl UsageBy {
    /// All of them, with their names.
    pub const NAMED: [(&'static str, Self); 4] = [
        ("job", Self::Job),
        ("tenant", Self::Tenant),
        ("month", Self::Month),
        ("component", Self::Component),
    ];

    /// The name, as on the command line.
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, by)| *by == self).map_or("", |(name, _)| name)
    }

    fn key(self, receipt: &Receipt) -> String {
        match self {
            Self::Job => receipt.job.clone(),
            Self::Tenant => receipt.tenant.clone(),
            Self::Month => month(receipt),
            Self::Component => receipt.component.clone(),
        }
    }
}

/// The month in which an attempt ended, in UTC.
fn month(receipt: &Receipt) -> String {
    let ended = receipt.ended.to_zoned(TimeZone::UTC);
    format!("{:04}-{:02}", ended.year(), ended.month())
}

/// The sums of one job, tenant, month or component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageGroup {
    /// The name of the job, if the sums are by job. Empty otherwise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What billable attempts used.
    pub billable: UsageSum,
    /// What other attempts used.
    pub not_billable: UsageSum,
    /// How many attempts are not billable, by reason.
    pub reasons: BTreeMap<&'static str, u64>,
}

/// Sums of receipts.
#[derive(Clone, Debug)]
pub struct UsageTable {
    by: UsageBy,
    /// The sums, by key.
    pub groups: BTreeMap<String, UsageGroup>,
    /// The sums of all of them.
    pub total: UsageGroup,
}

impl UsageTable {
    /// No receipts.
    pub fn new(by: UsageBy) -> Self {
        Self { by, groups: BTreeMap::new(), total: UsageGroup::default() }
    }

    /// Adds a receipt.
    pub fn add(&mut self, receipt: &Receipt) {
        let group = self.groups.entry(self.by.key(receipt)).or_default();
        if self.by == UsageBy::Job && group.name.is_empty() {
            group.name.clone_from(&receipt.name);
        }
        for group in [group, &mut self.total] {
            let Some(reason) = receipt.not_billable else {
                group.billable.add(&receipt.usage);
                continue;
            };
            group.not_billable.add(&receipt.usage);
            *group.reasons.entry(NotBillable::name(reason)).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        AttemptReceipt, AttemptUsage, MiniBatchId, NodeId, ReceiptEnd, ReceiptRun, WorkerId,
    };

    fn receipt(number: u64, tenant: &str, ended: &str, end: ReceiptEnd) -> Receipt {
        let run = ReceiptRun {
            run: "r".into(),
            tenant: tenant.into(),
            component: "c".into(),
            engine: "e".into(),
        };
        let ended: jiff::Timestamp = ended.parse().unwrap();
        let attempt = AttemptReceipt {
            mini_batch: MiniBatchId(number),
            attempt: 1,
            worker: WorkerId(0),
            node: NodeId(0),
            started_us: ended.as_microsecond() - 1,
            ended_us: ended.as_microsecond(),
            end,
            usage: AttemptUsage { cpu_us: 10, wall_us: 20, ..AttemptUsage::default() },
        };
        Receipt::new(number, ("j", "iris"), &run, &attempt)
    }

    #[test]
    fn receipts_are_summed_by_each_key() {
        let good = ReceiptEnd::of(&Ok(()));
        let receipts = [
            receipt(1, "a", "2026-10-31T23:59:59Z", good),
            receipt(2, "a", "2026-11-01T00:00:00Z", ReceiptEnd::NODE_LOST),
            receipt(3, "b", "2026-11-02T00:00:00Z", good),
        ];
        for (by, keys) in [
            (UsageBy::Job, vec![("j", 2, 1)]),
            (UsageBy::Tenant, vec![("a", 1, 1), ("b", 1, 0)]),
            (UsageBy::Month, vec![("2026-10", 1, 0), ("2026-11", 1, 1)]),
            (UsageBy::Component, vec![("c", 2, 1)]),
        ] {
            let mut table = UsageTable::new(by);
            receipts.iter().for_each(|receipt| table.add(receipt));
            let found: Vec<_> = table
                .groups
                .iter()
                .map(|(key, group)| {
                    (key.as_str(), group.billable.attempts, group.not_billable.attempts)
                })
                .collect();
            assert_eq!(found, keys, "{}", by.name());
            assert_eq!(table.total.billable.cpu_us, 20);
            assert_eq!(table.total.reasons, BTreeMap::from([("node_lost", 1)]));
        }
    }
}
