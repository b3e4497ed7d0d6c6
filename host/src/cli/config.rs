//! The user's config file, and the settings that override it.

use super::exit::Problem;
use super::policy::PolicyArgument;
use crate::inference::NamedLibrary;
use crate::spec::UserConfig;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The environment variable with the cache folder.
const CACHE_VARIABLE: &str = "SANDMILL_CACHE_DIR";
/// The environment variable with the folder of job directories.
const JOBS_ROOT_VARIABLE: &str = "SANDMILL_JOBS_ROOT";
/// The default folder of job directories.
pub(super) const DEFAULT_JOBS_FOLDER: &str = "jobs";

/// The settings of the environment and of the user's config file. Options of the command line override them.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    file: UserConfig,
}

impl Config {
    /// Reads the user's config file. Under a policy, the file is not read, because the operator and not the
    /// user decides which code is loaded and where it is kept.
    pub(super) fn load(policy: &PolicyArgument) -> Result<Self, Problem> {
        if policy.which().is_some() {
            return Ok(Self::default());
        }
        let home = variable("HOME").map(PathBuf::from);
        let Some(path) = config_path(variable("XDG_CONFIG_HOME"), home.as_deref()) else {
            return Ok(Self::default());
        };
        let file = UserConfig::load(&path, home.as_deref());
        let file = file.map_err(|errors| Problem::each_line(&errors.to_string()))?;
        Ok(Self { file })
    }

    /// The path of the file, if it was read.
    pub(super) fn file(&self) -> Option<&Path> {
        self.file.file.as_deref()
    }

    /// The cache folder: from the option, or else from the file. `None` if neither names it, or if the
    /// environment variable overrides the file.
    pub(super) fn cache_dir(&self, option: Option<&Path>) -> Option<PathBuf> {
        let from_file =
            || self.file.cache_dir.clone().filter(|_| variable(CACHE_VARIABLE).is_none());
        option.map(Path::to_owned).or_else(from_file)
    }

    /// The path of ONNX Runtime in the file.
    pub(super) fn onnxruntime(&self) -> Option<NamedLibrary> {
        let path = self.file.onnxruntime.clone()?;
        Some(NamedLibrary { by: "onnxruntime in the user's config file", path })
    }

    /// The address of a server with this name in the file, and the file with the token for it.
    #[cfg(feature = "server")]
    pub(super) fn server(&self, name: &str) -> Option<(String, Option<PathBuf>)> {
        let found = self.file.servers.iter().find(|server| server.name == name)?;
        Some((found.url.clone(), found.token_file.clone()))
    }

    /// The folder of job directories: from the environment variable, or else from the file, or else `jobs`.
    pub(super) fn jobs_root(&self) -> PathBuf {
        let named = variable(JOBS_ROOT_VARIABLE).map(PathBuf::from);
        named.or_else(|| self.file.jobs_root.clone()).unwrap_or_else(|| DEFAULT_JOBS_FOLDER.into())
    }
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The path of the config file; `None` if no folder is known.
fn config_path(config_home: Option<OsString>, home: Option<&Path>) -> Option<PathBuf> {
    // The XDG standard says that relative paths are to be ignored.
    let named = config_home.map(PathBuf::from).filter(|folder| folder.is_absolute());
    let folder = named.or_else(|| Some(home?.join(".config")))?;
    Some(folder.join("sandmill/config.yaml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_config_file_is_in_the_xdg_folder() {
        let home = Some(Path::new("/h"));
        let at = |config: Option<&str>, home| config_path(config.map(OsString::from), home);
        assert_eq!(at(Some("/x"), home), Some("/x/sandmill/config.yaml".into()));
        assert_eq!(at(None, home), Some("/h/.config/sandmill/config.yaml".into()));
        assert_eq!(at(Some("relative"), home), at(None, home));
        assert_eq!(at(None, None), None);
    }

    #[test]
    fn an_option_overrides_the_config_file() {
        let file = UserConfig { cache_dir: Some("/file".into()), ..UserConfig::default() };
        let config = Config { file };
        assert_eq!(config.cache_dir(Some(Path::new("/option"))), Some("/option".into()));
        assert_eq!(Config::default().cache_dir(None), None);
    }
}
