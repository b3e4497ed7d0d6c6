/* Writes the columns that an entry script returns to an Arrow IPC stream. */
#include "sandmill_internal.h"

#include <stdlib.h>
#include <string.h>

/* Arrow's codes, from Schema.fbs and Message.fbs. */
enum { ARROW_INT = 2, ARROW_FLOAT = 3, ARROW_UTF8 = 5, ARROW_BOOL = 6, ARROW_DATE = 8, ARROW_TIMESTAMP = 10 };
enum { PRECISION_DOUBLE = 2, DATE_UNIT_DAY = 0, TIME_UNIT_MICROSECOND = 2, ENDIANNESS_LITTLE = 0 };
enum { HEADER_SCHEMA = 1, HEADER_RECORD_BATCH = 3, METADATA_VERSION_V5 = 4 };

struct sandmill_made_column {
    char *name;
    int kind;
    bool has_time_zone;
    int64_t nulls;
    /* [0]: validity bits; [1]: values, or the offsets of texts; [2]: texts. */
    sandmill_buffer buffers[3];
    int buffer_count;
};

/* ---- Building the columns ---- */

/* Appends one bit for each row. The bit is 1 if the row's flag equals `set_where`. */
static void append_bits(sandmill_buffer *to, const uint8_t *flags, bool set_where, size_t rows) {
    for (size_t row = 0; row < rows; row += 8) {
        uint8_t byte = 0;
        for (size_t at = row; at < rows && at < row + 8; at++) {
            if ((flags[at] != 0) == set_where) byte |= (uint8_t)(1 << (at - row));
        }
        sandmill_append(to, &byte, 1);
    }
}

static struct sandmill_made_column *begin_column(sandmill_results *results, const char *name, int kind,
                                                 const uint8_t *is_null, size_t rows) {
    if (results->column_count > 0 && rows != results->rows && results->fault == NULL) {
        const char *fault = sandmill_error("column %s has %zu values, and the first column has %zu", name, rows, results->rows);
        results->fault = sandmill_copy(sandmill_call(), fault, strlen(fault));
    }
    results->rows = rows;
    if (results->column_count == results->column_capacity) {
        results->column_capacity = results->column_capacity * 2 + 8;
        results->columns = sandmill_memory(results->columns, results->column_capacity * sizeof(*results->columns));
    }
    struct sandmill_made_column *column = &results->columns[results->column_count++];
    memset(column, 0, sizeof(*column));
    column->name = sandmill_memory(NULL, strlen(name) + 1);
    strcpy(column->name, name);
    column->kind = kind;
    column->buffer_count = 2;
    for (size_t row = 0; is_null != NULL && row < rows; row++) column->nulls += is_null[row] != 0;
    if (column->nulls > 0) append_bits(&column->buffers[0], is_null, false, rows);
    return column;
}

void sandmill_return_int64(sandmill_results *results, const char *name, const int64_t *values, const uint8_t *is_null,
                           size_t rows) {
    struct sandmill_made_column *column = begin_column(results, name, ARROW_INT, is_null, rows);
    sandmill_append(&column->buffers[1], values, rows * sizeof(*values));
}

void sandmill_return_float64(sandmill_results *results, const char *name, const double *values, const uint8_t *is_null,
                             size_t rows) {
    struct sandmill_made_column *column = begin_column(results, name, ARROW_FLOAT, is_null, rows);
    sandmill_append(&column->buffers[1], values, rows * sizeof(*values));
}

void sandmill_return_bool(sandmill_results *results, const char *name, const uint8_t *values, const uint8_t *is_null,
                          size_t rows) {
    struct sandmill_made_column *column = begin_column(results, name, ARROW_BOOL, is_null, rows);
    append_bits(&column->buffers[1], values, true, rows);
}

void sandmill_return_text(sandmill_results *results, const char *name, const char *const *values,
                          const uint8_t *is_null, size_t rows) {
    struct sandmill_made_column *column = begin_column(results, name, ARROW_UTF8, is_null, rows);
    column->buffer_count = 3;
    int32_t offset = 0;
    sandmill_append(&column->buffers[1], &offset, sizeof(offset));
    for (size_t row = 0; row < rows; row++) {
        size_t length = is_null != NULL && is_null[row] ? 0 : strlen(values[row]);
        if (length > (size_t)(INT32_MAX - offset)) {
            if (results->fault == NULL) {
                const char *fault = sandmill_error(
                    "column %s has more than 2 GB of text: return fewer rows from one call, for example with a smaller mini_batch_size",
                    name);
                results->fault = sandmill_copy(sandmill_call(), fault, strlen(fault));
            }
            length = 0;
        }
        sandmill_append(&column->buffers[2], values[row], length);
        offset += (int32_t)length;
        sandmill_append(&column->buffers[1], &offset, sizeof(offset));
    }
}

void sandmill_return_column(sandmill_results *results, const sandmill_column *column, size_t rows) {
    struct sandmill_made_column *result;
    switch (column->type) {
        case SANDMILL_INT64: sandmill_return_int64(results, column->name, column->int64, column->is_null, rows); break;
        case SANDMILL_FLOAT64: sandmill_return_float64(results, column->name, column->float64, column->is_null, rows); break;
        case SANDMILL_BOOL: sandmill_return_bool(results, column->name, column->boolean, column->is_null, rows); break;
        case SANDMILL_TEXT: sandmill_return_text(results, column->name, column->text, column->is_null, rows); break;
        case SANDMILL_TIMESTAMP:
            result = begin_column(results, column->name, ARROW_TIMESTAMP, column->is_null, rows);
            result->has_time_zone = column->has_time_zone;
            sandmill_append(&result->buffers[1], column->int64, rows * sizeof(*column->int64));
            break;
        case SANDMILL_DATE:
            result = begin_column(results, column->name, ARROW_DATE, column->is_null, rows);
            for (size_t row = 0; row < rows; row++) {
                int32_t day = (int32_t)column->int64[row];
                sandmill_append(&result->buffers[1], &day, sizeof(day));
            }
            break;
        case SANDMILL_UNREAD:
            if (results->fault == NULL) {
                const char *fault = sandmill_error(
                    "column %s cannot be returned: C scripts cannot read its values (an unsupported type, or integers of 2^63 or more)",
                    column->name);
                results->fault = sandmill_copy(sandmill_call(), fault, strlen(fault));
            }
    }
}

void sandmill_free_columns(sandmill_results *results) {
    for (size_t index = 0; index < results->column_count; index++) {
        struct sandmill_made_column *column = &results->columns[index];
        free(column->name);
        for (int buffer = 0; buffer < 3; buffer++) free(column->buffers[buffer].bytes);
    }
    free(results->columns);
}

/* ---- Writing FlatBuffers ----
 *
 * A table is written before the objects that it refers to. Its references are filled in when these objects are
 * written. The field numbers are those of Arrow's Schema.fbs and Message.fbs.
 */

static void align(sandmill_buffer *to, size_t size) {
    static const uint8_t zeros[8];
    sandmill_append(to, zeros, (size - to->length % size) % size);
}

/* Overwrites the 4 bytes at `at`. */
static void put(sandmill_buffer *to, size_t at, uint32_t value) { memcpy(to->bytes + at, &value, sizeof(value)); }

/* Makes the reference at `at` point to the object that is written next. */
static void refer(sandmill_buffer *to, size_t at) { put(to, at, (uint32_t)(to->length - at)); }

/* The positions of a table and of its vtable, which has the offset of each field, relative to `start`. */
typedef struct {
    size_t vtable, start;
} flat_table;

static flat_table begin_table(sandmill_buffer *to, uint16_t fields) {
    static const uint8_t zeros[4 + 2 * 8];
    align(to, 8);
    flat_table table = {.vtable = to->length};
    sandmill_append(to, zeros, 4 + 2 * (size_t)fields);
    align(to, 8);
    table.start = to->length;
    uint32_t distance = (uint32_t)(table.start - table.vtable);
    sandmill_append(to, &distance, sizeof(distance));
    uint16_t vtable_bytes = (uint16_t)(4 + 2 * fields);
    memcpy(to->bytes + table.vtable, &vtable_bytes, sizeof(vtable_bytes));
    return table;
}

/* Writes a field, and returns its position. */
static size_t field(sandmill_buffer *to, flat_table table, int number, const void *value, size_t size) {
    align(to, size);
    size_t at = to->length;
    sandmill_append(to, value, size);
    uint16_t offset = (uint16_t)(at - table.start), table_bytes = (uint16_t)(to->length - table.start);
    memcpy(to->bytes + table.vtable + 4 + 2 * number, &offset, sizeof(offset));
    memcpy(to->bytes + table.vtable + 2, &table_bytes, sizeof(table_bytes));
    return at;
}

/* Writes an empty reference, which `refer` or `put` fills in later. Returns its position. */
static size_t reserve_reference(sandmill_buffer *to, flat_table table, int number) {
    uint32_t nothing = 0;
    return field(to, table, number, &nothing, sizeof(nothing));
}

/* Records the size of a table that has no fields yet. */
static void set_table_size(sandmill_buffer *to, flat_table table) {
    uint16_t table_bytes = (uint16_t)(to->length - table.start);
    memcpy(to->bytes + table.vtable + 2, &table_bytes, sizeof(table_bytes));
}

static void write_text(sandmill_buffer *to, size_t at, const char *text) {
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
    set_table_size(to, type);
    int32_t bits = 64;
    int16_t precision = PRECISION_DOUBLE, date_unit = DATE_UNIT_DAY, time_unit = TIME_UNIT_MICROSECOND;
    uint8_t is_signed = 1;
    switch (column->kind) {
        case ARROW_INT:
            field(to, type, 0, &bits, sizeof(bits));
            field(to, type, 1, &is_signed, 1);
            break;
        case ARROW_FLOAT: field(to, type, 0, &precision, sizeof(precision)); break;
        case ARROW_DATE: field(to, type, 0, &date_unit, sizeof(date_unit)); break;
        case ARROW_TIMESTAMP:
            field(to, type, 0, &time_unit, sizeof(time_unit));
            if (column->has_time_zone) write_text(to, reserve_reference(to, type, 1), "+00:00");
            break;
        default: break;
    }
}

static void write_field(sandmill_buffer *to, size_t at, const struct sandmill_made_column *column) {
    flat_table table = begin_table(to, 6);
    put(to, at, (uint32_t)(table.start - at));
    uint8_t is_nullable = 1, kind = (uint8_t)column->kind;
    size_t name = reserve_reference(to, table, 0);
    size_t type = reserve_reference(to, table, 3);
    size_t children = reserve_reference(to, table, 5);
    field(to, table, 1, &is_nullable, 1);
    field(to, table, 2, &kind, 1);
    write_text(to, name, column->name);
    write_type(to, type, column);
    align(to, 4);
    refer(to, children);
    uint32_t child_count = 0;
    sandmill_append(to, &child_count, sizeof(child_count));
}

static void write_schema(sandmill_buffer *to, size_t at, const sandmill_results *results) {
    flat_table schema = begin_table(to, 2);
    put(to, at, (uint32_t)(schema.start - at));
    int16_t endianness = ENDIANNESS_LITTLE;
    field(to, schema, 0, &endianness, sizeof(endianness));
    size_t fields = reserve_reference(to, schema, 1);
    align(to, 4);
    refer(to, fields);
    uint32_t count = (uint32_t)results->column_count, nothing = 0;
    sandmill_append(to, &count, sizeof(count));
    size_t first = to->length;
    for (uint32_t index = 0; index < count; index++) sandmill_append(to, &nothing, sizeof(nothing));
    for (uint32_t index = 0; index < count; index++) write_field(to, first + 4 * index, &results->columns[index]);
}

/* Begins a vector of structs of two int64 each, to which the reference at `at` points. */
static void begin_pairs(sandmill_buffer *to, size_t at, uint32_t count) {
    static const uint8_t zeros[4];
    /* The elements follow the 4 bytes of the count, and must be at a multiple of 8. */
    align(to, 8);
    sandmill_append(to, zeros, 4);
    refer(to, at);
    sandmill_append(to, &count, sizeof(count));
}

static void append_pair(sandmill_buffer *to, int64_t first, int64_t second) {
    sandmill_append(to, &first, sizeof(first));
    sandmill_append(to, &second, sizeof(second));
}

static int64_t padded_length(size_t length) { return (int64_t)((length + 7) / 8 * 8); }

static void write_batch(sandmill_buffer *to, size_t at, const sandmill_results *results) {
    flat_table batch = begin_table(to, 3);
    put(to, at, (uint32_t)(batch.start - at));
    int64_t rows = (int64_t)results->rows;
    field(to, batch, 0, &rows, sizeof(rows));
    size_t nodes = reserve_reference(to, batch, 1), buffers = reserve_reference(to, batch, 2);
    begin_pairs(to, nodes, (uint32_t)results->column_count);
    uint32_t buffer_count = 0;
    for (size_t index = 0; index < results->column_count; index++) {
        append_pair(to, rows, results->columns[index].nulls);
        buffer_count += (uint32_t)results->columns[index].buffer_count;
    }
    begin_pairs(to, buffers, buffer_count);
    int64_t offset = 0;
    for (size_t index = 0; index < results->column_count; index++) {
        const struct sandmill_made_column *column = &results->columns[index];
        for (int buffer = 0; buffer < column->buffer_count; buffer++) {
            append_pair(to, offset, (int64_t)column->buffers[buffer].length);
            offset += padded_length(column->buffers[buffer].length);
        }
    }
}

typedef void write_header(sandmill_buffer *to, size_t at, const sandmill_results *results);

/* Writes a message without its body. `header` writes its header. */
static void write_message(sandmill_buffer *stream, uint8_t kind, write_header *header,
                          const sandmill_results *results, int64_t body_bytes) {
    sandmill_buffer to = {0};
    uint32_t root = 0, continuation = UINT32_MAX;
    sandmill_append(&to, &root, sizeof(root));
    flat_table message_table = begin_table(&to, 4);
    put(&to, 0, (uint32_t)message_table.start);
    int16_t version = METADATA_VERSION_V5;
    field(&to, message_table, 0, &version, sizeof(version));
    field(&to, message_table, 1, &kind, 1);
    size_t header_at = reserve_reference(&to, message_table, 2);
    field(&to, message_table, 3, &body_bytes, sizeof(body_bytes));
    header(&to, header_at, results);
    align(&to, 8);
    uint32_t length = (uint32_t)to.length;
    sandmill_append(stream, &continuation, sizeof(continuation));
    sandmill_append(stream, &length, sizeof(length));
    sandmill_append(stream, to.bytes, to.length);
    free(to.bytes);
}

sandmill_buffer sandmill_write_table(const sandmill_results *results) {
    sandmill_buffer stream = {0};
    int64_t body_bytes = 0;
    for (size_t index = 0; index < results->column_count; index++) {
        const struct sandmill_made_column *column = &results->columns[index];
        for (int buffer = 0; buffer < column->buffer_count; buffer++) body_bytes += padded_length(column->buffers[buffer].length);
    }
    write_message(&stream, HEADER_SCHEMA, write_schema, results, 0);
    write_message(&stream, HEADER_RECORD_BATCH, write_batch, results, body_bytes);
    for (size_t index = 0; index < results->column_count; index++) {
        const struct sandmill_made_column *column = &results->columns[index];
        for (int buffer = 0; buffer < column->buffer_count; buffer++) {
            sandmill_append(&stream, column->buffers[buffer].bytes, column->buffers[buffer].length);
            align(&stream, 8);
        }
    }
    static const uint32_t end_of_stream[2] = {UINT32_MAX, 0};
    sandmill_append(&stream, end_of_stream, sizeof(end_of_stream));
    return stream;
}
