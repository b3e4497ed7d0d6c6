//! Keys of JSON lines that no column takes: told at once, and counted.

use super::JobMachine;
use crate::model::{MiniBatch, UnknownKeys, count};

impl JobMachine {
    /// Takes in what a committed attempt says of them; the first of an input is told.
    pub(super) fn count_unknown_keys(&mut self, batch: &MiniBatch, found: Option<&UnknownKeys>) {
        let Some(found) = found else { return };
        let Some(source) = self.sources.get(batch.source as usize) else { return };
        let input = source.dataset.clone();
        if let Some(known) = self.unknown_keys.get_mut(&input) {
            return known.add(found);
        }
        let UnknownKeys { item, line, .. } = found;
        self.notice(format!(
            "input {input}: records have keys that none of its columns takes, and that are left out: {}, first \
             in {item}, line {line}; the columns were learned from the rows before. Set schema_inference to full, \
             or name all columns in schema (json takes any value)",
            named(found),
        ));
        self.unknown_keys.insert(input, found.clone());
    }

    /// Tells how many records there were, at the job's end.
    pub(super) fn tell_unknown_keys(&mut self) {
        for (input, found) in std::mem::take(&mut self.unknown_keys) {
            let records = match found.records {
                1 => "1 record had a key".to_owned(),
                records => format!("{} records had keys", count(records)),
            };
            self.notice(format!(
                "input {input}: {records} that none of its columns takes: {}",
                named(&found)
            ));
        }
    }
}

fn named(keys: &UnknownKeys) -> String {
    let more = if keys.names.len() < UnknownKeys::NAMES { "" } else { " and maybe more" };
    let names: Vec<_> = keys.names.iter().map(|name| format!("'{name}'")).collect();
    format!("{}{more}", names.join(", "))
}
