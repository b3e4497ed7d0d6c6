//! The receipts of several job directories together. A receipt that is in more than one of them, because one is a copy of
//! another, counts once.

use super::journal::{JournalError, ReceiptReader, SealedReceipt};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

/// Calls `visit` with each receipt in these journals, and `skip` with the error of each journal that cannot be read. No receipt
/// of such a journal is visited. Returns how many journals were read.
pub fn each_receipt(
    journals: &[PathBuf],
    visit: &mut dyn FnMut(&SealedReceipt),
    skip: &mut dyn FnMut(JournalError),
) -> u64 {
    // Only jobs that are in several journals need the hashes of all their receipts in memory.
    let mut times: HashMap<String, u32> = HashMap::new();
    let mut readable = Vec::new();
    for journal in journals {
        match ReceiptReader::open(journal) {
            Ok(reader) => {
                *times.entry(reader.job().to_owned()).or_default() += 1;
                readable.push(journal);
            }
            Err(error) => skip(error),
        }
    }
    let mut seen: HashSet<String> = HashSet::new();
    let mut read = 0;
    for journal in readable {
        let visited = ReceiptReader::open(journal).and_then(|reader| {
            // The first pass only finds out whether all receipts can be read. Keeping them would need too much memory.
            reader.for_each(&mut |_| ())?;
            let is_shared = times.get(reader.job()).is_some_and(|times| *times > 1);
            reader.for_each(&mut |sealed| {
                if !is_shared || seen.insert(sealed.hash.clone()) {
                    visit(&sealed);
                }
            })
        });
        match visited {
            Ok(()) => read += 1,
            Err(error) => skip(error),
        }
    }
    read
}
