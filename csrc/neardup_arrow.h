/* neardup_arrow.h: the structs of Arrow's C data interface. neardup_db/arrow.py reads them where a producer has put them; the core
 * uses none of them. cffi parses this text after neardup_testing.h.
 *
 * A producer fills a struct in and sets `release`, which the consumer calls once; it then sets itself to NULL. */

typedef struct nd_arrow_schema nd_arrow_schema;
typedef struct nd_arrow_array nd_arrow_array;
typedef struct nd_arrow_array_stream nd_arrow_array_stream;

/* The type of a column, or of a table: a struct whose children are the columns. */
struct nd_arrow_schema {
    const char *format; /* "u" strings, "l" int64, "+s" a struct, ...; of the indices, where there is a dictionary */
    const char *name;   /* may be NULL */
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    nd_arrow_schema **children;
    nd_arrow_schema *dictionary; /* NULL = none */
    void (*release)(nd_arrow_schema *);
    void *private_data;
};

/* Rows `offset` up to offset + length of some buffers; those of children count from there on. */
struct nd_arrow_array {
    int64_t length;
    int64_t null_count; /* -1 = not known */
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers; /* the first is a bit a row, 0 = null, or NULL where no row is */
    nd_arrow_array **children;
    nd_arrow_array *dictionary;
    void (*release)(nd_arrow_array *);
    void *private_data;
};

/* Arrays of one type, one after another. What fails returns an errno. */
struct nd_arrow_array_stream {
    int (*get_schema)(nd_arrow_array_stream *, nd_arrow_schema *out);
    int (*get_next)(nd_arrow_array_stream *, nd_arrow_array *out); /* after the last one, an array that is released already */
    const char *(*get_last_error)(nd_arrow_array_stream *);        /* may be NULL */
    void (*release)(nd_arrow_array_stream *);
    void *private_data;
};
