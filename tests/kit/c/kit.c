/* The conformance kit's script in C: see ../README.md. */
#include "sandmill.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PARTS = 6000, SEPARATOR = 0x1f };

extern char **environ;

static unsigned inits, runs;
static char *parts[MAX_PARTS];
static size_t part_count;

static bool first_argument_is(const char *word) {
    return sandmill_argument_count() > 0 && strcmp(sandmill_argument_at(0), word) == 0;
}

const char *sandmill_init(void) {
    inits++;
    return first_argument_is("fail-init") ? sandmill_error("%s", sandmill_argument_at(1)) : NULL;
}

void sandmill_shutdown(void) {
    if (!first_argument_is("shutdown")) return;
    char path[4096];
    snprintf(path, sizeof path, "%s/kit.txt", sandmill_output_dir());
    FILE *file = fopen(path, "a");
    if (file == NULL) abort();
    fputs("shutdown", file);
    fclose(file);
}

static void split(char *text) {
    part_count = 0;
    for (char *part = text; part != NULL && part_count < MAX_PARTS;) {
        parts[part_count++] = part;
        part = strchr(part, SEPARATOR);
        if (part != NULL) *part++ = '\0';
    }
}

static void add_length_and_sum(const char *bytes, size_t length, sandmill_results *results) {
    unsigned long long sum = 0;
    for (size_t index = 0; index < length; index++) sum += (unsigned char)bytes[index];
    sandmill_row(results, "%zu %llu", length, sum);
}

static const char *read_by_host(const char *path, sandmill_results *results) {
    char *bytes;
    size_t length;
    const char *error = sandmill_read(path, &bytes, &length);
    if (error != NULL) return error;
    add_length_and_sum(bytes, length, results);
    free(bytes);
    return NULL;
}

static const char *errno_error(const char *path) {
    return sandmill_error("%s: %s", path, strerror(errno));
}

static const char *read_by_wasi(const char *path, sandmill_results *results) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return errno_error(path);
    size_t size = 32 << 20;
    char *bytes = malloc(size);
    if (bytes == NULL) abort();
    size_t length = fread(bytes, 1, size, file);
    fclose(file);
    add_length_and_sum(bytes, length, results);
    free(bytes);
    return NULL;
}

static const char *write_file(const char *path, const char *text, sandmill_results *results) {
    FILE *file = fopen(path, "wb");
    if (file == NULL) return errno_error(path);
    fputs(text, file);
    if (fclose(file) != 0) return errno_error(path);
    sandmill_row(results, "done");
    return NULL;
}

static int compare_texts(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

static void add_environment(sandmill_results *results) {
    size_t count = 0;
    while (environ[count] != NULL) count++;
    char **sorted = malloc((count + 1) * sizeof *sorted);
    if (sorted == NULL) abort();
    memcpy(sorted, environ, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_texts);
    for (size_t index = 0; index < count; index++) sandmill_row(results, "%s", sorted[index]);
    free(sorted);
}

static void add_context(const sandmill_mini_batch *batch, sandmill_results *results) {
    sandmill_row(results, "%llu", (unsigned long long)batch->id);
    sandmill_row(results, "%s", batch->dataset);
    sandmill_row(results, "%u", (unsigned)batch->attempt);
    for (size_t index = 0; index < batch->key_count; index++) {
        sandmill_row(results, "%s=%s", batch->keys[index], batch->key_values[index]);
    }
}

static const char *const LEVELS[] = {"error", "warning", "info", "debug"};

static sandmill_level level_of(const char *word) {
    for (int level = 0; level < 4; level++) {
        if (strcmp(word, LEVELS[level]) == 0) return (sandmill_level)level;
    }
    abort();
}

static void print_to(FILE *file, const char *text, sandmill_results *results) {
    fputs(text, file);
    sandmill_row(results, "done");
}

static void allocate_endlessly(void) {
    for (;;) {
        char *block = malloc(1 << 20);
        if (block == NULL) abort();
        memset(block, 1, 1 << 20);
        /* Keep the block, and stop the optimizer from removing it. */
        __asm__ volatile("" : : "r"(block) : "memory");
    }
}

/* Executes the command in `parts`. Returns an error, or NULL. */
static const char *execute(const sandmill_mini_batch *batch, sandmill_results *results) {
    const char *command = parts[0];
#define IS(word) (strcmp(command, word) == 0)
    if (IS("read")) return read_by_host(parts[1], results);
    if (IS("open")) return read_by_wasi(parts[1], results);
    if (IS("write")) return write_file(parts[1], parts[2], results);
    if (IS("error")) return sandmill_error("%s", parts[1]);
    if (IS("kit")) sandmill_row(results, "sandmill kit 1");
    else if (IS("count")) sandmill_row(results, "%u %u", inits, runs);
    else if (IS("context")) add_context(batch, results);
    else if (IS("environment")) add_environment(results);
    else if (IS("trap")) abort();
    else if (IS("exit")) exit(atoi(parts[1]));
    else if (IS("allocate")) allocate_endlessly();
    else if (IS("print")) print_to(stdout, parts[1], results);
    else if (IS("complain")) print_to(stderr, parts[1], results);
    else if (IS("logging-level")) sandmill_row(results, "%s", LEVELS[sandmill_logging_level()]);
    else if (IS("clock")) sandmill_row(results, "%lld", (long long)time(NULL));
    else if (IS("loop")) {
        for (volatile int never = 0; never == 0;) continue;
    } else if (IS("log")) {
        sandmill_log(level_of(parts[1]), "%s", parts[2]);
        sandmill_row(results, "done");
    } else if (IS("host")) {
        sandmill_row(results, "%s", sandmill_agent_name());
        sandmill_row(results, "%s", sandmill_log_dir());
        sandmill_row(results, "%s", sandmill_output_dir());
    } else if (IS("random")) {
        unsigned long long number;
        if (getentropy(&number, sizeof number) != 0) abort();
        sandmill_row(results, "%016llx", number);
    } else if (IS("arguments")) {
        for (size_t index = 0; index < sandmill_argument_count(); index++) sandmill_row(results, "%s", sandmill_argument_at(index));
    } else if (IS("items")) {
        for (size_t index = 0; index < batch->count; index++) sandmill_row(results, "%s", batch->files[index]);
    } else if (IS("rows")) {
        for (size_t index = 1; index < part_count; index++) sandmill_row(results, "%s", parts[index]);
    } else if (IS("outcomes")) {
        for (size_t index = 1; index < part_count; index++) {
            if (parts[index][0] == '+') sandmill_row(results, "%s", parts[index] + 1);
            else sandmill_item_failed(results, "%s", parts[index] + 1);
        }
    } else if (IS("table")) {
        for (size_t index = 0; index < batch->table->column_count; index++) {
            sandmill_return_column(results, &batch->table->columns[index], batch->count);
        }
    } else return sandmill_error("there is no command %s", command);
    return NULL;
}

const char *sandmill_run(const sandmill_mini_batch *batch, sandmill_results *results) {
    runs++;
    char *text;
    size_t length;
    if (batch->kind == SANDMILL_FILES) {
        const char *error = sandmill_read(batch->files[0], &text, &length);
        if (error != NULL) return error;
    } else {
        text = strdup(sandmill_argument_at(0));
        if (text == NULL) abort();
    }
    split(text);
    const char *error = execute(batch, results);
    free(text);
    return error;
}
