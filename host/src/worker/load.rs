//! From a mini-batch's descriptor to what the guest is given.

use super::report::host_fault;
use super::stage::{Stage, checked};
use crate::dataset::{RowLines, TableReader};
use crate::model::{
    CsvSlice, FailedItem, Failure, FailureKind, JobDir, MiniBatch, Mount, Source, TableFormat,
    Work, WorkerId,
};
use crate::sandbox::MiniBatchData;
use std::path::Path;

/// Loads one mini-batch after the other and keeps its buffers.
#[derive(Debug)]
pub(super) struct Loader {
    inputs: Vec<Input>,
    tables: Vec<TableFormat>,
    paths: Vec<String>,
}

#[derive(Debug)]
struct Input {
    source: Source,
    /// For files of a folder that must not be shown whole.
    stage: Option<Stage>,
    /// Made when the first of its mini-batches comes.
    reader: Option<TableReader>,
}

/// A mini-batch, ready for the guest.
#[derive(Debug)]
pub(super) struct Loaded<'a> {
    /// What `run` gets.
    pub(super) data: MiniBatchData<'a>,
    /// The input's name.
    pub(super) dataset: &'a str,
    /// Items in `data`.
    pub(super) items: u64,
    /// Records that are no part of `data` because they do not fit the schema.
    pub(super) rejected_count: u64,
    /// The first of them.
    pub(super) rejected: Vec<FailedItem>,
    /// The file that a table comes from, as items are called in reports.
    pub(super) table_file: String,
    /// Where a table's rows stand in their file, if they come from one.
    pub(super) lines: Option<RowLines<'a>>,
}

impl Loader {
    /// Makes the folders that inputs are shown in, where they cannot be shown as they are.
    pub(super) fn new(
        sources: &[Source],
        tables: &[TableFormat],
        job_dir: &JobDir,
        worker: WorkerId,
    ) -> Result<Self, Failure> {
        let mut inputs = Vec::with_capacity(sources.len());
        for (index, source) in sources.iter().enumerate() {
            let stage = if tables.is_empty() && source.pattern.is_some() {
                let root = job_dir.worker_inputs(worker).join(index.to_string());
                let made = Stage::create(root.clone());
                Some(made.map_err(|e| host_fault("make", &root, &e))?)
            } else {
                None
            };
            inputs.push(Input { source: source.clone(), stage, reader: None });
        }
        Ok(Self { inputs, tables: tables.to_vec(), paths: Vec::new() })
    }

    /// What the guest sees of the inputs. Nothing where it gets tables: it has no need to.
    pub(super) fn mounts(&self) -> impl Iterator<Item = Mount> {
        let shown = if self.tables.is_empty() { self.inputs.as_slice() } else { &[] };
        shown.iter().map(|input| Mount {
            host: input.stage.as_ref().map_or(&input.source.root, |stage| stage.root()).clone(),
            guest: input.source.guest.clone(),
            writable: false,
        })
    }

    /// Whether loading takes longer than the leader should wait for an earlier report.
    pub(super) fn takes_time(&self, mini_batch: &MiniBatch) -> bool {
        match mini_batch.work {
            Work::Void => false,
            Work::Csv(_) => true,
            Work::Files(_) => self
                .inputs
                .get(mini_batch.source as usize)
                .is_some_and(|input| input.stage.is_some()),
        }
    }

    /// Loads a mini-batch. A failure is the machine's or the input's, never the guest's.
    pub(super) fn load(&mut self, mini_batch: &MiniBatch) -> Result<Loaded<'_>, Failure> {
        if matches!(mini_batch.work, Work::Void) {
            return Ok(Loaded::new(MiniBatchData::Void, "", 0));
        }
        let (index, count) = (mini_batch.source as usize, self.inputs.len());
        let input = self.inputs.get_mut(index).ok_or_else(|| {
            let message = format!("the mini-batch names input {index} of {count}");
            Failure::new(FailureKind::HostFault, message)
        })?;
        match &mini_batch.work {
            Work::Void => Ok(Loaded::new(MiniBatchData::Void, "", 0)),
            Work::Files(files) => input.load_files(files, &mut self.paths),
            Work::Csv(slice) => input.load_table(slice, self.tables.get(index)),
        }
    }

    /// Takes away what only the last mini-batch may see.
    pub(super) fn unload(&mut self, mini_batch: &MiniBatch) -> std::io::Result<()> {
        match self.inputs.get_mut(mini_batch.source as usize) {
            Some(Input { stage: Some(stage), .. }) => stage.clear(),
            _ => Ok(()),
        }
    }
}

impl Input {
    fn load_files<'a>(
        &'a mut self,
        files: &[String],
        paths: &'a mut Vec<String>,
    ) -> Result<Loaded<'a>, Failure> {
        match &mut self.stage {
            Some(stage) => stage.show(&self.source.root, files)?,
            None => files.iter().try_for_each(|file| checked(file).map(drop))?,
        }
        paths.resize_with(files.len(), String::new);
        for (path, file) in paths.iter_mut().zip(files) {
            path.clear();
            path.push_str(&self.source.guest);
            path.push('/');
            path.push_str(file);
        }
        let items = files.len() as u64;
        Ok(Loaded::new(MiniBatchData::Files(paths), &self.source.dataset, items))
    }

    fn load_table(
        &mut self,
        slice: &CsvSlice,
        format: Option<&TableFormat>,
    ) -> Result<Loaded<'_>, Failure> {
        checked(&slice.file)?;
        let failed = |message: String| Failure::new(FailureKind::LoadFailed, message);
        if self.reader.is_none() {
            let format = format
                .ok_or_else(|| failed("no table format is known for the input".to_owned()))?;
            self.reader = Some(TableReader::new(format).map_err(|e| failed(e.to_string()))?);
        }
        let Some(reader) = &mut self.reader else {
            return Err(failed("no reader for the input".to_owned()));
        };
        let item = format!("{}/{}", self.source.guest, slice.file);
        let root: &Path = &self.source.root;
        let table = reader.read(root, slice, &item).map_err(|e| failed(e.to_string()))?;
        Ok(Loaded {
            data: MiniBatchData::Table(table.ipc),
            dataset: &self.source.dataset,
            items: table.rows,
            rejected_count: table.rejected_count,
            rejected: table.rejected,
            table_file: item,
            lines: Some(table.lines),
        })
    }
}

impl<'a> Loaded<'a> {
    fn new(data: MiniBatchData<'a>, dataset: &'a str, items: u64) -> Self {
        let (rejected, table_file) = (Vec::new(), String::new());
        Self { data, dataset, items, rejected_count: 0, rejected, table_file, lines: None }
    }

    /// What an item is called in reports.
    pub(super) fn item_name(&self, index: usize) -> &str {
        match self.data {
            MiniBatchData::Files(paths) => paths.get(index).map_or("", String::as_str),
            _ => &self.table_file,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MiniBatchId;

    fn source(root: &Path, pattern: Option<&str>) -> Source {
        Source {
            dataset: "images".to_owned(),
            root: root.to_owned(),
            guest: "/inputs/images".to_owned(),
            pattern: pattern.map(str::to_owned),
            partition_format: None,
        }
    }

    fn files(names: &[&str]) -> MiniBatch {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        MiniBatch::new(MiniBatchId(0), 0, Work::Files(names))
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
        assert_eq!(loader.load(&wrong).unwrap_err().message, "the mini-batch names input 7 of 1");
    }

    #[test]
    fn a_folder_with_a_pattern_is_not_shown() {
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

    #[test]
    fn void_needs_no_input() {
        let job_dir = JobDir::new("unused");
        let mut loader = Loader::new(&[], &[], &job_dir, WorkerId(0)).unwrap();
        let mini_batch = MiniBatch::new(MiniBatchId(0), 0, Work::Void);
        let loaded = loader.load(&mini_batch).unwrap();
        assert!(matches!(loaded.data, MiniBatchData::Void));
        assert_eq!((loaded.items, loaded.dataset), (0, ""));
    }
}
