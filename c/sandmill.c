/* Connects an entry script to the bindings that wit-bindgen generates. */
#include "sandmill_internal.h"

#include "entry_script.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wasi/api.h>

/* ---- Memory ---- */

struct sandmill_block {
    struct sandmill_block *next;
    max_align_t memory[];
};

void *sandmill_memory(void *before, size_t bytes) {
    void *memory = realloc(before, bytes ? bytes : 1);
    if (memory == NULL) {
        fputs("no memory is left: see limits.memory of the job\n", stderr);
        abort();
    }
    return memory;
}

void *sandmill_take(sandmill_arena *arena, size_t count, size_t size) {
    if (size != 0 && count > (SIZE_MAX - sizeof(sandmill_block)) / size) sandmill_memory(NULL, SIZE_MAX);
    sandmill_block *block = sandmill_memory(NULL, sizeof(sandmill_block) + count * size);
    memset(block->memory, 0, count * size);
    block->next = arena->blocks;
    arena->blocks = block;
    return block->memory;
}

void sandmill_give_back(sandmill_arena *arena) {
    while (arena->blocks != NULL) {
        sandmill_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}

char *sandmill_copy(sandmill_arena *arena, const void *bytes, size_t length) {
    char *copy = sandmill_take(arena, length + 1, 1);
    if (length > 0) memcpy(copy, bytes, length);
    return copy;
}

void sandmill_append(sandmill_buffer *buffer, const void *bytes, size_t length) {
    if (length == 0) return;
    if (buffer->capacity - buffer->length < length) {
        size_t capacity = buffer->capacity * 2 > buffer->length + length ? buffer->capacity * 2 : buffer->length + length;
        buffer->bytes = sandmill_memory(buffer->bytes, capacity);
        buffer->capacity = capacity;
    }
    memcpy(buffer->bytes + buffer->length, bytes, length);
    buffer->length += length;
}

/* Memory that is freed when the instance ends, and memory that is freed when the running call ends. */
static sandmill_arena of_instance, of_call;

sandmill_arena *sandmill_call(void) { return &of_call; }

/* ---- Texts ---- */

/* Formats a text, which the caller frees. */
static char *formatted(const char *format, va_list values, size_t *length) {
    va_list copy;
    va_copy(copy, values);
    int needed = vsnprintf(NULL, 0, format, copy);
    va_end(copy);
    *length = needed < 0 ? 0 : (size_t)needed;
    char *text = sandmill_memory(NULL, *length + 1);
    if (needed < 0) {
        text[0] = 0;
    } else {
        vsnprintf(text, *length + 1, format, values);
    }
    return text;
}

const char *sandmill_error(const char *format, ...) {
    static char *last;
    size_t length;
    va_list values;
    va_start(values, format);
    /* The previous text may be one of the values, so it is freed only afterwards. */
    char *text = formatted(format, values, &length);
    va_end(values);
    free(last);
    last = text;
    return text;
}

void sandmill_log(sandmill_level level, const char *format, ...) {
    entry_script_string_t text;
    va_list values;
    va_start(values, format);
    text.ptr = (uint8_t *)formatted(format, values, &text.len);
    va_end(values);
    sandmill_entry_host_log((sandmill_entry_host_log_level_t)level, &text);
    free(text.ptr);
}

sandmill_level sandmill_logging_level(void) {
    return (sandmill_level)sandmill_entry_host_logging_level();
}

static void add_outcome(sandmill_results *results, bool has_failed, const char *format, va_list values) {
    if (results->outcome_count == results->outcome_capacity) {
        results->outcome_capacity = results->outcome_capacity * 2 + 16;
        results->outcomes = sandmill_memory(results->outcomes, results->outcome_capacity * sizeof(*results->outcomes));
    }
    struct sandmill_outcome *outcome = &results->outcomes[results->outcome_count++];
    outcome->has_failed = has_failed;
    outcome->text = formatted(format, values, &outcome->length);
    results->has_failures |= has_failed;
}

void sandmill_row(sandmill_results *results, const char *format, ...) {
    va_list values;
    va_start(values, format);
    add_outcome(results, false, format, values);
    va_end(values);
}

void sandmill_item_failed(sandmill_results *results, const char *format, ...) {
    va_list values;
    va_start(values, format);
    add_outcome(results, true, format, values);
    va_end(values);
}

const char *sandmill_file_name(const char *path) {
    const char *last = strrchr(path, '/');
    return last == NULL ? path : last + 1;
}

/* ---- The job ---- */

/* Copies a text of the host to memory that lasts as long as the instance, and frees the text. */
static const char *lasting(entry_script_string_t *text) {
    const char *copy = sandmill_copy(&of_instance, text->ptr, text->len);
    entry_script_string_free(text);
    return copy;
}

/* Defines a function that returns a text of the host. The function calls the host once, and keeps the text. */
#define HOST_TEXT(function, host_call)                 \
    const char *function(void) {                       \
        static const char *kept;                       \
        if (kept == NULL) {                            \
            entry_script_string_t text;                \
            host_call(&text);                          \
            kept = lasting(&text);                     \
        }                                              \
        return kept;                                   \
    }

HOST_TEXT(sandmill_agent_name, sandmill_entry_host_agent_name)
HOST_TEXT(sandmill_node_id, sandmill_entry_host_node_id)
HOST_TEXT(sandmill_output_dir, sandmill_entry_host_output_dir)
HOST_TEXT(sandmill_log_dir, sandmill_entry_host_log_dir)

const char *sandmill_source_dir(void) {
    static const char *kept;
    entry_script_string_t text;
    if (kept == NULL && sandmill_entry_host_source_dir(&text)) kept = lasting(&text);
    return kept;
}

int sandmill_gpu_index(void) {
    uint32_t index;
    return sandmill_entry_host_gpu_index(&index) ? (int)index : -1;
}

/* A WASI reactor (a component that exports functions) has no `main` that would receive the arguments. */
static char **arguments;
static size_t argument_count;

static void read_arguments(void) {
    static bool is_done;
    __wasi_size_t count, bytes;
    if (is_done || __wasi_args_sizes_get(&count, &bytes) != 0) return;
    is_done = true;
    uint8_t **pointers = sandmill_take(&of_instance, (size_t)count + 1, sizeof(*pointers));
    uint8_t *texts = sandmill_take(&of_instance, bytes, 1);
    if (__wasi_args_get(pointers, texts) != 0 || count == 0) return;
    /* The first argument is the program's name. */
    arguments = (char **)pointers + 1;
    argument_count = count - 1;
}

size_t sandmill_argument_count(void) {
    read_arguments();
    return argument_count;
}

const char *sandmill_argument_at(size_t index) {
    return index < sandmill_argument_count() ? arguments[index] : NULL;
}

const char *sandmill_argument(const char *name) {
    size_t length = strlen(name);
    for (size_t index = 0; index < sandmill_argument_count(); index++) {
        const char *argument = arguments[index];
        if (strncmp(argument, name, length) != 0) continue;
        if (argument[length] == '=') return argument + length + 1;
        if (argument[length] == 0) return sandmill_argument_at(index + 1);
    }
    return NULL;
}

bool sandmill_flag(const char *name) {
    for (size_t index = 0; index < sandmill_argument_count(); index++) {
        if (strcmp(arguments[index], name) == 0) return true;
    }
    return false;
}

const char *sandmill_read(const char *path, char **bytes, size_t *length) {
    entry_script_string_t name = {(uint8_t *)path, strlen(path)}, error;
    entry_script_list_u8_t content;
    if (!sandmill_entry_host_read(&name, &content, &error)) {
        const char *text = sandmill_error("%.*s", (int)error.len, (char *)error.ptr);
        entry_script_string_free(&error);
        return text;
    }
    *bytes = sandmill_memory(content.len == 0 ? NULL : content.ptr, content.len + 1);
    (*bytes)[content.len] = 0;
    *length = content.len;
    return NULL;
}

/* ---- What the host calls ---- */

__attribute__((weak)) const char *sandmill_init(void) { return NULL; }
__attribute__((weak)) void sandmill_shutdown(void) {}

static bool fail(const char *text, entry_script_string_t *error) {
    entry_script_string_dup(error, text);
    return false;
}

/* Flushes the output of `printf`, because the worker may be killed at any time. */
static void flush(void) {
    fflush(stdout);
    fflush(stderr);
}

bool exports_sandmill_entry_entry_init(entry_script_string_t *error) {
    const char *reason = sandmill_init();
    flush();
    return reason == NULL || fail(reason, error);
}

void exports_sandmill_entry_entry_shutdown(void) {
    sandmill_shutdown();
    flush();
    sandmill_give_back(&of_instance);
}

static const char *text_of(entry_script_string_t text) { return sandmill_copy(&of_call, text.ptr, text.len); }

static const char *read_batch(const exports_sandmill_entry_entry_mini_batch_t *from, sandmill_mini_batch *batch) {
    if (from->tag == SANDMILL_ENTRY_TYPES_MINI_BATCH_FILES) {
        const char **files = sandmill_take(&of_call, from->val.files.len, sizeof(*files));
        for (size_t index = 0; index < from->val.files.len; index++) files[index] = text_of(from->val.files.ptr[index]);
        batch->kind = SANDMILL_FILES;
        batch->files = files;
        batch->count = from->val.files.len;
    } else if (from->tag == SANDMILL_ENTRY_TYPES_MINI_BATCH_TABLE) {
        sandmill_table *table = sandmill_take(&of_call, 1, sizeof(*table));
        const char *reason = sandmill_read_table(&of_call, from->val.table.ptr, from->val.table.len, table);
        if (reason != NULL) return reason;
        batch->kind = SANDMILL_ROWS;
        batch->table = table;
        batch->count = table->rows;
    } else {
        batch->kind = SANDMILL_VOID;
    }
    return NULL;
}

static void read_context(const exports_sandmill_entry_entry_mini_batch_context_t *from, sandmill_mini_batch *batch) {
    size_t count = from->partition_key_value.len;
    const char **keys = sandmill_take(&of_call, count, sizeof(*keys));
    const char **values = sandmill_take(&of_call, count, sizeof(*values));
    for (size_t index = 0; index < count; index++) {
        keys[index] = text_of(from->partition_key_value.ptr[index].f0);
        values[index] = text_of(from->partition_key_value.ptr[index].f1);
    }
    batch->id = from->id;
    batch->dataset = text_of(from->dataset);
    batch->attempt = from->attempt;
    batch->key_count = count;
    batch->keys = keys;
    batch->key_values = values;
}

/* Prepares a text or a list for the host. The bindings do not free memory of length 0, so this function
 * frees it. */
static void *for_host(void *memory, size_t length) {
    if (length > 0) return memory;
    free(memory);
    return NULL;
}

/* Moves the texts to the host's results. `free_results` frees what remains. */
static void hand_over(sandmill_results *results, exports_sandmill_entry_entry_results_t *to) {
    size_t count = results->outcome_count;
    if (results->column_count > 0) {
        sandmill_buffer stream = sandmill_write_table(results);
        to->tag = SANDMILL_ENTRY_TYPES_RESULTS_TABLE;
        to->val.table.ptr = stream.bytes;
        to->val.table.len = stream.length;
    } else if (results->has_failures) {
        sandmill_entry_types_result_string_string_t *outcomes = sandmill_memory(NULL, count * sizeof(*outcomes));
        for (size_t index = 0; index < count; index++) {
            struct sandmill_outcome outcome = results->outcomes[index];
            entry_script_string_t text = {for_host(outcome.text, outcome.length), outcome.length};
            outcomes[index].is_err = results->outcomes[index].has_failed;
            if (outcomes[index].is_err) {
                outcomes[index].val.err = text;
            } else {
                outcomes[index].val.ok = text;
            }
        }
        to->tag = SANDMILL_ENTRY_TYPES_RESULTS_OUTCOMES;
        to->val.outcomes.ptr = for_host(outcomes, count);
        to->val.outcomes.len = count;
        results->outcome_count = 0;
    } else {
        entry_script_string_t *rows = sandmill_memory(NULL, count * sizeof(*rows));
        for (size_t index = 0; index < count; index++) {
            struct sandmill_outcome outcome = results->outcomes[index];
            rows[index].ptr = for_host(outcome.text, outcome.length);
            rows[index].len = outcome.length;
        }
        to->tag = SANDMILL_ENTRY_TYPES_RESULTS_ROWS;
        to->val.rows.ptr = for_host(rows, count);
        to->val.rows.len = count;
        results->outcome_count = 0;
    }
}

static void free_results(sandmill_results *results) {
    for (size_t index = 0; index < results->outcome_count; index++) free(results->outcomes[index].text);
    free(results->outcomes);
    sandmill_free_columns(results);
}

/* Returns what is wrong with the results; NULL if they are valid. */
static const char *fault_of(const sandmill_results *results) {
    if (results->fault != NULL) return results->fault;
    if (results->column_count > 0 && results->outcome_count > 0) {
        return "sandmill_run returned rows of text and columns of a table: return one of them";
    }
    return NULL;
}

bool exports_sandmill_entry_entry_run(exports_sandmill_entry_entry_mini_batch_t *from,
                                      exports_sandmill_entry_entry_mini_batch_context_t *context,
                                      exports_sandmill_entry_entry_results_t *to, entry_script_string_t *error) {
    sandmill_mini_batch batch = {0};
    sandmill_results results = {0};
    read_context(context, &batch);
    const char *reason = read_batch(from, &batch);
    exports_sandmill_entry_entry_mini_batch_free(from);
    exports_sandmill_entry_entry_mini_batch_context_free(context);
    if (reason == NULL) reason = sandmill_run(&batch, &results);
    if (reason == NULL) reason = fault_of(&results);
    flush();
    if (reason == NULL) {
        hand_over(&results, to);
    } else {
        fail(reason, error);
    }
    free_results(&results);
    sandmill_give_back(&of_call);
    return reason == NULL;
}
