//! The addresses in stores below which the objects of a job must be.

use super::folder_use::FolderUse;
use crate::error::{ErrorReport, SettingOrigin};
use crate::model::{Address, ParseAddressError, StorePlace};
use crate::scope::{Located, UnreadNames};

/// The addresses below which a job's objects must be.
#[derive(Clone, Debug)]
pub(super) struct StoreRoots {
    /// Where the file gives them.
    pub(super) origin: SettingOrigin,
    /// Their key, such as `signers.ada.store_roots`.
    pub(super) path: String,
    uses: Vec<StoreRoot>,
}

/// The addresses for one use.
#[derive(Clone, Debug)]
struct StoreRoot {
    folder_use: FolderUse,
    origin: SettingOrigin,
    key: String,
    addresses: Vec<Address>,
}

/// What the addresses of a signer must be narrower than.
#[derive(Clone, Copy)]
pub(super) struct StoresForAll<'a> {
    /// The addresses for all jobs. `None` if there are none: then jobs may use only datastores.
    pub(super) roots: Option<&'a StoreRoots>,
    /// Whether the addresses are for one signer.
    pub(super) is_signer: bool,
    /// The names of the datastores that are allowed.
    pub(super) datastores: &'a [String],
}

impl StoreRoots {
    /// The uses of addresses that have a key.
    const USES: [FolderUse; 4] =
        [FolderUse::Inputs, FolderUse::SideInputs, FolderUse::Outputs, FolderUse::JobStores];

    /// Reads a group of addresses. A signer's key that is left out is that for all jobs. Another key that is left out
    /// allows no address.
    pub(super) fn read(
        mut group: UnreadNames<'_>,
        for_all: StoresForAll<'_>,
        report: &ErrorReport,
    ) -> Self {
        let mut uses = Vec::new();
        for folder_use in Self::USES {
            let limit = for_all.roots.and_then(|roots| roots.of_use(folder_use));
            if !group.has(folder_use.key()) {
                uses.extend(limit.cloned());
                continue;
            }
            let Some(given) = group.texts(folder_use.key()) else { continue };
            let addresses = given.value.iter().filter_map(|given| {
                let address = read_address(given, report)?;
                for_all.check(&address, (folder_use, limit), given, report).then_some(address)
            });
            let addresses = addresses.collect();
            uses.push(StoreRoot { folder_use, origin: given.origin, key: given.key, addresses });
        }
        let origin = group.origin.clone();
        let path = group.path.clone();
        group.report_unread();
        Self { origin, path, uses }
    }

    fn of_use(&self, folder_use: FolderUse) -> Option<&StoreRoot> {
        // Models have the roots of side inputs.
        self.uses.iter().find(|root| root.folder_use.key() == folder_use.key())
    }

    /// Checks an address. The error is the rule: which addresses are allowed, the key with this rule, and where the policy
    /// file gives it.
    pub(super) fn check(
        &self,
        address: &Address,
        folder_use: FolderUse,
    ) -> Result<(), (String, String, &SettingOrigin)> {
        let root = self.of_use(folder_use);
        let allowed = root.map_or(&[][..], |root| &root.addresses);
        if allowed.iter().any(|root| is_below(address, root)) {
            return Ok(());
        }
        let phrase = folder_use.phrase();
        let listed: Vec<String> = allowed.iter().map(Address::to_string).collect();
        let rule = match listed.is_empty() {
            true => format!("allows no {phrase} in stores"),
            false => format!("allows {phrase} in stores only below {}", listed.join(", ")),
        };
        match root {
            Some(root) => Err((rule, root.key.clone(), &root.origin)),
            None => Err((rule, self.path.clone(), &self.origin)),
        }
    }
}

impl StoresForAll<'_> {
    /// Whether a policy may have this address. If not, adds an error to the report.
    fn check(
        &self,
        address: &Address,
        (folder_use, limit): (FolderUse, Option<&StoreRoot>),
        given: &Located<String>,
        report: &ErrorReport,
    ) -> bool {
        if let StorePlace::Datastore(name) = &address.place
            && !self.datastores.contains(name)
        {
            let message = format!(
                "found {address}, whose datastore is not on the list of datastores: add {name} to datastores, or \
                 remove the address"
            );
            given.blame(report, message);
            return false;
        }
        let is_narrower = match (self.roots, &address.place) {
            _ if !self.is_signer => true,
            (None, StorePlace::Datastore(_)) => true,
            (None, _) => false,
            (Some(_), _) => limit
                .is_some_and(|limit| limit.addresses.iter().any(|root| is_below(address, root))),
        };
        if !is_narrower {
            let key = folder_use.key();
            let message = match self.roots {
                Some(_) => format!(
                    "found {address}, which is not below the addresses for all jobs: name one below, or add this one to \
                     store_roots.{key}"
                ),
                None => format!(
                    "found {address}, and the policy has no store_roots for all jobs, so this must be an address in a \
                     datastore (datastore://NAME/...): define one, or give the policy store_roots for all uses"
                ),
            };
            given.blame(report, message);
        }
        is_narrower
    }
}

fn read_address(given: &Located<String>, report: &ErrorReport) -> Option<Address> {
    let message = match read_folder(&given.value) {
        Ok(address) if address.is_glob() => {
            format!("found {address}, which has a wildcard; name the folder before the wildcard")
        }
        Ok(address) => return Some(address),
        // An address may contain a secret by mistake, so the text is not repeated.
        Err(error) => error.to_string(),
    };
    given.blame(report, message);
    None
}

/// Reads the address of a folder. A job cannot name a folder of a web server, because such servers do not list their folders.
/// But it can name objects in this folder.
fn read_folder(text: &str) -> Result<Address, ParseAddressError> {
    text.parse().or_else(|error| {
        let inside = format!("{}/x", text.trim().trim_end_matches('/'));
        match inside.parse::<Address>() {
            Ok(Address { place: place @ StorePlace::Http(_), key }) => Ok(Address {
                place,
                key: key.trim_end_matches('x').trim_end_matches('/').to_owned(),
            }),
            _ => Err(error),
        }
    })
}

/// Whether all objects of an address are in the folder of another one.
fn is_below(address: &Address, folder: &Address) -> bool {
    if address.place != folder.place {
        return false;
    }
    // A glob can match everything in the folder before its first wildcard.
    let named = if address.is_glob() { address.split().0 } else { &address.key };
    let folder = folder.key.trim_end_matches('/');
    let rest = named.strip_prefix(folder);
    folder.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_in_the_folder_is_below_it() {
        let below = |address: &str, folder: &str| {
            is_below(&address.parse().unwrap(), &read_folder(folder).unwrap())
        };
        for (address, folder) in [
            ("s3://b/ada/x.csv", "s3://b/ada/"),
            ("s3://b/ada", "s3://b/ada/"),
            ("s3://b/ada/", "s3://b/ada"),
            ("s3://b/ada/*.csv", "s3://b/ada"),
            ("s3://b/ada/**/*.csv", "s3://b/"),
            ("datastore://n/x", "datastore://n/"),
            ("https://h/data/x.csv", "https://h/data/"),
            ("https://h/data/x.csv", "https://h/data"),
            ("https://h/data/x.csv", "https://h/"),
            ("https://h/data/x.csv", "https://h"),
        ] {
            assert!(below(address, folder), "{address} {folder}");
        }
        for (address, folder) in [
            ("s3://b/adam/x.csv", "s3://b/ada/"),
            ("s3://b/ada*/x.csv", "s3://b/ada/"),
            ("s3://b/*", "s3://b/ada/"),
            ("s3://b/", "s3://b/ada/"),
            ("s3://other/ada/x", "s3://b/ada/"),
            ("gs://b/ada/x", "s3://b/ada/"),
            ("datastore://m/x", "datastore://n/"),
            ("https://h/dataxx", "https://h/data/"),
            ("https://h.evil/data/x", "https://h"),
            ("http://h/data/x", "https://h/"),
        ] {
            assert!(!below(address, folder), "{address} {folder}");
        }
    }
}
