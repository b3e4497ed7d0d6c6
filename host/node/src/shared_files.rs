//! Compares the files of an input in a shared folder with those that the leader has seen. If a folder is not shared, or not
//! mounted, this machine may have other files at the same paths: their rows would be wrong.

use super::planner_reads::PlannerReads;
use crate::files::FileVersion;
use crate::protocol::store::UnfetchedObject;
use crate::protocol::{Assignment, Order};
use jiff::Timestamp;
use std::io::ErrorKind;
use std::path::Path;

/// Takes those files out of the assignments of an order that are not fetched, because they are in shared folders, and that
/// are as the leader has seen them.
pub(super) fn compare(order: &mut Order, reads: &PlannerReads, is_fetched: impl Fn(&Path) -> bool) {
    let compare_one = |assignment: &mut Assignment| {
        if assignment.objects.is_empty() {
            return;
        }
        let files = assignment.mini_batch.reads();
        assignment.objects.retain(|object| {
            let (source, name) = files.get(object.file as usize).copied().unwrap_or_default();
            let path = reads.path(source, name);
            is_fetched(&path) || difference(&path, object.known.found).is_some()
        });
    };
    match order {
        Order::Grant(grants) => {
            grants.iter_mut().for_each(|grant| compare_one(&mut grant.assignment));
        }
        Order::GrantAhead(ahead) => ahead.iter_mut().for_each(compare_one),
        _ => {}
    }
}

/// Takes the files out of [`Assignment::objects`] that are not fetched, because they are in shared folders. Returns those that
/// differ from what the leader has seen. `is_fetched`: whether the file at this path is fetched from a store.
pub(super) fn take(
    assignment: &mut Assignment,
    reads: &PlannerReads,
    is_fetched: impl Fn(&Path) -> bool,
) -> Vec<UnfetchedObject> {
    if assignment.objects.is_empty() {
        return Vec::new();
    }
    let files = assignment.mini_batch.reads();
    let mut other = Vec::new();
    assignment.objects.retain(|object| {
        let (source, name) = files.get(object.file as usize).copied().unwrap_or_default();
        let path = reads.path(source, name);
        if is_fetched(&path) {
            return true;
        }
        if let Some(reason) = difference(&path, object.known.found) {
            // Another machine may have the right file.
            let (is_final, is_other) = (false, true);
            other.push(UnfetchedObject { file: object.file, reason, is_final, is_other });
        }
        false
    });
    other
}

/// How the file at this path differs from what the leader has seen. `None` if it does not.
fn difference(path: &Path, known: FileVersion) -> Option<String> {
    let found = std::fs::metadata(path).map(|found| FileVersion::from(&found));
    let is_missing_there = known == FileVersion::MISSING;
    let here = match found {
        Ok(found) if is_same(found, known) => return None,
        // The worker reports what is wrong.
        Err(error) if is_missing_there && error.kind() == ErrorKind::NotFound => return None,
        Ok(found) => format!("another file is there: {}", shown(found)),
        Err(error) => error.to_string(),
    };
    Some(format!(
        "{} is not what the leader's machine has there ({}): {here}; mount the same folder on both machines, or start the job \
         with --upload",
        path.display(),
        shown(known)
    ))
}

/// Whether two machines see the same file. A mount may keep the time with fewer digits than the file server does.
fn is_same(one: FileVersion, other: FileVersion) -> bool {
    let digits = [1, 100, 1_000, 1_000_000, 1_000_000_000];
    let same_nanos = |step: u32| {
        let cut = |nanos: u32| nanos - nanos % step;
        one.nanos == cut(other.nanos) || other.nanos == cut(one.nanos)
    };
    let (one_key, other_key) = ((one.length, one.seconds), (other.length, other.seconds));
    one_key == other_key && digits.into_iter().any(same_nanos)
}

fn shown(version: FileVersion) -> String {
    if version == FileVersion::MISSING {
        return "no such file".to_owned();
    }
    let nanos = i32::try_from(version.nanos).unwrap_or_default();
    let time = Timestamp::new(version.seconds, nanos).map(|time| time.to_string());
    format!("{} bytes, changed {}", version.length, time.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::ManifestObject;
    use crate::model::{MiniBatch, MiniBatchId, MiniBatchWork, Source};
    use crate::protocol::GrantedObject;

    #[test]
    fn a_file_that_differs_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["same", "other", "fetched"] {
            std::fs::write(path(name), "text").unwrap();
        }
        let version = |name: &str| FileVersion::from(&path(name).metadata().unwrap());
        let older = FileVersion { seconds: 1, nanos: 0, ..version("other") };
        let known = [version("same"), older, version("same"), older];
        let objects = (0..).zip(known);
        let objects = objects.map(|(file, found)| GrantedObject { file, known: found.into() });
        let work = MiniBatchWork::Files(["same", "other", "missing", "fetched"].into());
        let mut assignment = Assignment {
            mini_batch: MiniBatch::new(MiniBatchId(0), 0, work),
            attempt: 1,
            is_last: false,
            objects: objects.collect(),
        };
        let reads = PlannerReads::new(&[Source::new("texts", folder.path().into())]);
        let other = take(&mut assignment, &reads, |path| path.ends_with("fetched"));
        let kept = GrantedObject { file: 3, known: ManifestObject::from(older) };
        assert_eq!(assignment.objects, [kept]);
        let named: Vec<u32> = other.iter().map(|object| object.file).collect();
        assert_eq!(named, [1, 2]);
        let text = &other[0].reason;
        assert!(text.contains("4 bytes, changed 1970-01-01T00:00:01Z"), "{text}");
        assert!(other[1].reason.contains("No such file"), "{other:?}");
        assert!(take(&mut assignment, &reads, |_| true).is_empty());
    }

    #[test]
    fn a_mount_may_keep_fewer_digits_of_the_time() {
        let exact = FileVersion { length: 3, seconds: 7, nanos: 123_456_789 };
        for nanos in [123_456_789, 123_456_700, 123_456_000, 123_000_000, 0] {
            assert!(is_same(exact, FileVersion { nanos, ..exact }), "{nanos}");
            assert!(is_same(FileVersion { nanos, ..exact }, exact), "{nanos}");
        }
        for nanos in [123_456_788, 124_000_000, 1] {
            assert!(!is_same(exact, FileVersion { nanos, ..exact }), "{nanos}");
        }
        assert!(!is_same(exact, FileVersion { length: 4, ..exact }));
        assert!(!is_same(exact, FileVersion { seconds: 8, ..exact }));
    }

    /// A file that the leader's machine does not have is refused, unless it is missing here, too.
    #[test]
    fn a_file_that_the_leader_does_not_have_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert_eq!(difference(&path, FileVersion::MISSING), None);
        std::fs::write(&path, "a").unwrap();
        let text = difference(&path, FileVersion::MISSING).unwrap();
        assert!(text.contains("(no such file)"), "{text}");
    }
}
