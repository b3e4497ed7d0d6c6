//! Errors about values and files of an input.

use arrow::datatypes::{DataType, TimeUnit};
use arrow::error::ArrowError;
use jiff::SignedDuration;
use jiff::civil::DateTime;
use std::io;
use std::path::PathBuf;

/// Why stored values do not fit a type.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoredError {
    /// There is no conversion between the types.
    #[error("{found} cannot become {to}")]
    Type {
        /// The type of the stored values.
        found: DataType,
        /// The type that they should have.
        to: DataType,
    },
    /// A 96-bit time that the type cannot hold.
    #[error(
        "{} (INT96) does not fit a 64-bit number of {}{}; set schema_inference: full, which takes \
         microseconds if they hold all times of the column, write the column as INT64 microseconds (in Spark \
         with spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS), or leave it out with the key `columns`",
        time_text(*nanos),
        unit_name(*unit),
        if *unit == TimeUnit::Nanosecond { " (1677-09-21 to 2262-04-11)" } else { "" }
    )]
    Time {
        /// Nanoseconds since 1970.
        nanos: i128,
        unit: TimeUnit,
    },
    /// An interval that the type cannot hold.
    #[error(
        "the interval of {months} months, {days} days and {millis} milliseconds does not fit the Arrow type \
         that the file names for its column; leave the column out with the key `columns`, or write the file again"
    )]
    Interval { months: u32, days: u32, millis: u32 },
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// The time `nanos` nanoseconds after the start of 1970, as text.
fn time_text(nanos: i128) -> String {
    let seconds = i64::try_from(nanos.div_euclid(1_000_000_000)).ok();
    let fraction = i32::try_from(nanos.rem_euclid(1_000_000_000)).ok();
    let duration =
        seconds.zip(fraction).map(|(seconds, fraction)| SignedDuration::new(seconds, fraction));
    let time = duration
        .and_then(|duration| DateTime::constant(1970, 1, 1, 0, 0, 0, 0).checked_add(duration).ok());
    match time {
        Some(time) => time.to_string(),
        None => format!("the time {nanos} nanoseconds from 1970"),
    }
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "seconds",
        TimeUnit::Millisecond => "milliseconds",
        TimeUnit::Microsecond => "microseconds",
        TimeUnit::Nanosecond => "nanoseconds",
    }
}

/// Why a column of a file does not fit the table's column.
#[derive(Debug, thiserror::Error)]
pub(super) enum MisfitError {
    /// A stored value cannot be converted.
    #[error("column '{column}': {source}")]
    Stored { column: String, source: StoredError },
    /// A value that the table's type cannot hold.
    #[error(
        "column '{column}': a value of {from} is not a valid {to}, the type of the table ({source}); write \
         the files with one type, or leave the column out with the key `columns`"
    )]
    Value {
        column: String,
        /// The type that the file has.
        from: DataType,
        /// The type that the table has.
        to: DataType,
        source: ArrowError,
    },
}

/// Why an entry of an input's folder cannot be passed to the entry script.
#[derive(Debug, thiserror::Error)]
pub(super) enum EntryError {
    #[error("{} cannot be listed: {source}", path.display())]
    Unlisted { path: PathBuf, source: io::Error },
    /// An entry that is neither a file, a folder nor a link.
    #[error(
        "{} is a device, fifo or socket, and an input has only files; move it away, or name the files with a \
         glob that leaves it out",
        path.display()
    )]
    Special { path: PathBuf },
    #[error("the name {path:?} is not UTF-8; rename the file")]
    NotUtf8 { path: PathBuf },
    /// A link to nothing.
    #[error("{} is a broken link; remove or repair it", link.display())]
    Dangling { link: PathBuf },
    #[error("cannot follow {}: {source}", link.display())]
    Unfollowed { link: PathBuf, source: io::Error },
    /// A link to a folder outside the input.
    #[error(
        "{} is a link to a folder outside of the input ({}); name that folder as a path of the input to \
         include it",
        link.display(),
        to.as_ref().map_or_else(|| "elsewhere".to_owned(), |to| to.display().to_string())
    )]
    FolderOutside {
        link: PathBuf,
        /// The folder, if it is known.
        to: Option<PathBuf>,
    },
    /// A link to a file outside the input.
    #[error(
        "the link {} leads out of the folder, to {}; copy that file into the folder, or name its folder as \
         a path of the input",
        link.display(),
        to.display()
    )]
    Outside { link: PathBuf, to: PathBuf },
    /// A link that guests cannot follow, because they see only the root.
    #[error(
        "{} links to {} by an absolute path, which the entry script cannot follow; make it a relative \
         link",
        link.display(),
        to.display()
    )]
    Absolute {
        link: PathBuf,
        /// The path in the link.
        to: PathBuf,
    },
    /// A link to something that is neither a file nor a folder.
    #[error("{} is a link to a device, fifo or socket; remove it", link.display())]
    ToSpecial { link: PathBuf },
}
