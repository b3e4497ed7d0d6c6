//! Opens a table whose columns may have changed between versions of Sandmill.

use super::continued::open_to_append;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::Path;

/// Like [`open_to_append`], but first renames an existing table with another header, which an
/// earlier version of Sandmill wrote: `a.csv` becomes `a.1.csv`, or gets the next number that is
/// free.
pub(super) fn open_table(path: &Path, header: &str) -> io::Result<File> {
    let mut file = open_to_append(path)?;
    let mut first_line = vec![0; header.len() + 1];
    file.rewind()?;
    let has_this_header = match file.read_exact(&mut first_line) {
        Ok(()) => first_line.strip_suffix(b"\n") == Some(header.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
        Err(error) => return Err(error),
    };
    if header.is_empty() || has_this_header || file.metadata()?.len() == 0 {
        return Ok(file);
    }
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let mut other_paths =
        (1u32..).map(|number| path.with_extension(format!("{number}.{extension}")));
    if let Some(aside) = other_paths.find(|path| path.symlink_metadata().is_err()) {
        fs::rename(path, aside)?;
    }
    open_to_append(path)
}

#[cfg(test)]
mod tests {
    use super::super::log_file::{LogFile, RenewedFile};
    use std::fs;

    /// If an earlier version began the job, the rows of this version go to a new table.
    #[test]
    fn a_table_with_other_columns_is_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let text = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        for (header, row) in [("x", "1\n"), ("x,y", "1,2\n"), ("x,y", "3,4\n"), ("x,z", "5,6\n")] {
            let mut log = LogFile::new(path.clone(), header);
            log.write(row.as_bytes()).unwrap();
            log.flush().unwrap();
        }
        assert_eq!(text("a.1.csv"), "x\n1\n");
        assert_eq!(text("a.2.csv"), "x,y\n1,2\n3,4\n");
        assert_eq!(text("a.csv"), "x,z\n5,6\n");
        RenewedFile::new(path, "x").write("7\n", "").unwrap();
        assert_eq!(
            (text("a.csv"), text("a.3.csv")),
            ("x\n7\n".to_owned(), "x,z\n5,6\n".to_owned())
        );
    }
}
