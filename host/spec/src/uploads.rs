//! Replaces paths of the submitter's machine by folders of the job's store, to which the submitter has uploaded the data.

use super::error::{ErrorReport, SettingOrigin};
use super::job::JobSpec;
use super::job_file_location::JobFileLocation;
use super::job_store_place::JobStorePlace;
use super::policy::fixed_part;
use super::raw::{RawInput, RawJob, RawModel, RawSideInput};
use super::scope::Located;
use crate::model::{Address, UploadedData, UploadedFolder, UploadedMeaning};
use std::collections::BTreeMap;
use std::path::Path;

/// The job's folder in its store, as text.
struct JobFolder {
    path: String,
    store: JobStorePlace,
    /// The job's name.
    name: String,
    is_address: bool,
}

/// How the job file names its inputs, side inputs and models.
pub(super) fn named_data(raw: &RawJob) -> BTreeMap<String, String> {
    let inputs = raw.inputs.iter().flat_map(|inputs| &inputs.value).map(|input| {
        let paths: Vec<&str> = input.paths.iter().map(|path| path.value.as_str()).collect();
        let template = input.partition_format.as_ref().map(|given| given.value.to_string());
        (format!("inputs.{}", input.name.value), format!("{paths:?} {template:?}"))
    });
    let sides = raw.side_inputs.iter().flat_map(|sides| &sides.value);
    let sides = sides
        .map(|side| (format!("side_inputs.{}", side.name.value), format!("{:?}", side.path.value)));
    let models = raw.models.iter().flat_map(|models| &models.value).map(|model| {
        let version = model.version.as_ref().map(|version| &version.value);
        (format!("models.{}", model.name.value), format!("{:?} {version:?}", model.path.value))
    });
    inputs.chain(sides).chain(models).collect()
}

/// Replaces the paths of all data that was uploaded. So the folders are always those of the job itself: `uploads` names no
/// other place. On the submitter's machine, refuses data that the job file names in another way than before.
pub(super) fn replace(
    raw: &mut RawJob,
    (uploads, named): (&[UploadedData], &BTreeMap<String, String>),
    location: &mut JobFileLocation,
    report: &ErrorReport,
) {
    if uploads.is_empty() {
        return;
    }
    let Some(folder) = JobFolder::of(raw, location) else {
        report.error(&SettingOrigin::File, "job_store", "missing; uploaded data is in it");
        return;
    };
    location.policy = location.policy.for_job(Some(&folder.store), &folder.name);
    for data in uploads {
        let is_same = location.files.are_given()
            || named.get(&data.key).is_none_or(|named| *named == data.named);
        if !is_same {
            let message = "has changed since the data was uploaded: start the job again with --upload --overwrite";
            report.error(&SettingOrigin::File, &data.key, message);
            continue;
        }
        let is_plausible =
            !data.folders.is_empty() && data.folders.iter().all(UploadedFolder::is_plausible);
        if !is_plausible || replace_one(raw, data, &folder).is_none() {
            let message = "names no data that a submitter can have uploaded: start the job again with --upload";
            report.error(&SettingOrigin::File, &data.key, message);
        }
    }
}

/// Refuses inputs that another machine has named, and that are not on this one.
pub(super) fn refuse_missing(spec: &JobSpec, raw: &RawJob, report: &ErrorReport) {
    let given = raw.inputs.as_ref().map_or(&[][..], |given| given.value.as_slice());
    for (input, raw) in spec.inputs.iter().zip(given) {
        for (path, given) in input.paths.iter().zip(&raw.paths) {
            if !Address::looks_like_one(path) && !fixed_part(path).exists() {
                given.blame(report, not_here(Path::new(path)));
            }
        }
    }
}

/// The message for data that another machine has named, and that is not on this one.
pub(super) fn not_here(path: &Path) -> String {
    format!(
        "{} is not on this machine: start the job with --upload, or name a folder that all machines share or an address \
         in a store",
        path.display()
    )
}

/// `None` if the job has nothing with this key.
fn replace_one(raw: &mut RawJob, data: &UploadedData, folder: &JobFolder) -> Option<()> {
    let (kind, name) = data.key.split_once('.')?;
    match (kind, data.folders.as_slice()) {
        ("inputs", folders) => {
            let mut inputs = raw.inputs.iter_mut().flat_map(|inputs| &mut inputs.value);
            let input = inputs.find(|input| input.name.value == name)?;
            let paths = folders.iter().map(|uploaded| folder.input(uploaded)).collect();
            replace_input(input, paths, data.partition_format.as_deref());
        }
        ("side_inputs", [uploaded]) => {
            let mut sides = raw.side_inputs.iter_mut().flat_map(|sides| &mut sides.value);
            let side: &mut RawSideInput = sides.find(|side| side.name.value == name)?;
            side.path.value = folder.mounted(uploaded);
            side.uploaded_file = folder.file(uploaded);
        }
        ("models", [uploaded]) => {
            let mut models = raw.models.iter_mut().flat_map(|models| &mut models.value);
            let model: &mut RawModel = models.find(|model| model.name.value == name)?;
            model.path.value = folder.mounted(uploaded);
            model.uploaded_file = folder.file(uploaded);
            // Only the chosen version was uploaded.
            model.version = None;
        }
        _ => return None,
    }
    Some(())
}

fn replace_input(input: &mut RawInput, paths: Vec<String>, partition_format: Option<&str>) {
    let (origin, key) = match input.paths.first() {
        Some(path) => (path.origin.clone(), path.key.clone()),
        None => (input.name.origin.clone(), input.key.clone()),
    };
    let located = |value| Located { value, origin: origin.clone(), key: key.clone() };
    input.paths = paths.into_iter().map(located).collect();
    if let (Some(given), Some(below)) = (&mut input.partition_format, partition_format) {
        below.clone_into(&mut given.value);
    }
}

impl JobFolder {
    /// `None` if the job has no store.
    fn of(raw: &RawJob, location: &JobFileLocation) -> Option<Self> {
        let store = raw.job_store.as_ref()?.value.trim();
        let name = raw.name.as_ref().map(|name| name.value.clone());
        let name = name.unwrap_or_else(|| location.job_name());
        if Address::looks_like_one(store) {
            let path = format!("{}/{name}", store.trim_end_matches('/'));
            let store = JobStorePlace::Address(store.parse().ok()?);
            return Some(Self { path, store, name, is_address: true });
        }
        let store = location.resolve(store);
        let path = store.join(&name).to_str()?.to_owned();
        Some(Self { path, store: JobStorePlace::Folder(store), name, is_address: false })
    }

    /// The path of an input. The entry script then gets the same names as from the submitter's path.
    fn input(&self, uploaded: &UploadedFolder) -> String {
        let folder = format!("{}/{}", self.path, uploaded.name());
        match (&uploaded.means, self.is_address) {
            (UploadedMeaning::Folder, false) => folder,
            (UploadedMeaning::Folder, true) => folder + "/",
            // A glob also means files whose names begin with a dot, as the submitter's path does.
            (UploadedMeaning::Files | UploadedMeaning::File(_), _) => folder + "/**",
        }
    }

    /// The path of a side input or model.
    fn mounted(&self, uploaded: &UploadedFolder) -> String {
        let folder = format!("{}/{}", self.path, uploaded.name());
        match (&uploaded.means, self.is_address) {
            (UploadedMeaning::File(name), false) => format!("{folder}/{name}"),
            (_, false) => folder,
            // A name may have characters that are wildcards in an address.
            (_, true) => folder + "/",
        }
    }

    /// The only file of a side input or model, if [`mounted`](Self::mounted) does not name it.
    fn file(&self, uploaded: &UploadedFolder) -> Option<String> {
        match &uploaded.means {
            UploadedMeaning::File(name) if self.is_address => Some(name.clone()),
            _ => None,
        }
    }
}
