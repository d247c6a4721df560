/* Snapshots of attention, and the pictures drawn from them: the file has what the model computes, a file that does not
   belong to the run is refused, and a finished run's pictures are drawn again to the byte. */
#include "training.h"

#include "base/safetensors.h"
#include "model/measure.h"
#include "run/pictures.h"
#include "run/snapshot.h"

static Run run;

/* The last snapshot is of the parameters that the run ends with: its scores and weights are worked out again, a weight
   from the scores by its definition. */
static void of_the_model(void) {
    CONFIGURE("model.layers=2", "attention.scale_divisor=3", "train.steps=10", "log.attention_text=the naïve keys");
    train("run", 1);
    const Snapshot snapshot = snapshot_load(in("run"), &config, 10);
    assert_true(snapshot.L == 2 && snapshot.H == 2 && snapshot.T == 14 && snapshot.step == 10);
    assert_int_equal(snapshot.text[6], 0xEF); /* ï */
    Model model;
    run_open(&run, in("run"), NULL, 0, false);
    run_load_model(&run, &model, 1, 1);
    int32_t ids[14];
    for (size_t i = 0; i < 14; i++) ids[i] = vocabulary_id(&run.vocabulary, snapshot.text[i]);
    model_forward(&model, &(Batch){.tokens = ids, .B = 1, .T = 14});
    for (size_t head = 0; head < 4; head++) {
        const float *scores = snapshot.attention.scores + head * 14 * 14,
                    *weights = snapshot_weights(&snapshot, head / 2, head % 2);
        const size_t stride = 3 * 32;
        for (size_t i = 0; i < 14; i++) {
            const real *q = model.blocks[head / 2].qkv.values + i * stride + head % 2 * 16;
            double sum = 0;
            for (size_t j = 0; j <= i; j++) {
                const real *k = model.blocks[head / 2].qkv.values + j * stride + 32 + head % 2 * 16;
                assert_close(scores[i * 14 + j], dot(q, k, 16), 1e-4, "score %zu, %zu of head %zu", i, j, head);
                sum += exp((double)scores[i * 14 + j] / 3);
            }
            for (size_t j = 0; j < 14; j++) {
                double expected = j <= i ? exp((double)scores[i * 14 + j] / 3) / sum : 0;
                assert_close(weights[i * 14 + j], expected, 1e-5, "weight %zu, %zu of head %zu", i, j, head);
                if (j > i) assert_true(scores[i * 14 + j] == 0 && weights[i * 14 + j] == 0);
            }
        }
    }
}

static void metadata(void) {
    CONFIGURE("train.steps=1", "log.attention_text=\"keys\\nand\"", "attention.scale_divisor=none");
    train("run", 1);
    const SafetensorsFile file = safetensors_open(in("run/attention/step000001.safetensors"), 1 << 20);
    assert_string_equal(safetensors_metadata(&file, "step"), "1");
    assert_string_equal(safetensors_metadata(&file, "text"), "keys\nand");
    assert_null(safetensors_metadata(&file, "author"));
    CONFIGURE("train.steps=1", "log.attention_text=the keys and queries"); /* of which the context shows 16 */
    train("long", 1);
    assert_int_equal(snapshot_load(in("long"), &config, 1).T, 16);
}

static void refused(void) {
    size_t size;
    CONFIGURE("train.steps=1", "log.attention_text=keys");
    train("run", 1);
    const char *path = "run/attention/step000001.safetensors", *whole = contents(in(path), &size);
    assert_refused("step000002", snapshot_load(in("run"), &config, 2));
    config.model.heads = 4;
    assert_refused("another shape", snapshot_load(in("run"), &config, 1));
    config.model.heads = 2;
    for (size_t cut = 0; cut < size; cut += 7) {
        put(path, whole, cut);
        assert_refused("step000001.safetensors", snapshot_load(in("run"), &config, 1));
    }
    static const char *const changes[][3] = {{"\"step\":\"1\"", "\"step\":\"7\"", "is not of step 1"},
                                             {"\"step\":\"1\"", "\"step\":\"x\"", "is not of step 1"},
                                             {"\"text\":\"keys\"", "\"text\":\"key\" ", "shape"},
                                             {"\"text\":\"keys\"", "\"test\":\"keys\"", "lacks its text"},
                                             {"\"scores\"", "\"scares\"", "scores"},
                                             {"\"sink\"", "\"mink\"", "has no tensor sink"}};
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        char *changed = memory_make(size, 1, "a file");
        memcpy(changed, whole, size);
        char *place = memmem(changed, size, changes[i][0], strlen(changes[i][0]));
        assert_non_null(place);
        memcpy(place, changes[i][1], strlen(changes[i][1]));
        put(path, changed, size);
        assert_refused(changes[i][2], snapshot_load(in("run"), &config, 1));
    }
    put(path, whole, size);
    snapshot_load(in("run"), &config, 1);
}

/* Every picture of a finished run, from its logs and snapshots alone: resume draws them again as they were. */
static void drawn_again(void) {
    static const char *const names[] = {"run/loss.png", "run/attention/step000000_layer1.png",
                                        "run/attention/step000003_layer0.png", "run/attention/step000006_layer1.png"};
    const char *before[COUNT_OF(names)];
    size_t sizes[COUNT_OF(names)], size;
    const TrainOptions options = {.command_line = "resume", .progress = progress_make(stderr, true)};
    CONFIGURE("model.layers=2", "train.steps=6", "log.attention_every=3");
    train("run", 1);
    const char *json = contents(in("run/run.json"), NULL);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        before[i] = contents(in(names[i]), &sizes[i]);
        assert_int_equal(remove(in(names[i])), 0);
    }
    const size_t mark = memory_mark();
    assert_true(run_loop(trainer_resume(in("run"), NULL, 0, &options))->had_finished);
    memory_release(mark);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const char *after = contents(in(names[i]), &size);
        assert_that(size == sizes[i] && memcmp(before[i], after, size) == 0, "%s", names[i]);
    }
    assert_string_equal(contents(in("run/run.json"), NULL), json);
    assert_int_equal(remove(in("run/attention/step000003.safetensors")), 0);
    assert_refused("step000003.safetensors", run_loop(trainer_resume(in("run"), NULL, 0, &options)));
}

/* attention.csv's rows are the labels: a head without one is not drawn as if it had. */
static void without_a_row(void) {
    CONFIGURE("train.steps=1");
    train("run", 1);
    run_open(&run, in("run"), NULL, 0, true);
    picture_attention(&run, 1);
    char *csv = contents(in("run/attention.csv"), NULL);
    *(strrchr(csv, '\n')) = 0;
    *(strrchr(csv, '\n') + 1) = 0;
    put_text("run/attention.csv", csv);
    assert_refused("no row of step 1, layer 0, head 1", picture_attention(&run, 1));
}

/* More heads than one picture can show: the first of them are drawn, and training continues. */
static void many_heads(void) {
    CONFIGURE("train.steps=1", "model.heads=64", "model.d_k=1", "model.context=48", "log.attention_every=0");
    train("run", 1);
    assert_true(path_exists(in("run/attention/step000001_layer0.png")));
}

int main(void) {
    return RUN_TESTS(TRAINING_TEST(of_the_model), TRAINING_TEST(metadata), TRAINING_TEST(refused),
                     TRAINING_TEST(drawn_again), TRAINING_TEST(without_a_row), TRAINING_TEST(many_heads));
}
