#include "base/utf8.h"

size_t utf8_decode(const char *text, size_t size, uint32_t *character) {
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *bytes = (const unsigned char *)text;
    if (size == 0) return 0;
    size_t length = bytes[0] < 0x80       ? 1
                    : bytes[0] >> 5 == 6  ? 2
                    : bytes[0] >> 4 == 14 ? 3
                    : bytes[0] >> 3 == 30 ? 4
                                          : 0;
    if (length == 0 || length > size) return 0;
    uint32_t c = length == 1 ? bytes[0] : bytes[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (bytes[i] >> 6 != 2) return 0;
        c = c << 6 | (bytes[i] & 0x3Fu);
    }
    if (c < smallest[length] || c >= UTF8_CODES || (c >= 0xD800 && c <= 0xDFFF)) return 0;
    *character = c;
    return length;
}

size_t utf8_encode(uint32_t c, char out[5]) {
    size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned first[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = length - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(first[length] | c);
    out[length] = 0;
    return length;
}

size_t utf8_columns(const char *text, size_t size) {
    size_t columns = 0;
    for (size_t i = 0; i < size; i++) columns += ((unsigned char)text[i] & 0xC0u) != 0x80;
    return columns;
}
