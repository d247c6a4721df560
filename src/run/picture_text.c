/* The text of a run's heatmaps. */
#include <string.h>

#include "base/text.h"
#include "run/pictures.h"

/* The arguments of encode_wanted, and its result. */
typedef struct {
    const Config *config;
    const Corpus *corpus;
    PictureText *text;
} WantedText;

static void encode_wanted(void *wanted) {
    const WantedText *w = wanted;
    const char *text = w->config->log.attention_text;
    w->text->length = vocabulary_encode(&w->corpus->vocabulary, "log.attention_text", text, strlen(text), w->text->ids,
                                        SNAPSHOT_TEXT_MAX);
}

PictureText picture_text(const Config *config, const Corpus *corpus, size_t T) {
    PictureText t = {0};
    int32_t targets[SNAPSHOT_TEXT_MAX];
    Error why;
    const bool given = *config->log.attention_text;
    if (given && protect(encode_wanted, &(WantedText){config, corpus, &t}, &why)) {
        char first[64] = "", shown[64];
        if (t.length > T) {
            snprintf(first, sizeof first, "the first %zu characters of ", T);
            t.length = T;
        }
        text_clip(config->log.attention_text, 50, shown, sizeof shown);
        for (char *end = shown; (end = strchr(end, '\n')) != NULL;) *end = ' ';
        snprintf(t.note, sizeof t.note, "pictures show %slog.attention_text: %s", first, shown);
    } else {
        if (given) snprintf(t.note, sizeof t.note, "pictures show validation text instead: %.400s", why.message);
        t.length = T < SNAPSHOT_TEXT_MAX ? T : SNAPSHOT_TEXT_MAX;
        corpus_window(corpus, 0, t.length, t.ids, targets);
    }
    for (size_t i = 0; i < t.length; i++) t.characters[i] = corpus->vocabulary.characters[t.ids[i]];
    return t;
}
