/* A Sandmill entry script: adds the body mass index to a table of people. */
#include "sandmill.h"
#include <stdlib.h>

/* A job with another kind of input does not start. */
SANDMILL_TAKES_TABLE

/* Called once per mini-batch. Returns the columns of the mini-batch and a new one. */
const char *sandmill_run(const sandmill_mini_batch *batch, sandmill_results *results) {
    const double *height, *weight;
    const char *error;
    if ((error = sandmill_float64(batch->table, "height", &height)) != NULL) return error;
    if ((error = sandmill_float64(batch->table, "weight", &weight)) != NULL) return error;
    double *bmi = malloc(batch->count * sizeof(*bmi));
    if (bmi == NULL) return "no memory is left";
    for (size_t row = 0; row < batch->count; row++) bmi[row] = weight[row] / (height[row] * height[row]);
    for (size_t index = 0; index < batch->table->column_count; index++) {
        sandmill_return_column(results, &batch->table->columns[index], batch->count);
    }
    sandmill_return_float64(results, "bmi", bmi, NULL, batch->count);
    free(bmi);
    return NULL;
}
