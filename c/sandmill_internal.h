/* Declarations that the C files of this folder share. */
#ifndef SANDMILL_INTERNAL_H
#define SANDMILL_INTERNAL_H

#include "sandmill.h"

/* An arena: its blocks of memory are freed together, when a call or the instance ends. */
typedef struct sandmill_block sandmill_block;
typedef struct {
    sandmill_block *blocks;
} sandmill_arena;

/* Allocates zeroed memory for `count` elements of `size` bytes. */
void *sandmill_take(sandmill_arena *arena, size_t count, size_t size);
/* Frees all memory of an arena. */
void sandmill_give_back(sandmill_arena *arena);
/* Makes a copy that ends with a zero byte. */
char *sandmill_copy(sandmill_arena *arena, const void *bytes, size_t length);

/* A growing buffer of bytes. */
typedef struct {
    uint8_t *bytes;
    size_t length;
    size_t capacity;
} sandmill_buffer;

void sandmill_append(sandmill_buffer *buffer, const void *bytes, size_t length);
/* Like `realloc`, but ends the instance if there is not enough memory. */
void *sandmill_memory(void *before, size_t bytes);

struct sandmill_results {
    /* The rows of text and the failed items. The text of a failed item is the reason. */
    struct sandmill_outcome {
        char *text;
        size_t length;
        bool has_failed;
    } *outcomes;
    size_t outcome_count, outcome_capacity;
    bool has_failures;
    /* Columns, already in Arrow's format. */
    struct sandmill_made_column *columns;
    size_t column_count, column_capacity;
    /* The number of rows of each column. */
    size_t rows;
    /* The first error in a column; NULL if there is none. */
    const char *fault;
};

/* Reads an Arrow IPC stream. The table points into `arena`. */
const char *sandmill_read_table(sandmill_arena *arena, const uint8_t *bytes, size_t length, sandmill_table *table);
/* Returns the Arrow IPC stream of the columns. The caller frees it with `free`. */
sandmill_buffer sandmill_write_table(const sandmill_results *results);
void sandmill_free_columns(sandmill_results *results);

/* Returns the arena that is freed when the running call ends. */
sandmill_arena *sandmill_call(void);

#endif
