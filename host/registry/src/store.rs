//! The registry itself.
//!
//! The registry uses SQLite's rollback journal; a job's journal uses a write-ahead log. With a rollback
//! journal, a user who cannot write to the registry can still read it. Writes to the registry are few
//! and tiny, so they need not be fast.

use super::settings::LOCK_TIMEOUT;
use super::{RegistryError, place, schema};
use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior, params};
use sandmill_model::fail_point;
use sandmill_model::{Registered, RegisteredContent, RegisteredKind, RegisteredName, near};
use std::path::{Path, PathBuf};

/// How many similar names are suggested for an unknown name.
const MAX_SUGGESTIONS: usize = 3;

/// A version to register.
#[derive(Clone, Debug, Default)]
pub struct NewVersion {
    /// The name, which [`is_registered_name`](sandmill_model::is_registered_name) must accept.
    pub name: String,
    /// As in [`Registered`].
    pub paths: Vec<String>,
    /// As in [`Registered`].
    pub datastore: Option<String>,
    /// As in [`Registered`].
    pub digest: Option<String>,
    /// As in [`Registered`].
    pub folder_digest: Option<String>,
    /// As in [`Registered`].
    pub description: Option<String>,
    /// As in [`Registered`].
    pub held: Option<RegisteredContent>,
}

/// An open registry.
#[derive(Debug)]
pub struct Registry {
    path: PathBuf,
    connection: Connection,
    /// Whether the database has its table yet.
    has_table: bool,
}

impl Registry {
    /// Opens the registry in a file; `None` if there is no such file.
    ///
    /// # Errors
    /// If the file is not a registry of this version, or other users could write to it.
    pub fn open(file: &Path) -> Result<Option<Self>, RegistryError> {
        let failed = |source| RegistryError::Io { path: file.to_owned(), source };
        if !file.try_exists().map_err(failed)? {
            return Ok(None);
        }
        let (path, _) = place::resolve(file).map_err(failed)?;
        check_private(&path, true)?;
        // If the file is not writable, SQLite opens it for reading.
        Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map(Some)
    }

    /// Opens the registry in a file. Makes the file and its folder if they are missing. Only their owner may
    /// use them.
    ///
    /// # Errors
    /// As for [`Registry::open`], or if the file or folder cannot be made.
    pub fn open_or_make(file: &Path) -> Result<Self, RegistryError> {
        let failed = |source| RegistryError::Io { path: file.to_owned(), source };
        place::make_folder(file).map_err(failed)?;
        let (path, exists) = place::resolve(file).map_err(failed)?;
        check_private(&path, exists)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        Self::connect(path, flags)
    }

    fn connect(path: PathBuf, flags: OpenFlags) -> Result<Self, RegistryError> {
        let connect = || -> rusqlite::Result<(Connection, DatabaseFormat)> {
            let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(&path, flags)?;
            connection.busy_timeout(LOCK_TIMEOUT)?;
            // SQLite must not run functions that the file's own schema names.
            connection.pragma_update(None, "trusted_schema", false)?;
            // Read everything in one transaction: another process may be making the registry.
            let format = DatabaseFormat::read(&*connection.unchecked_transaction()?)?;
            Ok((connection, format))
        };
        let (connection, format) = connect().map_err(|e| RegistryError::from_sqlite(&path, e))?;
        let has_table = format.check(&path)?;
        Ok(Self { path, connection, has_table })
    }

    /// Adds a version: the first version of a name, or the next version if `may_exist` is true.
    ///
    /// # Errors
    /// If the name exists and `may_exist` is false, or if the registry cannot be written. Then the registry
    /// is unchanged.
    pub fn register(
        &mut self,
        kind: RegisteredKind,
        new: NewVersion,
        may_exist: bool,
    ) -> Result<Registered, RegistryError> {
        let Self { path, connection, has_table } = self;
        let failed = |e| RegistryError::from_sqlite(path, e);
        // Lock the registry before reading it: another process may be about to register the same name.
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        if !DatabaseFormat::read(&transaction).map_err(failed)?.check(path)? {
            transaction.execute_batch(schema::CREATE_TABLE).map_err(failed)?;
            transaction
                .pragma_update(None, "application_id", schema::APPLICATION_ID)
                .and_then(|()| {
                    transaction.pragma_update(None, "user_version", schema::FORMAT_VERSION)
                })
                .map_err(failed)?;
        }
        let existing = latest(&transaction, kind, &new.name).map_err(failed)?;
        if let Some(existing) = existing.filter(|_| !may_exist) {
            return Err(RegistryError::Taken { kind, existing: Box::new(existing) });
        }
        let version = last_version(&transaction, kind, &new.name).map_err(failed)? + 1;
        let registered = Registered {
            name: new.name,
            version,
            paths: new.paths,
            datastore: new.datastore,
            digest: new.digest,
            folder_digest: new.folder_digest,
            description: new.description,
            registered: Timestamp::now(),
            by: place::user(),
            held: new.held,
        };
        insert(&transaction, kind, &registered).map_err(failed)?;
        fail_point::pass("registry-written");
        transaction.commit().map_err(failed)?;
        *has_table = true;
        Ok(registered)
    }

    /// Finds the version with this name and number, or the latest version of the name.
    ///
    /// # Errors
    /// If there is no such version.
    pub fn find(
        &self,
        kind: RegisteredKind,
        wanted: &RegisteredName,
    ) -> Result<Registered, RegistryError> {
        let failed = |e| RegistryError::from_sqlite(&self.path, e);
        let latest = match self.has_table {
            true => latest(&self.connection, kind, &wanted.name).map_err(failed)?,
            false => None,
        };
        let Some(latest) = latest else {
            let nearest = self.nearest(kind, &wanted.name)?;
            return Err(RegistryError::NoName { kind, wanted: wanted.clone(), nearest });
        };
        let Some(version) = wanted.version.filter(|version| *version != latest.version) else {
            return Ok(latest);
        };
        let sql = format!(
            "{} WHERE kind = ?1 AND name = ?2 AND version = ?3 AND {}",
            schema::SELECT_VERSIONS,
            schema::IS_NOT_REMOVED
        );
        let key = params![kind.word(), wanted.name, version.cast_signed()];
        let found = self.connection.query_row(&sql, key, schema::read).optional();
        if let Some(found) = found.map_err(failed)? {
            return Ok(found);
        }
        let versions = versions(&self.connection, kind, Some(&wanted.name)).map_err(failed)?;
        let existing = versions.into_iter().map(|found| found.version).collect();
        Err(RegistryError::NoVersion { kind, name: wanted.name.clone(), version, existing })
    }

    /// Removes one version, or all versions if `wanted` has no number, and returns the removed versions.
    /// Their numbers are not used again, and the registered files stay where they are.
    ///
    /// # Errors
    /// If there is no such version, or the registry cannot be written. Then the registry is unchanged.
    pub fn remove(
        &mut self,
        kind: RegisteredKind,
        wanted: &RegisteredName,
    ) -> Result<Vec<Registered>, RegistryError> {
        // If there is no such version, the error of `find` lists the existing versions.
        let found = self.find(kind, wanted)?;
        let Self { path, connection, .. } = self;
        let failed = |e| RegistryError::from_sqlite(path, e);
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let mut removed = versions(&transaction, kind, Some(&found.name)).map_err(failed)?;
        removed.retain(|found| wanted.version.is_none_or(|version| version == found.version));
        let now = Timestamp::now().to_string();
        for old in &removed {
            let key = params![kind.word(), old.name, old.version.cast_signed(), now, place::user()];
            transaction.execute(schema::REMOVE_VERSION, key).map_err(failed)?;
        }
        transaction.commit().map_err(failed)?;
        Ok(removed)
    }

    /// All versions of all names, sorted by name and version.
    ///
    /// # Errors
    /// If the registry cannot be read.
    pub fn all_versions(&self, kind: RegisteredKind) -> Result<Vec<Registered>, RegistryError> {
        if !self.has_table {
            return Ok(Vec::new());
        }
        versions(&self.connection, kind, None)
            .map_err(|e| RegistryError::from_sqlite(&self.path, e))
    }

    /// The latest version of each name, sorted by name.
    ///
    /// # Errors
    /// If the registry cannot be read.
    pub fn all(&self, kind: RegisteredKind) -> Result<Vec<Registered>, RegistryError> {
        if !self.has_table {
            return Ok(Vec::new());
        }
        let read = || -> rusqlite::Result<Vec<Registered>> {
            let sql = format!(
                "{} AS one WHERE kind = ?1 AND version = (SELECT max(version) FROM registered AS
                 other WHERE other.kind = one.kind AND other.name = one.name AND {}) ORDER BY name",
                schema::SELECT_VERSIONS,
                schema::IS_NOT_REMOVED
            );
            let mut statement = self.connection.prepare(&sql)?;
            statement.query_map([kind.word()], schema::read)?.collect()
        };
        read().map_err(|e| RegistryError::from_sqlite(&self.path, e))
    }

    /// Similar names, nearest first.
    fn nearest(&self, kind: RegisteredKind, wanted: &str) -> Result<Vec<String>, RegistryError> {
        let known = self.all(kind)?;
        let near = near(wanted, known.iter().map(|known| known.name.as_str()));
        Ok(near.into_iter().take(MAX_SUGGESTIONS).map(str::to_owned).collect())
    }
}

/// The numbers that identify the format of a database.
struct DatabaseFormat {
    application: i64,
    version: i64,
    tables: i64,
}

impl DatabaseFormat {
    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let number =
            |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let tables = "SELECT count(*) FROM sqlite_schema";
        Ok(Self {
            application: number("application_id")?,
            version: number("user_version")?,
            tables: connection.query_row(tables, [], |row| row.get(0))?,
        })
    }

    /// Returns `true` for a registry of this version, and `false` for an empty database. Fails for other
    /// databases.
    fn check(&self, path: &Path) -> Result<bool, RegistryError> {
        let path = || path.to_owned();
        match (self.application, self.version) {
            (schema::APPLICATION_ID, schema::FORMAT_VERSION) => Ok(true),
            (schema::APPLICATION_ID, found) => {
                Err(RegistryError::Newer { path: path(), found, known: schema::FORMAT_VERSION })
            }
            (0, 0) if self.tables == 0 => Ok(false),
            _ => Err(RegistryError::Foreign { path: path() }),
        }
    }
}

/// The latest version of a name that was not removed. `None` if the name has no such version.
fn latest(
    connection: &Connection,
    kind: RegisteredKind,
    name: &str,
) -> rusqlite::Result<Option<Registered>> {
    let sql = format!(
        "{} WHERE kind = ?1 AND name = ?2 AND {} ORDER BY version DESC LIMIT 1",
        schema::SELECT_VERSIONS,
        schema::IS_NOT_REMOVED
    );
    connection.query_row(&sql, [kind.word(), name], schema::read).optional()
}

/// The highest version number ever used for a name; 0 if the name was never used.
fn last_version(
    connection: &Connection,
    kind: RegisteredKind,
    name: &str,
) -> rusqlite::Result<u64> {
    let sql = "SELECT coalesce(max(version), 0) FROM registered WHERE kind = ?1 AND name = ?2";
    connection.query_row(sql, [kind.word(), name], |row| row.get(0)).map(i64::cast_unsigned)
}

/// The versions that were not removed: of a name, or of all names if `name` is `None`.
fn versions(
    connection: &Connection,
    kind: RegisteredKind,
    name: Option<&str>,
) -> rusqlite::Result<Vec<Registered>> {
    let sql = format!(
        "{} WHERE kind = ?1 AND (?2 IS NULL OR name = ?2) AND {} ORDER BY name, version",
        schema::SELECT_VERSIONS,
        schema::IS_NOT_REMOVED
    );
    let mut statement = connection.prepare(&sql)?;
    statement.query_map(params![kind.word(), name], schema::read)?.collect()
}

fn insert(
    connection: &Connection,
    kind: RegisteredKind,
    new: &Registered,
) -> rusqlite::Result<usize> {
    // A list of texts always serialises.
    let paths = serde_json::to_string(&new.paths).unwrap_or_default();
    let newest = new.held.and_then(|held| held.newest).map(|time| time.to_string());
    connection.execute(
        schema::INSERT_VERSION,
        params![
            kind.word(),
            new.name,
            new.version.cast_signed(),
            paths,
            new.datastore,
            new.digest,
            new.folder_digest,
            new.description,
            new.registered.to_string(),
            new.by,
            new.held.map(|held| held.files.cast_signed()),
            new.held.map(|held| held.bytes.cast_signed()),
            newest,
        ],
    )
}

/// Checks the file and its folder. A folder that other users can write to is as dangerous as a writable file:
/// SQLite would replay a rollback journal that they put next to the registry.
fn check_private(path: &Path, exists: bool) -> Result<(), RegistryError> {
    if let Some(folder) = path.parent() {
        place::check_private(folder)?;
    }
    if exists { place::check_private(path) } else { Ok(()) }
}
