/* Reads Arrow IPC streams into columns, and looks up columns. Buffers are never compressed (see the
 * contract). */
#include "sandmill_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The numbers of Arrow's types in a schema. */
enum {
    ARROW_NULL = 1, ARROW_INT, ARROW_FLOAT, ARROW_BINARY, ARROW_UTF8, ARROW_BOOL, ARROW_DECIMAL, ARROW_DATE,
    ARROW_TIME, ARROW_TIMESTAMP, ARROW_INTERVAL, ARROW_LIST, ARROW_STRUCT, ARROW_UNION, ARROW_FIXED_BINARY,
    ARROW_FIXED_LIST, ARROW_MAP, ARROW_DURATION, ARROW_LARGE_BINARY, ARROW_LARGE_UTF8, ARROW_LARGE_LIST,
    ARROW_RUN_END, ARROW_BINARY_VIEW, ARROW_UTF8_VIEW, ARROW_LIST_VIEW, ARROW_LARGE_LIST_VIEW
};

/* ---- Flatbuffers, read ---- */

typedef struct {
    const uint8_t *at; /* NULL if the table does not exist */
} flat;

#define NUMBER(type, name)                                            \
    static type name(const uint8_t *at) {                             \
        type value;                                                   \
        memcpy(&value, at, sizeof(value));                            \
        return value;                                                 \
    }
NUMBER(int8_t, get_i8)
NUMBER(uint8_t, get_u8)
NUMBER(int16_t, get_i16)
NUMBER(uint16_t, get_u16)
NUMBER(int32_t, get_i32)
NUMBER(uint32_t, get_u32)
NUMBER(int64_t, get_i64)
NUMBER(float, get_f32)
NUMBER(double, get_f64)

static const uint8_t *slot(flat table, int number) {
    if (table.at == NULL) return NULL;
    const uint8_t *layout = table.at - get_i32(table.at);
    if (4 + 2 * number >= get_u16(layout)) return NULL;
    uint16_t offset = get_u16(layout + 4 + 2 * number);
    return offset == 0 ? NULL : table.at + offset;
}

static const uint8_t *target(flat table, int number) {
    const uint8_t *at = slot(table, number);
    return at == NULL ? NULL : at + get_u32(at);
}

static flat child(flat table, int number) { return (flat){target(table, number)}; }

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

enum { SCHEMA = 1, DICTIONARY = 2, BATCH = 3 };

typedef struct {
    const uint8_t *at, *end;
    int kind;
    flat header;
    const uint8_t *body;
} messages;

static bool next(messages *stream) {
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

/* ---- Columns, read ---- */

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

typedef struct {
    const char *name;
    flat field;
    int kind;
    flat type;
    bool has_dictionary;
    int64_t dictionary;
    int index_bytes;
    bool index_is_signed;
    values known;
    values column;
} reader;

/* A batch. Its nodes and buffers are taken one after the other. */
typedef struct {
    const uint8_t *nodes, *buffers, *variadic, *body;
    size_t variadic_count;
} batch;

typedef struct {
    const uint8_t *at;
    size_t length;
} part;

static part take_part(batch *from) {
    part taken = {from->body + get_i64(from->buffers), (size_t)get_i64(from->buffers + 8)};
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
        case ARROW_FLOAT: return scalar(type, 0, 2, 0) == 0 ? SANDMILL_UNREAD : SANDMILL_FLOAT64;
        case ARROW_BOOL: return SANDMILL_BOOL;
        case ARROW_DATE: return SANDMILL_DATE;
        case ARROW_TIMESTAMP: return SANDMILL_TIMESTAMP;
        default: return SANDMILL_UNREAD;
    }
}

static values room(sandmill_arena *arena, sandmill_type type, size_t count) {
    values made = {.type = type, .count = count, .is_null = sandmill_take(arena, count, 1)};
    switch (type) {
        case SANDMILL_INT64: case SANDMILL_DATE: case SANDMILL_TIMESTAMP:
            made.int64 = sandmill_take(arena, count, sizeof(int64_t));
            break;
        case SANDMILL_FLOAT64: made.float64 = sandmill_take(arena, count, sizeof(double)); break;
        case SANDMILL_BOOL: made.boolean = sandmill_take(arena, count, 1); break;
        case SANDMILL_TEXT:
            made.text = sandmill_take(arena, count, sizeof(char *));
            for (size_t index = 0; index < count; index++) made.text[index] = "";
            break;
        case SANDMILL_UNREAD: break;
    }
    return made;
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

/* Copies texts, each with a zero byte after it. */
static void read_texts(sandmill_arena *arena, const reader *of, part offsets, part data, const char **to, size_t count) {
    bool is_large = of->kind == ARROW_LARGE_UTF8;
    char *copy = sandmill_take(arena, data.length + count, 1);
    for (size_t row = 0; row < count; row++) {
        int64_t from = is_large ? get_i64(offsets.at + 8 * row) : get_i32(offsets.at + 4 * row);
        int64_t until = is_large ? get_i64(offsets.at + 8 * row + 8) : get_i32(offsets.at + 4 * row + 4);
        memcpy(copy, data.at + from, (size_t)(until - from));
        to[row] = copy;
        copy += until - from + 1;
    }
}

static void read_views(sandmill_arena *arena, part views, const part *data, const char **to, size_t count) {
    for (size_t row = 0; row < count; row++) {
        const uint8_t *view = views.at + 16 * row;
        int32_t length = get_i32(view);
        const uint8_t *text = length <= 12 ? view + 4 : data[get_i32(view + 8)].at + get_i32(view + 12);
        to[row] = sandmill_copy(arena, text, (size_t)length);
    }
}

static void read_integers(const reader *of, part from, values *to, size_t at, size_t count) {
    int bytes = (int)scalar(of->type, 0, 4, 32) / 8;
    bool is_signed = scalar(of->type, 1, 1, 0) != 0;
    for (size_t row = 0; row < count; row++) {
        int64_t value = integer(from.at + (size_t)bytes * row, bytes, is_signed);
        /* A number of 2^63 or more does not fit, so the column is not read. */
        if (!is_signed && bytes == 8 && value < 0) to->type = SANDMILL_UNREAD;
        to->int64[at + row] = value;
    }
}

static void read_moments(const reader *of, part from, int64_t *to, size_t count) {
    static const int64_t microseconds[] = {1000000, 1000, 1};
    if (of->kind == ARROW_DATE) {
        bool is_days = scalar(of->type, 0, 2, 1) == 0;
        for (size_t row = 0; row < count; row++) {
            to[row] = is_days ? get_i32(from.at + 4 * row) : floor_divided(get_i64(from.at + 8 * row), 86400000);
        }
        return;
    }
    int64_t unit = scalar(of->type, 0, 2, 0);
    for (size_t row = 0; row < count; row++) {
        int64_t value = get_i64(from.at + 8 * row);
        to[row] = unit == 3 ? floor_divided(value, 1000) : (int64_t)((uint64_t)value * (uint64_t)microseconds[unit]);
    }
}

static void read_nulls(const uint8_t *validity, values *to, size_t at, size_t count) {
    for (size_t row = 0; row < count; row++) {
        if (bit(validity, row)) continue;
        to->has_nulls = true;
        to->is_null[at + row] = 1;
        if (to->int64 != NULL) to->int64[at + row] = 0;
        if (to->float64 != NULL) to->float64[at + row] = 0;
        if (to->boolean != NULL) to->boolean[at + row] = 0;
        if (to->text != NULL) to->text[at + row] = "";
    }
}

/* Skips a column that is not read, and its child columns. */
static void skip(batch *from, int kind, flat type, flat field) {
    int parts = 2;
    switch (kind) {
        case ARROW_NULL: case ARROW_RUN_END: parts = 0; break;
        case ARROW_STRUCT: case ARROW_FIXED_LIST: parts = 1; break;
        case ARROW_UNION: parts = scalar(type, 0, 2, 0) == 1 ? 2 : 1; break;
        case ARROW_BINARY: case ARROW_LARGE_BINARY: case ARROW_UTF8: case ARROW_LARGE_UTF8:
        case ARROW_LIST_VIEW: case ARROW_LARGE_LIST_VIEW: parts = 3; break;
        case ARROW_BINARY_VIEW: case ARROW_UTF8_VIEW:
            parts = 2 + (int)get_i64(from->variadic);
            from->variadic += 8;
            break;
        default: break;
    }
    from->nodes += 16;
    from->buffers += 16 * parts;
    size_t count;
    const uint8_t *children = vector(field, 5, &count);
    for (size_t index = 0; index < count; index++) {
        flat inner = element(children, index);
        /* A column with a dictionary has its indices here. */
        int inner_kind = child(inner, 4).at != NULL ? ARROW_INT : (int)scalar(inner, 2, 1, 0);
        skip(from, inner_kind, child(inner, 3), inner);
    }
}

/* Reads the next column of a batch into `to`, from its row `at` on. */
static void read_values(sandmill_arena *arena, const reader *of, batch *from, values *to, size_t at) {
    if (of->kind == ARROW_NULL || type_of(of->kind, of->type) == SANDMILL_UNREAD) {
        size_t count = (size_t)get_i64(from->nodes);
        skip(from, of->kind, of->type, of->field);
        to->has_nulls |= of->kind == ARROW_NULL && count > 0;
        memset(to->is_null + at, of->kind == ARROW_NULL, count);
        return;
    }
    size_t count = (size_t)get_i64(from->nodes);
    bool has_nulls = get_i64(from->nodes + 8) != 0;
    from->nodes += 16;
    part validity = take_part(from), first = take_part(from);
    switch (of->kind) {
        case ARROW_INT: read_integers(of, first, to, at, count); break;
        case ARROW_FLOAT:
            for (size_t row = 0; row < count; row++) {
                bool is_single = scalar(of->type, 0, 2, 0) == 1;
                to->float64[at + row] = is_single ? (double)get_f32(first.at + 4 * row) : get_f64(first.at + 8 * row);
            }
            break;
        case ARROW_BOOL:
            for (size_t row = 0; row < count; row++) to->boolean[at + row] = bit(first.at, row);
            break;
        case ARROW_DATE: case ARROW_TIMESTAMP: read_moments(of, first, to->int64 + at, count); break;
        case ARROW_UTF8_VIEW: {
            size_t parts = (size_t)get_i64(from->variadic);
            from->variadic += 8;
            part *data = sandmill_take(arena, parts, sizeof(*data));
            for (size_t index = 0; index < parts; index++) data[index] = take_part(from);
            read_views(arena, first, data, to->text + at, count);
            break;
        }
        default: {
            part data = take_part(from);
            if (count > 0) read_texts(arena, of, first, data, to->text + at, count);
        }
    }
    if (has_nulls) read_nulls(validity.at, to, at, count);
}

/* Reads indices into the dictionary, and stores its values. */
static void read_indices(const reader *of, batch *from, values *to, size_t at) {
    size_t count = (size_t)get_i64(from->nodes);
    bool has_nulls = get_i64(from->nodes + 8) != 0;
    from->nodes += 16;
    part validity = take_part(from), indices = take_part(from);
    const values *known = &of->known;
    if (known->type == SANDMILL_UNREAD) to->type = SANDMILL_UNREAD;
    for (size_t row = 0; row < count; row++) {
        if (has_nulls && !bit(validity.at, row)) continue;
        int64_t index = integer(indices.at + (size_t)of->index_bytes * row, of->index_bytes, of->index_is_signed);
        if (index < 0 || (size_t)index >= known->count) continue;
        if (known->is_null[index]) {
            to->is_null[at + row] = 1;
            to->has_nulls = true;
        }
        if (to->int64 != NULL) to->int64[at + row] = known->int64[index];
        if (to->float64 != NULL) to->float64[at + row] = known->float64[index];
        if (to->boolean != NULL) to->boolean[at + row] = known->boolean[index];
        if (to->text != NULL) to->text[at + row] = known->text[index];
    }
    if (has_nulls) read_nulls(validity.at, to, at, count);
}

static void read_dictionary(sandmill_arena *arena, reader *of, flat header, const uint8_t *body) {
    flat data = child(header, 1);
    bool is_delta = scalar(header, 2, 1, 0) != 0;
    size_t before = is_delta ? of->known.count : 0;
    size_t count = before + (size_t)scalar(data, 0, 8, 0);
    values all = room(arena, type_of(of->kind, of->type), count);
    values *known = &of->known;
    if (before > 0) {
        memcpy(all.is_null, known->is_null, before);
        if (all.int64 != NULL) memcpy(all.int64, known->int64, before * sizeof(*all.int64));
        if (all.float64 != NULL) memcpy(all.float64, known->float64, before * sizeof(*all.float64));
        if (all.boolean != NULL) memcpy(all.boolean, known->boolean, before);
        if (all.text != NULL) memcpy(all.text, known->text, before * sizeof(*all.text));
        all.has_nulls = known->has_nulls;
    }
    batch from = open_batch(data, body);
    read_values(arena, of, &from, &all, before);
    *known = all;
}

static reader *read_schema(sandmill_arena *arena, flat schema, size_t rows, size_t *count) {
    const uint8_t *fields = vector(schema, 1, count);
    reader *readers = sandmill_take(arena, *count, sizeof(*readers));
    for (size_t index = 0; index < *count; index++) {
        flat field = element(fields, index), encoding = child(field, 4);
        reader *of = &readers[index];
        const uint8_t *name = target(field, 0);
        of->name = name == NULL ? "" : sandmill_copy(arena, name + 4, get_u32(name));
        of->field = field;
        of->kind = (int)scalar(field, 2, 1, 0);
        of->type = child(field, 3);
        of->has_dictionary = encoding.at != NULL;
        of->dictionary = scalar(encoding, 0, 8, 0);
        flat index_type = child(encoding, 1);
        of->index_bytes = (int)scalar(index_type, 0, 4, 32) / 8;
        of->index_is_signed = index_type.at == NULL || scalar(index_type, 1, 1, 0) != 0;
        of->column = room(arena, type_of(of->kind, of->type), rows);
    }
    return readers;
}

const char *sandmill_read_table(sandmill_arena *arena, const uint8_t *bytes, size_t length, sandmill_table *table) {
    const messages whole = {.at = bytes, .end = bytes + length};
    size_t rows = 0, count = 0, row = 0;
    for (messages stream = whole; next(&stream);) {
        if (stream.kind == BATCH) rows += (size_t)scalar(stream.header, 0, 8, 0);
    }
    reader *readers = NULL;
    for (messages stream = whole; next(&stream);) {
        if (stream.kind == SCHEMA) readers = read_schema(arena, stream.header, rows, &count);
        if (readers == NULL) return "the table has no schema";
        if (stream.kind == DICTIONARY) {
            int64_t id = scalar(stream.header, 0, 8, 0);
            for (size_t index = 0; index < count; index++) {
                reader *of = &readers[index];
                if (of->has_dictionary && of->dictionary == id) read_dictionary(arena, of, stream.header, stream.body);
            }
        }
        if (stream.kind == BATCH) {
            batch from = open_batch(stream.header, stream.body);
            for (size_t index = 0; index < count; index++) {
                reader *of = &readers[index];
                if (of->has_dictionary) {
                    read_indices(of, &from, &of->column, row);
                } else {
                    read_values(arena, of, &from, &of->column, row);
                }
            }
            row += (size_t)scalar(stream.header, 0, 8, 0);
        }
    }
    if (readers == NULL) return "the table has no schema";
    sandmill_column *columns = sandmill_take(arena, count, sizeof(*columns));
    for (size_t index = 0; index < count; index++) {
        const reader *of = &readers[index];
        const values *column = &of->column;
        columns[index] = (sandmill_column){
            .name = of->name,
            .type = column->type,
            .has_time_zone = of->kind == ARROW_TIMESTAMP && target(of->type, 1) != NULL,
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

/* ---- Columns, asked for ---- */

const sandmill_column *sandmill_find(const sandmill_table *table, const char *name) {
    for (size_t index = 0; index < table->column_count; index++) {
        if (strcmp(table->columns[index].name, name) == 0) return &table->columns[index];
    }
    return NULL;
}

static const char *plain(sandmill_type type) {
    static const char *const names[] = {"integers", "floats", "booleans", "texts", "dates", "timestamps", "of a type that is not read"};
    return names[type];
}

static const char *without_nulls(const sandmill_table *table, const char *name, const sandmill_column **found) {
    const sandmill_column *column = sandmill_find(table, name);
    if (column == NULL) {
        sandmill_buffer names = {0};
        for (size_t index = 0; index < table->column_count; index++) {
            if (index > 0) sandmill_append(&names, ", ", 2);
            sandmill_append(&names, table->columns[index].name, strlen(table->columns[index].name));
        }
        const char *text = sandmill_error("column %s: there is no column of this name; there are %.*s", name, (int)names.length,
                                          names.length == 0 ? "" : (char *)names.bytes);
        free(names.bytes);
        return text;
    }
    for (size_t row = 0; column->is_null != NULL && row < table->rows; row++) {
        if (column->is_null[row]) {
            return sandmill_error(
                "column %s, row %zu of the mini-batch (the first is row 1): null; sandmill_find gives a column with its nulls",
                name, row + 1);
        }
    }
    *found = column;
    return NULL;
}

const char *sandmill_float64(const sandmill_table *table, const char *name, const double **values) {
    const sandmill_column *column;
    const char *reason = without_nulls(table, name, &column);
    if (reason != NULL) return reason;
    if (column->type == SANDMILL_FLOAT64) {
        *values = column->float64;
    } else if (column->type == SANDMILL_INT64) {
        double *made = sandmill_take(sandmill_call(), table->rows, sizeof(*made));
        for (size_t row = 0; row < table->rows; row++) made[row] = (double)column->int64[row];
        *values = made;
    } else {
        return sandmill_error("column %s: expected numbers, found %s", name, plain(column->type));
    }
    return NULL;
}

const char *sandmill_int64(const sandmill_table *table, const char *name, const int64_t **values) {
    const sandmill_column *column;
    const char *reason = without_nulls(table, name, &column);
    if (reason != NULL) return reason;
    if (column->type != SANDMILL_INT64) {
        return sandmill_error("column %s: expected integers, found %s", name, plain(column->type));
    }
    *values = column->int64;
    return NULL;
}

const char *sandmill_text(const sandmill_table *table, const char *name, const char *const **values) {
    const sandmill_column *column;
    const char *reason = without_nulls(table, name, &column);
    if (reason != NULL) return reason;
    if (column->type != SANDMILL_TEXT) {
        return sandmill_error("column %s: expected texts, found %s", name, plain(column->type));
    }
    *values = column->text;
    return NULL;
}
