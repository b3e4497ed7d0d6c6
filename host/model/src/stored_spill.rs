//! Where the job's store has what mini-batches read of the planner's files: unpacked texts, and grouped rows.

use super::mini_batch::{MiniBatch, MiniBatchWork, SpilledRows, TextSlice};
use super::stored_bytes::StoredSpill;
use std::path::Path;

/// A range of one of the planner's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpillPart<'a> {
    /// The path below the planner's folder.
    pub file: &'a str,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
}

impl SpilledRows {
    /// The files with the names of the input files: the names, and their offsets. The second path is that of the first
    /// one, with the ending `index`.
    pub fn name_files(&self) -> [String; 2] {
        let index = Path::new(&self.names).with_extension("index");
        [self.names.clone(), index.to_string_lossy().into_owned()]
    }
}

impl MiniBatch {
    /// The ranges of the planner's files that the mini-batch reads. Empty if it reads none.
    pub fn spill_parts(&self) -> Vec<SpillPart<'_>> {
        fn part(slice: &TextSlice) -> Option<SpillPart<'_>> {
            let file = slice.unpacked.as_deref()?;
            Some(SpillPart { file, offset: slice.offset, length: slice.length })
        }
        match &self.work {
            MiniBatchWork::Text(slice) => part(slice).into_iter().collect(),
            MiniBatchWork::TextGroup(slices) => {
                slices.iter().filter_map(|(_, slice)| part(slice)).collect()
            }
            MiniBatchWork::Rows(rows) => {
                let SpilledRows { text, origins, origins_offset, origins_length, .. } = rows;
                let text = SpillPart { file: &text.file, offset: text.offset, length: text.length };
                let origins =
                    SpillPart { file: origins, offset: *origins_offset, length: *origins_length };
                vec![text, origins]
            }
            _ => Vec::new(),
        }
    }

    /// Whether a node must fetch what the mini-batch reads of the planner's files.
    pub fn must_fetch_spill(&self) -> bool {
        self.spill.is_some() && !self.is_unfetched()
    }

    /// The position of these bytes among what the mini-batch reads, after its [files](Self::reads).
    pub fn spill_position(&self) -> u32 {
        self.reads().len().try_into().unwrap_or(u32::MAX)
    }

    /// How many things must be fetched before a worker gets the mini-batch: files, and bytes of the planner's files.
    pub fn needs(&self) -> usize {
        self.reads().len() + usize::from(self.spill.is_some())
    }

    /// Reads the planner's files from copies on this machine: `file` has the [parts](Self::spill_parts), one after the
    /// other, and `names` is the first file of names. Returns where the job's store has them. `None` if it does not have them.
    pub fn read_spill_from(&mut self, file: &str, names: &str) -> Option<StoredSpill> {
        let spill = *self.spill.take()?;
        let mut end = 0;
        let mut place = |slice: &mut TextSlice| {
            slice.offset = end;
            end += slice.length;
        };
        match &mut self.work {
            MiniBatchWork::Text(slice) => {
                place(slice);
                slice.unpacked = Some(file.to_owned());
            }
            MiniBatchWork::TextGroup(slices) => {
                for (_, slice) in slices.iter_mut().filter(|(_, slice)| slice.unpacked.is_some()) {
                    place(slice);
                    slice.unpacked = Some(file.to_owned());
                }
            }
            MiniBatchWork::Rows(rows) => {
                place(&mut rows.text);
                file.clone_into(&mut rows.text.file);
                file.clone_into(&mut rows.origins);
                rows.origins_offset = end;
                names.clone_into(&mut rows.names);
            }
            _ => {}
        }
        Some(spill)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MiniBatchId, StoredBytes};

    fn stored(length: u64) -> Option<Box<StoredSpill>> {
        let parts = StoredBytes { epoch: 1, object: 2, offset: 3, length, sha256: [7; 32] };
        Some(Box::new(StoredSpill { parts, names: None }))
    }

    fn slice(offset: u64, unpacked: Option<&str>) -> TextSlice {
        let unpacked = unpacked.map(str::to_owned);
        TextSlice { offset, length: 10, unpacked, ..TextSlice::sample() }
    }

    #[test]
    fn a_group_of_packed_and_other_texts_is_read_from_one_copy() {
        let slices = vec![(0, slice(5, Some("a"))), (1, slice(6, None)), (2, slice(7, Some("b")))];
        let work = MiniBatchWork::TextGroup(slices);
        let mut batch = MiniBatch { spill: stored(20), ..MiniBatch::new(MiniBatchId(0), 0, work) };
        let part = |file, offset| SpillPart { file, offset, length: 10 };
        assert_eq!(batch.spill_parts(), [part("a", 5), part("b", 7)]);
        assert_eq!((batch.spill_position(), batch.needs(), batch.must_fetch_spill()), (3, 4, true));
        assert_eq!(batch.read_spill_from("7", "unused").map(Box::new), stored(20));
        assert_eq!(batch.spill_parts(), [part("7", 0), part("7", 10)]);
        let MiniBatchWork::TextGroup(slices) = &batch.work else { panic!("{batch:?}") };
        assert_eq!(slices[1].1, slice(6, None), "the planner has not unpacked it");
        assert!(!batch.must_fetch_spill() && batch.read_spill_from("8", "").is_none());
    }

    #[test]
    fn grouped_rows_come_before_their_origins() {
        let rows = SpilledRows {
            text: TextSlice { file: "0/text-3".to_owned(), ..slice(5, None) },
            origins: "0/origins-3".to_owned(),
            origins_offset: 2,
            origins_length: 4,
            names: "0/names.text".to_owned(),
        };
        assert_eq!(rows.name_files(), ["0/names.text", "0/names.index"]);
        let work = MiniBatchWork::Rows(rows);
        let mut batch = MiniBatch { spill: stored(14), ..MiniBatch::new(MiniBatchId(0), 0, work) };
        assert_eq!(batch.spill_parts().iter().map(|part| part.length).sum::<u64>(), 14);
        batch.read_spill_from("7", "n.text");
        let MiniBatchWork::Rows(rows) = &batch.work else { panic!("{batch:?}") };
        assert_eq!((rows.text.offset, rows.origins_offset), (0, 10));
        assert_eq!((rows.text.file.as_str(), rows.origins.as_str()), ("7", "7"));
        assert_eq!(rows.names, "n.text");
        // A machine that could not fetch it.
        let mut batch = MiniBatch { spill: stored(1), ..batch };
        batch.set_unfetched(vec![(batch.spill_position(), "gone".to_owned())]);
        assert!(batch.is_unfetched() && !batch.must_fetch_spill());
    }
}
