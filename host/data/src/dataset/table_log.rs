//! Recognizes tables with a log: formats such as Delta Lake, in which metadata beside the data
//! files says which files and rows belong to the table. If we read the data files of such a table
//! as plain files, we would also read rows that were removed or replaced.

use std::fs;
use std::path::{Path, PathBuf};

/// The maximum number of file names that are checked in a metadata folder.
const MAX_INSPECTED_FILES: usize = 100_000;

/// The format of a table whose metadata says which files and rows belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableLog {
    /// Delta Lake.
    Delta,
    /// Apache Hudi.
    Hudi,
    /// Apache Iceberg.
    Iceberg,
    /// Apache Paimon.
    Paimon,
}

impl TableLog {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Delta, Self::Hudi, Self::Iceberg, Self::Paimon];

    /// The format's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delta => "Delta",
            Self::Hudi => "Hudi",
            Self::Iceberg => "Iceberg",
            Self::Paimon => "Paimon",
        }
    }

    /// The folder in the table that identifies the format.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Delta => "_delta_log",
            Self::Hudi => ".hoodie",
            Self::Iceberg => "metadata",
            Self::Paimon => "schema",
        }
    }

    /// Whether a file with this name in its [`folder`](Self::folder) shows that the table has this format.
    pub fn is_shown_by(self, file: &str) -> bool {
        match self {
            Self::Delta | Self::Hudi => true,
            Self::Iceberg => file == "version-hint.text" || file.ends_with(".metadata.json"),
            Self::Paimon => file == "schema-0",
        }
    }

    /// The format of the table in a folder. `None` if there is no such table.
    pub fn at(folder: &Path) -> Option<Self> {
        Self::ALL.into_iter().find(|log| log.is_at(folder))
    }

    fn is_at(self, folder: &Path) -> bool {
        let metadata = folder.join(self.folder());
        match self {
            Self::Delta | Self::Hudi => metadata.is_dir(),
            Self::Paimon => metadata.join("schema-0").is_file() && folder.join("snapshot").is_dir(),
            Self::Iceberg => {
                let names = || {
                    fs::read_dir(&metadata)
                        .into_iter()
                        .flatten()
                        .take(MAX_INSPECTED_FILES)
                        .flatten()
                };
                let is_shown = |name: &str| self.is_shown_by(name);
                // The hint can be found even if this user may not list the folder.
                metadata.join("version-hint.text").is_file()
                    || names().any(|entry| entry.file_name().to_str().is_some_and(is_shown))
            }
        }
    }

    /// Whether files in the table's folder may belong to the table. `first` is the first part of their path
    /// below the table's folder: the name of a file if `is_file`, and otherwise of a folder.
    pub fn owns(self, first: &str, is_file: bool) -> bool {
        match self {
            Self::Delta | Self::Hudi => first != self.folder(),
            // `metadata` is a common name, so only the usual files and folders count.
            Self::Iceberg => is_file || first == "data" || first.contains('='),
            Self::Paimon => first.starts_with("bucket-") || first.contains('='),
        }
    }

    /// If `folder` is a table or belongs to one, returns the table's format and folder. `folder`
    /// must be absolute.
    pub fn above(folder: &Path) -> Option<(Self, PathBuf)> {
        if let Some(log) = Self::at(folder) {
            return Some((log, folder.to_owned()));
        }
        let mut child = folder;
        while let Some(parent) = child.parent() {
            let first = child.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let owns_child = |log: &Self| log.owns(first, false) && log.is_at(parent);
            if let Some(log) = Self::ALL.into_iter().find(owns_child) {
                return Some((log, parent.to_owned()));
            }
            child = parent;
        }
        None
    }

    /// If the object with this key is metadata of a table, returns the table's format, and its
    /// folder without a `/` at the end.
    pub fn shown_by(key: &str) -> Option<(Self, &str)> {
        let mut start = 0;
        for part in key.split_inclusive('/') {
            let name = part.trim_end_matches('/');
            let rest = &key[start + part.len()..];
            let mut logs = Self::ALL.into_iter();
            let is_shown =
                |log: &Self| log.folder() == name && !rest.is_empty() && log.is_shown_by(rest);
            if let Some(log) = logs.find(is_shown) {
                return Some((log, key[..start].trim_end_matches('/')));
            }
            start += part.len();
        }
        None
    }

    /// Explains to the user why the table at `address` is not read as plain files, and what to do.
    pub fn refusal(self, address: &str) -> String {
        let name = self.name();
        let folder = self.folder();
        let command = match self {
            Self::Delta => {
                format!("in DuckDB: COPY (FROM delta_scan('{address}')) TO 'rows.parquet'")
            }
            Self::Iceberg => {
                format!("in DuckDB: COPY (FROM iceberg_scan('{address}')) TO 'rows.parquet'")
            }
            Self::Hudi | Self::Paimon => {
                let format = name.to_lowercase();
                format!(
                    "in Spark: spark.read.format(\"{format}\").load(\"{address}\").write.parquet(\"rows\")"
                )
            }
        };
        format!(
            "{address} is {article} {name} table: its folder {folder} says which rows it has, and its \
             Parquet files also hold rows that were removed or replaced. Sandmill does not read {name} \
             tables: write the table's rows to plain Parquet files ({command}), and use them as the input; \
             or, to read the files themselves, write files: true beside format: parquet",
            article = if self == Self::Iceberg { "an" } else { "a" },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        dir
    }

    #[test]
    fn tables_are_recognized_by_their_metadata_files() {
        for (file, expected) in [
            ("t/_delta_log/00000000000000000000.json", Some(TableLog::Delta)),
            ("t/.hoodie/hoodie.properties", Some(TableLog::Hudi)),
            ("t/metadata/v1.metadata.json", Some(TableLog::Iceberg)),
            ("t/metadata/00001-2f0c.gz.metadata.json", Some(TableLog::Iceberg)),
            ("t/metadata/version-hint.text", Some(TableLog::Iceberg)),
            ("t/metadata/notes.json", None),
            ("t/metadata.json", None),
            ("t/_delta_log", None),
            ("t/schema/schema-0", None),
        ] {
            let tree = tree(&[file]);
            assert_eq!(TableLog::at(&tree.path().join("t")), expected, "{file}");
        }
        let paimon = tree(&["t/schema/schema-0", "t/snapshot/LATEST"]);
        assert_eq!(TableLog::at(&paimon.path().join("t")), Some(TableLog::Paimon));
    }

    #[test]
    fn folders_of_a_table_belong_to_it_except_its_metadata() {
        let tree = tree(&[
            "delta/_delta_log/0.json",
            "delta/day=1/x=2/a.parquet",
            "ice/metadata/v1.metadata.json",
            "ice/data/day=1/a.parquet",
            "ice/other/a.parquet",
        ]);
        let above = |folder: &str| {
            let found = TableLog::above(&tree.path().join(folder));
            found.map(|(_, table)| {
                table.strip_prefix(tree.path()).unwrap().to_str().unwrap().to_owned()
            })
        };
        for (folder, table) in [
            ("delta", Some("delta")),
            ("delta/day=1", Some("delta")),
            ("delta/day=1/x=2", Some("delta")),
            ("delta/_delta_log", None),
            ("ice/data", Some("ice")),
            ("ice/data/day=1", Some("ice")),
            ("ice/other", None),
            ("ice/metadata", None),
            ("", None),
        ] {
            assert_eq!(above(folder).as_deref(), table, "{folder}");
        }
    }

    #[test]
    fn keys_of_objects_show_tables() {
        for (key, expected) in [
            ("_delta_log/0.json", Some((TableLog::Delta, ""))),
            ("lake/t/_delta_log/_sidecars/1.parquet", Some((TableLog::Delta, "lake/t"))),
            ("t/.hoodie/x", Some((TableLog::Hudi, "t"))),
            ("t/metadata/v1.metadata.json", Some((TableLog::Iceberg, "t"))),
            ("t/metadata/a/v1.avro", None),
            ("t/_delta_log", None),
            ("t/my_delta_log/a", None),
            ("t/a.parquet", None),
        ] {
            assert_eq!(TableLog::shown_by(key), expected, "{key}");
        }
    }

    #[test]
    fn refusals_say_what_to_do() {
        insta::assert_snapshot!(TableLog::Delta.refusal("/d/t"), @"/d/t is a Delta table: its folder _delta_log says which rows it has, and its Parquet files also hold rows that were removed or replaced. Sandmill does not read Delta tables: write the table's rows to plain Parquet files (in DuckDB: COPY (FROM delta_scan('/d/t')) TO 'rows.parquet'), and use them as the input; or, to read the files themselves, write files: true beside format: parquet");
        insta::assert_snapshot!(TableLog::Hudi.refusal("/d/t"), @r#"/d/t is a Hudi table: its folder .hoodie says which rows it has, and its Parquet files also hold rows that were removed or replaced. Sandmill does not read Hudi tables: write the table's rows to plain Parquet files (in Spark: spark.read.format("hudi").load("/d/t").write.parquet("rows")), and use them as the input; or, to read the files themselves, write files: true beside format: parquet"#);
    }
}
