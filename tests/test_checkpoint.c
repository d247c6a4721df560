/* base/safetensors, with the tensors of a model. A file is loaded as it was saved, bit for bit, and other programs can
   read it. Any other content is refused by name, and the parameters stay unchanged. */
#include "temporary.h"

#include <unistd.h>

#include "base/json.h"
#include "base/safetensors.h"
#include "model/tensors.h"

static const ModelShape SMALL = {.T = 4,
                                 .C = 6,
                                 .attention = {.H = 2, .D = 2},
                                 .F = 8,
                                 .V = 5,
                                 .L = 1,
                                 .pre_norm = true,
                                 .bias = true,
                                 .tied = true};

/* A saved checkpoint of SMALL, in memory, and arrays to load it into. */
static struct {
    TensorTable table;
    real *saved, *flat, *before; /* before: the content of flat, which a refusal must not change */
    char *header, *data;
    size_t header_size, data_size, size;
} c;

static NamedArray *arrays_of(const TensorTable *table, real *flat) {
    NamedArray *arrays = memory_make(table->count, sizeof *arrays, "arrays");
    for (size_t i = 0; i < table->count; i++) {
        const Tensor *t = &table->items[i];
        arrays[i] =
            (NamedArray){.dimensions = t->dimensions, .shape = {t->size[0], t->size[1]}, .data = flat + t->offset};
        memcpy(arrays[i].name, t->name, sizeof t->name);
    }
    return arrays;
}
static void write_file(const char *path, const NamedArray *arrays, size_t count, const Metadata *lines, size_t n) {
    FileWriter *writer = file_writer_open(&no_directory, path);
    safetensors_write(writer->stream, arrays, count, lines, n);
    file_writer_commit(writer);
}
static void save(const char *path, const TensorTable *table, real *flat) {
    const size_t mark = memory_mark();
    const NamedArray *arrays = arrays_of(table, flat);
    write_file(path, arrays, table->count, &(Metadata){"step", "7"}, 1);
    memory_release(mark);
}
static void load(const char *path, const TensorTable *table, real *flat) {
    const size_t mark = memory_mark();
    const NamedArray *arrays = arrays_of(table, flat);
    const SafetensorsFile file = safetensors_open(path, table->parameters * sizeof *flat);
    safetensors_take(&file, arrays, table->count, "the model");
    memory_release(mark);
}

static real *random_bits(size_t count) {
    Rng rng = rng_make(5, RNG_SAMPLE, 5);
    real *x = reals(count);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits[4];
        rng_block(&rng, i, bits); /* NaNs, infinities, denormals and negative zeros among them */
        if (i % 5 == 0) bits[0] = (uint32_t[]){0x80000000, 0x7F800000, 0xFF812345, 1, 0x7FC00000}[i / 5 % 5];
        memcpy(&x[i], bits, sizeof *x);
    }
    return x;
}

static void split_file(const char *path) {
    uint64_t length;
    char *file = contents(path, &c.size);
    memcpy(&length, file, 8);
    c.header_size = (size_t)length;
    assert_true(c.header_size < c.size - 8);
    c.header = memory_make(c.header_size + 1, 1, "a header");
    memcpy(c.header, file + 8, c.header_size);
    c.data_size = c.size - 8 - c.header_size;
    c.data = memory_make(c.data_size, 1, "data");
    memcpy(c.data, file + 8 + c.header_size, c.data_size);
}

static int make(void **state) {
    if (temporary_enter(state) != 0) return 1;
    c.table = tensors_make(&SMALL);
    c.saved = random_bits(c.table.flat);
    c.flat = normal_reals(c.table.flat, 1);
    c.before = copied_reals(c.flat, c.table.flat);
    save(in("model"), &c.table, c.saved);
    split_file(in("model"));
    return 0;
}

static void assert_untouched(void) { assert_memory_equal(c.flat, c.before, c.table.flat * sizeof *c.flat); }

static void refuse(const char *path, const char *word) {
    assert_refused(word, load(path, &c.table, c.flat));
    assert_non_null(strstr(err.message, path));
    assert_untouched();
}

static const char *put_parts(uint64_t length, const char *header, size_t header_size, const char *data,
                             size_t data_size) {
    char *file = memory_make(8 + header_size + data_size, 1, "a file");
    memcpy(file, &length, 8);
    memcpy(file + 8, header, header_size);
    memcpy(file + 8 + header_size, data, data_size);
    put("changed", file, 8 + header_size + data_size);
    memory_free(file);
    return in("changed");
}
static void refuse_header(const char *header, const char *word) {
    refuse(put_parts(strlen(header), header, strlen(header), c.data, c.data_size), word);
}

/* The header with the first `from` that follows `after` replaced; valid for one call. */
static const char *changed(const char *after, const char *from, const char *to) {
    static char header[1 << 14];
    const char *place = strstr(c.header, after);
    assert_non_null(place);
    place = strstr(place, from);
    assert_non_null(place);
    snprintf(header, sizeof header, "%.*s%s%s", (int)(place - c.header), c.header, to, place + strlen(from));
    return header;
}

/* The file as another program reads it: GPT-2's names and shapes, offsets without gaps, the numbers where these say. */
static void file_layout(void) {
    const struct {
        const char *name;
        int64_t rows, columns;
    } expected[] = {
        {"wte.weight", 5, 6},
        {"wpe.weight", 4, 6},
        {"h.0.ln_1.weight", 6, 0},
        {"h.0.ln_1.bias", 6, 0},
        {"h.0.attn.c_attn.weight", 6, 12},
        {"h.0.attn.c_attn.bias", 12, 0},
        {"h.0.attn.c_proj.weight", 4, 6},
        {"h.0.attn.c_proj.bias", 6, 0},
        {"h.0.ln_2.weight", 6, 0},
        {"h.0.ln_2.bias", 6, 0},
        {"h.0.mlp.c_fc.weight", 6, 8},
        {"h.0.mlp.c_fc.bias", 8, 0},
        {"h.0.mlp.c_proj.weight", 8, 6},
        {"h.0.mlp.c_proj.bias", 6, 0},
        {"ln_f.weight", 6, 0},
        {"ln_f.bias", 6, 0},
    };
    const Json *header = js_parse(c.header, c.header_size, "it");
    assert_int_equal(c.header_size % 8, 0);
    assert_int_equal(js_object_size(header), COUNT_OF(expected) + 1);
    assert_true(js_object_size(js_get(header, "__metadata__")) > 0);
    assert_int_equal(c.table.count, COUNT_OF(expected));
    int64_t end = 0;
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        const Json *entry = js_get(header, expected[i].name), *shape = js_get(entry, "shape");
        const Json *offsets = js_get(entry, "data_offsets");
        int64_t size[2] = {0, 0}, from = -1, to = -1;
        assert_that(entry != NULL, "%s", expected[i].name);
        assert_string_equal(js_as_text(js_get(entry, "dtype")), "F32");
        assert_int_equal(js_array_size(shape), expected[i].columns ? 2 : 1);
        for (size_t d = 0; d < js_array_size(shape); d++) assert_true(js_as_integer(js_at(shape, d), &size[d]));
        assert_true(size[0] == expected[i].rows && size[1] == expected[i].columns);
        assert_true(js_as_integer(js_at(offsets, 0), &from) && js_as_integer(js_at(offsets, 1), &to));
        assert_int_equal(from, end);
        end = from + size[0] * (size[1] ? size[1] : 1) * 4;
        assert_int_equal(to, end);
        assert_string_equal(c.table.items[i].name, expected[i].name);
        assert_memory_equal(c.data + from, c.saved + c.table.items[i].offset, (size_t)(to - from));
    }
    assert_int_equal(end, c.data_size);
}

/* A file as another program may write it is loaded too: another order of tensors, no metadata, blanks in the header. */
static void other_writers(void) {
    char header[1 << 14], *data = memory_make(c.data_size, 1, "data");
    size_t at = 0;
    strcpy(header, " {");
    for (size_t i = c.table.count; i-- > 0;) { /* from the last to the first */
        const Tensor *t = &c.table.items[i];
        char shape[64];
        snprintf(shape, sizeof shape, t->dimensions == 2 ? "%zu, %zu" : "%zu", t->size[0], t->size[1]);
        sprintf(header + strlen(header),
                "%s\n\"%s\": {\"data_offsets\": [%zu, %zu], \"shape\": [%s], \"dtype\": \"F32\"}", at ? "," : "",
                t->name, at, at + t->count * 4, shape);
        memcpy(data + at, c.saved + t->offset, t->count * 4);
        at += t->count * 4;
    }
    strcat(header, "}   ");
    const char *path = put_parts(strlen(header), header, strlen(header), data, at);
    load(path, &c.table, c.flat);
    for (size_t i = 0; i < c.table.count; i++)
        assert_memory_equal(c.flat + c.table.items[i].offset, c.saved + c.table.items[i].offset,
                            c.table.items[i].count * 4);
}

static void headers_refused(void) {
    const char *const entry = "{\"wte.weight\":{\"dtype\":\"F32\",\"shape\":[5,6],\"data_offsets\":[0,120]},";
    char twice[256];
    snprintf(twice, sizeof twice, "%s\"wpe.weight\":{},", entry);
    refuse_header("", "JSON");
    refuse_header("hello", "JSON");
    refuse_header("{\"wte.weight\":", "JSON");
    refuse_header("[]", "wte.weight");
    refuse_header("{}", "wte.weight");
    refuse_header("{} {}", "JSON");
    refuse_header(changed("{", "{", twice), ""); /* a key that comes twice */
    refuse_header(changed("ln_f.bias", "ln_f.bias", "ln_f.bios"), "ln_f.bias");
    refuse_header(changed("{", "{", "{\"h.1.ln_1.bias\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"),
                  "h.1.ln_1.bias");
    refuse_header(changed("wte.weight", "[5,6]", "[6,5]"), "wte.weight");
    refuse_header(changed("wpe.weight", "[4,6]", "[24]"), "wpe.weight");
    refuse_header(changed("wpe.weight", "[4,6]", "[4,6,1]"), "wpe.weight");
    refuse_header(changed("wpe.weight", "[4,6]", "[4.0,6]"), "wpe.weight");
    refuse_header(changed("wpe.weight", "[4,6]", "[-4,-6]"), "wpe.weight");
    refuse_header(changed("wpe.weight", "[4,6]", "\"4,6\""), "wpe.weight");
    refuse_header(changed("h.0.ln_2.bias", "\"shape\"", "\"form\""), "h.0.ln_2.bias");
    const char *const types[] = {"F16", "BF16", "F64", "I32", "f32", ""};
    for (size_t n = 0; n < COUNT_OF(types); n++)
        refuse_header(changed("h.0.mlp.c_fc.weight", "F32", types[n]), types[n]);
    refuse_header(changed("h.0.mlp.c_fc.weight", "\"F32\"", "32"), "h.0.mlp.c_fc.weight");
    refuse_header(changed("ln_f.bias", "{", "5,\"x\":{"), "ln_f.bias");
}

static void offsets_refused(void) {
    /* wte is 0..120, wpe 120..216, ln_1.weight 216..240, ln_1.bias 240..264. */
    const char *const bad[] = {"[120,215]",
                               "[120,220]",
                               "[216,120]",
                               "[-1,95]",
                               "[120]",
                               "[120,216,0]",
                               "[]",
                               "96",
                               "[120.0,216.0]",
                               "[4294967416,4294967512]",
                               "[9223372036854775711,9223372036854775807]",
                               "[-9223372036854775808,-9223372036854775712]",
                               "[\"120\",\"216\"]"};
    for (size_t n = 0; n < COUNT_OF(bad); n++) refuse_header(changed("wpe.weight", "[120,216]", bad[n]), "wpe.weight");
    refuse_header(changed("h.0.ln_1.bias", "[240,264]", "[216,240]"), "overlap");
    refuse_header(changed("h.0.ln_1.bias", "[240,264]", "[236,260]"), "h.0.ln_1.weight");
    refuse_header(changed("wpe.weight", "[120,216]", "[119,215]"), "overlap");
    char end[64], shifted[64], *longer = memory_make(c.data_size + 4, 1, "data");
    snprintf(end, sizeof end, "[%zu,%zu]", c.data_size - 24, c.data_size);
    snprintf(shifted, sizeof shifted, "[%zu,%zu]", c.data_size - 20, c.data_size + 4);
    const char *gap = changed("ln_f.bias", end, shifted);
    refuse_header(gap, "ln_f.bias"); /* beyond the file */
    memcpy(longer, c.data, c.data_size);
    refuse(put_parts(strlen(gap), gap, strlen(gap), longer, c.data_size + 4), "bytes");
    for (size_t more = 1; more <= 4; more++)
        refuse(put_parts(c.header_size, c.header, c.header_size, longer, c.data_size + more), "bytes");
}

static void cut_short(void) {
    const char *path = put_parts(c.header_size, c.header, c.header_size, c.data, c.data_size);
    load(path, &c.table, reals(c.table.flat));
    for (size_t size = c.size; size-- > 0;) {
        assert_int_equal(truncate(path, (off_t)size), 0);
        refuse(path, "");
    }
    const uint64_t lengths[] = {c.size - 7, c.size,     100u << 20,        (100u << 20) + 1,
                                1ull << 32, 1ull << 63, UINT64_MAX,        UINT64_MAX - 7,
                                0,          1,          c.header_size - 1, c.header_size + 1};
    for (size_t n = 0; n < COUNT_OF(lengths); n++)
        if (lengths[n] != c.header_size - 1 || c.header[c.header_size - 1] != ' ')
            refuse(put_parts(lengths[n], c.header, c.header_size, c.data, c.data_size), "");
    refuse(in("missing"), "missing");
    refuse(temporary, "directory");
}

/* Arrays of every type, of no dimension to four, with metadata. */
static void any_arrays(void) {
    static const float singles[24] = {1.5f, -0.0f, 3e38f}, scalar[1] = {7};
    static const double doubles[3] = {0.1, -1e300, 5e-324};
    static const double pair[2] = {-1, 7};
    float a[24], s[1];
    double b[3];
    double i[2];
    const NamedArray saved[] = {{"a", ARRAY_F32, 4, {1, 2, 3, 4}, (void *)singles},
                                {"b", ARRAY_F64, 1, {3}, (void *)doubles},
                                {"i", ARRAY_F64, 2, {1, 2}, (void *)pair},
                                {"none", ARRAY_F32, 2, {0, 5}, (void *)singles},
                                {"s", ARRAY_F32, 0, {0}, (void *)scalar}};
    NamedArray loaded[COUNT_OF(saved)];
    void *const places[] = {a, b, i, a, s};
    const Metadata metadata[] = {{"text", "naïve \"\n"}, {"step", "12"}};
    memcpy(loaded, saved, sizeof saved);
    for (size_t n = 0; n < COUNT_OF(saved); n++) loaded[n].data = places[n];
    assert_int_equal(named_array_bytes(&saved[0]), 96);
    write_file(in("any"), saved, COUNT_OF(saved), metadata, COUNT_OF(metadata));
    const SafetensorsFile file = safetensors_open(in("any"), 200);
    assert_string_equal(safetensors_metadata(&file, "text"), "naïve \"\n");
    assert_string_equal(safetensors_metadata(&file, "step"), "12");
    assert_null(safetensors_metadata(&file, "else"));
    safetensors_take(&file, loaded, COUNT_OF(loaded), "the test");
    assert_memory_equal(a, singles, sizeof a);
    assert_memory_equal(b, doubles, sizeof b);
    assert_memory_equal(i, pair, sizeof i);
    assert_true(s[0] == 7);
    assert_refused("the tensor s, which the test lacks",
                   safetensors_take(&file, loaded, COUNT_OF(loaded) - 1, "the test"));
    loaded[1].shape[0] = 2;
    assert_refused("b has another shape than in the test, where it is (2)",
                   safetensors_take(&file, loaded, COUNT_OF(loaded), "the test"));
    loaded[1].shape[0] = 3;
    loaded[2].type = ARRAY_F32;
    assert_refused("i is of type F64", safetensors_take(&file, loaded, COUNT_OF(loaded), "the test"));
    const NamedArray large = {"large", ARRAY_F64, 3, {SIZE_MAX / 8, 2, 2}, a};
    assert_true(named_array_bytes(&large) == SIZE_MAX);
}

int main(void) {
#define CHECKPOINT_TEST(function) TEST_WITH(function, make, temporary_leave)
    return RUN_TESTS(CHECKPOINT_TEST(file_layout), CHECKPOINT_TEST(other_writers), CHECKPOINT_TEST(headers_refused),
                     CHECKPOINT_TEST(offsets_refused), CHECKPOINT_TEST(cut_short), CHECKPOINT_TEST(any_arrays));
}
