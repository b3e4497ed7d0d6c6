//! Checks side inputs: the folder or file of each side input, and the path at which the guest sees it.

use super::error::{ErrorReport, missing};
use super::job::{StoredKind, StoredMount};
use super::job_file_location::JobFileLocation;
use super::output::address_of;
use super::raw::RawSideInput;
use super::registered::or_register;
use super::scope::Located;
use super::uploads::not_here;
use crate::model::{
    GUEST_INPUTS, GUEST_LOGS, GUEST_OUTPUT, GUEST_SIDE_INPUTS, GUEST_SOURCE, Mount, RegisteredKind,
};
use std::collections::HashSet;
use std::path::PathBuf;

/// The guest's own folders, which no side input may hide.
const RESERVED: [&str; 4] = [GUEST_INPUTS, GUEST_OUTPUT, GUEST_LOGS, GUEST_SOURCE];

/// The path that replaces a reference to a side input: the folder as the entry script sees it, or the file in
/// that folder if the side input is a single file.
pub(super) fn guest_path_of(side: &RawSideInput, mount: &Mount) -> String {
    if let Some(name) = &side.uploaded_file {
        return format!("{}/{name}", mount.guest);
    }
    let name = mount.host.file_name().and_then(|name| name.to_str());
    match name.filter(|_| mount.host.is_file()) {
        Some(name) => format!("{}/{name}", mount.guest),
        None => mount.guest.clone(),
    }
}

/// Checks the side inputs. Returns a mount for each side input, in the order of the job file, and the
/// mounts whose contents are in stores.
pub(super) fn check(
    side_inputs: Option<&[RawSideInput]>,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> (Vec<Mount>, Vec<StoredMount>) {
    let side_inputs = side_inputs.unwrap_or_default();
    let mut stored = Vec::new();
    let mut mounts: Vec<Mount> = Vec::new();
    let mut names = HashSet::new();
    for (index, side) in side_inputs.iter().enumerate() {
        let name = &side.name.value;
        if !names.insert(name) {
            side.name.blame(report, format!("found {name:?} a second time; names must differ"));
        }
        let guest = guest_path(side, report);
        let clash = mounts.iter().position(|mount| overlap(&mount.guest, &guest));
        if let Some(other) = clash {
            let setting = side.mount_path.as_ref().unwrap_or(&side.name);
            let message = format!(
                "{guest} and {} of side input {} overlap; choose another path",
                mounts[other].guest, side_inputs[other].name.value
            );
            setting.blame(report, message);
        }
        let host = match address_of(&side.path, report) {
            Some(address) => {
                let key = side.path.key.clone();
                let kind = StoredKind::SideInput(index);
                let host = address.to_string().into();
                let file = side.uploaded_file.clone();
                stored.push(StoredMount { key, kind, address, version: None, file });
                host
            }
            None => local_path(&side.path, location, report),
        };
        mounts.push(Mount { host, guest, writable: false });
    }
    (mounts, stored)
}

fn local_path(path: &Located<String>, location: &JobFileLocation, report: &ErrorReport) -> PathBuf {
    let text = path.value.trim();
    let host = location.resolve(text);
    if text.is_empty() {
        path.blame(report, "found an empty text; expected a path to a folder or a file");
        return host;
    }
    if report.has_error_at(&path.key) {
        return host;
    }
    if text.starts_with("azureml:") || text.contains("${{") {
        let message = format!(
            "found {text:?}, which is not on this machine; fetch it first, and name it here by \
             --set {}=...{}",
            report.name_in_file(&path.key),
            or_register(RegisteredKind::Dataset, text)
        );
        path.blame(report, message);
        return host;
    }
    match host.metadata() {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(metadata)
            if metadata.is_file() && host.file_name().is_some_and(|it| it.to_str().is_some()) => {}
        Ok(_) => path.blame(
            report,
            format!(
                "{} is neither a folder nor a file whose name is UTF-8 text; name a folder or a file",
                host.display()
            ),
        ),
        Err(_) if location.files.are_given() => path.blame(report, not_here(&host)),
        Err(error) => {
            path.blame(report, format!("{}; name a folder or a file", missing(&host, &error)));
        }
    }
    host
}

fn guest_path(side: &RawSideInput, report: &ErrorReport) -> String {
    let Some(chosen) = &side.mount_path else {
        return format!("{GUEST_SIDE_INPUTS}/{}", side.name.value);
    };
    let text = chosen.value.as_str();
    let path = if text.len() > 1 { text.strip_suffix('/').unwrap_or(text) } else { text };
    let is_valid = path.strip_prefix('/').is_some_and(|rest| {
        rest.split('/')
            .all(|part| !matches!(part, "" | "." | "..") && !part.chars().any(char::is_control))
    });
    if !is_valid {
        let message = format!(
            "found {text:?}; expected an absolute path without empty, . or .. parts \
             (e.g. /models/digits)"
        );
        chosen.blame(report, message);
    } else if let Some(reserved) = RESERVED.iter().find(|reserved| overlap(reserved, path)) {
        let message = format!(
            "found {text:?}; {reserved} is one of the entry script's own folders: choose a path \
             outside {}",
            RESERVED.join(", ")
        );
        chosen.blame(report, message);
    }
    path.to_owned()
}

/// Whether the two paths are equal, or one is below the other.
pub(super) fn overlap(a: &str, b: &str) -> bool {
    let is_within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    is_within(a, b) || is_within(b, a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_overlap_by_parts() {
        assert!(overlap("/a", "/a"));
        assert!(overlap("/a", "/a/b"));
        assert!(overlap("/a/b", "/a"));
        assert!(!overlap("/a", "/ab"));
        assert!(!overlap("/a/b", "/a/c"));
    }
}
