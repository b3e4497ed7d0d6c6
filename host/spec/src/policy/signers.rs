//! Reads the signers of a policy: the users whose signed jobs an agent runs, with narrower limits for their jobs.

use super::names::names;
use super::roots::{Roots, RootsReader};
use super::store_roots::{StoreRoots, StoresForAll};
use crate::error::ErrorReport;
use crate::keys::{self, is_name};
use crate::model::{SignerKey, is_registered_name};
use crate::scope::{Located, UnreadNames};
use crate::tree::join;

/// A signer of jobs.
#[derive(Clone, Debug)]
pub(super) struct Signer {
    pub(super) name: String,
    pub(super) keys: Vec<SignerKey>,
    /// The folders below which the paths of the signer's jobs must be. `None` if they are those for all jobs.
    pub(super) roots: Option<Roots>,
    /// The models that the signer's jobs may use. `None` as above.
    pub(super) models: Option<Located<Vec<String>>>,
    /// The datastores that the signer's jobs may use. `None` as above.
    pub(super) datastores: Option<Located<Vec<String>>>,
    /// Whether entry scripts of the signer's jobs may come from the job's store. `None` as above, but `false` if the signer
    /// has roots.
    pub(super) entry_script_stores: Option<Located<bool>>,
    /// The addresses below which the objects of the signer's jobs must be. `None` as above.
    pub(super) store_roots: Option<StoreRoots>,
}

/// The limits for all jobs. Those of a signer must be narrower.
#[derive(Clone, Copy)]
pub(super) struct LimitsForAll<'a> {
    pub(super) roots: &'a Option<Roots>,
    pub(super) models: &'a Option<Located<Vec<String>>>,
    pub(super) datastores: &'a Option<Located<Vec<String>>>,
    /// Whether entry scripts may come from stores.
    pub(super) entry_script_stores: bool,
    pub(super) store_roots: Option<&'a StoreRoots>,
}

/// Reads the signers. `None` if the policy has none.
pub(super) fn read(
    scope: &mut UnreadNames<'_>,
    for_all: LimitsForAll<'_>,
    roots: &mut RootsReader,
    report: &ErrorReport,
) -> Option<Located<Vec<Signer>>> {
    let given = scope.named("signers")?;
    if given.value.is_empty() {
        given.blame(report, "names no signer; add one, or leave the key out to allow all jobs");
    }
    let mut signers: Vec<Signer> = Vec::new();
    let Located { value, origin, key } = given;
    for (name, group) in value {
        if !is_name(&name.value) {
            let message = format!("found {:?}; expected {}", name.value, keys::NAME_EXPECTED);
            name.blame(report, message);
        } else if signers.iter().any(|signer| signer.name == name.value) {
            name.blame(report, "appears a second time; names must differ");
        }
        let signer = read_signer(name.value, group, &signers, (for_all, &mut *roots), report);
        signers.push(signer);
    }
    Some(Located { value: signers, origin, key })
}

fn read_signer(
    name: String,
    mut group: UnreadNames<'_>,
    earlier: &[Signer],
    (for_all, roots): (LimitsForAll<'_>, &mut RootsReader),
    report: &ErrorReport,
) -> Signer {
    let keys = read_keys(&mut group, earlier, report);
    let own = group.group("roots");
    let roots = own.map(|own| roots.read(own, for_all.roots.as_ref(), report));
    let models = names(&mut group, "models", is_registered_name, report);
    refuse_other_names(models.as_ref(), for_all.models.as_ref(), report);
    let datastores = names(&mut group, "datastores", |_| true, report);
    refuse_other_names(datastores.as_ref(), for_all.datastores.as_ref(), report);
    let entry_script_stores = group.bool("entry_script_stores");
    if let Some(own) = entry_script_stores.as_ref().filter(|own| own.value)
        && !for_all.entry_script_stores
    {
        own.blame(report, "is true, and the policy's own entry_script_stores is not; a signer's limits must be narrower");
    }
    let names = datastores.as_ref().or(for_all.datastores.as_ref());
    let stores = StoresForAll {
        roots: for_all.store_roots,
        is_signer: true,
        datastores: names.map_or(&[][..], |names| &names.value),
    };
    let store_roots = group.group("store_roots");
    let store_roots = store_roots.map(|own| StoreRoots::read(own, stores, report));
    group.report_unread();
    Signer { name, keys, roots, models, datastores, entry_script_stores, store_roots }
}

fn read_keys(
    group: &mut UnreadNames<'_>,
    earlier: &[Signer],
    report: &ErrorReport,
) -> Vec<SignerKey> {
    let (is_given, origin, path) =
        (group.has("keys"), group.origin.clone(), join(&group.path, "keys"));
    let given = group.texts("keys");
    if given.as_ref().map_or(!is_given, |given| given.value.is_empty()) {
        let message =
            "found no key; list the signer's public keys, which `sandmill signer new` prints";
        report.error(given.as_ref().map_or(&origin, |given| &given.origin), &path, message);
    }
    let mut keys = Vec::new();
    for text in given.map(|given| given.value).unwrap_or_default() {
        match text.value.trim().parse::<SignerKey>() {
            Ok(key) => {
                if let Some(other) = earlier.iter().find(|signer| signer.keys.contains(&key)) {
                    text.blame(report, format!("is also a key of the signer {}", other.name));
                }
                keys.push(key);
            }
            // The text may be a secret.
            Err(error) => text.blame(report, format!("found another text: {error}")),
        }
    }
    keys
}

/// Refuses names of a signer's list that the list for all jobs does not have.
fn refuse_other_names(
    own: Option<&Located<Vec<String>>>,
    for_all: Option<&Located<Vec<String>>>,
    report: &ErrorReport,
) {
    let (Some(own), Some(for_all)) = (own, for_all) else { return };
    for name in own.value.iter().filter(|name| !for_all.value.contains(name)) {
        let key = &for_all.key;
        let message = format!(
            "found {name}, which is not in {key}, the list for all jobs: add it there, or remove it here"
        );
        own.blame(report, message);
    }
}
