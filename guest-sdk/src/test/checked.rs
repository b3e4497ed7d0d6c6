//! The checks that a job makes on the results of a call, with the same error messages. The end-to-end tests
//! check that the messages are the same.

use crate::{Error, Result, Results};

/// Fails if a job would refuse the results. A wrong number of rows is not an error: each missing row is a
/// failed item, and surplus rows only cause a notice.
pub(super) fn check(results: &Results, items: usize) -> Result<()> {
    match results {
        Results::Rows(rows) => check_lines(rows.iter()),
        Results::Outcomes(outcomes) => {
            check_lines(outcomes.iter().flatten())?;
            if outcomes.len() == items {
                return Ok(());
            }
            Err(Error::new(format!(
                "run returned {} outcomes for {items} items: return one outcome for each item, in \
                 the order of the mini-batch",
                outcomes.len()
            )))
        }
        #[cfg(feature = "table")]
        Results::Table(table) if table.num_columns() == 0 => Err(Error::new(
            "run returned a table that is not a valid Arrow IPC stream: it has no columns",
        )),
        #[cfg(feature = "table")]
        Results::Table(_) => Ok(()),
    }
}

/// Fails if a job with `strict_cardinality` would refuse the number of rows. Outcomes always pass, because
/// they have one entry for each item.
pub(super) fn check_count(results: &Results, items: usize) -> Result<()> {
    let rows = results.succeeded();
    if matches!(results, Results::Outcomes(_)) || rows == items {
        return Ok(());
    }
    let row = if rows == 1 { "row" } else { "rows" };
    let item = if items == 1 { "item" } else { "items" };
    Err(Error::new(format!(
        "run returned {rows} {row} for {items} {item}, and strict_cardinality asks for one row for \
         each item: return one for each, or set strict_cardinality to false"
    )))
}

/// Fails if a row has a line break, because each row is one line of the output. A line break at the end is
/// allowed: the job drops it.
fn check_lines<'a>(rows: impl Iterator<Item = &'a String>) -> Result<()> {
    for (number, row) in rows.enumerate() {
        let row = row.strip_suffix('\n').unwrap_or(row);
        let row = row.strip_suffix('\r').unwrap_or(row);
        if row.contains(['\n', '\r']) {
            return Err(Error::new(format!(
                "row {number} (counted from 0) of the results holds a line break, but a row is one \
                 line of the output: replace the line break, or return a table, whose fields may \
                 hold one"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::TestHost;
    use crate::{EntryScript, Files, Job, MiniBatchContext};
    use std::path::PathBuf;

    /// An entry script that returns the job's arguments as results.
    struct Returns(Results);

    impl EntryScript for Returns {
        type Input = Files;

        fn init(job: &Job) -> Result<Self> {
            let rows = job.arguments().iter().cloned();
            Ok(Returns(match job.env("OUTCOMES") {
                Some(_) => Results::outcomes(rows.map(Ok::<_, String>)),
                None => Results::rows(rows),
            }))
        }

        fn run(&mut self, _files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
            Ok(self.0.clone())
        }
    }

    fn two_files(host: TestHost) -> String {
        match host.init::<Returns>().unwrap().run_files(&["a", "b"]) {
            Ok(results) => format!("{} rows", results.succeeded()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn tests_refuse_the_same_results_as_a_job() {
        let rows = |rows: &[&str]| TestHost::new().arguments(rows.iter().copied());
        assert_eq!(two_files(rows(&["x", "y"])), "2 rows");
        assert_eq!(two_files(rows(&["x\n", "y\r\n"])), "2 rows");
        assert_eq!(two_files(rows(&["x"])), "1 rows", "the other item failed");
        assert_eq!(two_files(rows(&["x", "y", "z"])), "3 rows", "a note in the job's report");
        let broken = "row 1 (counted from 0) of the results holds a line break, but a row is one \
                      line of the output: replace the line break, or return a table, whose fields \
                      may hold one";
        assert_eq!(two_files(rows(&["x", "y\nz"])), broken);
        assert_eq!(two_files(rows(&["x", "y\rz"]).env("OUTCOMES", "")), broken);
        assert_eq!(
            two_files(rows(&["x"]).env("OUTCOMES", "")),
            "run returned 1 outcomes for 2 items: return one outcome for each item, in the order of \
             the mini-batch"
        );
    }

    #[cfg(feature = "table")]
    #[test]
    fn a_table_without_columns_is_refused() {
        let schema = std::sync::Arc::new(arrow_schema::Schema::empty());
        let error = check(&arrow_array::RecordBatch::new_empty(schema).into(), 0).unwrap_err();
        assert!(error.to_string().ends_with("it has no columns"), "{error}");
    }
}
