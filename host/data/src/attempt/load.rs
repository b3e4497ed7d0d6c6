//! Turns a mini-batch's descriptor into the data for the guest.

use super::loaded::{FileRows, LoadedMiniBatch};
use super::report::host_fault;
use super::stage::{StageFolder, checked};
use crate::dataset::csv::read_slice;
use crate::dataset::{
    DatasetError, FileVersion, OpenRoot, RowError, RowPart, RowReader, RowRun, TablePart,
    TableReader, content_stamp,
};
use crate::model::{
    AttemptReport, FailedItem, Failure, FailureKind, JobDir, MiniBatch, MiniBatchWork, Mount,
    Names, Source, SpilledRows, TableFormat, TableSlice, TextSlice, WorkerId,
};
use crate::output::MiniBatchData;
use jiff::{SignedDuration, Timestamp};
use std::path::{Path, PathBuf};

/// The kernel's clock for file times advances in steps of some milliseconds. A file's time may be this
/// much too early, so we subtract this step from the time at which files were loaded.
const FILE_TIME_STEP: SignedDuration = SignedDuration::from_millis(20);

/// Loads one mini-batch after another and reuses its buffers.
#[derive(Debug)]
pub struct Loader {
    /// The sources of all inputs. An input has one source for each of its paths.
    sources: Vec<LoadedSource>,
    /// The table format of each source; empty if mini-batches consist of files.
    tables: Vec<TableFormat>,
    /// The folder of spill files: rows that the planner gathered from many files, and unpacked
    /// texts.
    spill: PathBuf,
    /// The paths of the mini-batch's files, as the guest sees them.
    paths: Vec<String>,
    /// When files were last loaded, in seconds since 1970 and nanoseconds.
    loaded_at: (i64, u32),
}

#[derive(Debug)]
struct LoadedSource {
    source: Source,
    root: OpenRoot,
    /// Shows the guest single files of the source's folder; `None` if the guest may see the whole folder.
    stage: Option<StageFolder>,
    /// Reads slices of text files. Like the other readers, it is made on first use.
    text_reader: Option<TableReader>,
    /// Reads rows that were gathered from many files.
    gathered_reader: Option<TableReader>,
    /// Reads rows of Parquet and Arrow files and of databases.
    columnar_reader: Option<RowReader>,
}

impl Loader {
    /// A loader for these sources. Also makes the folders that show the guest single files of a source.
    pub fn new(
        sources: &[Source],
        tables: &[TableFormat],
        job_dir: &JobDir,
        worker: WorkerId,
    ) -> Result<Self, Failure> {
        let mut loaded_sources = Vec::with_capacity(sources.len());
        for (index, source) in sources.iter().enumerate() {
            let stage = if tables.is_empty() && source.pattern.is_some() {
                let root = job_dir.worker_inputs(worker).join(index.to_string());
                let made = StageFolder::create(root.clone(), job_dir.worker_copies(worker));
                Some(made.map_err(|e| host_fault("make", &root, &e))?)
            } else {
                None
            };
            let (source, root) = (source.clone(), OpenRoot::open(&source.root));
            loaded_sources.push(LoadedSource {
                source,
                root,
                stage,
                text_reader: None,
                gathered_reader: None,
                columnar_reader: None,
            });
        }
        let spill = job_dir.spill();
        let (sources, tables) = (loaded_sources, tables.to_vec());
        Ok(Self { sources, tables, spill, paths: Vec::new(), loaded_at: (0, 0) })
    }

    /// Reads the planner's spill files from this folder, and not from that of the job directory.
    #[must_use]
    pub fn with_spill(self, spill: PathBuf) -> Self {
        Self { spill, ..self }
    }

    /// The input folders that the guest sees. The list is empty if the guest receives tables.
    pub fn mounts(&self) -> impl Iterator<Item = Mount> {
        let shown = if self.tables.is_empty() { self.sources.as_slice() } else { &[] };
        shown.iter().map(|shown| Mount {
            host: shown.stage.as_ref().map_or(&shown.source.root, |stage| stage.root()).clone(),
            guest: shown.source.guest.clone(),
            writable: false,
        })
    }

    /// Whether loading may take so long that earlier reports should be sent to the leader first.
    pub fn takes_time(&self, mini_batch: &MiniBatch) -> bool {
        let is_staged = |source: u32| {
            let source = self.sources.get(source as usize);
            source.is_some_and(|source| source.stage.is_some())
        };
        match &mini_batch.work {
            MiniBatchWork::Void => false,
            MiniBatchWork::Text(_)
            | MiniBatchWork::TextGroup(_)
            | MiniBatchWork::Rows(_)
            | MiniBatchWork::Table(_)
            | MiniBatchWork::TableGroup(_) => true,
            MiniBatchWork::Unreadable(_) => false,
            MiniBatchWork::Files(_) => is_staged(mini_batch.source),
            MiniBatchWork::FileGroup(parts) => parts.iter().any(|(source, _)| is_staged(*source)),
        }
    }

    /// Loads a mini-batch. The cause of a failure is the machine or the input, never the guest.
    pub fn load(&mut self, mini_batch: &MiniBatch) -> Result<LoadedMiniBatch<'_>, Failure> {
        if matches!(mini_batch.work, MiniBatchWork::Void) {
            return Ok(LoadedMiniBatch::new(MiniBatchData::Void, "", 0));
        }
        let label = match mini_batch.partition.as_slice() {
            [] => String::new(),
            _ => format!("{} with {}", self.guest_path(mini_batch.source)?, mini_batch.keys()),
        };
        let index = mini_batch.source as usize;
        self.source(mini_batch.source)?;
        if let (true, Some((_, reason))) = (mini_batch.is_unfetched(), mini_batch.unfetched.first())
        {
            return Err(failed(reason.clone()));
        }
        match &mini_batch.work {
            MiniBatchWork::Void => Ok(LoadedMiniBatch::new(MiniBatchData::Void, "", 0)),
            MiniBatchWork::Files(_) | MiniBatchWork::FileGroup(_) => self.load_files(mini_batch),
            MiniBatchWork::Text(slice) => {
                let parts = [self.part(mini_batch.source, slice)?];
                let label = parts[0].2.clone();
                self.sources[index].load_tables(&parts, self.tables.get(index), label)
            }
            MiniBatchWork::TextGroup(slices) => {
                let parts = slices.iter().map(|(source, slice)| self.part(*source, slice));
                let parts = parts.collect::<Result<Vec<_>, _>>()?;
                self.sources[index].load_tables(&parts, self.tables.get(index), label)
            }
            MiniBatchWork::Table(slice) => {
                let part = self.table_part(mini_batch.source, slice)?;
                self.sources[index].load_file_rows(&[part], self.tables.get(index))
            }
            MiniBatchWork::TableGroup(slices) => {
                let parts = slices.iter().map(|(source, slice)| self.table_part(*source, slice));
                let parts = parts.collect::<Result<Vec<_>, _>>()?;
                self.sources[index].load_file_rows(&parts, self.tables.get(index))
            }
            MiniBatchWork::Unreadable(bad) => Err(failed(bad.reason.clone())),
            MiniBatchWork::Rows(rows) => self.sources[index].load_gathered_rows(
                &self.spill,
                rows,
                self.tables.get(index),
                label,
            ),
        }
    }

    fn source(&self, source: u32) -> Result<&LoadedSource, Failure> {
        self.sources.get(source as usize).ok_or_else(|| unknown_source(source, self.sources.len()))
    }

    /// The path under which the guest sees a source.
    fn guest_path(&self, source: u32) -> Result<&str, Failure> {
        Ok(&self.source(source)?.source.guest)
    }

    /// Returns a slice, the folder that its text is in, and the path under which the guest sees the
    /// file.
    fn part<'a>(
        &self,
        source: u32,
        slice: &'a TextSlice,
    ) -> Result<(PathBuf, &'a TextSlice, String), Failure> {
        checked(&slice.file)?;
        let source = &self.source(source)?.source;
        let root = match &slice.unpacked {
            Some(unpacked) => checked(unpacked).map(|_| &self.spill)?,
            None => &source.root,
        };
        Ok((root.clone(), slice, format!("{}/{}", source.guest, slice.file)))
    }

    /// Returns a slice of a Parquet or Arrow file or of a database, the folder of its source, and
    /// the path under which the guest sees the file.
    fn table_part<'a>(
        &self,
        source: u32,
        slice: &'a TableSlice,
    ) -> Result<(PathBuf, &'a TableSlice, String), Failure> {
        checked(&slice.file)?;
        let source = &self.source(source)?.source;
        Ok((source.root.clone(), slice, format!("{}/{}", source.guest, slice.file)))
    }

    /// Loads files of one or more sources. Files that could not be fetched from their store are not passed to
    /// the guest, and count as failed items.
    fn load_files(&mut self, mini_batch: &MiniBatch) -> Result<LoadedMiniBatch<'_>, Failure> {
        let now = Timestamp::now() - FILE_TIME_STEP;
        self.loaded_at = (now.as_second(), now.subsec_nanosecond().unsigned_abs());
        let parts: Vec<(u32, &Names)> = match &mini_batch.work {
            MiniBatchWork::Files(files) => vec![(mini_batch.source, files)],
            MiniBatchWork::FileGroup(parts) => {
                parts.iter().map(|(source, files)| (*source, files)).collect()
            }
            _ => Vec::new(),
        };
        let mut rejected = Vec::new();
        let mut file_index = 0;
        let count: usize = parts.iter().map(|(_, files)| files.len()).sum();
        let count = count.saturating_sub(mini_batch.unfetched.len());
        self.paths.resize_with(count, String::new);
        let mut paths = self.paths.iter_mut();
        for (source, files) in parts {
            let source_count = self.sources.len();
            let loaded = self.sources.get_mut(source as usize);
            let loaded = loaded.ok_or_else(|| unknown_source(source, source_count))?;
            let mut fetched = Vec::new();
            let guest = &loaded.source.guest;
            for file in files.iter() {
                match mini_batch.why_unfetched(file_index) {
                    None => fetched.push(file),
                    Some(reason) if rejected.len() < AttemptReport::MAX_FAILED_ITEMS => {
                        let item = format!("{guest}/{file}");
                        let reason = reason.to_owned();
                        let kind = FailureKind::LoadFailed;
                        rejected.push(FailedItem { item, line: None, row: None, reason, kind });
                    }
                    Some(_) => {}
                }
                file_index += 1;
            }
            match &mut loaded.stage {
                Some(stage) => stage.show(&loaded.source.root, &fetched)?,
                None => fetched.iter().try_for_each(|file| checked(file).map(drop))?,
            }
            for (file, path) in fetched.iter().zip(&mut paths) {
                path.clear();
                path.push_str(guest);
                path.push('/');
                path.push_str(file);
            }
        }
        let dataset = &self.source(mini_batch.source)?.source.dataset;
        let loaded = LoadedMiniBatch::new(MiniBatchData::Files(&self.paths), dataset, count as u64);
        Ok(LoadedMiniBatch {
            rejected_count: mini_batch.unfetched.len() as u64,
            rejected,
            ..loaded
        })
    }

    /// The [stamp](crate::model::AttemptReport::stamp) of the mini-batch that was loaded last. It covers the
    /// state of each file. `found` has the states of the files that the guest has read; the other files are
    /// inspected now. If the state of any file is unknown, returns the stamp from the plan. The state is
    /// unknown if the file is gone or could not be fetched. It is also unknown if the file was changed after
    /// the mini-batch was loaded, because the guest may have read the file before the change.
    pub fn stamp(&self, mini_batch: &MiniBatch, found: &[Option<FileVersion>]) -> u64 {
        if !mini_batch.unfetched.is_empty() {
            return mini_batch.stamp;
        }
        let files = mini_batch.files().enumerate().map(|(index, (source, file))| {
            let source = self.sources.get(source as usize)?;
            match found.get(index) {
                // With a stage, the guest may have read a copy, which may have another time.
                Some(Some(found)) if source.stage.is_none() => Some(*found),
                _ => source.root.version_of(file).filter(|found| !found.is_after(self.loaded_at)),
            }
        });
        content_stamp(mini_batch.stamp, files)
    }

    /// Hides the files that only the last mini-batch may see.
    pub fn unload(&mut self, mini_batch: &MiniBatch) -> std::io::Result<()> {
        let mut clear = |source: u32| match self.sources.get_mut(source as usize) {
            Some(LoadedSource { stage: Some(stage), .. }) => stage.clear(),
            _ => Ok(()),
        };
        match &mini_batch.work {
            MiniBatchWork::FileGroup(parts) => {
                parts.iter().try_for_each(|(source, _)| clear(*source))
            }
            _ => clear(mini_batch.source),
        }
    }
}

impl LoadedSource {
    /// Loads slices of the source's text files; `label` is the name for all slices together.
    fn load_tables(
        &mut self,
        parts: &[(PathBuf, &TextSlice, String)],
        format: Option<&TableFormat>,
        label: String,
    ) -> Result<LoadedMiniBatch<'_>, Failure> {
        let reader = get_or_make(&mut self.text_reader, format, TableReader::new)?;
        let slices = parts.iter().map(|(root, slice, item)| TablePart { root, slice, item });
        let table = reader.read_group(slices, &label).map_err(|e| refused(&e, parts))?;
        Ok(LoadedMiniBatch::table(table, &self.source.dataset, label))
    }

    /// Loads rows that were gathered from many files.
    fn load_gathered_rows(
        &mut self,
        spill: &Path,
        rows: &SpilledRows,
        format: Option<&TableFormat>,
        label: String,
    ) -> Result<LoadedMiniBatch<'_>, Failure> {
        for file in [&rows.text.file, &rows.origins, &rows.names] {
            checked(file)?;
        }
        let reader = get_or_make(&mut self.gathered_reader, format, TableReader::for_rows)?;
        let table = reader.read_rows(spill, rows, &label);
        let table =
            table.map_err(|e| refused(&e, &[(spill.to_owned(), &rows.text, String::new())]))?;
        Ok(LoadedMiniBatch::table(table, &self.source.dataset, label))
    }

    /// Loads rows of Parquet and Arrow files and of databases.
    fn load_file_rows(
        &mut self,
        parts: &[(PathBuf, &TableSlice, String)],
        format: Option<&TableFormat>,
    ) -> Result<LoadedMiniBatch<'_>, Failure> {
        let reader = match self.columnar_reader.take() {
            Some(reader) => reader,
            None => {
                let unknown = || failed("no table format is known for the input".to_owned());
                RowReader::new(format.ok_or_else(unknown)?).map_err(|e| failed(e.to_string()))?
            }
        };
        let reader = self.columnar_reader.insert(reader);
        let slices = parts.iter().map(|(root, slice, item)| RowPart { root, slice, item });
        let table = reader.read(slices).map_err(|error| match error {
            RowError::Unread(error) => failed(error.to_string()),
            RowError::Broken(error) => Failure::new(FailureKind::BadInput, error.to_string()),
        })?;
        let file_rows = |run: &RowRun| {
            let item = parts.get(run.part).map(|(_, _, item)| item.clone()).unwrap_or_default();
            FileRows { item, first: run.first, count: run.count }
        };
        Ok(LoadedMiniBatch {
            file_rows: table.runs.iter().map(file_rows).collect(),
            rejected_count: table.rejected_count,
            rejected: table.rejected,
            ..LoadedMiniBatch::new(
                MiniBatchData::Table(table.ipc.pieces()),
                &self.source.dataset,
                table.rows,
            )
        })
    }
}

fn unknown_source(source: u32, count: usize) -> Failure {
    let message = format!(
        "the mini-batch refers to source number {source} (counted from 0), and the number of sources \
         is {count}"
    );
    Failure::new(FailureKind::HostFault, message)
}

fn failed(message: String) -> Failure {
    Failure::new(FailureKind::LoadFailed, message)
}

/// Returns the failure for text slices that could not be loaded. If all slices can be read now,
/// their content is at fault, and a retry would fail, too.
fn refused(error: &DatasetError, parts: &[(PathBuf, &TextSlice, String)]) -> Failure {
    let mut buffer = Vec::new();
    let is_readable = |(root, slice, _): &(PathBuf, &TextSlice, String)| {
        read_slice(root, slice, &mut buffer).is_ok()
    };
    let kind = match parts.iter().all(is_readable) {
        true => FailureKind::BadInput,
        false => FailureKind::LoadFailed,
    };
    Failure::new(kind, error.to_string())
}

/// Returns the reader, and makes it on first use.
fn get_or_make<'a>(
    reader: &'a mut Option<TableReader>,
    format: Option<&TableFormat>,
    make: impl FnOnce(&TableFormat) -> Result<TableReader, DatasetError>,
) -> Result<&'a mut TableReader, Failure> {
    let made = match reader.take() {
        Some(made) => made,
        None => {
            let unknown = || failed("no table format is known for the input".to_owned());
            let format = format.ok_or_else(unknown)?;
            make(format).map_err(|e| failed(e.to_string()))?
        }
    };
    Ok(reader.insert(made))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MiniBatchId;

    fn source(root: &Path, pattern: Option<&str>) -> Source {
        Source { pattern: pattern.map(str::to_owned), ..Source::new("images", root.to_owned()) }
    }

    fn files(names: &[&str]) -> MiniBatch {
        MiniBatch::new(MiniBatchId(0), 0, MiniBatchWork::Files(names.iter().collect()))
    }

    #[test]
    fn files_are_named_as_the_guest_sees_them() {
        let folder = tempfile::tempdir().unwrap();
        let job_dir = JobDir::new(folder.path());
        let sources = [source(folder.path(), None)];
        let mut loader = Loader::new(&sources, &[], &job_dir, WorkerId(0)).unwrap();
        assert_eq!(loader.mounts().next().unwrap().host, folder.path());
        for names in [&["b", "c", "d"][..], &["a/x.png"]] {
            let mini_batch = files(names);
            assert!(!loader.takes_time(&mini_batch));
            let loaded = loader.load(&mini_batch).unwrap();
            assert_eq!((loaded.items, loaded.dataset), (names.len() as u64, "images"));
            let MiniBatchData::Files(paths) = loaded.data else { panic!("no files") };
            assert_eq!(paths.len(), names.len());
            assert_eq!(loaded.item_name(0), format!("/inputs/images/{}", names[0]));
            loader.unload(&mini_batch).unwrap();
        }
        assert_eq!(loader.load(&files(&["a/../../x"])).unwrap_err().kind, FailureKind::LoadFailed);
        let wrong = MiniBatch { source: 7, ..files(&["a"]) };
        insta::assert_snapshot!(loader.load(&wrong).unwrap_err(), @"the mini-batch refers to source number 7 (counted from 0), and the number of sources is 1");
    }

    #[test]
    fn a_pattern_hides_the_other_files_of_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.png"), "a").unwrap();
        std::fs::write(folder.path().join("secret.txt"), "s").unwrap();
        let job_dir = JobDir::new(folder.path().join("job"));
        let sources = [source(folder.path(), Some("*.png"))];
        let mut loader = Loader::new(&sources, &[], &job_dir, WorkerId(0)).unwrap();
        let shown = loader.mounts().next().unwrap().host;
        assert_eq!(shown, job_dir.worker_inputs(WorkerId(0)).join("0"));
        let mini_batch = files(&["a.png"]);
        assert!(loader.takes_time(&mini_batch));
        assert_eq!(loader.load(&mini_batch).unwrap().items, 1);
        assert!(shown.join("a.png").is_file() && !shown.join("secret.txt").exists());
        loader.unload(&mini_batch).unwrap();
        assert!(!shown.join("a.png").exists());
    }

    /// Rule C25 in docs/parallel-run-step.md: only files that the guest has not read are inspected again.
    #[test]
    fn a_stamp_covers_the_state_of_each_file() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let age = |name: &str, seconds| {
            let file = std::fs::File::open(folder.path().join(name)).unwrap();
            file.set_modified((Timestamp::now() - SignedDuration::from_secs(seconds)).into())
                .unwrap();
        };
        age("a", 100);
        age("b", 100);
        let job_dir = JobDir::new(folder.path().join("job"));
        let root = OpenRoot::open(folder.path());
        let read =
            |name: &str, length| Some(FileVersion { length, ..root.version_of(name).unwrap() });
        let sources = [source(folder.path(), None), source(folder.path(), Some("*"))];
        let loader = || Loader::new(&sources, &[], &job_dir, WorkerId(0)).unwrap();
        let stamp = |source, found: &[Option<FileVersion>]| {
            let mini_batch = MiniBatch { source, stamp: 7, ..files(&["a", "b"]) };
            let mut loader = loader();
            loader.load(&mini_batch).unwrap();
            loader.stamp(&mini_batch, found)
        };
        let inspected = stamp(0, &[]);
        assert_eq!(inspected, stamp(0, &[read("a", 1), read("b", 1)]));
        assert_eq!(inspected, stamp(0, &[None, read("b", 1)]));
        assert_ne!(
            inspected,
            stamp(0, &[read("a", 2)]),
            "the state that the guest has read counts"
        );
        assert_eq!(inspected, stamp(1, &[read("a", 2)]), "a copy may have another time");
        // An input with two sources. The second source has a stage.
        let parts = vec![(0, ["b"].into()), (1, ["a"].into())];
        let group = MiniBatch { stamp: 7, ..files(&[]) };
        let group = MiniBatch { work: MiniBatchWork::FileGroup(parts), ..group };
        let mut grouped = loader();
        grouped.load(&group).unwrap();
        let swapped = MiniBatch { stamp: 7, ..files(&["b", "a"]) };
        assert_eq!(grouped.stamp(&group, &[read("b", 1), read("a", 9)]), {
            let mut loader = loader();
            loader.load(&swapped).unwrap();
            loader.stamp(&swapped, &[])
        });
        // The state of a file is unknown if the file is gone or was changed after loading.
        let mini_batch = MiniBatch { stamp: 7, ..files(&["a", "b"]) };
        let mut loader = loader();
        loader.load(&mini_batch).unwrap();
        age("b", 0);
        assert_eq!(loader.stamp(&mini_batch, &[]), 7);
        assert_ne!(loader.stamp(&mini_batch, &[None, read("b", 1)]), 7);
        std::fs::remove_file(folder.path().join("b")).unwrap();
        assert_eq!(loader.stamp(&mini_batch, &[]), 7);
        let void = MiniBatch { stamp: 7, ..MiniBatch::new(MiniBatchId(0), 0, MiniBatchWork::Void) };
        assert_eq!(loader.stamp(&void, &[]), 7);
    }

    #[test]
    fn void_needs_no_input() {
        let job_dir = JobDir::new("unused");
        let mut loader = Loader::new(&[], &[], &job_dir, WorkerId(0)).unwrap();
        let mini_batch = MiniBatch::new(MiniBatchId(0), 0, MiniBatchWork::Void);
        let loaded = loader.load(&mini_batch).unwrap();
        assert!(matches!(loaded.data, MiniBatchData::Void));
        assert_eq!((loaded.items, loaded.dataset), (0, ""));
    }
}
