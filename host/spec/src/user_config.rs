//! Reads the user's config file: settings that the user would otherwise give as options each time.

use super::error::{ErrorReport, FileError, SettingOrigin, SpecErrors};
use super::reading::{read, unreadable};
use super::scope::{Located, UnreadNames};
use super::tree::{self, YamlValue};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The contents of a config file. The default has no settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserConfig {
    /// The file that was read.
    pub file: Option<PathBuf>,
    /// ONNX Runtime's library, or a folder that holds it.
    pub onnxruntime: Option<PathBuf>,
    /// The folder for compiled entry scripts and objects of stores.
    pub cache_dir: Option<PathBuf>,
    /// The folder in which `run` creates job directories, and in which other commands search for jobs.
    pub jobs_root: Option<PathBuf>,
    /// The servers that `--server` may name.
    pub servers: Vec<ServerProfile>,
}

/// A server that `--server` may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerProfile {
    /// The name.
    pub name: String,
    /// The address, such as `https://HOST:8470`.
    pub url: String,
    /// The file with the token. `None` if the environment has the token.
    pub token_file: Option<PathBuf>,
}

impl UserConfig {
    /// Reads a config file. A missing file counts as empty. `home` replaces `~/`.
    ///
    /// # Errors
    /// All errors in the file. It is also an error if another user could have written the file, because the
    /// file names code that Sandmill loads.
    pub fn load(path: &Path, home: Option<&Path>) -> Result<Self, SpecErrors> {
        let report = ErrorReport::default();
        let content = match fs::metadata(path) {
            Ok(metadata) => check_owner(&metadata).and_then(|()| read(path, "config file")),
            Err(error) => Err(unreadable(path, "config file", error)),
        };
        let config = match content {
            Ok(text) => parse(path, &text, home, &report),
            Err(FileError::NotThere) => return Ok(Self::default()),
            Err(error) => {
                report.error(&SettingOrigin::File, "", error.to_string());
                Self::default()
            }
        };
        if report.is_clean() {
            Ok(config)
        } else {
            Err(report.into_errors(&path.display().to_string()))
        }
    }
}

/// Checks that only this user or root can have written the file. Write access of the group is allowed,
/// because on many machines each user has a private group.
fn check_owner(metadata: &Metadata) -> Result<(), FileError> {
    let user = rustix::process::geteuid().as_raw();
    if metadata.is_file() && (metadata.mode() & 0o002 != 0 || ![user, 0].contains(&metadata.uid()))
    {
        let mode = metadata.mode() & 0o777;
        return Err(FileError::NotOwn { mode, user: metadata.uid() });
    }
    Ok(())
}

fn parse(path: &Path, text: &str, home: Option<&Path>, report: &ErrorReport) -> UserConfig {
    // A file with only comments has no settings.
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return UserConfig { file: Some(path.to_owned()), ..UserConfig::default() };
    }
    let Some(root) = tree::parse(text, report) else { return UserConfig::default() };
    let YamlValue::Map(entries) = root.value else {
        let message =
            "expected a map with onnxruntime, cache_dir or jobs_root (e.g. jobs_root: ~/jobs)";
        report.error(&root.origin, "", message);
        return UserConfig::default();
    };
    let mut scope = UnreadNames::of_user_config(entries, report);
    let mut path_of = |key| absolute(scope.text(key)?, home, report);
    let config = UserConfig {
        file: Some(path.to_owned()),
        onnxruntime: path_of("onnxruntime"),
        cache_dir: path_of("cache_dir"),
        jobs_root: path_of("jobs_root"),
        servers: servers(&mut scope, home, report),
    };
    scope.report_unread();
    config
}

fn servers(
    scope: &mut UnreadNames<'_>,
    home: Option<&Path>,
    report: &ErrorReport,
) -> Vec<ServerProfile> {
    let given = scope.named("servers").map(|given| given.value).unwrap_or_default();
    let mut servers = Vec::new();
    for (name, mut group) in given {
        let url = group.text("url");
        let token_file = group.text("token_file").and_then(|file| absolute(file, home, report));
        match url {
            Some(url) if url.value.starts_with("http://") || url.value.starts_with("https://") => {
                servers.push(ServerProfile { name: name.value, url: url.value, token_file });
            }
            Some(url) => {
                let message =
                    format!("found {:?}; expected an address such as https://HOST:8470", url.value);
                url.blame(report, message);
            }
            None if group.has("url") => {}
            None => name
                .blame(report, "has no url; add the server's address, such as https://HOST:8470"),
        }
        group.report_unread();
    }
    servers
}

/// Returns the absolute path of a setting. Relative paths are refused, because they would depend on the
/// current folder.
fn absolute(given: Located<String>, home: Option<&Path>, report: &ErrorReport) -> Option<PathBuf> {
    let below_home = given.value.strip_prefix("~/").or((given.value == "~").then_some(""));
    match (below_home, home) {
        (Some(rest), Some(home)) => return Some(home.join(rest)),
        (Some(_), None) => {
            given.blame(report, "~ is not known, because HOME is not set; write the absolute path");
        }
        (None, _) if Path::new(&given.value).is_absolute() => return Some(given.value.into()),
        (None, _) => {
            let found = &given.value;
            given.blame(
                report,
                format!("found {found:?}; expected a path that starts with / or ~/"),
            );
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use std::os::unix::fs::PermissionsExt;

    fn load(text: &str) -> Result<UserConfig, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        fs::write(&file, text).unwrap();
        let loaded = UserConfig::load(&file, Some(Path::new("/home/ada")));
        loaded.map_err(|errors| errors.to_string().replace(&file.display().to_string(), "c.yaml"))
    }

    #[test]
    fn a_config_file_is_read() {
        let config = load("jobs_root: ~/jobs\ncache_dir: /var/c\nonnxruntime: ~\n");
        assert!(config.unwrap_err().contains("onnxruntime: found nothing"), "~ is null in YAML");
        let config = load("jobs_root: ~/jobs\ncache_dir: /var/c\n").unwrap();
        assert_eq!(config.jobs_root, Some("/home/ada/jobs".into()));
        assert_eq!(config.cache_dir, Some("/var/c".into()));
        assert!(config.onnxruntime.is_none() && config.file.is_some());
        for empty in ["", "# nothing yet\n\n"] {
            let config = load(empty).unwrap();
            assert_eq!(UserConfig { file: None, ..config }, UserConfig::default());
        }
        let gone = UserConfig::load(Path::new("/nonexistent/c.yaml"), None).unwrap();
        assert_eq!(gone, UserConfig::default());
    }

    #[test]
    fn all_errors_are_reported_with_their_lines() {
        let error = load("jobs_rot: /a\ncache_dir: [a]\nonnxruntime: lib/ort\n").unwrap_err();
        assert_snapshot!(error, @r#"
        c.yaml:1: jobs_rot: unknown key; did you mean jobs_root?
        c.yaml:2: cache_dir: found a list; expected a path that starts with / or ~/
        c.yaml:3: onnxruntime: found "lib/ort"; expected a path that starts with / or ~/
        "#);
        let error = load("just words").unwrap_err();
        assert_snapshot!(error, @"c.yaml:1: expected a map with onnxruntime, cache_dir or jobs_root (e.g. jobs_root: ~/jobs)");
        assert!(load("cache_dir: [").unwrap_err().starts_with("c.yaml"));
    }

    #[test]
    fn a_file_that_others_may_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        fs::write(&file, "cache_dir: /c").unwrap();
        let with = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        with(0o664);
        assert!(UserConfig::load(&file, None).is_ok());
        with(0o666);
        let error = UserConfig::load(&file, None).unwrap_err().to_string();
        assert!(error.contains("mode 666") && error.contains("chmod"), "{error}");
    }
}
