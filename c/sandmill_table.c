/* Reads Arrow IPC streams into columns, and looks up columns. Buffers are never compressed (see
 * wit/entry.wit). */
#include "sandmill_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Arrow's codes of types, from Schema.fbs. */
enum {
    ARROW_NULL = 1, ARROW_INT, ARROW_FLOAT, ARROW_BINARY, ARROW_UTF8, ARROW_BOOL, ARROW_DECIMAL, ARROW_DATE,
    ARROW_TIME, ARROW_TIMESTAMP, ARROW_INTERVAL, ARROW_LIST, ARROW_STRUCT, ARROW_UNION, ARROW_FIXED_BINARY,
    ARROW_FIXED_LIST, ARROW_MAP, ARROW_DURATION, ARROW_LARGE_BINARY, ARROW_LARGE_UTF8, ARROW_LARGE_LIST,
    ARROW_RUN_END, ARROW_BINARY_VIEW, ARROW_UTF8_VIEW, ARROW_LIST_VIEW, ARROW_LARGE_LIST_VIEW
};

/* ---- Reading FlatBuffers ----
 *
 * The field numbers are those of Arrow's Schema.fbs and Message.fbs.
 */

typedef struct {
    const uint8_t *at; /* NULL if the table does not exist */
} flat;

#define DEFINE_GETTER(type, name)                                     \
    static type name(const uint8_t *at) {                             \
        type value;                                                   \
        memcpy(&value, at, sizeof(value));                            \
        return value;                                                 \
    }
DEFINE_GETTER(int8_t, get_i8)
DEFINE_GETTER(uint8_t, get_u8)
DEFINE_GETTER(int16_t, get_i16)
DEFINE_GETTER(uint16_t, get_u16)
DEFINE_GETTER(int32_t, get_i32)
DEFINE_GETTER(uint32_t, get_u32)
DEFINE_GETTER(int64_t, get_i64)
DEFINE_GETTER(float, get_f32)
DEFINE_GETTER(double, get_f64)

/* Returns the field with this number; NULL if the table does not have it. */
static const uint8_t *slot(flat table, int number) {
    if (table.at == NULL) return NULL;
    const uint8_t *vtable = table.at - get_i32(table.at);
    if (4 + 2 * number >= get_u16(vtable)) return NULL;
    uint16_t offset = get_u16(vtable + 4 + 2 * number);
    return offset == 0 ? NULL : table.at + offset;
}

/* Returns the object to which a field refers; NULL if the table does not have the field. */
static const uint8_t *target(flat table, int number) {
    const uint8_t *at = slot(table, number);
    return at == NULL ? NULL : at + get_u32(at);
}

static flat child(flat table, int number) { return (flat){target(table, number)}; }

/* Reads the number in a field. Returns `otherwise` if the table does not have the field. */
static int64_t scalar(flat table, int number, int bytes, int64_t otherwise) {
    const uint8_t *at = slot(table, number);
    if (at == NULL) return otherwise;
    switch (bytes) {
        case 1: return get_u8(at);
        case 2: return get_i16(at);
        case 4: return get_i32(at);
        default: return get_i64(at);
    }
}

/* Returns the elements of a vector, and sets their number. */
static const uint8_t *vector(flat table, int number, size_t *count) {
    const uint8_t *at = target(table, number);
    *count = at == NULL ? 0 : get_u32(at);
    return at == NULL ? NULL : at + 4;
}

static flat element(const uint8_t *vector, size_t index) {
    const uint8_t *at = vector + 4 * index;
    return (flat){at + get_u32(at)};
}

/* ---- Messages ---- */

/* The kinds of headers. */
enum { SCHEMA = 1, DICTIONARY = 2, BATCH = 3 };
/* Units of times and dates, a precision of floats, and a mode of unions. */
enum { TIME_NANOSECOND = 3, DATE_DAY = 0, DATE_MILLISECOND = 1, PRECISION_HALF = 0, PRECISION_SINGLE = 1, UNION_DENSE = 1 };

typedef struct {
    const uint8_t *at, *end;
    int kind;
    flat header;
    const uint8_t *body;
} messages;

/* Reads the next message. Returns false at the end of the stream. */
static bool next_message(messages *stream) {
    if (stream->end - stream->at < 8) return false;
    size_t length = get_u32(stream->at + 4);
    const uint8_t *start = stream->at + 8;
    if (length == 0 || length > (size_t)(stream->end - start)) return false;
    flat message = {start + get_u32(start)};
    stream->body = start + length;
    int64_t body = scalar(message, 3, 8, 0);
    if (body < 0 || body > stream->end - stream->body) return false;
    stream->kind = (int)scalar(message, 1, 1, 0);
    stream->header = child(message, 2);
    stream->at = stream->body + body;
    return true;
}

/* ---- Reading columns ---- */

/* The values of a column or of a dictionary, while they are read. */
typedef struct {
    sandmill_type type;
    uint8_t *is_null;
    bool has_nulls;
    int64_t *int64;
    double *float64;
    uint8_t *boolean;
    const char **text;
    size_t count;
} values;

/* Reads one column. `kind` is the code of its type, and `type` the table with details. */
typedef struct {
    const char *name;
    flat field;
    int kind;
    flat type;
    bool has_dictionary;
    int64_t dictionary_id;
    int index_bytes;
    bool index_is_signed;
    values dictionary_values;
    values column;
} column_reader;

/* A record batch. The pointers to its nodes and buffers advance as columns are read. */
typedef struct {
    const uint8_t *nodes, *buffers, *variadic, *body;
    size_t variadic_count;
} batch;

typedef struct {
    const uint8_t *at;
    size_t length;
} buffer;

static buffer take_buffer(batch *from) {
    buffer taken = {from->body + get_i64(from->buffers), (size_t)get_i64(from->buffers + 8)};
    from->buffers += 16;
    return taken;
}

static batch open_batch(flat header, const uint8_t *body) {
    size_t count;
    batch opened = {.body = body};
    opened.nodes = vector(header, 1, &count);
    opened.buffers = vector(header, 2, &count);
    opened.variadic = vector(header, 4, &opened.variadic_count);
    return opened;
}

static sandmill_type type_of(int kind, flat type) {
    switch (kind) {
        case ARROW_NULL: case ARROW_UTF8: case ARROW_LARGE_UTF8: case ARROW_UTF8_VIEW: return SANDMILL_TEXT;
        case ARROW_INT: return SANDMILL_INT64;
        case ARROW_FLOAT: return scalar(type, 0, 2, PRECISION_HALF) == PRECISION_HALF ? SANDMILL_UNREAD : SANDMILL_FLOAT64;
        case ARROW_BOOL: return SANDMILL_BOOL;
        case ARROW_DATE: return SANDMILL_DATE;
        case ARROW_TIMESTAMP: return SANDMILL_TIMESTAMP;
        default: return SANDMILL_UNREAD;
    }
}

/* Allocates memory for the values of a column. */
static values allocate_values(sandmill_arena *arena, sandmill_type type, size_t count) {
    values allocated = {.type = type, .count = count, .is_null = sandmill_take(arena, count, 1)};
    switch (type) {
        case SANDMILL_INT64: case SANDMILL_DATE: case SANDMILL_TIMESTAMP:
            allocated.int64 = sandmill_take(arena, count, sizeof(int64_t));
            break;
        case SANDMILL_FLOAT64: allocated.float64 = sandmill_take(arena, count, sizeof(double)); break;
        case SANDMILL_BOOL: allocated.boolean = sandmill_take(arena, count, 1); break;
        case SANDMILL_TEXT:
            allocated.text = sandmill_take(arena, count, sizeof(char *));
            for (size_t index = 0; index < count; index++) allocated.text[index] = "";
            break;
        case SANDMILL_UNREAD: break;
    }
    return allocated;
}

static bool bit(const uint8_t *bits, size_t index) { return bits[index / 8] >> (index % 8) & 1; }

static int64_t floor_divided(int64_t value, int64_t by) { return value / by - (value % by < 0); }

static int64_t integer(const uint8_t *at, int bytes, bool is_signed) {
    switch (bytes) {
        case 1: return is_signed ? (int64_t)get_i8(at) : (int64_t)get_u8(at);
        case 2: return is_signed ? (int64_t)get_i16(at) : (int64_t)get_u16(at);
        /* Without the casts both sides would become unsigned. */
        case 4: return is_signed ? (int64_t)get_i32(at) : (int64_t)get_u32(at);
        default: return get_i64(at);
    }
}

/* Reads texts with offsets. Adds a zero byte to each. */
static void read_texts(sandmill_arena *arena, const column_reader *reader, buffer offsets, buffer data,
                       const char **to, size_t count) {
    bool is_large = reader->kind == ARROW_LARGE_UTF8;
    char *copy = sandmill_take(arena, data.length + count, 1);
    for (size_t row = 0; row < count; row++) {
        int64_t from = is_large ? get_i64(offsets.at + 8 * row) : get_i32(offsets.at + 4 * row);
        int64_t until = is_large ? get_i64(offsets.at + 8 * row + 8) : get_i32(offsets.at + 4 * row + 4);
        memcpy(copy, data.at + from, (size_t)(until - from));
        to[row] = copy;
        copy += until - from + 1;
    }
}

/* Reads texts as views: 16 bytes each, with the text itself if it has at most 12 bytes. */
static void read_views(sandmill_arena *arena, buffer views, const buffer *data, const char **to, size_t count) {
    for (size_t row = 0; row < count; row++) {
        const uint8_t *view = views.at + 16 * row;
        int32_t length = get_i32(view);
        const uint8_t *text = length <= 12 ? view + 4 : data[get_i32(view + 8)].at + get_i32(view + 12);
        to[row] = sandmill_copy(arena, text, (size_t)length);
    }
}

static void read_integers(const column_reader *reader, buffer from, values *to, size_t first_row, size_t count) {
    int bytes = (int)scalar(reader->type, 0, 4, 32) / 8;
    bool is_signed = scalar(reader->type, 1, 1, 0) != 0;
    for (size_t row = 0; row < count; row++) {
        int64_t value = integer(from.at + (size_t)bytes * row, bytes, is_signed);
        /* A number of 2^63 or more does not fit into `int64`. */
        if (!is_signed && bytes == 8 && value < 0) to->type = SANDMILL_UNREAD;
        to->int64[first_row + row] = value;
    }
}

/* Reads dates as days, and timestamps as microseconds. */
static void read_times(const column_reader *reader, buffer from, int64_t *to, size_t count) {
    /* Microseconds in a second, a millisecond and a microsecond, which are the units 0, 1 and 2. */
    static const int64_t microseconds[] = {1000000, 1000, 1};
    if (reader->kind == ARROW_DATE) {
        bool is_days = scalar(reader->type, 0, 2, DATE_MILLISECOND) == DATE_DAY;
        for (size_t row = 0; row < count; row++) {
            to[row] = is_days ? get_i32(from.at + 4 * row) : floor_divided(get_i64(from.at + 8 * row), 86400000);
        }
        return;
    }
    int64_t unit = scalar(reader->type, 0, 2, 0);
    for (size_t row = 0; row < count; row++) {
        int64_t value = get_i64(from.at + 8 * row);
        to[row] = unit == TIME_NANOSECOND ? floor_divided(value, 1000) : (int64_t)((uint64_t)value * (uint64_t)microseconds[unit]);
    }
}

static void read_nulls(const uint8_t *validity, values *to, size_t first_row, size_t count) {
    for (size_t row = 0; row < count; row++) {
        if (bit(validity, row)) continue;
        to->has_nulls = true;
        to->is_null[first_row + row] = 1;
        if (to->int64 != NULL) to->int64[first_row + row] = 0;
        if (to->float64 != NULL) to->float64[first_row + row] = 0;
        if (to->boolean != NULL) to->boolean[first_row + row] = 0;
        if (to->text != NULL) to->text[first_row + row] = "";
    }
}

/* Skips a column that is not read, and its child columns. */
static void skip(batch *from, int kind, flat type, flat field) {
    int buffer_count = 2;
    switch (kind) {
        case ARROW_NULL: case ARROW_RUN_END: buffer_count = 0; break;
        case ARROW_STRUCT: case ARROW_FIXED_LIST: buffer_count = 1; break;
        case ARROW_UNION: buffer_count = scalar(type, 0, 2, 0) == UNION_DENSE ? 2 : 1; break;
        case ARROW_BINARY: case ARROW_LARGE_BINARY: case ARROW_UTF8: case ARROW_LARGE_UTF8:
        case ARROW_LIST_VIEW: case ARROW_LARGE_LIST_VIEW: buffer_count = 3; break;
        case ARROW_BINARY_VIEW: case ARROW_UTF8_VIEW:
            buffer_count = 2 + (int)get_i64(from->variadic);
            from->variadic += 8;
            break;
        default: break;
    }
    from->nodes += 16;
    from->buffers += 16 * buffer_count;
    size_t count;
    const uint8_t *children = vector(field, 5, &count);
    for (size_t index = 0; index < count; index++) {
        flat inner = element(children, index);
        /* The batch has the indices of a column with a dictionary. */
        int inner_kind = child(inner, 4).at != NULL ? ARROW_INT : (int)scalar(inner, 2, 1, 0);
        skip(from, inner_kind, child(inner, 3), inner);
    }
}

/* Reads the next column of a batch into the rows of `to` from `first_row` on. */
static void read_values(sandmill_arena *arena, const column_reader *reader, batch *from, values *to, size_t first_row) {
    if (reader->kind == ARROW_NULL || type_of(reader->kind, reader->type) == SANDMILL_UNREAD) {
        size_t count = (size_t)get_i64(from->nodes);
        skip(from, reader->kind, reader->type, reader->field);
        to->has_nulls |= reader->kind == ARROW_NULL && count > 0;
        memset(to->is_null + first_row, reader->kind == ARROW_NULL, count);
        return;
    }
    size_t count = (size_t)get_i64(from->nodes);
    bool has_nulls = get_i64(from->nodes + 8) != 0;
    from->nodes += 16;
    buffer validity = take_buffer(from), first = take_buffer(from);
    switch (reader->kind) {
        case ARROW_INT: read_integers(reader, first, to, first_row, count); break;
        case ARROW_FLOAT:
            for (size_t row = 0; row < count; row++) {
                bool is_single = scalar(reader->type, 0, 2, PRECISION_HALF) == PRECISION_SINGLE;
                to->float64[first_row + row] = is_single ? (double)get_f32(first.at + 4 * row) : get_f64(first.at + 8 * row);
            }
            break;
        case ARROW_BOOL:
            for (size_t row = 0; row < count; row++) to->boolean[first_row + row] = bit(first.at, row);
            break;
        case ARROW_DATE: case ARROW_TIMESTAMP: read_times(reader, first, to->int64 + first_row, count); break;
        case ARROW_UTF8_VIEW: {
            size_t buffer_count = (size_t)get_i64(from->variadic);
            from->variadic += 8;
            buffer *data = sandmill_take(arena, buffer_count, sizeof(*data));
            for (size_t index = 0; index < buffer_count; index++) data[index] = take_buffer(from);
            read_views(arena, first, data, to->text + first_row, count);
            break;
        }
        default: {
            buffer data = take_buffer(from);
            if (count > 0) read_texts(arena, reader, first, data, to->text + first_row, count);
        }
    }
    if (has_nulls) read_nulls(validity.at, to, first_row, count);
}

/* Reads the indices of a column with a dictionary, and stores the dictionary's values in the rows from
 * `first_row` on. */
static void read_indices(const column_reader *reader, batch *from, values *to, size_t first_row) {
    size_t count = (size_t)get_i64(from->nodes);
    bool has_nulls = get_i64(from->nodes + 8) != 0;
    from->nodes += 16;
    buffer validity = take_buffer(from), indices = take_buffer(from);
    const values *dictionary_values = &reader->dictionary_values;
    if (dictionary_values->type == SANDMILL_UNREAD) to->type = SANDMILL_UNREAD;
    for (size_t row = 0; row < count; row++) {
        if (has_nulls && !bit(validity.at, row)) continue;
        int64_t index = integer(indices.at + (size_t)reader->index_bytes * row, reader->index_bytes, reader->index_is_signed);
        if (index < 0 || (size_t)index >= dictionary_values->count) continue;
        if (dictionary_values->is_null[index]) {
            to->is_null[first_row + row] = 1;
            to->has_nulls = true;
        }
        if (to->int64 != NULL) to->int64[first_row + row] = dictionary_values->int64[index];
        if (to->float64 != NULL) to->float64[first_row + row] = dictionary_values->float64[index];
        if (to->boolean != NULL) to->boolean[first_row + row] = dictionary_values->boolean[index];
        if (to->text != NULL) to->text[first_row + row] = dictionary_values->text[index];
    }
    if (has_nulls) read_nulls(validity.at, to, first_row, count);
}

/* Reads the values of a dictionary. A delta appends values to those that are known. */
static void read_dictionary(sandmill_arena *arena, column_reader *reader, flat header, const uint8_t *body) {
    flat data = child(header, 1);
    bool is_delta = scalar(header, 2, 1, 0) != 0;
    size_t before = is_delta ? reader->dictionary_values.count : 0;
    size_t count = before + (size_t)scalar(data, 0, 8, 0);
    values updated = allocate_values(arena, type_of(reader->kind, reader->type), count);
    values *dictionary_values = &reader->dictionary_values;
    if (before > 0) {
        memcpy(updated.is_null, dictionary_values->is_null, before);
        if (updated.int64 != NULL) memcpy(updated.int64, dictionary_values->int64, before * sizeof(*updated.int64));
        if (updated.float64 != NULL) memcpy(updated.float64, dictionary_values->float64, before * sizeof(*updated.float64));
        if (updated.boolean != NULL) memcpy(updated.boolean, dictionary_values->boolean, before);
        if (updated.text != NULL) memcpy(updated.text, dictionary_values->text, before * sizeof(*updated.text));
        updated.has_nulls = dictionary_values->has_nulls;
    }
    batch from = open_batch(data, body);
    read_values(arena, reader, &from, &updated, before);
    *dictionary_values = updated;
}

static column_reader *read_schema(sandmill_arena *arena, flat schema, size_t rows, size_t *count) {
    const uint8_t *fields = vector(schema, 1, count);
    column_reader *readers = sandmill_take(arena, *count, sizeof(*readers));
    for (size_t index = 0; index < *count; index++) {
        flat field = element(fields, index), encoding = child(field, 4);
        column_reader *reader = &readers[index];
        const uint8_t *name = target(field, 0);
        reader->name = name == NULL ? "" : sandmill_copy(arena, name + 4, get_u32(name));
        reader->field = field;
        reader->kind = (int)scalar(field, 2, 1, 0);
        reader->type = child(field, 3);
        reader->has_dictionary = encoding.at != NULL;
        reader->dictionary_id = scalar(encoding, 0, 8, 0);
        flat index_type = child(encoding, 1);
        reader->index_bytes = (int)scalar(index_type, 0, 4, 32) / 8;
        reader->index_is_signed = index_type.at == NULL || scalar(index_type, 1, 1, 0) != 0;
        reader->column = allocate_values(arena, type_of(reader->kind, reader->type), rows);
    }
    return readers;
}

const char *sandmill_read_table(sandmill_arena *arena, const uint8_t *bytes, size_t length, sandmill_table *table) {
    const messages whole = {.at = bytes, .end = bytes + length};
    size_t rows = 0, count = 0, row = 0;
    for (messages stream = whole; next_message(&stream);) {
        if (stream.kind == BATCH) rows += (size_t)scalar(stream.header, 0, 8, 0);
    }
    column_reader *readers = NULL;
    for (messages stream = whole; next_message(&stream);) {
        if (stream.kind == SCHEMA) readers = read_schema(arena, stream.header, rows, &count);
        if (readers == NULL) return "the table has no schema";
        if (stream.kind == DICTIONARY) {
            int64_t id = scalar(stream.header, 0, 8, 0);
            for (size_t index = 0; index < count; index++) {
                column_reader *reader = &readers[index];
                if (reader->has_dictionary && reader->dictionary_id == id) read_dictionary(arena, reader, stream.header, stream.body);
            }
        }
        if (stream.kind == BATCH) {
            batch from = open_batch(stream.header, stream.body);
            for (size_t index = 0; index < count; index++) {
                column_reader *reader = &readers[index];
                if (reader->has_dictionary) {
                    read_indices(reader, &from, &reader->column, row);
                } else {
                    read_values(arena, reader, &from, &reader->column, row);
                }
            }
            row += (size_t)scalar(stream.header, 0, 8, 0);
        }
    }
    if (readers == NULL) return "the table has no schema";
    sandmill_column *columns = sandmill_take(arena, count, sizeof(*columns));
    for (size_t index = 0; index < count; index++) {
        const column_reader *reader = &readers[index];
        const values *column = &reader->column;
        columns[index] = (sandmill_column){
            .name = reader->name,
            .type = column->type,
            .has_time_zone = reader->kind == ARROW_TIMESTAMP && target(reader->type, 1) != NULL,
            .is_null = column->has_nulls ? column->is_null : NULL,
            .int64 = column->int64,
            .float64 = column->float64,
            .boolean = column->boolean,
            .text = column->text,
        };
    }
    *table = (sandmill_table){.rows = rows, .column_count = count, .columns = columns};
    return NULL;
}

/* ---- Looking up columns ---- */

const sandmill_column *sandmill_find(const sandmill_table *table, const char *name) {
    for (size_t index = 0; index < table->column_count; index++) {
        if (strcmp(table->columns[index].name, name) == 0) return &table->columns[index];
    }
    return NULL;
}

static const char *type_name(sandmill_type type) {
    static const char *const names[] = {"integers", "floats", "booleans", "texts", "dates", "timestamps",
                                        "values that C scripts cannot read (an unsupported type, or integers of 2^63 or more)"};
    return names[type];
}

/* Finds a column. Fails if it does not exist or has nulls. */
static const char *find_without_nulls(const sandmill_table *table, const char *name, const sandmill_column **found) {
    const sandmill_column *column = sandmill_find(table, name);
    if (column == NULL) {
        sandmill_buffer names = {0};
        for (size_t index = 0; index < table->column_count; index++) {
            if (index > 0) sandmill_append(&names, ", ", 2);
            sandmill_append(&names, table->columns[index].name, strlen(table->columns[index].name));
        }
        const char *text = sandmill_error("column %s: there is no column of this name; the columns are %.*s", name, (int)names.length,
                                          names.length == 0 ? "" : (char *)names.bytes);
        free(names.bytes);
        return text;
    }
    for (size_t row = 0; column->is_null != NULL && row < table->rows; row++) {
        if (column->is_null[row]) {
            return sandmill_error(
                "column %s, row %zu of the mini-batch (the first is row 1): null; use sandmill_find for a column with nulls",
                name, row + 1);
        }
    }
    *found = column;
    return NULL;
}

const char *sandmill_float64(const sandmill_table *table, const char *name, const double **values) {
    const sandmill_column *column;
    const char *reason = find_without_nulls(table, name, &column);
    if (reason != NULL) return reason;
    if (column->type == SANDMILL_FLOAT64) {
        *values = column->float64;
    } else if (column->type == SANDMILL_INT64) {
        double *floats = sandmill_take(sandmill_call(), table->rows, sizeof(*floats));
        for (size_t row = 0; row < table->rows; row++) floats[row] = (double)column->int64[row];
        *values = floats;
    } else {
        return sandmill_error("column %s: expected numbers, found %s", name, type_name(column->type));
    }
    return NULL;
}

const char *sandmill_int64(const sandmill_table *table, const char *name, const int64_t **values) {
    const sandmill_column *column;
    const char *reason = find_without_nulls(table, name, &column);
    if (reason != NULL) return reason;
    if (column->type != SANDMILL_INT64) {
        return sandmill_error("column %s: expected integers, found %s", name, type_name(column->type));
    }
    *values = column->int64;
    return NULL;
}

const char *sandmill_text(const sandmill_table *table, const char *name, const char *const **values) {
    const sandmill_column *column;
    const char *reason = find_without_nulls(table, name, &column);
    if (reason != NULL) return reason;
    if (column->type != SANDMILL_TEXT) {
        return sandmill_error("column %s: expected texts, found %s", name, type_name(column->type));
    }
    *values = column->text;
    return NULL;
}
