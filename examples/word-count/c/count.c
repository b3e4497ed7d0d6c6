/* Counts the lines, words and bytes of text files: returns a row `NAME: LINES WORDS BYTES` for each. */
#include "sandmill.h"
#include <ctype.h>
#include <stdlib.h>

SANDMILL_TAKES_FILES

const char *sandmill_init(void) {
    return NULL;
}

/* Adds the row of one file. */
static void count(const char *name, const char *text, size_t length, sandmill_results *results) {
    size_t lines = 0, words = 0;
    for (size_t index = 0; index < length; index++) {
        int ends_line = text[index] == '\n' || index + 1 == length;
        int begins_word = !isspace((unsigned char)text[index]) && (index == 0 || isspace((unsigned char)text[index - 1]));
        if (ends_line) lines++;
        if (begins_word) words++;
    }
    sandmill_row(results, "%s: %zu %zu %zu", name, lines, words, length);
}

const char *sandmill_run(const sandmill_mini_batch *batch, sandmill_results *results) {
    for (size_t index = 0; index < batch->count; index++) {
        char *text;
        size_t length;
        const char *error = sandmill_read(batch->files[index], &text, &length);
        if (error != NULL) {
            sandmill_item_failed(results, "%s", error);
            continue;
        }
        count(sandmill_file_name(batch->files[index]), text, length, results);
        free(text);
    }
    return NULL;
}
