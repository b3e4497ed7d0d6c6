/* Writes the columns that an entry script returns to an Arrow IPC stream. */
#include "sandmill_internal.h"

#include <stdlib.h>
#include <string.h>

enum { ARROW_INT = 2, ARROW_FLOAT = 3, ARROW_UTF8 = 5, ARROW_BOOL = 6, ARROW_DATE = 8, ARROW_TIMESTAMP = 10 };

struct sandmill_made_column {
    char *name;
    int kind;
    bool has_time_zone;
    int64_t nulls;
    /* The buffers: validity bits, values or offsets, and texts. */
    sandmill_buffer parts[3];
    int part_count;
};

/* ---- Columns, made ---- */

static void bits(sandmill_buffer *to, const uint8_t *values, bool wanted, size_t rows) {
    for (size_t row = 0; row < rows; row += 8) {
        uint8_t byte = 0;
        for (size_t at = row; at < rows && at < row + 8; at++) {
            if ((values[at] != 0) == wanted) byte |= (uint8_t)(1 << (at - row));
        }
        sandmill_append(to, &byte, 1);
    }
}

static struct sandmill_made_column *begin(sandmill_results *results, const char *name, int kind, const uint8_t *is_null,
                                          size_t rows) {
    if (results->column_count > 0 && rows != results->rows && results->fault == NULL) {
        const char *fault = sandmill_error("column %s has %zu values, and the first column has %zu", name, rows, results->rows);
        results->fault = sandmill_copy(sandmill_call(), fault, strlen(fault));
    }
    results->rows = rows;
    if (results->column_count == results->column_room) {
        results->column_room = results->column_room * 2 + 8;
        results->columns = sandmill_memory(results->columns, results->column_room * sizeof(*results->columns));
    }
    struct sandmill_made_column *column = &results->columns[results->column_count++];
    memset(column, 0, sizeof(*column));
    column->name = sandmill_memory(NULL, strlen(name) + 1);
    strcpy(column->name, name);
    column->kind = kind;
    column->part_count = 2;
    for (size_t row = 0; is_null != NULL && row < rows; row++) column->nulls += is_null[row] != 0;
    if (column->nulls > 0) bits(&column->parts[0], is_null, false, rows);
    return column;
}

void sandmill_return_int64(sandmill_results *results, const char *name, const int64_t *values, const uint8_t *is_null,
                           size_t rows) {
    struct sandmill_made_column *column = begin(results, name, ARROW_INT, is_null, rows);
    sandmill_append(&column->parts[1], values, rows * sizeof(*values));
}

void sandmill_return_float64(sandmill_results *results, const char *name, const double *values, const uint8_t *is_null,
                             size_t rows) {
    struct sandmill_made_column *column = begin(results, name, ARROW_FLOAT, is_null, rows);
    sandmill_append(&column->parts[1], values, rows * sizeof(*values));
}

void sandmill_return_bool(sandmill_results *results, const char *name, const uint8_t *values, const uint8_t *is_null,
                          size_t rows) {
    struct sandmill_made_column *column = begin(results, name, ARROW_BOOL, is_null, rows);
    bits(&column->parts[1], values, true, rows);
}

void sandmill_return_text(sandmill_results *results, const char *name, const char *const *values,
                          const uint8_t *is_null, size_t rows) {
    struct sandmill_made_column *column = begin(results, name, ARROW_UTF8, is_null, rows);
    column->part_count = 3;
    int32_t offset = 0;
    sandmill_append(&column->parts[1], &offset, sizeof(offset));
    for (size_t row = 0; row < rows; row++) {
        size_t length = is_null != NULL && is_null[row] ? 0 : strlen(values[row]);
        if (length > (size_t)(INT32_MAX - offset)) {
            if (results->fault == NULL) results->fault = "a column of texts has more than 2 GB: return fewer rows at once";
            length = 0;
        }
        sandmill_append(&column->parts[2], values[row], length);
        offset += (int32_t)length;
        sandmill_append(&column->parts[1], &offset, sizeof(offset));
    }
}

void sandmill_return_column(sandmill_results *results, const sandmill_column *column, size_t rows) {
    struct sandmill_made_column *made;
    switch (column->type) {
        case SANDMILL_INT64: sandmill_return_int64(results, column->name, column->int64, column->is_null, rows); break;
        case SANDMILL_FLOAT64: sandmill_return_float64(results, column->name, column->float64, column->is_null, rows); break;
        case SANDMILL_BOOL: sandmill_return_bool(results, column->name, column->boolean, column->is_null, rows); break;
        case SANDMILL_TEXT: sandmill_return_text(results, column->name, column->text, column->is_null, rows); break;
        case SANDMILL_TIMESTAMP:
            made = begin(results, column->name, ARROW_TIMESTAMP, column->is_null, rows);
            made->has_time_zone = column->has_time_zone;
            sandmill_append(&made->parts[1], column->int64, rows * sizeof(*column->int64));
            break;
        case SANDMILL_DATE:
            made = begin(results, column->name, ARROW_DATE, column->is_null, rows);
            for (size_t row = 0; row < rows; row++) {
                int32_t day = (int32_t)column->int64[row];
                sandmill_append(&made->parts[1], &day, sizeof(day));
            }
            break;
        case SANDMILL_UNREAD:
            if (results->fault == NULL) {
                const char *fault = sandmill_error("column %s cannot be returned: its type is not read", column->name);
                results->fault = sandmill_copy(sandmill_call(), fault, strlen(fault));
            }
    }
}

void sandmill_free_columns(sandmill_results *results) {
    for (size_t index = 0; index < results->column_count; index++) {
        struct sandmill_made_column *column = &results->columns[index];
        free(column->name);
        for (int part = 0; part < 3; part++) free(column->parts[part].bytes);
    }
    free(results->columns);
}

/* ---- Flatbuffers, written front to back: a table comes before the objects that it refers to ---- */

static void align(sandmill_buffer *to, size_t size) {
    static const uint8_t zeros[8];
    sandmill_append(to, zeros, (size - to->length % size) % size);
}

static void put(sandmill_buffer *to, size_t at, uint32_t value) { memcpy(to->bytes + at, &value, sizeof(value)); }

/* Makes the reference at `at` point to the object that is written next. */
static void refer(sandmill_buffer *to, size_t at) { put(to, at, (uint32_t)(to->length - at)); }

typedef struct {
    size_t layout, start;
} flat_table;

static flat_table begin_table(sandmill_buffer *to, uint16_t fields) {
    static const uint8_t zeros[4 + 2 * 8];
    align(to, 8);
    flat_table table = {.layout = to->length};
    sandmill_append(to, zeros, 4 + 2 * (size_t)fields);
    align(to, 8);
    table.start = to->length;
    uint32_t back = (uint32_t)(table.start - table.layout);
    sandmill_append(to, &back, sizeof(back));
    uint16_t bytes = (uint16_t)(4 + 2 * fields);
    memcpy(to->bytes + table.layout, &bytes, sizeof(bytes));
    return table;
}

/* Writes a field, and returns its position. */
static size_t field(sandmill_buffer *to, flat_table table, int number, const void *value, size_t size) {
    align(to, size);
    size_t at = to->length;
    sandmill_append(to, value, size);
    uint16_t offset = (uint16_t)(at - table.start), bytes = (uint16_t)(to->length - table.start);
    memcpy(to->bytes + table.layout + 4 + 2 * number, &offset, sizeof(offset));
    memcpy(to->bytes + table.layout + 2, &bytes, sizeof(bytes));
    return at;
}

static size_t reference(sandmill_buffer *to, flat_table table, int number) {
    uint32_t nothing = 0;
    return field(to, table, number, &nothing, sizeof(nothing));
}

static void empty_table(sandmill_buffer *to, flat_table table) {
    uint16_t bytes = (uint16_t)(to->length - table.start);
    memcpy(to->bytes + table.layout + 2, &bytes, sizeof(bytes));
}

static void text(sandmill_buffer *to, size_t at, const char *text) {
    align(to, 4);
    refer(to, at);
    uint32_t length = (uint32_t)strlen(text);
    sandmill_append(to, &length, sizeof(length));
    sandmill_append(to, text, length + 1);
}

static void write_type(sandmill_buffer *to, size_t at, const struct sandmill_made_column *column) {
    align(to, 8);
    flat_table type = begin_table(to, 2);
    put(to, at, (uint32_t)(type.start - at));
    empty_table(to, type);
    int32_t bits = 64;
    int16_t code;
    uint8_t yes = 1;
    switch (column->kind) {
        case ARROW_INT:
            field(to, type, 0, &bits, sizeof(bits));
            field(to, type, 1, &yes, 1);
            break;
        case ARROW_FLOAT: code = 2; field(to, type, 0, &code, sizeof(code)); break;
        case ARROW_DATE: code = 0; field(to, type, 0, &code, sizeof(code)); break;
        case ARROW_TIMESTAMP:
            code = 2;
            field(to, type, 0, &code, sizeof(code));
            if (column->has_time_zone) text(to, reference(to, type, 1), "+00:00");
            break;
        default: break;
    }
}

static void write_field(sandmill_buffer *to, size_t at, const struct sandmill_made_column *column) {
    flat_table made = begin_table(to, 6);
    put(to, at, (uint32_t)(made.start - at));
    uint8_t yes = 1, kind = (uint8_t)column->kind;
    size_t name = reference(to, made, 0), type = reference(to, made, 3), children = reference(to, made, 5);
    field(to, made, 1, &yes, 1);
    field(to, made, 2, &kind, 1);
    text(to, name, column->name);
    write_type(to, type, column);
    align(to, 4);
    refer(to, children);
    uint32_t none = 0;
    sandmill_append(to, &none, sizeof(none));
}

static void write_schema(sandmill_buffer *to, size_t at, const sandmill_results *results) {
    flat_table schema = begin_table(to, 2);
    put(to, at, (uint32_t)(schema.start - at));
    int16_t little_endian = 0;
    field(to, schema, 0, &little_endian, sizeof(little_endian));
    size_t fields = reference(to, schema, 1);
    align(to, 4);
    refer(to, fields);
    uint32_t count = (uint32_t)results->column_count, nothing = 0;
    sandmill_append(to, &count, sizeof(count));
    size_t first = to->length;
    for (uint32_t index = 0; index < count; index++) sandmill_append(to, &nothing, sizeof(nothing));
    for (uint32_t index = 0; index < count; index++) write_field(to, first + 4 * index, &results->columns[index]);
}

static void begin_pairs(sandmill_buffer *to, size_t at, uint32_t count) {
    static const uint8_t zeros[4];
    /* The elements, after the count, are aligned to 8 bytes. */
    align(to, 8);
    sandmill_append(to, zeros, 4);
    refer(to, at);
    sandmill_append(to, &count, sizeof(count));
}

static void pair(sandmill_buffer *to, int64_t first, int64_t second) {
    sandmill_append(to, &first, sizeof(first));
    sandmill_append(to, &second, sizeof(second));
}

static int64_t padded(size_t length) { return (int64_t)((length + 7) / 8 * 8); }

static void write_batch(sandmill_buffer *to, size_t at, const sandmill_results *results) {
    flat_table batch = begin_table(to, 3);
    put(to, at, (uint32_t)(batch.start - at));
    int64_t rows = (int64_t)results->rows;
    field(to, batch, 0, &rows, sizeof(rows));
    size_t nodes = reference(to, batch, 1), buffers = reference(to, batch, 2);
    begin_pairs(to, nodes, (uint32_t)results->column_count);
    uint32_t parts = 0;
    for (size_t index = 0; index < results->column_count; index++) {
        pair(to, rows, results->columns[index].nulls);
        parts += (uint32_t)results->columns[index].part_count;
    }
    begin_pairs(to, buffers, parts);
    int64_t offset = 0;
    for (size_t index = 0; index < results->column_count; index++) {
        const struct sandmill_made_column *column = &results->columns[index];
        for (int part = 0; part < column->part_count; part++) {
            pair(to, offset, (int64_t)column->parts[part].length);
            offset += padded(column->parts[part].length);
        }
    }
}

typedef void write_header(sandmill_buffer *to, size_t at, const sandmill_results *results);

/* Writes a message without its body. */
static void message(sandmill_buffer *stream, uint8_t kind, write_header *header, const sandmill_results *results,
                    int64_t body) {
    sandmill_buffer to = {0};
    uint32_t root = 0, mark = UINT32_MAX;
    sandmill_append(&to, &root, sizeof(root));
    flat_table made = begin_table(&to, 4);
    put(&to, 0, (uint32_t)made.start);
    /* Arrow calls this version V5. */
    int16_t version = 4;
    field(&to, made, 0, &version, sizeof(version));
    field(&to, made, 1, &kind, 1);
    size_t at = reference(&to, made, 2);
    field(&to, made, 3, &body, sizeof(body));
    header(&to, at, results);
    align(&to, 8);
    uint32_t length = (uint32_t)to.length;
    sandmill_append(stream, &mark, sizeof(mark));
    sandmill_append(stream, &length, sizeof(length));
    sandmill_append(stream, to.bytes, to.length);
    free(to.bytes);
}

sandmill_buffer sandmill_write_table(const sandmill_results *results) {
    sandmill_buffer stream = {0};
    int64_t body = 0;
    for (size_t index = 0; index < results->column_count; index++) {
        const struct sandmill_made_column *column = &results->columns[index];
        for (int part = 0; part < column->part_count; part++) body += padded(column->parts[part].length);
    }
    message(&stream, 1, write_schema, results, 0);
    message(&stream, 3, write_batch, results, body);
    for (size_t index = 0; index < results->column_count; index++) {
        const struct sandmill_made_column *column = &results->columns[index];
        for (int part = 0; part < column->part_count; part++) {
            sandmill_append(&stream, column->parts[part].bytes, column->parts[part].length);
            align(&stream, 8);
        }
    }
    static const uint32_t end[2] = {UINT32_MAX, 0};
    sandmill_append(&stream, end, sizeof(end));
    return stream;
}
