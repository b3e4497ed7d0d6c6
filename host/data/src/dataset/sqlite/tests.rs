//! Tests with databases that SQLite has written, and with damaged files.

use super::Database;
use crate::dataset::DatasetError;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::util::display::array_value_to_string;
use rusqlite::Connection;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// A folder with a database.
struct Shop(TempDir);

impl Shop {
    fn new(sql: &str) -> Self {
        let shop = Self(tempfile::tempdir().unwrap());
        shop.connect().execute_batch(sql).unwrap();
        shop
    }

    /// A connection that writes, as another program would.
    fn connect(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    /// The path of the database. Its name has characters that are special in URIs.
    fn path(&self) -> PathBuf {
        self.0.path().join("a shop?mode=rw&x#1%41.sqlite")
    }

    fn table(&self, query: &str) -> Result<RecordBatch, DatasetError> {
        let mut database = Database::open(&self.path(), query)?;
        let survey = database.survey()?;
        database.read(&survey.schema, survey.rows)
    }

    fn shown(&self, query: &str) -> String {
        let table = self.table(query).unwrap();
        let types: Vec<_> = table
            .schema()
            .fields()
            .iter()
            .map(|field| format!("{} {}", field.name(), field.data_type()))
            .collect();
        let mut text = types.join(", ");
        for row in 0..table.num_rows() {
            let cell = |column: &ArrayRef| match column.is_null(row) {
                true => "null".to_owned(),
                false => array_value_to_string(column, row).unwrap(),
            };
            let cells: Vec<_> = table.columns().iter().map(cell).collect();
            text = format!("{text}\n{}", cells.join(" | "));
        }
        text
    }

    fn error(&self, query: &str) -> String {
        let text = self.table(query).expect_err(query).to_string();
        text.replace(self.0.path().to_str().unwrap(), "/d")
    }
}

fn orders() -> Shop {
    Shop::new(
        "create table orders (id integer primary key, text varchar(20), price double, paid boolean, \
         picture blob, amount decimal(8, 2), note);
         insert into orders values (1, 'tea', 2.5, 1, x'0102', 7, null), \
         (2, 'wörd', 3, 0, null, 7.5, 'x'), (3, null, null, null, x'', null, null);
         create view cheap as select text, price from orders where price < 3;",
    )
}

#[test]
fn columns_have_declared_types_or_those_of_their_values() {
    let shop = orders();
    insta::assert_snapshot!(shop.shown("select * from orders"), @"
    id Int64, text Utf8, price Float64, paid Boolean, picture Binary, amount Float64, note Utf8
    1 | tea | 2.5 | true | 0102 | 7.0 | null
    2 | wörd | 3.0 | false | null | 7.5 | x
    3 | null | null | null |  | null | null
    ");
    insta::assert_snapshot!(shop.shown("select count(*) as n, sum(price) / 2 as half, 'a' || id as \"key\" from orders"), @"
    n Int64, half Float64, key Utf8
    3 | 2.75 | a1
    ");
    insta::assert_snapshot!(shop.shown("select * from cheap"), @"
    text Utf8, price Float64
    tea | 2.5
    ");
    insta::assert_snapshot!(shop.shown("with recursive n(i) as (select 1 union all select i + 1 from n where i < 3) select i from n"), @"
    i Int64
    1
    2
    3
    ");
    let none = shop.table("select id, note from orders where id > 7").unwrap();
    assert_eq!((none.num_rows(), none.num_columns()), (0, 2));
}

/// A column of a table has one type: a value that does not fit is reported with its row.
#[test]
fn values_that_do_not_fit_are_reported() {
    let shop = Shop::new(
        "create table t (n integer, b boolean, x, big, bad text);
         insert into t values (1, 1, 1, 1.5, 'a'), (2, 0, 2, 9007199254740993, 'b'), \
         ('three', 7, 'x', 0, cast(x'61ff' as text)), (1.5, 1, null, 0, 'c');",
    );
    let columns = ["n", "b", "x", "big", "bad"];
    let reported: Vec<_> =
        columns.map(|column| shop.error(&format!("select {column} from t"))).into();
    insta::assert_snapshot!(reported.join("\n"), @r#"
    has the text "three" in column 'n' of row 3, where its table declares INTEGER; convert it in query, as with cast("n" as text), or leave the row out
    has the whole number 7 in column 'b' of row 3, where its table declares boolean; convert it in query, as with cast("b" as text), or leave the row out
    has the text "x" in column 'x' of row 3, where rows before have whole numbers; convert it in query, as with cast("x" as text), or leave the row out
    has the whole number 9007199254740993 in column 'big' of row 2, where rows before have numbers; convert it in query, as with cast("big" as text), or leave the row out
    has a text that is not UTF-8 in column 'bad' of row 3; read its bytes with cast("bad" as blob) in query
    "#);
    assert_eq!(shop.table("select cast(bad as blob) as bad from t").unwrap().num_rows(), 4);
}

/// No value is rounded, truncated or converted: the table has SQLite's value, or the row is
/// reported. SQLite itself has already changed some values: `007` in a column of numbers is 7, and
/// 2^64 - 1 is a float.
#[test]
fn values_are_those_that_sqlite_stores() {
    let shop = Shop::new(
        "create table t (n integer, x real, code text, day date, any, big numeric);
         insert into t values (9223372036854775807, 0.1, '007', '2024-02-30', '+5', 9007199254740993),
         (-9223372036854775808, -1e308, '18446744073709551615', '10000-01-01', '1e3', -1),
         ('007', 9e999, '', '1677-01-01 00:00:00.000000001', '', 9223372036854775807);
         create table u (n integer);
         insert into u values ('18446744073709551615');",
    );
    insta::assert_snapshot!(shop.shown("select * from t"), @"
    n Int64, x Float64, code Utf8, day Utf8, any Utf8, big Int64
    9223372036854775807 | 0.1 | 007 | 2024-02-30 | +5 | 9007199254740993
    -9223372036854775808 | -1e308 | 18446744073709551615 | 10000-01-01 | 1e3 | -1
    7 | inf |  | 1677-01-01 00:00:00.000000001 |  | 9223372036854775807
    ");
    insta::assert_snapshot!(shop.error("select n from u"), @r#"has the number 1.8446744073709552e19 in column 'n' of row 1, where its table declares INTEGER; convert it in query, as with cast("n" as text), or leave the row out"#);
}

/// The file and the tenant's query are untrusted.
#[test]
fn a_query_can_only_read() {
    let shop = orders();
    let other = shop.0.path().join("other.sqlite");
    let attach = format!("attach '{}' as other", other.display());
    let reported: Vec<_> = [
        "insert into orders (id) values (9)",
        "delete from orders",
        "create table more (x)",
        "create temp table more (x)",
        "pragma journal_mode = wal",
        "pragma table_info(orders)",
        "select * from pragma_table_info('orders')",
        &attach,
        "vacuum into 'copy.sqlite'",
        "select load_extension('x')",
        "select random() as x",
        "begin",
        "select 1; select 2",
        "select 1 where ? = 1",
        "select prise from orders",
        "select \"prise\" from orders",
        "select * from order",
        "select * from ordrs",
        "selec 1",
        "",
        "-- nothing",
    ]
    .map(|query| format!("{query}: {}", shop.error(query)))
    .into();
    let reported = reported.join("\n").replace(shop.0.path().to_str().unwrap(), "/d");
    insta::assert_snapshot!(reported, @r#"
    insert into orders (id) values (9): is not queried: not authorized; query may only select, and must give the same rows each time
    delete from orders: is not queried: not authorized; query may only select, and must give the same rows each time
    create table more (x): is not queried: not authorized; query may only select, and must give the same rows each time
    create temp table more (x): is not queried: not authorized; query may only select, and must give the same rows each time
    pragma journal_mode = wal: is not queried: not authorized; query may only select, and must give the same rows each time
    pragma table_info(orders): is not queried: not authorized; query may only select, and must give the same rows each time
    select * from pragma_table_info('orders'): is not queried: not authorized; query may only select, and must give the same rows each time
    attach '/d/other.sqlite' as other: is not queried: not authorized; query may only select, and must give the same rows each time
    vacuum into 'copy.sqlite': is not queried: query is not a select statement; write one
    select load_extension('x'): is not queried: not authorized to use function: load_extension (character 8 of query); query may only select, and must give the same rows each time
    select random() as x: is not queried: not authorized to use function: random (character 8 of query); query may only select, and must give the same rows each time
    begin: is not queried: not authorized; query may only select, and must give the same rows each time
    select 1; select 2: cannot be queried: query holds several statements; write one select statement
    select 1 where ? = 1: cannot be queried: too many SQL variables (character 16 of query)
    select prise from orders: cannot be queried: no such column: prise (character 8 of query)
    select "prise" from orders: cannot be queried: no such column: "prise" - should this be a string literal in single-quotes? (character 8 of query)
    select * from order: cannot be queried: near "order": syntax error (character 15 of query)
    select * from ordrs: cannot be queried: no such table: ordrs; its tables are: cheap, orders
    selec 1: cannot be queried: near "selec": syntax error (character 1 of query)
    : is not queried: query is not a select statement; write one
    -- nothing: is not queried: query is not a select statement; write one
    "#);
    assert!(!other.exists());
    assert_eq!(std::fs::read_dir(shop.0.path()).unwrap().count(), 1, "no file was made");
}

#[test]
fn a_view_is_trusted_no_more_than_its_file() {
    let shop = Shop::new(
        "create table t (x); insert into t values (1);
         create view v as select randomblob(4) as x from t;
         create view w as select * from nowhere;",
    );
    insta::assert_snapshot!(shop.error("select * from v"), @"is not queried: not authorized to use function: randomblob; query may only select, and must give the same rows each time");
    insta::assert_snapshot!(shop.error("select * from w"), @"cannot be queried: no such table: main.nowhere; its tables are: t, v, w");
}

/// A retry must read the same rows, whenever it runs.
#[test]
fn queries_for_the_current_time_are_refused() {
    let shop = Shop::new(
        "create table t (day text, word text); insert into t values ('2024-02-28', 'NoW');
         create view v as select date('now') as x;",
    );
    let errors: Vec<_> = [
        "select current_timestamp as x",
        "select CURRENT_DATE as x",
        "select current_time as x",
        "select datetime() as x",
        "select date('now', '-1 day') as x",
        "select unixepoch('NOW') as x",
        "select strftime('%Y') as x",
        "select strftime('%Y', 'now') as x",
        "select julianday(word) as x from t",
        "select timediff('2024-01-01', 'now') as x",
        "select * from v",
    ]
    .map(|query| format!("{query}: {}", shop.error(query)))
    .into();
    insta::assert_snapshot!(errors.join("\n"), @"
    select current_timestamp as x: is not queried: not authorized to use function: current_timestamp (character 8 of query); query may only select, and must give the same rows each time
    select CURRENT_DATE as x: is not queried: not authorized to use function: CURRENT_DATE (character 8 of query); query may only select, and must give the same rows each time
    select current_time as x: is not queried: not authorized to use function: current_time (character 8 of query); query may only select, and must give the same rows each time
    select datetime() as x: cannot be queried: datetime() asks for the current time; query must give the same rows each time
    select date('now', '-1 day') as x: cannot be queried: date() asks for the current time; query must give the same rows each time
    select unixepoch('NOW') as x: cannot be queried: unixepoch() asks for the current time; query must give the same rows each time
    select strftime('%Y') as x: cannot be queried: strftime() asks for the current time; query must give the same rows each time
    select strftime('%Y', 'now') as x: cannot be queried: strftime() asks for the current time; query must give the same rows each time
    select julianday(word) as x from t: cannot be queried: julianday() asks for the current time; query must give the same rows each time
    select timediff('2024-01-01', 'now') as x: cannot be queried: timediff() asks for the current time; query must give the same rows each time
    select * from v: cannot be queried: date() asks for the current time; query must give the same rows each time
    ");
    let text = "select date(day, '+1 day') as a, strftime('%d', day) as b, unixepoch('1970-01-02') as c, \
                timediff(day, '2024-02-27') as d, date(null) as e from t";
    insta::assert_snapshot!(shop.shown(text), @"
    a Utf8, b Utf8, c Int64, d Utf8, e Utf8
    2024-02-29 | 28 | 86400 | +0000-00-01 00:00:00.000 | null
    ");
}

#[test]
fn an_endless_query_is_stopped() {
    let shop = orders();
    let endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) as c from n";
    let mut database = Database::open(&shop.path(), endless).unwrap();
    let error = database.survey_within(Duration::from_millis(50)).unwrap_err();
    insta::assert_snapshot!(error, @"takes more than 240 s to be queried; simplify query, or make a database that has just its result");
    // The next query has its own time limit.
    let mut database = Database::open(&shop.path(), "select id from orders").unwrap();
    assert_eq!(database.survey_within(Duration::from_millis(50)).unwrap().rows, 3);
}

#[test]
fn results_that_are_too_large_are_refused() {
    let shop = orders();
    insta::assert_snapshot!(shop.error("select zeroblob(200000000) as x"), @"has a value of more than 128 MB; leave it out in query, or take a part of it with substr");
    let many = "with recursive n(i) as (select 1 union all select i + 1 from n) select zeroblob(100000000) as x from n";
    insta::assert_snapshot!(shop.error(many), @"gives more than 1 GB, which is the most that a worker holds, and the result of a database is one mini-batch; select less in query, or divide the rows among several databases");
    let sorted = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 40) \
                  select zeroblob(100000000) as x from n order by i desc";
    insta::assert_snapshot!(shop.error(sorted), @"takes more than 512 MB of memory to be queried; sort and group less of it in query");
}

/// The latest changes of an open database may be in other files.
#[test]
fn a_database_with_unfinished_changes_is_refused() {
    let shop = orders();
    let writer = shop.connect();
    writer.pragma_update(None, "journal_mode", "wal").unwrap();
    writer.execute_batch("insert into orders (id) values (4)").unwrap();
    insta::assert_snapshot!(shop.error("select id from orders"), @"has changes in /d/a shop?mode=rw&x#1%41.sqlite-wal that are not in the database yet: a program has it open, or ended without closing it; close that program, or run sqlite3 on it with PRAGMA wal_checkpoint(TRUNCATE)");
    // After the writer has closed the database, the file is complete. We can read it although it is
    // still in WAL mode.
    drop(writer);
    assert_eq!(shop.table("select id from orders").unwrap().num_rows(), 4);
    let mut writer = shop.connect();
    writer.pragma_update(None, "journal_mode", "delete").unwrap();
    writer.pragma_update(None, "cache_size", 1).unwrap();
    let change = writer.transaction().unwrap();
    for _ in 0..2000 {
        change.execute("insert into orders (text) values (hex(randomblob(500)))", []).unwrap();
    }
    insta::assert_snapshot!(shop.error("select id from orders"), @"has an unfinished change, as /d/a shop?mode=rw&x#1%41.sqlite-journal shows: a program is writing to it, or ended while writing; wait for that program, or open the database with sqlite3, which undoes the change");
    change.rollback().unwrap();
    drop(writer);
    assert_eq!(shop.table("select id from orders").unwrap().num_rows(), 4);
}

#[test]
fn a_file_that_is_not_a_database_is_refused() {
    let shop = orders();
    let good = std::fs::read(shop.path()).unwrap();
    let mut reported = Vec::new();
    let mut broken = good.clone();
    broken[4096..].fill(0xa5);
    for bytes in [b"id,text\n1,tea\n".repeat(99), good[..600].to_vec(), broken] {
        std::fs::write(shop.path(), bytes).unwrap();
        reported.push(shop.error("select * from orders"));
    }
    insta::assert_snapshot!(reported.join("\n"), @"
    is not an SQLite database; correct the key `format`, or leave the file out with a glob
    is a damaged database (database disk image is malformed); copy what can be read of it to a new one with sqlite3's command .recover
    is a damaged database (database disk image is malformed); copy what can be read of it to a new one with sqlite3's command .recover
    ");
}

/// Whatever bytes a file has, reading it ends with an error or with a table.
#[test]
fn damaged_databases_do_not_crash_the_reader() {
    let shop = orders();
    let good = std::fs::read(shop.path()).unwrap();
    let mut seed = 7_u64;
    let mut dice = |sides: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % sides
    };
    let mut read = 0;
    for _ in 0..300 {
        let mut bytes = good.clone();
        for _ in 0..=dice(8) {
            let at = dice(bytes.len());
            bytes[at] = dice(256) as u8;
        }
        bytes.truncate(bytes.len() - dice(2) * dice(good.len()));
        std::fs::write(shop.path(), &bytes).unwrap();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            shop.table("select *, length(picture) as l from orders order by text")
        }));
        read +=
            usize::from(result.is_ok_and(|table| table.is_ok_and(|it| !it.column(0).is_empty())));
    }
    assert!(read > 0, "not one of them could be read");
}

#[test]
fn a_result_that_differs_from_planning_is_refused() {
    let shop = orders();
    let mut database = Database::open(&shop.path(), "select id from orders").unwrap();
    let survey = database.survey().unwrap();
    insta::assert_snapshot!(database.read(&survey.schema, 2).unwrap_err(), @"has changed since planning, or query gives other rows each time: it gives more than 2 rows instead of 2; run the job on files that no program writes to");
    insta::assert_snapshot!(database.read(&survey.schema, 4).unwrap_err(), @"has changed since planning, or query gives other rows each time: it gives 3 rows instead of 4; run the job on files that no program writes to");
    let other = Database::open(&shop.path(), "select text as id from orders").unwrap();
    insta::assert_snapshot!(other.read(&survey.schema, 3).unwrap_err(), @r#"has the text "tea" in column 'id' of row 1, but the table has whole numbers; convert it in query, as with cast("id" as text), or leave the row out"#);
}
