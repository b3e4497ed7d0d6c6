//! Turns a bucket's segments into its groups.

use super::codec::ShuffleRow;
use super::index::GroupEntry;
use super::message::ShuffleSetup;
use super::runs::{RunInMemory, SortedRun, merge, spill_error};
use super::scatter::read_segment;
use crate::dataset::csv::encode_number;
use crate::dataset::{DatasetError, short};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

/// Writes the groups of a bucket, with their index. `pieces` is the number of pieces of the input; each has a
/// segment of the bucket.
pub(super) fn gather(setup: &ShuffleSetup, bucket: u32, pieces: u64) -> Result<(), DatasetError> {
    let folder = &setup.folder;
    let failed = |error: io::Error| spill_error(folder, &error);
    let mut gathering = Gathering { setup, bucket, run_count: 0, runs: Vec::new() };
    let last = gathering.sort(pieces).map_err(failed)?;
    gathering.merge_on_disk().map_err(failed)?;
    let mut sorted = Vec::with_capacity(gathering.runs.len() + 1);
    for run in &gathering.runs {
        sorted.push(SortedRun::open(run).map_err(failed)?);
    }
    sorted.push(SortedRun::Memory(last, 0));
    let mut groups = GroupWriter::create(setup, bucket).map_err(failed)?;
    merge(sorted, &mut |row| groups.add_row(row)).map_err(failed)?;
    groups.finish().map_err(failed)?;
    gathering.runs.iter().try_for_each(std::fs::remove_file).map_err(failed)
}

/// The sorted runs of a bucket, in the order of their rows.
struct Gathering<'a> {
    setup: &'a ShuffleSetup,
    bucket: u32,
    /// The number of runs made so far.
    run_count: usize,
    runs: Vec<PathBuf>,
}

impl Gathering<'_> {
    /// Makes sorted runs of all pieces. The last run stays in memory.
    fn sort(&mut self, pieces: u64) -> io::Result<RunInMemory> {
        let mut run = RunInMemory::default();
        for piece in 0..pieces {
            let from = run.bytes.len();
            read_segment(&self.setup.scattered(piece), self.bucket, &mut run.bytes)?;
            run.find_rows(from)?;
            if run.size() >= self.setup.bounds.run && piece + 1 < pieces {
                run.sort();
                let path = self.next_path();
                run.write(&path)?;
                self.runs.push(path);
                run.clear();
            }
        }
        run.sort();
        Ok(run)
    }

    /// Merges neighbouring runs on disk until few enough are left to merge all of them at once.
    fn merge_on_disk(&mut self) -> io::Result<()> {
        let fan_in = self.setup.bounds.fan_in.max(2);
        while self.runs.len() >= fan_in {
            let mut merged_runs = Vec::new();
            for runs in std::mem::take(&mut self.runs).chunks(fan_in) {
                let path = self.next_path();
                let mut out = BufWriter::new(File::create(&path)?);
                let sorted: io::Result<Vec<_>> =
                    runs.iter().map(|run| SortedRun::open(run)).collect();
                let mut bytes = Vec::new();
                merge(sorted?, &mut |row| {
                    bytes.clear();
                    row.encode(&mut bytes);
                    out.write_all(&bytes)
                })?;
                out.flush()?;
                runs.iter().try_for_each(std::fs::remove_file)?;
                merged_runs.push(path);
            }
            self.runs = merged_runs;
        }
        Ok(())
    }

    fn next_path(&mut self) -> PathBuf {
        self.run_count += 1;
        self.setup.run(self.bucket, self.run_count)
    }
}

/// Writes the groups. The rows must be sorted by key.
struct GroupWriter {
    text: BufWriter<File>,
    origins: BufWriter<File>,
    index: BufWriter<File>,
    /// The group that is being written, and the digest of its text.
    group: Option<(GroupEntry, Sha256)>,
    text_length: u64,
    origins_length: u64,
    scratch: Vec<u8>,
}

impl GroupWriter {
    fn create(setup: &ShuffleSetup, bucket: u32) -> io::Result<Self> {
        let create = |path: PathBuf| File::create(path).map(BufWriter::new);
        Ok(Self {
            text: create(setup.text(bucket))?,
            origins: create(setup.origins(bucket))?,
            index: create(setup.index(bucket))?,
            group: None,
            text_length: 0,
            origins_length: 0,
            scratch: Vec::new(),
        })
    }

    fn add_row(&mut self, row: ShuffleRow<'_>) -> io::Result<()> {
        if self.group.as_ref().is_none_or(|(group, _)| group.key != row.key) {
            self.end_group()?;
            let group = GroupEntry {
                key: row.key.to_vec(),
                offset: self.text_length,
                length: 0,
                rows: 0,
                origins_offset: self.origins_length,
                origins_length: 0,
                digest: 0,
            };
            self.group = Some((group, Sha256::new()));
        }
        self.text.write_all(row.text)?;
        self.text_length += row.text.len() as u64;
        self.scratch.clear();
        encode_number(row.file, &mut self.scratch);
        encode_number(row.line, &mut self.scratch);
        self.origins.write_all(&self.scratch)?;
        self.origins_length += self.scratch.len() as u64;
        if let Some((group, digest)) = &mut self.group {
            group.rows += 1;
            digest.update(row.text);
        }
        Ok(())
    }

    fn end_group(&mut self) -> io::Result<()> {
        let Some((mut group, digest)) = self.group.take() else { return Ok(()) };
        group.length = self.text_length - group.offset;
        group.origins_length = self.origins_length - group.origins_offset;
        group.digest = short(digest);
        self.scratch.clear();
        group.encode(&mut self.scratch)?;
        self.index.write_all(&self.scratch)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.end_group()?;
        self.text.flush()?;
        self.origins.flush()?;
        self.index.flush()
    }
}
