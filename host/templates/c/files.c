/* A Sandmill entry script: counts the words of each text file. */
#include "sandmill.h"
#include <ctype.h>
#include <stdlib.h>

/* A job with another kind of input does not start. */
SANDMILL_TAKES_FILES

static size_t count_words(const char *text, size_t length) {
    size_t words = 0;
    for (size_t at = 0; at < length; at++) {
        int is_first = at == 0 || isspace((unsigned char)text[at - 1]);
        if (is_first && !isspace((unsigned char)text[at])) words++;
    }
    return words;
}

/* Called once per worker. Read arguments here, with sandmill_argument("--name"). */
const char *sandmill_init(void) {
    sandmill_log(SANDMILL_INFO, "worker %s begins", sandmill_agent_name());
    return NULL;
}

/* Called once per mini-batch, with the paths of its files. Returns a row for each file. A file that cannot be
 * read fails alone. */
const char *sandmill_run(const sandmill_mini_batch *batch, sandmill_results *results) {
    for (size_t index = 0; index < batch->count; index++) {
        const char *path = batch->files[index];
        char *text;
        size_t length;
        const char *error = sandmill_read(path, &text, &length);
        if (error != NULL) {
            sandmill_item_failed(results, "%s", error);
            continue;
        }
        sandmill_row(results, "%s: %zu", sandmill_file_name(path), count_words(text, length));
        free(text);
    }
    return NULL;
}
