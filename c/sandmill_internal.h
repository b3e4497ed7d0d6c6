/* Declarations that the C files of this folder share. */
#ifndef SANDMILL_INTERNAL_H
#define SANDMILL_INTERNAL_H

#include "sandmill.h"

/* Memory that is freed all at once, when a call or the instance ends. */
typedef struct sandmill_block sandmill_block;
typedef struct {
    sandmill_block *blocks;
} sandmill_arena;

/* Allocates zeroed memory. */
void *sandmill_take(sandmill_arena *arena, size_t count, size_t size);
void sandmill_give_back(sandmill_arena *arena);
/* Makes a copy that ends with a zero byte. */
char *sandmill_copy(sandmill_arena *arena, const void *bytes, size_t length);

/* A growing buffer of bytes. */
typedef struct {
    uint8_t *bytes;
    size_t length;
    size_t room;
} sandmill_buffer;

void sandmill_append(sandmill_buffer *buffer, const void *bytes, size_t length);
/* As `realloc`, but ends the instance if there is no memory. */
void *sandmill_memory(void *before, size_t bytes);

struct sandmill_results {
    /* Rows and failures: text and whether it failed. */
    struct sandmill_outcome {
        char *text;
        size_t length;
        bool has_failed;
    } *outcomes;
    size_t outcome_count, outcome_room;
    bool has_failures;
    /* Columns, already in Arrow's format. */
    struct sandmill_made_column *columns;
    size_t column_count, column_room;
    size_t rows;
    /* The first error of a column. */
    const char *fault;
};

/* Reads an Arrow IPC stream. The table points into `arena`. */
const char *sandmill_read_table(sandmill_arena *arena, const uint8_t *bytes, size_t length, sandmill_table *table);
/* Returns the Arrow IPC stream of the columns. The caller frees it with `free`. */
sandmill_buffer sandmill_write_table(const sandmill_results *results);
void sandmill_free_columns(sandmill_results *results);

/* The memory of the running call. */
sandmill_arena *sandmill_call(void);

#endif
