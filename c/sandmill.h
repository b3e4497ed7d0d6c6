/* Write Sandmill entry scripts in C or C++.
 *
 * An entry script defines `sandmill_run`. If it needs them, it also defines `sandmill_init` and
 * `sandmill_shutdown`. `sandmill build FOLDER` compiles the folder's sources together with `sandmill.c`,
 * which connects them to the host.
 *
 * A function that can fail returns NULL on success, or a text that says why it failed. The pointers in a
 * mini-batch are valid until `sandmill_run` returns.
 */
#ifndef SANDMILL_H
#define SANDMILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The type of a column's values. */
typedef enum {
    SANDMILL_INT64,     /* `int64`: integers of all widths */
    SANDMILL_FLOAT64,   /* `float64`: floats of 32 and 64 bits */
    SANDMILL_BOOL,      /* `boolean`: 0 or 1 */
    SANDMILL_TEXT,      /* `text`: ends with a zero byte; dictionaries (categories) of texts are read as texts */
    SANDMILL_DATE,      /* `int64`: days since 1970-01-01 */
    SANDMILL_TIMESTAMP, /* `int64`: microseconds since 1970-01-01; parts below a microsecond are dropped */
    SANDMILL_UNREAD     /* any other type, or integers of 2^63 or more: the column has no values */
} sandmill_type;

/* A column of a table. Of the pointers to values, only the one for the column's type is set. It points to one
 * value for each row. The value of a null is 0 or an empty text. */
typedef struct {
    const char *name;
    sandmill_type type;
    bool has_time_zone;     /* for timestamps: whether they have a time zone; the values are in UTC */
    const uint8_t *is_null; /* for each row 1 if it is null, else 0; NULL if no row is null */
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

/* The data that one call of `sandmill_run` works on. */
typedef struct {
    sandmill_kind kind;
    size_t count;                /* the number of files or rows */
    const char *const *files;    /* absolute paths, for SANDMILL_FILES */
    const sandmill_table *table; /* for SANDMILL_ROWS */
    uint64_t id;                 /* counted from 0 within the job; the same in every attempt */
    const char *dataset;         /* the name of the input */
    uint32_t attempt;            /* 1 for the first attempt */
    size_t key_count;            /* the number of partition keys, which are in the order of the job file */
    const char *const *keys;
    const char *const *key_values;
} sandmill_mini_batch;

/* The results of `sandmill_run`: rows, or columns of a table. */
typedef struct sandmill_results sandmill_results;

/* ---- What you write ---- */

/* Called once per instance, before the first run. If it returns an error, the worker does not start. */
const char *sandmill_init(void);
/* Called once per mini-batch. An error fails the attempt, and the job retries the mini-batch. */
const char *sandmill_run(const sandmill_mini_batch *batch, sandmill_results *results);
/* Called once after the last run. */
void sandmill_shutdown(void);

/* Write one of these lines once, outside of functions, to state which kind of input the script takes. A job with
 * another kind of input then does not start. */
#define SANDMILL_TAKES_FILES SANDMILL_TAKES("files")
#define SANDMILL_TAKES_TABLE SANDMILL_TAKES("table")
#define SANDMILL_TAKES_VOID SANDMILL_TAKES("void")
#define SANDMILL_TAKES(word) \
    __asm__(".section \".custom_section.sandmill:takes\",\"\",@\n.ascii \"" word "\"\n.text\n");

/* ---- Errors and logs ---- */

#define SANDMILL_FORMAT(position) __attribute__((format(printf, position, position + 1)))

/* Formats the text of an error, as `printf` does. The text is valid until the next call. */
const char *sandmill_error(const char *format, ...) SANDMILL_FORMAT(1);

typedef enum { SANDMILL_ERROR, SANDMILL_WARNING, SANDMILL_INFO, SANDMILL_DEBUG } sandmill_level;

/* Writes a line to the entry script's log. */
void sandmill_log(sandmill_level level, const char *format, ...) SANDMILL_FORMAT(2);
/* The most verbose level that the log keeps. The host drops lines of more verbose levels. */
sandmill_level sandmill_logging_level(void);

/* ---- Results ---- */

/* Adds a row of text. A line break in it fails the attempt. */
void sandmill_row(sandmill_results *results, const char *format, ...) SANDMILL_FORMAT(2);
/* Reports that the next item failed, and why. If you use this function, add one row or failure for each item,
 * in the order of the mini-batch. */
void sandmill_item_failed(sandmill_results *results, const char *format, ...) SANDMILL_FORMAT(2);

/* Each of these functions adds a column to the returned table, with one value for each of `rows` rows. `is_null` has
 * 1 for each row that is null, else 0. Pass NULL if no row is null. The values are copied. */
void sandmill_return_int64(sandmill_results *results, const char *name, const int64_t *values, const uint8_t *is_null,
                           size_t rows);
void sandmill_return_float64(sandmill_results *results, const char *name, const double *values, const uint8_t *is_null,
                             size_t rows);
void sandmill_return_bool(sandmill_results *results, const char *name, const uint8_t *values, const uint8_t *is_null,
                          size_t rows);
void sandmill_return_text(sandmill_results *results, const char *name, const char *const *values,
                          const uint8_t *is_null, size_t rows);
/* Adds a column of the mini-batch, unchanged. */
void sandmill_return_column(sandmill_results *results, const sandmill_column *column, size_t rows);

/* ---- Tables ---- */

/* Returns the column of this name. NULL if there is no such column. */
const sandmill_column *sandmill_find(const sandmill_table *table, const char *name);
/* Reads a column of floats, or of integers as floats, without nulls. `values` is valid until `sandmill_run`
 * returns. */
const char *sandmill_float64(const sandmill_table *table, const char *name, const double **values);
/* Reads a column of integers without nulls. */
const char *sandmill_int64(const sandmill_table *table, const char *name, const int64_t **values);
/* Reads a column of texts without nulls. */
const char *sandmill_text(const sandmill_table *table, const char *name, const char *const **values);

/* ---- The job ---- */

/* Returns the value of an argument, given as `--word mill` or as `--word=mill`. NULL if the job does not give
 * it. If the job gives it several times, the first one counts. */
const char *sandmill_argument(const char *name);
/* Returns whether the job gives an argument that needs no value. */
bool sandmill_flag(const char *name);
/* The number of the job's arguments, and the argument at an index from 0 on. NULL if there is no such argument. */
size_t sandmill_argument_count(void);
const char *sandmill_argument_at(size_t index);

/* Reads a whole file, much faster than with `fopen`. A zero byte follows the bytes. The caller must `free`
 * them. */
const char *sandmill_read(const char *path, char **bytes, size_t *length);

/* The worker's name. Put it into the names of files that `sandmill_init` or `sandmill_shutdown` writes. */
const char *sandmill_agent_name(void);
const char *sandmill_node_id(void);
/* The folder for result files, and the folder for log files. */
const char *sandmill_output_dir(void);
const char *sandmill_log_dir(void);
/* The job's source folder. NULL if the job has none. */
const char *sandmill_source_dir(void);
/* The index of the GPU that is leased to this worker. -1 if it has no GPU. */
int sandmill_gpu_index(void);

/* The last part of a path. */
const char *sandmill_file_name(const char *path);

#ifdef __cplusplus
}
#endif

#endif
