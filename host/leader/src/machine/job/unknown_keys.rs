//! Reports keys of JSON lines that match no column of their input: once when the first of them are found, and
//! once at the end, with their number.

use super::JobMachine;
use crate::model::{MiniBatch, UnknownKeys, count};

impl JobMachine {
    /// Adds the unknown keys of a committed attempt. Reports the first unknown keys of each input.
    pub(super) fn count_unknown_keys(&mut self, batch: &MiniBatch, found: Option<&UnknownKeys>) {
        let Some(found) = found else { return };
        let Some(source) = self.sources.get(batch.source as usize) else { return };
        let input = source.dataset.clone();
        if let Some(known) = self.unknown_keys.get_mut(&input) {
            return known.add(found);
        }
        let UnknownKeys { item, line, .. } = found;
        self.notice(format!(
            "input {input}: records have keys that match none of its columns and are left out of the table: {}, first \
             in {item}, line {line}; the columns were inferred from earlier rows. Set schema_inference to \
             full, or name all columns in schema (json takes any value)",
            quoted_names(found),
        ));
        self.unknown_keys.insert(input, found.clone());
    }

    /// Reports at the job's end how many records had unknown keys.
    pub(super) fn report_unknown_keys(&mut self) {
        for (input, found) in std::mem::take(&mut self.unknown_keys) {
            let records = match found.records {
                1 => "1 record had a key".to_owned(),
                records => format!("{} records had keys", count(records)),
            };
            self.notice(format!(
                "input {input}: {records} that match none of its columns: {}",
                quoted_names(&found)
            ));
        }
    }
}

fn quoted_names(keys: &UnknownKeys) -> String {
    let more = if keys.names.len() < UnknownKeys::NAMES { "" } else { " and maybe more" };
    let names: Vec<_> = keys.names.iter().map(|name| format!("'{name}'")).collect();
    format!("{}{more}", names.join(", "))
}
