/* Write Sandmill entry scripts in C or C++.
 *
 * An entry script defines `sandmill_run`, and `sandmill_init` and `sandmill_shutdown` if it needs them. `sandmill build FOLDER`
 * compiles the folder's sources together with `sandmill.c`, which speaks to the host.
 *
 * Functions that can fail return a text that says why, or NULL. What a mini-batch points to is there until `sandmill_run` returns.
 */
#ifndef SANDMILL_H
#define SANDMILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a column holds. */
typedef enum {
    SANDMILL_INT64,     /* `int64`: integers of all widths */
    SANDMILL_FLOAT64,   /* `float64`: floats of 32 and 64 bits */
    SANDMILL_BOOL,      /* `boolean`: 0 or 1 */
    SANDMILL_TEXT,      /* `text`: ends with a zero byte; categories are texts, too */
    SANDMILL_DATE,      /* `int64`: days since 1970-01-01 */
    SANDMILL_TIMESTAMP, /* `int64`: microseconds since 1970-01-01; parts below a microsecond are dropped */
    SANDMILL_UNREAD     /* any other type: there are no values */
} sandmill_type;

/* A column of a table. Of the values only those of its type are there, one for each row; a null is 0 or an empty text. */
typedef struct {
    const char *name;
    sandmill_type type;
    bool has_time_zone;     /* of timestamps: they are in UTC */
    const uint8_t *is_null; /* 1 where a row has no value; NULL where all rows have one */
    const int64_t *int64;
    const double *float64;
    const uint8_t *boolean;
    const char *const *text;
} sandmill_column;

/* The rows of a mini-batch. */
typedef struct {
    size_t rows;
    size_t column_count;
    const sandmill_column *columns;
} sandmill_table;

typedef enum { SANDMILL_FILES, SANDMILL_ROWS, SANDMILL_VOID } sandmill_kind;

/* What one call of `sandmill_run` works on. */
typedef struct {
    sandmill_kind kind;
    size_t count;                /* of files, or of rows */
    const char *const *files;    /* absolute paths, with SANDMILL_FILES */
    const sandmill_table *table; /* with SANDMILL_ROWS */
    uint64_t id;                 /* counts from 0 within the job; the same in every attempt */
    const char *dataset;         /* the name of the input */
    uint32_t attempt;            /* 1 for the first */
    size_t key_count;            /* partition keys, in the order of the job file, and their values */
    const char *const *keys;
    const char *const *key_values;
} sandmill_mini_batch;

/* What `sandmill_run` gives back: rows, or columns of a table. */
typedef struct sandmill_results sandmill_results;

/* ---- What you write ---- */

/* Called once per instance, before the first run. An error ends the worker's start. */
const char *sandmill_init(void);
/* Called once per mini-batch. An error fails the attempt; the job tries again. */
const char *sandmill_run(const sandmill_mini_batch *batch, sandmill_results *results);
/* Called once after the last run. */
void sandmill_shutdown(void);

/* Once, outside of functions: a job with another kind of input does not start. */
#define SANDMILL_TAKES_FILES SANDMILL_TAKES("files")
#define SANDMILL_TAKES_TABLE SANDMILL_TAKES("table")
#define SANDMILL_TAKES_VOID SANDMILL_TAKES("void")
#define SANDMILL_TAKES(word) \
    __asm__(".section \".custom_section.sandmill:takes\",\"\",@\n.ascii \"" word "\"\n.text\n");

/* ---- Errors and logs ---- */

#define SANDMILL_FORMAT(at) __attribute__((format(printf, at, at + 1)))

/* A text for an error, as `printf` makes it. It is there until the next one. */
const char *sandmill_error(const char *format, ...) SANDMILL_FORMAT(1);

typedef enum { SANDMILL_ERROR, SANDMILL_WARNING, SANDMILL_INFO, SANDMILL_DEBUG } sandmill_level;

/* A line in the entry script's log. */
void sandmill_log(sandmill_level level, const char *format, ...) SANDMILL_FORMAT(2);

/* ---- Results ---- */

/* A row of text. A line break in it fails the attempt. */
void sandmill_row(sandmill_results *results, const char *format, ...) SANDMILL_FORMAT(2);
/* The next item failed, and why. There is one row or failure for each item then, in the order of the mini-batch. */
void sandmill_item_failed(sandmill_results *results, const char *format, ...) SANDMILL_FORMAT(2);

/* Columns of a table, one value for each of `rows` rows. `is_null` as in a column, or NULL. The values are copied. */
void sandmill_return_int64(sandmill_results *results, const char *name, const int64_t *values, const uint8_t *is_null,
                           size_t rows);
void sandmill_return_float64(sandmill_results *results, const char *name, const double *values, const uint8_t *is_null,
                             size_t rows);
void sandmill_return_bool(sandmill_results *results, const char *name, const uint8_t *values, const uint8_t *is_null,
                          size_t rows);
void sandmill_return_text(sandmill_results *results, const char *name, const char *const *values,
                          const uint8_t *is_null, size_t rows);
/* A column as it came. */
void sandmill_return_column(sandmill_results *results, const sandmill_column *column, size_t rows);

/* ---- Tables ---- */

/* The column of this name; NULL where there is none. */
const sandmill_column *sandmill_find(const sandmill_table *table, const char *name);
/* Numbers without nulls: floats, or integers as floats. What comes to `values` is there until `sandmill_run` returns. */
const char *sandmill_float64(const sandmill_table *table, const char *name, const double **values);
/* Integers without nulls. */
const char *sandmill_int64(const sandmill_table *table, const char *name, const int64_t **values);
/* Texts without nulls. */
const char *sandmill_text(const sandmill_table *table, const char *name, const char *const **values);

/* ---- The job ---- */

/* The value of an argument: of `--word mill`, or of `--word=mill`. NULL where it is not given. */
const char *sandmill_argument(const char *name);
/* Whether an argument is given that has no value. */
bool sandmill_flag(const char *name);
/* The job's arguments, one by one. */
size_t sandmill_argument_count(void);
const char *sandmill_argument_at(size_t index);

/* A whole file, much faster than by `fopen`. The bytes are yours: `free` them. A zero byte follows them. */
const char *sandmill_read(const char *path, char **bytes, size_t *length);

/* The worker's name; put it into names of files that `sandmill_init` or `sandmill_shutdown` writes. */
const char *sandmill_agent_name(void);
const char *sandmill_node_id(void);
/* The folder for result files, and the one for log files. */
const char *sandmill_output_dir(void);
const char *sandmill_log_dir(void);
/* The job's source folder; NULL where the job names none. */
const char *sandmill_source_dir(void);
/* The index of the worker's own GPU; -1 where it has none. */
int sandmill_gpu_index(void);

/* The last part of a path. */
const char *sandmill_file_name(const char *path);

#ifdef __cplusplus
}
#endif

#endif
